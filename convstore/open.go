package convstore

import (
	"jp/convstore/internal/db"
	"jp/convstore/internal/file"
)

// base is a store as its transactions use it: the folder, and bbolt in it.
type base struct {
	db.Base
}

// patiently returns the base as a run uses it.
func (f *base) patiently() *base {
	p := *f
	p.Patient = true
	return &p
}

// busy returns a *BusyError for a lock in the folder that is held.
func busy(err error) error {
	if held, ok := err.(*file.BusyError); ok {
		return &BusyError{ID: ID(held.Run), Holder: held.Holder, Reads: held.Reads, Waited: held.Waited}
	}
	return err
}

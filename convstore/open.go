package convstore

import (
	"jp/convstore/internal/db"
	"jp/convstore/internal/file"
)

// base is the folder of a store and the bbolt file in it. Transactions begin here.
type base struct {
	db.Base
	stops *file.Stops // shared with copies of this base
}

// patiently returns a base that waits for the store as a run does.
func (f *base) patiently() *base {
	p := *f
	p.Patient = true
	return &p
}

// busy turns a *file.BusyError into a *BusyError.
func busy(err error) error {
	if held, ok := err.(*file.BusyError); ok {
		return &BusyError{ID: ID(held.Run), Holder: held.Holder, Reads: held.Reads, Waited: held.Waited}
	}
	return err
}

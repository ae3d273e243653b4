package db

import (
	"errors"
	"fmt"
)

// ErrReadOnly is returned by every writing method of a store that was opened with Options.ReadOnly.
var ErrReadOnly = errors.New("store: opened for reading only")

// ErrNoStore is returned by methods that need the store's file, if nothing was ever written.
var ErrNoStore = errors.New("store: not made yet")

// SchemaError says that the store was written by a newer version of this package (Have > Want), or
// that it is older and may only be read (Have < Want).
type SchemaError struct {
	Path       string
	Have, Want int
}

func (e *SchemaError) Error() string {
	if e.Have > e.Want {
		return fmt.Sprintf("store %s: written by a newer version (schema %d, this one knows %d)", e.Path, e.Have, e.Want)
	}
	return fmt.Sprintf("store %s: schema %d must first be brought to %d by a command that writes", e.Path, e.Have, e.Want)
}

// DamagedError says that the file at Path is damaged or not a store. The file was not changed.
type DamagedError struct {
	Path string
	Err  error
}

func (e *DamagedError) Error() string { return fmt.Sprintf("store %s: damaged: %v", e.Path, e.Err) }

// Unwrap returns what is wrong.
func (e *DamagedError) Unwrap() error { return e.Err }

package convstore

import (
	"errors"
	"fmt"
	"time"

	"jp/convstore/internal/db"
	"jp/convstore/internal/file"
)

// ErrClosed is returned by the methods of a Log that was closed.
var ErrClosed = errors.New("conversation log: closed")

// ErrReadOnly is returned by every writing method of a store that was opened with Options.ReadOnly.
var ErrReadOnly = db.ErrReadOnly

// ErrNoStore is returned by methods that need the store's file, if nothing was ever written.
var ErrNoStore = db.ErrNoStore

// SchemaError says that the store was written by a newer version of this package (Have > Want), or
// that it is older and may only be read (Have < Want).
type SchemaError = db.SchemaError

// DamagedError says that the file at Path is damaged or not a store. The file was not changed.
type DamagedError = db.DamagedError

// NotFoundError says that nothing has the name that was asked for. ID is set if the name was well
// formed; otherwise What is the name as it was given.
type NotFoundError struct {
	ID   ID
	What string
}

func (e *NotFoundError) Error() string {
	switch {
	case e.ID != 0 && e.What != "":
		return fmt.Sprintf("conversation %s: %s: not found", e.ID, e.What)
	case e.ID != 0:
		return fmt.Sprintf("conversation %s: not found", e.ID)
	case e.What == "":
		return "conversation: no id given"
	}
	return fmt.Sprintf("conversation %q: not found", e.What)
}

// ScopeError says that a conversation is not a strict descendant of Root by the links that the
// scope follows. Root itself is outside its scope. In the scope of an agent, a conversation that
// does not exist gives the same error.
type ScopeError struct {
	ID   ID
	Root ID
}

func (e *ScopeError) Error() string {
	return fmt.Sprintf("conversation %s: not below %s", e.ID, e.Root)
}

// BusyError says that another process holds a lock: the run lock of the conversation ID or, if ID
// is zero, the lock of the store.
type BusyError struct {
	ID     ID
	Holder string        // process that holds it; "" = not known
	Reads  bool          // Holder only reads the store, and so keeps only writers out
	Waited time.Duration // zero when nobody waited
	Away   time.Duration // time for which another machine may still run the conversation; zero = none does
}

func (e *BusyError) Error() string {
	msg := "store: busy"
	if e.Away > 0 {
		return fmt.Sprintf("conversation %s: may still run on another machine, for %v at most", e.ID, max(e.Away.Round(time.Second), time.Second))
	}
	if e.ID != 0 {
		msg = fmt.Sprintf("conversation %s: running", e.ID)
	}
	if e.Waited > 0 {
		msg += fmt.Sprintf(" after waiting %v", e.Waited.Round(time.Millisecond))
	}
	if e.Holder != "" {
		msg += ": held by " + file.HeldBy(e.Holder, e.Reads)
	}
	return msg
}

// Unwrap returns the error of package file that says the same.
func (e *BusyError) Unwrap() error {
	return &file.BusyError{Run: int64(e.ID), Holder: e.Holder, Reads: e.Reads, Waited: e.Waited}
}

// LimitsError says that the terms of a person would change the limits of the session of ID while
// there is work within them for By; or raise those of an open turn, if By is zero.
type LimitsError struct{ ID, By ID }

func (e *LimitsError) Error() string {
	if e.By == 0 {
		return fmt.Sprintf("conversation %s: its turn is open: limits of its session only become lower", e.ID)
	}
	return fmt.Sprintf("conversation %s: limits of its session stay as they are while there is work for %s", e.ID, e.By)
}

// ChildrenError says that a conversation was not removed because it has children and RemoveOptions
// did not say what to do with them.
type ChildrenError struct {
	ID       ID
	Children int // direct children
}

func (e *ChildrenError) Error() string {
	noun := "children"
	if e.Children == 1 {
		noun = "child"
	}
	return fmt.Sprintf("conversation %s: has %d %s", e.ID, e.Children, noun)
}

// CycleError says that Parent cannot become the parent of a conversation, because it is that
// conversation or below it.
type CycleError struct {
	ID, Parent ID
}

func (e *CycleError) Error() string {
	if e.ID == e.Parent {
		return fmt.Sprintf("conversation %s: cannot be its own parent", e.ID)
	}
	return fmt.Sprintf("conversation %s: cannot go below %s, which is below it", e.ID, e.Parent)
}

// RangeError says that there is no turn with the number that was asked for.
type RangeError struct {
	ID    ID
	Range Range
	Turns int // how many there are
}

func (e *RangeError) Error() string {
	return fmt.Sprintf("conversation %s: no turn %s: it has %d", e.ID, e.Range, e.Turns)
}

package file

import (
	"errors"
	"fmt"
	"os"
	"time"
)

// Run locks. Holding its run lock makes a process the run of a conversation: it guards the event
// stream. The lock belongs to an open file description, and so stays with whoever inherits the
// descriptor until the last copy of it is closed; the kernel sees to that for a process that dies.
// The files that carry the locks are never unlinked, so that no two processes ever lock different
// files of one name.

// errHeld says that somebody else holds a run lock.
var errHeld = errors.New("run lock: held")

// BusyError says that someone else holds the lock of the store or, where Run is not zero, a run
// lock.
type BusyError struct {
	Run    int64
	Holder string // as far as the system tells; "" when it does not
	Reads  bool
	Waited time.Duration
}

func (e *BusyError) Error() string {
	if e.Run != 0 {
		return fmt.Sprintf("run lock %d: held", e.Run)
	}
	return "store: locked"
}

// TakeRun takes a run lock without waiting, or fails with a *BusyError.
func (f *Folder) TakeRun(id int64) (*os.File, error) {
	file, err := f.tryRun(id)
	if err == errHeld {
		return nil, &BusyError{Run: id, Holder: f.RunHolder(id)}
	}
	return file, err
}

// AdoptRun verifies that an inherited descriptor is the one that holds the run lock of id. Where
// another one does it fails with a *BusyError.
func (f *Folder) AdoptRun(file *os.File, id int64) error {
	err := f.tryAdopt(file, id)
	if err == errHeld {
		return &BusyError{Run: id, Holder: f.RunHolder(id)}
	}
	return err
}

// DropRun ends the hold on run locks that no other process goes on to use.
//
// Closing alone would not do. While any goroutine starts a process, there is for an instant a copy
// of every descriptor in that process, on its way to exec, and with it the lock.
func DropRun(file *os.File) error {
	return errors.Join(unlockRuns(file), file.Close())
}

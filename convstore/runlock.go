package convstore

import (
	"errors"
	"fmt"
	"os"
	"time"
)

// Run locks. Holding its run lock makes a process the run of a conversation: it
// guards the event stream. The lock belongs to an open file description, and so
// stays with whoever inherits the descriptor until the last copy of it is closed;
// the kernel sees to that for a process that dies. The files that carry the locks
// are never unlinked, so that no two processes ever lock different files of one
// name.

// errHeld says that somebody else holds a run lock.
var errHeld = errors.New("run lock: held")

// lockedError says that someone else holds the lock of the store or, where run is not zero, a run lock.
type lockedError struct {
	run    int64
	holder string // as far as the system tells; "" when it does not
	reads  bool
	waited time.Duration
}

func (e *lockedError) Error() string {
	if e.run != 0 {
		return fmt.Sprintf("run lock %d: held", e.run)
	}
	return "store: locked"
}

// takeRun takes a run lock without waiting, or fails with a *lockedError.
func (f *folder) takeRun(id int64) (*os.File, error) {
	file, err := f.tryRun(id)
	if err == errHeld {
		return nil, &lockedError{run: id, holder: f.runHolder(id)}
	}
	return file, err
}

// adoptRun verifies that an inherited descriptor is the one that holds the run
// lock of id. Where another one does it fails with a *lockedError.
func (f *folder) adoptRun(file *os.File, id int64) error {
	err := f.tryAdopt(file, id)
	if err == errHeld {
		return &lockedError{run: id, holder: f.runHolder(id)}
	}
	return err
}

// dropRun ends the hold on run locks that no other process goes on to use.
//
// Closing alone would not do. While any goroutine starts a process, there is for
// an instant a copy of every descriptor in that process, on its way to exec, and
// with it the lock.
func dropRun(file *os.File) error {
	return errors.Join(unlockRuns(file), file.Close())
}

package file

import (
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// Run locks. The process that holds the run lock of a conversation runs it, and only that process
// may append events. The lock belongs to an open file description: a process that inherits the
// descriptor holds the lock too, and it is free when the last copy is closed. The kernel closes the
// copies of a process that dies. The lock files are never removed, so that no two processes lock
// different files of one name.

// errHeld says that another process holds a run lock.
var errHeld = errors.New("run lock: held")

// BusyError says that another process holds the lock of the store or, if Run is not zero, a run
// lock.
type BusyError struct {
	Run    int64
	Holder string // process that holds it; "" = not known
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
	file, err := f.try(RunsName, id)
	if err == errHeld {
		return nil, &BusyError{Run: id, Holder: f.RunHolder(id)}
	}
	return file, err
}

// ProbeRuns returns what reports which run locks are held.
func (f *Folder) ProbeRuns() (*RunProbe, error) { return f.probe(RunsName) }

// DropRun releases the run locks of a descriptor, of which no other process needs a copy, and
// closes it.
//
// To close it is not enough. While a goroutine starts a process, that process has copies of all
// descriptors until its exec, and so it holds the lock for an instant.
func DropRun(file *os.File) error {
	return errors.Join(unlockRuns(file), file.Close())
}

// Duplicate returns another descriptor of an open file that holds a lock. The lock is held until
// both are closed.
func Duplicate(held *os.File) (*os.File, error) {
	fd, err := unix.FcntlInt(held.Fd(), unix.F_DUPFD_CLOEXEC, 3)
	if err != nil {
		return nil, fmt.Errorf("run lock: %w", err)
	}
	return os.NewFile(uintptr(fd), held.Name()), nil
}

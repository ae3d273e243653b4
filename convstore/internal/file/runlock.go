package file

import (
	"errors"
	"fmt"
	"os"
	"sync/atomic"
	"time"
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

// SharedRun is a run lock that several values of this process hold by one descriptor: at each exec
// the kernel looks through all locks of the file for each descriptor that is closed. The lock is
// held until all have left it or one has dropped it.
type SharedRun struct {
	file *os.File
	by   atomic.Int32 // values that hold it
}

// ShareRun returns the lock of a descriptor, held once. It owns the descriptor.
func ShareRun(file *os.File) *SharedRun {
	s := &SharedRun{file: file}
	s.by.Store(1)
	return s
}

// Share holds the lock once more.
func (s *SharedRun) Share() *SharedRun {
	s.by.Add(1)
	return s
}

// File returns the descriptor, for a process that inherits it.
func (s *SharedRun) File() *os.File { return s.file }

// Leave ends one hold, and with the last one closes the descriptor.
func (s *SharedRun) Leave() error {
	if s.by.Add(-1) > 0 {
		return nil
	}
	return s.file.Close()
}

// Drop is Leave that releases the lock for all who hold it, as DropRun does.
func (s *SharedRun) Drop() error { return errors.Join(unlockRuns(s.file), s.Leave()) }

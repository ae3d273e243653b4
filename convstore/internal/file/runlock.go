package file

import (
	"errors"
	"fmt"
	"sync/atomic"
	"time"
)

// Run locks. The process that holds the run lock of a conversation runs it, and only that process
// may append events. A process that it starts can hold the lock too, by a descriptor of its own:
// the lock is free when both have freed it or have died. The lock files are never removed, so that
// no two processes lock different files of one name.

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
func (f *Folder) TakeRun(id int64) (*RunLock, error) {
	lock, err := f.take(f.runs, id)
	if err == errHeld {
		return nil, &BusyError{Run: id, Holder: f.RunHolder(id)}
	}
	return lock, err
}

// take takes a lock of a file without waiting. If it is held, it fails with errHeld.
func (f *Folder) take(of *lockSet, id int64) (*RunLock, error) {
	lock, err := of.take(id)
	switch {
	case err == nil:
		lock.by.Store(1)
	case err != errHeld:
		err = f.SystemError(err)
	}
	return lock, err
}

// Idle fails with a *BusyError if anybody holds a run lock, of any conversation.
func (f *Folder) Idle() error {
	probe, err := f.ProbeRuns()
	if err != nil {
		return err
	}
	defer probe.Close()
	held, err := probe.All()
	if len(held) > 0 {
		return &BusyError{Holder: f.RunHolder(held[0])}
	}
	return err
}

// ProbeRuns returns what reports which run locks are held.
func (f *Folder) ProbeRuns() (*RunProbe, error) { return f.probe(RunsName) }

// HeldRuns returns the ids of all run locks that are held, in order.
func (f *Folder) HeldRuns() ([]int64, error) {
	probe, err := f.ProbeRuns()
	if err != nil {
		return nil, err
	}
	defer probe.Close()
	return probe.All()
}

// RunLock is a run lock that this process holds, for as many values as share it. It is held until
// all have left it or one has dropped it.
type RunLock struct {
	heldLock
	by atomic.Int32 // values that hold it
}

// Share holds the lock once more.
func (l *RunLock) Share() *RunLock {
	l.by.Add(1)
	return l
}

// Leave ends one hold. After the last one only a process with a descriptor of Heir holds the lock.
func (l *RunLock) Leave() error {
	if l.by.Add(-1) > 0 {
		return nil
	}
	return l.leave()
}

// Drop ends one hold, and frees the lock for all others in this process too.
func (l *RunLock) Drop() error { return errors.Join(l.free(), l.Leave()) }

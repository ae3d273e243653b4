//go:build !linux

package file

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"
)

// Without OFD locks each conversation has its own lock file with an flock. Two guarantees are
// weaker than on Linux. A status probe must take the lock for an instant, and another process that
// tries to take it at that moment finds it held. And a program that was started with a copy of the
// descriptor by mistake keeps the lock held.

// lockName returns the name of a lock's file, which is the conversation's id.
func lockName(id int64) string { return "jp-c" + strconv.FormatInt(id, 10) }

func (f *Folder) runPath(id int64) string { return filepath.Join(f.Path(RunsName), lockName(id)) }

// tryRun takes the run lock of a conversation without waiting. If another process holds it, it
// returns errHeld.
func (f *Folder) tryRun(id int64) (*os.File, error) {
	if err := os.MkdirAll(f.Path(RunsName), 0o700); err != nil {
		return nil, f.SystemError(err)
	}
	file, err := OpenOwn(f.runPath(id), os.O_RDWR|os.O_CREATE)
	if err != nil {
		return nil, f.SystemError(err)
	}
	switch err = Flock(file, unix.LOCK_EX|unix.LOCK_NB); err {
	case nil:
		return file, nil
	case unix.EWOULDBLOCK:
		err = errHeld
	default:
		err = f.SystemError(os.NewSyscallError("flock", err))
	}
	file.Close()
	return nil, err
}

// unlockRuns releases the run lock of a descriptor, also for processes that have a copy of it.
func unlockRuns(file *os.File) error { return Flock(file, unix.LOCK_UN) }

// RunProbe reports which run locks are held.
type RunProbe struct{ f *Folder }

func (f *Folder) ProbeRuns() (*RunProbe, error) { return &RunProbe{f}, nil }

func (p *RunProbe) Close() {}

// ReadAll does nothing: without OFD locks many locks cannot be read at once.
func (p *RunProbe) ReadAll() error { return nil }

func (p *RunProbe) Held(id int64) (bool, error) {
	file, err := OpenOwn(p.f.runPath(id), os.O_RDONLY)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, p.f.SystemError(err)
	}
	defer file.Close()
	err = Flock(file, unix.LOCK_SH|unix.LOCK_NB)
	if err == unix.EWOULDBLOCK {
		return true, nil
	}
	if err != nil {
		return false, p.f.SystemError(os.NewSyscallError("flock", err))
	}
	return false, nil
}

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

// Without OFD locks each conversation has a lock file of its own and an flock on it. Two guarantees
// are weaker than on Linux: a status probe has to take the lock for an instant, so that somebody
// who asks for it right then may be told that the conversation runs; and a program that was started
// with a copy of the descriptor by mistake keeps the conversation running.

// lockName names the file of a lock, as the conversation is named.
func lockName(id int64) string { return "jp-c" + strconv.FormatInt(id, 10) }

func (f *Folder) runPath(id int64) string { return filepath.Join(f.Path(RunsName), lockName(id)) }

// tryRun takes the run lock of a conversation without waiting. When somebody else holds it, it
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

// unlockRuns gives up the run lock of a descriptor, whoever else has a copy of it.
func unlockRuns(file *os.File) error { return Flock(file, unix.LOCK_UN) }

// tryAdopt verifies that an inherited descriptor is the one that holds the run lock of id: the same
// file by device and inode, a lock that others see held, and that this description can take again,
// which only its owner can.
func (f *Folder) tryAdopt(file *os.File, id int64) error {
	mine, err := file.Stat()
	if err != nil {
		return f.SystemError(err)
	}
	ours, err := os.Lstat(f.runPath(id))
	if err != nil || !os.SameFile(mine, ours) {
		return errors.New("run lock: not of this store and conversation")
	}
	probe := RunProbe{f: f}
	if held, err := probe.Held(id); err != nil || !held {
		return errors.Join(err, errors.New("run lock: the descriptor does not hold it"))
	}
	err = Flock(file, unix.LOCK_EX|unix.LOCK_NB)
	if err == unix.EWOULDBLOCK {
		return errHeld
	}
	if err != nil {
		return f.SystemError(os.NewSyscallError("flock", err))
	}
	unix.CloseOnExec(int(file.Fd()))
	return nil
}

// RunProbe tells which run locks are held.
type RunProbe struct{ f *Folder }

func (f *Folder) ProbeRuns() (*RunProbe, error) { return &RunProbe{f}, nil }

func (p *RunProbe) Close() {}

// ReadAll prepares for many questions; here it cannot make them cheaper.
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

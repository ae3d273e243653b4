//go:build !linux

package convstore

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"
)

// Without OFD locks each conversation has a lock file of its own and an flock on
// it. Two guarantees are weaker than on Linux: a status probe has to take the
// lock for an instant, so that somebody who asks for it right then may be told
// that the conversation runs; and a program that was started with a copy of the
// descriptor by mistake keeps the conversation running.

// lockName names the file of a lock, as the conversation is named.
func lockName(id int64) string { return "jp-c" + strconv.FormatInt(id, 10) }

func (f *folder) runPath(id int64) string { return filepath.Join(f.path(fileRuns), lockName(id)) }

// tryRun takes the run lock of a conversation without waiting. When somebody else
// holds it, it returns errHeld.
func (f *folder) tryRun(id int64) (*os.File, error) {
	if err := os.MkdirAll(f.path(fileRuns), 0o700); err != nil {
		return nil, f.systemError(err)
	}
	file, err := openOwn(f.runPath(id), os.O_RDWR|os.O_CREATE)
	if err != nil {
		return nil, f.systemError(err)
	}
	switch err = flock(file, unix.LOCK_EX|unix.LOCK_NB); err {
	case nil:
		return file, nil
	case unix.EWOULDBLOCK:
		err = errHeld
	default:
		err = f.systemError(os.NewSyscallError("flock", err))
	}
	file.Close()
	return nil, err
}

// unlockRuns gives up the run lock of a descriptor, whoever else has a copy of it.
func unlockRuns(file *os.File) error { return flock(file, unix.LOCK_UN) }

// tryAdopt verifies that an inherited descriptor is the one that holds the run
// lock of id: the same file by device and inode, a lock that others see held, and
// that this description can take again, which only its owner can.
func (f *folder) tryAdopt(file *os.File, id int64) error {
	mine, err := file.Stat()
	if err != nil {
		return f.systemError(err)
	}
	ours, err := os.Lstat(f.runPath(id))
	if err != nil || !os.SameFile(mine, ours) {
		return errors.New("run lock: not of this store and conversation")
	}
	probe := runProbe{f: f}
	if held, err := probe.held(id); err != nil || !held {
		return errors.Join(err, errors.New("run lock: the descriptor does not hold it"))
	}
	err = flock(file, unix.LOCK_EX|unix.LOCK_NB)
	if err == unix.EWOULDBLOCK {
		return errHeld
	}
	if err != nil {
		return f.systemError(os.NewSyscallError("flock", err))
	}
	unix.CloseOnExec(int(file.Fd()))
	return nil
}

// runProbe tells which run locks are held.
type runProbe struct{ f *folder }

func (f *folder) probeRuns() (*runProbe, error) { return &runProbe{f}, nil }

func (p *runProbe) close() {}

// readAll prepares for many questions; here it cannot make them cheaper.
func (p *runProbe) readAll() error { return nil }

func (p *runProbe) held(id int64) (bool, error) {
	file, err := openOwn(p.f.runPath(id), os.O_RDONLY)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, p.f.systemError(err)
	}
	defer file.Close()
	err = flock(file, unix.LOCK_SH|unix.LOCK_NB)
	if err == unix.EWOULDBLOCK {
		return true, nil
	}
	if err != nil {
		return false, p.f.systemError(os.NewSyscallError("flock", err))
	}
	return false, nil
}

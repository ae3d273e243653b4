//go:build !linux

package file

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Without OFD locks each conversation has its own lock file with an flock. Two guarantees are
// weaker than on Linux. A status probe must take the lock for an instant, and another process that
// tries to take it at that moment finds it held. And a program that was started with a copy of the
// descriptor by mistake keeps the lock held.

// lockName returns the name of a lock's file, which is the conversation's id.
func lockName(id int64) string { return "jp-c" + strconv.FormatInt(id, 10) }

// lockSet is the folder of the locks of one name.
type lockSet struct{ dir string }

func newLockSet(dir string) *lockSet { return &lockSet{dir} }

// heldLock is one lock of a lockSet.
type heldLock struct{ file *os.File }

// take takes the lock of a conversation without waiting. If it is held, it fails with errHeld.
func (l *lockSet) take(id int64) (*RunLock, error) {
	if err := os.MkdirAll(l.dir, 0o700); err != nil {
		return nil, err
	}
	file, err := OpenOwn(filepath.Join(l.dir, lockName(id)), os.O_RDWR|os.O_CREATE)
	if err != nil {
		return nil, err
	}
	switch err = Flock(file, unix.LOCK_EX|unix.LOCK_NB); err {
	case nil:
		return &RunLock{heldLock: heldLock{file}}, nil
	case unix.EWOULDBLOCK:
		err = errHeld
	default:
		err = os.NewSyscallError("flock", err)
	}
	file.Close()
	return nil, err
}

// replaced would report that the folder is another one now. Nobody looks here.
func (l *lockSet) replaced() bool { return false }

// free frees the lock, also for processes that have a copy of the descriptor.
func (h *heldLock) free() error { return Flock(h.file, unix.LOCK_UN) }

// leave closes the descriptor. Copies of it still hold the lock.
func (h *heldLock) leave() error { return h.file.Close() }

// Heir returns a descriptor for one process that is started now, and that holds the lock until it
// ends or the lock is dropped here. The caller closes it when that process has it.
func (h *heldLock) Heir() (*os.File, error) {
	fd, err := unix.FcntlInt(h.file.Fd(), unix.F_DUPFD_CLOEXEC, 3)
	if err != nil {
		return nil, os.NewSyscallError("fcntl", err)
	}
	return os.NewFile(uintptr(fd), h.file.Name()), nil
}

// makeStops does nothing: the folder of stops is looked into again and again.
func (f *Folder) makeStops() error { return nil }

// RunProbe reports which locks of conversations are held.
type RunProbe struct{ dir string }

func (f *Folder) probe(name string) (*RunProbe, error) { return &RunProbe{f.Path(name)}, nil }

func (p *RunProbe) Close() {}

// ReadAll does nothing: without OFD locks many locks cannot be read at once.
func (p *RunProbe) ReadAll() error { return nil }

// All returns the ids of all locks that are held, in order.
func (p *RunProbe) All() (ids []int64, err error) {
	entries, err := os.ReadDir(p.dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	for _, e := range entries {
		digits, ok := strings.CutPrefix(e.Name(), "jp-c")
		id, err := strconv.ParseInt(digits, 10, 64)
		if !ok || err != nil {
			continue
		}
		held, err := p.Held(id)
		if err != nil {
			return nil, err
		}
		if held {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids, nil
}

func (p *RunProbe) Held(id int64) (bool, error) {
	file, err := OpenOwn(filepath.Join(p.dir, lockName(id)), os.O_RDONLY)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer file.Close()
	err = Flock(file, unix.LOCK_SH|unix.LOCK_NB)
	if err == unix.EWOULDBLOCK {
		return true, nil
	}
	if err != nil {
		return false, os.NewSyscallError("flock", err)
	}
	return false, nil
}

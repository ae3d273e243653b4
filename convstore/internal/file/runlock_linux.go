package file

import (
	"errors"
	"io/fs"
	"maps"
	"math"
	"os"
	"slices"
	"sync"

	"golang.org/x/sys/unix"
)

// One file has all run locks, another one what asks for stops: the lock of a conversation is an OFD
// lock on one byte, at the offset of its id. The file stays empty; the kernel can lock bytes beyond
// its end.
//
// All locks that a process takes from one Folder have one descriptor. At each exec the kernel
// closes the descriptors of the process that starts another, and for each that has a locked file it
// looks through all locks of that file. With a descriptor for each lock, the start of a sub-agent
// would take a time that grows with the square of the number of those that run.
//
// A process that is started gets a descriptor of its own, with a shared lock on the same byte. The
// lock of the process that starts it becomes a shared one too. Others take an exclusive lock, and
// so they find it held by either.

// lockSet are the locks that this process holds in one file.
type lockSet struct {
	path string

	mu    sync.Mutex
	file  *os.File // nil while none is held
	taken map[int64]*heldLock
}

func newLockSet(path string) *lockSet {
	return &lockSet{path: path, taken: map[int64]*heldLock{}}
}

// heldLock is one lock of a lockSet.
type heldLock struct {
	in *lockSet
	id int64
}

func wholeByte(kind int16, id int64) *unix.Flock_t {
	return &unix.Flock_t{Type: kind, Whence: unix.SEEK_SET, Start: id, Len: 1}
}

func ofd(file *os.File, cmd int, lock *unix.Flock_t) error {
	for {
		if err := unix.FcntlFlock(file.Fd(), cmd, lock); err != unix.EINTR {
			return err
		}
	}
}

// set sets the lock of a conversation in a descriptor without waiting. If another descriptor has a
// lock that excludes it, it fails with errHeld.
func set(file *os.File, kind int16, id int64) error {
	switch err := ofd(file, unix.F_OFD_SETLK, wholeByte(kind, id)); err {
	case nil:
		return nil
	case unix.EAGAIN, unix.EACCES:
		return errHeld
	default:
		return os.NewSyscallError("fcntl", err)
	}
}

// take takes the lock of a conversation without waiting. If it is held, it fails with errHeld.
func (l *lockSet) take(id int64) (*RunLock, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.taken[id] != nil {
		return nil, errHeld // to set it again would succeed
	}
	if l.file == nil {
		file, err := OpenOwn(l.path, os.O_RDWR|os.O_CREATE)
		if err != nil {
			return nil, err
		}
		l.file = file
	}
	if err := set(l.file, unix.F_WRLCK, id); err != nil {
		_ = l.closeIdle()
		return nil, err
	}
	lock := &RunLock{heldLock: heldLock{in: l, id: id}}
	l.taken[id] = &lock.heldLock
	return lock, nil
}

// replaced reports whether another file is now where the one is in which this process holds locks.
// Whoever takes these locks there does not find them held.
func (l *lockSet) replaced() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	there, err := os.Lstat(l.path)
	if l.file == nil || err != nil {
		return false
	}
	mine, err := l.file.Stat()
	return err == nil && !os.SameFile(mine, there)
}

func (l *lockSet) closeIdle() error {
	if len(l.taken) > 0 {
		return nil
	}
	file := l.file
	l.file = nil
	return file.Close()
}

// free frees the lock in this process. A second free does nothing.
func (h *heldLock) free() error {
	h.in.mu.Lock()
	defer h.in.mu.Unlock()
	if h.in.taken[h.id] != h {
		return nil
	}
	delete(h.in.taken, h.id)
	// To close the descriptor would not be enough. While a goroutine starts a process, that process
	// has a copy until its exec.
	return errors.Join(set(h.in.file, unix.F_UNLCK, h.id), h.in.closeIdle())
}

// leave is free: nobody else holds the lock by this descriptor.
func (h *heldLock) leave() error { return h.free() }

// Heir returns a descriptor for one process that is started now, and that holds the lock until it
// ends. The caller closes it when that process has it. Meanwhile it holds the lock as well.
func (h *heldLock) Heir() (_ *os.File, err error) {
	h.in.mu.Lock()
	defer h.in.mu.Unlock()
	if h.in.taken[h.id] != h {
		return nil, os.ErrClosed
	}
	file, err := OpenOwn(h.in.path, os.O_RDWR)
	if err != nil {
		return nil, err
	}
	if err = set(h.in.file, unix.F_RDLCK, h.id); err == nil {
		err = set(file, unix.F_RDLCK, h.id)
	}
	if err != nil {
		file.Close()
		return nil, err
	}
	return file, nil
}

// makeStops makes the file of stops.
func (f *Folder) makeStops() error {
	file, err := OpenOwn(f.Path(stopsName), os.O_RDWR|os.O_CREATE)
	if err != nil {
		return err
	}
	return file.Close()
}

// RunProbe reports which locks of conversations are held, without taking any.
type RunProbe struct {
	f    *Folder
	file *os.File // nil if no lock was ever taken
	all  map[int64]struct{}
}

func (f *Folder) probe(name string) (*RunProbe, error) {
	file, err := OpenOwn(f.Path(name), os.O_RDONLY)
	if errors.Is(err, fs.ErrNotExist) {
		return &RunProbe{f: f}, nil
	}
	if err != nil {
		return nil, f.SystemError(err)
	}
	return &RunProbe{f: f, file: file}, nil
}

func (p *RunProbe) Close() {
	if p.file != nil {
		p.file.Close()
	}
}

// Held reports whether the lock of a conversation is held. After ReadAll it returns what ReadAll
// found.
func (p *RunProbe) Held(id int64) (bool, error) {
	if p.all != nil {
		_, ok := p.all[id]
		return ok, nil
	}
	lock, err := p.conflict(id, id)
	return lock != nil, err
}

// ReadAll finds every held lock. Its time depends on the number of held locks and not on the number
// of conversations.
func (p *RunProbe) ReadAll() error {
	all := make(map[int64]struct{})
	// The kernel returns any lock in the range, not the first, so the ranges on both sides of it
	// must be asked for too.
	todo := [][2]int64{{1, math.MaxInt64}}
	for len(todo) > 0 {
		span := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		if span[0] > span[1] {
			continue
		}
		lock, err := p.conflict(span[0], span[1])
		if err != nil {
			return err
		}
		if lock == nil {
			continue
		}
		// The kernel merges neighbouring locks of one descriptor, so a lock may reach out of the
		// range.
		first, last := max(lock.Start, span[0]), int64(math.MaxInt64)
		if lock.Len > 0 {
			last = min(lock.Start+lock.Len-1, span[1])
		}
		if last-first > 1<<20 {
			return errors.New("run lock: somebody locked the whole file")
		}
		for id := first; ; id++ {
			all[id] = struct{}{}
			if id == last {
				break
			}
		}
		todo = append(todo, [2]int64{span[0], first - 1})
		if last < span[1] {
			todo = append(todo, [2]int64{last + 1, span[1]})
		}
	}
	p.all = all
	return nil
}

// All returns the ids of all locks that are held, in order.
func (p *RunProbe) All() ([]int64, error) {
	if p.all == nil {
		if err := p.ReadAll(); err != nil {
			return nil, err
		}
	}
	return slices.Sorted(maps.Keys(p.all)), nil
}

// conflict returns a lock within first to last that others hold, or nil.
func (p *RunProbe) conflict(first, last int64) (*unix.Flock_t, error) {
	if p.file == nil {
		return nil, nil
	}
	length := last - first + 1
	if last == math.MaxInt64 {
		length = 0 // to the end
	}
	lock := unix.Flock_t{Type: unix.F_WRLCK, Whence: unix.SEEK_SET, Start: first, Len: length}
	if err := ofd(p.file, unix.F_OFD_GETLK, &lock); err != nil {
		return nil, p.f.SystemError(os.NewSyscallError("fcntl", err))
	}
	if lock.Type == unix.F_UNLCK {
		return nil, nil
	}
	return &lock, nil
}

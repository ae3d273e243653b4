package file

import (
	"errors"
	"io/fs"
	"maps"
	"math"
	"os"
	"slices"

	"golang.org/x/sys/unix"
)

// One file has all run locks, another one what asks for stops: the lock of a conversation is an OFD lock on one byte, at the offset
// of its id. The file stays empty; the kernel can lock bytes beyond its end.

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

// try takes the lock of a conversation in the file of this name without waiting. If another process
// holds it, it returns errHeld.
func (f *Folder) try(name string, id int64) (*os.File, error) {
	file, err := OpenOwn(f.Path(name), os.O_RDWR|os.O_CREATE)
	if err != nil {
		return nil, f.SystemError(err)
	}
	err = ofd(file, unix.F_OFD_SETLK, wholeByte(unix.F_WRLCK, id))
	if err == nil {
		return file, nil
	}
	file.Close()
	if err == unix.EAGAIN || err == unix.EACCES {
		return nil, errHeld
	}
	return nil, f.SystemError(os.NewSyscallError("fcntl", err))
}

// makeStops makes the file of stops.
func (f *Folder) makeStops() error {
	file, err := OpenOwn(f.Path(stopsName), os.O_RDWR|os.O_CREATE)
	if err != nil {
		return err
	}
	return file.Close()
}

// unlockRuns releases every run lock of a descriptor, also for processes that have a copy of it.
func unlockRuns(file *os.File) error {
	return ofd(file, unix.F_OFD_SETLK, &unix.Flock_t{Type: unix.F_UNLCK, Whence: unix.SEEK_SET})
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

package file

import (
	"errors"
	"io/fs"
	"math"
	"os"

	"golang.org/x/sys/unix"
)

// One file holds all run locks: the lock of a conversation is an OFD lock on the single byte at the
// offset that its id names. The file stays empty, the kernel locks bytes that are not there.

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

// tryRun takes the run lock of a conversation without waiting. When somebody else holds it, it
// returns errHeld.
func (f *Folder) tryRun(id int64) (*os.File, error) {
	file, err := OpenOwn(f.Path(RunsName), os.O_RDWR|os.O_CREATE)
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

// unlockRuns gives up every run lock of a descriptor, whoever else has a copy of it.
func unlockRuns(file *os.File) error {
	return ofd(file, unix.F_OFD_SETLK, &unix.Flock_t{Type: unix.F_UNLCK, Whence: unix.SEEK_SET})
}

// tryAdopt verifies that an inherited descriptor is the one that holds the run lock of id: the same
// file by device and inode, a lock that others see held, and that this description can take again,
// which only its owner can.
func (f *Folder) tryAdopt(file *os.File, id int64) error {
	probe, err := f.ProbeRuns()
	if err != nil {
		return err
	}
	defer probe.Close()
	if probe.file == nil {
		return errors.New("run lock: not of this store")
	}
	mine, err := file.Stat()
	if err != nil {
		return f.SystemError(err)
	}
	ours, err := probe.file.Stat()
	if err != nil {
		return f.SystemError(err)
	}
	if !os.SameFile(mine, ours) {
		return errors.New("run lock: not of this store")
	}
	if held, err := probe.Held(id); err != nil || !held {
		return errors.Join(err, errors.New("run lock: the descriptor does not hold it"))
	}
	err = ofd(file, unix.F_OFD_SETLK, wholeByte(unix.F_WRLCK, id))
	if err == unix.EAGAIN || err == unix.EACCES {
		return errHeld
	}
	if err != nil {
		return f.SystemError(os.NewSyscallError("fcntl", err))
	}
	unix.CloseOnExec(int(file.Fd()))
	return nil
}

// RunProbe tells which run locks are held, taking none.
type RunProbe struct {
	f    *Folder
	file *os.File // nil when no lock was ever taken
	all  map[int64]struct{}
}

func (f *Folder) ProbeRuns() (*RunProbe, error) {
	file, err := OpenOwn(f.Path(RunsName), os.O_RDONLY)
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

// Held asks for one conversation, or answers from what ReadAll found.
func (p *RunProbe) Held(id int64) (bool, error) {
	if p.all != nil {
		_, ok := p.all[id]
		return ok, nil
	}
	lock, err := p.conflict(id, id)
	return lock != nil, err
}

// ReadAll finds every held lock, at a cost that grows with their number and not with that of the
// conversations.
func (p *RunProbe) ReadAll() error {
	all := make(map[int64]struct{})
	// The kernel names some lock in the range, not the first: so the two sides of it remain to be
	// asked.
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
		// Neighbouring locks of one descriptor are one to the kernel; they may also reach out of
		// the span.
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

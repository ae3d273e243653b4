package file

import (
	"context"
	"errors"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// One file has the slots of all trees, as OFD locks on bytes beyond its end. The bytes of a tree
// begin at an offset that its root's id determines. The first byte is the head of the line; the
// slots follow.
//
// All slots that a process has taken from one Slots have one descriptor. For each descriptor that
// is closed at an exec the kernel looks through all locks of the file. So with a descriptor for
// each slot the start of a sub-agent would take a time that grows with the square of their number.
//
// A waiter is woken by inotify when a process closes the file after it was open for writing. Every
// release of a slot does that.

// slotSpan is the number of bytes of a tree. Only the lower bits of an id fit into an offset: ids
// that differ only in the others share their slots.
const slotSpan = 2 * MaxSlots

func (s *Slots) byteAt(n int) *unix.Flock_t {
	const room = int64(1)<<62/slotSpan - 1
	return &unix.Flock_t{Type: unix.F_WRLCK, Whence: unix.SEEK_SET, Start: s.root&room*slotSpan + int64(n), Len: 1}
}

// free frees a byte of a descriptor, also for processes that have a copy of it.
func (s *Slots) free(file *os.File, n int) error {
	lock := s.byteAt(n)
	lock.Type = unix.F_UNLCK
	return ofd(file, unix.F_OFD_SETLK, lock)
}

func (f *Folder) openSlots() (*os.File, error) {
	return OpenOwn(f.Path(slotsName), os.O_RDWR|os.O_CREATE)
}

// slotLocks are the slots that this process has taken from one Slots.
type slotLocks struct {
	mu    sync.Mutex
	file  *os.File // nil while none is taken or looked for
	taken map[int]bool
}

// lock takes the first slot that is free and returns its number, or 0.
func (h *slotLocks) lock(s *Slots) (_ int, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.file == nil {
		if h.file, err = s.f.openSlots(); err != nil {
			return 0, err
		}
		h.taken = map[int]bool{}
	}
	for n := 1; n <= s.n; n++ {
		if h.taken[n] {
			continue // locking it again would succeed
		}
		switch err := ofd(h.file, unix.F_OFD_SETLK, s.byteAt(n)); err {
		case nil:
			h.taken[n] = true
			return n, nil
		case unix.EAGAIN, unix.EACCES:
		default:
			return 0, os.NewSyscallError("fcntl", err)
		}
	}
	return 0, nil
}

func (h *slotLocks) unlock(s *Slots, n int) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	err := s.free(h.file, n)
	delete(h.taken, n)
	h.closeIdle()
	return err
}

// closeIdle closes the file if no slot is taken.
func (h *slotLocks) closeIdle() {
	if h.file != nil && len(h.taken) == 0 {
		h.file.Close()
		h.file = nil
	}
}

// head waits until this process is first in line. It calls wait before it waits.
func (s *Slots) head(ctx context.Context, wait func()) (done func(), err error) {
	file, err := s.f.openSlots()
	if err != nil {
		return nil, err
	}
	unlock := func() {
		_ = s.free(file, 0)
		file.Close()
	}
	switch err := ofd(file, unix.F_OFD_SETLK, s.byteAt(0)); err {
	case nil:
		return unlock, nil
	case unix.EAGAIN, unix.EACCES:
	default:
		file.Close()
		return nil, os.NewSyscallError("fcntl", err)
	}
	wait()
	// As in lockFile: a wait in the kernel cannot be interrupted.
	granted := make(chan error)
	go func() {
		err := ofd(file, unix.F_OFD_SETLKW, s.byteAt(0))
		select {
		case granted <- err:
		case <-ctx.Done():
			unlock()
		}
	}()
	select {
	case err := <-granted:
		if err != nil {
			file.Close()
			return nil, os.NewSyscallError("fcntl", err)
		}
		return unlock, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// wakeSlots wakes waiters. It opens and closes the file for that, because closing a descriptor
// wakes nobody while another process has a copy of it.
func (f *Folder) wakeSlots() {
	if file, err := OpenOwn(f.Path(slotsName), os.O_RDWR); err == nil {
		file.Close()
	}
}

// looker looks for a free slot. The descriptor stays open meanwhile, since closing one would wake
// it.
type looker struct {
	s       *Slots
	watched bool
	changes *os.File // an inotify instance; nil if the system has no more
}

func (s *Slots) looker() *looker { return &looker{s: s} }

func (l *looker) close() {
	if l.changes != nil {
		l.changes.Close()
	}
	l.s.held.mu.Lock()
	defer l.s.held.mu.Unlock()
	l.s.held.closeIdle()
}

func (l *looker) free() (int, error) { return l.s.held.lock(l.s) }

// wait returns when it is time to look again or ctx has ended. The first call starts the
// notifications and returns at once, since it has missed earlier changes.
func (l *looker) wait(ctx context.Context) error {
	if !l.watched {
		l.watched = true
		l.changes = l.s.f.watchSlots()
		return nil
	}
	if l.changes == nil {
		return pause(ctx, slotPoll)
	}
	if err := l.changes.SetReadDeadline(time.Now().Add(slotLook)); err != nil {
		return err
	}
	stop := context.AfterFunc(ctx, func() { _ = l.changes.SetReadDeadline(time.Unix(1, 0)) })
	defer stop()
	var events [4096]byte
	_, err := l.changes.Read(events[:])
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case errors.Is(err, os.ErrDeadlineExceeded):
		return nil
	}
	return err
}

// watchSlots returns an inotify instance, or nil if the user's limit is reached.
func (f *Folder) watchSlots() *os.File {
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	if err != nil {
		return nil
	}
	if _, err := unix.InotifyAddWatch(fd, f.Path(slotsName), unix.IN_CLOSE_WRITE); err != nil {
		_ = unix.Close(fd)
		return nil
	}
	return os.NewFile(uintptr(fd), "inotify")
}

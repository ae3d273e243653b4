package file

import (
	"context"
	"errors"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// One file has the slots of all trees, as OFD locks on bytes beyond its end. The bytes of a tree
// begin at an offset that its root's id determines. The first byte is the head of the line; the
// slots follow.
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

func (f *Folder) openSlots() (*os.File, error) {
	return OpenOwn(f.Path(slotsName), os.O_RDWR|os.O_CREATE)
}

// head waits until this process is first in line. It calls wait before it waits.
func (s *Slots) head(ctx context.Context, wait func()) (done func(), err error) {
	file, err := s.f.openSlots()
	if err != nil {
		return nil, err
	}
	unlock := func() {
		_ = unlockSlot(file)
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

func unlockSlot(file *os.File) error { return unlockRuns(file) }

// wakeSlots wakes waiters. It opens and closes the file for that, because closing a descriptor
// wakes nobody while another process has a copy of it.
func (f *Folder) wakeSlots() {
	if file, err := OpenOwn(f.Path(slotsName), os.O_RDWR); err == nil {
		file.Close()
	}
}

// looker looks for a free slot. It keeps one descriptor open, since closing one would wake itself.
type looker struct {
	s       *Slots
	file    *os.File // nil until it is needed, and after it was returned with a slot
	watched bool
	changes *os.File // an inotify instance; nil if the system has no more
}

func (s *Slots) looker() *looker { return &looker{s: s} }

func (l *looker) close() {
	for _, file := range []*os.File{l.file, l.changes} {
		if file != nil {
			file.Close()
		}
	}
}

// free takes a slot that is free, or returns nil.
func (l *looker) free() (file *os.File, err error) {
	if l.file == nil {
		if l.file, err = l.s.f.openSlots(); err != nil {
			return nil, err
		}
	}
	for n := range l.s.n {
		switch err := ofd(l.file, unix.F_OFD_SETLK, l.s.byteAt(n+1)); err {
		case nil:
			file, l.file = l.file, nil
			return file, nil
		case unix.EAGAIN, unix.EACCES:
		default:
			return nil, os.NewSyscallError("fcntl", err)
		}
	}
	return nil, nil
}

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

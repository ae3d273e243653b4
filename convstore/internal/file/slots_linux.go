package file

import (
	"context"
	"errors"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// One file holds the slots of all trees, as OFD locks on bytes that are not there: those of a tree
// begin at the offset that its root's id names. The first is the head of the line, the slots
// follow.
//
// Whoever waits is told by inotify that somebody has closed the file after writing was possible,
// which everybody does who gives a slot back.

// slotSpan is how many bytes a tree has. Ids that differ only in bits beyond those that the offsets
// leave room for share their slots.
const slotSpan = 2 * MaxSlots

func (s *Slots) byteAt(n int) *unix.Flock_t {
	const room = int64(1)<<62/slotSpan - 1
	return &unix.Flock_t{Type: unix.F_WRLCK, Whence: unix.SEEK_SET, Start: s.root&room*slotSpan + int64(n), Len: 1}
}

func (f *Folder) openSlots() (*os.File, error) {
	return OpenOwn(f.Path(slotsName), os.O_RDWR|os.O_CREATE)
}

// head waits until this process is first in line. wait is called before it does.
func (s *Slots) head(ctx context.Context, wait func()) (leave func(), err error) {
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
	// As with flock in lockFile: what waits in the kernel cannot be woken.
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

// tellSlots tells those who wait to look again. That of a descriptor's own close would not come
// while another process has a copy.
func (f *Folder) tellSlots() {
	if file, err := OpenOwn(f.Path(slotsName), os.O_RDWR); err == nil {
		file.Close()
	}
}

// ownsSlot returns an error for a descriptor that holds no slot of this store.
func (f *Folder) ownsSlot(file *os.File) error {
	mine, err := file.Stat()
	if err != nil {
		return err
	}
	ours, err := os.Lstat(f.Path(slotsName))
	if err != nil || !os.SameFile(mine, ours) {
		return errors.New("not of this store")
	}
	unix.CloseOnExec(int(file.Fd()))
	return nil
}

// looker looks for a free slot. It looks with one descriptor, since closing one would tell itself
// to look again.
type looker struct {
	s       *Slots
	file    *os.File // nil until it is needed, and once it holds a slot
	watched bool
	changes *os.File // an inotify instance; nil when there is none to be had
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

// wait returns when it is time to look again, or ctx has ended. What happens is seen only from its
// first call on, which therefore returns at once.
func (l *looker) wait(ctx context.Context) error {
	if !l.watched {
		l.watched = true
		l.changes = l.s.f.watchSlots()
		return nil
	}
	if l.changes == nil {
		return pollSlots(ctx)
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

// watchSlots returns an inotify instance, or nil: a user has only so many.
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

//go:build !linux

package file

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"sync"

	"golang.org/x/sys/unix"
)

// Without OFD locks each slot is a file of its own with an flock, and so is the head of the line.
// In one way this is weaker than on Linux: no notification comes when a slot is free, so the first
// in line looks every 20 ms.

func (s *Slots) open(name string) (*os.File, error) {
	dir := filepath.Join(s.f.Path(slotsName), lockName(s.root))
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	return OpenOwn(filepath.Join(dir, name), os.O_RDWR|os.O_CREATE)
}

// head waits until this process is first in line. It calls wait before it waits.
func (s *Slots) head(ctx context.Context, wait func()) (done func(), err error) {
	file, err := s.open("line")
	if err != nil {
		return nil, err
	}
	wait()
	if err := lockFile(ctx, file, unix.LOCK_EX); err != nil {
		return nil, err
	}
	return func() {
		_ = unlockSlot(file)
		file.Close()
	}, nil
}

// looker looks for a free slot.
type looker struct{ *Slots }

func (s *Slots) looker() looker { return looker{s} }

func (l looker) close() {}

func (l looker) free() (int, error) { return l.held.lock(l.Slots) }

// slotLocks are the slots that this process has taken from one Slots.
type slotLocks struct {
	mu    sync.Mutex
	files map[int]*os.File
}

// lock takes the first slot that is free and returns its number, or 0.
func (h *slotLocks) lock(s *Slots) (int, error) {
	for n := 1; n <= s.n; n++ {
		file, err := s.open(strconv.Itoa(n))
		if err != nil {
			return 0, err
		}
		switch err := Flock(file, unix.LOCK_EX|unix.LOCK_NB); err {
		case nil:
			h.mu.Lock()
			defer h.mu.Unlock()
			if h.files == nil {
				h.files = map[int]*os.File{}
			}
			h.files[n] = file
			return n, nil
		case unix.EWOULDBLOCK:
			file.Close()
		default:
			file.Close()
			return 0, os.NewSyscallError("flock", err)
		}
	}
	return 0, nil
}

func (h *slotLocks) unlock(_ *Slots, n int) error {
	h.mu.Lock()
	file := h.files[n]
	delete(h.files, n)
	h.mu.Unlock()
	return errors.Join(unlockSlot(file), file.Close())
}

func unlockSlot(file *os.File) error { return Flock(file, unix.LOCK_UN) }

// Without notifications nobody is woken: who waits looks again and again.
func (f *Folder) wakeSlots() {}

// wait returns when it is time to look again or ctx has ended.
func (l looker) wait(ctx context.Context) error { return pause(ctx, slotPoll) }

package file

import (
	"context"
	"fmt"
	"os"
	"time"
)

// MaxSlots is the most sub-agents of one tree that may work at the same time.
const MaxSlots = 1024

// Slots is the cap on how many sub-agents of one tree work at the same time. All processes of the
// tree share it, whoever started them: a slot is a lock in the store's folder, which the kernel
// frees when the last process that holds its descriptor ends, in whatever way. So it needs no count
// that could go wrong.
//
// A sub-agent that waits for others gives its slot back and takes one again before it goes on.
// Nobody who holds a slot waits for one, and so a tree never locks itself up, however deep it is.
//
// Whoever finds no slot waits in line: at most one waiter of a tree looks for a free slot, the
// others of its process and the other processes are behind it and cost nothing.
type Slots struct {
	f    *Folder
	root int64
	n    int
	line chan struct{} // within this process
}

// Slots returns the slots of the tree whose ledger root owns: n of them, which is brought into 1 to
// MaxSlots.
func (f *Folder) Slots(root int64, n int) *Slots {
	return &Slots{f: f, root: root, n: min(max(n, 1), MaxSlots), line: make(chan struct{}, 1)}
}

// Slot is one taken slot. It is not safe for concurrent use.
type Slot struct {
	f    *Folder
	file *os.File // nil when it was given back
}

// Take waits for a slot until ctx ends, whose cause it then returns. Queued, if not nil, is called
// before it waits, once.
func (s *Slots) Take(ctx context.Context, queued func()) (_ *Slot, err error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	wait := func() {
		if queued != nil {
			queued()
			queued = nil
		}
	}
	select {
	case s.line <- struct{}{}:
	default:
		wait()
		select {
		case s.line <- struct{}{}:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
	defer func() { <-s.line }()
	leave, err := s.head(ctx, wait)
	if err != nil {
		return nil, s.waiting(ctx, err)
	}
	defer leave()
	look := s.looker()
	defer look.close()
	for {
		file, err := look.free()
		if err != nil {
			return nil, s.f.SystemError(err)
		}
		if file != nil {
			return &Slot{f: s.f, file: file}, nil
		}
		wait()
		if err := look.wait(ctx); err != nil {
			return nil, s.waiting(ctx, err)
		}
	}
}

// waiting is the error of a wait: the cause of a context that ended, or what went wrong.
func (s *Slots) waiting(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return s.f.SystemError(err)
}

// File returns the descriptor that holds the slot, for a child process to inherit and
// Folder.AdoptSlot. It is nil when the slot was given back.
func (p *Slot) File() *os.File { return p.file }

// Pass leaves the slot to the process that inherited its descriptor.
func (p *Slot) Pass() error {
	file := p.file
	p.file = nil
	if file == nil {
		return nil
	}
	return file.Close()
}

// Release gives the slot back, whoever else has a copy of its descriptor. Releasing again does
// nothing.
func (p *Slot) Release() error {
	file := p.file
	p.file = nil
	if file == nil {
		return nil
	}
	err := unlockSlot(file)
	if closed := file.Close(); err == nil {
		err = closed
	}
	p.f.tellSlots()
	return err
}

// Freed tells those who wait that a slot may have come free because a process that held one has
// ended.
func (s *Slots) Freed() { s.f.tellSlots() }

// AdoptSlot takes over a slot by its inherited descriptor.
func (f *Folder) AdoptSlot(file *os.File) (*Slot, error) {
	if err := f.ownsSlot(file); err != nil {
		return nil, fmt.Errorf("slot: %w", err)
	}
	return &Slot{f: f, file: file}, nil
}

// How often whoever is first in line looks again: unasked where it is told of changes, since the
// end of a killed process may be told just before its locks are free, and otherwise.
const (
	slotLook = time.Second
	slotPoll = 20 * time.Millisecond
)

// pollSlots waits for the next look.
func pollSlots(ctx context.Context) error {
	t := time.NewTimer(slotPoll)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

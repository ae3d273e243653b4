package file

import (
	"context"
	"sync"
	"time"
)

// MaxSlots is the most sub-agents of one tree that may work at the same time.
const MaxSlots = 1024

// Slots bounds how many sub-agents of one tree work at the same time. All processes of the tree
// share the slots. A slot is a lock in the store's folder, which the kernel frees when the process
// that holds it ends, even by a crash. So there is no count that could become wrong.
//
// A sub-agent that waits for others releases its slot, and takes one again before it continues. No
// process waits for a slot while it holds one, so there is no deadlock however deep the tree is.
//
// If no slot is free, a process waits in line. Only the first in line looks for a free slot. The
// others, in its own and in other processes, use no time while they wait.
type Slots struct {
	f    *Folder
	root int64
	n    int
	line chan struct{} // within this process
	held slotLocks     // what this process has taken
}

// Slots returns the n slots of the tree whose ledger root owns; n is brought into 1 to MaxSlots.
func (f *Folder) Slots(root int64, n int) *Slots {
	return &Slots{f: f, root: root, n: min(max(n, 1), MaxSlots), line: make(chan struct{}, 1)}
}

// Slot is one slot that this process holds. It is not safe for concurrent use.
type Slot struct {
	of *Slots
	n  int // 0 if it was released
}

// Take waits for a slot. If ctx ends before it returns, it returns the cause of that. It calls
// queued, if not nil, once while it waits, and returns after that call. Nobody else in line waits
// for it.
func (s *Slots) Take(ctx context.Context, queued func()) (*Slot, error) {
	var told sync.WaitGroup
	slot, err := s.take(ctx, func() {
		if queued != nil {
			told.Go(queued)
			queued = nil
		}
	})
	told.Wait() // when it is no more in line: who is told may take long to listen
	if err == nil && ctx.Err() != nil {
		return nil, s.waiting(ctx, slot.Release())
	}
	return slot, err
}

// take is Take. It calls wait before each wait.
func (s *Slots) take(ctx context.Context, wait func()) (*Slot, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
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
	done, err := s.head(ctx, wait)
	if err != nil {
		return nil, s.waiting(ctx, err)
	}
	defer done()
	look := s.looker()
	defer look.close()
	for {
		n, err := look.free()
		if err != nil {
			return nil, s.f.SystemError(err)
		}
		if n != 0 {
			return &Slot{s, n}, nil
		}
		wait()
		if err := look.wait(ctx); err != nil {
			return nil, s.waiting(ctx, err)
		}
	}
}

// waiting returns the error of a wait: the cause of ctx if that has ended, otherwise err with the
// name of the store.
func (s *Slots) waiting(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return s.f.SystemError(err)
}

// Release releases the slot at once, although a process that is being started has a copy of its
// descriptor until its exec. A second Release does nothing.
func (p *Slot) Release() error {
	if p.n == 0 {
		return nil
	}
	err := p.of.held.unlock(p.of, p.n)
	p.n = 0
	p.of.f.wakeSlots()
	return err
}

// How often the first in line looks for a free slot: with notifications, since that of a killed
// process may come just before its locks are free, and without notifications.
const (
	slotLook = time.Second
	slotPoll = 20 * time.Millisecond
)

// pause waits for d.
func pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

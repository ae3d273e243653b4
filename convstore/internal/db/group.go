package db

import (
	"context"
	"errors"
	"slices"
	"sync"
	"syscall"
	"time"

	"go.etcd.io/bbolt"

	"jp/convstore/internal/file"
	"jp/convstore/internal/page"
)

// Writes of one process are written in groups: what arrives while a group is flushed is the next
// group, in one transaction with one flush. There is no goroutine for it. The write that is first
// in the queue leads: its goroutine waits for the store, runs the functions of the group in the
// order in which they came, commits, and passes the lead on. After each group other processes get
// their turn.
//
// If a function fails after it has changed something, the transaction is rolled back. Those before
// it run again, and it runs again alone: its error must not come from what was never committed. One
// that fails and has changed nothing stays in the group, and so its error counts only if the group
// is committed. A function that panics runs again alone too, in the goroutine of its own caller.

// The bounds of one group.
const (
	groupMost  = 128     // functions
	groupBytes = 4 << 20 // bytes that they write; the last function may go beyond
)

// queue has the writes that wait, of a Base and its copies.
type queue struct {
	mu      sync.Mutex
	waiting []*write // in the order in which they came; the leader is the first
	led     bool     // somebody leads

	commit func(*bbolt.Tx) error // (*bbolt.Tx).Commit, but in tests
	full   time.Time             // since when the disk has been full for a run that waits; zero = it is not
	pause  time.Duration         // between two tries of what waits for room
}

func newQueue() *queue { return &queue{commit: (*bbolt.Tx).Commit, pause: defaultPause} }

// write is one call of Write.
type write struct {
	f     *Base
	fn    func(*Tx) error
	wait  *file.Wait
	wake  chan struct{} // gets one value, when it leads or is done; nil for one that led at once
	alone bool          // its transaction has no other function
	once  bool          // its function must not be run again

	leads     bool  // protected by the queue's mutex
	tx        *Tx   // transaction in which its function ran last; nil = it has not run
	err       error // what its function returned; if done, the outcome
	done      bool
	full      bool // it was not written for lack of room on the disk
	rehearsed bool // its function was run and rolled back, see the constant rehearse
}

func (f *Base) write(ctx context.Context, w *write) error {
	if f.ReadOnly {
		return ErrReadOnly
	}
	w.f, w.wait = f, f.Wait(ctx)
	defer func() { w.wait.End() }()
	q := f.queue
	if !q.enter(w) {
		select {
		case <-w.wake:
		case <-w.wait.Done():
			if q.remove(w) {
				return f.busy(w.wait.Err())
			}
			<-w.wake
		}
		if w.done {
			return w.outcome()
		}
	}
	defer q.pass()
	for q.lead(w); !w.done; q.lead(w) {
		w.wait = f.Wait(ctx)
	}
	return w.outcome()
}

// outcome returns the error of a write that is done.
func (w *write) outcome() error {
	if w.err == nil {
		for _, fn := range w.tx.after {
			fn()
		}
	}
	return w.err
}

// undone takes back what the last run of its function did beside the store.
func (w *write) undone() {
	if w != nil && w.tx != nil {
		w.tx.undone()
	}
}

// enter adds a write to the queue and reports whether it leads.
func (q *queue) enter(w *write) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.waiting = append(q.waiting, w)
	w.leads = !q.led
	q.led = true
	if !w.leads {
		w.wake = make(chan struct{}, 1)
	}
	return w.leads
}

// remove takes a write out of the queue. It returns false if the write leads or belongs to a group.
func (q *queue) remove(w *write) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	i := slices.Index(q.waiting, w)
	if i < 0 || w.leads {
		return false
	}
	q.waiting = slices.Delete(q.waiting, i, i+1)
	return true
}

// pass makes the first in the queue the leader.
func (q *queue) pass() {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.led = len(q.waiting) > 0; q.led {
		q.waiting[0].leads = true
		q.waiting[0].wake <- struct{}{}
	}
}

// group is a group of writes in one transaction.
type group struct {
	q       *queue
	leader  *write
	ran     []*write // those whose functions have run
	running *write   // one whose function runs or has panicked; not in ran
	failed  bool     // the last of ran failed after it had changed something
	wrote   int      // bytes that ran have written
	final   bool     // the outcomes of ran hold
	full    bool     // nothing was written for lack of room on the disk
}

// lead writes a group. If the leader is not done after that, nothing was written.
func (q *queue) lead(w *write) {
	g := group{q: q, leader: w}
	returned := false
	var err error
	defer func() { g.end(err, returned) }()
	err = g.session()
	returned = true
}

// session is Base.Session for the group. It recovers from a panic in a function that is not the
// leader's.
func (g *group) session() (err error) {
	defer func() {
		if g.running != nil && g.running != g.leader {
			_ = recover()
		}
	}()
	f := g.leader.f
	return f.Guarded(func(h *Handle) error { return f.open(g.leader.wait, true, h) }, g.write)
}

// write runs the functions of the group and commits.
func (g *group) write(h *Handle) (err error) {
	defer func() { g.undo(err) }() // before anybody else gets the store
	b, err := h.db.Begin(true)
	if err != nil {
		return g.leader.f.openError(err)
	}
	number, paths := uint64(b.ID()), h.paths(b)
	for w := g.next(); w != nil; w = g.next() {
		g.running = w
		w.tx = &Tx{F: w.f, Bolt: b, h: h, paths: paths, Now: w.f.Now().Round(0)}
		w.err = w.fn(w.tx)
		g.ran, g.running = append(g.ran, w), nil
		switch {
		case w.err == nil:
			g.wrote += w.tx.wrote
		case w.tx.wrote == 0:
			w.undone()
		default:
			g.failed = true
		}
	}
	again := rehearse && g.rehearse()
	if again || g.wrote == 0 || g.failed {
		g.final = !again && g.wrote == 0
		return b.Rollback()
	}
	if err = g.q.commit(b); err == nil {
		g.final = true
		return nil
	}
	p, _ := page.Inspect(h.File)
	g.final = p != nil && p.Transaction >= number || errors.Is(err, syscall.EIO)
	g.full = !g.final && (errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT))
	return g.leader.f.commitError(err, g.final)
}

// undo takes back what functions did beside the store in runs that are not kept. Err is the error
// of the session.
func (g *group) undo(err error) {
	g.running.undone()
	for _, w := range slices.Backward(g.ran) {
		if !g.final || err != nil || w.err != nil {
			w.undone()
		}
	}
}

// next takes the next write of the group out of the queue. It returns nil when the group is
// complete.
func (g *group) next() *write {
	q := g.q
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.waiting) == 0 || g.failed {
		return nil
	}
	w := q.waiting[0]
	if n := len(g.ran); n > 0 && (w.alone || g.ran[0].alone || n == groupMost || g.wrote >= groupBytes) {
		return nil
	}
	q.waiting = slices.Delete(q.waiting, 0, 1)
	return w
}

// rehearse reports whether functions of the group have not been rehearsed yet.
func (g *group) rehearse() (again bool) {
	for _, w := range g.ran {
		again = again || !w.rehearsed && !w.once
		w.rehearsed = true
	}
	return again
}

// end gives the writes of the group their outcomes, or puts them back to be run again. Err is the
// error of the session; returned is false if it ended the goroutine.
func (g *group) end(err error, returned bool) {
	g.undo(err)
	q := g.q
	q.mu.Lock()
	defer q.mu.Unlock()
	all := g.ran
	if g.final && err == nil && g.wrote > 0 {
		q.full = time.Time{}
	}
	switch {
	case g.running != nil: // it has panicked
		all, g.running.alone = append(all, g.running), true
		g.final = g.running == g.leader
	case len(all) == 0: // the store could not be opened
		all, q.waiting, g.final = []*write{g.leader}, slices.Delete(q.waiting, 0, 1), true
	case g.final:
	case g.failed:
		all[len(all)-1].alone = true
	case err != nil: // if it was not alone, each finds out for itself
		g.final = len(all) == 1
		for _, w := range all {
			w.alone = true
		}
	}
	for _, w := range slices.Backward(all) {
		switch {
		case !g.final && (returned || w != g.leader):
			w.err = nil
			q.waiting = slices.Insert(q.waiting, 0, w)
		case g.final && w.err == ErrUnchanged, g.final && w.err == nil:
			w.err = err
		}
		if w.full, w.done = g.full, g.final; w.done && w != g.leader {
			w.wake <- struct{}{}
		}
	}
}

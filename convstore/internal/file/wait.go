package file

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Waiting for the store. A command that only asks gives up after Options.Deadline. A run does not,
// because what it did was paid for and must be stored: it waits until its context ends and, to
// store events, for another Options.Deadline after that. That is once: until this process has had
// the store to write in, its other waits for what was stopped are short, see Folder.vain. Before
// its turn is stored nothing was paid for: then see Beginning.
//
// A run waits for room on the disk too, see Room.

const (
	DefaultDeadline = 30 * time.Second
	moment          = 200 * time.Millisecond // enough where no other process holds the store
	defaultRemark   = 5 * time.Second
)

// errOutlasted is the cause of a context that Outlast returned and that has ended.
var errOutlasted = errors.New("store: waited long enough")

// bounded returns the context of a wait. It ends at the deadline if the folder is not Patient or
// ctx can never end.
func (f *Folder) bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	if stopped(ctx) && f.vain.Load() {
		return context.WithTimeout(ctx, moment)
	}
	if f.Patient && ctx.Done() != nil {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, f.Deadline)
}

// Outlast returns a context that ends after ctx, later by the duration by.
func Outlast(ctx context.Context, by time.Duration) (context.Context, context.CancelFunc) {
	return outlast(ctx, by, func() error { return errOutlasted })
}

// Briefly returns a context that ends a moment after ctx, with the same cause: the wait for the
// store is given up because of that, and not because it was long.
func Briefly(ctx context.Context) (context.Context, context.CancelFunc) {
	return outlast(ctx, moment, func() error { return context.Cause(ctx) })
}

// Beginning is Briefly for what begins a turn, see Begins.
func Beginning(ctx context.Context, goesOn bool) (context.Context, context.CancelFunc) {
	return Briefly(Begins(ctx, goesOn))
}

// Begins returns a context for the begin of a turn, for which nothing was paid yet. On a full disk it
// fails at once, unless the run goes on.
func Begins(ctx context.Context, goesOn bool) context.Context {
	if goesOn {
		return ctx
	}
	return context.WithValue(ctx, beginning{}, true)
}

// beginning is the key of a context for what fails at once on a full disk.
type beginning struct{}

// outlasted is the key of the context that one of outlast goes on after.
type outlasted struct{}

// stopped reports whether ctx goes on after another one that has ended.
func stopped(ctx context.Context) bool {
	first, ok := ctx.Value(outlasted{}).(context.Context)
	return ok && first.Err() != nil
}

func outlast(ctx context.Context, by time.Duration, cause func() error) (context.Context, context.CancelFunc) {
	if ctx.Done() == nil {
		return ctx, func() {}
	}
	base := context.WithoutCancel(ctx)
	if base.Value(outlasted{}) == nil {
		base = context.WithValue(base, outlasted{}, ctx)
	}
	lasting, end := context.WithCancelCause(base)
	stop := context.AfterFunc(ctx, func() {
		more := time.NewTimer(by)
		defer more.Stop()
		select {
		case <-more.C:
			end(cause())
		case <-lasting.Done():
		}
	})
	return lasting, func() {
		stop()
		end(nil)
	}
}

// Wait is a wait for the lock of the store, until its End. If it takes long, the folder gives a
// notice that names the holder of the store.
type Wait struct {
	f       *Folder
	ctx     context.Context // of the caller
	bounded context.Context // ends when the caller waits no longer
	cancel  context.CancelFunc
	notice  *time.Timer
	start   time.Time
}

// Wait begins a wait of a caller that gives up as Options say or when ctx ends.
func (f *Folder) Wait(ctx context.Context) *Wait {
	w := &Wait{f: f, ctx: ctx, start: time.Now()}
	w.bounded, w.cancel = f.bounded(ctx)
	w.notice = time.AfterFunc(f.Remark, func() {
		text := "the store is busy: waiting"
		if holder, reads := f.holder(); holder != "" {
			text += " for " + HeldBy(holder, reads)
		}
		f.Notice(text)
	})
	return w
}

// End ends the wait. A second End does nothing.
func (w *Wait) End() {
	w.notice.Stop()
	w.cancel()
}

// Done is closed when the caller gives up, and after End.
func (w *Wait) Done() <-chan struct{} { return w.bounded.Done() }

// Err returns why the caller gave up: the cause of its context, or a *BusyError.
func (w *Wait) Err() error {
	if w.ctx.Err() != nil && context.Cause(w.ctx) != errOutlasted {
		return fmt.Errorf("store %s: waiting for the lock: %w", w.f.StorePath(), context.Cause(w.ctx))
	}
	if stopped(w.ctx) {
		w.f.vain.Store(true)
	}
	holder, reads := w.f.holder()
	return &BusyError{Holder: holder, Reads: reads, Waited: time.Since(w.start)}
}

// Room returns nil for a caller that does not wait for room on a full disk. A run, which is patient,
// does until it is stopped: then the channel is closed.
func Room(ctx context.Context, patient bool) (stop <-chan struct{}) {
	first, ok := ctx.Value(outlasted{}).(context.Context)
	if !ok {
		first = ctx
	}
	if !patient || ctx.Value(beginning{}) != nil || ctx.Err() != nil || first.Err() != nil {
		return nil
	}
	return first.Done()
}

// HeldBy describes a holder of the store in words.
func HeldBy(holder string, reads bool) string {
	if reads {
		return holder + ", which reads it"
	}
	return holder
}

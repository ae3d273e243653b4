package file

import (
	"context"
	"errors"
	"time"
)

// Waiting for the store. Whoever only asks gives up after Options.Deadline. A run does not: what it
// has done was paid for. It waits as long as its context lives, and to record what has happened for
// another Options.Deadline after that.

const (
	DefaultDeadline = 30 * time.Second
	defaultRemark   = 5 * time.Second
)

// errOutlasted is the cause of the end of a context that has outlasted another one.
var errOutlasted = errors.New("store: waited long enough")

// bounded returns the context of a wait. One that could never end lasts until the deadline, whoever
// waits.
func (f *Folder) bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	if f.Patient && ctx.Done() != nil {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, f.Deadline)
}

// Outlast returns a context that ends so long after ctx has.
func Outlast(ctx context.Context, by time.Duration) (context.Context, context.CancelFunc) {
	if ctx.Done() == nil {
		return ctx, func() {}
	}
	lasting, end := context.WithCancelCause(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() {
		more := time.NewTimer(by)
		defer more.Stop()
		select {
		case <-more.C:
			end(errOutlasted)
		case <-lasting.Done():
		}
	})
	return lasting, func() {
		stop()
		end(nil)
	}
}

// tellWait begins a wait that the user is told of when it takes long, and who holds the store. The
// function that it returns ends it.
func (f *Folder) tellWait() (end func()) {
	timer := time.AfterFunc(f.Remark, func() {
		text := "the store is busy: waiting"
		if holder, reads := f.holder(); holder != "" {
			text += " for " + HeldBy(holder, reads)
		}
		f.Notice(text)
	})
	return func() { timer.Stop() }
}

// HeldBy names a holder of the store.
func HeldBy(holder string, reads bool) string {
	if reads {
		return holder + ", which reads it"
	}
	return holder
}

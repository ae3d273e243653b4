package file

import (
	"context"
	"errors"
	"time"
)

// Waiting for the store. A command that only asks gives up after Options.Deadline. A run does not,
// because what it did was paid for and must be stored: it waits until its context ends and, to
// store events, for another Options.Deadline after that.

const (
	DefaultDeadline = 30 * time.Second
	defaultRemark   = 5 * time.Second
)

// errOutlasted is the cause of a context that Outlast returned and that has ended.
var errOutlasted = errors.New("store: waited long enough")

// bounded returns the context of a wait. It ends at the deadline if the folder is not Patient or
// ctx can never end.
func (f *Folder) bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	if f.Patient && ctx.Done() != nil {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, f.Deadline)
}

// Outlast returns a context that ends after ctx, later by the duration by.
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

// noticeWait begins a wait. If the wait takes long, it gives a notice that names the holder of the
// store. The function that it returns ends the wait.
func (f *Folder) noticeWait() (end func()) {
	timer := time.AfterFunc(f.Remark, func() {
		text := "the store is busy: waiting"
		if holder, reads := f.holder(); holder != "" {
			text += " for " + HeldBy(holder, reads)
		}
		f.Notice(text)
	})
	return func() { timer.Stop() }
}

// HeldBy describes a holder of the store in words.
func HeldBy(holder string, reads bool) string {
	if reads {
		return holder + ", which reads it"
	}
	return holder
}

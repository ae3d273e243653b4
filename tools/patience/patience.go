// Package patience is the time that jp gives what it waits for and what runs on while jp is suspended
// (Ctrl-Z, SIGSTOP): a tool, a server. The clock goes on too, and their end may have
// come in time. So a time that is over much too late ends a moment after jp goes on.
package patience

import (
	"context"
	"time"
)

// With is context.WithTimeoutCause, but that ctx.Err is context.Canceled.
func With(parent context.Context, d time.Duration, cause error) (context.Context, context.CancelFunc) {
	ctx, end := context.WithCancelCause(parent)
	after(ctx, time.Now().Add(d), func() { end(cause) })
	return bounded{ctx, time.Now().Add(d)}, func() { end(nil) }
}

// moment is how late it is where jp was suspended, and how long it looks for what came meanwhile.
const moment = time.Second

func after(ctx context.Context, at time.Time, over func()) {
	go func() {
		for due := at; ctx.Err() == nil; due = time.Now().Add(moment) {
			select {
			case <-ctx.Done():
			case <-time.After(time.Until(due)):
				if time.Since(due) < moment && ctx.Err() == nil {
					over()
					return
				}
			}
		}
	}()
}

// bounded is a context that says when it ends.
type bounded struct {
	context.Context
	at time.Time
}

func (b bounded) Deadline() (time.Time, bool) {
	if at, ok := b.Context.Deadline(); ok && at.Before(b.at) {
		return at, true
	}
	return b.at, true
}

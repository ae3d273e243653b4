package subprocess

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"jp/cmd/jp/internal/wire"
)

// Lag is how long the caller waits at most after the deadline of a sub-agent, or its own, before it
// stops the sub-agent. One that stops by itself can say why.
const Lag = time.Second

// ErrDeadline is the cause of what ends because the time of a sub-agent is over.
var ErrDeadline = fmt.Errorf("deadline: %w", context.DeadlineExceeded)

// Limited returns the context of a sub-agent. It ends with ctx, a lag after the deadline of ctx, and
// a lag after the sub-agent's own limit; 0 = it has none. The time of that begins with the first
// call of begin, when its process may start: before, a launcher may wait in the queue of a
// scheduler.
func Limited(ctx context.Context, limit time.Duration) (_ context.Context, begin, stop func()) {
	lag := min(Lag, wire.TimeLeft(ctx)/10)
	late, end := context.WithCancelCause(context.WithoutCancel(ctx))
	off := context.AfterFunc(ctx, func() {
		cause := context.Cause(ctx)
		if errors.Is(cause, context.DeadlineExceeded) {
			select {
			case <-time.After(lag):
			case <-late.Done():
			}
		}
		end(cause)
	})
	l := &limited{Context: late}
	var timer *time.Timer
	begin = sync.OnceFunc(func() {
		if limit > 0 {
			at := time.Now().Add(limit + Lag)
			l.at.Store(&at)
			timer = time.AfterFunc(limit+Lag, func() { end(ErrDeadline) })
		}
	})
	return l, begin, func() {
		if off(); timer != nil {
			timer.Stop()
		}
		end(nil)
	}
}

// limited is a context whose deadline is known later.
type limited struct {
	context.Context
	at atomic.Pointer[time.Time] // nil = not yet
}

func (l *limited) Deadline() (time.Time, bool) {
	if at := l.at.Load(); at != nil {
		return *at, true
	}
	return time.Time{}, false
}

package subprocess

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"jp/cmd/jp/internal/wire"
)

// Lag is how long the caller waits at most after the deadline of a sub-agent, or its own, before it
// stops the sub-agent. One that stops by itself can say why.
const Lag = time.Second

// starting is the most of the time between Begin and Began that does not count.
const starting = 10 * time.Second

// OneProcessor makes a sub-agent start on one processor: it waits more than it works, and has fewer
// threads and less memory so.
const OneProcessor = "GOMAXPROCS=1"

// ErrDeadline is the cause of what ends because the time of a sub-agent is over.
var ErrDeadline = fmt.Errorf("deadline: %w", context.DeadlineExceeded)

// Limited is the context of a sub-agent. It ends with that of its caller, a lag after the deadline
// of that, and a lag after the sub-agent's own limit. The time of that limit runs from Begin to
// Wait. Safe for concurrent use.
type Limited struct {
	context.Context
	end   context.CancelCauseFunc
	off   func() bool // leaves the caller's context
	limit time.Duration

	mu    sync.Mutex
	timer *time.Timer // nil = its time does not run
	at    time.Time   // when it is over; zero likewise
}

// Limit returns a Limited below ctx whose time does not run yet. limit 0 = it has no limit. Stop must
// be called.
func Limit(ctx context.Context, limit time.Duration) *Limited {
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
	return &Limited{Context: late, end: end, off: off, limit: limit}
}

// Begin begins the time anew: the process may start.
func (l *Limited) Begin() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.halt(); l.limit > 0 {
		l.at = time.Now().Add(l.limit + Lag)
		l.timer = time.AfterFunc(l.limit+Lag, func() { l.end(ErrDeadline) })
	}
}

// Began says that the process works, and has its limit from before: what it took to start on a busy
// machine, at most starting, is given to it once more. Else it could not end by itself, and say why,
// before it is stopped.
func (l *Limited) Began() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.timer == nil || !l.timer.Stop() {
		return
	}
	l.at = l.at.Add(min(time.Since(l.at.Add(-l.limit-Lag)), starting))
	l.timer.Reset(time.Until(l.at))
}

// Wait takes back what Begin began: the process did not start, and waits for a place, for which a
// launcher may wait in the queue of a scheduler.
func (l *Limited) Wait() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.halt()
}

func (l *Limited) halt() {
	if l.timer != nil {
		l.timer.Stop()
	}
	l.timer, l.at = nil, time.Time{}
}

// Stop ends the context.
func (l *Limited) Stop() {
	l.off()
	l.Wait()
	l.end(nil)
}

// Deadline returns when the own limit of the sub-agent is over, while its time runs.
func (l *Limited) Deadline() (time.Time, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.at, !l.at.IsZero()
}

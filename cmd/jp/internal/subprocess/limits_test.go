package subprocess

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// TestLimited: a deadline reaches a sub-agent late, so that it can end by its own; a stop reaches it
// at once. Its own time does not run before its process may start.
func TestLimited(t *testing.T) {
	stopped := errors.New("stopped")
	const never = 0
	for _, tt := range []struct {
		name                  string
		deadline, stop, begin time.Duration
		want                  time.Duration
		why                   error
		passed                bool // whether the process did not start a second after begin, and again an hour later
	}{
		{"deadline of the caller", 10 * time.Second, never, never, 11 * time.Second, context.DeadlineExceeded, false},
		{"its own, after two hours in a queue", never, never, 2 * time.Hour, 2*time.Hour + 31*time.Second, ErrDeadline, false},
		{"deadline of the caller, in a queue", 10 * time.Minute, never, time.Hour, 10*time.Minute + Lag, context.DeadlineExceeded, false},
		{"deadline of the caller, before its own", 10 * time.Second, never, time.Second, 11 * time.Second, context.DeadlineExceeded, false},
		{"its own, once a node has passed it over", never, never, time.Minute, time.Hour + time.Minute + 31*time.Second, ErrDeadline, true},
		{"deadline of the caller, once a node has passed it over", 10 * time.Minute, never, time.Minute, 10*time.Minute + Lag, context.DeadlineExceeded, true},
		{"stopped before", 10 * time.Second, 3 * time.Second, time.Second, 3 * time.Second, stopped, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				began := time.Now()
				caller, stop := context.WithCancelCause(t.Context())
				defer stop(nil)
				if tt.deadline > 0 {
					var cancel context.CancelFunc
					caller, cancel = context.WithTimeout(caller, tt.deadline)
					defer cancel()
				}
				if tt.stop > 0 {
					time.AfterFunc(tt.stop, func() { stop(stopped) })
				}
				ctx := Limit(caller, 30*time.Second)
				defer ctx.Stop()
				if at, ok := ctx.Deadline(); ok {
					t.Errorf("a deadline before it begins: %v", at)
				}
				if tt.begin > 0 {
					time.AfterFunc(tt.begin, ctx.Begin)
				}
				if tt.passed {
					time.AfterFunc(tt.begin+time.Second, ctx.Wait)
					time.AfterFunc(tt.begin+time.Hour, ctx.Begin)
				}
				<-ctx.Done()
				if got := time.Since(began); got != tt.want || !errors.Is(context.Cause(ctx), tt.why) {
					t.Errorf("ended after %v, %v, want %v, %v", got, context.Cause(ctx), tt.want, tt.why)
				}
				if at, _ := ctx.Deadline(); errors.Is(tt.why, ErrDeadline) && !at.Equal(began.Add(tt.want)) {
					t.Errorf("its deadline is after %v, want %v", at.Sub(began), tt.want)
				}
				synctest.Wait()
			})
		})
	}
	ctx := Limit(t.Context(), time.Hour)
	ctx.Stop()
	<-ctx.Done()
}

// TestBegan: a sub-agent whose time begins when it has started is stopped no sooner for that.
func TestBegan(t *testing.T) {
	for _, tt := range []struct{ after, want time.Duration }{
		{0, 31 * time.Second},
		{3 * time.Second, 34 * time.Second},
		{20 * time.Second, 41 * time.Second},
		{time.Minute, 31 * time.Second}, // it was stopped before
	} {
		synctest.Test(t, func(t *testing.T) {
			began := time.Now()
			ctx := Limit(t.Context(), 30*time.Second)
			defer ctx.Stop()
			ctx.Began() // of nothing
			ctx.Begin()
			timer := time.AfterFunc(tt.after, ctx.Began)
			defer timer.Stop()
			<-ctx.Done()
			if got := time.Since(began); got != tt.want || context.Cause(ctx) != ErrDeadline {
				t.Errorf("began after %v: ended after %v, %v, want %v", tt.after, got, context.Cause(ctx), tt.want)
			}
		})
	}
}

package console

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"runtime"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

// TestEndWith: only a run that does not end takes the process along. The next one of the same client
// lives on.
func TestEndWith(t *testing.T) {
	for ends, want := range map[time.Duration]int{0: 0, endWithin + time.Second: 0, time.Hour: 1} {
		synctest.Test(t, func(t *testing.T) {
			forced := 0
			c := New(Env{Exit: func(int) { forced++ }})
			ctx, cancel := context.WithCancelCause(t.Context())
			stop := c.EndWith(ctx, nil)
			cancel(errors.New("interrupted"))
			synctest.Wait()
			time.Sleep(ends)
			stop()
			time.Sleep(endWithin + killWithin + time.Second)
			synctest.Wait()
			if forced != want {
				t.Errorf("a run that ends after %v: the process was ended %d times, want %d", ends, forced, want)
			}
		})
	}
}

// TestSignalsNested: a signal that ends a run which is one of several is one press, for all of them
// together. The second one reaches each. It is SIGTERM, which nohup and shells do not set to be ignored.
func TestSignalsNested(t *testing.T) {
	signal.Reset() // of tests before this one, too
	t.Cleanup(func() { signal.Reset() })
	const deep = 20
	c := New(Env{})
	ctx := t.Context()
	var first atomic.Bool // whether only the first signal was sent
	again := make(chan bool, 2*deep)
	for range deep {
		inner, stop := c.WithSignals(ctx, func() { again <- first.Load() })
		defer stop()
		ctx = inner
	}
	for press := range 2 {
		first.Store(press == 0)
		time.Sleep(time.Duration(press) * sameWithin)
		if err := syscall.Kill(os.Getpid(), syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		<-ctx.Done()
		for range 300_000 { // who would count it a second time gets to it
			runtime.Gosched()
		}
	}
	for range deep {
		if <-again {
			t.Fatal("the first signal counts as the second")
		}
	}
}

// TestSignalTwin: timeout(1) sends a signal twice. The second one may come when the run has ended
// already, and must not end the process before it has said so.
func TestSignalTwin(t *testing.T) {
	c := New(Env{})
	ctx, stop := c.WithSignals(t.Context(), nil)
	for range 2 {
		if err := syscall.Kill(os.Getpid(), syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		<-ctx.Done()
		stop()
	}
	if cause := context.Cause(ctx); !errors.As(cause, new(*SignalError)) {
		t.Error(cause)
	}
}

func TestPresses(t *testing.T) {
	type press struct {
		after time.Duration // since the one before
		s     os.Signal
		want  bool
	}
	for _, list := range [][]press{
		{{0, syscall.SIGTERM, true}, {time.Millisecond, syscall.SIGTERM, false}, {sameWithin, syscall.SIGTERM, true}},
		{{0, syscall.SIGINT, true}, {sameWithin / 2, syscall.SIGINT, false}, {sameWithin / 2, syscall.SIGINT, true}},
		{{0, syscall.SIGINT, true}, {0, syscall.SIGTERM, true}},
		{{0, syscall.SIGQUIT, true}, {0, syscall.SIGQUIT, true}},
	} {
		var p presses
		now := time.Unix(1, 0)
		for i, e := range list {
			now = now.Add(e.after)
			if got := p.counts(e.s, now); got != e.want {
				t.Errorf("%v: number %d counts: %v, want %v", list, i, got, e.want)
			}
		}
	}
}

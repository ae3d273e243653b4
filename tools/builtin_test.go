package tools

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// TestInTime: a deadline returns without what hangs, and waits for what is only slow.
func TestInTime(t *testing.T) {
	late := errors.New("time is up")
	for _, test := range []struct {
		takes time.Duration // after the end of the context; 0 = for ever
		want  string
	}{{time.Second, "done"}, {0, "time is up (it did not stop and was left behind)"}} {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithTimeoutCause(t.Context(), time.Minute, late)
			defer cancel()
			hung := make(chan struct{})
			defer close(hung)
			r, err := inTime(ctx, leftAfter, func() (Result, error) {
				if test.takes == 0 {
					<-hung
				} else {
					time.Sleep(time.Minute + test.takes)
				}
				return Result{Text: "done"}, nil
			})
			got := r.Text
			if err != nil {
				got = err.Error()
			}
			if got != test.want {
				t.Errorf("inTime = %q, want %q", got, test.want)
			}
			if test.takes == 0 && !errors.Is(err, late) {
				t.Errorf("inTime = %v, which is not %v", err, late)
			}
		})
	}
}

// TestInTimePanics: a panic reaches whoever runs the tool, who makes a result of it.
func TestInTimePanics(t *testing.T) {
	defer func() {
		if p, _ := recover().(string); !strings.HasPrefix(p, "broken\n") {
			t.Errorf("recovered %q, want broken", p)
		}
	}()
	_, _ = inTime(t.Context(), leftAfter, func() (Result, error) { panic("broken") })
}

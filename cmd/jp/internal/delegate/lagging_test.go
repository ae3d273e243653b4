package delegate

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// TestLagging: the deadline of a caller reaches a sub-agent late, so that it can end by its own; a
// stop reaches it at once.
func TestLagging(t *testing.T) {
	stopped := errors.New("stopped")
	for _, tt := range []struct {
		name string
		stop time.Duration // 0 = never
		want time.Duration
		why  error
	}{
		{"deadline", 0, 11 * time.Second, context.DeadlineExceeded},
		{"stopped before", 3 * time.Second, 3 * time.Second, stopped},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				began := time.Now()
				caller, stop := context.WithCancelCause(t.Context())
				defer stop(nil)
				caller, cancel := context.WithTimeout(caller, 10*time.Second)
				defer cancel()
				if tt.stop > 0 {
					time.AfterFunc(tt.stop, func() { stop(stopped) })
				}
				ctx, end := lagging(caller, time.Second)
				defer end()
				<-ctx.Done()
				if got := time.Since(began); got != tt.want || !errors.Is(context.Cause(ctx), tt.why) {
					t.Errorf("ended after %v, %v, want %v, %v", got, context.Cause(ctx), tt.want, tt.why)
				}
			})
		})
	}
	ctx, end := lagging(t.Context(), time.Hour)
	end()
	<-ctx.Done()
}

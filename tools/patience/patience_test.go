package patience

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// TestAfter: a time ends when it is over, and a moment later if jp was suspended for an hour.
func TestAfter(t *testing.T) {
	for _, tt := range []struct{ at, ends time.Duration }{
		{time.Minute, time.Minute},
		{1 - moment, 0},
		{-time.Hour, moment},
	} {
		synctest.Test(t, func(t *testing.T) {
			began, ends := time.Now(), make(chan time.Time, 1)
			after(t.Context(), began.Add(tt.at), func() { ends <- time.Now() })
			if got := (<-ends).Sub(began); got != tt.ends {
				t.Errorf("over at %v: ends after %v, want %v", tt.at, got, tt.ends)
			}
		})
	}
}

// TestWith: the earlier deadline holds, and the cause says why a context ended.
func TestWith(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		late, began := errors.New("too long"), time.Now()
		one, stop := With(t.Context(), time.Minute, late)
		two, _ := With(one, time.Hour, errors.New("never"))
		for _, ctx := range []context.Context{one, two} {
			if at, ok := ctx.Deadline(); !ok || at.Sub(began) != time.Minute {
				t.Errorf("deadline after %v, want 1m", at.Sub(began))
			}
		}
		three, leave := With(one, time.Second, late)
		leave()
		if got := context.Cause(three); got != context.Canceled {
			t.Errorf("left: %v", got)
		}
		<-two.Done()
		if got := context.Cause(two); got != late || time.Since(began) != time.Minute {
			t.Errorf("ended after %v: %v", time.Since(began), got)
		}
		stop()
	})
}

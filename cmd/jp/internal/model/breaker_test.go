package model

import (
	"testing"
	"time"
)

func TestBreaker(t *testing.T) {
	now := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	one := Info{Endpoint: "https://a/", KeyEnv: "A", Name: "one"}
	two := Info{Endpoint: "https://a/", KeyEnv: "A", Name: "two"}
	key := Info{Endpoint: "https://a/", KeyEnv: "B", Name: "one"}
	script, other := Info{Name: "x.toml"}, Info{Name: "y.toml"}
	all := []Info{one, two, key, script, other}
	for _, tt := range []struct {
		name  string
		of    Info
		err   *Error
		down  []bool
		after time.Duration // when it counts no more
	}{
		{"quota", one, &Error{Kind: KindQuota}, []bool{true, true, false, false, false}, lasts},
		{"key", one, &Error{Kind: KindAuth, Status: 401}, []bool{true, true, false, false, false}, lasts},
		{"permission", one, &Error{Kind: KindAuth, Status: 403}, []bool{true, false, false, false, false}, lasts},
		{"unknown model", two, &Error{Kind: KindUnknownModel}, []bool{false, true, false, false, false}, lasts},
		{"late reset", one, &Error{Kind: KindRateLimit, RetryAfter: 3 * time.Hour}, []bool{true, false, false, false, false}, 3 * time.Hour},
		{"early reset", one, &Error{Kind: KindRateLimit, RetryAfter: time.Hour}, []bool{false, false, false, false, false}, 0},
		{"overloaded", one, &Error{Kind: KindOverloaded}, []bool{false, false, false, false, false}, 0},
		{"script", script, &Error{Kind: KindQuota}, []bool{false, false, false, true, false}, lasts},
	} {
		clock := now
		b := &Breaker{Limit: 2 * time.Hour, Now: func() time.Time { return clock }}
		s, _ := play([]step{fails(tt.err)}, []step{text("x"), done})
		s = b.Watch(tt.of, s)
		_, _ = drain(t.Context(), s)
		look := func(when string, want func(i int) bool) {
			t.Helper()
			for i, info := range all {
				if got := b.Down(info) != nil; got != want(i) {
					t.Errorf("%s, %s: %v down = %t", tt.name, when, info, got)
				}
			}
		}
		look("at once", func(i int) bool { return tt.down[i] })
		clock = now.Add(max(tt.after-1, 0))
		look("just before", func(i int) bool { return tt.down[i] })
		_, _ = drain(t.Context(), s) // it answers again
		look("after an answer", func(int) bool { return false })
		b.Failed(tt.of, tt.err)
		clock = clock.Add(tt.after)
		look("later", func(int) bool { return false })
	}
}

// TestBreakerAsleep: a time that a provider states passes while this machine sleeps too. The
// monotonic clock of Linux, which would count as long as a time holds it, stands meanwhile.
func TestBreakerAsleep(t *testing.T) {
	b := new(Breaker)
	b.Failed(Info{}, &Error{Kind: KindQuota})
	for _, f := range b.down {
		if f.until != f.until.Round(0) {
			t.Errorf("until %v holds a monotonic clock", f.until)
		}
	}
	// A clock that somebody sets back makes it no longer.
	b.Now = func() time.Time { return time.Now().AddDate(0, 0, -1) }
	for o, f := range b.down {
		f.begun = f.begun.Add(-f.wait)
		b.down[o] = f
	}
	if err := b.Down(Info{}); err != nil {
		t.Errorf("after its time: %v", err)
	}
}

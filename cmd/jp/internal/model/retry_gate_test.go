package model

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"testing"
	"time"
)

// journal is a gate that notes what it is told.
type journal struct {
	usable bool
	refuse error         // of the second Enter
	wait   time.Duration // told by each Enter but the first
	said   []string
	n      int
}

func (j *journal) Enter(_ context.Context, waits func(time.Duration)) (Pass, error) {
	j.n++
	if j.n > 1 && j.refuse != nil {
		return Pass{}, j.refuse
	}
	if j.n > 1 && j.wait > 0 {
		waits(j.wait)
	}
	j.said = append(j.said, fmt.Sprintf("enter %d", j.n))
	return Pass{At: time.Duration(j.n)}, nil
}

func (j *journal) Heard(p Pass) { j.said = append(j.said, fmt.Sprintf("heard %d", p.At)) }

func (j *journal) Limited(p Pass, wait time.Duration) bool {
	j.said = append(j.said, fmt.Sprintf("limited %d %v", p.At, wait))
	return j.usable
}

func TestRetryThroughGate(t *testing.T) {
	limit, long := &Error{Kind: KindRateLimit, Status: 429, RetryAfter: time.Minute}, &Error{Kind: KindRateLimit, Status: 429, RetryAfter: time.Hour}
	unsaid, more, broken := &Error{Kind: KindRateLimit, Status: 429}, &Error{Kind: KindRateLimit, Status: 429, RetryAfter: 130 * time.Second}, &Error{Kind: KindNetwork}
	closed := &Error{Kind: KindRateLimit, Final: true, Message: "closed"}
	for _, tt := range []struct {
		name   string
		gate   journal
		first  []step
		want   []string // what the gate and those who watch are told, in order
		sleeps int
		err    error
	}{
		{"limit", journal{usable: true, wait: 3 * time.Second}, []step{fails(limit)},
			[]string{"enter 1", "limited 1 1m0s", "waits 1 3s rate_limit (429)", "enter 2", "goes", "heard 2"}, 0, nil},
		{"a gate that cannot", journal{}, []step{fails(limit)},
			[]string{"enter 1", "limited 1 1m0s", "waits 1 1m0s rate_limit (429)", "goes", "enter 2", "heard 2"}, 1, nil},
		{"a limit that no gate holds for", journal{usable: true}, []step{fails(long)},
			[]string{"enter 1", "limited 1 1h0m0s", "waits 1 1h0m0s rate_limit (429)", "goes", "enter 2", "heard 2"}, 1, nil},
		{"a limit of a little more than a gate holds for", journal{usable: true}, []step{fails(more)},
			[]string{"enter 1", "limited 1 2m10s", "waits 1 2m10s rate_limit (429)", "goes", "enter 2", "heard 2"}, 1, nil},
		{"no limit", journal{usable: true}, []step{fails(broken)},
			[]string{"enter 1", "waits 1 5m0s network", "goes", "enter 2", "heard 2"}, 1, nil},
		{"held back", journal{usable: true, refuse: closed}, []step{fails(limit)}, []string{"enter 1", "limited 1 1m0s"}, 0, closed},
		{"a limit in the middle", journal{usable: true}, []step{text("half"), fails(limit)}, []string{"enter 1", "heard 1", "limited 1 1m0s"}, 0, limit},
		{"a wait of our own for which no gate holds", journal{usable: true}, []step{fails(unsaid)},
			[]string{"enter 1", "limited 1 5m0s", "waits 1 5m0s rate_limit (429)", "goes", "enter 2", "heard 2"}, 1, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s, _ := play(tt.first, []step{text("x"), done})
			sleeps := 0
			_, err := drain(t.Context(), Retry(s, RetryOptions{
				Gate: &tt.gate, Base: 10 * time.Minute, Max: 15 * time.Minute, MaxAfter: 2 * time.Hour, Rand: func() float64 { return 0 },
				Notice: func(_ context.Context, r Retrying) {
					tt.gate.said = append(tt.gate.said, fmt.Sprintf("waits %d %v %v", r.Attempt, r.Wait, r.Err))
				},
				Goes:  func(context.Context) { tt.gate.said = append(tt.gate.said, "goes") },
				Sleep: func(context.Context, time.Duration) error { sleeps++; return nil },
			}))
			if !errors.Is(err, tt.err) {
				t.Errorf("error = %v, want %v", err, tt.err)
			}
			if !reflect.DeepEqual(tt.gate.said, tt.want) || sleeps != tt.sleeps {
				t.Errorf("said %q, %d sleeps, want %q, %d", tt.gate.said, sleeps, tt.want, tt.sleeps)
			}
		})
	}
}

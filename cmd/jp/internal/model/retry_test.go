package model

import (
	"context"
	"errors"
	"iter"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"jp/convstore"
)

// step is a part or an error of a scripted stream.
type step struct {
	Part
	err  error
	wait time.Duration // before it
}

// play returns a stream whose n-th request yields the n-th list of steps, the last list for all
// further ones, and a counter of requests.
func play(attempts ...[]step) (Stream, *int) {
	n := new(int)
	return func(ctx context.Context, r Request) iter.Seq2[Part, error] {
		return func(yield func(Part, error) bool) {
			steps := attempts[min(*n, len(attempts)-1)]
			*n++
			for _, s := range steps {
				if err := Sleep(ctx, s.wait); err != nil {
					yield(Part{}, err)
					return
				}
				if !yield(s.Part, s.err) {
					return
				}
			}
		}
	}, n
}

// drain reads a reply.
func drain(ctx context.Context, s Stream) (parts []Part, err error) {
	for p, e := range s(ctx, Request{}) {
		if e != nil {
			return parts, e
		}
		parts = append(parts, p)
	}
	return parts, nil
}

func text(s string) step  { return step{Part: Part{Text: s}} }
func fails(e *Error) step { return step{err: e} }
func used(in, out int64) step {
	return step{Part: Part{Usage: &convstore.Usage{Input: in, Output: out}}}
}

var (
	done   = step{Part: Part{Stop: StopEnd}}
	busy   = &Error{Kind: KindOverloaded}
	denied = &Error{Kind: KindAuth}
)

func TestRetryWaits(t *testing.T) {
	tests := []struct {
		name    string
		options RetryOptions
		first   *Error
		times   int // how often it fails
		rand    float64
		want    []time.Duration
		fails   bool
	}{
		{name: "backoff", first: busy, times: 4, rand: 0.999999, want: []time.Duration{1e9, 2e9, 4e9, 8e9}},
		{name: "least jitter", first: busy, times: 3, want: []time.Duration{5e8, 1e9, 2e9}},
		{name: "longest wait", options: RetryOptions{Max: 3 * time.Second}, first: busy, times: 4, rand: 0.999999,
			want: []time.Duration{1e9, 2e9, 3e9, 3e9}},
		{name: "all attempts", first: busy, times: 9, want: []time.Duration{5e8, 1e9, 2e9, 4e9, 8e9}, fails: true},
		{name: "one attempt", options: RetryOptions{Attempts: 1}, first: busy, times: 9, fails: true},
		{name: "told", first: &Error{Kind: KindRateLimit, RetryAfter: 7 * time.Second}, times: 2, want: []time.Duration{7e9, 7e9}},
		{name: "told, jitter", first: &Error{Kind: KindRateLimit, RetryAfter: 10 * time.Second}, times: 1, rand: 0.5,
			want: []time.Duration{10.5e9}},
		{name: "told too much", first: &Error{Kind: KindRateLimit, RetryAfter: time.Hour}, times: 1, fails: true},
		{name: "told as much as may be", options: RetryOptions{MaxAfter: 6 * time.Hour}, first: &Error{Kind: KindRateLimit, RetryAfter: 5 * time.Hour}, times: 1,
			want: []time.Duration{5 * time.Hour}},
		{name: "quota", first: &Error{Kind: KindQuota}, times: 1, fails: true},
		{name: "quota with a reset", options: RetryOptions{MaxAfter: 6 * time.Hour}, first: &Error{Kind: KindQuota, RetryAfter: time.Hour}, times: 1,
			want: []time.Duration{time.Hour}},
		{name: "not temporary", first: denied, times: 1, fails: true},
		{name: "final", first: &Error{Kind: KindServer, Final: true}, times: 1, fails: true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var attempts [][]step
				for range tt.times {
					attempts = append(attempts, []step{fails(tt.first)})
				}
				s, n := play(append(attempts, []step{text("x"), done})...)
				var told []time.Duration
				tt.options.Rand = func() float64 { return tt.rand }
				tt.options.Notice = func(_ context.Context, r Retrying) { told = append(told, r.Wait.Round(time.Millisecond)) }
				start := time.Now()
				_, err := drain(t.Context(), Retry(s, tt.options))
				if (err != nil) != tt.fails || tt.fails && err.Error() != tt.first.Error() {
					t.Errorf("error = %v", err)
				}
				if !reflect.DeepEqual(told, tt.want) {
					t.Errorf("waits = %v, want %v", told, tt.want)
				}
				if *n != len(tt.want)+1 {
					t.Errorf("%d requests, want %d", *n, len(tt.want)+1)
				}
				total := time.Duration(0)
				for _, d := range tt.want {
					total += d
				}
				if got := time.Since(start).Round(time.Millisecond); got != total {
					t.Errorf("waited %v, want %v", got, total)
				}
			})
		})
	}
}

// TestRetryAgain: what was said or used is repeated only as whoever accounts for it allows.
func TestRetryAgain(t *testing.T) {
	usage := &convstore.Usage{Input: 1, Output: 2}
	broke := errors.New("no money")
	for name, said := range map[string]Part{
		"text":            {Text: "x"},
		"reasoning delta": {ReasoningDelta: "x"},
		"reasoning":       {Reasoning: &Reasoning{}},
		"call delta":      {CallDelta: "x"},
		"call":            {Call: &Call{}},
		"nothing":         {},
	} {
		first := []step{{Part: said}, used(1, 2), fails(busy)}
		if name == "nothing" {
			first = first[1:]
		}
		told := []Part{{Usage: usage}}
		if name != "nothing" {
			told = []Part{said, {Usage: usage}}
		}
		for _, tt := range []struct {
			name     string
			waits    func(context.Context, Lost) error
			requests int
			err      error
			want     []Part
		}{
			{"nobody accounts", nil, 1, busy, told},
			{"it was shown", func(context.Context, Lost) error { return ErrShown }, 1, busy, told},
			{"too dear", func(context.Context, Lost) error { return broke }, 1, broke, told[:len(told)-1]},
			{"again", func(_ context.Context, l Lost) error {
				if !reflect.DeepEqual(l, Lost{Usage: usage, Said: name != "nothing", Err: busy}) {
					t.Errorf("%s: lost %+v", name, l)
				}
				return nil
			}, 2, nil, append(slices.Clone(told[:len(told)-1]), Part{Text: "7"}, Part{Usage: &convstore.Usage{Input: 10, Output: 5}}, done.Part)},
		} {
			s, n := play(first, []step{text("7"), used(10, 5), done})
			counted := func(ctx context.Context, r Request) iter.Seq2[Part, error] {
				if *n == 1 && r.MaxTokens != 7 {
					t.Errorf("%s: the repeated request is %+v", name, r)
				}
				return s(ctx, r)
			}
			var parts []Part
			var err error
			for p, e := range Retry(counted, RetryOptions{Sleep: noSleep})(t.Context(), Request{
				Waits: tt.waits, Again: func(context.Context) (Request, error) { return Request{MaxTokens: 7}, nil },
			}) {
				if err = e; e == nil {
					parts = append(parts, p)
				}
			}
			if !errors.Is(err, tt.err) || *n != tt.requests || len(parts)+len(tt.want) > 0 && !reflect.DeepEqual(parts, tt.want) {
				t.Errorf("%s, %s: %+v, %v after %d requests; want %+v, %v, %d", name, tt.name, parts, err, *n, tt.want, tt.err, tt.requests)
			}
		}
	}
}

func noSleep(context.Context, time.Duration) error { return nil }

func TestRetryDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		slow := &Error{Kind: KindRateLimit, RetryAfter: 11 * time.Second}
		s, n := play([]step{fails(slow)})
		start := time.Now()
		if _, err := drain(ctx, Retry(s, RetryOptions{})); err != error(slow) || *n != 1 || time.Since(start) != 0 {
			t.Errorf("error = %v after %d requests and %v, want the provider's at once", err, *n, time.Since(start))
		}
	})
}

func TestRetryCancel(t *testing.T) {
	cause := errors.New("enough")
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(300*time.Millisecond, func() { cancel(cause) })
		s, n := play([]step{fails(busy)})
		parts, err := drain(ctx, Retry(s, RetryOptions{}))
		if err != cause || *n != 1 || len(parts) != 0 {
			t.Errorf("%+v, %v after %d requests, want the cause alone", parts, err, *n)
		}
	})
}

// TestRetryShortStream: a stream that ends without a stop or an error broke off.
func TestRetryShortStream(t *testing.T) {
	s, n := play([]step{}, []step{text("x"), done})
	parts, err := drain(t.Context(), Retry(s, RetryOptions{Sleep: noSleep}))
	if err != nil || len(parts) != 2 || *n != 2 {
		t.Errorf("%+v, %v after %d requests", parts, err, *n)
	}
}

// TestRetryConsumerStops: nothing is asked again after the consumer has left.
func TestRetryConsumerStops(t *testing.T) {
	s, n := play([]step{text("x"), fails(busy)})
	for _, err := range Retry(s, RetryOptions{Sleep: noSleep})(t.Context(), Request{}) {
		if err != nil {
			t.Error(err)
		}
		break
	}
	if *n != 1 {
		t.Errorf("%d requests, want 1", *n)
	}
}

func TestLimitIdle(t *testing.T) {
	tests := []struct {
		name    string
		options LimitOptions
		steps   []step
		want    string // the error, "" = none
		after   time.Duration
	}{
		{"in time", LimitOptions{}, []step{{Part: Part{Text: "a"}, wait: 59 * time.Second}, {Part: Part{Text: "b"}, wait: 59 * time.Second}, done}, "", 118 * time.Second},
		{"silent", LimitOptions{}, []step{{Part: Part{Text: "a"}, wait: time.Hour}}, "idle: nothing came for 1m0s", 60 * time.Second},
		{"silent later", LimitOptions{Idle: time.Second}, []step{text("a"), {Part: Part{Text: "b"}, wait: time.Hour}}, "idle: nothing came for 1s", time.Second},
		{"slow start", LimitOptions{Idle: time.Second, First: time.Minute}, []step{{Part: Part{Text: "a"}, wait: 59 * time.Second}, done}, "", 59 * time.Second},
		{"no limit", LimitOptions{Idle: -1}, []step{{Part: Part{Text: "a"}, wait: time.Hour}, done}, "", time.Hour},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, _ := play(tt.steps)
				start := time.Now()
				_, err := drain(t.Context(), Limit(s, tt.options))
				if got := message(err); got != tt.want {
					t.Errorf("error = %q, want %q", got, tt.want)
				}
				if got := time.Since(start); got != tt.after {
					t.Errorf("ended after %v, want %v", got, tt.after)
				}
			})
		})
	}
}

func message(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// TestLimitActivity: bytes without parts keep a stream alive.
func TestLimitActivity(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := func(ctx context.Context, _ Request) iter.Seq2[Part, error] {
			return func(yield func(Part, error) bool) {
				for range 10 {
					if err := Sleep(ctx, 50*time.Second); err != nil {
						yield(Part{}, err)
						return
					}
					activity(ctx)()
				}
				yield(Part{Stop: StopEnd}, nil)
			}
		}
		if _, err := drain(t.Context(), Limit(s, LimitOptions{})); err != nil {
			t.Error(err)
		}
	})
}

// TestLimitKeepAlives: a reply that shows signs of life and says nothing, or says little for ever,
// comes to an end.
func TestLimitKeepAlives(t *testing.T) {
	pinging := func(every time.Duration, p Part) Stream {
		return func(ctx context.Context, _ Request) iter.Seq2[Part, error] {
			return func(yield func(Part, error) bool) {
				for {
					if err := Sleep(ctx, every); err != nil {
						yield(Part{}, err)
						return
					}
					activity(ctx)()
					if p.content() && !yield(p, nil) {
						return
					}
				}
			}
		}
	}
	for _, tt := range []struct {
		name    string
		s       Stream
		options LimitOptions
		want    string
		after   time.Duration
	}{
		{"pings alone", pinging(time.Second, Part{}), LimitOptions{Quiet: time.Minute, Whole: time.Hour}, "idle: nothing but signs of life came for 1m0s", 61 * time.Second},
		{"a late first sign", pinging(4*time.Minute, Part{}), LimitOptions{Idle: 5 * time.Minute, First: 5 * time.Minute, Quiet: time.Minute},
			"idle: nothing but signs of life came for 1m0s", 5 * time.Minute},
		{"a byte now and then", pinging(50*time.Second, Part{Text: "x"}), LimitOptions{Quiet: time.Minute, Whole: time.Hour}, "idle: the reply was not complete after 1h0m0s", time.Hour},
		{"a call that grows", pinging(50*time.Second, Part{CallDelta: "x"}), LimitOptions{Quiet: time.Minute, Whole: time.Hour}, "idle: the reply was not complete after 1h0m0s", time.Hour},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				start := time.Now()
				_, err := drain(t.Context(), Limit(tt.s, tt.options))
				if message(err) != tt.want || time.Since(start) != tt.after {
					t.Errorf("%v after %v, want %q after %v", err, time.Since(start), tt.want, tt.after)
				}
				var e *Error
				if !errors.As(err, &e) || e.Temporary() {
					t.Errorf("%v would be repeated", err)
				}
			})
		})
	}
}

// TestSleepClockSet: a clock that somebody sets while it waits makes no wait longer than it was.
func TestSleepClockSet(t *testing.T) {
	for _, set := range []time.Duration{-time.Hour, 0, time.Hour} {
		synctest.Test(t, func(t *testing.T) {
			begun, by := time.Now(), time.Duration(0)
			err := sleep(t.Context(), time.Second, func() time.Time {
				defer func() { by = set }()
				return time.Now().Round(0).Add(by)
			})
			if took := time.Since(begun); err != nil || took != time.Second {
				t.Errorf("set by %v: slept for %v, %v, want 1s", set, took, err)
			}
		})
	}
}

// TestLimitSlowConsumer: the time of the consumer is not the provider's silence.
func TestLimitSlowConsumer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _ := play([]step{text("a"), text("b"), done})
		for _, err := range Limit(s, LimitOptions{Idle: time.Second, Quiet: time.Second, Whole: time.Second})(t.Context(), Request{}) {
			if err != nil {
				t.Error(err)
			}
			time.Sleep(time.Hour)
		}
	})
}

// TestLimitSuspended: time in which jp was suspended is not the provider's silence. Each watch, an
// hour too late, takes its time again, and that hour counts for no limit.
func TestLimitSuspended(t *testing.T) {
	for name, pick := range map[string]func(*watches) *watch{
		"idle":  func(w *watches) *watch { return w.idle },
		"quiet": func(w *watches) *watch { return w.quiet },
		"whole": func(w *watches) *watch { return w.whole },
	} {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithCancelCause(t.Context())
			o := LimitOptions{Idle: time.Minute, Quiet: time.Minute, Whole: time.Minute}
			w := &watches{options: o, cancel: cancel, left: o.Whole}
			w.said()
			late := pick(w)
			for _, v := range []*watch{w.idle, w.quiet, w.whole} {
				if v.set = v.set.Add(-time.Hour); v != late {
					v.timer.Stop()
				}
			}
			late.fires()
			time.Sleep(time.Minute - 1)
			synctest.Wait()
			if ctx.Err() != nil {
				t.Errorf("%s: %v, just after jp went on", name, context.Cause(ctx))
			}
			time.Sleep(time.Nanosecond)
			synctest.Wait()
			if ctx.Err() == nil {
				t.Errorf("%s: does not end a silence after a suspension", name)
			}
		})
	}
	synctest.Test(t, func(t *testing.T) {
		w := &watches{options: LimitOptions{Whole: time.Minute}, left: time.Minute}
		w.said()
		w.whole.set = w.whole.set.Add(-time.Hour)
		if w.stop(); w.left != time.Minute {
			t.Errorf("%v are left of a minute", w.left)
		}
	})
}

// TestLimitCause: the end of the caller's context stays the caller's.
func TestLimitCause(t *testing.T) {
	cause := errors.New("enough")
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(time.Second, func() { cancel(cause) })
		s, _ := play([]step{{wait: time.Hour}})
		if _, err := drain(ctx, Limit(s, LimitOptions{})); err != cause {
			t.Errorf("error = %v, want the cause", err)
		}
	})
}

func TestLimitContract(t *testing.T) {
	most := []byte("[1" + strings.Repeat(",1", MaxValues-2*pieceValues-1) + "]")
	tests := []struct {
		name  string
		steps []step
		want  string
	}{
		{"no end", []step{text("a")}, "stream: the reply ended too early"},
		{"nothing", nil, "stream: the reply ended too early"},
		{"after the end", []step{done, text("a")}, "stream: the reply went on after its end"},
		{"flood", []step{text("1234567890"), text("x"), done}, "too_large: the reply is larger than 10 bytes"},
		{"full", []step{text("1234567890"), done}, ""},
		{"many calls", []step{{Part: Part{Call: &Call{}}}, {Part: Part{Call: &Call{}}}, {Part: Part{Call: &Call{}}}, done}, "too_large: the reply calls more than 2 tools"},
		{"many values", []step{{Part: Part{Call: &Call{}}}, {Part: Part{Reasoning: &Reasoning{Opaque: append(most, "[]"...)}}}, done},
			"too_large: the reply has more than 983040 values in its calls and reasoning"},
		{"most values", []step{{Part: Part{Call: &Call{}}}, {Part: Part{Reasoning: &Reasoning{Opaque: most}}}, done}, ""},
		{"calls count", []step{{Part: Part{Call: &Call{Name: "12345", Arguments: []byte("123456")}}}, done}, "too_large: the reply is larger than 10 bytes"},
	}
	for _, tt := range tests {
		s, _ := play(tt.steps)
		if _, err := drain(t.Context(), Limit(s, LimitOptions{MaxBytes: 10, MaxCalls: 2})); message(err) != tt.want {
			t.Errorf("%s: error = %q, want %q", tt.name, message(err), tt.want)
		}
	}
}

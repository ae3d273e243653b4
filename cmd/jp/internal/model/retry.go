package model

import (
	"cmp"
	"context"
	"errors"
	"iter"
	"math/rand/v2"
	"time"
)

// RetryOptions say how a request is repeated.
type RetryOptions struct {
	Attempts int           // most attempts; 0 = 6, 1 = no repetition
	Base     time.Duration // wait before the second attempt, doubled each time; 0 = 1 s
	Max      time.Duration // longest wait of our own; 0 = 60 s
	// longest wait that a provider may ask for; a longer one ends the call; 0 = 2 min
	MaxAfter time.Duration

	// gate for all who share a limit; nil = each waits by itself
	Gate   Gate
	Notice func(context.Context, Retrying) // called before each wait; nil = nobody
	// called when a request is sent after a wait; nil = nobody
	Goes func(context.Context)
	// nil = a timer; returns the context's cause
	Sleep func(ctx context.Context, d time.Duration) error
	// in [0, 1), for jitter; nil = math/rand
	Rand func() float64
}

// Retrying is a wait before a request.
type Retrying struct {
	// attempt that failed, from 1; 0 = none did, and a Gate holds the first one back
	Attempt int
	Wait    time.Duration // how long; with a Gate at least so long
	Err     *Error        // why the attempt failed; nil with Attempt 0
}

// Gate holds requests back while a provider limits them, for all that share the limit. See package
// gate.
type Gate interface {
	// Enter returns when a request may be sent. It calls waits, at most once, if it has to wait,
	// with the least time. The error is the context's cause or an *Error.
	Enter(ctx context.Context, waits func(time.Duration)) (Pass, error)
	// Heard reports that the request is being answered.
	Heard(Pass)
	// Limited reports that the request met a limit, and for how long to hold others back. It
	// returns whether the gate can do that.
	Limited(p Pass, wait time.Duration) bool
}

// Pass is the permission of a Gate to send one request.
type Pass struct {
	At   time.Duration // time on the gate's clock
	Open bool          // whether the gate was open
}

// Retry returns s with repetition. An *Error that is Temporary, or of a quota whose reset the
// provider states, is not yielded: after a wait the request is sent again. Request.Waits is called
// before the wait and Request.Again after it, so that a request is in the caller's account exactly
// while it is on its way. The next attempt begins the reply again: parts of the failed one that
// were passed on no longer count.
//
// Where a provider says how long to wait, Retry waits as long, and a little longer, so that
// processes that failed together do not come back together. Otherwise the wait grows from attempt
// to attempt. Where the wait would be longer than MaxAfter, or outlast the context's deadline, the
// error is yielded at once.
//
// With a Gate every attempt enters it, the first one too. Where a limit was met (KindRateLimit,
// KindOverloaded) the request waits there, if that is not for longer than a gate holds it back. It
// may wait longer than Notice was given, because others wait too.
//
// Request.Waits gets the usage of a failed attempt. That of the last attempt is the usage of the
// reply.
func Retry(s Stream, o RetryOptions) Stream {
	if o.Attempts <= 0 {
		o.Attempts = 6
	}
	if o.Base <= 0 {
		o.Base = time.Second
	}
	if o.Max <= 0 {
		o.Max = 60 * time.Second
	}
	if o.MaxAfter <= 0 {
		o.MaxAfter = usualLimit
	}
	if o.Notice == nil {
		o.Notice = func(context.Context, Retrying) {}
	}
	if o.Sleep == nil {
		o.Sleep = Sleep
	}
	if o.Rand == nil {
		o.Rand = rand.Float64
	}
	if o.Goes == nil {
		o.Goes = func(context.Context) {}
	}
	if o.Gate == nil {
		o.Gate = noGate{}
	}
	return func(ctx context.Context, r Request) iter.Seq2[Part, error] {
		return func(yield func(Part, error) bool) {
			var last *Error
			waited := false // since Waits was called
			for n := 1; ; n++ {
				a := attempt{yield: yield}
				pass, err := o.enter(ctx, n-1, last, func(ctx context.Context) error {
					if waited || r.Waits == nil {
						return nil
					}
					waited = true
					return r.Waits(ctx, Lost{})
				})
				if err == nil && waited {
					r, err = r.again(ctx)
					waited = false
				}
				r.Attempt = n
				if a.err = err; err == nil {
					a.heard = func() { o.Gate.Heard(pass) }
					a.run(s(ctx, r))
				}
				gated := o.limited(pass, n, a.err)
				if a.done {
					return
				}
				wait, e := o.again(ctx, n, a)
				if e != nil {
					if waited = a.waits(ctx, r, e); !waited {
						e = nil
					}
				}
				if last = e; e != nil {
					if gated {
						continue
					}
					o.Notice(ctx, Retrying{Attempt: n, Wait: wait, Err: e})
					if a.err = o.Sleep(ctx, wait); a.err == nil {
						last = nil
						o.Goes(ctx)
						continue
					}
				}
				if late := (*Error)(nil); errors.As(a.err, &late) {
					a.err = late.withReset(o.MaxAfter)
				}
				if a.usage.Usage == nil || yield(a.usage, nil) {
					yield(Part{}, a.err)
				}
				return
			}
		}
	}
}

// enter enters the gate after n attempts. The last one failed with e; nil = there was none. It
// calls waits before it waits.
func (o RetryOptions) enter(ctx context.Context, n int, e *Error, waits func(context.Context) error) (Pass, error) {
	waited := false
	inside, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	pass, err := o.Gate.Enter(inside, func(wait time.Duration) {
		if err := waits(ctx); err != nil {
			cancel(err)
			return
		}
		waited = true
		if e == nil {
			n = 0
		}
		o.Notice(ctx, Retrying{Attempt: n, Wait: wait, Err: e})
	})
	if waited && err == nil {
		o.Goes(ctx)
	}
	return pass, err
}

// limited reports to the gate that attempt n met a limit. It returns whether the gate does the
// waiting: it holds for no longer than usualLimit.
func (o RetryOptions) limited(p Pass, n int, err error) bool {
	var e *Error
	if !errors.As(err, &e) || !e.Temporary() || e.Kind != KindRateLimit && e.Kind != KindOverloaded {
		return false
	}
	wait := o.wait(n, e)
	return o.Gate.Limited(p, wait) && cmp.Or(e.RetryAfter, wait) <= usualLimit
}

// noGate is a gate that is always open.
type noGate struct{}

func (noGate) Enter(context.Context, func(time.Duration)) (Pass, error) { return Pass{Open: true}, nil }
func (noGate) Heard(Pass)                                               {}
func (noGate) Limited(Pass, time.Duration) bool                         { return false }

// attempt is one request of several. It passes on the parts of the reply. It holds back the usage
// until it knows whether the attempt is the last.
type attempt struct {
	yield func(Part, error) bool
	heard func() // called when the first part comes

	said  bool // whether something was passed on
	done  bool // whether the reply is complete, or the consumer wants no more
	usage Part // usage that was held back
	err   error
}

func (a *attempt) run(reply iter.Seq2[Part, error]) {
	for p, err := range reply {
		if a.err = err; err != nil {
			return
		}
		if p.Usage != nil {
			a.usage = p
			continue
		}
		if a.heard != nil {
			a.heard()
			a.heard = nil
		}
		if a.usage.Usage != nil {
			held := a.usage
			a.usage = Part{}
			if a.done = !a.yield(held, nil); a.done {
				return
			}
		}
		a.said = a.said || p.content()
		if a.done = !a.yield(p, nil) || p.Stop != ""; a.done {
			return
		}
	}
	a.err = &Error{Kind: KindStream, Message: "the reply ended too early"}
}

// waits reports whether the request may be sent again after an attempt that failed with e. It
// passes the usage of the attempt to the caller.
func (a *attempt) waits(ctx context.Context, r Request, e *Error) bool {
	lost := Lost{Usage: a.usage.Usage, Cost: a.usage.Cost, Estimated: a.usage.Estimated, Said: a.said, Err: e}
	if r.Waits == nil {
		return !lost.any()
	}
	switch err := r.Waits(ctx, lost); {
	case errors.Is(err, ErrShown):
		return false
	case err != nil:
		a.err, a.usage = err, Part{}
		return false
	}
	a.usage = Part{}
	return true
}

// again returns the request to send after a wait.
func (r Request) again(ctx context.Context) (Request, error) {
	if r.Again == nil {
		return r, nil
	}
	next, err := r.Again(ctx)
	next.Waits, next.Again, next.Named, next.Run = r.Waits, r.Again, r.Named, r.Run
	return next, err
}

// again decides whether to repeat the request that failed with e, and after how long; nil = no.
func (o RetryOptions) again(ctx context.Context, n int, a attempt) (wait time.Duration, e *Error) {
	if n >= o.Attempts || ctx.Err() != nil || !errors.As(a.err, &e) || !e.passing(o.MaxAfter) {
		return 0, nil
	}
	wait = o.wait(n, e)
	if deadline, ok := ctx.Deadline(); ok && time.Until(deadline) <= wait {
		return 0, nil
	}
	return wait, e
}

// wait returns how long to wait after attempt n.
func (o RetryOptions) wait(n int, e *Error) time.Duration {
	if e.RetryAfter > 0 {
		after := min(e.RetryAfter, o.MaxAfter)
		return after + time.Duration(o.Rand()*float64(min(after/10, 5*time.Second)))
	}
	d := o.Max
	if shift := n - 1; shift < 30 && o.Base<<shift < o.Max && o.Base<<shift > 0 {
		d = o.Base << shift
	}
	return d/2 + time.Duration(o.Rand()*float64(d/2))
}

// Sleep waits for d, or for the end of the context, whose cause it then returns. Time in which the
// machine sleeps counts, within half a minute.
func Sleep(ctx context.Context, d time.Duration) error {
	return sleep(ctx, d, func() time.Time { return time.Now().Round(0) })
}

// sleep is Sleep with a clock that counts time asleep. Somebody may set it: back makes no wait longer.
func sleep(ctx context.Context, d time.Duration, clock func() time.Time) error {
	const look = 30 * time.Second
	begun, end := time.Now(), clock().Add(d)
	for left := d; left > 0; left = min(end.Sub(clock()), d-time.Since(begun)) {
		t := time.NewTimer(min(left, look))
		select {
		case <-t.C:
		case <-ctx.Done():
			t.Stop()
			return context.Cause(ctx)
		}
	}
	return nil
}

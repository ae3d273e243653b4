package model

import (
	"context"
	"errors"
	"iter"
	"math/rand/v2"
	"time"

	"jp/convstore"
)

// RetryOptions says how a request is repeated.
type RetryOptions struct {
	Attempts int           // in all; 0 = 6, 1 = no repetition
	Base     time.Duration // wait before the second attempt, doubled each time; 0 = 1 s
	Max      time.Duration // longest wait of our own; 0 = 60 s
	MaxAfter time.Duration // longest wait that a provider may ask for, longer ones are cut; 0 = 2 min

	Notice func(Retrying)                                   // told before each wait; nil = nobody
	Sleep  func(ctx context.Context, d time.Duration) error // nil = a timer; returns the context's cause
	Rand   func() float64                                   // in [0, 1), for jitter; nil = math/rand
}

// Retrying tells that a request failed and is going to be repeated.
type Retrying struct {
	Attempt int // the one that failed, 1-based
	Wait    time.Duration
	Err     *Error
}

// Retry returns s with repetition: an *Error that is Temporary, before anything was said, is
// swallowed, and after a wait the request is sent again. Where a provider says how long to
// wait, that counts (and a little more, so that processes that failed together do not come back
// together); otherwise the wait grows from attempt to attempt. A wait that would outlast the
// context's deadline is not begun: the error is yielded at once.
//
// What failed attempts cost is added to the usage of the last one.
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
		o.MaxAfter = 2 * time.Minute
	}
	if o.Notice == nil {
		o.Notice = func(Retrying) {}
	}
	if o.Sleep == nil {
		o.Sleep = sleep
	}
	if o.Rand == nil {
		o.Rand = rand.Float64
	}
	return func(ctx context.Context, r Request) iter.Seq2[Part, error] {
		return func(yield func(Part, error) bool) {
			var lost convstore.Usage // by attempts that failed
			for n := 1; ; n++ {
				r.Attempt = n
				a := attempt{lost: lost, yield: yield}
				a.run(s(ctx, r))
				if a.done {
					return
				}
				if a.usage != nil {
					lost = lost.Add(*a.usage)
				}
				wait, again := o.again(ctx, n, a)
				if again {
					if a.err = o.Sleep(ctx, wait); a.err == nil {
						continue
					}
				}
				if lost == (convstore.Usage{}) || yield(Part{Usage: &lost}, nil) {
					yield(Part{}, a.err)
				}
				return
			}
		}
	}
}

// attempt is one request of several. It passes on what the reply brings, but holds the usage
// back until it knows whether the attempt counts.
type attempt struct {
	lost  convstore.Usage
	yield func(Part, error) bool

	said  bool // something was passed on, the request cannot be repeated unseen
	done  bool // the reply is complete, or the consumer wants no more
	usage *convstore.Usage
	err   error
}

func (a *attempt) run(reply iter.Seq2[Part, error]) {
	for p, err := range reply {
		if a.err = err; err != nil {
			return
		}
		if p.Usage != nil {
			a.usage = p.Usage
			continue
		}
		if a.usage != nil {
			total := a.lost.Add(*a.usage)
			a.usage = nil
			if a.done = !a.yield(Part{Usage: &total}, nil); a.done {
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

// again decides whether to repeat the request, and after how long.
func (o RetryOptions) again(ctx context.Context, n int, a attempt) (time.Duration, bool) {
	var e *Error
	if a.said || n >= o.Attempts || ctx.Err() != nil || !errors.As(a.err, &e) || !e.Temporary() {
		return 0, false
	}
	wait := o.wait(n, e)
	if deadline, ok := ctx.Deadline(); ok && time.Until(deadline) <= wait {
		return 0, false
	}
	o.Notice(Retrying{Attempt: n, Wait: wait, Err: e})
	return wait, true
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

// sleep waits for d, or for the end of the context, whose cause it then returns.
func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

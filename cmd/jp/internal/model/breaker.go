package model

import (
	"context"
	"errors"
	"iter"
	"sync"
	"time"
)

// Breaker remembers which models cannot be asked: those whose account may not spend more or whose
// key is not accepted, and those that do not exist. It holds no request back. Whoever is about to
// begin work asks it with Down. The zero value is ready to use. Safe for concurrent use.
type Breaker struct {
	// Limit is the longest wait for a reset that a provider states; a longer one counts as an error
	// that lasts; 0 = 2 min.
	Limit time.Duration
	// Now is the clock; nil = time.Now.
	Now func() time.Time

	mu   sync.Mutex
	down map[outage]failure
}

// outage is what an error is about: an account, or one model of it.
type outage struct{ endpoint, keyEnv, model string }

type failure struct {
	err   *Error
	until time.Time
	begun time.Time
	wait  time.Duration
}

// lasts is how long an error counts whose end nobody states. After that one more may try.
const lasts = 10 * time.Minute

// scope returns what an error about a model is about. The variable of the key stands for the key,
// which is the same as long as the process runs.
func (i Info) scope(e *Error) outage {
	o := outage{i.Endpoint, i.KeyEnv, i.Name}
	switch {
	case i.Endpoint == "": // a script
	case e.Kind == KindQuota, e.Kind == KindAuth && e.Status != 403: // 403 may be about the model
		o.model = ""
	}
	return o
}

// Watch returns s and notes how its requests end.
func (b *Breaker) Watch(info Info, s Stream) Stream {
	return func(ctx context.Context, r Request) iter.Seq2[Part, error] {
		return func(yield func(Part, error) bool) {
			answered := false
			for p, err := range s(ctx, r) {
				switch {
				case err != nil:
					b.Failed(info, err)
				case !answered && p.content():
					answered = true
					b.answered(info)
				}
				if !yield(p, err) {
					return
				}
			}
		}
	}
}

// Failed notes that a model could not be asked.
func (b *Breaker) Failed(info Info, err error) {
	var e *Error
	if !errors.As(err, &e) || !e.Lasting(b.Limit) {
		return
	}
	wait := lasts
	if e.RetryAfter > 0 {
		wait = e.RetryAfter
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.down == nil {
		b.down = map[outage]failure{}
	}
	b.down[info.scope(e)] = failure{e, b.now().Add(wait), time.Now(), wait}
}

// answered notes that a model is being asked with success.
func (b *Breaker) answered(info Info) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.down, outage{info.Endpoint, info.KeyEnv, info.Name})
	delete(b.down, outage{info.Endpoint, info.KeyEnv, ""})
}

// Down returns why a model cannot be asked; nil = nothing is known against it.
func (b *Breaker) Down(info Info) *Error {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, o := range []outage{{info.Endpoint, info.KeyEnv, ""}, {info.Endpoint, info.KeyEnv, info.Name}} {
		if f, ok := b.down[o]; ok {
			if b.now().Before(f.until) && time.Since(f.begun) < f.wait { // a clock that is set back makes it no longer
				return f.err
			}
			delete(b.down, o)
		}
	}
	return nil
}

func (b *Breaker) now() time.Time {
	if b.Now != nil {
		return b.Now()
	}
	return time.Now().Round(0) // the wall clock, as the provider's reset: it goes on while the machine sleeps
}

package model

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"
)

// LimitOptions bounds one reply.
type LimitOptions struct {
	Idle     time.Duration // longest silence between two signs of life; 0 = 60 s, negative = no limit
	First    time.Duration // the same before the first one; 0 = Idle. Servers that load a model first need more
	MaxBytes int64         // of text, reasoning and calls together; 0 = 32 MiB
}

// Limit returns s with limits: silence ends a reply with an *Error of KindIdle, a flood with
// KindTooLarge. Bytes that bring no part, such as keep-alives, count as signs of life; the time
// that the consumer takes counts as nothing. Limit also holds s to what each Stream promises: a
// reply that ends without a Stop becomes an *Error of KindStream.
func Limit(s Stream, o LimitOptions) Stream {
	if o.Idle == 0 {
		o.Idle = 60 * time.Second
	}
	if o.First == 0 {
		o.First = o.Idle
	}
	if o.MaxBytes <= 0 {
		o.MaxBytes = defaultMaxBytes
	}
	return func(ctx context.Context, r Request) iter.Seq2[Part, error] {
		return func(yield func(Part, error) bool) {
			ctx, cancel := context.WithCancelCause(ctx)
			defer cancel(nil)
			timer := newWatch(cancel)
			defer timer.stop()
			ctx = context.WithValue(ctx, activityKey{}, func() { timer.start(o.Idle) })

			left, stopped := o.MaxBytes, false
			timer.start(o.First)
			for p, err := range s(ctx, r) {
				timer.stop()
				if err == nil && stopped {
					err = &Error{Kind: KindStream, Message: "the reply went on after its end"}
				}
				if left -= p.size(); err == nil && left < 0 {
					err = &Error{Kind: KindTooLarge, Final: true, Message: fmt.Sprintf("the reply is larger than %d bytes", o.MaxBytes)}
				}
				if err != nil {
					// Whatever the stream made of the end of its context, the silence was the cause.
					var said, idle *Error
					if errors.As(context.Cause(ctx), &idle) && !(errors.As(err, &said) && said.Kind == KindIdle) {
						err = idle
					}
					yield(Part{}, err)
					return
				}
				stopped = p.Stop != ""
				if !yield(p, nil) {
					return
				}
				timer.start(o.Idle)
			}
			if !stopped {
				err := error(&Error{Kind: KindStream, Message: "the reply ended too early"})
				if ctx.Err() != nil {
					err = context.Cause(ctx)
				}
				yield(Part{}, err)
			}
		}
	}
}

// size is what a part counts against MaxBytes.
func (p Part) size() int64 {
	n := len(p.Text) + len(p.ReasoningDelta)
	if p.Call != nil {
		n += len(p.Call.Name) + len(p.Call.Arguments)
	}
	return int64(n)
}

// watch ends a context when nothing happens for a while. One goroutine uses it at a time.
type watch struct {
	timer  *time.Timer
	cancel context.CancelCauseFunc
}

func newWatch(cancel context.CancelCauseFunc) *watch { return &watch{cancel: cancel} }

func (w *watch) start(d time.Duration) {
	w.stop()
	if d > 0 {
		w.timer = time.AfterFunc(d, func() {
			w.cancel(&Error{Kind: KindIdle, Message: fmt.Sprintf("nothing came for %v", d)})
		})
	}
}

func (w *watch) stop() {
	if w.timer != nil {
		w.timer.Stop()
	}
}

type activityKey struct{}

// activity returns what to call on a sign of life of the provider.
func activity(ctx context.Context) func() {
	if touch, ok := ctx.Value(activityKey{}).(func()); ok {
		return touch
	}
	return func() {}
}

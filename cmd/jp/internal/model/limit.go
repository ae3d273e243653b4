package model

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"sync"
	"time"

	"jp/tools/jsondoc"
)

// LimitOptions bounds one reply.
type LimitOptions struct {
	// longest silence between two signs of life; 0 = 60 s, negative = no limit
	Idle time.Duration
	// the same before the first one; 0 = Idle. Servers that load a model first need more
	First time.Duration
	// longest time in which no part comes, once there was a sign of life; 0 = no limit
	Quiet    time.Duration
	Whole    time.Duration // longest time of the whole reply; 0 = no limit
	MaxBytes int64         // most bytes of text, reasoning and calls together; 0 = 32 MiB
	MaxCalls int           // most calls of tools; 0 = MaxCalls
}

// The most that a reply may have, whatever is configured. A wire that passes replies on must take it.
const (
	MaxCalls  = 1024     // calls of tools
	MaxValues = 15 << 16 // values of JSON in its calls and blocks of reasoning, about; each of these counts pieceValues more

	pieceValues = 16
)

// Limit returns s with limits. Silence ends a reply with an *Error of KindIdle, a flood with one of
// KindTooLarge. Bytes without a part, such as keep-alives, are signs of life for Idle and First,
// and not for Quiet. Time that the consumer takes does not count. Limit also checks what each
// Stream promises: a reply that ends without a Stop becomes an *Error of KindStream.
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
	if o.MaxCalls <= 0 {
		o.MaxCalls = MaxCalls
	}
	return func(ctx context.Context, r Request) iter.Seq2[Part, error] {
		return func(yield func(Part, error) bool) {
			ctx, cancel := context.WithCancelCause(ctx)
			defer cancel(nil)
			w := &watches{options: o, cancel: cancel, left: o.Whole}
			defer w.stop()
			ctx = context.WithValue(ctx, activityKey{}, w.touch)

			left, calls, values, stopped := o.MaxBytes, 0, 0, false
			w.start(o.First)
			for p, err := range s(ctx, r) {
				w.stop()
				if err == nil && stopped {
					err = &Error{Kind: KindStream, Message: "the reply went on after its end"}
				}
				if left -= p.size(); err == nil && left < 0 {
					err = &Error{Kind: KindTooLarge, Final: true, Message: fmt.Sprintf("the reply is larger than %d bytes", o.MaxBytes)}
				}
				if p.Call != nil {
					calls++
				}
				if err == nil && calls > o.MaxCalls {
					err = &Error{Kind: KindTooLarge, Final: true, Message: fmt.Sprintf("the reply calls more than %d tools", o.MaxCalls)}
				}
				if values += p.values(); err == nil && values > MaxValues {
					err = &Error{Kind: KindTooLarge, Final: true, Message: fmt.Sprintf("the reply has more than %d values in its calls and reasoning", MaxValues)}
				}
				if err != nil {
					// The silence was the cause, whatever error the stream returned at the end of
					// its context.
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
				w.said()
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

// size returns how many bytes a part counts for MaxBytes.
func (p Part) size() int64 {
	n := len(p.Text) + len(p.ReasoningDelta)
	if p.Call != nil {
		n += len(p.Call.Name) + len(p.Call.Arguments)
	}
	return int64(n)
}

// values returns how many values a part counts for MaxValues.
func (p Part) values() int {
	switch {
	case p.Call != nil:
		return pieceValues + jsondoc.Values(p.Call.Arguments)
	case p.Reasoning != nil:
		return pieceValues + jsondoc.Values(p.Reasoning.Opaque)
	}
	return 0
}

// watches end a context when a reply takes too long. They stop while the consumer works. One
// goroutine uses them at a time.
type watches struct {
	options LimitOptions
	cancel  context.CancelCauseFunc

	idle, quiet, whole *watch // nil = does not run
	left               time.Duration
}

// start begins to wait for a sign of life.
func (w *watches) start(idle time.Duration) {
	w.wait(idle)
	if w.options.Whole > 0 {
		w.whole = w.after(max(w.left, 0), &Error{Kind: KindIdle, Final: true, Message: fmt.Sprintf("the reply was not complete after %v", w.options.Whole),
			Hint: "assistant.request.reply_timeout_secs bounds a whole reply"})
	}
}

// said starts the watches again after a part.
func (w *watches) said() {
	w.start(w.options.Idle)
	w.listen()
}

// touch starts the watch for silence again after a sign of life.
func (w *watches) touch() {
	w.wait(w.options.Idle)
	if w.quiet == nil {
		w.listen()
	}
}

func (w *watches) wait(d time.Duration) {
	halt(&w.idle)
	if d > 0 {
		w.idle = w.after(d, &Error{Kind: KindIdle, Message: fmt.Sprintf("nothing came for %v", d)})
	}
}

func (w *watches) listen() {
	if d := w.options.Quiet; d > 0 {
		w.quiet = w.after(d, &Error{Kind: KindIdle, Final: true, Message: fmt.Sprintf("nothing but signs of life came for %v", d),
			Hint: "assistant.request.reply_idle_timeout_secs bounds how long a model may say nothing"})
	}
}

func (w *watches) stop() {
	halt(&w.idle)
	halt(&w.quiet)
	w.left -= halt(&w.whole)
}

func (w *watches) after(limit time.Duration, err error) *watch {
	v := &watch{limit: limit, over: func() { w.cancel(err) }, set: time.Now()}
	v.mu.Lock()
	defer v.mu.Unlock()
	v.timer = time.AfterFunc(limit, v.fires)
	return v
}

// halt ends a watch and returns how long it ran.
func halt(w **watch) (ran time.Duration) {
	if v := *w; v != nil {
		v.mu.Lock()
		defer v.mu.Unlock()
		v.timer.Stop()
		v.over, ran, *w = func() {}, v.ran(), nil
	}
	return ran
}

// watch calls over after a time in which jp could look for the reply. While jp is suspended (Ctrl-Z)
// the clock goes on, and a server may say all it has to say: a watch that is much too late begins
// again.
type watch struct {
	limit time.Duration
	mu    sync.Mutex // guards what follows
	over  func()
	set   time.Time
	timer *time.Timer
}

func (v *watch) fires() {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.ran() < v.limit {
		v.timer.Reset(v.limit)
		return
	}
	v.over()
}

// ran returns how long the watch runs.
func (v *watch) ran() time.Duration {
	ran := time.Since(v.set)
	if ran > v.limit+time.Second {
		v.set, ran = time.Now(), 0
	}
	return ran
}

type activityKey struct{}

// activity returns the function to call at each sign of life of the provider.
func activity(ctx context.Context) func() {
	if touch, ok := ctx.Value(activityKey{}).(func()); ok {
		return touch
	}
	return func() {}
}

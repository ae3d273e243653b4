package wire

import (
	"context"
	"iter"
	"reflect"
	"sync"
	"time"

	"jp/cmd/jp/internal/model"
)

// Ask makes one attempt of a call of the model that was begun. The owner makes the request. It is a
// model.Stream.
func (c *Conn) Ask(ctx context.Context, r model.Request) iter.Seq2[model.Part, error] {
	return func(yield func(model.Part, error) bool) {
		in := &inflow{ready: make(chan struct{}, 1)}
		a := &asked{reply: in}
		n, err := c.question(r, a)
		if err != nil {
			yield(model.Part{}, err)
			return
		}
		hangUp := func() { _ = c.line.write(fromChild{Cancel: n}) }
		defer context.AfterFunc(ctx, hangUp)()

		unsaid := 0 // bytes that were taken and the owner does not know of
		pass := func(list parts) bool {
			r.Name(list.ID, list.Model)
			for _, p := range list.Parts {
				if p.Usage != nil {
					p.Attempt = n
				}
				if !yield(p, nil) {
					return false
				}
				unsaid += p.Size()
			}
			if unsaid > window/4 {
				_ = c.line.write(fromChild{Taken: &taken{n, unsaid}})
				unsaid = 0
			}
			return true
		}
		for {
			var end answer
			var ended, ok bool
			select {
			case <-in.ready:
			case end, ok = <-a.answers:
				ended = true
			}
			list := in.take()
			if ok && end.Said != nil {
				list = append(list, *end.Said)
			}
			for _, p := range list {
				if !pass(p) {
					if hangUp(); !ended {
						<-a.answers // nothing of it runs afterwards
					}
					return
				}
			}
			switch {
			case !ended:
				continue
			case !ok:
				err = c.gone()
			case end.Failed != nil:
				err = end.Failed
			default:
				err = end.Error.err()
			}
			if err != nil && ctx.Err() != nil {
				err = context.Cause(ctx)
			}
			if err != nil {
				yield(model.Part{}, err)
			}
			return
		}
	}
}

// question sends an attempt: of its thread only what the one before did not have.
func (c *Conn) question(r model.Request, a *asked) (uint64, error) {
	r.Waits, r.Again, r.Named = nil, nil, nil // they stay here
	r.CallIDs = nil                           // the owner has stored the calls
	c.asking.Lock()
	defer c.asking.Unlock()
	q := question{Request: r, Learned: r.Learned}
	for q.Keep < min(len(r.Messages), len(c.sent.Messages)) && reflect.DeepEqual(r.Messages[q.Keep], c.sent.Messages[q.Keep]) {
		q.Keep++
	}
	q.Request.Messages = r.Messages[q.Keep:]
	if q.Same = reflect.DeepEqual(r.System, c.sent.System) && reflect.DeepEqual(r.Tools, c.sent.Tools); q.Same {
		q.Request.System, q.Request.Tools = nil, nil
	}
	n, err := c.send(fromChild{Ask: &q}, a)
	if err == nil {
		c.sent = r
	}
	return n, err
}

// inflow has the parts of a reply that nobody has taken yet. The owner sends no more than a window
// of them.
type inflow struct {
	ready chan struct{} // full where there may be parts

	mu   sync.Mutex
	list []parts
}

func (f *inflow) put(p parts) {
	f.mu.Lock()
	f.list = append(f.list, p)
	f.mu.Unlock()
	select {
	case f.ready <- struct{}{}:
	default:
	}
}

func (f *inflow) take() []parts {
	f.mu.Lock()
	defer f.mu.Unlock()
	list := f.list
	f.list = nil
	return list
}

// Gate returns the rate gate of a model; nil = it has none. It is the one of the latest call. The
// owner itself reports what is heard.
func (c *Conn) Gate(k Known) Gate {
	if !k.Gated {
		return nil
	}
	return farGate{c}
}

type farGate struct{ conn *Conn }

// Look returns the permission that came with the latest begin.
func (g farGate) Look() (model.Pass, bool) {
	g.conn.mu.Lock()
	defer g.conn.mu.Unlock()
	open := g.conn.open
	g.conn.open = false
	return model.Pass{Open: true}, open
}

func (g farGate) Enter(ctx context.Context, waits func(time.Duration)) (model.Pass, error) {
	if pass, ok := g.Look(); ok {
		return pass, nil
	}
	step := &gateStep{}
	if end, ok := ctx.Deadline(); ok {
		step.Left = max(time.Until(end), time.Millisecond)
	}
	// waits asks the owner itself, so that the goroutine which reads must not call it.
	told := make(chan time.Duration, 1)
	done := make(chan error, 1)
	go func() {
		a, err := g.conn.ask(ctx, fromChild{Gate: step}, &asked{held: func(d time.Duration) {
			select {
			case told <- d:
			default:
			}
		}})
		switch {
		case err != nil:
		case ctx.Err() != nil && (a.Failed != nil || a.Error != nil):
			err = context.Cause(ctx)
		case a.Failed != nil:
			err = a.Failed
		default:
			err = a.Error.err()
		}
		done <- err
	}()
	for {
		select {
		case d := <-told:
			waits(d)
		case err := <-done:
			select {
			case d := <-told:
				waits(d)
			default:
			}
			return model.Pass{}, err
		}
	}
}

func (g farGate) Heard(model.Pass) {}

func (g farGate) Limited(_ model.Pass, wait time.Duration) bool {
	a, err := g.conn.do(fromChild{Gate: &gateStep{Limited: true, Wait: wait}})
	return err == nil && a.Shut
}

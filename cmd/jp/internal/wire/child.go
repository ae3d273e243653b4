package wire

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"jp/cmd/jp/internal/agent"
	"jp/cmd/jp/internal/call"
	"jp/cmd/jp/internal/model"
	"jp/convstore"
)

// Conn is a sub-agent's connection to its owner. It is the agent.Log of the sub-agent's
// conversation. Safe for concurrent use.
type Conn struct {
	line     *line
	start    Start
	blank    atomic.Bool
	commands chan struct{} // one element for each command that is asked for

	mu       sync.Mutex
	last     uint64 // number of the latest request
	asked    map[uint64]*asked
	err      error              // why nothing can be asked any more; nil = it can
	account  *convstore.Account // account as it is believed to be; nil = not known
	calls    int                // delegations that were reserved
	recalled map[string]bool    // ids of calls that were answered from a run that had ended
	open     bool               // whether the rate gate need not be asked for the next attempt

	asking sync.Mutex    // held while a request for the model is sent
	sent   model.Request // latest one
}

var _ agent.Log = (*Conn)(nil)

// asked is a request that is not answered yet.
type asked struct {
	answers chan answer
	step    func(raw []byte) // nil = steps are not looked at
	want    func(n uint64)   // gets the number of the request; nil = there is no stdin
	held    func(d time.Duration)
	reply   *inflow // parts of a reply; nil = it is no ask
}

// Join waits for the first frame of the owner and returns the connection, which owns rw. checkpoint
// is called at each point of a frame; nil = no test does.
func Join(rw io.ReadWriteCloser, checkpoint func(point string)) (*Conn, error) {
	c := &Conn{line: newLine(rw, checkpoint), commands: make(chan struct{}, call.Lines), asked: map[uint64]*asked{}, recalled: map[string]bool{}}
	var first fromOwner
	_, err := c.line.read(&first)
	switch {
	case err == io.EOF:
		err = ErrGone
	case err == nil && first.Start == nil:
		err = &FrameError{"the first frame is not a start"}
	case err == nil && first.Start.Protocol != Protocol:
		err = &FrameError{fmt.Sprintf("protocol %d, and this jp knows %d", first.Start.Protocol, Protocol)}
	}
	if err != nil {
		rw.Close()
		return nil, err
	}
	c.start = first.Start.Start
	c.start.Conversation = convstore.Conversation(first.Start.Conversation)
	c.blank.Store(c.start.Blank)
	c.account = &c.start.Account
	go c.receive()
	return c, nil
}

// Start returns the first frame.
func (c *Conn) Start() Start { return c.start }

// Close ends the connection. What is still asked fails.
func (c *Conn) Close() error { return c.line.rw.Close() }

// receive hands answers to those who have asked, until the owner has gone.
func (c *Conn) receive() {
	for {
		var f fromOwner
		if _, err := c.line.read(&f); err != nil {
			c.fail(err)
			return
		}
		n := f.Want
		switch {
		case f.Answer != nil:
			n = f.Answer.N
		case f.Step != nil:
			n = f.Step.N
		case f.Parts != nil:
			n = f.Parts.N
		case f.Held != nil:
			n = f.Held.N
		}
		c.mu.Lock()
		a := c.asked[n]
		if a != nil && f.Answer != nil && !f.Answer.More {
			delete(c.asked, n)
		}
		c.mu.Unlock()
		switch {
		case a == nil: // nobody waits for it any more
		case f.Answer != nil:
			a.answers <- *f.Answer
		case f.Step != nil && a.step != nil:
			a.step(f.Step.Step)
		case f.Want != 0 && a.want != nil:
			a.want(n)
		case f.Parts != nil && a.reply != nil:
			a.reply.put(*f.Parts)
		case f.Held != nil && a.held != nil:
			a.held(f.Held.Wait)
		}
	}
}

// fail ends all requests.
func (c *Conn) fail(err error) {
	if err == io.EOF {
		err = ErrGone
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.err = err
	for _, a := range c.asked {
		close(a.answers)
	}
	clear(c.asked)
}

// ask sends a request and returns its answer, whose parts are joined. When ctx ends the request is
// cancelled, and the answer still awaited: it says what came of it. The error is that of the
// connection.
func (c *Conn) ask(ctx context.Context, f fromChild, a *asked) (whole answer, err error) {
	n, err := c.send(f, a)
	if err != nil {
		return answer{}, err
	}
	stop := context.AfterFunc(ctx, func() { _ = c.line.write(fromChild{Cancel: n}) })
	defer stop()
	for part := range a.answers {
		part.Events = append(whole.Events, part.Events...)
		if whole = part; !whole.More {
			return whole, nil
		}
	}
	return answer{}, c.gone()
}

// send sends a request and returns its number.
func (c *Conn) send(f fromChild, a *asked) (n uint64, err error) {
	a.answers = make(chan answer, 1)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil {
		return 0, c.err
	}
	c.last++
	f.N = c.last
	c.asked[f.N] = a
	// Under the lock, so that the numbers on the line rise.
	if err = c.line.write(f); err != nil {
		delete(c.asked, f.N)
	}
	return f.N, err
}

// gone returns why nothing can be asked any more.
func (c *Conn) gone() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

// do is ask for a request with nothing beside its answer, and returns the error of the owner too.
// It is not cancelled: what happened is stored even when the run is being stopped.
func (c *Conn) do(f fromChild) (answer, error) {
	a, err := c.ask(context.Background(), f, &asked{})
	if err == nil {
		err = a.Error.err()
	}
	return a, err
}

// ID returns the conversation's id.
func (c *Conn) ID() convstore.ID { return c.start.Conversation.ID }

// Blank reports whether the conversation has no events.
func (c *Conn) Blank() bool { return c.blank.Load() }

// Get returns the conversation as it is now.
func (c *Conn) Get(context.Context) (convstore.Conversation, error) {
	a, err := c.do(fromChild{Get: true})
	switch {
	case err != nil:
		return convstore.Conversation{}, err
	case len(a.Conversations) != 1:
		return convstore.Conversation{}, &FrameError{"no conversation in the answer"}
	}
	return convstore.Conversation(a.Conversations[0]), nil
}

// Events returns all events. r must be the zero Range.
func (c *Conn) Events(_ context.Context, r convstore.Range) iter.Seq2[convstore.Event, error] {
	return func(yield func(convstore.Event, error) bool) {
		var a answer
		err := errors.New("wire: only all events can be read")
		if r == (convstore.Range{}) {
			a, err = c.do(fromChild{Events: true})
		}
		if err != nil {
			yield(convstore.Event{}, err)
			return
		}
		for _, ev := range a.Events {
			if !yield(ev, nil) {
				return
			}
		}
	}
}

// Children is convstore.Log.Children.
func (c *Conn) Children(_ context.Context, limit int) ([]convstore.Conversation, error) {
	a, err := c.do(fromChild{Children: limit})
	list := make([]convstore.Conversation, len(a.Conversations))
	for i, conv := range a.Conversations {
		list[i] = convstore.Conversation(conv)
	}
	return list, err
}

// Append is convstore.Log.Append, but that it sets nothing in events. Each must have an ID.
func (c *Conn) Append(_ context.Context, events ...convstore.Event) error {
	c.blank.Store(false)
	c.charge(events)
	personal := slices.ContainsFunc(events, func(ev convstore.Event) bool {
		end, ok := ev.Body.(convstore.TurnEnd)
		return ok && end.Personal
	})
	_, err := c.do(fromChild{Append: &appended{events, personal}})
	if err != nil {
		c.believe(nil)
	}
	return err
}

// Record keeps a line of a recording at the owner.
func (c *Conn) Record(line json.RawMessage) error {
	_, err := c.do(fromChild{Recorded: line})
	return err
}

// Retitle gives the conversation the title that its owner has for it, where it has none.
func (c *Conn) Retitle(_ context.Context, was, _ string, _ ...convstore.Event) (bool, error) {
	if was != "" {
		return false, nil
	}
	a, err := c.do(fromChild{Title: true})
	return a.Changed, err
}

// Limit does nothing, as in every conversation that was delegated: the caller has set the limits.
func (c *Conn) Limit(context.Context, convstore.Limits) error { return nil }

// Begin is convstore.Log.Begin. bound is called with what the account is believed to be, and again
// where it was another one. The call that it returned last counts.
func (c *Conn) Begin(_ context.Context, bound func(convstore.Account) *convstore.Call, events ...convstore.Event) error {
	c.blank.Store(false)
	c.charge(events)
	for range maxStale {
		b := begun{Events: events}
		acc := c.believed()
		if acc != nil {
			b.Left, b.Call = &acc.Left, bound(*acc)
		}
		a, err := c.do(fromChild{Begin: &b})
		c.mu.Lock()
		c.open = a.Open
		c.mu.Unlock()
		switch {
		case err != nil:
			c.believe(nil)
			return err
		case acc != nil && !a.Stale:
			return nil
		case a.Account == nil:
			return &FrameError{"no account in the answer"}
		}
		c.believe(a.Account)
	}
	return fmt.Errorf("conversation %s: its account changes faster than it can be read", c.ID())
}

// maxStale is how often the account may be another one than was believed. Nobody but the sub-agent
// changes it, except a person who sets other limits.
const maxStale = 10

func (c *Conn) believed() *convstore.Account {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.account
}

func (c *Conn) believe(a *convstore.Account) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.account = a
}

// charge takes what the calls of models among events have used out of the account, as the owner
// does when it stores them. So the next Begin need not ask what is left.
func (c *Conn) charge(events []convstore.Event) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.account == nil {
		return
	}
	next := *c.account
	for _, ev := range events {
		if m, ok := ev.Body.(convstore.ModelCall); ok {
			tokens, cost := m.Usage.Tokens(), int64(0)
			if m.CostNano != nil {
				cost = *m.CostNano
			}
			next.Left = next.Left.Minus(convstore.Budget{Tokens: &tokens, CostNano: &cost})
		}
	}
	c.account = &next
}

package wire

import (
	"context"
	"io"
	"sync"
	"time"

	"jp/cmd/jp/internal/call"
	"jp/tools"
)

// What of a sub-agent's own sub-agents the owner carries out. These methods are those of a
// delegate.Delegator, where each is described.

// Admit sends the calls of one reply that delegate. What comes of each, its Call says.
func (c *Conn) Admit(ctx context.Context, calls []Call) error {
	if len(calls) == 0 {
		return nil
	}
	for i := range calls {
		calls[i].Left = TimeLeft(ctx)
	}
	_, err := c.do(fromChild{Admit: calls})
	return err
}

// Release ends what Admit began.
func (c *Conn) Release(context.Context) error {
	a, err := c.do(fromChild{Release: true})
	c.mu.Lock()
	defer c.mu.Unlock()
	c.calls = max(c.calls, a.Calls)
	return err
}

// Await waits until the runs have ended that calls of an open turn had started before.
func (c *Conn) Await(ctx context.Context, ids []string) error {
	a, err := c.ask(ctx, fromChild{Await: ids}, &asked{})
	if err == nil {
		err = a.Error.err()
	}
	return err
}

// Call carries out one call. step gets what its delegations come to.
func (c *Conn) Call(ctx context.Context, one Call, step func(raw []byte)) (tools.Result, error) {
	one.Left = TimeLeft(ctx)
	a, err := c.ask(ctx, fromChild{Call: &one}, &asked{step: step})
	if err != nil {
		return tools.Result{}, err
	}
	c.mu.Lock()
	c.account = nil // its sub-agents have used of it
	if a.Recalled {
		c.recalled[one.ID] = true
	}
	c.mu.Unlock()
	if a.Result == nil {
		a.Result = &tools.Result{}
	}
	if ctx.Err() != nil {
		return *a.Result, context.Cause(ctx)
	}
	return *a.Result, a.Error.err()
}

// TimeLeft returns how much is left of the time of a caller, 0 where it has no deadline. It is a
// duration and not a point in time, because a clock that is set, or a machine that sleeps, moves
// points in time.
func TimeLeft(ctx context.Context) time.Duration {
	end, ok := ctx.Deadline()
	if !ok {
		return 0
	}
	return max(time.Until(end).Round(time.Millisecond), time.Millisecond)
}

// Recalled reports whether a call was answered from a run that had ended before this one began.
func (c *Conn) Recalled(call string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.recalled[call]
}

// Calls returns how many delegations were reserved so far.
func (c *Conn) Calls() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.calls
}

// Command carries out the command line of a jp inside a tool call, and returns its exit status. A
// Read of stdin may still be running then, but no other begins. It waits while as many commands run
// as the owner carries out at the same time.
func (c *Conn) Command(ctx context.Context, cmd Command, r call.Request) (status int, err error) {
	select {
	case c.commands <- struct{}{}:
	case <-ctx.Done():
		return 0, context.Cause(ctx)
	}
	defer func() { <-c.commands }()
	ended := make(chan struct{})
	defer close(ended)
	wanted := false
	got, err := c.ask(ctx, fromChild{Command: &cmd}, &asked{want: func(n uint64) {
		if !wanted {
			wanted = true
			go c.input(n, r.Stdin, ended)
		}
	}})
	if err == nil {
		err = got.Error.err()
	}
	if err != nil {
		return 0, err
	}
	c.mu.Lock()
	c.account = nil
	c.mu.Unlock()
	_, _ = r.Stdout.Write(got.Stdout)
	_, _ = r.Stderr.Write(got.Stderr)
	return got.Status, nil
}

// input sends stdin of the command n until the command has ended.
func (c *Conn) input(n uint64, stdin io.Reader, ended <-chan struct{}) {
	b := make([]byte, chunkSize)
	for {
		select {
		case <-ended:
			return
		default:
		}
		k, err := stdin.Read(b)
		if k > 0 && c.line.write(fromChild{Input: &inputPart{N: n, Data: b[:k]}}) != nil {
			return
		}
		if err != nil {
			_ = c.line.write(fromChild{Input: &inputPart{N: n}})
			return
		}
	}
}

// End ends the commands of a tool call: what they have forked and not run is settled.
func (c *Conn) End(call string) error {
	_, err := c.do(fromChild{Ended: call})
	return err
}

// outbox sends the steps of one call, in their order. Who has come to a step does not wait for that:
// it holds a slot, and the sub-agent that follows may not listen.
type outbox struct {
	send    func(step []byte)
	sending sync.WaitGroup

	mu    sync.Mutex
	steps [][]byte // not sent yet; the first one is being sent
}

func (b *outbox) put(step []byte) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.steps = append(b.steps, step); len(b.steps) == 1 {
		b.sending.Go(b.run)
	}
}

func (b *outbox) run() {
	b.mu.Lock()
	defer b.mu.Unlock()
	for len(b.steps) > 0 {
		step := b.steps[0]
		b.mu.Unlock()
		b.send(step)
		b.mu.Lock()
		b.steps = b.steps[1:]
	}
}

package delegate

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"jp/cmd/jp/internal/call"
	"jp/cmd/jp/internal/subprocess"
	"jp/cmd/jp/internal/wire"
	"jp/convstore"
	"jp/tools"
	"jp/tools/proc"
	"jp/tools/unseen"
)

// Below is a sub-agent as the process that started it knows it.
type Below struct {
	Log       *convstore.Log
	Conv      convstore.Conversation
	Overrides []string // values of --cfg that change its config
	Environ   []string // environment of its process
}

// Served are the tools that a sub-agent holds and its owner calls for it: those of MCP servers, and
// skill. The zero Served are none.
type Served struct {
	Pins   []wire.Pin
	Skills []wire.Skill
	Call   func(context.Context, tools.Call) tools.Result // as wire.Owner.Serve
	Close  func()                                         // ends the servers, and calls that still run
}

func (v Served) close() {
	if v.Close != nil {
		v.Close()
	}
}

// owned is what this process keeps for one sub-agent: its log, its slot, and what it delegates
// with. It serves the sub-agent's wire.
type owned struct {
	runner *runner
	below  Below
	began  func() // called once when it works; nil = nobody needs to know

	mu     sync.Mutex
	slot   *convstore.Slot // nil once sub has it
	sub    *subagents      // nil before it delegates
	subErr error           // why it cannot delegate; nil = it was not tried, or it can
}

// takeSlot returns the slot that the sub-agent has now, nil for none. Who calls it owns it then.
func (o *owned) takeSlot() *convstore.Slot {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.sub != nil {
		return o.sub.own.TakeSlot()
	}
	return o.slot
}

// idle gives back the slot of a sub-agent that has not begun. It returns what takes one again.
func (o *owned) idle(slots *convstore.Slots) (again func(context.Context) error) {
	set := func(slot *convstore.Slot) (was *convstore.Slot) {
		o.mu.Lock()
		defer o.mu.Unlock()
		was, o.slot = o.slot, slot
		return was
	}
	o.runner.slots.free(set(nil))
	return func(ctx context.Context) error {
		slot, err := slots.Take(ctx, nil)
		set(slot)
		return err
	}
}

// serving is a wire that is served.
type serving struct {
	ctx    context.Context // ends when the sub-agent breaks the protocol, besides its parent
	theirs *os.File        // end for the sub-agent
	end    func() error    // returns when the sub-agent has gone and all that it asked for is done
}

// serve begins to serve the wire of the run that res reserves. The caller calls end when the
// process has ended, or was never started.
func (o *owned) serve(ctx context.Context, res *convstore.Reservation, r request, environ []string) (serving, error) {
	log, err := o.runner.ledger.scope.Log(ctx, res)
	if err != nil {
		return serving{}, err
	}
	o.below = Below{Log: log, Conv: res.Child, Overrides: r.overrides, Environ: environ}
	served, err := o.runner.o.Served(ctx, o.below)
	if err != nil {
		_ = log.Close()
		return serving{}, err
	}
	ours, theirs, err := proc.Pair()
	if err != nil {
		served.close()
		_ = log.Close()
		return serving{}, fmt.Errorf("wire: %w", err)
	}
	ctx, stop := context.WithCancelCause(ctx)
	// A server may take its time to end: all those of a tree that is stopped end at the same time.
	closeServed := sync.OnceFunc(served.close)
	context.AfterFunc(ctx, closeServed)
	ended := make(chan error, 1)
	go func() {
		err := wire.Serve(ctx, ours, wire.Owner{
			Start: wire.Start{Conversation: res.Child, Config: log.Taken(), Blank: log.Blank(), Account: log.Account(), WaitLimit: o.runner.o.WaitLimit, Keys: o.runner.o.Keys, Kept: o.runner.o.Kept, Pins: served.Pins, Skills: served.Skills}, Log: log, Subagents: o.subagents, Serve: served.Call,
			Title: r.Title, Change: o.change, Priced: o.runner.o.Priced, Replayed: res.Delegation.Replayed, Checkpoint: o.runner.o.Checkpoint,
			Models: o.runner.o.Models(ctx, o.below), Record: o.runner.o.Record(o.below), Works: o.works,
		})
		if err != nil {
			stop(err)
		}
		ended <- err
	}()
	return serving{ctx: ctx, theirs: theirs, end: func() error {
		theirs.Close()
		_ = ours.SetDeadline(time.Now().Add(subprocess.Drain))
		go closeServed()
		err := <-ended
		stop(nil)
		if o.sub != nil {
			o.sub.end(ctx)
		}
		closeServed()
		_ = log.Close()
		return err
	}}, nil
}

// change is wire.Owner.Change.
func (o *owned) change(ctx context.Context) (*convstore.ConfigDelta, error) {
	if o.runner.o.Change == nil {
		return nil, nil
	}
	return o.runner.o.Change(ctx, o.below)
}

// works is wire.Owner.Works.
func (o *owned) works(ctx context.Context) error {
	if o.began != nil {
		o.began()
	}
	o.mu.Lock()
	sub := o.sub
	o.mu.Unlock()
	if sub == nil {
		return nil // it has the slot that it began with
	}
	return sub.own.slots.resume(ctx)
}

// subagents is wire.Owner.Subagents.
func (o *owned) subagents(ctx context.Context) (wire.Subagents, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.runner.o.Below == nil {
		return nil, errNoBelow
	}
	if o.sub == nil && o.subErr == nil {
		opt, arm, err := o.runner.o.Below(ctx, o.below)
		var d *Delegator
		if err == nil {
			p, environ := o.runner.o, opt.Environ
			opt.Slot, opt.Below, opt.Change, opt.Models, opt.Place, opt.Served, opt.Follow = o.slot, p.Below, p.Change, p.Models, p.Place, p.Served, followCall
			opt.Environ = func(ctx context.Context, r Run) []string {
				return proc.Environ(environ(ctx, r), append([]string{"*"}, traceOf(ctx)...)...)
			}
			d, err = New(opt, arm)
		}
		if err != nil && ctx.Err() != nil {
			return nil, err // it was only stopped
		}
		if o.subErr = err; err == nil {
			o.slot = nil // d has it
			d.runner.watch, d.runner.starts, d.slots.slots = o.runner.watch, o.runner.starts, o.runner.slots.tree()
			o.sub = &subagents{own: d, noted: opt.Placed, command: opt.Command, policy: tools.NewPolicy(nil), inside: map[string]*Inside{}}
		}
	}
	if o.subErr != nil {
		return nil, o.subErr
	}
	return o.sub, nil
}

// subagents is a Delegator as its sub-agent uses it through a wire. All that it is given comes from
// the sub-agent and is checked here.
type subagents struct {
	own     *Delegator
	noted   func(call, place string) // Options.Placed
	command func(ctx context.Context, in *Inside, tool tools.Definition, r call.Request) int
	policy  *tools.Policy // policy of the sub-agent: nobody can be asked

	mu     sync.Mutex
	inside map[string]*Inside // by id of the tool call
}

// held returns the tool of a call, which the sub-agent must hold and be permitted to run.
func (s *subagents) held(ctx context.Context, c tools.Call) (tools.Tool, error) {
	t, ok := s.own.set.Get(c.Name)
	if !ok {
		return t, s.notHeld(c.Name)
	}
	d, err := s.policy.Permit(ctx, t, c)
	if err == nil && !d.Allow {
		err = fmt.Errorf("tool %s: %s", c.Name, d.Reason)
	}
	return t, err
}

func (s *subagents) notHeld(tool string) error {
	return fmt.Errorf("tool %.100s: not held by %s", tool, s.own.scope.Caller())
}

// tool returns the tool of a call that this process carries out for the sub-agent, and the call
// with its arguments as they were validated.
func (s *subagents) tool(ctx context.Context, c wire.Call) (tools.Tool, tools.Call, error) {
	one := tools.Call{ID: c.ID, Name: c.Name, Arguments: c.Arguments}
	t, err := s.held(ctx, one)
	if err != nil {
		return t, one, err
	}
	if _, ours := s.own.function(c.Name); !ours || t.Local() || t.Source != tools.SourceDelegation && t.Source != tools.SourceConversation {
		return t, one, s.notHeld(c.Name)
	}
	one.Arguments, err = t.Validate(c.Arguments)
	return t, one, err
}

// placed notes the place of a call in a recording.
func (s *subagents) placed(call, place string) {
	if place != "" && s.noted != nil {
		s.noted(call, place)
	}
}

func (s *subagents) Admit(ctx context.Context, calls []wire.Call) {
	var list []tools.Call
	for _, c := range calls {
		if _, one, err := s.tool(ctx, c); err == nil {
			s.placed(c.ID, c.Place)
			list = append(list, one)
		}
		if c.Left > 0 {
			var cancel context.CancelFunc
			ctx, cancel = context.WithTimeout(ctx, c.Left)
			defer cancel()
		}
	}
	s.own.Admit(ctx, list)
}

func (s *subagents) Release(ctx context.Context) { s.own.Release(ctx) }

func (s *subagents) Await(ctx context.Context, calls []string) error { return s.own.Await(ctx, calls) }

func (s *subagents) Calls() int { return s.own.Calls() }

func (s *subagents) Call(ctx context.Context, c wire.Call, step func([]byte)) (tools.Result, bool, error) {
	t, one, err := s.tool(ctx, c)
	if err != nil {
		return tools.Result{Text: unseen.Neutralize(err.Error()), IsError: true, Refused: true}, false, nil
	}
	s.placed(c.ID, c.Place)
	r, err := t.Func(withWire(ctx, c.Trace, step), one)
	if err == nil {
		var d tools.Decision
		if d, err = s.policy.Deliver(ctx, t, one, r); !d.Allow {
			r = tools.Result{Text: "withheld: " + d.Reason, IsError: true}
		}
	}
	return r, s.own.Recalled(c.ID), err
}

func (s *subagents) Command(ctx context.Context, cmd wire.Command, r call.Request) (status int, err error) {
	t, err := s.held(ctx, tools.Call{ID: cmd.Call, Name: cmd.Tool})
	if err != nil {
		return 0, err
	}
	if len(t.Access.JP) == 0 || s.command == nil {
		return 0, fmt.Errorf("tool %.100s: does not run jp", cmd.Tool)
	}
	s.placed(cmd.Call, cmd.Place)
	s.mu.Lock()
	in := s.inside[cmd.Call]
	if in == nil {
		in = s.own.Inside(cmd.Tool, cmd.Call)
		s.inside[cmd.Call] = in
	}
	s.mu.Unlock()
	if in.tool != cmd.Tool {
		return 0, fmt.Errorf("call %.100s: is one of the tool %s", cmd.Call, in.tool)
	}
	return s.command(withWire(ctx, cmd.Trace, nil), in, t.Definition, r), nil
}

func (s *subagents) End(ctx context.Context, call string) {
	s.mu.Lock()
	in := s.inside[call]
	delete(s.inside, call)
	s.mu.Unlock()
	if in != nil {
		in.Close(context.WithoutCancel(ctx))
	}
}

// end ends what the sub-agent has left. Nothing that it has asked for is running.
func (s *subagents) end(ctx context.Context) {
	s.mu.Lock()
	left := s.inside
	s.inside = map[string]*Inside{}
	s.mu.Unlock()
	for _, in := range left {
		in.Close(context.WithoutCancel(ctx))
	}
	stopped, stop := context.WithCancel(ctx)
	stop() // it works no more, and so takes no slot again
	s.own.Release(stopped)
}

// wired is what the wire of a sub-agent says of one of its calls.
type wired struct {
	trace []string
	step  func([]byte) // nil = nobody follows
}

type wiredKey struct{}

func withWire(ctx context.Context, trace []string, step func([]byte)) context.Context {
	return context.WithValue(ctx, wiredKey{}, wired{trace, step})
}

// followCall is Options.Follow of a sub-agent: the sub-agent follows its own calls.
func followCall(ctx context.Context, s Step) {
	w, _ := ctx.Value(wiredKey{}).(wired)
	if w.step == nil {
		return
	}
	if raw, err := json.Marshal(s); err == nil {
		w.step(raw)
	}
}

// StepOf decodes a step that came over a wire.
func StepOf(raw []byte) (s Step, err error) {
	err = json.Unmarshal(raw, &s)
	return s, err
}

// traceOf returns the variables that put the spans of a process below those of a sub-agent's call,
// as far as they are such variables.
func traceOf(ctx context.Context) []string {
	w, _ := ctx.Value(wiredKey{}).(wired)
	return slices.DeleteFunc(slices.Clone(w.trace), func(v string) bool {
		name, value, _ := strings.Cut(v, "=")
		return !slices.Contains([]string{"TRACEPARENT", "TRACESTATE", "OTEL_SDK_DISABLED"}, name) || len(value) > maxTrace || strings.ContainsRune(value, 0)
	})
}

const maxTrace = 1024 // bytes of a variable

var (
	errNoBelow = errors.New("delegation: this caller's sub-agents cannot delegate")
	errNoModel = errors.New("delegation: this caller's sub-agents have no model")
)

package wire

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"

	"jp/cmd/jp/internal/agent"
	"jp/cmd/jp/internal/call"
	"jp/cmd/jp/internal/model"
	"jp/convstore"
	"jp/tools"
)

// Owner is what one sub-agent reaches.
type Owner struct {
	Start Start
	Log   agent.Log
	// Change returns what its config is changed by when its turn begins; nil = nothing. It is
	// called where the sub-agent says that it is changed; a nil Change changes nothing.
	Change     func(context.Context) (*convstore.ConfigDelta, error)
	Record     func(line json.RawMessage) error // keeps a line of a recording; nil = there is none
	Title      string                           // title where the conversation has none
	Priced     func(model string) bool          // whether the price of a model is known; nil = of none
	Replayed   bool                             // whether a recording answers for its models
	Checkpoint func(point string)               // called at each point of a frame; nil = no test does
	// Subagents returns what its delegation and conversation tools do. It is called for the first
	// request of them. The error answers the request.
	Subagents func(context.Context) (Subagents, error)
	Models    []Model // models that it may ask
	// Works is called before a model is asked for it, and returns when it may work: while it waits for
	// sub-agents it has no slot. nil = it always may.
	Works func(context.Context) error
	// Serve carries out a call of a tool of Start.Pins. It is called from several goroutines. nil =
	// there is no such tool.
	Serve func(context.Context, tools.Call) tools.Result
}

// Subagents is what a sub-agent does through its delegation and conversation tools. The methods are
// called from several goroutines. Each checks what it is given: it comes from the sub-agent.
type Subagents interface {
	Admit(context.Context, []Call)
	Release(context.Context)
	Await(ctx context.Context, calls []string) error
	// Call carries out one call of a delegation or conversation tool. step is called with what its
	// delegations come to.
	Call(ctx context.Context, c Call, step func(json []byte)) (r tools.Result, recalled bool, err error)
	Calls() int
	// Command carries out a command line of a jp inside a tool call, and returns its exit status.
	Command(ctx context.Context, cmd Command, r call.Request) (status int, err error)
	// End ends the commands of a tool call. None is running.
	End(ctx context.Context, call string)
}

// errEnded is the cause of what is stopped because the sub-agent has ended.
var errEnded = errors.New("the sub-agent that called has ended")

// Serve serves one sub-agent until it closes its side, or breaks the protocol, and closes rw. Then
// what it has asked for is stopped, but what it has appended before is stored. Serve returns when
// all of that is done. The error is a *FrameError, or nil.
//
// ctx bounds what the sub-agent asks for, with the patience of agent.Log for what is stored.
func Serve(ctx context.Context, rw io.ReadWriteCloser, o Owner) error {
	o.Start.Protocol = Protocol
	s := &server{line: newLine(rw, o.Checkpoint), owner: o, open: map[uint64]*opened{}, steps: make(chan func(), maxOpen), places: make(chan struct{}, call.Lines)}
	running, stop := context.WithCancelCause(ctx)
	s.ctx, s.running = ctx, running
	// A sub-agent that is stopped ends its own request: so it gets what the reply has used.
	asking, hangUp := context.WithCancelCause(context.WithoutCancel(ctx))
	s.attempts = attempts{server: s, models: o.Models, ctx: asking, counts: map[string][]model.Meter{}, dearest: map[string]int64{}}
	if len(o.Models) > 0 {
		s.attempts.Model = o.Models[0]
	}
	s.turn = newTurn(&o, &s.attempts)
	stored := make(chan struct{})
	go func() {
		defer close(stored)
		for do := range s.steps {
			do()
		}
	}()
	for _, m := range o.Models {
		o.Start.Models = append(o.Start.Models, m.known())
	}
	err := s.line.write(fromOwner{Start: &startFrame{o.Start, conversation(o.Start.Conversation)}})
	if err == nil {
		err = s.serve()
	}
	rw.Close() // nobody waits for an answer any more, and none waits for somebody who does not read
	stop(errEnded)
	hangUp(errEnded)
	s.close()
	s.work.Wait()
	close(s.steps)
	<-stored
	if left := s.attempts.unsaid(); left != nil || s.turn.call != nil { // its model was not asked, or has used nothing
		// Where it fails, the most that the call could use is charged.
		_ = o.Log.Begin(ctx, func(convstore.Account) *convstore.Call { return nil }, left...)
	}
	if s.bad == nil {
		errors.As(err, &s.bad)
	}
	if s.bad == nil {
		return nil
	}
	return s.bad
}

type server struct {
	line    *line
	owner   Owner
	turn    *turn
	ctx     context.Context // of what is stored
	running context.Context // of everything else
	steps   chan func()     // changes of the log, in the order in which they came
	work    sync.WaitGroup  // all that runs beside them
	last    uint64          // number of the latest request
	waited  bool            // whether it has waited for what an earlier run has left
	places  chan struct{}   // one element for each command that was begun and whose answer is not sent
	kept    atomic.Int64    // bytes that commands have written and nobody has read
	said    int             // bytes of the frames whose events are stored, and eventSize for each event

	attempts attempts

	mu   sync.Mutex
	open map[uint64]*opened // by number
	held int                // bytes of all that is open, and of admitted
	// bytes of the calls that were admitted or made since the latest release: what they delegate may wait for that
	admitted int
	bad      *FrameError // how a request has broken the protocol that was read; nil = none did
}

// opened is a request that is not answered yet.
type opened struct {
	cancel context.CancelFunc // nil = it cannot be cancelled
	stdin  *call.Inlet        // nil = it has none
	free   func()             // called when it is answered; nil = nothing
	size   int                // bytes of its frames
	reply  *outflow           // nil = it is no ask
}

// serve reads requests until the end.
func (s *server) serve() error {
	for {
		var f fromChild
		size, err := s.line.read(&f)
		if err != nil {
			return err
		}
		switch {
		case f.N == 0 && f.Cancel != 0:
			if o := s.find(f.Cancel); o != nil && o.cancel != nil {
				o.cancel()
			}
			continue
		case f.N == 0 && f.Input != nil:
			if o := s.find(f.Input.N); o != nil && o.stdin != nil {
				if err := s.hold(o, len(f.Input.Data)); err != nil {
					return err
				}
				o.stdin.Put(f.Input.Data)
			}
			continue
		case f.N == 0 && f.Taken != nil:
			if o := s.find(f.Taken.N); o != nil && o.reply != nil {
				o.reply.allow(f.Taken.Bytes)
			}
			continue
		case f.N == 0:
			return &FrameError{"a frame that is no request and nothing else"}
		case f.N <= s.last: // it came again
			continue
		}
		s.last = f.N
		if err := s.begin(f, size); err != nil {
			return err
		}
	}
}

// hold notes that so many more bytes are kept for a request that is open.
func (s *server) hold(o *opened, size int) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	o.size += size
	if s.held += size; s.held > maxHeld {
		return &FrameError{fmt.Sprintf("requests of more than %d MiB at the same time", maxHeld>>20)}
	}
	return nil
}

// breaks ends the connection where err says that a request has broken the protocol.
func (s *server) breaks(err error) {
	var bad *FrameError
	if !errors.As(err, &bad) {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.bad == nil {
		s.bad = bad
	}
	s.line.rw.Close()
}

func (s *server) find(n uint64) *opened {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.open[n]
}

// close ends the stdin of commands that wait for it.
func (s *server) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, o := range s.open {
		if o.stdin != nil {
			o.stdin.Close(errEnded)
		}
	}
}

// begin begins to carry out a request, whose frame has this size.
func (s *server) begin(f fromChild, size int) error {
	if f.several() {
		return &FrameError{"more than one request in a frame"}
	}
	if err := s.allowed(f); err != nil {
		return err
	}
	switch {
	case f.Append != nil:
		s.said += size + eventSize*len(f.Append.Events)
	case f.Begin != nil:
		s.said += size + eventSize*len(f.Begin.Events)
	case f.Recorded != nil:
		s.said += size
	}
	if (f.Append != nil || f.Begin != nil) && size > maxAtOnce {
		return &FrameError{fmt.Sprintf("events of more than %d MiB at once", maxAtOnce>>20)}
	}
	if s.said > maxSaid {
		return &FrameError{fmt.Sprintf("events of more than %d MiB in one run", maxSaid>>20)}
	}
	s.mu.Lock()
	if len(s.open) >= maxOpen {
		s.mu.Unlock()
		return &FrameError{"too many requests at the same time"}
	}
	o := &opened{}
	s.open[f.N] = o
	s.mu.Unlock()
	if err := s.hold(o, size+valueSize*s.line.values); err != nil {
		return err
	}

	answered := func(a answer, err error) {
		a.N, a.Error = f.N, faultOf(err)
		unsent := s.line.write(fromOwner{Answer: &a})
		if bad := (*FrameError)(nil); errors.As(unsent, &bad) {
			_ = s.line.write(fromOwner{Answer: &answer{N: f.N, Error: faultOf(unsent)}})
		} // else the sub-agent has gone, as who reads sees
		s.mu.Lock()
		delete(s.open, f.N) // not earlier: who does not read its answers can ask no more
		if f.Admit != nil || f.Call != nil {
			s.admitted += o.size
		} else {
			s.held -= o.size
		}
		s.mu.Unlock()
		if o.free != nil {
			o.free()
		}
		s.breaks(err)
	}
	inOrder := func(do func() (answer, error)) { s.steps <- func() { answered(do()) } }
	read := func(do func() (answer, error)) {
		inOrder(func() (answer, error) {
			if err := context.Cause(s.running); err != nil { // nobody is there to read it
				return answer{}, err
			}
			return do()
		})
	}
	cancellable := func(do func(context.Context) (answer, error)) {
		ctx, cancel := context.WithCancel(s.running)
		o.cancel = cancel
		s.work.Go(func() {
			defer cancel()
			answered(do(ctx))
		})
	}
	beside := func(do func(context.Context, Subagents) (answer, error)) {
		cancellable(func(ctx context.Context) (answer, error) {
			subs, err := s.owner.Subagents(ctx)
			if err != nil {
				return answer{}, err
			}
			return do(ctx, subs)
		})
	}
	switch {
	case f.Append != nil:
		inOrder(func() (answer, error) {
			s.turn.personal = s.turn.personal || f.Append.Personal
			return answer{}, s.turn.store(s.ctx, f.Append.Events, func(events []convstore.Event) error {
				return s.owner.Log.Append(s.ctx, events...)
			})
		})
	case f.Begin != nil:
		inOrder(func() (answer, error) { return s.beginCall(*f.Begin) })
	case f.Recorded != nil:
		inOrder(func() (answer, error) {
			if s.owner.Record == nil {
				return answer{}, &FrameError{"a line of a recording that nobody makes"}
			}
			return answer{}, s.owner.Record(f.Recorded)
		})
	case f.Title:
		inOrder(func() (a answer, err error) {
			a.Changed, err = s.owner.Log.Retitle(s.ctx, "", s.owner.Title)
			return a, err
		})
	case f.Events:
		read(func() (answer, error) { return s.events(f.N) })
	case f.Get:
		read(func() (answer, error) {
			c, err := s.owner.Log.Get(s.ctx)
			return answer{Conversations: []conversation{conversation(c)}}, err
		})
	case f.Children > 0:
		read(func() (a answer, err error) {
			list, err := s.owner.Log.Children(s.ctx, min(f.Children, maxCalls))
			for _, c := range list {
				a.Conversations = append(a.Conversations, conversation(c))
			}
			return a, err
		})
	case f.Admit != nil:
		beside(func(ctx context.Context, subs Subagents) (answer, error) {
			subs.Admit(ctx, f.Admit)
			return answer{}, nil
		})
	case f.Await != nil:
		beside(func(ctx context.Context, subs Subagents) (answer, error) { return answer{}, subs.Await(ctx, f.Await) })
	case f.Call != nil:
		beside(func(ctx context.Context, subs Subagents) (a answer, err error) {
			if f.Call.Left > 0 {
				var cancel context.CancelFunc
				ctx, cancel = context.WithTimeout(ctx, f.Call.Left)
				defer cancel()
			}
			out := outbox{send: func(json []byte) { _ = s.line.write(fromOwner{Step: &step{N: f.N, Step: json}}) }}
			r, recalled, err := subs.Call(ctx, *f.Call, out.put)
			out.sending.Wait()
			return answer{Result: &r, Recalled: recalled}, err
		})
	case f.Serve != nil:
		c, err := s.callOf(*f.Serve)
		if err != nil {
			return err
		}
		cancellable(func(ctx context.Context) (answer, error) {
			r := s.owner.Serve(ctx, c)
			err := s.hold(o, len(r.Text)) // until it is read
			s.breaks(err)                 // now: the answer may wait behind others, which nobody reads
			return answer{Result: &r}, err
		})
	case f.Ask != nil:
		return s.attempts.ask(f.N, *f.Ask, o, answered)
	case f.Gate != nil:
		s.attempts.gate(f.N, *f.Gate, o, answered)
	case f.Release:
		s.mu.Lock()
		o.size, s.admitted = o.size+s.admitted, 0
		s.mu.Unlock()
		beside(func(ctx context.Context, subs Subagents) (answer, error) {
			subs.Release(ctx)
			return answer{Calls: subs.Calls()}, nil
		})
	case f.Command != nil:
		o.stdin = call.NewInlet(func() { _ = s.line.write(fromOwner{Want: f.N}) })
		beside(func(ctx context.Context, subs Subagents) (a answer, err error) {
			defer context.AfterFunc(ctx, func() { o.stdin.Close(errEnded) })()
			select {
			case s.places <- struct{}{}:
			case <-ctx.Done():
				return a, context.Cause(ctx)
			}
			share := call.NewShare(&s.kept)
			o.free = func() {
				share.Free()
				<-s.places
			}
			out, errOut := call.Outlets(share)
			a.Status, err = subs.Command(ctx, *f.Command, call.Request{Args: f.Command.Args, Stdin: o.stdin, Stdout: out, Stderr: errOut})
			a.Stdout, a.Stderr = out.Bytes(), errOut.Bytes()
			return a, err
		})
	case f.Ended != "":
		beside(func(ctx context.Context, subs Subagents) (answer, error) {
			subs.End(ctx, f.Ended)
			return answer{}, nil
		})
	default:
		return &FrameError{"a request that this jp does not know"}
	}
	return nil
}

// beginCall is Log.Begin for a call that the sub-agent has computed from what it believes to be
// left. If something else is left, the events are stored and no call is recorded.
func (s *server) beginCall(b begun) (a answer, err error) {
	t, reason := s.turn, ""
	var call *convstore.Call
	var left convstore.Budget
	s.attempts.close()
	err = t.store(s.ctx, b.Events, func(events []convstore.Event) error {
		events = append(events, s.attempts.unsaid()...)
		return s.owner.Log.Begin(s.ctx, func(acc convstore.Account) *convstore.Call {
			a, reason, call, left = answer{}, "", nil, acc.Left
			if a.Stale = b.Left == nil || !same(*b.Left, acc.Left); a.Stale {
				a.Account = &acc
				return nil
			}
			if b.Call != nil {
				reason = t.fits(b.Call, acc)
			}
			if reason == "" {
				call = b.Call
			}
			return call
		}, events...)
	})
	if t.call = call; err == nil && reason != "" {
		err = &FrameError{reason}
	}
	if err == nil && call != nil {
		a.Open = s.attempts.begin(call, left)
	}
	return a, err
}

func same(a, b convstore.Budget) bool {
	return equal(a.Tokens, b.Tokens) && equal(a.CostNano, b.CostNano)
}

func equal(a, b *int64) bool { return (a == nil) == (b == nil) && (a == nil || *a == *b) }

// allowed checks what a request says of calls of tools.
func (s *server) allowed(f fromChild) error {
	calls := f.Admit
	switch {
	case len(f.Admit) > maxCalls:
		return &FrameError{"too many calls in one reply"}
	case f.Await != nil && s.waited:
		return &FrameError{"waits a second time for what an earlier run has left"}
	case f.Await != nil:
		s.waited = true
	case f.Call != nil:
		calls = []Call{*f.Call}
	case f.Command != nil:
		size := 0
		for _, arg := range f.Command.Args {
			size += len(arg) + 1
		}
		if size > call.MaxArgs {
			return &FrameError{"a command whose arguments are too long"}
		}
		calls = []Call{{ID: f.Command.Call, Name: f.Command.Tool, Place: f.Command.Place}}
	}
	for _, c := range calls {
		if len(c.Place) > maxPlace {
			return &FrameError{"a call whose place is too long"}
		}
		s.said += len(c.Place) // a recording keeps it
		if err := s.turn.called(c.ID, c.Name); err != nil {
			return err
		}
	}
	if f.Call != nil {
		_, err := s.turn.serve(f.Call.ID, f.Call.Name)
		return err
	}
	return nil
}

// events sends all events of the conversation. The last part is the answer.
func (s *server) events(n uint64) (a answer, err error) {
	size := 0
	for ev, err := range s.owner.Log.Events(s.ctx, convstore.Range{}) {
		if err != nil {
			return answer{}, err
		}
		raw, err := ev.MarshalJSON()
		if err != nil {
			return answer{}, err
		}
		if size += len(raw); size > batchSize && len(a.Events) > 0 {
			if err := s.line.write(fromOwner{Answer: &answer{N: n, More: true, Events: a.Events}}); err != nil {
				return answer{}, err
			}
			a.Events, size = nil, len(raw)
		}
		if c, ok := ev.Body.(convstore.ToolCall); ok {
			s.turn.note(c.ID)
		}
		a.Events = append(a.Events, ev)
	}
	return a, nil
}

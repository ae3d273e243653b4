package delegate

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"jp/cmd/jp/internal/agent"
	"jp/cmd/jp/internal/stream"
	"jp/convstore"
	"jp/tools"
	"jp/tools/proc"
)

// query is every delegation tool but the batch: it takes what Admit reserved, or reserves now, runs the child and tells its end.
func (d *Delegator) query(ctx context.Context, c tools.Call) (tools.Result, error) {
	d.init()
	a, ok := d.claim(c.ID)
	if !ok { // a person was asked for leave, or it is a reply of its own
		leave, err := d.lane(ctx, func(among int) bool { return d.admitAlone(ctx, c, among) })
		if err != nil {
			return tools.Result{}, err
		}
		defer leave()
		a, _ = d.claim(c.ID)
	}
	o, err := d.carryOut(ctx, a)
	d.followAnswer(ctx, o)
	switch {
	case o.denied != nil:
		return denied(o.denied)
	case o.child == 0:
		return tools.Result{}, err
	}
	return o.response(o.child, d.InlineResult), err
}

// outcome is what a delegation came to.
type outcome struct {
	denied   error        // why it was not run; nil = it was
	child    convstore.ID // 0 when it had none yet
	turn     int          // of the child, that it ran
	recalled bool         // the run had ended before
	ending                // its State is empty when the store has failed
}

// carryOut runs what was admitted, in its turn. With an error the run is being stopped, or the store has failed.
func (d *Delegator) carryOut(ctx context.Context, a admission) (outcome, error) {
	if a.done != nil {
		defer close(a.done)
	}
	if a.after != nil {
		select {
		case <-a.after:
		case <-ctx.Done():
			return outcome{ending: unstarted()}, context.Cause(ctx)
		}
	}
	if a.err == nil && a.res == nil {
		res, errs := d.reserve(ctx, []request{a.request})
		a.res, a.err = res[0], errs[0]
		if a.err != nil && ctx.Err() != nil {
			return outcome{ending: unstarted()}, context.Cause(ctx)
		}
	}
	if a.err != nil {
		var busy *convstore.BusyError
		if refused(a.err) || errors.As(a.err, &busy) {
			d.Log.Info("delegation refused", "caller", d.Caller, "why", a.err)
		}
		d.tellDenied(a)
		return outcome{denied: a.err}, nil
	}
	if a.res.Existed {
		return d.recall(ctx, a.res, a.request)
	}
	d.aged(a.res, a.Ask)
	return d.run(ctx, a.res, a.request)
}

// tellDenied shows a delegation that was not begun. It has no conversation.
func (d *Delegator) tellDenied(a admission) {
	if d.Watch == nil {
		return
	}
	l := &stream.Delegation{
		Phase: stream.Ended, ParentID: d.Caller.String(), CallID: a.Call, Profile: a.Profile.Name, Title: a.Title,
		Status: string(convstore.StateError), Reason: a.err.Error(),
	}
	if refused(a.err) {
		l.Status = string(convstore.StateRefused)
	}
	var no *Refusal
	if errors.As(a.err, &no) {
		l.Reason = no.Text
	}
	d.Watch(l)
}

// unstarted is the end of what was stopped while it waited.
func unstarted() ending {
	return ending{State: convstore.StateCancelled, Reason: "cancelled before it started"}
}

// recall answers a repeated call from the run that exists.
func (d *Delegator) recall(ctx context.Context, res *convstore.Reservation, r request) (outcome, error) {
	del := res.Delegation
	if del.State == "" {
		return outcome{denied: fmt.Errorf("%s is still being worked on by an earlier run of this call", del.Child)}, nil
	}
	e, events, err := d.recorded(ctx, del)
	if err != nil {
		return outcome{}, err
	}
	e.check(r, events)
	d.mu.Lock()
	d.recalled[del.Call] = true
	d.mu.Unlock()
	return outcome{child: del.Child, turn: del.ChildTurn, recalled: true, ending: e}, nil
}

// recorded is the end of a delegation as the store has it, with the events of its turn.
func (d *Delegator) recorded(ctx context.Context, del convstore.Delegation) (ending, []convstore.Event, error) {
	events, err := d.subtree().turn(ctx, del.Child, del.ChildTurn)
	return ending{State: del.State, Reason: del.Reason, Text: agent.Answer(events), Calls: modelCalls(events), Total: del.Total}, events, err
}

// run starts the child, follows it to the end of its process tree, judges and settles.
func (d *Delegator) run(ctx context.Context, res *convstore.Reservation, r request) (outcome, error) {
	del := res.Delegation
	child := del.Child
	d.checkpoint(Reserved)
	f := &follower{d: d, child: child, call: del.Call, profile: del.Profile, title: r.Title, begun: time.Now()}

	slot, err := d.slot(ctx, res, f)
	if err != nil {
		e := unstarted()
		if ctx.Err() == nil {
			e = ending{State: convstore.StateError, Reason: err.Error()}
		}
		f.end(e.State, e.Reason)
		err = errors.Join(err, d.settle(ctx, res, &e))
		d.followEnd(ctx, del, e)
		return outcome{child: child, ending: e}, err
	}
	defer d.free(slot)
	f.ready = d.starts.begin(ctx)
	defer f.ready()

	// The time of a child runs from here, and never beyond its caller's.
	f.begun = time.Now()
	run := ctx
	if del.Grant.Timeout > 0 {
		var cancel context.CancelFunc
		run, cancel = context.WithTimeoutCause(ctx, del.Grant.Timeout+own, errDeadline)
		defer cancel()
	}
	f.tell(stream.Started)
	d.unpriced(del)
	pid := 0
	stdin, asJSON := d.stdin(r)
	tail := &tailWriter{limit: 4 << 10}
	out := &stream.Splitter{Each: f.line, Bad: func(e *stream.LineError) { f.bad = e }}
	exit, runErr := d.Host.Run(run, proc.Spec{
		Path: proc.Self(), Args: d.argv(child, del.Fresh, r, asJSON, left(ctx)), Dir: d.Dir,
		Env: d.Environ(ctx, Run{
			Model: cmp.Or(r.Model, del.Model), Delegates: del.Grant.MaxDepth > del.Depth,
			Call: del.Call, Query: r.query,
		}),
		Stdin: bytes.NewReader(stdin), Stdout: out, Stderr: tail,
		Lock: res.LockFile(), Slot: slot.File(), Kind: proc.Agent, Grace: grace(del),
		Started: func(started int) {
			pid = started
			_ = slot.Pass() // of a regular file nobody wrote to
			at := del
			at.PID = pid
			d.follow(ctx, Step{Phase: stream.Started, Delegation: at})
			d.Log.Debug("process of a sub-agent started", "child", child, "pid", pid, "profile", del.Profile)
			d.checkpoint(Running)
		},
	})
	_ = out.Close()
	d.checkpoint(Ended)

	lasting, stop := convstore.Outlast(ctx)
	defer stop()
	e := d.judge(lasting, del, r, exit, runErr, f.result, f.bad)
	e.Stderr, e.LastTool = tail.String(), f.lastTool
	e.PID, e.Started = pid, f.begun
	err = d.settle(ctx, res, &e)
	if err == nil {
		// The store counts what the stream does not carry: attempts that failed, summaries, a reply that a kill cut off.
		f.tokens, f.cost = e.Own.Tokens(), (*stream.USD)(e.Own.Cost())
	}
	f.end(e.State, e.Reason)
	d.followEnd(ctx, del, e)
	d.Log.Debug("process of a sub-agent ended", "child", child, "exit", exit.Code, "rss", exit.MaxRSS)
	if err != nil {
		return outcome{}, fmt.Errorf("delegation %s: settle: %w", child, err)
	}
	d.checkpoint(Settled)
	return outcome{child: child, turn: del.ChildTurn, ending: e}, context.Cause(ctx)
}

// unpriced says, once for each model, that a limit of money does not count what a child costs: nobody knows it.
func (d *Delegator) unpriced(del convstore.Delegation) {
	if del.Grant.CostNano == nil || d.Priced != nil && d.Priced(del.Model) {
		return
	}
	d.mu.Lock()
	told := d.told[del.Model]
	d.told[del.Model] = true
	d.mu.Unlock()
	if !told {
		d.warn("the price of %s is not known: its cost counts only where its server tells it", del.Model)
	}
}

// own is how much later than a child itself its caller ends it at its time: a child that ends by itself says so.
const own = time.Second

// grace is how long a child may take to end when it is told to: what its own tools get, and as much again for it and for
// each level that may be below it.
func grace(del convstore.Delegation) time.Duration {
	levels := max(0, del.Grant.MaxDepth-del.Depth)
	return time.Duration(2+levels) * 2 * time.Second
}

// argv is what the child is started with: the boundary in plain sight. The store's word decides, not this.
func (d *Delegator) argv(child convstore.ID, fresh bool, r request, asJSON bool, left time.Duration) []string {
	argv := []string{"jp", "query", "--non-interactive", "--no-activate", "--format=stream-json"}
	if left > 0 {
		argv = append(argv, "--timeout="+left.String())
	}
	if fresh {
		argv = append(argv, "--cfg=NONE", "--cfg="+r.Profile.Arg)
	}
	for _, o := range r.overrides {
		argv = append(argv, "--cfg="+o)
	}
	if asJSON {
		argv = append(argv, "--input-format=json")
	}
	return append(argv, "--root-id="+d.Caller.String(), "--id="+child.String())
}

// left is what is left of the caller's time, 0 where it has no end. It is a duration and no moment: a clock that is set, or a machine
// that sleeps, changes the one and not the other.
func left(ctx context.Context) time.Duration {
	end, ok := ctx.Deadline()
	if !ok {
		return 0
	}
	return max(time.Until(end).Round(time.Millisecond), time.Millisecond)
}

// stdin is what the child reads: the query, or a task where there is more to tell it.
func (d *Delegator) stdin(r request) (text []byte, asJSON bool) {
	if r.schema == nil && r.context == "" {
		return []byte(r.query), false
	}
	t := stream.Task{Query: r.query}
	if r.schema != nil {
		t.Schema = r.schema.JSON()
	}
	if r.context != "" {
		t.Context = &stream.Context{Tool: d.ContextTool, Query: r.context}
	}
	text, _ = json.Marshal(t) // text and a schema that was read as JSON
	return text, true
}

// The points of a delegation's way.
const (
	Reserved = "reserved"
	Running  = "running"
	Ended    = "ended"
	Settled  = "settled"
)

func (d *Delegator) checkpoint(point string) {
	if d.Checkpoint != nil {
		d.Checkpoint(point)
	}
}

var errDeadline = fmt.Errorf("deadline: %w", context.DeadlineExceeded)

// follower turns a child's lines into progress.
type follower struct {
	d        *Delegator
	ready    func() // it has started
	child    convstore.ID
	call     string
	profile  string
	title    string
	begun    time.Time
	tool     string
	lastTool string
	tokens   int64
	cost     *stream.USD
	result   *stream.Result
	bad      *stream.LineError
}

func (f *follower) line(l stream.Line) {
	switch l := l.(type) {
	case *stream.Init:
		f.ready()
	case *stream.Assistant:
		u := l.Usage
		f.tokens = convstore.Sum(f.tokens, convstore.Usage{Input: u.InputTokens, Output: u.OutputTokens, CacheWrite: u.CacheWriteTokens}.Tokens())
		if l.CostUSD != nil {
			sum := *l.CostUSD
			if f.cost != nil {
				sum = stream.USD(convstore.Sum(int64(sum), int64(*f.cost)))
			}
			f.cost = &sum
		}
		f.tell(stream.Running)
	case *stream.ToolCall:
		f.tool = l.Name
		f.lastTool = l.Name + " " + string(l.Arguments)
		f.tell(stream.Running)
	case *stream.ToolResult:
		f.tool = ""
	case *stream.Wait:
		if l.Reason == "" {
			f.tell(stream.Running)
		} else {
			f.emit(stream.Waiting, "", l.Reason)
		}
	case *stream.Delegation:
		if f.d.Watch != nil {
			f.d.Watch(l)
		}
	case *stream.Result:
		f.result = l
	}
}

func (f *follower) tell(phase string) { f.emit(phase, "", "") }

func (f *follower) end(s convstore.State, reason string) { f.emit(stream.Ended, string(s), reason) }

func (f *follower) emit(phase, status, reason string) {
	if f.d.Watch == nil {
		return
	}
	f.d.Watch(&stream.Delegation{
		Phase: phase, ConversationID: f.child.String(), ParentID: f.d.Caller.String(), CallID: f.call,
		Profile: f.profile, Title: f.title, Tool: f.tool, Status: status, Reason: reason,
		Tokens: f.tokens, CostUSD: f.cost, ElapsedMS: time.Since(f.begun).Milliseconds(),
	})
}

// tailWriter keeps the last bytes of what is written.
type tailWriter struct {
	limit int
	buf   []byte
}

var _ io.Writer = (*tailWriter)(nil)

func (w *tailWriter) Write(p []byte) (int, error) {
	n := len(p)
	if n >= w.limit {
		w.buf = append(w.buf[:0], p[n-w.limit:]...)
		return n, nil
	}
	if over := len(w.buf) + n - w.limit; over > 0 {
		w.buf = append(w.buf[:0], w.buf[over:]...)
	}
	w.buf = append(w.buf, p...)
	return n, nil
}

func (w *tailWriter) String() string {
	return strings.TrimSpace(strings.ToValidUTF8(string(w.buf), "\uFFFD"))
}

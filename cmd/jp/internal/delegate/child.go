package delegate

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"jp/cmd/jp/internal/agent"
	"jp/cmd/jp/internal/stream"
	"jp/cmd/jp/internal/subprocess"
	"jp/cmd/jp/internal/wire"
	"jp/convstore"
	"jp/convstore/amount"
	"jp/tools/brief"
	"jp/tools/jsondoc"
	"jp/tools/proc"
)

// runner runs children of one caller, each as a process. It waits for a slot, starts the child,
// reads its stream until the process tree has ended, decides how the child ended, and settles. All
// fields are set. Safe for concurrent use.
type runner struct {
	o       Options
	caller  convstore.ID
	ledger  *ledger
	slots   *treeSlots
	starts  *starts
	watch   func(*stream.Delegation)
	unknown sync.Map // models without a price, of which a warning was given
}

// run runs the child of a reservation. A refusal says that none of its models can be asked any more:
// the reservation is withdrawn. With another error the run is being stopped, or the store has failed.
func (p *runner) run(ctx context.Context, res *held, r request) (outcome, error) {
	del := res.Delegation
	child := del.Child
	p.o.Checkpoint(Reserved)
	f := &follower{
		watch: p.watch, del: del, place: r.place, title: r.Title, begun: time.Now(),
	}
	whole := ctx // context of the caller, which goes on if only this child is stopped
	ctx, stopOne := context.WithCancelCause(ctx)
	defer stopOne(nil)
	if e, err := res.begin(func() { stopOne(convstore.ErrStopped) }); e != nil {
		f.end(e.State, e.Reason)
		p.o.Follow(ctx, endStep(del, *e))
		return outcome{child: child, ending: *e}, cmp.Or(err, context.Cause(whole))
	}
	slot, err := p.slots.pause(del).Take(ctx, func() {
		p.o.Follow(ctx, Step{Phase: stream.Queued, Delegation: del})
		f.report(stream.Queued)
	})
	if err != nil {
		e := unstarted()
		switch {
		case ctx.Err() == nil:
			e = ending{State: convstore.StateError, Reason: err.Error()}
		case whole.Err() == nil:
			e, err = stoppedBefore(), nil
		}
		f.end(e.State, e.Reason)
		err = errors.Join(err, p.ledger.settle(ctx, res, &e))
		p.o.Follow(ctx, endStep(del, e))
		return outcome{child: child, ending: e}, err
	}
	if no := p.down(ctx, res, r); no != nil {
		p.slots.free(slot)
		f.end(convstore.StateRefused, no.Error())
		p.o.Follow(ctx, endStep(del, ending{State: convstore.StateRefused, Reason: no.Error()}))
		if err := p.ledger.withdraw(ctx, res); err != nil {
			return outcome{}, err
		}
		return outcome{}, no
	}
	own := &owned{runner: p, slot: slot}
	defer func() { p.slots.free(own.takeSlot()) }()
	f.ready = p.starts.begin(ctx, r.place)
	defer f.ready()

	f.begun = time.Now()
	f.report(stream.Started)
	p.unpriced(del, r.Profile.Others)
	end := p.process(ctx, res, own, r, f)
	del.Host = f.host
	p.o.Checkpoint(Ended)

	lasting, stop := convstore.Outlast(ctx)
	defer stop()
	e := p.judge(lasting, del, r, end, f.result, f.bad)
	e.Stderr, e.LastTool = end.stderr, f.lastTool
	if f.result != nil {
		e.SubCalls = max(f.result.SubCalls, 0)
	}
	e.PID, e.Started = end.pid, f.begun
	if far := (*subprocess.EndError)(nil); errors.As(end.err, &far) {
		e.Hold = far.Hold
	}
	err = p.ledger.settle(ctx, res, &e)
	if err == nil {
		// The store counts what is not in the stream: attempts that failed, summaries, a reply that
		// a kill cut off.
		f.tokens, f.cost = e.Own.Tokens(), (*stream.USD)(e.Own.Cost())
	}
	f.end(e.State, e.Reason)
	p.o.Follow(ctx, endStep(del, e))
	p.o.Log.Debug("process of a sub-agent ended", "child", child, "exit", end.exit.Code, "rss", end.exit.MaxRSS)
	if err != nil {
		return outcome{child: child, ending: e}, fmt.Errorf("delegation %s: settle: %w", child, err)
	}
	p.o.Checkpoint(Settled)
	return outcome{child: child, ending: e}, context.Cause(whole)
}

// down refuses to start a child none of whose models can be asked any more.
func (p *runner) down(ctx context.Context, res *held, r request) error {
	c := p.ledger.caller
	if c.Down == nil || c.Down(res.Delegation.Model) == nil {
		return nil
	}
	log, err := p.ledger.scope.Log(ctx, res.Reservation)
	if err != nil {
		return nil // the start of the child says it
	}
	defer func() { _ = log.Close() }()
	var ids []string
	for _, m := range p.o.Models(ctx, Below{Log: log, Conv: res.Child, Overrides: r.overrides}) {
		ids = append(ids, m.Info.ID)
	}
	return c.AllDown(ids)
}

// processEnd is how the process of a child ended.
type processEnd struct {
	exit   proc.Exit
	err    error // why it could not be run, or why something of it still runs
	pid    int   // 0 = it was never started
	stderr string
}

// process runs the process tree of a child to its end. The lines of its stdout go to f, and own
// serves its wire.
func (p *runner) process(ctx context.Context, res *held, own *owned, r request, f *follower) (end processEnd) {
	del := res.Delegation
	timed := subprocess.Limit(ctx, del.Grant.Timeout)
	defer timed.Stop()
	own.began = sync.OnceFunc(timed.Began)
	defer func() { // an error on the way to a process whose time is over, or whose caller stopped it, is no failure
		if x := &end.exit; end.err != nil && x.Code < 0 && x.Signal == 0 && x.Cause == nil {
			x.Cause = context.Cause(timed)
		}
	}()
	environ := p.o.Environ(ctx, Run{Call: del.Call, Query: r.query})
	served, err := own.serve(timed, res.Reservation, r, environ)
	if err != nil {
		return processEnd{err: err, exit: proc.Exit{Code: -1}}
	}
	runner, err := p.o.Place(timed, own.below)
	if err != nil {
		served.theirs.Close()
		_ = served.end()
		return processEnd{err: err, exit: proc.Exit{Code: -1}}
	}
	if runner == nil {
		runner = subprocess.Here{Host: p.o.Host, Dir: p.o.Dir}
		environ = proc.Environ(p.o.Variables(timed, own.below), append([]string{"*"}, environ...)...)
		timed.Begin()
	}
	stdin, asJSON := p.stdin(r)
	said := &subprocess.Messages{}
	out := &stream.Splitter{Each: f.line, Bad: func(e *stream.LineError) { f.bad = e }}
	end.exit, end.err = runner.Run(served.ctx, subprocess.Job{
		Args:  func() []string { return p.argv(del.Child, del.Fresh, r, asJSON, wire.TimeLeft(ctx)) },
		Depth: del.Depth, Parallel: max(del.Grant.MaxParallel, 1), Environ: environ,
		Stdin: stdin, Stdout: out, Stderr: said, Lock: res.LockFile, Wire: served.theirs,
		Idle: func() func(context.Context) error {
			timed.Wait() // a node may have passed it over
			return own.idle(p.slots.pause(del))
		},
		Away: func(host string, lease time.Duration) error {
			timed.Begin()
			f.host = host
			return p.ledger.scope.Lease(timed, res.Reservation, host, lease)
		},
		Started: func(host string, pid int) {
			end.pid = pid
			at := del
			at.PID, at.Host = pid, host
			p.o.Follow(ctx, Step{Phase: stream.Started, Delegation: at})
			p.o.Log.Debug("process of a sub-agent started", "child", del.Child, "host", host, "pid", pid, "profile", del.Profile)
			p.o.Checkpoint(Running)
		},
	})
	if bad := served.end(); bad != nil {
		end.err = bad
	}
	_ = out.Close()
	end.stderr = said.String()
	if stacks := said.Stacks(); stacks != nil {
		p.o.Log.Error("a sub-agent crashed", "child", del.Child, "pid", end.pid, "stacks", string(stacks))
	}
	return end
}

// judge returns how a child has ended, by subprocess.Verdict. result is its last line, and bad says
// why that could not be read.
func (p *runner) judge(ctx context.Context, del convstore.Delegation, r request, end processEnd, result *stream.Result, bad *stream.LineError) ending {
	events, err := turnOf(ctx, p.ledger.scope.View, del.Child, del.ChildTurn)
	var e ending
	if err != nil {
		e.State, e.Reason = convstore.StateLost, "its conversation cannot be read: "+err.Error()
	} else {
		e = answered(events)
		_, stored := agent.LastTurn(events)
		e.State, e.Reason = subprocess.Verdict(end.exit, end.err, stored, result, bad)
		e.amend(r, events)
	}
	if e.State == convstore.StateLost && e.Text == "" && result != nil {
		e.Text = result.Result // it was paid for, though it is in no store
	}
	e.Reason = strings.Clone(brief.Prefix(e.Reason, wire.MaxReason))
	return e
}

// unpriced warns, once for each model, that a limit of money does not count what a child costs,
// because its price is not known.
func (p *runner) unpriced(del convstore.Delegation, others []string) {
	if del.Grant.CostNano == nil {
		return
	}
	for _, id := range append([]string{del.Model}, others...) {
		if p.o.Priced(id) {
			continue
		}
		if _, warned := p.unknown.LoadOrStore(id, true); !warned {
			p.o.Warn("the price of %s is not known: its cost counts only where its server reports it", id)
		}
	}
}

// argv returns the arguments of the child. They show its limits in a list of processes. The limits
// in the store are the ones that apply.
func (p *runner) argv(child convstore.ID, fresh bool, r request, asJSON bool, left time.Duration) []string {
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
	return append(argv, "--root-id="+p.caller.String(), "--id="+child.String())
}

// stdin returns what the child reads: the query, or a task in JSON where there is more than the
// query.
func (p *runner) stdin(r request) (text []byte, asJSON bool) {
	if r.schema == nil && r.context == "" && len(r.attached) == 0 {
		return []byte(r.query), false
	}
	return r.task(p.o.ContextTool), true
}

// task returns the request as a child reads it where there is more than the query. contextTool
// answers its context_query.
func (r *request) task(contextTool string) []byte {
	t := stream.Task{Query: r.query}
	if r.schema != nil {
		t.Schema = r.schema.JSON()
	}
	for _, a := range r.attached {
		t.Attachments = append(t.Attachments, stream.Attachment(a))
	}
	if r.context != "" {
		t.Context = &stream.Context{Tool: contextTool, Query: r.context}
	}
	text, _ := jsondoc.Encode(t) // cannot fail: texts, and a schema that was read as JSON
	return text
}

// follower turns the lines of a child into progress for whoever watches.
type follower struct {
	watch    func(*stream.Delegation)
	ready    func() // called when the child is about to ask its model
	del      convstore.Delegation
	pace     pace
	place    int
	title    string
	host     string // machine where it runs; "" = this one
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
		f.tokens = amount.Sum(f.tokens, convstore.Usage{Input: u.InputTokens, Output: u.OutputTokens, CacheWrite: u.CacheWriteTokens}.Tokens())
		if l.CostUSD != nil {
			sum := *l.CostUSD
			if f.cost != nil {
				sum = stream.USD(amount.Sum(int64(sum), int64(*f.cost)))
			}
			f.cost = &sum
		}
		f.report(stream.Running)
	case *stream.ToolCall:
		f.tool, f.lastTool = short(l.Name), short(l.Name+" "+string(l.Arguments))
		f.report(stream.Running)
	case *stream.ToolResult:
		f.tool = ""
	case *stream.Wait:
		if l.Reason == "" {
			f.report(stream.Running)
		} else {
			f.emit(stream.Waiting, "", waitsFor(l))
		}
	case *stream.Result:
		f.result = l
	}
}

// waitsFor says what a child waits for, and where that is long until when.
func waitsFor(w *stream.Wait) string {
	wait := time.Duration(w.WaitMS) * time.Millisecond
	if wait < time.Minute {
		return w.Reason
	}
	return w.Reason + " until " + time.Now().Add(wait).Format("15:04")
}

func (f *follower) report(phase string) { f.emit(phase, "", "") }

func (f *follower) end(s convstore.State, reason string) { f.emit(stream.Ended, string(s), reason) }

func (f *follower) emit(phase, status, reason string) {
	if (phase == stream.Running || phase == stream.Waiting) && !f.pace.allows() {
		return
	}
	f.watch(&stream.Delegation{
		Phase: phase, ConversationID: f.del.Child.String(), ParentID: f.del.Caller.String(), CallID: f.del.Call,
		Profile: f.del.Profile, Title: f.title, Host: f.host, Tool: f.tool, Status: status, Reason: short(reason),
		Tokens: f.tokens, CostUSD: f.cost, ElapsedMS: time.Since(f.begun).Milliseconds(), Place: f.place,
	})
}

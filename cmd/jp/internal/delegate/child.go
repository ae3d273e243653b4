package delegate

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"sync"
	"time"

	"jp/cmd/jp/internal/stream"
	"jp/convstore"
	"jp/tools/proc"
)

// runner runs children of one caller, each as a process: it waits for a slot, starts the child, follows its stream to the end of the
// process tree, judges how it ended, and settles. All fields are set. Safe for concurrent use.
type runner struct {
	caller      convstore.ID
	subtree     subtree
	ledger      *ledger
	slots       *treeSlots
	starts      *starts
	host        *proc.Host
	dir         string // working directory of the children
	contextTool string // tool of a child that answers a context query; "" = none
	environ     func(context.Context, Run) []string
	priced      func(model string) bool
	watch       func(*stream.Delegation)
	follow      func(context.Context, Step)
	checkpoint  func(point string)
	warn        func(format string, a ...any)
	log         *slog.Logger

	unknown sync.Map // models without a price that a warning has named
}

// run runs the child of a reservation. With an error the run is being stopped, or the store has failed.
func (p *runner) run(ctx context.Context, res *convstore.Reservation, r request) (outcome, error) {
	del := res.Delegation
	child := del.Child
	p.checkpoint(Reserved)
	f := &follower{
		watch: p.watch, caller: p.caller, child: child, call: del.Call, profile: del.Profile, title: r.Title, begun: time.Now(),
	}
	slot, err := p.slots.take(ctx, del, func() {
		p.follow(ctx, Step{Phase: stream.Queued, Delegation: del})
		f.tell(stream.Queued)
	})
	if err != nil {
		e := unstarted()
		if ctx.Err() == nil {
			e = ending{State: convstore.StateError, Reason: err.Error()}
		}
		f.end(e.State, e.Reason)
		err = errors.Join(err, p.ledger.settle(ctx, res, &e))
		p.follow(ctx, endStep(del, e))
		return outcome{child: child, ending: e}, err
	}
	defer p.slots.free(slot)
	f.ready = p.starts.begin(ctx)
	defer f.ready()

	f.begun = time.Now()
	f.tell(stream.Started)
	p.unpriced(del)
	end := p.process(ctx, res, slot, r, f)
	p.checkpoint(Ended)

	lasting, stop := convstore.Outlast(ctx)
	defer stop()
	e := p.judge(lasting, del, r, end, f.result, f.bad)
	e.Stderr, e.LastTool = end.stderr, f.lastTool
	e.PID, e.Started = end.pid, f.begun
	err = p.ledger.settle(ctx, res, &e)
	if err == nil {
		// The store counts what the stream does not carry: attempts that failed, summaries, a reply that a kill cut off.
		f.tokens, f.cost = e.Own.Tokens(), (*stream.USD)(e.Own.Cost())
	}
	f.end(e.State, e.Reason)
	p.follow(ctx, endStep(del, e))
	p.log.Debug("process of a sub-agent ended", "child", child, "exit", end.exit.Code, "rss", end.exit.MaxRSS)
	if err != nil {
		return outcome{}, fmt.Errorf("delegation %s: settle: %w", child, err)
	}
	p.checkpoint(Settled)
	return outcome{child: child, turn: del.ChildTurn, ending: e}, context.Cause(ctx)
}

// processEnd is how the process of a child ended.
type processEnd struct {
	exit   proc.Exit
	err    error // why it could not be run, or not be ended whole
	pid    int   // 0 = it was never started
	stderr string
}

// process runs the process of a child, and passes the lines of its stdout to f.
func (p *runner) process(ctx context.Context, res *convstore.Reservation, slot *convstore.Slot, r request, f *follower) (end processEnd) {
	del := res.Delegation
	// The time of a child begins here, and never ends after its caller's.
	timed := ctx
	if del.Grant.Timeout > 0 {
		var cancel context.CancelFunc
		timed, cancel = context.WithTimeoutCause(ctx, del.Grant.Timeout+lag, errDeadline)
		defer cancel()
	}
	stdin, asJSON := p.stdin(r)
	tail := &tailWriter{limit: 4 << 10}
	out := &stream.Splitter{Each: f.line, Bad: func(e *stream.LineError) { f.bad = e }}
	end.exit, end.err = p.host.Run(timed, proc.Spec{
		Path: proc.Self(), Args: p.argv(del.Child, del.Fresh, r, asJSON, left(ctx)), Dir: p.dir,
		Env: p.environ(ctx, Run{
			Model: cmp.Or(r.Model, del.Model), Delegates: del.Grant.MaxDepth > del.Depth,
			Call: del.Call, Query: r.query,
		}),
		Stdin: bytes.NewReader(stdin), Stdout: out, Stderr: tail,
		Lock: res.LockFile(), Slot: slot.File(), Kind: proc.Agent, Grace: grace(del),
		Started: func(pid int) {
			end.pid = pid
			_ = slot.Pass() // of a regular file nobody wrote to
			at := del
			at.PID = pid
			p.follow(ctx, Step{Phase: stream.Started, Delegation: at})
			p.log.Debug("process of a sub-agent started", "child", del.Child, "pid", pid, "profile", del.Profile)
			p.checkpoint(Running)
		},
	})
	_ = out.Close()
	end.stderr = tail.String()
	return end
}

// judge decides the one terminal state from three witnesses: the operating system (end), the store (the child's last turn) and the
// child's own last line (result). Where they disagree the worse one counts; where none spoke the child is lost.
func (p *runner) judge(ctx context.Context, del convstore.Delegation, r request, end processEnd, result *stream.Result, bad *stream.LineError) ending {
	events, err := p.subtree.turn(ctx, del.Child, del.ChildTurn)
	if err != nil {
		return ending{State: convstore.StateLost, Reason: "its conversation cannot be read: " + err.Error()}
	}
	e := answered(events)
	e.State, e.Reason = verdict(end.exit, end.err, stored(events), result, bad)
	e.check(r, events)
	return e
}

// unpriced says, once for each model, that a limit of money does not count what a child costs: nobody knows it.
func (p *runner) unpriced(del convstore.Delegation) {
	if del.Grant.CostNano == nil || p.priced(del.Model) {
		return
	}
	if _, warned := p.unknown.LoadOrStore(del.Model, true); !warned {
		p.warn("the price of %s is not known: its cost counts only where its server tells it", del.Model)
	}
}

// lag is how much later than the child itself its caller ends it at its deadline: a child that ends by itself says so.
const lag = time.Second

// grace is how long a child may take to end when it is told to: what its own tools get, and as much again for it and for
// each level that may be below it.
func grace(del convstore.Delegation) time.Duration {
	levels := max(0, del.Grant.MaxDepth-del.Depth)
	return time.Duration(2+levels) * 2 * time.Second
}

// argv is what the child is started with: the boundary in plain sight. The store's word decides, not this.
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
func (p *runner) stdin(r request) (text []byte, asJSON bool) {
	if r.schema == nil && r.context == "" {
		return []byte(r.query), false
	}
	t := stream.Task{Query: r.query}
	if r.schema != nil {
		t.Schema = r.schema.JSON()
	}
	if r.context != "" {
		t.Context = &stream.Context{Tool: p.contextTool, Query: r.context}
	}
	text, _ = json.Marshal(t) // text and a schema that was read as JSON
	return text, true
}

var errDeadline = fmt.Errorf("deadline: %w", context.DeadlineExceeded)

// follower turns a child's lines into progress.
type follower struct {
	watch    func(*stream.Delegation)
	ready    func() // called when the child has come to its model
	caller   convstore.ID
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
		f.watch(l)
	case *stream.Result:
		f.result = l
	}
}

func (f *follower) tell(phase string) { f.emit(phase, "", "") }

func (f *follower) end(s convstore.State, reason string) { f.emit(stream.Ended, string(s), reason) }

func (f *follower) emit(phase, status, reason string) {
	f.watch(&stream.Delegation{
		Phase: phase, ConversationID: f.child.String(), ParentID: f.caller.String(), CallID: f.call,
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

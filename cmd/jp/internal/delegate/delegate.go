// Package delegate hands scoped work to sub-agents: each a process of its own, on a conversation of its own.
//
// The way of one delegation: Decide (the one rule) runs inside the store's reserving transaction, which forks the child
// and takes its run lock; the child is this program started again, with the query on stdin and the lock inherited; its
// whole process tree ends; its end is judged from the operating system's word, the store's and its own (judge); and one
// more transaction settles it. What the model gets is a bounded text that cannot close its own wrapper.
//
// A Delegator serves one run of one caller. Its tools are ordinary tools: the agent loop knows nothing of them but Admit,
// which lets the calls of one reply reserve together.
package delegate

import (
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
	"jp/tools"
	"jp/tools/proc"
)

// Delegator runs sub-agents for one caller. All fields but the noted ones are required.
type Delegator struct {
	Scope  convstore.Scope // below the caller
	Caller convstore.ID
	Set    tools.Set // the caller's effective tools; set before the first call
	Limits Limits

	Models       []string // what an assistant.model override may name; empty: any but script/
	InlineResult int      // bytes of a result that the model gets; 0 = 16 KiB
	Parallel     int      // children at once; 0 = 4

	// Resolve loads a profile under NONE with the model override, if any.
	Resolve func(ctx context.Context, name, model string) (Profile, error)

	Host    *proc.Host
	Dir     string                        // the child's working directory
	Environ func(model string) []string   // the child's environment, with what its model needs
	Watch   func(d *stream.Delegation)    // progress, from any goroutine; nil drops it
	Warn    func(format string, a ...any) // nil drops it
	Log     *slog.Logger                  // nil discards

	// Checkpoint is told that a delegation has come to a point of its way: Reserved, Running, Ended, Settled. It is how a
	// crash at each of them is tried. nil is nobody.
	Checkpoint func(point string)

	once  sync.Once
	slots chan struct{}

	mu       sync.Mutex
	calls    int
	profiles map[string]Profile             // resolved in this run, by name and model
	admitted map[string]admission           // by call id
	tail     map[convstore.ID]chan struct{} // the end of the latest call to one child
}

// admission is what Admit decided for one call.
type admission struct {
	res   *convstore.Reservation
	err   error
	after <-chan struct{} // an earlier call of the reply to the same child, which must end first
	done  chan struct{}
}

// args are the validated arguments of jp_query.
type args struct {
	Config    string   `json:"config"`
	Query     string   `json:"query"`
	ID        string   `json:"id"`
	Overrides []string `json:"overrides"`
}

func (d *Delegator) init() {
	d.once.Do(func() {
		n := d.Parallel
		if n <= 0 {
			n = 4
		}
		d.slots = make(chan struct{}, n)
		d.admitted, d.profiles = map[string]admission{}, map[string]Profile{}
		d.tail = map[convstore.ID]chan struct{}{}
		if d.Log == nil {
			d.Log = slog.New(slog.DiscardHandler)
		}
		if d.InlineResult <= 0 {
			d.InlineResult = 16 << 10
		}
	})
}

// Admit reserves the delegations among the calls of one reply in one transaction, in call order: what the rule refuses
// is refused alone. Calls to one child run in call order, so all but the first are reserved when their turn comes.
// Every admitted call must reach its tool or Release.
func (d *Delegator) Admit(ctx context.Context, calls []tools.Call) {
	d.init()
	var asks []Ask
	for _, c := range calls {
		if c.Name != toolQuery {
			continue
		}
		// A call that a person is asked about, or that will be refused for its arguments, must not fork a child first.
		t, ok := d.Set.Get(c.Name)
		if !ok || t.Run != tools.RunUnattended {
			continue
		}
		valid, err := t.Validate(c.Arguments)
		if err != nil {
			continue
		}
		c.Arguments = valid
		ask, err := d.ask(ctx, c)
		d.mu.Lock()
		switch prev := d.tail[ask.ID]; {
		case err != nil:
			d.admitted[c.ID] = admission{err: err}
		case ask.ID != 0 && prev != nil:
			done := make(chan struct{})
			d.tail[ask.ID] = done
			d.admitted[c.ID] = admission{after: prev, done: done}
		default:
			a := admission{}
			if ask.ID != 0 {
				a.done = make(chan struct{})
				d.tail[ask.ID] = a.done
			}
			d.admitted[c.ID] = a
			asks = append(asks, ask)
		}
		d.mu.Unlock()
	}
	if len(asks) == 0 {
		return
	}
	res, errs := d.reserve(ctx, asks)
	d.mu.Lock()
	defer d.mu.Unlock()
	for i, ask := range asks {
		a := d.admitted[ask.Call]
		a.res, a.err = res[i], errs[i]
		d.admitted[ask.Call] = a
	}
}

// Release settles what was admitted and never ran.
func (d *Delegator) Release(ctx context.Context) {
	d.init()
	d.mu.Lock()
	left := d.admitted
	d.admitted = map[string]admission{}
	d.mu.Unlock()
	for _, a := range left {
		if a.res != nil && !a.res.Existed {
			if _, err := d.Scope.Settle(context.WithoutCancel(ctx), a.res, convstore.Outcome{
				State: convstore.StateCancelled, Reason: "never started", Ended: time.Now(),
			}); err != nil {
				d.warn("delegation %s: %v", a.res.Child.ID, err)
			}
		}
		if a.done != nil {
			close(a.done)
		}
	}
}

// reserve runs the rule over asks in one transaction. The store takes all or nothing, so what the rule refuses is left
// out of what it is given, and a child that is busy is refused alone by trying the rest again.
func (d *Delegator) reserve(ctx context.Context, asks []Ask) ([]*convstore.Reservation, []error) {
	res := make([]*convstore.Reservation, len(asks))
	errs := make([]error, len(asks))
	open := make([]int, len(asks))
	for i := range asks {
		open[i] = i
	}
	for len(open) > 0 {
		var granted []int
		got, err := d.Scope.Reserve(ctx, func(s convstore.Standing) ([]convstore.Child, error) {
			granted = granted[:0]
			var children []convstore.Child
			fresh := 0
			for _, i := range open {
				if _, ok := s.Existing(asks[i].Call); ok {
					children = append(children, convstore.Child{Call: asks[i].Call})
					granted = append(granted, i)
					continue
				}
				child, err := Decide(s, Caller{Tools: d.Set.Names(), Limits: d.Limits}, asks[i], len(children), fresh)
				if errs[i] = err; err != nil {
					if !refused(err) {
						return nil, err
					}
					continue
				}
				if child.ID == 0 {
					fresh++
				}
				children = append(children, child)
				granted = append(granted, i)
			}
			return children, nil
		})
		var busy *convstore.BusyError
		if errors.As(err, &busy) && busy.ID != 0 {
			rest := open[:0:0]
			for _, i := range open {
				if asks[i].ID == busy.ID {
					errs[i] = err
				} else if errs[i] == nil {
					rest = append(rest, i)
				}
			}
			if len(rest) < len(open) {
				open = rest
				continue
			}
		}
		if err != nil {
			for _, i := range open {
				if errs[i] == nil {
					errs[i] = err
				}
			}
			return res, errs
		}
		d.mu.Lock()
		defer d.mu.Unlock()
		for n, i := range granted {
			res[i] = got[n]
			if !got[n].Existed {
				d.calls++
			}
		}
		return res, errs
	}
	return res, errs
}

// ask reads the arguments of one call. The executor has validated them or will refuse the call.
func (d *Delegator) ask(ctx context.Context, c tools.Call) (Ask, error) {
	var a args
	if err := json.Unmarshal(c.Arguments, &a); err != nil {
		return Ask{}, fmt.Errorf("arguments: %w", err)
	}
	ask := Ask{Call: c.ID, Tool: c.Name, Title: title(a.Query)}
	if strings.TrimSpace(a.Query) == "" {
		return ask, errors.New("query: is empty")
	}
	if strings.ContainsRune(a.Query, 0) {
		return ask, errors.New("query: holds a NUL byte")
	}
	if a.ID != "" && a.ID != "new" {
		id, err := convstore.ParseID(a.ID)
		if err != nil {
			return ask, err
		}
		ask.ID = id
	}
	model, err := d.override(a.Overrides)
	if err != nil {
		return ask, err
	}
	// The enum is checked before anything is read: no name from a model reaches the file system.
	if !contains(d.Limits.Profiles, a.Config) {
		return ask, refuse(CodeProfile, "%q is not one of the profiles that may be delegated to", a.Config)
	}
	ask.Profile, err = d.profile(ctx, a.Config, model)
	return ask, err
}

// profile resolves a profile once in a run: what a file says changes with the next run, not within a reply.
func (d *Delegator) profile(ctx context.Context, name, model string) (Profile, error) {
	key := name + "\x00" + model
	d.mu.Lock()
	p, ok := d.profiles[key]
	d.mu.Unlock()
	if ok {
		return p, nil
	}
	p, err := d.Resolve(ctx, name, model)
	if err == nil {
		d.mu.Lock()
		d.profiles[key] = p
		d.mu.Unlock()
	}
	return p, err
}

// override reads `assistant.model=X`, the one key that a caller may set.
func (d *Delegator) override(list []string) (model string, err error) {
	for _, o := range list {
		m, ok := strings.CutPrefix(o, "assistant.model=")
		switch {
		case !ok || m == "":
			return "", fmt.Errorf("overrides: only assistant.model=MODEL is allowed, got %q", o)
		case strings.HasPrefix(m, "script/"):
			return "", fmt.Errorf("overrides: %q is not a model that may be chosen", m)
		case len(d.Models) > 0 && !contains(d.Models, m):
			return "", fmt.Errorf("overrides: %q is not one of the models that may be chosen (%s)", m, strings.Join(d.Models, ", "))
		}
		model = m
	}
	return model, nil
}

// query is the tool: it takes what Admit reserved, or reserves now, runs the child and tells its end.
func (d *Delegator) query(ctx context.Context, c tools.Call) (tools.Result, error) {
	d.init()
	d.mu.Lock()
	a, ok := d.admitted[c.ID]
	delete(d.admitted, c.ID)
	d.mu.Unlock()
	if a.done != nil {
		defer close(a.done)
	}
	if a.after != nil {
		select {
		case <-a.after:
		case <-ctx.Done():
			return tools.Result{}, context.Cause(ctx)
		}
	}
	ask, err := d.ask(ctx, c)
	if err != nil {
		return d.refusal(err)
	}
	if !ok || a.after != nil {
		res, errs := d.reserve(ctx, []Ask{ask})
		a.res, a.err = res[0], errs[0]
	}
	if a.err != nil {
		return d.refusal(a.err)
	}
	if a.res.Existed {
		return d.recall(ctx, a.res)
	}
	var in args
	if err := json.Unmarshal(c.Arguments, &in); err != nil {
		return tools.Result{}, err
	}
	return d.run(ctx, a.res, ask, in)
}

func (d *Delegator) refusal(err error) (tools.Result, error) {
	var busy *convstore.BusyError
	if refused(err) || errors.As(err, &busy) {
		d.Log.Info("delegation refused", "caller", d.Caller, "why", err)
	}
	return tools.Result{Text: neutralize(err.Error()), IsError: true}, nil
}

// recall answers a repeated call from the run that exists.
func (d *Delegator) recall(ctx context.Context, res *convstore.Reservation) (tools.Result, error) {
	del := res.Delegation
	if del.State == "" {
		return tools.Result{Text: fmt.Sprintf("%s is still being worked on by an earlier run of this call", del.Child), IsError: true}, nil
	}
	text, err := d.answer(ctx, del.Child, del.ChildTurn)
	if err != nil {
		return tools.Result{}, err
	}
	return d.respond(ending{State: del.State, Reason: del.Reason, Text: text, Usage: del.Usage, Cost: del.CostNano}, del.Child), nil
}

// run starts the child, follows it to the end of its process tree, judges and settles.
func (d *Delegator) run(ctx context.Context, res *convstore.Reservation, ask Ask, in args) (tools.Result, error) {
	child := res.Child.ID
	d.checkpoint(Reserved)
	f := &follower{d: d, child: child, call: res.Delegation.Call, profile: res.Delegation.Profile, title: ask.Title, begun: time.Now()}
	settle := func(o convstore.Outcome) (convstore.Delegation, error) {
		return d.Scope.Settle(context.WithoutCancel(ctx), res, o)
	}

	select {
	case d.slots <- struct{}{}:
	default:
		f.tell(stream.Queued)
		select {
		case d.slots <- struct{}{}:
		case <-ctx.Done():
			_, err := settle(convstore.Outcome{State: convstore.StateCancelled, Reason: "cancelled while queued", Ended: time.Now()})
			f.end(convstore.StateCancelled, "cancelled while queued")
			return tools.Result{}, errors.Join(context.Cause(ctx), err)
		}
	}
	defer func() { <-d.slots }()

	f.begun = time.Now()
	runCtx := ctx
	if dl := res.Delegation.Grant.Deadline; !dl.IsZero() {
		var cancel context.CancelFunc
		runCtx, cancel = context.WithDeadlineCause(ctx, dl, errDeadline)
		defer cancel()
	}
	f.tell(stream.Started)
	tail := &tailWriter{limit: 4 << 10}
	out := &stream.Splitter{Each: f.line, Bad: func(e *stream.LineError) { f.bad = e }}
	exit, runErr := d.Host.Run(runCtx, proc.Spec{
		Path: proc.Self(), Args: d.argv(child, ask, in), Env: d.Environ(ask.Profile.Model), Dir: d.Dir,
		Stdin: strings.NewReader(in.Query), Stdout: out, Stderr: tail,
		Lock: res.LockFile(), Kind: proc.Agent, Grace: 4 * time.Second,
		Started: func(pid int) {
			d.Log.Info("delegation started", "child", child, "pid", pid, "profile", ask.Profile.Name)
			d.checkpoint(Running)
		},
	})
	_ = out.Close()
	d.checkpoint(Ended)

	end := d.judge(context.WithoutCancel(ctx), child, exit, runErr, f.result, f.bad)
	end.Stderr, end.LastTool = tail.String(), f.lastTool
	_, err := settle(convstore.Outcome{State: end.State, Reason: end.Reason, Usage: end.Usage, CostNano: end.Cost, Ended: time.Now()})
	f.end(end.State, end.Reason)
	d.Log.Info("delegation ended", "child", child, "state", end.State, "reason", end.Reason, "exit", exit.Code, "rss", exit.MaxRSS)
	if err != nil {
		return tools.Result{}, fmt.Errorf("delegation %s: settle: %w", child, err)
	}
	d.checkpoint(Settled)
	if cause := context.Cause(ctx); cause != nil {
		return tools.Result{Text: d.respond(end, child).Text, IsError: true}, cause
	}
	return d.respond(end, child), nil
}

// argv is what the child is started with: the boundary in plain sight. The store's word decides, not this.
func (d *Delegator) argv(child convstore.ID, ask Ask, in args) []string {
	argv := []string{"jp", "query", "--non-interactive", "--no-activate", "--format=stream-json"}
	if ask.ID == 0 {
		argv = append(argv, "--cfg=NONE", "--cfg="+ask.Profile.Arg)
	}
	for _, o := range in.Overrides {
		argv = append(argv, "--cfg="+o)
	}
	return append(argv, "--root-id="+d.Caller.String(), "--id="+child.String())
}

// Calls is how many delegations were made so far.
func (d *Delegator) Calls() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.calls
}

// Repeats reports whether a call of the tool may be made again after a crash: one that has run answers from its run.
func (d *Delegator) Repeats(tool string) bool { return tool == toolQuery }

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

func (d *Delegator) warn(format string, a ...any) {
	if d.Warn != nil {
		d.Warn(format, a...)
	}
}

var errDeadline = fmt.Errorf("deadline: %w", context.DeadlineExceeded)

// title is the first line of a query, as a title: printable and short.
func title(query string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(query), "\n")
	line = strings.Join(strings.Fields(line), " ")
	const most = 72
	r := []rune(line)
	if len(r) > most {
		return strings.TrimSpace(string(r[:most-1])) + "…"
	}
	return line
}

func contains(list []string, s string) bool {
	for _, l := range list {
		if l == s {
			return true
		}
	}
	return false
}

// follower turns a child's lines into progress.
type follower struct {
	d        *Delegator
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
	case *stream.Assistant:
		u := l.Usage
		f.tokens += u.InputTokens + u.CacheWriteTokens + u.OutputTokens
		if l.CostUSD != nil {
			sum := *l.CostUSD
			if f.cost != nil {
				sum += *f.cost
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

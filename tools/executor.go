package tools

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"runtime/debug"
	"slices"
	"strings"
	"sync"

	"jp/tools/brief"
	"jp/tools/fs"
	"jp/tools/patience"
	"jp/tools/suggest"
)

// Defaults of an Executor.
const (
	DefaultParallel   = 8
	DefaultBatchBytes = 2_000_000
)

// Executor runs the calls of one reply. It is a value; a zero Executor refuses every call, since
// its Set is empty. It is safe for concurrent use.
type Executor struct {
	Set Set
	// Permit gives permission to run a call. nil lets "unattended" tools run and refuses all
	// others. [Policy.Permit] is the usual one. One that is Standing is asked for again as the
	// call runs, later perhaps, if it waits for others.
	Permit Permit
	// Absent says why a tool of a name that is not in the Set may not be called, "" if nothing is
	// known of it. nil knows of none.
	Absent func(name string) string
	// Deliver gives permission to show a result to the model. nil delivers the results of
	// "unattended" tools and withholds all others.
	Deliver func(ctx context.Context, t Tool, c Call, r Result) (Decision, error)
	// Parallel is how many calls of one batch run at once, without those of tools that delegate; 0
	// is DefaultParallel.
	Parallel int
	// BatchBytes is the most text of all results together; 0 is DefaultBatchBytes. The results that
	// finish last are cut.
	BatchBytes int
	// Started is called with each call just before it runs, perhaps concurrently. nil = it is not
	// called.
	Started func(Call)
	// Around is called once for each call, in call order, before any of them runs. It gets the tool
	// of the call, or the zero Tool if the Set has none of that name. It returns the context that
	// the call runs in, made from ctx, and a function that gets the result before Run yields it.
	// nil = it is not called. Calls must have different ids.
	Around func(ctx context.Context, t Tool, c Call) (context.Context, func(Result))
}

// Run runs the calls and yields each with its result as it finishes: one result for every call, in
// no fixed order. It never fails as a whole. An unknown name, arguments that do not fit the schema,
// a refusal, a panic, a timeout and the end of ctx are results with IsError. The text of such a
// result begins with "error: ", or is a <response status="..."> of a sub-agent, or a JSON array of
// such.
//
// A tool whose definition says parallel = false runs alone: calls before it are finished first, and
// calls behind it start after it. A person is asked for it while sub-agents before it still work.
// Other calls run beside one another, those that need no answer of a person first. As many as
// Parallel run at once, and the others wait for a place in call order. A tool that Delegates needs no
// place, because it only waits for sub-agents, and these have a bound of their own; nor does one that
// asks a person, who gets questions one after another.
//
// When the consumer stops early, the calls that run are cancelled. Run returns when none of them is
// running any more.
func (e Executor) Run(ctx context.Context, calls []Call) iter.Seq2[Call, Result] {
	return func(yield func(Call, Result) bool) {
		ctx, cancel := context.WithCancel(ctx)
		b := batch{
			Executor: e,
			done:     make(chan finished, len(calls)),
		}
		b.surround(ctx, calls)
		room := orDefault(e.BatchBytes, DefaultBatchBytes)
		how := fmt.Sprintf("the results of one reply are together at most %s: ask for less at a time", brief.Size(room))

		var all sync.WaitGroup
		defer all.Wait()
		defer cancel()
		all.Go(func() {
			defer close(b.done)
			b.run(ctx, calls)
		})

		left := len(calls)
		stopped := false
		for f := range b.done {
			left--
			f.result.Text = bound(f.result.Text, batchShare(room, left), how)
			room -= len(f.result.Text)
			if done := b.around[f.call.ID].done; done != nil {
				done(f.result)
			}
			if !stopped && !yield(f.call, f.result) {
				stopped = true
				cancel()
			}
		}
	}
}

// batchShare is how many bytes a result may have when it and left others still have size bytes to
// share.
func batchShare(size, left int) int {
	return max(size-left*fs.SmallResult, min(fs.SmallResult, size/(left+1)), 0)
}

func orDefault(n, def int) int {
	if n <= 0 {
		return def
	}
	return n
}

// batch is one Run.
type batch struct {
	Executor
	done   chan finished
	around map[string]around // by call; nil without Executor.Around
}

// around is what Around returned for a call.
type around struct {
	ctx  context.Context
	done func(Result)
}

// surround calls Around for the calls.
func (b *batch) surround(ctx context.Context, calls []Call) {
	if b.Around == nil {
		return
	}
	b.around = make(map[string]around, len(calls))
	for _, c := range calls {
		t, _ := b.Set.Get(c.Name)
		within, done := b.Around(ctx, t, c)
		b.around[c.ID] = around{within, done}
	}
}

type finished struct {
	call   Call
	result Result
}

// job is a call that can run.
type job struct {
	call     Call // with valid arguments
	orig     Call
	tool     Tool
	standing bool // mark of a permission that may be taken back before the call runs
}

// run runs all calls and reports each to b.done.
func (b *batch) run(ctx context.Context, calls []Call) {
	for len(calls) > 0 {
		n := slices.IndexFunc(calls, b.alone)
		if n < 0 {
			n = len(calls)
		}
		var agents sync.WaitGroup
		b.runTogether(ctx, calls[:n], &agents)
		if n < len(calls) {
			b.runAlone(ctx, calls[n], &agents)
			n++
		}
		agents.Wait()
		calls = calls[n:]
	}
}

// runAlone runs a call that must not run beside others. It asks for permission while the sub-agents
// of the calls before it work, unless the call fails without what these do.
func (b *batch) runAlone(ctx context.Context, c Call, agents *sync.WaitGroup) {
	j, refusal := b.prepare(ctx, c)
	if refusal != nil {
		agents.Wait()
		j, refusal = b.prepare(ctx, c)
	}
	if refusal == nil {
		refusal = b.permit(ctx, &j)
	}
	agents.Wait()
	if refusal == nil && ctx.Err() != nil {
		refusal = neverRan(ctx)
	}
	if refusal != nil {
		b.report(c, *refusal)
		return
	}
	b.do(ctx, j, func() {})
}

// alone reports whether the call must not run beside others.
func (b *batch) alone(c Call) bool {
	t, ok := b.Set.Get(c.Name)
	return ok && !t.Parallel
}

// runTogether runs the calls beside one another. It returns when all but those in agents are done,
// the calls of tools that delegate. Calls that may need a person's answer come last, and one after
// another.
func (b *batch) runTogether(ctx context.Context, calls []Call, agents *sync.WaitGroup) {
	var wg sync.WaitGroup
	defer wg.Wait()
	line := make(chan job, len(calls)) // permitted jobs that wait for a place
	defer close(line)
	wg.Go(func() {
		places := make(chan struct{}, orDefault(b.Parallel, DefaultParallel))
		for j := range line {
			select {
			case places <- struct{}{}:
				wg.Go(func() { b.do(ctx, j, func() { <-places }) })
			case <-ctx.Done():
				b.report(j.orig, *neverRan(ctx))
			}
		}
	})
	var questions []job // of tools to a person, who gets them one after another
	start := func(j job) {
		switch refusal := b.permit(ctx, &j); {
		case refusal != nil:
			b.report(j.orig, *refusal)
		case j.tool.Delegates():
			agents.Go(func() { b.do(ctx, j, func() {}) })
		case j.tool.Source == SourceInteractive:
			questions = append(questions, j)
		default:
			line <- j
		}
	}
	var asking []job
	for _, c := range calls {
		j, refusal := b.prepare(ctx, c)
		switch {
		case refusal != nil:
			b.report(c, *refusal)
		case j.tool.Run == RunUnattended || j.tool.Run == RunDeny:
			start(j)
		default:
			asking = append(asking, j)
		}
	}
	for _, j := range asking {
		start(j)
	}
	wg.Go(func() {
		for _, j := range questions {
			if ctx.Err() != nil {
				b.report(j.orig, *neverRan(ctx))
				continue
			}
			b.do(ctx, j, func() {})
		}
	})
}

// prepare finds the tool and validates the arguments, before anybody is asked for permission. If it
// cannot, it says why.
func (b *batch) prepare(ctx context.Context, c Call) (job, *Result) {
	if ctx.Err() != nil {
		return job{}, neverRan(ctx)
	}
	t, ok := b.Set.Get(c.Name)
	if !ok {
		if b.Absent != nil {
			if why := b.Absent(c.Name); why != "" {
				return job{}, refused("tool %s: %s", c.Name, why)
			}
		}
		return job{}, refused("unknown tool %q%s", c.Name, suggest.Meant("; did you mean %q?", c.Name, b.Set.Names()))
	}
	args, err := t.validate(c.Arguments)
	if err != nil {
		return job{}, refused("%v", err)
	}
	j := job{call: Call{ID: c.ID, Name: c.Name, Arguments: args}, orig: c, tool: t}
	if t.Check != nil {
		if _, err := decide(func() (Decision, error) { return Decision{}, t.Check(ctx, j.call) }); err != nil {
			return job{}, refused("%v", err)
		}
	}
	return j, nil
}

// permit asks for permission to run the call. If it does not get it, it says why.
func (b *batch) permit(ctx context.Context, j *job) *Result {
	permit := b.Permit
	if permit == nil {
		permit = permitUnattended
	}
	d, err := decide(func() (Decision, error) { return permit(ctx, j.tool, j.call) })
	switch {
	case ctx.Err() != nil:
		return neverRan(ctx)
	case err != nil:
		return refused("no permission to run: %v", err)
	case !d.Allow:
		return refused("refused: %s", orText(d.Reason, "not allowed to run"))
	}
	j.standing = d.Standing
	return nil
}

func neverRan(ctx context.Context) *Result {
	return refused("cancelled before it ran: %v", context.Cause(ctx))
}

// do runs a permitted call. It calls ended when the tool has ended, before anybody is asked for
// permission to deliver the result.
func (b *batch) do(ctx context.Context, j job, ended func()) {
	if j.standing {
		if refusal := b.permit(ctx, &j); refusal != nil {
			ended()
			b.report(j.orig, *refusal)
			return
		}
	}
	r := b.call(ctx, j)
	ended()
	b.report(j.orig, b.deliver(ctx, j, r))
}

// report sends a result to the consumer; there is room for one of every call.
func (b *batch) report(c Call, r Result) { b.done <- finished{c, r} }

// call runs the tool within its time, which begins when it is ready.
func (b *batch) call(ctx context.Context, j job) (r Result) {
	if b.Started != nil {
		b.Started(j.orig)
	}
	if within := b.around[j.orig.ID].ctx; within != nil {
		ctx = within
	}
	defer func() {
		if p := recover(); p != nil {
			r = Result{Text: fmt.Sprintf("panic: %v\n%s", p, firstFrames(debug.Stack())), IsError: true}
		}
		r.Text = brief.UTF8(r.Text)
		if r.IsError && !hasStatus(j.tool, r.Text) {
			r.Text = errorText(r.Text)
		}
	}()
	if j.tool.Ready != nil {
		switch err := j.tool.Ready(ctx); {
		case ctx.Err() != nil:
			return *neverRan(ctx)
		case err != nil:
			return Result{Text: err.Error(), IsError: true}
		}
	}
	if j.tool.Timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = patience.With(ctx, j.tool.Timeout, &TimeoutError{Tool: j.tool.Name, After: j.tool.Timeout})
		defer cancel()
	}
	r, err := j.tool.Func(ctx, j.call)
	var timeout *TimeoutError
	switch {
	case err == nil:
		return r
	case errors.As(context.Cause(ctx), &timeout) && timeout.Tool == j.tool.Name:
		err = timeout
	case ctx.Err() != nil:
		err = fmt.Errorf("interrupted, may have run: %w", context.Cause(ctx))
	}
	text := err.Error()
	if r.Text != "" {
		text += "\n" + r.Text
	}
	return Result{Text: text, IsError: true}
}

// errorMark begins the text of every result with IsError: the formats of some providers have no
// other place that shows a model a failure.
const errorMark = "error: "

func errorText(text string) string {
	return errorMark + strings.TrimPrefix(text, errorMark)
}

// hasStatus reports whether text is the answer of sub-agents, which says by itself how they ended:
// an element with an attribute, rows with a member, or an object with such a row.
func hasStatus(t Tool, text string) bool {
	return t.Delegates() && slices.ContainsFunc([]string{"<response ", `[{"conversation_id":`, `{"answer":{"conversation_id":`},
		func(begins string) bool { return strings.HasPrefix(text, begins) })
}

// deliver bounds the result, and asks for permission to show it to the model.
func (b *batch) deliver(ctx context.Context, j job, r Result) Result {
	r.Text = bound(r.Text, j.tool.SizeLimit(), fmt.Sprintf("not kept; ask for less, or raise size_threshold of %s", j.tool.Name))
	deliver := b.Deliver
	if deliver == nil {
		deliver = deliverUnattended
	}
	d, err := decide(func() (Decision, error) { return deliver(ctx, j.tool, j.call, r) })
	switch {
	case err != nil:
		return Result{Text: errorText(fmt.Sprintf("the tool ran; its result is withheld: %v", err)), IsError: true}
	case !d.Allow:
		return Result{Text: errorText("the tool ran; its result is withheld: " + orText(d.Reason, "not allowed to be delivered")), IsError: true}
	}
	return r
}

// decide calls a function of the caller, which may panic; a panic is a refusal.
func decide(f func() (Decision, error)) (d Decision, err error) {
	defer func() {
		if p := recover(); p != nil {
			d, err = Decision{}, fmt.Errorf("panic: %v", p)
		}
	}()
	return f()
}

func permitUnattended(_ context.Context, t Tool, _ Call) (Decision, error) {
	if t.Run == RunUnattended {
		return Decision{Allow: true}, nil
	}
	return Decision{Reason: fmt.Sprintf("only tools with run = %q may run here", RunUnattended)}, nil
}

func deliverUnattended(_ context.Context, t Tool, _ Call, _ Result) (Decision, error) {
	if t.Result == ResultUnattended || t.Result == "" {
		return Decision{Allow: true}, nil
	}
	return Decision{Reason: fmt.Sprintf("only results of tools with result = %q are delivered here", ResultUnattended)}, nil
}

func refused(format string, args ...any) *Result {
	return &Result{Text: errorText(brief.UTF8(fmt.Sprintf(format, args...))), IsError: true, Refused: true}
}

func orText(s, def string) string {
	if s == "" {
		return def
	}
	return s
}

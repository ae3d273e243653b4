package batch

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"time"

	"jp/cmd/jp/internal/attach"
	"jp/cmd/jp/internal/console"
	"jp/cmd/jp/internal/delegate"
	"jp/cmd/jp/internal/exit"
	"jp/cmd/jp/internal/rule"
	"jp/cmd/jp/internal/run"
	"jp/cmd/jp/internal/spans"
	"jp/cmd/jp/internal/term"
	"jp/convstore"
	"jp/convstore/amount"
	"jp/tools"
	"jp/tools/brief"
)

// batch is one run of `jp batch`.
type batch struct {
	env     *run.Env
	session *run.Session   // nil inside a tool
	view    convstore.View // where the answers are
	root    convstore.ID   // of --root-id; 0 = none
	tree    *term.Tree
	done    progress
	o       options
	in      *lines
	sum     string   // hash of the first query: see sumOf
	earlier *earlier // rows of the run that --resume names; nil = none

	left   int         // number of queries to run; -1 = not known: they come from a pipe
	line   string      // prefix of the call ids of this run, unless it resumes another one
	claims []io.Closer // locks that keep others from resuming the same runs; held to the end

	parallel int
	within   convstore.Budget // limits of the session of root when it began on behalf of it
	strict   bool             // whether somebody has set those of money
	most     convstore.Budget // budget of one line
	out      *bufio.Writer
	rows     console.List
	ok       int
	limited  int // lines that were stopped at a limit, or refused because of one
	refused  int // lines that policy refused
	failed   int
	stopped  int // lines that were cancelled
	queued   int // lines that were not begun, because their model cannot be asked

	what    *delegate.Reduction // nil = none
	inputs  []delegate.Input    // what it reads
	reduced convstore.State     // its end; "" = it has none
	cut     bool                // whether it ended at a limit
	reused  []string            // conversations whose answers were used again
}

// answered writes the rows of the queries at the beginning that an earlier run has answered. It
// reports whether there is a query after them.
func (b *batch) answered(ctx context.Context) (more bool, err error) {
	for {
		it, err := b.next(ctx)
		switch {
		case err == io.EOF:
			return false, nil
		case err != nil:
			return false, err
		case !it.Done:
			b.in.back(it)
			return true, nil
		}
		if err := b.row(it, delegate.Row{}); err != nil {
			return false, err
		}
	}
}

// next returns the next query. Done says that an earlier run has answered it.
func (b *batch) next(ctx context.Context) (it delegate.Item, err error) {
	if it, err = b.in.next(ctx); err == nil {
		it, err = b.plan(ctx, it)
	}
	return it, err
}

// survey counts the queries to run and checks their profiles, where all lines can be read before
// anything runs.
func (b *batch) survey(ctx context.Context) error {
	b.left = -1
	if b.in.total < 0 {
		return nil
	}
	b.left = 0
	checked := map[string]bool{}
	err := b.in.all(ctx, func(it delegate.Item) (err error) {
		if it, err = b.plan(ctx, it); it.Done || err != nil {
			return err
		}
		b.left++
		if profile := strings.Join(append(it.Overrides, it.Config), "\x00"); it.ID == "" && !checked[profile] {
			checked[profile] = true
			_, err = b.env.Profile(ctx, it.Config, it.Overrides)
		}
		return err
	})
	if err != nil || b.earlier == nil {
		return err
	}
	if err := b.earlier.another(); err != nil {
		return err
	}
	b.env.Con.Note("%d of %d queries were answered before", b.in.total-b.left, b.in.total)
	if list := b.earlier.changed; len(list) > 0 {
		b.env.Con.Note("queries that are not as they were, and run again: %s", brief.Ranges(list))
	}
	return b.surplus()
}

// open finds or makes the conversation on whose behalf the batch runs.
func (b *batch) open(ctx context.Context) (*delegate.Delegator, error) {
	if b.left < 0 && b.o.profile.Set { // most lines are of this one
		if _, err := b.env.Profile(ctx, b.o.profile.Value, nil); err != nil {
			return nil, err
		}
	}
	cfg := b.session.Resolved.Config
	if !cfg.Delegation.Enabled {
		return nil, exit.Refusedf("delegation.enabled: is false").WithHint("`jp config show` says where it is set")
	}
	scope, caller := convstore.Scope{}, rule.Caller{Tools: []string{"jp_batch_query"}, Limits: rule.LimitsOf(cfg, b.env.WaitLimit)}
	parallel := min(b.o.parallel.Value, convstore.MaxSlots)
	if b.o.rootID.Set {
		st, err := b.session.StandFor(ctx, b.root)
		if err != nil {
			return nil, err
		}
		scope, caller, b.within, b.strict = st.Scope, st.Caller, st.Session.Budget.Min(st.Session.Run), st.Session.Strict
		if b.earlier == nil || b.earlier.line == "" {
			err = b.claimLine(ctx, b.root, b.line)
		} else if err = b.join(ctx, b.earlier.line); err == nil {
			err = b.earlier.again()
		}
		if err != nil {
			return nil, err
		}
		b.parallel = caller.Limits.MaxParallel
		if b.o.parallel.Set {
			b.parallel = parallel
		}
		b.divide(b.within)
	} else {
		// A person who starts a batch sets its size: only the limits of the session apply.
		l := &caller.Limits
		each := 1 + l.MaxChildren // a line and its sub-agents, as for a single query
		l.MaxPerTurn, l.MaxChildren, l.Free = math.MaxInt32, math.MaxInt32, true
		if b.left >= 0 {
			times := func(a, b int) int { return int(min(float64(a)*float64(b), math.MaxInt32)) }
			l.MaxPerTurn = times(b.left, max(1+b.o.retry.Value, b.o.retry.Value)) // the sum may overflow
			l.MaxChildren = times(l.MaxPerTurn, each)
		}
		if b.what != nil { // how many sub-agents reduce is known when they have read
			l.MaxPerTurn, l.MaxChildren = math.MaxInt32, math.MaxInt32
		}
		if b.o.parallel.Set {
			l.MaxParallel = parallel
		}
		b.parallel = l.MaxParallel
		session := rule.SessionLimits(cfg, *l).With(convstore.Change{Tokens: convstore.Choice(b.o.tokens), CostNano: convstore.Choice(b.o.cost)})
		b.divide(session.Budget)
		l.Share = 1 // divide has computed the part of each line
		if err := b.begin(ctx, session); err != nil {
			return nil, err
		}
		scope = b.session.Log.Below()
	}
	o := b.session.Delegation(scope)
	o.Limits, o.InlineResult, o.Readable = caller.Limits, maxRow, &b.session.Store.View
	return delegate.New(o, func(funcs delegate.Funcs) (tools.Set, error) {
		for _, name := range []string{"jp_batch_query", "jp_query"} {
			if def, ok := tools.Embedded(name); ok && slices.Contains(caller.Tools, name) {
				f, _ := funcs(name)
				return tools.NewSet(tools.Tool{Definition: def, Func: f})
			}
		}
		return tools.Set{}, exit.Refusedf("conversation %s: has no tool to delegate with", scope.Caller()).
			WithHint("`jp conversation show %s` lists its tools", scope.Caller())
	})
}

// flags returns what the flags say that all lines and the reduction may use.
func (b *batch) flags() convstore.Budget {
	return convstore.Budget{Tokens: b.o.tokens.Value, CostNano: b.o.cost.Value}
}

// divide sets the budget of one line. A flag's limit is divided evenly among all lines, where their
// number is known. Session, the limits of the session, were not made for this batch, and most lines
// use little: they are divided by twice the number of lines that run at the same time.
func (b *batch) divide(session convstore.Budget) {
	few := 2 * b.parallel
	lines := few
	if b.left >= 0 {
		lines, few = max(b.left, 1), max(min(b.left, few), 1)
	}
	part := func(all convstore.Budget, by int) convstore.Budget {
		all = b.lessReduction(all)
		return convstore.Budget{Tokens: amount.Portion(all.Tokens, by), CostNano: amount.Portion(all.CostNano, by)}
	}
	b.most = part(b.flags(), lines).Min(part(session, few))
}

// begin makes the conversation of a batch, or finds that of an earlier run, and begins its turn
// within the limits of session.
func (b *batch) begin(ctx context.Context, session convstore.Limits) error {
	if err := b.beginTurn(ctx, b.about(b.in.total), session); err != nil || b.earlier == nil {
		return err
	}
	if err := b.join(ctx, b.session.Conv.ID.String()); err != nil {
		return err
	}
	return b.recount(ctx, session)
}

func (b *batch) beginTurn(ctx context.Context, about string, session convstore.Limits) error {
	if b.session.Log != nil {
		return b.goOn(ctx, about, session)
	}
	n := convstore.New{Title: cmp.Or(b.o.title.Value, about), Labels: b.labels()}
	if err := b.session.Begin(ctx, n, about+fromShell, session); err != nil {
		return err
	}
	if err := b.claimBelow(ctx, b.session.Conv.ID); err != nil {
		return err
	}
	b.env.Con.Note("batch below %s", b.session.Conv.ID)
	return nil
}

// goOn begins another turn in the conversation of the batch, within the limits of session.
func (b *batch) goOn(ctx context.Context, about string, session convstore.Limits) error {
	if conv := b.session.Conv; conv.Labels[convstore.LabelBatch] != b.sum || b.o.title.Set {
		if err := b.session.Store.Edit(ctx, conv.ID, func(c *convstore.Conversation) error {
			label(c, convstore.LabelBatch, b.sum)
			c.Title = cmp.Or(b.o.title.Value, c.Title)
			return nil
		}); err != nil {
			return err
		}
	}
	if err := b.session.Again(ctx, "the rest of a "+about+fromShell, session, convstore.TurnEnd{State: convstore.StateCancelled, Reason: "killed; another run continues the batch"}); err != nil {
		return err
	}
	b.env.Con.Note("batch below %s goes on", b.session.Conv.ID)
	return nil
}

// endWell has the open turn of a killed batch end as its lines did, if these are all of them. Of a
// pipe only those are known that began.
func (b *batch) endWell(ctx context.Context) error {
	if b.session.Log == nil || b.surplus() != nil {
		return nil
	}
	return b.session.TakeUp(ctx, func(about string) bool {
		if !strings.HasPrefix(about, "the rest: ") && !strings.HasSuffix(about, b.about(-1)+fromShell) { // the former is of an older jp
			return strings.HasSuffix(about, b.about(b.in.read)+fromShell)
		}
		for index, id := range b.earlier.under {
			if index >= b.in.read || !slices.ContainsFunc(b.earlier.marks[id], b.earlier.hasAnswer) {
				return false
			}
		}
		return true
	})
}

// fromShell ends what a turn of a batch is about, after what about says.
const fromShell = ", from a shell"

// about says what so many queries are in words; -1 = nobody knows how many.
func (b *batch) about(n int) string {
	switch {
	case n < 0:
		return "batch of queries"
	case b.o.shard.Set:
		return "batch of " + counted(n) + ", shard " + b.o.shard.Value
	}
	return "batch of " + counted(n)
}

// retitle gives the conversation of a batch its title when the number of its queries is known.
func (b *batch) retitle(ctx context.Context) error {
	if b.left >= 0 || b.session.Log == nil || b.in.err != io.EOF {
		return nil
	}
	ctx, stop := convstore.Briefly(ctx)
	defer stop()
	_, err := b.session.Log.Retitle(ctx, b.about(-1), b.about(b.in.read))
	return err
}

// run runs the batch.
func (b *batch) run(ctx context.Context, d *delegate.Delegator) error {
	if !b.env.Con.Globals.Quiet && (!b.env.Con.IO.OutTTY || b.rows.Format == console.FormatStream) { // a terminal cannot show half of a JSON array above a tree
		b.tree = term.NewTree(b.env.Con.IO, term.TreeOptions{Status: b.done.since(time.Now(), b.left, b.env.Con.IO.UTF8)})
		d.Watch(b.tree.Update)
	}
	streams := b.env.Con.IO
	b.env.Con.IO = b.tree.Above(streams) // for warnings
	ctx, end := spans.Batch(ctx, d.Scope().Caller())
	call := b.newCall()
	// Turns of the conversation that it is on behalf of come and go meanwhile, each with new limits.
	whole := b.flags().Min(b.within)
	purse := delegate.NewPurse(b.lessReduction(whole), b.strict || b.o.cost.Value != nil)
	failed := d.Batch(ctx, call, b.next, delegate.Work{
		Parallel: b.parallel, Most: b.most, Purse: purse, Retry: b.o.retry.Value, Attach: b.attach, Ended: b.done.add,
	}, b.row)
	if failed == nil && b.what != nil {
		purse.Add(whole.Minus(b.lessReduction(whole)))
		failed = b.last(d.Reduce(ctx, call, *b.what, b.inputs, b.parallel, purse, b.o.reuse))
	}
	b.tree.Close()
	b.env.Con.IO = streams
	failed = errors.Join(failed, b.retitle(ctx))
	came, failed := b.conclude(ctx, failed)
	end(came)
	next := "to continue, give the same queries to: "
	if failed == nil {
		failed = b.verdict(d.Scope().Caller())
		if failed == nil {
			return nil
		}
		if ctx.Err() == nil && b.queued == 0 {
			next = "to run again what is not ok, give the same queries to: "
		}
	}
	return &exit.Next{Err: failed, Hint: next + b.again(d.Scope().Caller())}
}

// conclude writes the end of the document, and ends the turn as came, if one has begun.
func (b *batch) conclude(ctx context.Context, failed error) (came convstore.TurnEnd, err error) {
	failed = b.finish(failed)
	if cause := context.Cause(ctx); cause != nil && errors.Is(failed, term.ErrUnread) {
		failed = fmt.Errorf("%w: %w", cause, term.ErrUnread) // one error for all rows that nobody read
	}
	came = run.EndOf(ctx, failed, b.cameTo())
	return came, errors.Join(failed, b.session.Conclude(ctx, b.said(), came))
}

// attach reads what a line attaches, as `jp query --attachment` does.
func (b *batch) attach(ctx context.Context, refs attach.Refs) ([]convstore.Attachment, error) {
	r := attach.Reader{Dir: b.env.Con.Env.Dir, Workspace: b.session.Root, Notice: func(s string) { b.env.Con.Warn("%s", s) }}
	return r.Refs(ctx, refs)
}

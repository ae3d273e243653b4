package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/urfave/cli/v2"

	"jp/cmd/jp/internal/agent"
	"jp/cmd/jp/internal/command"
	"jp/cmd/jp/internal/console"
	"jp/cmd/jp/internal/delegate"
	"jp/cmd/jp/internal/exit"
	"jp/cmd/jp/internal/model"
	"jp/cmd/jp/internal/otel"
	"jp/cmd/jp/internal/record"
	"jp/cmd/jp/internal/spans"
	"jp/cmd/jp/internal/stream"
	"jp/cmd/jp/internal/term"
	"jp/cmd/jp/internal/workspace"
	"jp/convstore"
	"jp/profiles"
	"jp/tools/proc"
)

func newQueryCommand(a *app) *cli.Command {
	o := queryOptions{input: inputText}
	return a.tree.Command(command.Spec{
		Name: "query", Aliases: []string{"q"},
		Summary: "ask, and let the assistant work until it answers",
		Args:    "[WORDS...]",
		About: "Asks the conversation that --id names, else this session's active one, else a new one. What is piped in is\n" +
			"appended to the words; without words it is the query. With neither, a turn that was cut off goes on.\n\n" +
			"A word @FILE before -- attaches that file; alone it is the query, read from the file. @@ stands for a literal @. What\n" +
			"--attachment takes is read once and kept in the conversation: the text files of a folder that .gitignore does not\n" +
			"exclude, a page of text over https, what cmd:LINE prints when sh runs LINE, the turns of another conversation.\n" +
			"./ before a file's name keeps it from meaning anything else.\n\n" +
			"--edit starts $JP_EDITOR, else editor.cmd of the user's config, $VISUAL or $EDITOR; so does a terminal when there is\n" +
			"nothing to ask and nothing that was cut off. An empty request cancels (1), and so does an editor that fails or saves nothing. Until it is\n" +
			"answered the request is kept as a draft, which the next --edit in this workspace offers again.\n\n" +
			"--no-persist answers without keeping anything: a conversation that goes on is read and not changed, sub-agents are refused.\n\n" +
			"stdout holds the answer and nothing else; progress, warnings and errors are on stderr. The first Ctrl-C stops\n" +
			"the run and keeps what was said, the second kills it, three seconds later at most; `jp query --id ID` goes on.\n\n" +
			"The headless flags of other agents are understood where they mean the same: docs/headless.md.",
		Flags: o.flags(),
		Max:   -1,
		Exits: []exit.Status{exit.NotFound, exit.Scope, exit.Busy, exit.Refused, exit.Limit, exit.Provider, exit.Deadline, exit.Hangup, exit.Interrupted, exit.Terminated},
		Examples: []string{
			`jp query "How are errors retried here?"`,
			`jp query --id new --config agent/researcher "Where is the store opened?"`,
			`git diff | jp query --new "Review this change."`,
			`git diff | jp query --new --edit`,
			`jp query --new -a src -a "cmd:git log --oneline -20" "What changed in @docs/plan.md?"`,
			`jp query --new --schema '{"type":"array","items":{"type":"string"}}' "Which packages are there?"`,
			`jp query -p --resume jp-c17000000001 --output-format stream-json "Go on."`,
			`jp query --no-persist --no-sub-calls --id . "Say that in one sentence."`,
			`jp query --new --record run.toml "How are errors retried here?"`,
			`jp query --new --replay run.toml "How are errors retried here?"`,
			`jp query --id jp-c17000000001 -F json "And the tests?" </dev/null`,
		},
		Run: func(ctx context.Context, args []string) error {
			o.words = args
			if err := o.inOurWords(); err != nil {
				return err
			}
			return runQuery(ctx, a, o)
		},
	})
}

// check finds what the flags do not allow together.
func (o *queryOptions) check(noPersist, streams bool) error {
	isNew := o.fresh || o.id.Set && o.id.Value == "new"
	switch {
	case o.fresh && o.id.Set && o.id.Value != "new":
		return exit.Usagef("--new: not together with --id %s", o.id.Value)
	case o.fork.Set && isNew:
		return exit.Usagef("--fork: not together with a new conversation")
	case o.rootID.Set && !o.id.Set:
		return exit.Usagef("--root-id: needs --id")
	case o.noActivate && !o.id.Set && !o.fresh && !o.fork.Set:
		return exit.Usagef("--no-activate: needs --id, --new or --fork")
	case isNew && o.rootID.Set && o.tmp.Set:
		return exit.Usagef("--tmp: not for a delegated conversation, which lives as long as its caller")
	case noPersist && o.rootID.Set && isNew:
		return exit.Refusedf("--no-persist: not together with a delegation, whose conversation is kept")
	case noPersist && (o.tmp.Set || o.hidden):
		return exit.Usagef("--no-persist: not together with --tmp or --hidden, nothing is kept")
	case o.heads.partial && !streams:
		return exit.Usagef("--include-partial-messages: needs --output-format stream-json")
	case o.heads.prompt.Set && !(streams && o.input == inputStream):
		return exit.Usagef("--permission-prompt-tool: needs --input-format stream-json and --output-format stream-json").
			WithHint("%s", foreignFlag("--yolo"))
	case o.heads.replayUsers && !(streams && o.input == inputStream):
		return exit.Usagef("--replay-user-messages: needs --input-format stream-json and --output-format stream-json")
	case o.maxDepth.Set && o.maxDepth.Value > 5:
		return exit.Usagef("--max-depth: %d is more than 5", o.maxDepth.Value)
	}
	return nil
}

// flagDirectives are the specific flags as config.
func (o *queryOptions) flagDirectives() []profiles.Directive {
	var ds []profiles.Directive
	add := func(flag, format string, args ...any) {
		ds = append(ds, profiles.Directive{Flag: flag, Text: fmt.Sprintf(format, args...)})
	}
	if o.model.Set {
		add("--model", "assistant.model=%s", o.model.Value)
	}
	if o.reasoning != "" {
		add("--reasoning", "assistant.parameters.reasoning=%s", o.reasoning)
	}
	if o.thoughts.Set {
		add("--show-reasoning", "style.reasoning.display=%s", o.thoughts.Value)
	}
	if h := o.heads; h.sources.Set && !slices.Contains(h.sourceNames(), "project") {
		add("--setting-sources", "assistant.instructions=")
	}
	if o.maxTurns.Set {
		add("--max-turns", "conversation.max_turns:=%d", o.maxTurns.Value)
	}
	if o.sub.Set {
		add("--sub-calls", "delegation.enabled:=%v", o.sub.Value)
	}
	if o.maxSub.Set {
		add("--max-sub-calls", "delegation.max_per_turn:=%d", o.maxSub.Value)
	}
	if o.maxDepth.Set {
		add("--max-depth", "delegation.max_depth:=%d", o.maxDepth.Value)
	}
	if o.subTokens.Set {
		add("--max-sub-tokens", "delegation.token_budget:=%s", command.Amount(o.subTokens.Value, 0))
	}
	if o.subCost.Set {
		add("--max-sub-cost", "delegation.max_cost_per_session:=%s", command.Amount(o.subCost.Value, 9))
	}
	return ds
}

func runQuery(ctx context.Context, a *app, o queryOptions) error {
	if err := o.check(a.con.Globals.NoPersist, a.con.Format() == console.FormatStream); err != nil {
		return err
	}
	if a.guest != nil {
		return a.guest.query(ctx, a, o)
	}
	if o.headless() {
		a.con.Globals.NonInteractive = true
	}
	a.ws.SetDirectives(o.directives)
	if o.input == inputStream && a.con.Format() == console.FormatStream {
		return a.converse(ctx, o)
	}
	d, err := a.compose(ctx, &o)
	if err != nil {
		return err
	}
	if d == nil {
		return a.ask(ctx, o)
	}
	return d.end(a, a.ask(ctx, o))
}

// ask runs a query whose request is known.
func (a *app) ask(ctx context.Context, o queryOptions) error {
	inherited, err := proc.Inherit()
	if err != nil {
		return err
	}
	host := proc.NewHost(proc.Options{})
	defer func() { _ = host.Close() }() // run closes it first and tells what went wrong
	ctx, stop := a.con.WithSignals(ctx, host.Kill)
	defer stop()
	ctx, abandon := context.WithCancelCause(ctx)
	defer abandon(nil)
	inherited.Watch(func() { abandon(errParentGone) })
	if o.timeout.Set {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, o.timeout.Value, errTimeUp)
		defer cancel()
		a.con.IO.Bound(ctx)
		defer a.con.IO.Unbound()
	}
	defer a.con.EndWith(ctx, host.Kill)()

	ws, err := a.ws.Root()
	if err != nil {
		return err
	}
	a.ws.Subagent = inherited.Lock != nil
	store, err := a.ws.Store(ctx)
	if err != nil {
		return err
	}
	if inherited.Lock == nil && !workspace.WithNone(o.directives) {
		if _, err := a.ws.Gate.Pass(ctx); err != nil { // before anything is made
			return err
		}
	}
	q := &query{app: a, o: o, workspace: ws, store: store, host: host}
	if o.client != nil && o.heads.prompt.Set {
		q.asks = clientAsker{q, o.client}
	}
	if a.con.Globals.NoPersist {
		var remove func()
		q.store, remove, err = a.ws.MakeStore()
		if err != nil {
			return err
		}
		defer remove()
	}
	t, err := q.task(ctx)
	if err != nil {
		return err
	}
	if inherited.Lock != nil {
		a.env.Tape, err = record.Join(a.con, a.ws)
	} else {
		err = q.beginTape(t.text)
	}
	if err != nil {
		return err
	}
	defer a.env.Tape.Remove()
	defer q.close(ctx)
	if err := q.open(ctx, t.text, inherited.Lock); err != nil {
		return err
	}
	if inherited.Slot != nil {
		if q.slot, err = q.log.Below().AdoptSlot(inherited.Slot); err != nil {
			return err
		}
	}
	if g := q.conv.Grant; g != nil && (q.delegated || q.hand != nil) {
		var cancel context.CancelFunc
		if ctx, cancel = withGrant(ctx, *g); cancel != nil {
			defer cancel()
			a.con.IO.Bound(ctx)
			defer a.con.IO.Unbound()
		}
	}
	return a.env.Tape.End(ctx, q.run(ctx, t))
}

// withGrant bounds a delegated run by its time, which runs from here. What is left of its caller's comes as --timeout.
func withGrant(ctx context.Context, g convstore.Grant) (context.Context, context.CancelFunc) {
	if g.Timeout <= 0 {
		return ctx, nil
	}
	return context.WithTimeoutCause(ctx, g.Timeout, fmt.Errorf("deadline of the delegation: %w", context.DeadlineExceeded))
}

func errNothing() error {
	return exit.Usagef("query: nothing to ask and nothing to resume").WithHint("give the question as words or on stdin")
}

var errParentGone = errors.New("the jp that started this one is gone")

// query is one run of `jp query`.
type query struct {
	app       *app
	o         queryOptions
	workspace string
	store     *convstore.Store
	host      *proc.Host

	log       *convstore.Log
	conv      convstore.Conversation
	scope     convstore.Scope        // where hand names a delegation of its own
	made      bool                   // this run has made the conversation
	hand      *convstore.Reservation // this run was delegated by a person, who settles it here
	resolved  *profiles.Resolved
	tty       *term.TTY           // nil when nobody can be asked there
	asks      asker               // who is asked in the place of the terminal; nil = that
	tree      *term.Tree          // nil shows nothing
	delegated bool                // another jp runs this one and settles it
	slot      *convstore.Slot     // slot that a delegated run holds
	sub       *delegate.Delegator // has the slot from when there is one
	lines     *stream.Writer      // of stream-json, else nil
	offered   []profiles.Skill
	unasked   bool   // no model is asked
	writer    string // who writes summaries; "" = as the config says
	free      string // the title that this run has given; "" = none
	began     time.Time
	image     string // source of an image that is attached; "" = none
	info      model.Info
	denied    denials
	span      *otel.Span // of the latest turn, which has ended; nil = it was not traced
}

// close gives up the conversation and the slot; a delegation by hand that did not come to its end is settled as that, or taken
// back where nothing came of it.
func (q *query) close(ctx context.Context) {
	if q.hand != nil {
		o := convstore.Outcome{State: convstore.StateError, Reason: "the run did not come to its end", Ended: time.Now()}
		if err := q.scope.Withdraw(context.WithoutCancel(ctx), q.hand, o); err != nil {
			q.app.con.Warn("%s: settle: %v", q.conv.ID, err)
		}
		q.hand = nil
	}
	if !q.delegated { // else it is free when all of this run has ended
		q.leaveSlot()
	}
	if q.tty != nil {
		_ = q.tty.Close()
	}
	if q.log != nil {
		_ = q.log.Close()
	}
}

// leaveSlot gives back the slot that this run works in by now.
func (q *query) leaveSlot() {
	slot := q.slot
	if q.sub != nil {
		slot = q.sub.Leave()
	}
	q.slot = nil
	if slot == nil {
		return
	}
	if err := slot.Release(); err != nil {
		q.app.con.Warn("slot: %v", err)
	}
}

// settle ends a delegation by hand.
func (q *query) settle(ctx context.Context, o convstore.Outcome) {
	if settled, err := q.scope.Settle(ctx, q.hand, o); err != nil {
		q.app.con.Warn("%s: settle: %v", q.conv.ID, err)
	} else {
		delegate.LogEnd(q.app.con.Logger(), settled)
	}
	q.hand = nil
}

// run asks and shows the answer.
func (q *query) run(ctx context.Context, t task) error {
	resume := t.text == ""
	if resume && !resumable(q.conv.Status) {
		q.unmake(ctx)
		return errNothing()
	}
	loop, delegator, err := q.assemble(ctx)
	if err != nil {
		q.unmake(ctx)
		return err
	}
	if err := q.unarchive(ctx); err != nil {
		return err
	}
	if !q.o.noActivate && !q.app.con.Globals.NoPersist {
		if session := q.app.ws.Session(); session != "" {
			if err := q.store.Activate(ctx, session, q.conv.ID); err != nil {
				return err
			}
		}
	}
	show := q.show(loop)
	delegator.Watch = show.delegation
	loop.Watch = show.watch()
	show.start(q.conv, resume)

	out, err := q.turn(ctx, loop, t)
	show.stop()
	unstored := (*agent.NotStoredError)(nil)
	if err != nil && !errors.As(err, &unstored) {
		return errors.Join(err, show.broken(err))
	}
	left := q.finish(ctx, out)
	show.unstored = unstored != nil
	failed := outcomeError(ctx, q.conv.ID, q.again(), out)
	if unstored != nil {
		failed = fmt.Errorf("conversation %s: %w", q.conv.ID, unstored)
	}
	if err := show.result(q.result(ctx, loop, delegator, out, failed)); errors.Is(err, term.ErrUnread) {
		return fmt.Errorf("%w: %w", context.Cause(ctx), err)
	} else if err != nil {
		return err
	}
	if unstored != nil {
		return errors.Join(failed, left)
	}
	if !q.delegated {
		q.expire(ctx)
		q.name(ctx, loop, out)
		q.tellClient(ctx)
	}
	if out.State == convstore.StateCancelled && !q.delegated && !q.app.con.JSON() && !q.app.con.Globals.NoPersist {
		q.app.con.Note("stopped; go on with: %s", q.again())
	}
	if f := (*exit.Error)(nil); q.app.con.Globals.NoPersist && errors.As(failed, &f) {
		f.Hint = "" // it names the conversation, which is gone
	}
	return errors.Join(failed, left)
}

// unmake removes the conversation that this run has made, and in which nothing was done.
func (q *query) unmake(ctx context.Context) {
	if !q.made {
		return
	}
	if err := q.log.Close(); err != nil {
		q.app.con.Warn("%s: %v", q.conv.ID, err)
	}
	if _, err := q.store.Remove(context.WithoutCancel(ctx), q.conv.ID, convstore.RemoveOptions{}); err != nil {
		q.app.con.Warn("%s: nothing was done in it, and it stays: %v", q.conv.ID, err)
	}
	q.log, q.made = nil, false
}

// turn runs one turn: what is asked, or the rest of one that was cut off.
func (q *query) turn(ctx context.Context, loop *agent.Loop, t task) (out agent.Outcome, err error) {
	run := loop.Resume
	if t.text != "" {
		if q.conv.Title == "" && q.resolved.Config.Conversation.FromQuery {
			q.free = delegate.Title(cmp.Or(t.title, t.text))
			if err := q.log.SetTitle(ctx, q.free); err != nil {
				return agent.Outcome{}, err
			}
		}
		loop.Fetch.Tool, loop.Fetch.Query = t.fetch.Tool, t.fetch.Query
		run = func(ctx context.Context) (agent.Outcome, error) {
			return loop.Send(ctx, convstore.UserMessage{Text: t.text, Attachments: t.attachments, Schema: t.schema})
		}
	}
	q.span, out, err = spans.Turn(ctx, loop, run)
	if errors.Is(err, agent.ErrNothingToResume) {
		err = errNothing() // another run has ended it meanwhile
	}
	return out, err
}

// finish ends what a turn has left running, and settles it where a person delegated it. What could not be ended is told, and no
// reason to keep the answer back.
func (q *query) finish(ctx context.Context, out agent.Outcome) (left error) {
	q.app.env.Servers.Close()
	left = q.host.Close()
	if q.hand != nil {
		q.settle(ctx, convstore.Outcome{State: out.State, Reason: out.Reason, PID: os.Getpid(), Started: q.began, Ended: time.Now()})
	}
	return left
}

// result is the last word on stdout; failed is what the command ends with.
func (q *query) result(ctx context.Context, loop *agent.Loop, d *delegate.Delegator, out agent.Outcome, failed error) *stream.Result {
	r := &stream.Result{
		ConversationID: q.conv.ID.String(), Turn: out.Turn, Status: string(out.State), Reason: out.Reason, Result: out.Text, Structured: out.Structured,
		Model: loop.Model, Usage: stream.NewResultUsage(usage(out.Usage)), CostUSD: usd(out.Cost), TotalCostUSD: usd(out.Cost), DurationMS: time.Since(q.began).Milliseconds(),
		SubCalls: d.Calls(), PermissionDenials: q.denied.all(),
	}
	if q.app.con.JSON() && !q.delegated {
		used := q.used(ctx, loop, d, out)
		r.TotalCostUSD, r.ModelUsage = used.total(), q.modelUsage(used)
		if c := q.o.client; c != nil {
			c.run.tokens, c.run.cost = used.sum()
		}
	}
	return inOtherWords(r, out.Limit, failed)
}

// outcomeError turns how a turn ended into what the command ends with. What was said is printed by then. again is the command
// that goes on.
func outcomeError(ctx context.Context, id convstore.ID, again string, out agent.Outcome) error {
	fail := func(code string, s exit.Status, format string, args ...any) error {
		return &exit.Error{Code: code, Status: s, Msg: fmt.Sprintf("conversation %s: ", id) + fmt.Sprintf(format, args...), Err: out.Err}
	}
	switch out.State {
	case convstore.StateOK:
		return nil
	case convstore.StatePartial:
		return fail("partial", exit.Limit, "partial: stopped at a limit: %s", out.Reason)
	case convstore.StateBudget:
		return fail("budget", exit.Limit, "stopped at a limit with nothing to hand in: %s", out.Reason)
	case convstore.StateEmpty:
		return fail("empty", exit.Failed, "the model gave an empty answer")
	case convstore.StateRefused:
		return fail("refused", exit.Refused, "the model refused to answer")
	case convstore.StateTimeout:
		return fail("deadline", exit.Deadline, "the deadline passed").(*exit.Error).WithHint("go on with: %s", again)
	case convstore.StateCancelled:
		if cause := context.Cause(ctx); cause != nil {
			return cause
		}
	}
	if bad, ok := out.Err.(*agent.SchemaError); ok {
		return schemaFailure(id, bad)
	}
	if e := (*model.Error)(nil); errors.As(out.Err, &e) && e.Temporary() && e.Hint == "" {
		passing := *e
		passing.Hint = "go on with: " + again
		return fmt.Errorf("conversation %s: %w", id, &passing)
	}
	if out.Err != nil {
		return fmt.Errorf("conversation %s: %w", id, out.Err)
	}
	return fail("error", exit.Failed, "%s", out.Reason)
}

// errTimeUp is the cause of a run that --timeout ends.
var errTimeUp error = timeUp{}

type timeUp struct{}

func (timeUp) Error() string { return "--timeout: the time is up" }

// Is makes it the end of a deadline.
func (timeUp) Is(target error) bool { return target == context.DeadlineExceeded }

// Package query is `jp query`: its flags, the request (words, stdin, files, an editor), and a
// client that sends several messages.
//
// A command line becomes a run.Request; package run opens it and package show shows it. A Group
// whose Guest is set carries out a command line of a jp inside a tool, which may only delegate.
package query

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"jp/cmd/jp/internal/agent"
	"jp/cmd/jp/internal/command"
	"jp/cmd/jp/internal/console"
	"jp/cmd/jp/internal/delegate"
	"jp/cmd/jp/internal/exit"
	"jp/cmd/jp/internal/record"
	"jp/cmd/jp/internal/rule"
	"jp/cmd/jp/internal/run"
	"jp/cmd/jp/internal/show"
	"jp/cmd/jp/internal/term"
	"jp/cmd/jp/internal/wording"
	"jp/cmd/jp/internal/workspace"
	"jp/convstore"
	"jp/profiles"
	"jp/tools/proc"
)

// Group is what jp query needs.
type Group struct {
	Env   *run.Env
	Tree  *command.Tree
	Guest *run.Guest // set in a jp inside a tool, else nil
}

func New(g *Group) *cli.Command {
	o := options{input: inputText}
	return g.Tree.Command(command.Spec{
		Name: "query", Aliases: []string{"q"},
		Summary: "ask, and let the assistant work until it answers",
		Args:    "[WORDS...]",
		About: "Asks the conversation that --id names, else this terminal's active one, or a new one if there " +
			"is none or conversation.default is new. stdout has the answer and nothing else. docs/query.md " +
			"says more; docs/headless.md has the flags of other agent programs that work here.",
		Terms: []command.Terms{
			{Heading: "what is asked", Of: []command.Term{
				{Word: "WORDS", Means: "joined with spaces; text from a pipe follows them, or is the query"},
				{Word: "@FILE", Means: "attaches the file; as the only word, it has the query; @@ is an @"},
				{Word: "nothing", Means: "resumes a turn that was cut off; else a terminal opens the editor"},
			}},
			{Heading: "what it does besides", Of: []command.Term{
				{Word: "Ctrl-C", Means: "stops the run and keeps what was said; the second kills it"},
				{Word: "--edit", Means: "starts $JP_EDITOR, else editor.cmd of the config, $VISUAL or $EDITOR; a request is kept as a draft until it is answered"},
				{Word: "--reuse", Means: "an earlier answer to the same question by the same agent is given again and costs nothing"},
				{Word: "--model, --cfg, --tool", Means: "stay with the conversation, as do --reasoning and the other flags for tools; --role, --timeout, --max-tokens and --max-cost hold for one run"},
				{Word: "--no-persist", Means: "stores nothing and changes no conversation; sub-agents are refused"},
			}},
		},
		Flags: o.flags(),
		Max:   -1,
		Exits: []exit.Status{exit.NotFound, exit.Scope, exit.Busy, exit.Refused, exit.Limit, exit.Provider, exit.Deadline, exit.Hangup, exit.Interrupted, exit.Quit, exit.Terminated},
		Examples: []string{
			`jp query "How are errors retried here?"`,
			`jp query --id new --config agent/researcher "Where is the store opened?"`,
			`git diff | jp query --new "Review this change."`,
			`git diff | jp query --new --edit`,
			`jp query --new -a src -a "cmd:git log --oneline -20" "What of this plan is done?" @docs/plan.md`,
			`jp query --new --schema '{"type":"array","items":{"type":"string"}}' "Which packages are there?"`,
			`jp query --new --reuse -a src/main.go "What does this do?"`,
			`jp query -p --resume jp-c17000000001 --output-format stream-json "Go on."`,
			`jp query --no-persist --no-sub-calls --id . "Say that in one sentence."`,
			`jp query --new --record run.toml "How are errors retried here?"`,
			`jp query --new --replay run.toml "How are errors retried here?"`,
			`jp query --id jp-c17000000001 -F json "And the tests?" </dev/null`,
		},
		Run: func(ctx context.Context, args []string) error {
			o.words = args
			if err := o.translate(); err != nil {
				return err
			}
			return g.run(ctx, o)
		},
	})
}

// check refuses flags that contradict one another.
func (o *options) check(inTool, noPersist, json, streams bool) error {
	isNew := o.fresh || o.id.Set && o.id.Value == "new"
	switch {
	case o.fresh && o.id.Set && o.id.Value != "new":
		return exit.Usagef("--new: not together with --id %s", o.id.Value)
	case o.pick && (o.id.Set || o.fresh):
		return exit.Usagef("--pick: not together with %s", wording.Either(o.fresh, "--new", "--id"))
	case o.fork.Set && isNew:
		return exit.Usagef("--fork: not together with a new conversation")
	case o.edit && o.noEdit:
		return command.ErrMixed("--edit", "--no-edit")
	case o.edit && o.input != inputText:
		return exit.Usagef("--edit: not with --input-format %s", o.input)
	case o.rootID.Set && !o.id.Set:
		return exit.Usagef("--root-id: needs --id")
	case o.noActivate && !o.id.Set && !o.fresh && !o.fork.Set:
		return exit.Usagef("--no-activate: needs --id, --new or --fork")
	case isNew && o.rootID.Set && o.tmp.Set && !inTool:
		return exit.Usagef("--tmp: not for a delegated conversation, which lives as long as its caller")
	case noPersist && o.rootID.Set && isNew:
		return exit.Refusedf("--no-persist: not together with a delegation, whose conversation is kept")
	case noPersist && (o.tmp.Set || o.hidden || o.title.Set):
		return exit.Usagef("--no-persist: not together with --tmp, --hidden or --title, nothing is kept")
	case o.reuse && o.fork.Set:
		return exit.Usagef("--reuse: not together with --fork, which makes another conversation")
	case o.reuse && noPersist:
		return exit.Usagef("--reuse: not together with --no-persist, whose answers are not kept")
	case o.reuse && o.input == inputStream:
		return exit.Usagef("--reuse: not together with --input-format stream-json")
	case o.stream && json:
		return exit.Usagef("--stream: not together with JSON").WithHint("--output-format stream-json has a line for each message, with --include-partial-messages for each part")
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

// flagDirectives returns the flags that set config, except --model and --reasoning.
func (o *options) flagDirectives() []profiles.Directive {
	var ds []profiles.Directive
	add := func(flag, format string, args ...any) {
		ds = append(ds, profiles.Directive{Flag: flag, Text: fmt.Sprintf(format, args...), Once: strings.HasPrefix(flag, "--max-")})
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

func (g *Group) run(ctx context.Context, o options) error {
	if err := o.check(g.Guest != nil, g.Env.Con.Globals.NoPersist, g.Env.Con.JSON(), g.Env.Con.Format() == console.FormatStream); err != nil {
		return err
	}
	if o.headless() {
		g.Env.Con.Globals.NonInteractive = true
	}
	if o.pick {
		if err := g.pick(ctx, &o); err != nil {
			return err
		}
	}
	if g.Guest != nil {
		return g.inTool(ctx, o)
	}
	g.Env.WaitFor(o.wait.Value)
	if o.input == inputStream || o.heads.partial {
		g.Env.Con.Globals.Elsewhere = true // only programs for other agents do this
	}
	g.Env.WS.SetDirectives(o.directives)
	if o.timeout.Set {
		g.Env.Con.Within(o.timeout.Value)
	}
	if o.input == inputStream && g.Env.Con.Format() == console.FormatStream {
		return g.converse(ctx, o)
	}
	d, err := g.asking(&o, nil).compose(ctx)
	if err != nil {
		return err
	}
	if d == nil {
		return g.ask(ctx, o)
	}
	return d.end(g.Env.Con, g.ask(ctx, o))
}

// pick lets a person pick the conversation, as if it had been named.
func (g *Group) pick(ctx context.Context, o *options) error {
	if !g.Env.WS.Picks() {
		return workspace.ErrCannotPick()
	}
	view, err := g.Env.WS.View(ctx)
	if err != nil {
		return err
	}
	heads, err := view.Heads(ctx, convstore.Filter{}, nil)
	if err != nil {
		return err
	}
	slices.SortStableFunc(heads, func(a, b convstore.Head) int { return b.Updated.Compare(a.Updated) })
	i, err := g.Env.WS.Pick(ctx, view, heads)
	if err != nil {
		return err
	}
	o.id = command.Given(heads[i].ID.String())
	return nil
}

// asking returns what reads the request of o; host runs commands whose output is attached.
func (g *Group) asking(o *options, host *proc.Host) *asking {
	return &asking{con: g.Env.Con, ws: g.Env.WS, env: g.Env, host: host, o: o, plain: g.Tree.Plain}
}

// ask runs a query whose request is known.
func (g *Group) ask(ctx context.Context, o options) error {
	inherited, err := proc.Inherit()
	if err != nil {
		return err
	}
	g.Env.Con.Called = inherited.Wire != nil
	host := proc.NewHost(proc.Options{})
	defer func() { _ = host.Close() }() // Run.Finish closes it first and returns the error
	ctx, stop := g.Env.Con.WithSignals(ctx, host.Kill)
	defer stop()
	ctx, abandon := context.WithCancelCause(ctx)
	defer abandon(nil)
	inherited.Watch(func() { abandon(errParentGone) })
	if o.timeout.Set {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, o.timeout.Value, errTimeUp)
		defer cancel()
	}
	unread := ctx
	if o.client != nil {
		unread = o.client.all // a client that interrupts a run reads on
	}
	defer g.Env.Con.IO.Bound(unread)()
	defer g.Env.Con.EndWith(ctx, host.Kill)()

	req := o.request(g.Tree.Plain)
	if inherited.Wire != nil {
		req.Wire, g.Env.WS.Gate.Delegated = inherited.Wire, true
	} else {
		if _, err := g.Env.WS.Store(ctx); err != nil {
			return err
		}
		if !workspace.WithNone(o.directives) {
			if _, err := g.Env.WS.Gate.Pass(ctx); err != nil { // before anything is read or made
				return err
			}
		}
	}
	if req.Task, err = g.asking(&o, host).task(ctx); err != nil {
		return err
	}
	if req.Wire != nil {
		g.Env.Tape, err = record.Join(g.Env.Con, g.Env.WS)
	} else {
		g.Env.Tape, err = o.beginTape(g.Env.Con, g.Env.WS, req.Task.Text)
	}
	if err != nil {
		return err
	}
	defer g.Env.Tape.Remove()
	switch {
	case o.stream && req.Task.Schema != nil:
		return exit.Usagef("--stream: not together with a schema, whose answer is one document")
	case o.reuse && req.Task.Text == "":
		return exit.Usagef("--reuse: needs a question")
	case o.reuse && g.Env.Tape != nil:
		return exit.Usagef("--reuse: not together with a recording, which has every answer of a run")
	}
	s := show.New(g.Env.Con, o.showOptions(abandon))
	req.Aside, req.Waits = s.Aside, s.Waits()
	if o.client != nil && o.heads.prompt.Set {
		req.Asker = clientAsker{client: o.client}
	}
	r, err := g.Env.Open(ctx, host, req)
	if known := (*rule.Known)(nil); errors.As(err, &known) {
		return g.reused(ctx, known.Answer, o)
	}
	if err != nil {
		return err
	}
	stopped := abandon
	if o.client != nil {
		stopped = o.client.stop
	}
	defer r.OnStop(stopped)()
	defer r.Close(ctx)
	ctx, cancel, bounded := r.WithDeadline(ctx)
	defer cancel()
	if bounded {
		defer g.Env.Con.IO.Bound(ctx)()
	}
	return g.Env.Tape.End(ctx, g.answer(ctx, r, s, o))
}

// answer lets an open run take its turn and shows the result.
func (g *Group) answer(ctx context.Context, r *run.Run, s *show.Show, o options) error {
	resume := r.Resumes()
	if resume && !run.Resumable(r.Conv) {
		return nothing(ctx, r)
	}
	ag, err := r.Agent(ctx)
	if err != nil {
		return err
	}
	if err := g.Env.Tape.Begin(); err != nil {
		return err
	}
	if o.reuse && !r.Delegated() {
		if known, ok, err := ag.Known(ctx); ok || err != nil {
			return cmp.Or(err, g.reused(ctx, known, o))
		}
	}
	if err := r.Surface(ctx); err != nil {
		return err
	}
	if !o.noActivate {
		if err := g.activate(ctx, r); err != nil {
			return err
		}
	}
	r.NoteChange()
	s.Begin(r, ag, resume)

	defer o.client.account(ctx, ag)
	out, err := ag.Turn(ctx)
	s.Stop()
	unstored := (*agent.NotStoredError)(nil)
	if err != nil && !errors.As(err, &unstored) {
		return errors.Join(err, s.Broken(err))
	}
	left := r.Finish(ctx, out)
	s.Unstored = unstored != nil
	failed := show.Failure(ctx, r.Conv.ID, r.WorkspaceFlag(), r.Again(), out)
	if unstored != nil {
		failed = fmt.Errorf("conversation %s: %w", r.Conv.ID, unstored)
	}
	tidy := func() {
		if unstored == nil && !r.Delegated() {
			r.Expire(ctx)
			ag.Name(ctx, out, s.Titling())
		}
	}
	err = s.Result(ctx, out, failed, tidy)
	signalled := errors.As(context.Cause(ctx), new(*console.SignalError)) // a terminal that hangs up takes the output with it
	if errors.Is(err, term.ErrUnread) || err != nil && signalled {
		return fmt.Errorf("%w: %w", context.Cause(ctx), err)
	} else if err != nil {
		return err
	}
	if unstored != nil {
		return errors.Join(failed, left)
	}
	if out.Back && !g.Env.Con.Globals.NoPersist {
		g.Env.Con.Note("%s has the model of before again: %s", r.Conv.ID, r.Conv.Model)
	}
	if again := r.Again(); out.State == convstore.StateCancelled && again != "" && !r.Delegated() {
		failed = &exit.Next{Err: failed, Hint: again}
	}
	return errors.Join(failed, left)
}

// nothing is the error of a run that is asked nothing and has nothing to resume.
func nothing(ctx context.Context, r *run.Run) error {
	if _, batch := r.Conv.Labels[convstore.LabelBatch]; !batch || r.Conv.Link != convstore.NoLink || !r.Conv.NoAgent {
		return run.ErrNothing()
	}
	imported, err := r.Store.Imported(ctx, r.Conv.ID)
	runs, read := r.Store.Delegations(ctx, r.Conv.ID)
	switch err := errors.Join(err, read); {
	case err != nil:
		return err
	case imported != nil && !slices.ContainsFunc(runs, func(d convstore.Delegation) bool { return delegate.RanFor(r.Conv.ID, d) }):
		return exit.Usagef("conversation %s: no agent can resume a batch, and this one was imported", r.Conv.ID).WithHint("%s", run.BatchAgain)
	}
	return exit.Usagef("conversation %s: no agent can resume a batch", r.Conv.ID).
		WithHint("to continue it, give the same queries to: jp batch --resume %s", r.Conv.ID)
}

// activate makes the conversation the terminal's active one. One without a turn becomes it as its turn
// begins: if that fails, it is removed, and the one that was active still is.
func (g *Group) activate(ctx context.Context, r *run.Run) error {
	session := g.Env.WS.Session()
	log, here := r.Log.(*convstore.Log)
	switch {
	case !here || session == "" || g.Env.Con.Globals.NoPersist:
		return nil
	case r.Conv.Turns > 0:
		return r.Store.Activate(ctx, session, r.Conv.ID)
	}
	log.ActivateIn(session)
	return nil
}

// reused shows an answer of before, and makes its conversation the active one, as that of a new
// answer would be. One in the archive is taken out of it, since jp query continues none there.
func (g *Group) reused(ctx context.Context, a convstore.Answer, o options) error {
	store, err := g.Env.WS.Store(ctx)
	if err == nil {
		err = show.WriteReused(ctx, g.Env.Con, store.View, a)
	}
	session := g.Env.WS.Session()
	if err != nil || session == "" || o.noActivate {
		return err
	}
	c, err := store.Get(ctx, a.ID)
	if err == nil && c.Archived() {
		err = store.Edit(ctx, a.ID, func(c *convstore.Conversation) error {
			c.ArchivedAt = time.Time{}
			return nil
		})
		if err == nil {
			g.Env.Con.Note("conversation %s was in the archive and was taken out of it", a.ID)
		}
	}
	if err != nil {
		return err
	}
	return store.Activate(ctx, session, a.ID)
}

var errParentGone = errors.New("the jp that started this one is gone")

// errTimeUp is the cause of a run that --timeout ends.
var errTimeUp error = timeUp{}

type timeUp struct{}

func (timeUp) Error() string { return "--timeout: the time is up" }

// Is reports that the error is the end of a deadline.
func (timeUp) Is(target error) bool { return target == context.DeadlineExceeded }

// inTool carries out a delegation for a jp inside a tool, if the rule allows it.
func (g *Group) inTool(ctx context.Context, o options) error {
	if o.stream || g.Env.Con.Format() == console.FormatStream {
		return exit.Refusedf("query: %s is not for a jp inside a tool", wording.Either(o.stream, "--stream", "--format=stream-json")).WithHint("--format=json gives the result")
	}
	order, err := g.Guest.Order(o.directives, o.model)
	if err != nil {
		return err
	}
	isNew := o.fresh || o.id.Value == "new"
	switch {
	case o.wait.Set:
		return exit.Refusedf("--wait-limit: not for a jp inside a tool, which waits as long as the run does")
	case !o.id.Set && !o.fresh:
		return exit.Refusedf("query: inside a tool it needs --id").WithHint("--id=new --root-id=%s --cfg=PROFILE, or the id of a sub-conversation", g.Guest.Scope.Caller())
	case isNew && !o.rootID.Set:
		return exit.Refusedf("query: inside a tool a new conversation is a sub-conversation").WithHint("add --root-id=%s", g.Guest.Scope.Caller())
	case isNew:
		if err := g.Guest.Caller(ctx, g.Env.WS, "--root-id", o.rootID.Value); err != nil {
			return err
		}
		if order.Profile == "" {
			return exit.Usagef("--root-id: name the agent profile with --cfg").WithHint("for example --cfg agent/researcher")
		}
		order.Title, order.Expire = o.title.Value, o.tmp.Value
	case o.hidden || o.title.Set || o.tmp.Set:
		return exit.Usagef("--hidden, --tmp, --title: only for a new conversation")
	default:
		view, err := g.Env.WS.View(ctx)
		if o.rootID.Set {
			view, err = g.Env.WS.Below(ctx, o.rootID.Value)
		}
		if err != nil {
			return err
		}
		if order.ID, err = g.Env.WS.Target(ctx, o.id.Value); err != nil {
			return err
		}
		if _, err := view.Get(ctx, order.ID); err != nil {
			return err
		}
	}
	t, err := g.asking(&o, nil).content(ctx)
	if err != nil {
		return err
	}
	order.Query, order.Reuse = t.Text, o.reuse
	if o.schema.Set {
		if order.Schema, err = run.InlineSchema(o.schema.Value); err != nil {
			return err
		}
	}
	if strings.TrimSpace(order.Query) == "" {
		return exit.Usagef("query: nothing to ask").WithHint("give the question as words or on stdin")
	}
	r, err := g.Guest.In.Query(ctx, order)
	if err != nil {
		return err
	}
	return show.WriteReport(ctx, g.Env.Con, r)
}

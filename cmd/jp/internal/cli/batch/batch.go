// Package batch is `jp batch`: many queries from stdin, each answered by its own sub-agent.
//
// A batch is one turn of a conversation without an agent, a run.Session. delegate.Batch runs the
// lines, several at the same time. The rows are written in the order of the lines, whatever order
// they end in. With --resume the rows of an earlier run are not kept in memory: earlier has the
// position of each in the file or in the store.
package batch

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"jp/cmd/jp/internal/attach"
	"jp/cmd/jp/internal/command"
	"jp/cmd/jp/internal/console"
	"jp/cmd/jp/internal/delegate"
	"jp/cmd/jp/internal/exit"
	"jp/cmd/jp/internal/record"
	"jp/cmd/jp/internal/run"
	"jp/cmd/jp/internal/spans"
	"jp/cmd/jp/internal/term"
	"jp/cmd/jp/internal/wording"
	"jp/convstore"
	"jp/tools"
)

// options are the flags of `jp batch`.
type options struct {
	profile  command.Maybe[string]
	rootID   command.Maybe[string]
	parallel command.Maybe[int]
	tokens   command.Maybe[*int64]
	cost     command.Maybe[*int64]
	title    command.Maybe[string]
	resume   command.Maybe[string]
	shard    command.Maybe[string]
	schema   command.Maybe[string]
	answer   json.RawMessage // what schema says; nil = free text
	lines    bool
	retry    command.Maybe[int]
	launcher command.Maybe[string]
	wait     command.Maybe[time.Duration]
	tape     record.Options

	reuse       bool
	reduce      command.Maybe[string]
	reduceQuery command.Maybe[string]
}

// New returns the command `jp batch`; guest is set in a jp inside a tool, else nil.
func New(env *run.Env, tree *command.Tree, guest *run.Guest) *cli.Command {
	var o options
	return tree.Command(command.Spec{
		Name: "batch", Summary: "run many queries from stdin, each by a sub-agent of its own",
		About: "Reads one query a line: a JSON string, or an object with query and, if you like, " +
			"config (the name of a profile), label (a word for its row), schema (of its answer), " +
			"model, reasoning, max_tokens, timeout (such as \"10m\"), attach (a path, an address, or " +
			"{\"file\": PATH, \"lines\": \"10-20\"}, or bytes in place of lines), reuse, context_query, and id (a " +
			"sub-conversation to continue; only with --root-id). Without --root-id all sub-agents run below one new " +
			"conversation.\n\n" +
			"If stdin is a file, every line is checked before the first sub-agent starts. From a " +
			"pipe a line runs as soon as it is there, such as those of `tail -f`; a line that is " +
			"wrong ends the batch, after the lines before it.\n\n" +
			"Writes one JSON object for each line, in the order of the lines, as soon as it is " +
			"ready: conversation_id, label, query, status, reason, text (the answer, or what there " +
			"was of it), tokens_used, cost_usd, calls (to the model), model, usage, duration_ms, and " +
			"error.code where there is no answer. A text is cut after 1 MiB. With -F json it writes " +
			"one array.\n\n" +
			"--retry tries lines again that failed because the provider or the store was busy or out " +
			"of reach, whose process was killed, or whose answer did not match the schema, within " +
			"what the line may cost.\n\n" +
			"--total-budget and --max-cost are divided evenly among the lines of a file. From a " +
			"pipe a line may use up to half of the limit, divided by --parallel. max_per_turn and " +
			"max_children do not apply to a new batch. With --root-id the limits of that " +
			"conversation apply too; the row of a refused line says so.\n\n" +
			"With --reduce and --reduce-query, one more sub-agent reads all answers, or a tree of them if " +
			"the answers are longer than its window. The last row is its answer. reduced says what it " +
			"was made of: answers, missing (the numbers of the lines that are not in it), agents. A " +
			"tenth of --total-budget and --max-cost is kept for it.\n\n" +
			"With --reuse, or \"reuse\": true in a line, an answer that is in the store from before is " +
			"given again and says so (reused); see jp query --help. Nothing is asked or paid then.\n\n" +
			"Status 0: all are ok. 7: all others were stopped at a limit. 6: all were refused. 1: " +
			"any other end.\n\n" +
			"If a provider refuses the key, the account or the model, no more lines start that " +
			"would ask it. Their rows are queued, and the status is 8. --resume runs them.\n\n" +
			"The first Ctrl-C stops what runs and keeps what is done. To continue, give the same " +
			"queries on stdin and --resume with the output so far or the id of the batch's " +
			"conversation. Lines that were ok do not run again; their rows are repeated, so the " +
			"new output is complete. A sub-conversation that was cut off goes on where it " +
			"stopped. After a kill, FILE may lack answers, or be empty. jp then takes the missing " +
			"answers from the store.\n\n" +
			"--shard 2/8 runs the second of eight equal parts of the lines, for jobs that share no " +
			"store. The outputs of all parts, in order, are the output of the whole batch. " +
			"--total-budget and --max-cost stay those of the whole batch: each part gets what its " +
			"lines get there. A limit of the config applies to each part.",
		Flags: append([]*command.Option{
			command.String(&o.profile, "cfg", "PROFILE", "agent profile for lines that name none").Alias("config", "c"),
			command.String(&o.rootID, "root-id", "ID", "delegate on behalf of ID, within its limits"),
			command.Int(&o.parallel, "parallel", "N", 1, "number of sub-agents that run at the same time (default: delegation.max_parallel)"),
			command.Tokens(&o.tokens, "total-budget", "tokens that all lines may use together (default: delegation.token_budget)"),
			command.Cost(&o.cost, "max-cost", "US dollars that all lines may cost together (default: delegation.max_cost_per_session)"),
			command.String(&o.title, "title", "T", "the title of the new conversation"),
			command.String(&o.shard, "shard", "I/N", "run only part I of N parts of the lines"),
			command.Bool(&o.lines, "lines", "every line of stdin is a query as it is, not JSON"),
			command.String(&o.schema, "schema", "SCHEMA", "JSON schema that the answer of each line without its own must match, or @FILE with one"),
			command.Int(&o.retry, "retry", "N", 0, "how often a line is tried again that failed for a passing reason (default: 0)"),
			run.WaitFlag(&o.wait),
			run.LauncherFlag(&o.launcher),
			command.Bool(&o.reuse, "reuse", "give answers that are in the store from before, as with jp query --reuse"),
			command.String(&o.reduce, "reduce", "PROFILE", "agent profile that makes one answer of all, which is the last row"),
			command.String(&o.reduceQuery, "reduce-query", "TEXT", "what it is to make of the answers"),
			command.String(&o.resume, "resume", "FILE", "earlier output of this batch, or the id of its conversation: what it answered does not run again"),
		}, record.Flags(&o.tape)...),
		Exits: []exit.Status{exit.NotFound, exit.Scope, exit.Busy, exit.Refused, exit.Limit, exit.Provider, exit.Hangup, exit.Interrupted, exit.Quit, exit.Terminated},
		Examples: []string{
			`jp batch -c agent/researcher < queries.jsonl > answers.jsonl`,
			`git ls-files | sed 's/^/Review /' | jp batch -c agent/reviewer --lines > reviews.jsonl`,
			`jp batch -c agent/reviewer --parallel 8 --title "all packages" < queries.jsonl`,
			`jp batch -c agent/researcher --resume answers.jsonl < queries.jsonl > all.jsonl`,
			`jp batch -c agent/reader --reduce agent/writer --reduce-query "What do they agree on?" < queries.jsonl | tail -n 1 | jq -r .text`,
			`jp batch -c agent/researcher --shard 2/8 --max-cost 4 < queries.jsonl > answers-2.jsonl`,
		},
		Run: func(ctx context.Context, _ []string) error {
			if guest != nil {
				return inTool(ctx, env, guest, o)
			}
			return start(ctx, env, o)
		},
	})
}

// maxRow bounds the text of an answer in a row, in bytes.
const maxRow = 1 << 20

// maxShards bounds the parts of a batch.
const maxShards = 100_000

// part returns the range of the shard among all queries, and sets the limits of the flags to its part
// of them. The shards are equal but for one query, and so are their limits; all limits together are
// those of the flags.
func (o *options) part(all int) (from, to int, err error) {
	if !o.shard.Set {
		return 0, all, nil
	}
	first, last, ok := strings.Cut(o.shard.Value, "/")
	i, err := strconv.Atoi(first)
	n, wrong := strconv.Atoi(last)
	if !ok || err != nil || wrong != nil || i < 1 || i > n || n > maxShards {
		return 0, 0, exit.Usagef("--shard %q: want I/N with I from 1 to N, such as 2/8", o.shard.Value)
	}
	from, to = int(share(int64(all), int64(i-1), int64(n))), int(share(int64(all), int64(i), int64(n)))
	for _, limit := range []**int64{&o.tokens.Value, &o.cost.Value} {
		if *limit != nil {
			part := share(**limit, int64(to), int64(all)) - share(**limit, int64(from), int64(all))
			*limit = &part
		}
	}
	return from, to, nil
}

// share returns limit × k ÷ n, rounded down, for 0 ≤ k ≤ n.
func share(limit, k, n int64) int64 {
	return limit/n*k + limit%n*k/n
}

func start(ctx context.Context, env *run.Env, o options) error {
	if err := env.WS.Persist("batch"); err != nil {
		return err
	}
	if env.Con.IO.InTTY {
		return exit.Usagef("batch: the queries are read from stdin").WithHint("jp batch -c agent/researcher < queries.jsonl")
	}
	env.WaitFor(o.wait.Value)
	return env.Delegating(ctx, func(ctx context.Context, s *run.Session) error {
		what, err := o.reduction()
		if err == nil && o.schema.Set {
			o.answer, err = env.AnswerSchema(ctx, o.schema.Value)
		}
		if err != nil {
			return err
		}
		in, text, err := openLines(ctx, env.Con, &o, record.Wanted(env.Con, o.tape))
		if err != nil {
			return err
		}
		first, err := in.next(ctx)
		if err == io.EOF && in.count == 0 {
			err = exit.Usagef("batch: no query on stdin").WithHint(`one JSON string or object on each line, such as "What is this?"`)
		}
		if err != nil && err != io.EOF {
			return err
		}
		if err == nil {
			in.back(first)
		}
		if err := s.Choose(o.launcher); err != nil {
			return err
		}
		to, replay, err := record.Files(env.Con, o.tape, text, o.profile.Value)
		if err == nil && o.resume.Set && to+replay != "" {
			err = command.ErrMixed("--resume", wording.Either(to != "", "--record", "--replay"))
		}
		if err == nil && o.reuse && to+replay != "" {
			err = command.ErrMixed("--reuse", wording.Either(to != "", "--record", "--replay"))
		}
		if err == nil && what != nil {
			_, err = env.Profile(ctx, what.Config, nil)
		}
		if err == nil {
			env.Tape, err = record.Open(env.Con, env.WS, to, replay)
		}
		if err != nil {
			return err
		}
		defer env.Tape.Remove()
		if err := s.Store.Reconcile(ctx); err != nil { // so that the ledger counts what a killed batch has used
			return err
		}
		b := &batch{env: env, session: s, o: o, what: what, in: in, sum: sumOf(first, o.shard.Value), line: convstore.NewEventID()}
		defer func() {
			for _, c := range b.claims {
				_ = c.Close()
			}
		}()
		if o.resume.Set {
			defer func() { b.earlier.close() }()
			if err := b.resume(ctx, o.resume.Value); err != nil {
				return err
			}
		}
		if err := b.survey(ctx); err != nil {
			return err
		}
		b.output()
		if some, err := b.answered(ctx); !some && b.what == nil || err != nil {
			return b.finish(err)
		}
		d, err := b.open(ctx)
		if err != nil {
			return b.finish(err)
		}
		if err := env.Tape.Begin(); err != nil {
			return b.finish(err)
		}
		return env.Tape.End(ctx, b.run(ctx, d))
	})
}

// batch is one run of `jp batch`.
type batch struct {
	env     *run.Env
	session *run.Session
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
	most     convstore.Budget // budget of one line
	out      *bufio.Writer
	rows     console.List
	ok       int
	limited  int // lines that were stopped at a limit, or refused because of one
	refused  int // lines that policy refused
	failed   int
	queued   int // lines that were not begun, because their model cannot be asked

	what    *delegate.Reduction // nil = none
	inputs  []delegate.Input    // what it reads
	reduced convstore.State     // its end; "" = it has none
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
	if err == nil && b.earlier != nil {
		b.env.Con.Note("%d of %d queries were answered before", b.in.total-b.left, b.in.total)
		err = b.surplus()
	}
	return err
}

// open finds or makes the conversation on whose behalf the batch runs.
func (b *batch) open(ctx context.Context) (*delegate.Delegator, error) {
	if b.left < 0 && b.o.profile.Set { // most lines are of this one
		if _, err := b.env.Profile(ctx, b.o.profile.Value, nil); err != nil {
			return nil, err
		}
	}
	if n := b.o.tokens.Value; n != nil && *n < int64(max(b.left, 1)) {
		return nil, exit.Usagef("--total-budget: %d is less than a token for each of %d queries", *n, max(b.left, 1))
	}
	cfg := b.session.Resolved.Config
	if !cfg.Delegation.Enabled {
		return nil, exit.Refusedf("delegation.enabled: is false").WithHint("`jp config show` says where it is set")
	}
	scope, caller := convstore.Scope{}, delegate.Caller{Tools: []string{"jp_batch_query"}, Limits: b.env.LimitsOf(cfg)}
	var err error
	if b.o.rootID.Set {
		var root convstore.ID
		if root, err = b.env.WS.Target(ctx, b.o.rootID.Value); err != nil {
			return nil, err
		}
		st, err := b.session.StandFor(ctx, root)
		if err != nil {
			return nil, err
		}
		scope, caller = st.Scope, st.Caller
		if b.earlier == nil || b.earlier.line == "" {
			if err := b.claimLine(ctx, root, b.line); err != nil {
				return nil, err
			}
		}
		b.parallel = caller.Limits.MaxParallel
		if b.o.parallel.Set {
			b.parallel = b.o.parallel.Value
		}
		b.divide(convstore.Budget{Tokens: b.o.tokens.Value, CostNano: b.o.cost.Value})
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
			l.MaxParallel = min(b.o.parallel.Value, convstore.MaxSlots)
		}
		b.parallel = l.MaxParallel
		session := run.SessionLimits(cfg)
		session.Children, session.Parallel = l.MaxChildren, l.MaxParallel
		if b.o.tokens.Set {
			session.Tokens = b.o.tokens.Value
		}
		if b.o.cost.Set {
			session.CostNano, session.Strict = b.o.cost.Value, b.o.cost.Value != nil
		}
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
		return tools.Set{}, exit.Refusedf("conversation %s: has no tool to delegate with", scope.Caller()).WithHint("`jp conversation show` lists its tools")
	})
}

// divide sets the budget of one line. A flag's limit is divided evenly among all lines, where their
// number is known. A limit of the config was not made for this batch, and most lines use little: it
// is divided by twice the number of lines that run at the same time.
func (b *batch) divide(all convstore.Budget) {
	all = b.lessReduction(all)
	lines := func(flag command.Maybe[*int64]) int {
		switch few := 2 * b.parallel; {
		case b.left < 0:
			return few
		case flag.Set:
			return max(b.left, 1)
		default:
			return max(min(b.left, few), 1)
		}
	}
	b.most = convstore.Budget{
		Tokens:   convstore.Portion(all.Tokens, lines(b.o.tokens)),
		CostNano: convstore.Portion(all.CostNano, lines(b.o.cost)),
	}
}

// begin makes the conversation of a batch and begins its turn within the limits of session.
func (b *batch) begin(ctx context.Context, session convstore.Limits) error {
	about := b.about(b.left)
	if b.session.Log != nil {
		return b.goOn(ctx, about, session)
	}
	if err := b.session.Begin(ctx, cmp.Or(b.o.title.Value, about), about+", from a shell", b.labels(), session); err != nil {
		return err
	}
	b.env.Con.Note("batch below %s", b.session.Conv.ID)
	return nil
}

// goOn begins another turn in the conversation of the batch, within the limits of session.
func (b *batch) goOn(ctx context.Context, about string, session convstore.Limits) error {
	if conv := b.session.Conv; conv.Labels[labelBatch] != b.sum || b.o.title.Set {
		if err := b.session.Store.Edit(ctx, conv.ID, func(c *convstore.Conversation) error {
			c.Labels = b.labels()
			c.Title = cmp.Or(b.o.title.Value, c.Title)
			return nil
		}); err != nil {
			return err
		}
	}
	if err := b.session.Again(ctx, "the rest: "+about+", from a shell", session); err != nil {
		return err
	}
	b.env.Con.Note("batch below %s goes on", b.session.Conv.ID)
	return nil
}

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
	flags := convstore.Budget{Tokens: b.o.tokens.Value, CostNano: b.o.cost.Value}
	purse := delegate.NewPurse(b.lessReduction(flags))
	failed := d.Batch(ctx, call, b.next, delegate.Work{
		Parallel: b.parallel, Most: b.most, Default: !b.o.cost.Set, Purse: purse, Retry: b.o.retry.Value, Attach: b.attach,
	}, b.row)
	if failed == nil && b.what != nil {
		purse.Add(flags.Minus(b.lessReduction(flags)))
		failed = b.reduceAll(ctx, d, call, purse)
	}
	b.tree.Close()
	b.env.Con.IO = streams
	failed = errors.Join(failed, b.retitle(context.WithoutCancel(ctx)))
	failed = b.finish(failed)
	if cause := context.Cause(ctx); cause != nil && errors.Is(failed, term.ErrUnread) {
		failed = fmt.Errorf("%w: %w", cause, term.ErrUnread) // one error for all rows that nobody read
	}
	came := run.EndOf(ctx, failed, b.cameTo())
	end(came)
	failed = errors.Join(failed, b.session.Conclude(ctx, b.said(), came))
	if ctx.Err() != nil {
		b.env.Con.Note("stopped; to continue, give the same queries to: %s", b.again(d.Scope().Caller()))
	}
	if failed != nil {
		return failed
	}
	return b.verdict(d.Scope().Caller())
}

// attach reads what a line attaches, as `jp query --attachment` does.
func (b *batch) attach(ctx context.Context, refs attach.Refs) ([]convstore.Attachment, error) {
	r := attach.Reader{Dir: b.env.Con.Env.Dir, Workspace: b.session.Root, Notice: func(s string) { b.env.Con.Warn("%s", s) }}
	return r.Refs(ctx, refs)
}

// output begins the document of the rows.
func (b *batch) output() {
	b.out = bufio.NewWriter(b.env.Con.IO.Out)
	b.rows = console.List{W: b.out, Format: console.FormatStream}
	if f := b.env.Con.Format(); f == console.FormatJSON || f == console.FormatJSONPretty {
		b.rows.Format = f
	}
}

// finish writes the end of the document, unless stdout has failed.
func (b *batch) finish(failed error) error {
	if errors.Is(failed, term.ErrClosed) || errors.As(failed, new(*term.OutError)) {
		return failed
	}
	if b.earlier != nil && b.in.total < 0 {
		b.env.Con.Note("%d of %d queries were answered before", b.earlier.answered(), b.in.read)
	}
	if failed == nil && b.earlier != nil {
		failed = b.surplus()
	}
	return errors.Join(failed, b.rows.Close(), b.out.Flush())
}

// row writes the row of a line. On a terminal the tree of sub-agents makes room for it.
func (b *batch) row(it delegate.Item, r delegate.Row) (err error) {
	if !b.env.Con.IO.OutTTY {
		return b.write(it, r)
	}
	b.tree.Around(func() { err = b.write(it, r) })
	return err
}

func (b *batch) write(it delegate.Item, r delegate.Row) error {
	if it.Done {
		if err := b.repeat(it); err != nil {
			return err
		}
		return b.out.Flush()
	}
	b.keep(it, r)
	b.done.add(r)
	switch s := convstore.State(r.Status); {
	case s == convstore.StateOK:
		b.ok++
	case s == convstore.StatePartial, s == convstore.StateBudget:
		b.limited++
	case slices.Contains([]delegate.Code{delegate.CodeCalls, delegate.CodeChildren, delegate.CodeTokens, delegate.CodeCost}, r.Code):
		b.limited++
	case r.Code == delegate.CodeProvider:
		b.queued++
	case r.Code != "":
		b.refused++
	default:
		b.failed++
	}
	if err := b.rows.Add(r); err != nil {
		return err
	}
	return b.out.Flush()
}

// cameTo returns the end of the turn that follows from the ends of all lines.
func (b *batch) cameTo() convstore.TurnEnd {
	end := convstore.TurnEnd{State: convstore.StateOK}
	switch {
	case b.failed+b.refused+b.queued > 0, b.unreduced():
		end.State, end.Reason = convstore.StateError, b.summary()
	case b.limited > 0, b.reduced == convstore.StatePartial:
		end.State, end.Reason = convstore.StatePartial, b.summary()
	}
	return end
}

// summary returns the number of rows for each kind of end.
func (b *batch) summary() string {
	parts := []string{fmt.Sprintf("%d of %d ok", b.ok, b.in.read)}
	for _, p := range []struct {
		n    int
		text string
	}{{b.limited, "stopped at a limit"}, {b.refused, "refused"}, {b.failed, "failed"}, {b.queued, "queued"}} {
		if p.n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", p.n, p.text))
		}
	}
	if len(b.reused) > 0 {
		parts = append(parts, fmt.Sprintf("%d reused", len(b.reused)))
	}
	if b.reduced != "" {
		parts = append(parts, "reduced: "+string(b.reduced))
	}
	return strings.Join(parts, ", ")
}

// verdict returns the error, and so the exit status, of the command.
func (b *batch) verdict(caller convstore.ID) error {
	f := &exit.Error{Msg: fmt.Sprintf("conversation %s: %s", caller, b.summary())}
	switch {
	case b.ok == b.in.read && (b.reduced == "" || b.reduced == convstore.StateOK):
		return nil
	case b.queued > 0:
		f.Code, f.Status = "provider", exit.Provider
		f.Hint = "to continue, give the same queries to: " + b.again(caller)
	case b.refused == b.in.read:
		f.Code, f.Status = "refused", exit.Refused
	case b.failed+b.refused > 0 || b.unreduced():
		f.Code, f.Status = "failed", exit.Failed
	default:
		f.Code, f.Status = "partial", exit.Limit
	}
	return f
}

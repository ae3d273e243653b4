// Package batch is `jp batch`: many queries from stdin, each answered by its own sub-agent.
//
// A batch is one turn of a conversation without an agent, a run.Session. delegate.Batch runs the
// lines, several at the same time. The rows are written in the order of the lines, whatever order
// they end in. With --resume the rows of an earlier run are not kept in memory: earlier has the
// position of each in the file or in the store.
//
//	batch.go          flags and help; from a shell, and in guest.go inside a tool
//	lines.go          stdin to items; shard.go takes a part of them
//	turn.go           the turn: its conversation, its budget, what runs
//	rows.go           rows, what they came to, and the exit status; progress.go counts them meanwhile
//	reduce.go         the last row
//	resume.go         an earlier run: its rows (resume_rows.go), its sub-conversations
//	                  (resume_runs.go), and what is left to do (resume_plan.go)
package batch

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"jp/cmd/jp/internal/command"
	"jp/cmd/jp/internal/exit"
	"jp/cmd/jp/internal/record"
	"jp/cmd/jp/internal/run"
	"jp/cmd/jp/internal/wording"
	"jp/convstore"
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

const fromStdin = "jp batch -c agent/researcher < queries.jsonl"

// New returns the command `jp batch`; guest is set in a jp inside a tool, else nil.
func New(env *run.Env, tree *command.Tree, guest *run.Guest) *cli.Command {
	var o options
	return tree.Command(command.Spec{
		Name: "batch", Summary: "run many queries from stdin, each by a sub-agent of its own",
		About: "Gives each line of stdin to a sub-agent of its own, several at a time, and writes a row for " +
			"each, in the same order: a JSON object with status, text (the answer), cost_usd and, if there " +
			"is no answer, error.code. docs/scripting.md shows how to use it; docs/delegation.md says what " +
			"else is in lines and rows.",
		Terms: []command.Terms{
			{Heading: "a line", Of: []command.Term{
				{Word: `"WORDS"`, Means: "a query; with --lines any text is one"},
				{Word: `{"query": "WORDS"}`, Means: "more keys: config (the profile), model, reasoning, schema, attach, context_query, max_tokens, timeout, label, reuse, and with --root-id id"},
			}},
			{Heading: "what it does besides", Of: []command.Term{
				{Word: "--resume", Means: "goes on after Ctrl-C with the same lines: answers are repeated, what was cut off is finished, what has changed runs again"},
				{Word: "--reduce", Means: "one more sub-agent makes one answer of all, which is the last row"},
				{Word: "--reuse", Means: "an answer that is in the store is given again and costs nothing"},
				{Word: "budget", Means: "lines of a file get equal parts of --total-budget and --max-cost"},
				{Word: "memory", Means: "queries that run, or wait for the row of an earlier line, have at most 128 MiB together: of very long ones fewer run"},
				{Word: "status", Means: "0 all ok; 8 some queued: their provider refuses; 6 all refused; 7 some stopped at a limit, or refused by one; else 1"},
			}},
		},
		Flags: append([]*command.Option{
			profileFlag(&o.profile),
			command.String(&o.rootID, "root-id", "ID", "delegate on behalf of ID, within its limits"),
			command.Int(&o.parallel, "parallel", "N", 1, "number of sub-agents that run at the same time (default: delegation.max_parallel)"),
			command.Tokens(&o.tokens, "total-budget", "tokens that all lines may use together (default: delegation.token_budget)"),
			command.Cost(&o.cost, "max-cost", "US dollars that all lines may cost together (default: delegation.max_cost_per_session)"),
			command.Text(&o.title, "title", "T", "the title of the new conversation"),
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
			fromStdin + ` > answers.jsonl`,
			`git ls-files | sed 's/^/Review /' | jp batch -c agent/reviewer --lines > reviews.jsonl`,
			`jp batch -c agent/reviewer --parallel 8 --title "all packages" < queries.jsonl`,
			`jp batch -c agent/researcher --resume answers.jsonl < queries.jsonl > all.jsonl`,
			`jp batch -c agent/reader --reduce agent/writer --reduce-query "What do they agree on?" < queries.jsonl | tail -n 1 | jq -r .text`,
			`jp batch -c agent/researcher --shard 2/8 --max-cost 4 < queries.jsonl > answers-2.jsonl`,
		},
		Max: 1, // to say more about the name of a file
		Run: func(ctx context.Context, args []string) error {
			if len(args) > 0 {
				return exit.Usagef("batch: unexpected argument %q", args[0]).WithHint("the queries are read from stdin: %s", fromStdin)
			}
			if guest != nil {
				return inTool(ctx, env, guest, o)
			}
			return start(ctx, env, o)
		},
	})
}

// profileFlag takes one profile. In other commands --cfg takes settings too, and several of them.
func profileFlag(p *command.Maybe[string]) *command.Option {
	f := command.String(p, "cfg", "PROFILE", "agent profile for lines that name none").Alias("config", "c")
	take := f.Take
	f.Take = func(s string, given bool) error {
		switch {
		case strings.Contains(s, "=") && !strings.HasSuffix(s, ".toml"):
			return fmt.Errorf("%q is a setting, and here is the name of one profile: the setting goes into that profile", s)
		case p.Set && p.Value != s:
			return fmt.Errorf("%q is the second profile after %q; a line can name its own in config", s, p.Value)
		}
		return take(s, given)
	}
	return f
}

// noQuery is the error for a stdin without a query.
func (o options) noQuery() error {
	if o.resume.Set {
		return exit.Usagef("batch: no query on stdin").WithHint("give the same queries again: jp batch --resume %s < queries.jsonl", wording.ShellWord(o.resume.Value))
	}
	hint := `one JSON string or object on each line, such as "What is this?"`
	if o.lines {
		hint = "one query on each line, as plain text"
	}
	return exit.Usagef("batch: no query on stdin").WithHint("%s", hint)
}

func start(ctx context.Context, env *run.Env, o options) error {
	if err := env.WS.Persist("batch"); err != nil {
		return err
	}
	if o.rootID.Set && o.title.Set {
		return command.ErrMixed("--root-id", "--title")
	}
	if env.Con.IO.InTTY {
		return exit.Usagef("batch: the queries are read from stdin").WithHint(fromStdin)
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
			err = o.noQuery()
			if id, bad := convstore.ParseID(o.resume.Value); bad == nil {
				_, missing := s.Store.Get(ctx, id)
				err = cmp.Or(missing, err)
			}
		}
		switch err {
		case nil:
			in.back(first)
		case io.EOF: // a part without lines
			what = nil
		default:
			return err
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
		b := &batch{env: env, session: s, view: s.Store.View, o: o, what: what, in: in, sum: sumOf(first, o.shard.Value), line: convstore.NewEventID()}
		defer func() {
			for _, c := range b.claims {
				_ = c.Close()
			}
		}()
		if o.rootID.Set {
			if b.root, err = env.WS.Target(ctx, o.rootID.Value); err == nil {
				err = s.Stand(ctx, b.root)
			}
			if err != nil {
				return err
			}
		}
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
		some, err := b.answered(ctx)
		if err == nil && !some {
			err = b.joinFound(ctx)
		}
		if err == nil && !some && b.what == nil {
			err = b.endWell(ctx)
		}
		if !some && b.what == nil || err != nil {
			_, err = b.conclude(ctx, err)
			return err
		}
		d, err := b.open(ctx)
		if err == nil {
			err = env.Tape.Begin()
		}
		if err != nil {
			_, err = b.conclude(ctx, err)
			return err
		}
		return env.Tape.End(ctx, b.run(ctx, d))
	})
}

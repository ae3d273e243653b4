package conversation

import (
	"context"
	"time"

	"github.com/urfave/cli/v2"

	"jp/cmd/jp/internal/command"
	"jp/cmd/jp/internal/exit"
	"jp/cmd/jp/internal/review"
	"jp/cmd/jp/internal/turns"
	"jp/cmd/jp/internal/workspace"
	"jp/convstore"
	"jp/profiles"
)

type forkOptions struct {
	Create      createFlags
	Turns       turns.Flags
	None        bool
	from, until command.Maybe[time.Time]
	Directives  []profiles.Directive
	activate    bool
}

func newForkCommand(g *Group) *cli.Command {
	var o forkOptions
	flags := o.Turns.LastFirst()
	flags = append(flags,
		command.Bool(&o.None, "no-turns", "no turns, the same as --last=0"),
		timeFlag(&o.from, "from", "T", "from the first turn that began at T or later: a time such as 2026-05-01, 2026-05-01T12:00:00Z, or a duration before now, such as 2h"),
		timeFlag(&o.until, "until", "T", "to the last turn that began before T"),
	)
	flags = append(flags, workspace.ConfigFlags(&o.Directives)...)
	flags = append(flags, o.Create.Options()...)
	return g.Tree.Command(command.Spec{
		Name: "fork", Summary: "make a child of each conversation", Args: "ID...",
		About: "The child holds the turns of its source that the flags choose, by default all of " +
			"them. It has the config of its source; --cfg adds to that. Ids are printed one per " +
			"line, in the order of the sources. JSON formats print an array.",
		Flags: append(flags, command.Bool(&o.activate, "activate", "make the child this terminal's active conversation; only with one source")),
		Min:   1, Max: -1,
		Exits: []exit.Status{exit.NotFound, exit.Busy},
		Examples: []string{
			"jp conversation fork jp-c17543982411 --last=0 --hidden",
			"jp conversation fork recent --last=3 --title 'Another way' --activate",
		},
		Run: func(ctx context.Context, args []string) error { return runFork(ctx, g, o, args) },
	})
}

// timeFlag takes a time: RFC 3339, a local date with or without a time of day, or a duration before
// now.
func timeFlag(p *command.Maybe[time.Time], name, arg, usage string) *command.Option {
	return &command.Option{Name: name, Arg: arg, Usage: usage, Take: func(s string, _ bool) error {
		t, err := parseTime(s, time.Now())
		*p = command.Given(t)
		return err
	}}
}

func parseTime(s string, now time.Time) (time.Time, error) {
	if t, err := time.Parse(time.RFC3339, s); err == nil {
		return t, nil
	}
	for _, layout := range []string{time.DateOnly, "2006-01-02T15:04", "2006-01-02 15:04", "2006-01-02T15:04:05", time.DateTime} {
		if t, err := time.ParseInLocation(layout, s, time.Local); err == nil {
			return t, nil
		}
	}
	if d, err := command.ParseDuration(s); err == nil {
		return now.Add(-d), nil
	}
	return time.Time{}, exit.Usagef("%q is not a time such as 2026-05-01, 2026-05-01T12:00:00Z or 2h (ago)", s)
}

func runFork(ctx context.Context, g *Group, o forkOptions, words []string) error {
	if err := g.WS.Persist("conversation fork"); err != nil {
		return err
	}
	if g.WS.Within != nil {
		return g.forkInTool(ctx, o, words)
	}
	given := map[string]bool{"--last": o.Turns.Last.Set, "--first": o.Turns.First.Set, "--no-turns": o.None, "--from or --until": o.from.Set || o.until.Set}
	if err := command.OnlyOne(given, "--last", "--first", "--no-turns", "--from or --until"); err != nil {
		return err
	}
	st, ids, err := g.openStore(ctx, words)
	switch {
	case err != nil:
		return err
	case o.activate && len(ids) > 1:
		return exit.Usagef("--activate: only one conversation can be active, and there are %d sources", len(ids))
	case o.activate && g.WS.Session() == "":
		return workspace.ErrNoTerminal()
	}

	// Everything is checked before anything is made.
	forks, had := make([]convstore.Fork, len(ids)), make([][]convstore.Allowance, len(ids))
	for i, id := range ids {
		if forks[i], had[i], err = planFork(ctx, g, st, o, id); err != nil {
			return err
		}
	}
	convs, err := st.ForkAll(ctx, ids, forks)
	if err != nil {
		return err
	}
	made := make([]convstore.ID, len(convs))
	for i, c := range convs {
		made[i] = c.ID
		if err := review.KeepNew(ctx, st, c, had[i]); err != nil {
			return err
		}
	}
	if o.activate && len(made) == 1 {
		if err := st.Activate(ctx, g.WS.Session(), made[0]); err != nil {
			return err
		}
	}
	if g.Con.JSON() {
		return g.Con.Document(made)
	}
	return g.WS.PrintIDs(made)
}

// planFork decides what the fork of one conversation contains, and what is kept in it: see review.Has.
func planFork(ctx context.Context, g *Group, st *convstore.Store, o forkOptions, id convstore.ID) (f convstore.Fork, had []convstore.Allowance, err error) {
	src, err := st.Get(ctx, id)
	if err != nil {
		return f, nil, err
	}
	f, had = convstore.Fork{Title: o.Create.Title.Value, Hidden: o.Create.Hidden, ExpiresAt: command.Expiry(o.Create.Tmp)}, review.Had(src)
	switch {
	case o.None:
		f.Turns = convstore.LastTurns(0)
	case o.from.Set || o.until.Set:
		f.Turns, err = turnsBetween(ctx, st, id, o.from, o.until)
	default:
		f.Turns, err = o.Turns.Turns()
	}
	if err != nil || len(o.Directives) == 0 {
		return f, had, err
	}
	stored, err := st.Config(ctx, id)
	if err != nil {
		return f, had, err
	}
	c, err := g.Configure(ctx, stored.JSON, src, o.Directives)
	if err != nil {
		return f, nil, err
	}
	had = c.had
	f.Config = &c.Config
	f.Model = c.Model
	f.Profile, f.ProfileArg, f.ProfileHash = src.Profile, src.ProfileArg, src.ProfileHash
	if c.Profile != "" {
		f.Profile, f.ProfileArg, f.ProfileHash = c.Profile, c.ProfileArg, c.ProfileHash
	}
	return f, had, nil
}

// turnsBetween finds the turns that began at from or later and before until.
func turnsBetween(ctx context.Context, st *convstore.Store, id convstore.ID, from, until command.Maybe[time.Time]) (convstore.Range, error) {
	first, last := 0, 0
	for e, err := range st.Events(ctx, id, convstore.Range{}) {
		if err != nil {
			return convstore.Range{}, err
		}
		if _, ok := e.Body.(convstore.TurnStart); !ok {
			continue
		}
		if (from.Set && e.Time.Before(from.Value)) || (until.Set && !e.Time.Before(until.Value)) {
			continue
		}
		if first == 0 {
			first = e.Turn
		}
		last = e.Turn
	}
	if first == 0 {
		return convstore.LastTurns(0), nil
	}
	return convstore.Range{First: first, Last: last}, nil
}

// forkInTool reserves a delegation and prints the id of its conversation, which is empty and
// hidden. A later query with this id runs it.
func (g *Group) forkInTool(ctx context.Context, o forkOptions, words []string) error {
	if len(words) != 1 {
		return exit.Usagef("conversation fork: one conversation at a time")
	}
	if err := g.Guest.Caller(ctx, g.WS, "conversation fork", words[0]); err != nil {
		return err
	}
	if !o.None && !(o.Turns.Last.Set && o.Turns.Last.Value == 0) && !(o.Turns.First.Set && o.Turns.First.Value == 0) {
		return exit.Refusedf("conversation fork: a sub-conversation begins without turns").WithHint("add --last=0")
	}
	order, err := g.Guest.Order(o.Directives, command.Maybe[string]{})
	if err != nil {
		return err
	}
	if order.Profile == "" {
		return exit.Usagef("conversation fork: name the agent profile with --cfg").WithHint("for example --cfg agent/researcher")
	}
	order.Title = o.Create.Title.Value
	id, err := g.Guest.In.Fork(ctx, order)
	if err != nil {
		return err
	}
	if g.Con.JSON() {
		return g.Con.Document([]convstore.ID{id})
	}
	return g.WS.PrintIDs([]convstore.ID{id})
}

package cli

import (
	"bufio"
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"jp/cmd/jp/internal/command"
	"jp/cmd/jp/internal/exit"
	"jp/convstore"
	"jp/profiles"
)

func newConversationCommand(a *app) *cli.Command {
	return a.tree.Command(command.Spec{
		Name: "conversation", Aliases: []string{"c"},
		Summary: "make, list, read, search, change and remove conversations",
		About: "Conversations are named by their id (jp-c17543982411), or by . or active (this session's active one), previous " +
			"(the one before), recent (latest activity) and newest (made last). - reads ids from stdin.",
		Subs: []*cli.Command{
			newNewCommand(a), newForkCommand(a), newListCommand(a), newShowCommand(a), newPrintCommand(a), newGrepCommand(a),
			newRemoveCommand(a), newEditCommand(a), newUseCommand(a), newArchiveCommand(a), newUnarchiveCommand(a), newTreeCommand(a),
			newCompactCommand(a), newExportCommand(a), newImportCommand(a),
		},
	})
}

// createFlags are the flags of commands that make conversations.
type createFlags struct {
	hidden bool
	title  command.Maybe[string]
	tmp    command.Maybe[time.Duration]
}

func (f *createFlags) options() []*command.Option {
	return []*command.Option{
		command.Bool(&f.hidden, "hidden", "leave it out of listings"),
		command.String(&f.title, "title", "T", "its title"),
		command.DurationMaybe(&f.tmp, "tmp", "DURATION", defaultTmp, "let it expire after DURATION (a day without DURATION): the first jp query after that removes it"),
	}
}

// expiry is when a conversation made now expires; zero = never.
func (f *createFlags) expiry() time.Time {
	if !f.tmp.Set {
		return time.Time{}
	}
	return time.Now().Add(f.tmp.Value)
}

// rangeFlags choose turns by counting.
type rangeFlags struct {
	first, last command.Maybe[int]
	turn        command.Maybe[string]
}

// lastFirst are --last and --first.
func (f *rangeFlags) lastFirst() []*command.Option {
	return []*command.Option{
		command.IntMaybe(&f.last, "last", "N", 0, 1, "the last N turns (1 without N)"),
		command.IntMaybe(&f.first, "first", "N", 0, 1, "the first N turns (1 without N)"),
	}
}

// turns returns the range that was chosen; all turns when none was.
func (f *rangeFlags) turns() (convstore.Range, error) {
	given := map[string]bool{"--last": f.last.Set, "--first": f.first.Set, "--turn": f.turn.Set}
	if err := command.OnlyOne(given, "--last", "--first", "--turn"); err != nil {
		return convstore.Range{}, err
	}
	switch {
	case f.last.Set:
		return convstore.LastTurns(f.last.Value), nil
	case f.first.Set:
		return convstore.FirstTurns(f.first.Value), nil
	case f.turn.Set:
		return parseTurns(f.turn.Value)
	}
	return convstore.Range{}, nil
}

// parseTurns reads N, A..B, A.. and ..B, counted from 1, and .. for all.
func parseTurns(s string) (convstore.Range, error) {
	bad := exit.Usagef("--turn: %q is none of N, A..B, A.. and ..B, counted from 1", s)
	parse := func(s string) (int, bool) {
		n, err := strconv.Atoi(s)
		return n, err == nil && n > 0 && !strings.HasPrefix(s, "+")
	}
	from, to, isRange := strings.Cut(s, "..")
	if !isRange {
		n, ok := parse(s)
		if !ok {
			return convstore.Range{}, bad
		}
		return convstore.Turn(n), nil
	}
	var r convstore.Range
	var ok bool
	if from != "" {
		if r.First, ok = parse(from); !ok {
			return convstore.Range{}, bad
		}
	}
	if to != "" {
		if r.Last, ok = parse(to); !ok {
			return convstore.Range{}, bad
		}
	}
	if r.Last != 0 && r.First > r.Last {
		return convstore.Range{}, bad
	}
	return r, nil
}

// labelFilter reads repeated --label K[=V].
func labelFilter(list []string) (map[string]string, error) {
	out := map[string]string{}
	for _, l := range list {
		key, value, _ := strings.Cut(l, "=")
		if key == "" {
			return nil, exit.Usagef("--label: %q has no name before =", l)
		}
		out[key] = value
	}
	return out, nil
}

// configured is a conversation's config with what its metadata says of it.
type configured struct {
	convstore.Config
	profile, profileArg, profileHash, model string
}

// configure resolves the config of a conversation that is made or forked. held, when not nil, are the only tools that may
// stay.
func (a *app) configure(ctx context.Context, stored []byte, held []string, hasGrant bool, ds []profiles.Directive) (configured, error) {
	src, err := a.ws.Sources(ctx, ds)
	if err != nil {
		return configured{}, err
	}
	src.Stored, src.HasGrant = stored, hasGrant
	r, err := a.ws.Config(src, ds, nil)
	if err != nil {
		return configured{}, err
	}
	if hasGrant {
		for _, name := range r.Cut(held) {
			a.con.Warn("tool %s: not granted to the source, left out", name)
		}
	}
	model, err := r.Config.RequireModel()
	if err != nil {
		return configured{}, err
	}
	defs, err := a.definitions(ctx, r)
	if err != nil {
		return configured{}, err
	}
	return configured{
		Config:  convstore.Config{JSON: r.Stored(), Tools: toolNames(defs)},
		profile: r.Profile, profileArg: r.ProfileArg, profileHash: r.ProfileHash, model: model,
	}, nil
}

// printIDs writes ids, one per line.
func (a *app) printIDs(ids []convstore.ID) error {
	return a.con.Text(func(w *bufio.Writer) error {
		for _, id := range ids {
			fmt.Fprintln(w, id)
		}
		return nil
	})
}

// openStore is what most commands start with.
func (a *app) openStore(ctx context.Context, words []string) (*convstore.Store, []convstore.ID, error) {
	st, err := a.ws.Store(ctx)
	if err != nil {
		return nil, nil, err
	}
	ids, err := a.ws.Targets(ctx, words)
	return st, ids, err
}

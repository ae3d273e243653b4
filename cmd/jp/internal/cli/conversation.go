package cli

import (
	"bufio"
	"context"
	"fmt"
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

// Package conversation is the verbs of jp conversation, a file each.
package conversation

import (
	"context"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"jp/cmd/jp/internal/command"
	"jp/cmd/jp/internal/console"
	"jp/cmd/jp/internal/enabled"
	"jp/cmd/jp/internal/exit"
	"jp/cmd/jp/internal/review"
	"jp/cmd/jp/internal/run"
	"jp/cmd/jp/internal/workspace"
	"jp/convstore"
	"jp/profiles"
)

// Group is what the verbs of jp conversation share.
type Group struct {
	Con   *console.Console
	WS    *workspace.Workspace
	Env   *run.Env
	Tree  *command.Tree
	Guest *run.Guest // set in a jp inside a tool, else nil
}

// New returns the command `jp conversation`.
func New(g *Group) *cli.Command {
	return g.Tree.Command(command.Spec{
		Name: "conversation", Aliases: []string{"c"},
		Summary: "make, list, read, search, change and remove conversations",
		About: "Conversations are named by their id (jp-c17543982411), or by . or active (this terminal's active one), previous " +
			"(the one before), recent (latest activity) and newest (made last), by the last three or more digits of the id, by the " +
			"title or by a part of it that no other has. - reads ids from stdin, also in lines of ls, but not of its --tree.",
		Subs: []*cli.Command{
			newNewCommand(g), newForkCommand(g), newListCommand(g), newShowCommand(g), newPrintCommand(g), newGrepCommand(g),
			newRemoveCommand(g), newEditCommand(g), newUseCommand(g), newArchiveCommand(g), newUnarchiveCommand(g), newTreeCommand(g),
			newCompactCommand(g), newExportCommand(g), newImportCommand(g),
		},
	})
}

// createFlags are the flags of commands that make conversations.
type createFlags struct {
	Hidden bool
	Title  command.Maybe[string]
	Tmp    command.Maybe[time.Duration]
}

func (f *createFlags) Options() []*command.Option {
	return []*command.Option{
		command.Bool(&f.Hidden, "hidden", "hide it from listings"),
		command.Text(&f.Title, "title", "T", "its title"),
		command.DurationMaybe(&f.Tmp, "tmp", "DURATION", workspace.DefaultTmp, "let it expire after DURATION (default: one day); the first jp query after that removes it"),
	}
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

// configured is a conversation's config with the metadata that depends on it.
type configured struct {
	convstore.Config
	Profile, ProfileArg, ProfileHash, Model string
	had                                     []convstore.Allowance // see review.Has
}

// Configure resolves the config of a conversation that is made, or forked from another with this
// stored config. Of a source with a grant only the granted tools stay.
func (g *Group) Configure(ctx context.Context, stored []byte, from convstore.Conversation, ds []profiles.Directive) (configured, error) {
	src, err := g.WS.Sources(ctx, ds)
	if err != nil {
		return configured{}, err
	}
	src.Stored = stored
	r, err := g.WS.Config(src, ds, nil)
	if err != nil {
		return configured{}, err
	}
	if from.Grant != nil {
		for _, name := range r.Cut(from.Grant.Tools) {
			g.Con.Warn("tool %s: not granted to the source, left out", name)
		}
	}
	model, err := r.Config.RequireModel()
	if err != nil {
		return configured{}, err
	}
	defs, err := g.Env.DefinitionsOf(ctx, r, from)
	if err != nil {
		return configured{}, err
	}
	had, err := review.Has(ctx, g.WS, r, defs)
	if err != nil {
		return configured{}, err
	}
	return configured{
		Config:  convstore.Config{JSON: r.Stored(), Tools: enabled.Names(defs)},
		Profile: r.Profile, ProfileArg: r.ProfileArg, ProfileHash: r.ProfileHash, Model: model, had: had,
	}, nil
}

// openStore opens the store and finds the conversations that the words name.
func (g *Group) openStore(ctx context.Context, words []string) (*convstore.Store, []convstore.ID, error) {
	st, err := g.WS.Store(ctx)
	if err != nil {
		return nil, nil, err
	}
	ids, err := g.WS.Targets(ctx, words)
	return st, ids, err
}

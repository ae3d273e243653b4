package cli

import (
	"bufio"
	"context"
	"fmt"
	"strings"

	"github.com/urfave/cli/v2"

	"jp/cmd/jp/internal/command"
	"jp/cmd/jp/internal/console"
	"jp/cmd/jp/internal/exit"
	"jp/cmd/jp/internal/term"
	"jp/cmd/jp/internal/workspace"
	"jp/profiles"
	"jp/tools/unseen"
)

func newConfigCommand(a *app) *cli.Command {
	return a.tree.Command(command.Spec{
		Name: "config", Summary: "show, explain and change the config",
		About: "What an agent of this workspace is and can do, resolved from all layers.",
		Subs:  []*cli.Command{newConfigShowCommand(a), newConfigExplainCommand(a), newConfigSetCommand(a), newConfigFormatCommand(a)},
	})
}

type configOptions struct {
	id         command.Maybe[string]
	directives []profiles.Directive
	all        bool
}

// configShown is the resolved config as `config show` publishes it.
type configShown struct {
	Workspace string           `json:"workspace"`
	Layers    []profiles.Layer `json:"layers"`
	Settings  []profiles.Value `json:"settings"`
}

func newConfigShowCommand(a *app) *cli.Command {
	var o configOptions
	flags := append([]*command.Option{
		command.String(&o.id, "id", "TARGET", "the config of this conversation").Alias("i"),
		command.Bool(&o.all, "all", "also what nobody set, with its default"),
	}, workspace.ConfigFlags(&o.directives)...)
	return a.tree.Command(command.Spec{
		Name: "show", Paged: true, Summary: "show every setting and where it comes from",
		About: "A line for each setting: key = value, then the file and line, variable or flag that gave it. JSON formats give the " +
			"layers too, and all settings.",
		Flags:    flags,
		Exits:    []exit.Status{exit.NotFound, exit.Busy},
		Examples: []string{"jp config show --cfg agent/researcher", "jp config show --id . -F json"},
		Run:      func(ctx context.Context, _ []string) error { return runConfigShow(ctx, a, o) },
	})
}

func runConfigShow(ctx context.Context, a *app, o configOptions) error {
	root, err := a.ws.Root()
	if err != nil {
		return err
	}
	r, err := a.ws.ConfigOf(ctx, o.id, o.directives)
	if err != nil {
		return err
	}
	s := configShown{Workspace: root, Layers: r.Layers, Settings: r.Keys()}
	if a.con.JSON() {
		return a.con.Document(s)
	}
	return a.con.Text(func(w *bufio.Writer) error {
		for _, v := range s.Settings {
			if o.all || !v.Default {
				a.writeValue(w, v)
			}
		}
		return nil
	})
}

// writeValue writes one setting: key = value, origin. Values of people and profiles are data: JSON keeps them on one line.
func (a *app) writeValue(w *bufio.Writer, v profiles.Value) {
	text := "unset"
	if v.Value != nil {
		if b, err := console.EncodeJSON(v.Value, false); err == nil {
			text = strings.TrimSuffix(string(b), "\n")
		}
	}
	origin := "default"
	if !v.Default {
		origin = a.ws.Relative(v.Origin.String())
	}
	line := unseen.Spell(fmt.Sprintf("%s = %s", v.Key, text))
	comment := "  # " + unseen.Spell(origin)
	if a.con.Pretty() && a.con.IO.Width > 0 {
		line = term.Cut(line, max(a.con.IO.Width-term.Width(comment), 20), a.con.IO.UTF8)
	}
	fmt.Fprintln(w, line+comment)
}

package config

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

type configOptions struct {
	id         command.Maybe[string]
	directives []profiles.Directive
	all        bool
}

// configShown is the JSON form of the resolved config.
type configShown struct {
	Workspace string           `json:"workspace"`
	Layers    []profiles.Layer `json:"layers"`
	Settings  []profiles.Value `json:"settings"`
}

func newShowCommand(g *Group) *cli.Command {
	var o configOptions
	flags := append([]*command.Option{
		command.String(&o.id, "id", "TARGET", "the config of this conversation").Alias("i"),
		command.Bool(&o.all, "all", "also settings that nobody set, with their defaults"),
	}, workspace.ConfigFlags(&o.directives)...)
	return g.Tree.Command(command.Spec{
		Name: "show", Paged: true, Summary: "show every setting and where it comes from",
		About: "Each setting is a line: key = value, then the file and line, variable or flag that " +
			"set it. JSON formats print all settings and all layers.",
		Flags:    flags,
		Exits:    []exit.Status{exit.NotFound, exit.Busy, exit.Refused},
		Examples: []string{"jp config show --cfg agent/researcher", "jp config show --id . -F json"},
		Run:      func(ctx context.Context, _ []string) error { return runShow(ctx, g, o) },
	})
}

func runShow(ctx context.Context, g *Group, o configOptions) error {
	root, err := g.WS.Root()
	if err != nil {
		return err
	}
	r, err := g.WS.ConfigOf(ctx, o.id, o.directives)
	if err != nil {
		return err
	}
	s := configShown{Workspace: root, Layers: r.Layers, Settings: r.Keys()}
	if g.Con.JSON() {
		return g.Con.Document(s)
	}
	return g.Con.Text(func(w *bufio.Writer) error {
		for _, v := range s.Settings {
			if o.all || !v.Default {
				g.writeValue(w, v)
			}
		}
		return nil
	})
}

// valueMin is the least that is seen of a value on a screen; else where it is set goes below it,
// and it below its key.
const valueMin = 12

// writeValue writes one setting: key = value, origin. Values are written as JSON, so that each is
// on one line.
func (g *Group) writeValue(w *bufio.Writer, v profiles.Value) {
	text := "unset"
	if v.Value != nil {
		if b, err := console.EncodeJSON(v.Value, false); err == nil {
			text = strings.TrimSuffix(string(b), "\n")
		}
	}
	origin := "default"
	if !v.Default {
		origin = g.WS.Relative(v.Origin.String())
	}
	line := unseen.Spell(v.Key + " = " + text)
	comment := "  # " + unseen.Spell(origin)
	if g.Con.Pretty() && g.Con.IO.Width > 0 {
		width, room, key := g.Con.IO.Width, g.Con.IO.Width-term.Width(comment), unseen.Spell(v.Key)+" = "
		switch least := min(term.Width(line), term.Width(key)+valueMin); {
		case least <= room:
			line = term.Cut(line, room, g.Con.IO.UTF8)
		case least <= width:
			line, comment = term.Cut(line, width, g.Con.IO.UTF8), "\n"+comment
		default:
			line, comment = strings.TrimSuffix(key, " ")+"\n  "+term.Cut(unseen.Spell(text), max(width-2, valueMin), g.Con.IO.UTF8), "\n"+comment
		}
	}
	fmt.Fprintln(w, line+comment)
}

package config

import (
	"context"

	"github.com/urfave/cli/v2"

	"jp/cmd/jp/internal/command"
	"jp/cmd/jp/internal/exit"
	"jp/cmd/jp/internal/term"
	"jp/cmd/jp/internal/wording"
	"jp/profiles"
)

func newProfileListCommand(g *Group) *cli.Command {
	return g.Tree.Command(command.Spec{
		Name: "ls", Paged: true, Summary: "list the profiles that --cfg finds by name",
		About: "In a pipe it prints tab-separated lines: name, source (workspace, user or builtin), " +
			"value for --cfg, and the word shadowed if another profile hides it.",
		Exits:    []exit.Status{exit.NotFound},
		Examples: []string{"jp profile ls -F json"},
		Run:      func(ctx context.Context, _ []string) error { return runProfileList(ctx, g) },
	})
}

func runProfileList(ctx context.Context, g *Group) error {
	src, _, err := g.Review.Sources(ctx)
	if err != nil {
		return err
	}
	found, err := profiles.Names(src)
	if err != nil {
		return err
	}
	if g.Con.JSON() {
		return g.Con.Document(wording.Either(found == nil, []profiles.Profile{}, found))
	}
	rows := make([][]string, len(found))
	for i, p := range found {
		if g.Con.Pretty() {
			p.Arg = g.WS.Relative(p.Arg)
		}
		rows[i] = []string{p.Name, p.Source, p.Arg, wording.Either(p.Shadowed, "shadowed", "")}
	}
	return g.Con.Table([]term.Column{{Title: "name"}, {Title: "source"}, {Title: "file", Flex: true}, {Title: "", Drop: 1}}, rows)
}

package config

import (
	"context"

	"github.com/urfave/cli/v2"

	"jp/cmd/jp/internal/command"
	"jp/cmd/jp/internal/exit"
	"jp/cmd/jp/internal/lint"
)

// NewCheck is jp check.
func NewCheck(g *Group) *cli.Command {
	return g.Tree.Command(command.Spec{
		Name: "check", Summary: "find out whether a query would start here, and what is wrong with config, profiles and tools",
		About: "Everything that `jp profile check` and `jp tool check` look at, and then a query, as far as its first request to the " +
			"model: the config of all layers, the model and its key, every tool, the profiles that it may name. A line for each " +
			"finding: file:line: key: reason. No finding, status 0: `jp query` would start. Status 2 says that there are findings.\n\n" +
			"Nothing is asked, changed or sent, and no program of a tool or server is run: of an MCP server that was never used, the " +
			"check says that its tools are not known yet.",
		Exits:    []exit.Status{exit.NotFound, exit.Refused},
		Examples: []string{"jp check", "jp check -F json"},
		Run:      func(ctx context.Context, _ []string) error { return runCheck(ctx, g) },
	})
}

func runCheck(ctx context.Context, g *Group) error {
	l, err := lint.New(ctx, g.WS, g.Env, g.Review)
	if err != nil {
		return err
	}
	l.Agents()
	l.AllTools()
	for _, err := range g.Env.Startable(ctx) {
		l.AddStart(err)
	}
	return l.Report(g.Con)
}

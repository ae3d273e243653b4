package config

import (
	"context"

	"github.com/urfave/cli/v2"

	"jp/cmd/jp/internal/command"
	"jp/cmd/jp/internal/exit"
	"jp/cmd/jp/internal/lint"
)

// NewCheck returns the command `jp check`.
func NewCheck(g *Group) *cli.Command {
	return g.Tree.Command(command.Spec{
		Name: "check", Summary: "find out whether a query would start here, and check config, profiles and tools",
		About: "Checks everything that `jp profile check` and `jp tool check` check. Then it " +
			"prepares a query up to its first request to the model: a new one, and one that " +
			"continues the terminal's active conversation. This checks the config of all layers, " +
			"models and their keys, every tool, skills, the entries of MCP servers, the profiles " +
			"that the query may name, and the files that JP_RECORD and JP_REPLAY name. Each finding is a line: file:line: key: " +
			"reason. Without a finding the status is 0, and `jp query` would start. Status 2 means " +
			"that there are findings.\n\n" +
			"It asks, changes and sends nothing, and runs no program of a tool or server. If an " +
			"MCP server was never used, a finding says that its tools are not known yet.",
		Exits:    []exit.Status{exit.NotFound, exit.Refused},
		Examples: []string{"jp check", "jp check -F json"},
		Run:      func(ctx context.Context, _ []string) error { return runCheck(ctx, g) },
	})
}

func runCheck(ctx context.Context, g *Group) error {
	src, judged, err := g.Review.Judged(ctx) // Startable says whether it is trusted
	if err != nil {
		return err
	}
	l := lint.New(ctx, g.WS, g.Env, src, judged.Files)
	l.All(ctx)
	return l.Report(g.Con, "nothing is wrong, and a query would start")
}

package config

import (
	"context"

	"github.com/urfave/cli/v2"

	"jp/cmd/jp/internal/command"
	"jp/cmd/jp/internal/exit"
	"jp/cmd/jp/internal/lint"
)

func newProfileCheckCommand(g *Group) *cli.Command {
	return g.Tree.Command(command.Spec{
		Name: "check", Summary: "find what is wrong with profiles", Args: "[FILE...]", Max: -1,
		About: "Reads the given files, or the workspace's config and all its profiles. It runs " +
			"nothing that they name, and the workspace need not be trusted. Each finding is a " +
			"line: file:line: key: reason.\n\n" +
			"It finds every mistake that would stop loading. It also finds what the author may " +
			"not have meant: a profile that does not reset the layers before it, no model or an " +
			"unknown one, a tool that asks where nobody can answer, files written without a " +
			"question, paths outside the workspace, open network, variables that look like " +
			"secrets, and profiles that do not exist. Status 2 means that there are findings.",
		Exits:    []exit.Status{exit.NotFound, exit.Refused},
		Examples: []string{"jp profile check", "jp profile check .jp/config/agent/researcher.toml -F json"},
		Run:      func(ctx context.Context, args []string) error { return runProfileCheck(ctx, g, args) },
	})
}

func runProfileCheck(ctx context.Context, g *Group, args []string) error {
	src, files, err := g.Review.Sources(ctx)
	if err != nil {
		return err
	}
	l := lint.New(ctx, g.WS, g.Env, src, files)
	if len(args) == 0 {
		l.Agents()
	}
	for _, arg := range args {
		if err := l.Profile(arg); err != nil {
			return err
		}
	}
	return l.Report(g.Con, "nothing is wrong")
}

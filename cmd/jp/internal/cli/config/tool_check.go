package config

import (
	"context"

	"github.com/urfave/cli/v2"

	"jp/cmd/jp/internal/command"
	"jp/cmd/jp/internal/exit"
	"jp/cmd/jp/internal/lint"
	"jp/cmd/jp/internal/workspace"
	"jp/profiles"
)

func newToolCheckCommand(g *Group) *cli.Command {
	var directives []profiles.Directive
	return g.Tree.Command(command.Spec{
		Name: "check", Summary: "find what is wrong with tools",
		About: "Reads the definitions in .jp/tools, and the tools that the workspace's config and " +
			"its profiles enable. It runs no tool, and the workspace need not be trusted. A " +
			"config, profile or specializations.ini that cannot be read is a finding too. Each " +
			"finding is a line: file:line: tool NAME: key: reason. Status 2 means that there are " +
			"findings. With --cfg it checks only the tools that this config enables.",
		Flags:    workspace.ConfigFlags(&directives),
		Exits:    []exit.Status{exit.NotFound, exit.Refused},
		Examples: []string{"jp tool check", "jp tool check -F json", "jp tool check --cfg agent/researcher"},
		Run:      func(ctx context.Context, _ []string) error { return runToolCheck(ctx, g, directives) },
	})
}

func runToolCheck(ctx context.Context, g *Group, directives []profiles.Directive) error {
	src, files, err := g.Review.Sources(ctx)
	if err != nil {
		return err
	}
	l := lint.New(ctx, g.WS, g.Env, src, files)
	if len(directives) == 0 {
		l.AllTools()
	} else if err := l.ToolsUnder(directives); err != nil {
		return err
	}
	return l.Report(g.Con, "nothing is wrong")
}

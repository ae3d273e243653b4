package care

import (
	"context"

	"github.com/urfave/cli/v2"

	"jp/cmd/jp/internal/command"
)

// NewHelp returns the command `jp help COMMAND...`, the same as `jp COMMAND... --help`.
func NewHelp(g *Group) *cli.Command {
	return g.Tree.Command(command.Spec{
		Name: "help", Paged: true, Summary: "show what a command does", Args: "[COMMAND...]", Max: -1,
		Examples: []string{"jp help conversation ls"},
		Run: func(_ context.Context, args []string) error {
			path, err := g.Tree.CommandPath(args)
			if err != nil {
				return err
			}
			return g.Tree.Help(g.Con.IO.Out, g.Con.IO.Width, path)
		},
	})
}

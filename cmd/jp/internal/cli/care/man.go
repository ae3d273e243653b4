package care

import (
	"context"
	"io"

	"github.com/urfave/cli/v2"

	"jp/cmd/jp/internal/command"
	"jp/cmd/jp/internal/version"
)

// NewMan returns the command `jp man`.
func NewMan(g *Group) *cli.Command {
	return g.Tree.Command(command.Spec{
		Name: "man", Summary: "print the manual page", Args: "[COMMAND...]", Max: -1,
		About: "Prints the page of jp with all its commands, or the page of one command, in the " +
			"format that man reads. It has the same text as --help.",
		Examples: []string{
			"jp man > ~/.local/share/man/man1/jp.1",
			"jp man conversation grep | man -l -",
		},
		Run: func(_ context.Context, args []string) error {
			path, err := g.Tree.CommandPath(args)
			if err != nil {
				return err
			}
			v := version.OfBuild()
			_, err = io.WriteString(g.Con.IO.Out, g.Tree.Manual(path, v.Version, v.Day))
			return err
		},
	})
}

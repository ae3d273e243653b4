package mcp

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/urfave/cli/v2"

	"jp/cmd/jp/internal/command"
	"jp/cmd/jp/internal/exit"
	"jp/cmd/jp/internal/servers"
	"jp/cmd/jp/internal/term"
	"jp/cmd/jp/internal/trust"
)

func newList(g *Group) *cli.Command {
	return g.Tree.Command(command.Spec{
		Name: "ls", Summary: "list the MCP servers that tools may name",
		About: "In a pipe it prints tab-separated lines: name, status, number of approved tools, " +
			"file that names it, command or address, sandbox (off: the program can do everything " +
			"that you can do).",
		Exits:    []exit.Status{exit.NotFound, exit.Refused},
		Examples: []string{"jp mcp ls", "jp mcp ls -F json"},
		Run: func(ctx context.Context, _ []string) error {
			if _, err := g.Env.WS.Gate.Pass(ctx); err != nil {
				return err
			}
			all, err := g.Env.Servers.All(ctx)
			if err != nil {
				return err
			}
			if g.Env.Servers.FileErr != nil {
				g.Env.Con.Warn("%s: %v", trust.MCPFile, g.Env.Servers.FileErr)
			}
			list := []servers.Shown{}
			rows := [][]string{}
			for _, name := range slices.Sorted(maps.Keys(all)) {
				v, err := g.Env.Servers.Show(ctx, name, all[name])
				if err != nil {
					return err
				}
				list = append(list, v)
				rows = append(rows, []string{v.Name, v.Status, fmt.Sprint(len(v.Tools)), v.Origin, cmp.Or(v.Problem, v.Address), cmp.Or(v.Sandbox, "-")})
			}
			if g.Env.Con.JSON() {
				return g.Env.Con.Document(list)
			}
			if len(rows) == 0 {
				g.Env.Con.Note("no MCP servers")
				return nil
			}
			return g.Env.Con.Table([]term.Column{{Title: "name"}, {Title: "status"}, {Title: "tools", Right: true}, {Title: "named in"}, {Title: "reached by", Flex: true, Drop: 1}, {Title: "sandbox"}}, rows)
		},
	})
}

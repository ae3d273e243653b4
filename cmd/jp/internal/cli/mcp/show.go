package mcp

import (
	"context"
	"fmt"
	"strings"

	"github.com/urfave/cli/v2"

	"jp/cmd/jp/internal/command"
	"jp/cmd/jp/internal/exit"
	"jp/cmd/jp/internal/servers"
	"jp/tools/unseen"
)

func newShow(g *Group) *cli.Command {
	return g.Tree.Command(command.Spec{
		Name: "show", Summary: "show an MCP server and its approved tools", Args: "SERVER", Min: 1, Max: 1,
		About: "Shows its command or address, the variables that it gets, and its tools as you " +
			"approved them. Starts nothing.",
		Exits:    []exit.Status{exit.NotFound, exit.Refused},
		Examples: []string{"jp mcp show files", "jp mcp show files -F json | jq '.tools[].name'"},
		Run: func(ctx context.Context, args []string) error {
			if _, err := g.Env.WS.Gate.Pass(ctx); err != nil {
				return err
			}
			all, err := g.Env.Servers.All(ctx)
			if err != nil {
				return err
			}
			s, ok := all[args[0]]
			if !ok {
				_, err := g.Env.Servers.Find(ctx, args[0])
				return err
			}
			return g.write(ctx, args[0], s)
		},
	})
}

// write writes one server to stdout.
func (g *Group) write(ctx context.Context, name string, s servers.Server) error {
	v, err := g.Env.Servers.Show(ctx, name, s)
	if err != nil {
		return err
	}
	if g.Env.Con.JSON() {
		return g.Env.Con.Document(v)
	}
	var b strings.Builder
	b.WriteString(v.Text())
	for _, t := range v.Tools {
		fmt.Fprintf(&b, "\n%s\n%s", unseen.Spell(t.Name), servers.Marked("  ", t.Description))
	}
	if len(v.Tools) > 0 {
		t := v.Tools[0]
		fmt.Fprintf(&b, "\nThis enables one for an agent:\n  [conversation.tools.%s]\n  source = \"mcp.%s.%s\"\n", toolNameFor(name, t.Name), name, unseen.Spell(t.Name))
	}
	return g.Env.Con.LaidOut(b.String())
}

// toolNameFor returns a name for a tool of a server that providers accept.
func toolNameFor(server, tool string) string {
	name := strings.Map(func(r rune) rune {
		if r < 128 && (r == '_' || r == '-' || r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z') {
			return r
		}
		return '_'
	}, server+"_"+tool)
	return name[:min(len(name), 64)]
}

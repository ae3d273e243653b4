// Package mcp has the commands of `jp mcp`. They list, show and approve MCP servers, and serve jp
// as one. Package servers describes a server; the wire is in cmd/jp/internal/mcp.
package mcp

import (
	"github.com/urfave/cli/v2"

	"jp/cmd/jp/internal/command"
	"jp/cmd/jp/internal/run"
)

// Group has what the commands share.
type Group struct {
	Env  *run.Env
	Tree *command.Tree
}

// New returns the command `jp mcp`.
func New(g *Group) *cli.Command {
	return g.Tree.Command(command.Spec{
		Name: "mcp", Summary: "use tools of MCP servers, or serve as one",
		About: "Servers are in your config.toml below [providers.mcp.<name>], or in a workspace's " +
			".mcp.json. An agent has a tool of a server if its config enables it: with a table " +
			"[conversation.tools.<name>] that has source = \"mcp.<server>\".",
		Subs: []*cli.Command{newList(g), newShow(g), newApprove(g), newServe(g)},
	})
}

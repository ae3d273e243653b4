// Package mcp is the verbs of jp mcp: the servers that tools may be of, listed, shown and approved,
// and jp as such a server. What they say of a server comes from package servers; the wire is the
// other package of this name.
package mcp

import (
	"github.com/urfave/cli/v2"

	"jp/cmd/jp/internal/command"
	"jp/cmd/jp/internal/run"
)

// Group is what the verbs share.
type Group struct {
	Env  *run.Env
	Tree *command.Tree
}

// New is jp mcp.
func New(g *Group) *cli.Command {
	return g.Tree.Command(command.Spec{
		Name: "mcp", Summary: "use tools of MCP servers, or serve as one",
		About: "Servers are in your config.toml below [providers.mcp.<name>], or in a workspace's " +
			".mcp.json. An agent has a tool of a server if its config enables it: with a table " +
			"[conversation.tools.<name>] that has source = \"mcp.<server>\".",
		Subs: []*cli.Command{newList(g), newShow(g), newApprove(g), newServe(g)},
	})
}

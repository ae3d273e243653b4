// Package mcp is the verbs of jp mcp, but for serve, which runs delegations: the servers that tools
// may be of, listed, shown and approved. What they say of a server comes from package servers.
package mcp

import (
	"github.com/urfave/cli/v2"

	"jp/cmd/jp/internal/command"
	"jp/cmd/jp/internal/console"
	"jp/cmd/jp/internal/servers"
	"jp/cmd/jp/internal/workspace"
)

// Group is what the verbs share.
type Group struct {
	Con     *console.Console
	WS      *workspace.Workspace
	Tree    *command.Tree
	Servers *servers.Set
}

// New is jp mcp; serves is its verb that runs delegations.
func New(g *Group, serves *cli.Command) *cli.Command {
	return g.Tree.Command(command.Spec{
		Name: "mcp", Summary: "use tools of MCP servers, and be one",
		About: "Servers stand in your config.toml below [providers.mcp.<name>], or in a workspace's .mcp.json. An agent holds a tool of " +
			"one when its config enables it: a table [conversation.tools.<name>] with source = \"mcp.<server>\".",
		Subs: []*cli.Command{newList(g), newShow(g), newApprove(g), serves},
	})
}

package servers

import (
	"context"
	"errors"
	"strings"

	"jp/cmd/jp/internal/mcp"
	"jp/profiles"
	"jp/tools"
	"jp/tools/proc"
)

// reachOf returns what an entry of [providers.mcp] lets its program reach; nil = unconfined.
func reachOf(name string, s profiles.MCPServer) (*mcp.Reach, error) {
	table := map[string]any{}
	if s.Access != nil {
		table["access"] = s.Access
	}
	if s.Network != "" {
		table["network"] = s.Network
	}
	if s.Sandbox != "" {
		table["sandbox"] = s.Sandbox
	}
	if len(table) == 0 {
		return nil, nil
	}
	d, err := tools.DecodeReach(name, table)
	if wrong := (*tools.DefinitionError)(nil); errors.As(err, &wrong) {
		return nil, errors.New(wrong.Key + ": " + wrong.Msg)
	}
	if err != nil || d.Sandbox == tools.SandboxOff {
		return nil, err
	}
	return &mcp.Reach{FS: d.Reach(), Network: d.Network, Sandbox: d.Sandbox}, nil
}

// OnlyConfines reports whether an entry of [providers.mcp] has no server of its own, and only says
// what a server of .mcp.json may reach.
func OnlyConfines(s profiles.MCPServer) bool {
	return s.Command == "" && s.URL == "" && len(s.Args)+len(s.Env)+len(s.Headers) == 0 && (s.Access != nil || s.Network+s.Sandbox != "")
}

// confine returns the sandbox of a server. It refuses everything that it would refuse to a
// sub-agent's tool, because no person watches a server.
func (u *Set) confine(ctx context.Context, name string, r mcp.Reach) (*proc.Confine, error) {
	if err := u.ws.FindStore(ctx); err != nil { // so that its folder is closed to the server
		return nil, err
	}
	box, can, err := u.ws.CommandEnv(nil, nil).Box(r.Definition())
	if err != nil {
		return nil, err
	}
	missing := strings.Join(box.Missing(can), ", ")
	switch {
	case !can.Files():
		return nil, errors.New("it is to be confined, and this system cannot enforce " + missing)
	case missing != "":
		u.con.Warn("MCP server %s runs with less of a sandbox than it asks for: this system cannot enforce %s", name, missing)
	}
	return box, nil
}

package editor

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"jp/cmd/jp/internal/acp"
	"jp/cmd/jp/internal/exit"
	"jp/cmd/jp/internal/mcp"
	"jp/cmd/jp/internal/model"
	"jp/cmd/jp/internal/run"
	"jp/cmd/jp/internal/servers"
	"jp/cmd/jp/internal/toolcall"
	"jp/cmd/jp/internal/wording"
	"jp/tools"
)

// Bounds of the MCP servers that an editor may pass for a session, which keeps them.
const (
	maxEditorServers = 64
	maxEditorEntries = 256 << 10 // bytes of all their entries
)

// serversOf sets the MCP servers that the editor passes. They are like those of a workspace's
// .mcp.json: jp starts one when a tool that the config enables needs it and a person has approved
// it. A warning names each server that is left out.
func (s *session) serversOf(ctx context.Context, own *run.Env, setup acp.Setup) error {
	if len(setup.Servers) == 0 {
		return nil
	}
	if len(setup.Servers) > maxEditorServers {
		return acp.Paramsf("mcpServers: more than %d", maxEditorServers)
	}
	if b, err := json.Marshal(setup.Servers); err != nil || len(b) > maxEditorEntries {
		return acp.Paramsf("mcpServers: more than %d KiB", maxEditorEntries>>10)
	}
	root, err := own.WS.Root()
	if err != nil {
		return err
	}
	known, err := own.Servers.All(ctx)
	if err != nil {
		return err
	}
	s.servers = map[string]servers.Server{}
	machine, err := own.WS.Machine()
	if err != nil {
		return err
	}
	for _, m := range setup.Servers {
		e := editorServer(m, root)
		have, taken := known[e.Server.Name]
		taken = taken && !(have.Own && servers.OnlyConfines(machine.Providers.MCP[e.Server.Name])) // an entry of the config that only confines has no server yet
		if _, twice := s.servers[e.Server.Name]; twice {
			e.Err = errors.New("two servers have this name")
		}
		switch {
		case e.Err != nil:
			own.Con.Warn("MCP server %q of the editor: left out: %v", e.Server.Name, e.Err)
		case taken && have.Err == nil && same(have.Server, e.Server): // they are the same server
		case taken:
			own.Con.Warn("MCP server %q of the editor: left out: %s has another server of this name", e.Server.Name, have.Origin)
		default:
			s.servers[e.Server.Name] = servers.Server{Entry: e, Origin: servers.OfEditor}
		}
	}
	return nil
}

// same reports whether two entries name the same server, whatever their sandbox is.
func same(a, b mcp.Server) bool {
	a.Reach, b.Reach = nil, nil
	return a.Digest() == b.Digest()
}

// editorServer converts a server of the protocol into an entry of jp; e.Err says what is wrong.
func editorServer(m acp.MCPServer, root string) mcp.Entry {
	pairs := func(list []acp.Pair) map[string]string {
		all := map[string]string{}
		for _, p := range list {
			all[p.Name] = p.Value
		}
		return all
	}
	e := mcp.Entry{Server: mcp.Server{Name: m.Name, Command: m.Command, Args: m.Args, Env: pairs(m.Env), URL: m.URL, Headers: pairs(m.Headers)}}
	if m.Command != "" {
		e.Server.Dir = root
	}
	texts := slices.Concat([]string{m.Command, m.URL}, m.Args, slices.Collect(maps.Values(e.Server.Env)), slices.Collect(maps.Values(e.Server.Headers)))
	switch {
	case m.Type != "" && m.Type != "stdio" && m.Type != "http":
		e.Err = fmt.Errorf("type %q is not supported", m.Type)
	case (m.Type == "http") != (m.URL != ""):
		e.Err = errors.New("type stdio needs a command, type http a url")
	case slices.ContainsFunc(texts, func(text string) bool { return strings.Contains(text, "${") }):
		e.Err = errors.New("holds ${, which jp would read as the name of a variable")
	default:
		e.Err = e.Server.Check()
	}
	return e
}

// approve asks the editor's user whether jp may start an MCP server of the editor. With a list it
// asks whether agents may use these tools. See [servers.Set] for started.
func (v *view) approve(ctx context.Context, server servers.Server, list []mcp.Tool) (started func(error), err error) {
	shown, err := v.env.Servers.Show(ctx, server.Server.Name, server)
	if err != nil {
		return nil, err
	}
	call := acp.ToolCall{
		Kind: acp.NewCall, ID: model.CallOfServer + server.Server.Name, Title: toolcall.Line("start MCP server "+server.Server.Name+":", server.Server.Address()),
		ToolKind: acp.KindExecute, Status: acp.Pending, Content: []acp.CallContent{acp.TextContent(shown.Text())},
	}
	yesText := "Start it and look at its tools"
	if list != nil {
		text := servers.ToolsText(list)
		if len(text) > toolcall.MaxShown {
			return nil, exit.Refusedf("MCP server %s of the editor: its tools are too long to be shown whole: %d KiB, more than %d", server.Server.Name, len(text)>>10, toolcall.MaxShown>>10)
		}
		call.ID, call.Title = call.ID+"-tools", toolcall.Line("let agents use the tools of MCP server", server.Server.Name)
		call.ToolKind, call.Content, yesText = acp.KindOther, []acp.CallContent{acp.TextContent(text)}, "Let agents use these tools"
	}
	v.client.Tell(call)
	chosen, err := v.client.Permit(ctx, call, []acp.Option{
		{ID: allow, Name: yesText, Kind: acp.AllowAlways}, {ID: deny, Name: "No", Kind: acp.RejectOnce},
	})
	yes := err == nil && chosen == allow
	tell := func(s acp.CallStatus) { v.client.Tell(acp.ToolCall{Kind: acp.Change, ID: call.ID, Status: s}) }
	switch {
	case !yes:
		tell(acp.Failed)
	case list != nil:
		tell(acp.Completed)
	default:
		tell(acp.InProgress)
	}
	if err == nil && !yes || errors.Is(err, acp.ErrUnable) || errors.Is(err, acp.ErrAnswer) {
		return nil, &exit.Error{Code: "untrusted", Status: exit.Refused, Msg: fmt.Sprintf("MCP server %s of the editor: not approved", server.Server.Name)}
	}
	return func(err error) { tell(wording.Either(err == nil, acp.Completed, acp.Failed)) }, err
}

// unused reports, once for a session, the servers of the editor of which the agent has no tool.
func (s *session) unused(own *run.Env, set tools.Set) {
	if s.reported {
		return
	}
	s.reported = true
	used := map[string]bool{}
	for t := range set.All() {
		if server, ok := t.MCP(); ok {
			used[server] = true
		}
	}
	for _, name := range slices.Sorted(maps.Keys(s.servers)) {
		if !used[name] {
			own.Con.Note("MCP server %s of the editor: not started: the agent has none of its tools; a table [conversation.tools.<name>] with source = \"mcp.%s.<tool>\" enables one", name, name)
		}
	}
}

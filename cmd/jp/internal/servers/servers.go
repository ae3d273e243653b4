// Package servers has the MCP servers that the tools of one workspace may use: those of the user's
// config, those of the workspace's .mcp.json if it is trusted, and those of an editor.
//
// A Set reads and starts nothing until an agent has a tool of a server. Each sub-agent has a Set of
// its own, in the process of the root. A person approves a server with its tools. The record of the
// approval is beside the workspace's record of trust. Each tool is pinned to the record: if the
// server later describes the tool in another way, the tool is not offered. A server in the user's
// own config needs no approval. Reach is what a tool or a server can reach when it runs; every page
// about a sandbox uses it. Shown is the published form of a server. The texts in shown.go are what
// a person reads before an approval.
package servers

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"

	"jp/cmd/jp/internal/command"
	"jp/cmd/jp/internal/console"
	"jp/cmd/jp/internal/exit"
	"jp/cmd/jp/internal/mcp"
	"jp/cmd/jp/internal/trust"
	"jp/cmd/jp/internal/version"
	"jp/cmd/jp/internal/workspace"
	"jp/tools"
	"jp/tools/environ"
	"jp/tools/proc"
	"jp/tools/unseen"
)

// OfEditor is the origin of an MCP server that an editor names.
const OfEditor = "the editor"

// Set holds the MCP servers of a workspace that this process knows and has started. It is safe for
// concurrent use.
type Set struct {
	con *console.Console
	ws  *workspace.Workspace

	mu      sync.Mutex
	servers map[string]Server // nil = not read yet
	FileErr error             // mistake that makes .mcp.json unreadable as a whole; nil = none, or not read yet
	host    *proc.Host        // host of their processes
	clients map[string]*mcp.Client

	Editor map[string]Server // servers of the editor; set before first use
	Look   bool              // do not start servers; tools without a record are unknown
	// Approve asks a person about a server of the editor: first, with a nil list, whether it may be
	// started; then whether its tools may be used. Of a server that may be started, started is called
	// with what came of it. nil = nobody can be asked.
	Approve func(ctx context.Context, s Server, list []mcp.Tool) (started func(error), err error)
}

// New returns the MCP servers of a workspace. It reads and starts nothing.
func New(con *console.Console, ws *workspace.Workspace) *Set {
	return &Set{con: con, ws: ws}
}

// Server is a server that tools may name.
type Server struct {
	mcp.Entry
	Origin string // "config.toml", ".mcp.json" or OfEditor
	Own    bool   // whether it is in the user's own config, and so needs no approval
}

// All returns the servers of the user's config and those of the workspace's .mcp.json, if it is
// trusted. The user's config may confine the latter.
func (u *Set) All(ctx context.Context) (map[string]Server, error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.servers != nil {
		return u.servers, nil
	}
	root, err := u.ws.Root()
	if err != nil {
		return nil, err
	}
	data := u.ws.Gate.MCPServers()
	all, confines, fileErr, err := u.Parse(root, data)
	if err != nil {
		return nil, err
	}
	if data != nil {
		u.FileErr = fileErr
	}
	for name, s := range u.Editor {
		have, taken := all[name]
		limit, limited := confines[name]
		switch {
		case limited && have.Own:
			s.Server.Reach = limit.Server.Reach
			s.Err = s.Server.Check()
			all[name] = s
		case !taken: // changed since the session began
			all[name] = s
		}
	}
	u.servers = all
	return all, nil
}

// Parse returns the servers of the user's config and of a .mcp.json with this content, nil for
// none. confines are the entries of the user's config that only say what a server of .mcp.json or
// of an editor may reach. FileErr is a mistake in .mcp.json as a whole.
func (u *Set) Parse(root string, data []byte) (all map[string]Server, confines map[string]mcp.Entry, fileErr, err error) {
	m, err := u.ws.Machine()
	if err != nil {
		return nil, nil, nil, err
	}
	all, confines = map[string]Server{}, map[string]mcp.Entry{}
	for name, s := range m.Providers.MCP {
		e := mcp.Entry{Server: mcp.Server{Name: name, Command: s.Command, Args: s.Args, Env: s.Env, URL: s.URL, Headers: s.Headers}}
		if s.Command != "" {
			e.Server.Dir = root
		}
		e.Server.Reach, e.Err = reachOf(name, s)
		switch {
		case e.Err != nil:
		case OnlyConfines(s):
			confines[name] = e
			e.Err = fmt.Errorf("it confines a server of %s, and not found here", trust.MCPFile)
		default:
			e.Err = e.Server.Check()
		}
		all[name] = Server{Entry: e, Origin: "config.toml", Own: true}
	}
	if data == nil {
		return all, confines, nil, nil
	}
	entries, fileErr := mcp.ParseFile(data, root)
	for name, e := range entries {
		own, taken := all[name]
		limit, limited := confines[name]
		switch {
		case limited:
			e.Server.Reach = limit.Server.Reach
			if e.Err == nil {
				e.Err = e.Server.Check()
			}
		case taken && OnlyConfines(m.Providers.MCP[name]):
			e.Err = own.Err
		case taken:
			e.Err = fmt.Errorf("your own config.toml and %s both have it: rename one", trust.MCPFile)
		}
		all[name] = Server{Entry: e, Origin: trust.MCPFile}
	}
	return all, confines, fileErr, nil
}

// Pinned joins the tools of MCP servers among defs to their records of approval. It starts nothing.
// A tool without a record does not change; Ready handles it.
func (u *Set) Pinned(ctx context.Context, defs []tools.Definition) ([]tools.Definition, error) {
	return u.eachMCP(defs, func(d tools.Definition, server string) (tools.Definition, error) {
		all, err := u.All(ctx)
		if err != nil {
			return d, err
		}
		s, ok := all[server]
		if !ok || s.Err != nil {
			return d, nil
		}
		r, err := u.Approved(ctx, s)
		if err != nil || r == nil {
			return d, err
		}
		return pin(d, r)
	})
}

// pin joins a definition to the record of its server.
func pin(d tools.Definition, r *mcp.Record) (tools.Definition, error) {
	t, ok := r.Tool(d.Remote)
	if !ok {
		return d, nil
	}
	return d.Pinned(r.Server.Digest()+t.Digest(), t.Description, t.Schema)
}

// eachMCP replaces each tool of an MCP server among defs by the result of f.
func (u *Set) eachMCP(defs []tools.Definition, f func(d tools.Definition, server string) (tools.Definition, error)) ([]tools.Definition, error) {
	var out []tools.Definition
	for i, d := range defs {
		server, ok := d.MCP()
		if !ok {
			continue
		}
		if out == nil {
			out = slices.Clone(defs)
		}
		var err error
		if out[i], err = f(d, server); err != nil {
			return nil, err
		}
	}
	if out == nil {
		return defs, nil
	}
	return out, nil
}

// Ready prepares the tools of MCP servers among defs for which keep returns true. If a server in
// the user's own config has no record yet, Ready starts it and records its tools. It refuses other
// tools without an approval.
func (u *Set) Ready(ctx context.Context, defs []tools.Definition, keep func(tools.Definition) bool) ([]tools.Definition, error) {
	return u.eachMCP(defs, func(d tools.Definition, server string) (tools.Definition, error) {
		if d.Pin != "" || !keep(d) {
			return d, nil
		}
		s, err := u.Find(ctx, server)
		if err != nil {
			return d, fmt.Errorf("tool %s: %w", d.Name, err)
		}
		r, err := u.Approved(ctx, s)
		if err == nil && r == nil {
			r, err = u.firstUse(ctx, s)
		}
		if err == nil {
			d, err = pin(d, r)
		}
		switch {
		case err != nil:
			return d, fmt.Errorf("tool %s: %w", d.Name, err)
		case d.Pin == "":
			return d, exit.NotFoundf("tool %s: MCP server %s had no tool %s when it was approved", d.Name, server, d.Remote).
				WithHint("`jp mcp show %s` lists those it had, `jp mcp approve %s` asks the server again", server, server)
		}
		return d, nil
	})
}

// firstUse records the tools of a server that needs no approval.
func (u *Set) firstUse(ctx context.Context, s Server) (_ *mcp.Record, err error) {
	started := func(error) {}
	switch {
	case s.Own, u.ws.Gate.ByEnv():
	case s.Origin == OfEditor && u.Approve != nil:
		if started, err = u.Approve(ctx, s, nil); err != nil {
			return nil, err
		}
	default:
		return nil, (&exit.Error{Code: "untrusted", Status: exit.Refused, Msg: fmt.Sprintf("MCP server %s of %s: not approved", s.Server.Name, s.Origin)}).
			WithHint("`jp mcp approve %s` shows what it would run, and asks", s.Server.Name)
	}
	if u.Look {
		return nil, exit.NotFoundf("MCP server %s: was never used, so its tools are not known", s.Server.Name).
			WithHint("`jp mcp approve %s` asks it for them, and so does the first query", s.Server.Name)
	}
	list, left, err := u.Client(s).List(ctx)
	started(err)
	if err == nil && s.Origin == OfEditor && !u.ws.Gate.ByEnv() && len(list) > 0 {
		_, err = u.Approve(ctx, s, list)
	}
	if err != nil {
		return nil, err
	}
	return u.WriteRecord(ctx, s, list, left, !s.Own && u.ws.Gate.ByEnv())
}

// Find finds a server by name.
func (u *Set) Find(ctx context.Context, name string) (Server, error) {
	all, err := u.All(ctx)
	if err != nil {
		return Server{}, err
	}
	s, ok := all[name]
	switch {
	case !ok && u.FileErr != nil:
		return s, exit.Refusedf("%s: %v", trust.MCPFile, u.FileErr)
	case !ok:
		return s, exit.NotFoundf("MCP server %s: not found", unseen.Word(name)).
			WithHint("%s", command.DidYouMean(name, slices.Sorted(maps.Keys(all)), "[providers.mcp."+unseen.Word(name)+"] in your config.toml, or "+trust.MCPFile+", names one"))
	case s.Err != nil:
		return s, exit.Refusedf("MCP server %s of %s: %v", name, s.Origin, s.Err)
	}
	return s, nil
}

// ForSubagent returns the same servers as a sub-agent has them: with clients of its own.
func (u *Set) ForSubagent(ctx context.Context) (*Set, error) {
	all, err := u.All(ctx)
	if err != nil {
		return nil, err
	}
	return &Set{con: u.con, ws: u.ws, servers: all, FileErr: u.FileErr, Look: u.Look}, nil
}

// Client returns the one client of a server in this Set.
func (u *Set) Client(s Server) *mcp.Client {
	u.mu.Lock()
	defer u.mu.Unlock()
	if c, ok := u.clients[s.Server.Name]; ok {
		return c
	}
	if u.host == nil {
		u.host, u.clients = proc.NewHost(proc.Options{}), map[string]*mcp.Client{}
	}
	name := s.Server.Name
	c := mcp.NewClient(s.Server, mcp.Options{
		Host: u.host, Environ: u.con.Env.Environ, Refuse: u.Withheld, Version: version.Version,
		Confine: func(ctx context.Context, r mcp.Reach) (*proc.Confine, error) { return u.confine(ctx, name, r) },
		Tell:    func(line string) { u.con.Verbosef("MCP server %s: %s", name, line) },
	})
	u.clients[name] = c
	return c
}

// Withheld returns the reason why an MCP server never gets a variable; "" = it may.
func (u *Set) Withheld(name string) string {
	const why = "is the key of a model provider, or jp's own, and no server gets it"
	if environ.IsProviderKey(name) {
		return why
	}
	m, err := u.ws.Machine()
	if err != nil {
		return err.Error()
	}
	if m.Providers.IsKey(name) {
		return why
	}
	return ""
}

// Tool returns a pinned tool with the function that runs it.
func (u *Set) Tool(ctx context.Context, d tools.Definition) (tools.Tool, error) {
	server, _ := d.MCP()
	s, err := u.Find(ctx, server)
	if err != nil {
		return tools.Tool{}, err
	}
	r, err := u.Approved(ctx, s)
	if err != nil {
		return tools.Tool{}, err
	}
	want, ok := mcp.Tool{}, false
	if r != nil {
		want, ok = r.Tool(d.Remote)
	}
	if !ok || d.Pin != r.Server.Digest()+want.Digest() {
		return tools.Tool{}, exit.Refusedf("tool %s: MCP server %s was approved again meanwhile", d.Name, server)
	}
	client := u.Client(s)
	return tools.Tool{Definition: d, Ready: client.Ready, Func: func(ctx context.Context, c tools.Call) (tools.Result, error) {
		r, err := client.Call(ctx, want, c.Arguments)
		if r.Refused && s.Origin == OfEditor && !u.ws.Gate.ByEnv() { // `jp mcp approve` does not know it
			r.Text = fmt.Sprintf("MCP server %s of the editor: its tools are not as they were approved; jp asks about them before the next prompt", server)
			err = u.forget(ctx, server)
		}
		return r, err
	}}, nil
}

// Close stops all MCP servers that were started for this Set, in parallel. A later run starts its
// own.
func (u *Set) Close() {
	u.mu.Lock()
	clients, host := u.clients, u.host
	u.clients, u.host = nil, nil
	u.mu.Unlock()
	var all sync.WaitGroup
	for _, c := range clients {
		all.Go(c.Close)
	}
	all.Wait()
	if host == nil {
		return
	}
	if err := host.Close(); err != nil {
		u.con.Warn("MCP servers: %v", err)
	}
}

// ForSubagents refuses a sub-agent the tools of servers that only this process knows.
func (u *Set) ForSubagents(ctx context.Context, defs []tools.Definition) error {
	if len(u.Editor) == 0 {
		return nil
	}
	for _, d := range defs {
		server, ok := d.MCP()
		if !ok {
			continue
		}
		if s, err := u.Find(ctx, server); err == nil && s.Origin == OfEditor {
			return exit.Refusedf("tool %s: MCP server %s belongs to the editor, and sub-agents cannot use it", d.Name, server).
				WithHint("[providers.mcp.%s] in your config.toml makes it one of jp's own", server)
		}
	}
	return nil
}

package servers

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"jp/cmd/jp/internal/mcp"
	"jp/cmd/jp/internal/trust"
	"jp/cmd/jp/internal/wording"
	"jp/tools"
	"jp/tools/proc"
)

// Reach is what the program of a local tool or of an MCP server can reach when it runs. It is what
// this system enforces, which may differ from its definition. Every page and document about a
// sandbox, network, files or variables shows this value.
type Reach struct {
	Sandbox    string   // auto, require, or off (unconfined); "" = no program: jp itself, or an address
	Network    string   // none or any
	Access     []string // "ro PATH" or "rw PATH"
	Env        []string // variables that it gets in addition to the usual ones
	Unenforced []string // parts of its sandbox that this system cannot enforce
}

// anyFile is the access of a program that nothing confines.
const anyFile = "rw /"

// Unconfined warns of a program that nothing confines. Pages print it first.
const (
	Unconfined = "runs UNCONFINED: it can do what you can do"
	NoFiles    = "no files of yours"
)

func newReach(sandbox tools.Sandbox, network tools.Network, access, env []string) Reach {
	r := Reach{
		Sandbox: cmp.Or(string(sandbox), string(tools.SandboxAuto)), Network: cmp.Or(string(network), string(tools.NetworkNone)),
		Access: append([]string{}, access...), Env: append([]string{}, env...), Unenforced: []string{},
	}
	if sandbox == tools.SandboxOff {
		r.Network, r.Access = string(tools.NetworkAny), []string{anyFile}
		return r
	}
	box := proc.Confine{Network: network == tools.NetworkAny}
	r.Unenforced = append(r.Unenforced, box.Missing(proc.Enforceable())...)
	return r
}

// ReachOfTool returns what a tool reaches; known are the MCP servers that it may belong to.
func ReachOfTool(d tools.Definition, known map[string]Server) Reach {
	rules := []string{}
	for _, rule := range d.Reach() {
		rules = append(rules, rule.String())
	}
	if d.Local() {
		return newReach(d.Sandbox, d.Network, rules, d.Env)
	}
	if name, ok := d.MCP(); ok {
		if s, found := known[name]; found {
			return ReachOfServer(s.Server)
		}
	}
	return Reach{Network: string(tools.NetworkNone), Access: rules, Env: []string{}, Unenforced: []string{}}
}

// ReachOfServer returns what an MCP server reaches.
func ReachOfServer(s mcp.Server) Reach {
	env := s.Variables()
	for name := range s.Env {
		env = append(env, name)
	}
	slices.Sort(env)
	env = slices.Compact(env)
	switch {
	case s.Command == "":
		return Reach{Network: string(tools.NetworkAny), Access: []string{}, Env: append([]string{}, env...), Unenforced: []string{}}
	case s.Reach == nil:
		return newReach(tools.SandboxOff, tools.NetworkAny, nil, env)
	}
	return newReach(s.Reach.Sandbox, s.Reach.Network, s.Reach.Files(), env)
}

// Off reports whether nothing confines the program.
func (r Reach) Off() bool { return r.Sandbox == string(tools.SandboxOff) }

// SandboxText returns Sandbox in words.
func (r Reach) SandboxText() string {
	if r.Off() {
		return "off: " + Unconfined
	}
	return r.Sandbox + wording.Either(len(r.Unenforced) > 0, "; this system cannot enforce "+strings.Join(r.Unenforced, ", "), "")
}

// Text returns everything except the variables, on one line.
func (r Reach) Text() string {
	if r.Off() {
		return Unconfined
	}
	return "sandbox " + r.SandboxText() + ", network " + r.Network + ", access " + cmp.Or(strings.Join(r.Access, ", "), NoFiles)
}

// Known returns the servers that have been read so far.
func (u *Set) Known(ctx context.Context) map[string]Server {
	all, err := u.All(ctx)
	if err != nil {
		return nil // the error is reported when a server is used
	}
	return all
}

// In returns the servers of a workspace under review, trusted or not.
func (u *Set) In(c *trust.Files) map[string]Server {
	all, _, _, err := u.Parse(c.Root, c.Data[trust.MCPFile])
	if err != nil {
		return nil // the user's own config cannot be read, which another check reports
	}
	return all
}

// Named returns the names of the servers in the user's config and in a workspace under review,
// trusted or not.
func (u *Set) Named(c *trust.Files) map[string]bool {
	names := map[string]bool{}
	if m, err := u.ws.Machine(); err == nil {
		for name, s := range m.Providers.MCP {
			if !OnlyConfines(s) {
				names[name] = true
			}
		}
	}
	if data := c.Data[trust.MCPFile]; data != nil {
		entries, _ := mcp.ParseFile(data, "") // jp mcp ls reports the mistake
		for name := range entries {
			names[name] = true
		}
	}
	return names
}

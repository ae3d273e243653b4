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

// Reach is what a program reaches when it runs, that of a local tool or of an MCP server: what holds, and not what its
// definition would like. Every page and document that says something of a sandbox, a network, files or variables says this.
type Reach struct {
	Sandbox    string   // auto, require, or off: unconfined; "" = no program: jp itself, or an address
	Network    string   // none or any
	Access     []string // "ro PATH" or "rw PATH"
	Env        []string // variables that it gets beside the usual ones
	Unenforced []string // what of its sandbox this system cannot enforce
}

// anyFile is the access of a program that nothing confines.
const anyFile = "rw /"

// Unconfined is said loudest, and first.
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

// ReachOfTool is what a tool reaches; known are those that it may be one of.
func ReachOfTool(d tools.Definition, known map[string]Server) Reach {
	rules := []string{}
	for _, rule := range d.Reach() {
		rules = append(rules, string(rule.Mode)+" "+rule.Path)
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

// ReachOfServer is what an MCP server reaches.
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

// SandboxText is Sandbox in words.
func (r Reach) SandboxText() string {
	if r.Off() {
		return "off: " + Unconfined
	}
	return r.Sandbox + wording.Either(len(r.Unenforced) > 0, "; this system cannot enforce "+strings.Join(r.Unenforced, ", "), "")
}

// Text is all of it but the variables, on one line.
func (r Reach) Text() string {
	if r.Off() {
		return Unconfined
	}
	return "sandbox " + r.SandboxText() + ", network " + r.Network + ", access " + cmp.Or(strings.Join(r.Access, ", "), NoFiles)
}

// Known are those that tools may be of, as far as they are known by now.
func (u *Set) Known(ctx context.Context) map[string]Server {
	all, err := u.All(ctx)
	if err != nil {
		return nil // whoever uses one of them says so
	}
	return all
}

// In are those of a workspace that is looked at, trusted or not.
func (u *Set) In(c *trust.Files) map[string]Server {
	all, _, _, err := u.Parse(c.Root, c.Data[trust.MCPFile])
	if err != nil {
		return nil // the user's own config cannot be read, which is said elsewhere
	}
	return all
}

// Named are the names of the servers that the user's config and a workspace that is looked at have, trusted or not.
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
		entries, _ := mcp.ParseFile(data, "") // what is wrong with it tells mcp ls
		for name := range entries {
			names[name] = true
		}
	}
	return names
}

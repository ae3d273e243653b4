package rule

import (
	"slices"
	"strings"

	"jp/convstore"
	"jp/profiles"
	"jp/profiles/role"
	"jp/tools"
)

// Ceiling says which of the tools that its config enables a conversation may hold. Each role of the
// conversation must match the tool by name and source. Its grant, if it has one, must list the tool
// by name and authority. A run, a person who delegates and the one rule all use it. It is an
// immutable value; with the zero Ceiling no tool may be held.
type Ceiling struct {
	roles []role.ToolProfile
	grant *convstore.Grant // nil = none, as at a root
}

// CeilingOf returns the ceiling of a conversation with this grant, nil for none, in these roles:
// its own first, then those that it has for a run. "" is main. A role that this version does not
// know is an error.
func CeilingOf(grant *convstore.Grant, roles ...string) (Ceiling, error) {
	c := Ceiling{grant: grant}
	for _, name := range roles {
		p, err := role.Tools(name)
		if err != nil {
			return Ceiling{}, err
		}
		c.roles = append(c.roles, p)
	}
	return c, nil
}

// Holds reports whether the conversation may hold a tool.
func (c Ceiling) Holds(d tools.Definition) bool { return c.holds(d.Name, d.Source, d.Authority()) }

// MayHold is Holds for a tool whose authority is not complete: the tool of an MCP server before its
// pin is filled in. Only name and source count. Holds still decides when the pin is there.
func (c Ceiling) MayHold(d tools.Definition) bool {
	return c.inRole(d.Name, d.Source) && (c.grant == nil || slices.Contains(c.grant.Tools, d.Name))
}

// Names returns the names of those among defs that the conversation may hold, in the order of defs.
func (c Ceiling) Names(defs []tools.Definition) []string {
	var names []string
	for _, d := range defs {
		if c.Holds(d) {
			names = append(names, d.Name)
		}
	}
	return names
}

// Role names the roles for the log: "scheduled", or "scheduled as synthesis" for a run in another
// role.
func (c Ceiling) Role() string {
	var text string
	for i, p := range c.roles {
		switch {
		case i == 0:
			text = p.Name()
		case p.Name() != c.roles[0].Name() && p.Name() != role.Main:
			text += " as " + p.Name()
		}
	}
	return text
}

func (c Ceiling) holds(name, source, authority string) bool {
	return c.inRole(name, source) && covers(c.grant, name, authority)
}

func (c Ceiling) inRole(name, source string) bool {
	return len(c.roles) > 0 && !slices.ContainsFunc(c.roles, func(p role.ToolProfile) bool { return !p.Matches(name, source) })
}

// Forbids returns the rule by which the conversation may not hold one of jp's own tools; "" if
// there is none, or the tool is of others.
func (c Ceiling) Forbids(name string) string {
	source, ours := role.SourceOf(name)
	if strings.HasPrefix(name, profiles.ToolPrefix) {
		source, ours = tools.SourceDelegation, true
	}
	if !ours {
		return ""
	}
	for _, p := range c.roles {
		if !p.Matches(name, source) {
			return "the role " + p.Name() + " may not hold it"
		}
	}
	if c.grant != nil && !slices.Contains(c.grant.Tools, name) {
		return "the grant of this sub-agent does not hold it"
	}
	return ""
}

// covers reports whether a grant lists a tool. nil, which is no grant, lists every tool. A tool
// that has the name of a granted one and another authority is another tool.
func covers(g *convstore.Grant, name, authority string) bool {
	return g == nil || slices.Contains(g.Tools, name) && g.Authority[name] == authority
}

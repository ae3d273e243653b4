// Package role has the roles of agents, each with the tools that an agent of that role may ever
// hold.
package role

import (
	"slices"
	"strconv"
	"strings"

	"jp/profiles/fault"
)

// The roles of agents. The one rule decides that a sub-agent has its role; a person may choose one
// of the others.
const (
	Main      = "main"      // talks with a person
	Subagent  = "subagent"  // works for another agent
	Scheduled = "scheduled" // runs by itself, with nobody there
	Synthesis = "synthesis" // only sums up finished results
)

// All lists the roles, sorted.
func All() []string { return []string{Main, Scheduled, Subagent, Synthesis} }

// Narrower returns the role of two that may hold fewer tools; a if neither may.
func Narrower(a, b string) string {
	rank := map[string]int{Subagent: 1, Scheduled: 1, Synthesis: 2}
	if rank[b] > rank[a] {
		return b
	}
	return a
}

// ToolProfile is the ceiling of a role: the tools that an agent of that role may ever hold,
// whatever its config enables. It is an immutable value; the zero ToolProfile admits nothing.
//
// A rule about a source is the name of a source, or a prefix of names that ends in ".*" ("mcp.*"
// covers mcp.github, not mcp); "*" alone covers all. A rule about a name covers the tool of that
// name under any source. The names of jp's own tools are an exception: a rule covers them under
// their own source only, so that no other tool gains by taking such a name.
type ToolProfile struct {
	name            string
	allowed, denied ToolRules
}

// ToolRules are sources and names of tools.
type ToolRules struct {
	Sources []string
	Names   []string
}

// Tools returns the tool profile of a role; "" is main. These are compiled in and cannot be
// configured: a mistake in a file must not open a boundary. All but main are true allowlists: they
// admit no source that they do not name.
func Tools(role string) (ToolProfile, error) {
	switch role {
	case "", Main:
		return ToolProfile{name: Main}.With(ToolRules{Sources: []string{"*"}}), nil
	case Subagent, Scheduled:
		return ToolProfile{name: role}.
			With(ToolRules{Sources: []string{"builtin", "conversation", "delegation", "local", "mcp.*"}}).
			Without(ToolRules{Sources: []string{"interactive"}, Names: []string{"ask_user"}}), nil
	case Synthesis:
		return ToolProfile{name: role}.
			With(ToolRules{Sources: []string{"conversation"}, Names: []string{"fs_grep_files", "fs_list_files", "fs_read_file"}}).
			Without(ToolRules{Sources: []string{"delegation", "interactive"}}), nil
	}
	return ToolProfile{}, &fault.Error{Layer: "role", Msg: strconv.Quote(role) + " is unknown", Hint: "roles are " + strings.Join(All(), ", ")}
}

// Name is the name of the role.
func (p ToolProfile) Name() string { return p.name }

// Matches reports whether the tool of that name and source may be held: neither is denied, and the
// name or the source is allowed.
func (p ToolProfile) Matches(name, source string) bool {
	return !p.denied.cover(name, source) && p.allowed.cover(name, source)
}

// With returns a copy that also allows r.
func (p ToolProfile) With(r ToolRules) ToolProfile {
	p.allowed = p.allowed.join(r)
	return p
}

// Without returns a copy that also denies r.
func (p ToolProfile) Without(r ToolRules) ToolProfile {
	p.denied = p.denied.join(r)
	return p
}

// join shares nothing with r or more.
func (r ToolRules) join(more ToolRules) ToolRules {
	one := func(a, b []string) []string {
		all := slices.Concat(a, b)
		slices.Sort(all)
		return slices.Compact(all)
	}
	return ToolRules{one(r.Sources, more.Sources), one(r.Names, more.Names)}
}

func (r ToolRules) cover(name, source string) bool {
	if own, ours := SourceOf(name); (!ours || own == source) && slices.Contains(r.Names, name) {
		return true
	}
	return slices.ContainsFunc(r.Sources, func(rule string) bool {
		if prefix, ok := strings.CutSuffix(rule, "*"); ok && (prefix == "" || strings.HasSuffix(prefix, ".")) {
			return strings.HasPrefix(source, prefix) && source != prefix
		}
		return rule == source
	})
}

// SourceOf returns the source of one of jp's own tools.
func SourceOf(name string) (source string, ours bool) {
	switch name {
	case "fs_create_file", "fs_grep_files", "fs_list_files", "fs_modify_file", "fs_read_file", "skill":
		return "builtin", true
	case "jp_conversation_grep", "jp_conversation_list", "jp_conversation_print":
		return "conversation", true
	case "jp_batch_query", "jp_query", "llm_query":
		return "delegation", true
	case "ask_user":
		return "interactive", true
	}
	return "", false
}

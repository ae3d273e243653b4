package delegate

import (
	"strings"

	"jp/cmd/jp/internal/rule"
	"jp/profiles"
	"jp/tools"
)

// Special is the sub-agent of a special tool, which takes a query and nothing else: llm_query, or a
// specialization. A person has fixed its profile, so the rule does not check the enum of profiles.
// The rest of the rule applies. The child is a leaf.
type Special struct {
	Profile rule.Profile // its Name is that of the tool
	// session of a specialization: there is one child for each; "" = a new child for each call
	Session string
}

// IsSpecial reports whether a tool is special. A command of the user is not, whatever its name.
func IsSpecial(t tools.Definition) bool {
	return t.Delegates() && (t.Name == toolLLMQuery || strings.HasPrefix(t.Name, profiles.ToolPrefix))
}

// Delegates reports whether a tool of a set starts sub-agents by a function of this package.
func Delegates(set tools.Set, tool string) bool {
	t, ok := set.Get(tool)
	return ok && t.Delegates() && (tool == toolQuery || tool == toolBatch || IsSpecial(t.Definition))
}

// aged warns if the child of a specialization continues with its old config, although the section
// has changed since.
func (d *Delegator) aged(res *held, a rule.Ask) {
	if a.Sticky != "" && !res.Delegation.Fresh && res.Child.ProfileHash != a.Profile.Hash {
		d.ledger.warn("%s: %s is continued as it was made; its section or skill has changed since: another session_id starts a new one", a.Tool, res.Child.ID)
	}
}

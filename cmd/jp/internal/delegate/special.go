package delegate

import (
	"strings"

	"jp/convstore"
	"jp/profiles"
	"jp/tools"
)

// Special is what stands behind a delegation tool that takes a query and nothing else: llm_query, or a specialization.
// What the sub-agent is was fixed by a person, so the tool itself stands for the enum of profiles; all else of the one rule
// holds, and the child is a leaf.
type Special struct {
	Profile Profile // Name is that of the tool
	Session string  // of a specialization, which has one child for each caller, tool and session; "" = a new child for each call
}

// IsSpecial reports whether a tool takes a query and nothing else. A command of the user's is none, whatever its name.
func IsSpecial(t tools.Definition) bool {
	return ours(t) && (t.Name == toolLLMQuery || strings.HasPrefix(t.Name, profiles.ToolPrefix))
}

// ours reports whether a delegation tool is one of this package, and not a command that runs jp; see Inside.
func ours(t tools.Definition) bool { return t.Source == tools.SourceDelegation && !t.Local() }

// delegates reports whether calls of a tool start sub-agents by themselves.
func (d *Delegator) delegates(tool string) bool {
	t, ok := d.Set.Get(tool)
	return ok && ours(t.Definition) && (tool == toolQuery || tool == toolBatch || IsSpecial(t.Definition))
}

// present is the ask as the store knows it now: that of a specialization goes on with its child where there is one.
func (a Ask) present(s convstore.Standing) (Ask, error) {
	if a.Sticky == "" {
		return a, nil
	}
	made, err := s.Labelled(LabelSpecialization, a.Sticky)
	for _, c := range made {
		if c.Profile == a.Profile.Name {
			a.ID = c.ID
			break
		}
	}
	return a, err
}

// queue names the child whose calls run in call order; "" for a new one.
func (a Ask) queue() string {
	switch {
	case a.Sticky != "":
		return a.Sticky
	case a.ID != 0:
		return a.ID.String()
	}
	return ""
}

// aged says when a specialization's child goes on as it was made although its section says something else by now.
func (d *Delegator) aged(res *convstore.Reservation, a Ask) {
	if a.Sticky != "" && !res.Delegation.Fresh && res.Child.ProfileHash != a.Profile.Hash {
		d.ledger.warn("%s: %s goes on as it was made; its section or skill has changed since, and another session_id would begin anew", a.Tool, res.Child.ID)
	}
}

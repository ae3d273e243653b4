package cli

import (
	"context"
	"log/slog"
	"slices"

	"jp/convstore"
	"jp/profiles"
	"jp/tools"
)

// personRoles are the roles that a person may choose; that of a sub-agent is given by the one rule.
func personRoles() []string {
	return []string{profiles.RoleMain, profiles.RoleScheduled, profiles.RoleSynthesis}
}

// ceiling is what bounds the tools of a conversation, whatever its config enables: the tool profile of its role, that of
// the role chosen for this run, and its grant. A role that this version does not know is refused.
func ceiling(conv convstore.Conversation, chosen string) (keep func(d tools.Definition) bool, role string, err error) {
	own, err := profiles.Role(conv.Role)
	if err != nil {
		return nil, "", err
	}
	now, err := profiles.Role(chosen)
	if err != nil {
		return nil, "", err
	}
	role = own.Name()
	if now.Name() != own.Name() && now.Name() != profiles.RoleMain {
		role += " as " + now.Name()
	}
	return func(d tools.Definition) bool {
		return own.Matches(d.Name, d.Source) && now.Matches(d.Name, d.Source) &&
			(conv.Grant == nil || slices.Contains(conv.Grant.Tools, d.Name) && conv.Grant.Authority[d.Name] == d.Authority())
	}, role, nil
}

// narrow is the one place where what the config enables becomes what can be offered and called.
func (q *query) narrow(ctx context.Context, set tools.Set) (tools.Set, error) {
	keep, role, err := ceiling(q.conv, q.o.role)
	if err != nil {
		return tools.Set{}, err
	}
	held := set.Narrow(func(name, source string) bool {
		t, _ := set.Get(name)
		return keep(t.Definition) && (q.resolved.Config.Delegation.Enabled || source != tools.SourceDelegation)
	})
	log := q.app.con.Logger()
	log.Info("tools", "conversation", q.conv.ID, "role", role, "allowed", held.Len(), "denied", set.Len()-held.Len())
	if log.Enabled(ctx, slog.LevelDebug) {
		denied := slices.DeleteFunc(set.Names(), func(name string) bool { _, ok := held.Get(name); return ok })
		log.Debug("tools", "conversation", q.conv.ID, "allowed", held.Names(), "denied", denied)
	}
	return held, nil
}

// effective are the names of the tools that another conversation may hold now.
func effective(conv convstore.Conversation, defs []tools.Definition) ([]string, error) {
	keep, _, err := ceiling(conv, "")
	if err != nil {
		return nil, err
	}
	var names []string
	for _, d := range defs {
		if keep(d) {
			names = append(names, d.Name)
		}
	}
	return names, nil
}

// sourcesOf maps the names of tools to their sources.
func sourcesOf(defs []tools.Definition) map[string]string {
	m := make(map[string]string, len(defs))
	for _, d := range defs {
		m[d.Name] = d.Source
	}
	return m
}

// leaveOf says what each tool may do unasked, by name, as arm has it.
func leaveOf(defs []tools.Definition, r *profiles.Resolved) map[string]string {
	m := make(map[string]string, len(defs))
	for _, d := range defs {
		if d.Name == skillTool && !says(r, d.Name, "run") {
			d.Run = tools.RunUnattended
		}
		m[d.Name] = d.Leave()
	}
	return m
}

// authorityOf says what each tool is, by name.
func authorityOf(defs []tools.Definition) map[string]string {
	m := make(map[string]string, len(defs))
	for _, d := range defs {
		m[d.Name] = d.Authority()
	}
	return m
}

package cli

import (
	"context"
	"log/slog"
	"slices"

	"jp/cmd/jp/internal/delegate"
	"jp/profiles"
	"jp/tools"
)

// personRoles are the roles that a person may choose; that of a sub-agent is given by the one rule.
func personRoles() []string {
	return []string{profiles.RoleMain, profiles.RoleScheduled, profiles.RoleSynthesis}
}

// narrow is the one place where what the config enables becomes what can be offered and called.
func (q *query) narrow(ctx context.Context, set tools.Set, ceiling delegate.Ceiling) tools.Set {
	held := set.Narrow(func(name, source string) bool {
		t, _ := set.Get(name)
		return ceiling.Holds(t.Definition) && (q.resolved.Config.Delegation.Enabled || source != tools.SourceDelegation)
	})
	log := q.app.con.Logger()
	log.Info("tools", "conversation", q.conv.ID, "role", ceiling.Role(), "allowed", held.Len(), "denied", set.Len()-held.Len())
	if log.Enabled(ctx, slog.LevelDebug) {
		denied := slices.DeleteFunc(set.Names(), func(name string) bool { _, ok := held.Get(name); return ok })
		log.Debug("tools", "conversation", q.conv.ID, "allowed", held.Names(), "denied", denied)
	}
	return held
}

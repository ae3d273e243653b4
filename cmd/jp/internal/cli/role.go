package cli

import (
	"jp/profiles"
)

// personRoles are the roles that a person may choose; that of a sub-agent is given by the one rule.
func personRoles() []string {
	return []string{profiles.RoleMain, profiles.RoleScheduled, profiles.RoleSynthesis}
}

package rule

import (
	"time"

	"jp/convstore"
	"jp/profiles"
)

// SessionLimits returns the limits of the sub-agents of a session, from the config of its root and
// the limits that its command makes of that. Flags change them by a convstore.Change. In a batch
// the number of calls has no limit: a person gives each line.
func SessionLimits(cfg profiles.Config, l Limits) convstore.Limits {
	d := cfg.Delegation
	session := convstore.Limits{
		Budget: convstore.Budget{Tokens: d.TokenBudget, CostNano: d.MaxCostNano},
		Strict: d.MaxCostSet && d.MaxCostNano != nil, Children: l.MaxChildren, Parallel: l.MaxParallel,
		Depth: new(int64(l.MaxDepth)),
	}
	if !l.Free {
		session.Calls = new(int64(l.MaxPerTurn))
	}
	if !d.Enabled {
		session.Calls = new(int64)
	}
	return session
}

// CapsOf returns the limits in a profile. No run under it is granted more.
func CapsOf(cfg profiles.Config) convstore.Budget {
	d := cfg.Delegation
	b := convstore.Budget{Tokens: d.TokenBudget}
	if d.MaxCostSet {
		b.CostNano = d.MaxCostNano
	}
	return b
}

// LifeOf returns the limits in a profile of all runs of one conversation together.
func LifeOf(cfg profiles.Config) convstore.Budget {
	return convstore.Budget{Tokens: cfg.Delegation.MaxLifeTokens, CostNano: cfg.Delegation.MaxLifeNano}
}

// LimitsOf returns the limits of delegation in a config, for a process that waits so long for resets
// at most. Its sub-agents have that much more time: the wait counts.
func LimitsOf(cfg profiles.Config, wait time.Duration) Limits {
	d, depth := cfg.Delegation, 1
	if d.MaxDepth != nil {
		depth = *d.MaxDepth
	}
	timeout := d.Timeout
	if timeout > 0 {
		timeout += wait
	}
	return Limits{
		MaxDepth: depth, MaxPerTurn: d.MaxPerTurn, MaxChildren: d.MaxChildren, MaxParallel: d.MaxParallel,
		Share: d.BudgetInheritance, Timeout: timeout, Expire: d.Expire, Profiles: d.Profiles, Models: d.Models, Efforts: d.Efforts,
	}
}

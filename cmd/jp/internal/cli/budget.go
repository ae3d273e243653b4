package cli

import (
	"slices"

	"jp/cmd/jp/internal/model"
	"jp/convstore"
	"jp/profiles"
)

// bounds are --max-tokens and --max-cost: what the whole run may use.
func (o *queryOptions) bounds() convstore.Budget {
	return convstore.Budget{Tokens: o.maxTokens.Value, CostNano: o.maxCost.Value}
}

// sessionFlags are those of flagDirectives that limit sub-agents, for a person who delegates on behalf of a conversation.
func (o *queryOptions) sessionFlags() []profiles.Directive {
	return slices.DeleteFunc(o.flagDirectives(), func(d profiles.Directive) bool {
		return d.Flag != "--max-sub-tokens" && d.Flag != "--max-sub-cost"
	})
}

// sessionLimits are what the sub-agents of a session may use, by the config of its root.
func sessionLimits(cfg profiles.Config) convstore.Limits {
	d := cfg.Delegation
	return convstore.Limits{
		Budget: convstore.Budget{Tokens: d.TokenBudget, CostNano: d.MaxCostNano},
		Strict: d.MaxCostSet && d.MaxCostNano != nil, Children: d.MaxChildren, Parallel: d.MaxParallel,
	}
}

// budget is what the session of this run may use: nil in a delegated conversation, whose grant says so.
func (q *query) budget(cfg profiles.Config, info model.Info) (*convstore.Limits, error) {
	if q.delegated || q.hand != nil {
		return nil, nil
	}
	l := sessionLimits(cfg)
	l.Run = q.o.bounds()
	l.Strict = l.Strict || l.Run.CostNano != nil
	return &l, q.boundable(info)
}

// boundable refuses a model of which nobody can say whether it stays within --max-cost.
func (q *query) boundable(info model.Info) error {
	if q.o.bounds().CostNano == nil || info.Price != nil {
		return nil
	}
	return refusedf("--max-cost: the price of the model %s is not known", info.ID).
		withHint("give it in [providers.llm.prices] of the user's config.toml, or leave --max-cost out")
}

// caps are the limits that a profile sets itself: no run under it is granted more.
func caps(cfg profiles.Config) convstore.Budget {
	b := convstore.Budget{Tokens: cfg.Delegation.TokenBudget}
	if cfg.Delegation.MaxCostSet {
		b.CostNano = cfg.Delegation.MaxCostNano
	}
	return b
}

// priced tells whether the price of a model is known.
func (a *app) priced(cfg profiles.Config) func(id string) bool {
	p := a.modelProviders(cfg)
	return func(id string) bool {
		info, err := model.Lookup(id, p)
		return err == nil && info.Price != nil
	}
}

package cli

import (
	"context"
	"errors"
	"slices"

	"jp/cmd/jp/internal/delegate"
	"jp/cmd/jp/internal/exit"
	"jp/convstore"
	"jp/profiles"
	"jp/tools"
)

// errTried rolls back a reservation that was only tried.
var errTried = errors.New("tried")

// stand is what a person has who delegates on behalf of a conversation.
type stand struct {
	scope  convstore.Scope
	caller delegate.Caller
	tool   string // that the person takes the place of
}

// standFor looks at a conversation's scope, and at what its stored config lets it call, and to whom, and how often. Flags change
// that config for now. The limits of the session are written anew where nobody runs the root.
func (env *runEnv) standFor(ctx context.Context, id convstore.ID, ds, flags []profiles.Directive) (st stand, err error) {
	store, err := env.ws.Store(ctx)
	if err != nil {
		return st, err
	}
	conv, err := store.Get(ctx, id)
	if err != nil {
		return st, err
	}
	stored, err := store.Config(ctx, id)
	if err != nil {
		return st, err
	}
	src, err := env.ws.Sources(ctx, ds)
	if err != nil {
		return st, err
	}
	src.Stored = stored.JSON
	r, err := env.ws.Resolve(src, nil, flags)
	if err != nil {
		return st, err
	}
	defs, err := env.definitions(ctx, r)
	if err != nil {
		return st, err
	}
	if !r.Config.Delegation.Enabled {
		defs = nil // nothing of it can be called
	}
	defs = slices.DeleteFunc(defs, func(d tools.Definition) bool { return d.Run == tools.RunDeny })
	st.caller.Limits, st.caller.Priced = limits(r.Config), env.priced(r.Config)
	ceiling, err := delegate.CeilingOf(conv.Grant, conv.Role)
	if err != nil {
		return st, err
	}
	st.caller.Tools = ceiling.Names(defs)
	st.tool = delegates(defs, st.caller.Tools)
	if st.scope, err = store.Below(ctx, id); err != nil {
		return st, err
	}
	return st, st.scope.Limit(ctx, sessionLimits(r.Config))
}

// delegates names a tool, of those that are held, that sub-agents under profiles are asked with: jp_query where it is held, or where
// none is, which the rule then says.
func delegates(defs []tools.Definition, held []string) string {
	for _, name := range []string{"jp_query", "jp_batch_query"} {
		if slices.Contains(held, name) {
			return name
		}
	}
	for _, d := range defs {
		if slices.Contains(held, d.Name) && slices.Contains(d.Access.JP, tools.VerbQuery) {
			return d.Name
		}
	}
	return "jp_query"
}

// order is a delegation that a person asks for.
type order struct {
	parent     convstore.ID         // on whose behalf
	directives []profiles.Directive // of --cfg: the profile
	session    []profiles.Directive // flags that limit the sub-agents of the session
	model      string               // "" = the profile's
	title      string
	hidden     bool
	want       convstore.Budget          // what the run may use at most
	check      func(config []byte) error // may refuse the profile's config before anything is made; nil = nothing is checked
}

// handed is a delegation made by a person.
type handed struct {
	scope  convstore.Scope
	res    *convstore.Reservation
	config []byte
}

// handOver applies the one rule for a person who delegates on behalf of a conversation: its stored config says to whom it may
// delegate and with which limits, the profile is the one that --cfg names.
func (env *runEnv) handOver(ctx context.Context, o order) (*handed, error) {
	st, err := env.standFor(ctx, o.parent, o.directives, o.session)
	if err != nil {
		return nil, err
	}
	name := ""
	for _, d := range o.directives {
		if d.Text != "NONE" {
			if name != "" {
				return nil, exit.Usagef("--cfg %s: a delegation takes one profile", d.Text)
			}
			name = d.Text
		}
	}
	if name == "" {
		return nil, exit.Usagef("--root-id: name the agent profile with --cfg").WithHint("for example --cfg agent/researcher")
	}
	profile, err := env.profile(ctx, name, o.model)
	if err != nil {
		return nil, err
	}
	ask := delegate.Ask{Call: "hand-" + convstore.NewEventID(), Tool: st.tool, Title: o.title, Profile: profile, Want: o.want}
	reserve := func(commit bool) ([]*convstore.Reservation, error) {
		return st.scope.Reserve(ctx, func(s convstore.Standing) ([]convstore.Child, error) {
			v := delegate.Decide(s, st.caller, []delegate.Ask{ask})[0]
			if v.Err == nil && !commit {
				v.Err = errTried
			}
			v.Child.Hidden = o.hidden
			v.Child.Replayed = env.tape.Replays()
			return []convstore.Child{v.Child}, v.Err
		})
	}
	if o.check != nil { // what the rule refuses comes before what is wrong with the config
		if _, err := reserve(false); err != errTried {
			return nil, err
		}
		if err := o.check(profile.Config.JSON); err != nil {
			return nil, err
		}
	}
	res, err := reserve(true)
	if err != nil {
		return nil, err
	}
	return &handed{scope: st.scope, res: res[0], config: profile.Config.JSON}, nil
}

// sessionLimits are what the sub-agents of a session may use, by the config of its root.
func sessionLimits(cfg profiles.Config) convstore.Limits {
	d := cfg.Delegation
	return convstore.Limits{
		Budget: convstore.Budget{Tokens: d.TokenBudget, CostNano: d.MaxCostNano},
		Strict: d.MaxCostSet && d.MaxCostNano != nil, Children: d.MaxChildren, Parallel: d.MaxParallel,
	}
}

// caps are the limits that a profile sets itself: no run under it is granted more.
func caps(cfg profiles.Config) convstore.Budget {
	b := convstore.Budget{Tokens: cfg.Delegation.TokenBudget}
	if cfg.Delegation.MaxCostSet {
		b.CostNano = cfg.Delegation.MaxCostNano
	}
	return b
}

func limits(cfg profiles.Config) delegate.Limits {
	depth := 1
	if cfg.Delegation.MaxDepth != nil {
		depth = *cfg.Delegation.MaxDepth
	}
	return delegate.Limits{
		MaxDepth: depth, MaxPerTurn: cfg.Delegation.MaxPerTurn, MaxChildren: cfg.Delegation.MaxChildren, MaxParallel: cfg.Delegation.MaxParallel,
		Share: cfg.Delegation.BudgetInheritance, Timeout: cfg.Delegation.Timeout, Profiles: cfg.Delegation.Profiles,
	}
}

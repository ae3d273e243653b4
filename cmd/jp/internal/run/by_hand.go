package run

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

// Stand is what a person has who delegates on behalf of a conversation.
type Stand struct {
	Scope  convstore.Scope
	Caller delegate.Caller
	Tool   string // that the person takes the place of
}

// StandFor looks at a conversation's scope, and at what its stored config lets it call, and to whom, and how often. Flags change
// that config for now. The limits of the session are written anew where nobody runs the root.
func (env *Env) StandFor(ctx context.Context, id convstore.ID, ds, flags []profiles.Directive) (st Stand, err error) {
	store, err := env.WS.Store(ctx)
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
	src, err := env.WS.Sources(ctx, ds)
	if err != nil {
		return st, err
	}
	src.Stored = stored.JSON
	r, err := profiles.Resolve(src, nil, flags)
	if err != nil {
		return st, err
	}
	defs, err := env.Definitions(ctx, r)
	if err != nil {
		return st, err
	}
	if !r.Config.Delegation.Enabled {
		defs = nil // nothing of it can be called
	}
	defs = slices.DeleteFunc(defs, func(d tools.Definition) bool { return d.Run == tools.RunDeny })
	st.Caller.Limits, st.Caller.Priced = LimitsOf(r.Config), env.Priced(r.Config)
	ceiling, err := delegate.CeilingOf(conv.Grant, conv.Role)
	if err != nil {
		return st, err
	}
	st.Caller.Tools = ceiling.Names(defs)
	st.Tool = delegates(defs, st.Caller.Tools)
	if st.Scope, err = store.Below(ctx, id); err != nil {
		return st, err
	}
	return st, st.Scope.Limit(ctx, SessionLimits(r.Config))
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

// Order is a delegation that a person asks for.
type Order struct {
	Parent     convstore.ID         // on whose behalf
	Directives []profiles.Directive // of --cfg: the profile
	Session    []profiles.Directive // flags that limit the sub-agents of the session
	Model      string               // "" = the profile's
	Title      string
	Hidden     bool
	Want       convstore.Budget          // what the run may use at most
	Check      func(config []byte) error // may refuse the profile's config before anything is made; nil = nothing is checked
}

// Handed is a delegation made by a person.
type Handed struct {
	Scope  convstore.Scope
	Res    *convstore.Reservation
	Config []byte
}

// HandOver applies the one rule for a person who delegates on behalf of a conversation: its stored config says to whom it may
// delegate and with which limits, the profile is the one that --cfg names.
func (env *Env) HandOver(ctx context.Context, o Order) (*Handed, error) {
	st, err := env.StandFor(ctx, o.Parent, o.Directives, o.Session)
	if err != nil {
		return nil, err
	}
	name := ""
	for _, d := range o.Directives {
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
	profile, err := env.Profile(ctx, name, o.Model)
	if err != nil {
		return nil, err
	}
	ask := delegate.Ask{Call: "hand-" + convstore.NewEventID(), Tool: st.Tool, Title: o.Title, Profile: profile, Want: o.Want}
	reserve := func(commit bool) ([]*convstore.Reservation, error) {
		return st.Scope.Reserve(ctx, func(s convstore.Standing) ([]convstore.Child, error) {
			v := delegate.Decide(s, st.Caller, []delegate.Ask{ask})[0]
			if v.Err == nil && !commit {
				v.Err = errTried
			}
			v.Child.Hidden = o.Hidden
			v.Child.Replayed = env.Tape.Replays()
			return []convstore.Child{v.Child}, v.Err
		})
	}
	if o.Check != nil { // what the rule refuses comes before what is wrong with the config
		if _, err := reserve(false); err != errTried {
			return nil, err
		}
		if err := o.Check(profile.Config.JSON); err != nil {
			return nil, err
		}
	}
	res, err := reserve(true)
	if err != nil {
		return nil, err
	}
	return &Handed{Scope: st.Scope, Res: res[0], Config: profile.Config.JSON}, nil
}

// SessionLimits are what the sub-agents of a session may use, by the config of its root.
func SessionLimits(cfg profiles.Config) convstore.Limits {
	d := cfg.Delegation
	return convstore.Limits{
		Budget: convstore.Budget{Tokens: d.TokenBudget, CostNano: d.MaxCostNano},
		Strict: d.MaxCostSet && d.MaxCostNano != nil, Children: d.MaxChildren, Parallel: d.MaxParallel,
	}
}

// capsOf are the limits that a profile sets itself: no run under it is granted more.
func capsOf(cfg profiles.Config) convstore.Budget {
	b := convstore.Budget{Tokens: cfg.Delegation.TokenBudget}
	if cfg.Delegation.MaxCostSet {
		b.CostNano = cfg.Delegation.MaxCostNano
	}
	return b
}

func LimitsOf(cfg profiles.Config) delegate.Limits {
	depth := 1
	if cfg.Delegation.MaxDepth != nil {
		depth = *cfg.Delegation.MaxDepth
	}
	return delegate.Limits{
		MaxDepth: depth, MaxPerTurn: cfg.Delegation.MaxPerTurn, MaxChildren: cfg.Delegation.MaxChildren, MaxParallel: cfg.Delegation.MaxParallel,
		Share: cfg.Delegation.BudgetInheritance, Timeout: cfg.Delegation.Timeout, Profiles: cfg.Delegation.Profiles,
	}
}

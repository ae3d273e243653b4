package run

import (
	"context"
	"errors"
	"slices"
	"strings"

	"jp/cmd/jp/internal/exit"
	"jp/cmd/jp/internal/model"
	"jp/cmd/jp/internal/rule"
	"jp/convstore"
	"jp/convstore/usage"
	"jp/profiles"
	"jp/tools"
)

// errTried rolls back a reservation that only tries whether the rule allows it.
var errTried = errors.New("tried")

// Stand is what a person can use who delegates on behalf of a conversation.
type Stand struct {
	Scope   convstore.Scope  // applies the terms of the person
	Session convstore.Limits // limits of the session as they are under these terms
	Caller  rule.Caller
	Tool    string // tool that the person takes the place of

	store *convstore.Store
}

// standFor returns a conversation's scope, and which tools, profiles and limits its stored config
// gives it. It writes nothing: what is reserved in the scope brings by, the change of the session,
// with it.
func (env *Env) standFor(ctx context.Context, id convstore.ID, ds []profiles.Directive, by convstore.Change) (st Stand, err error) {
	st, r, err := env.standOf(ctx, id, ds, by)
	if err != nil {
		return st, err
	}
	conv, err := st.store.Get(ctx, id)
	if err != nil {
		return st, err
	}
	defs, err := env.DefinitionsOf(ctx, r, conv)
	if err != nil {
		return st, err
	}
	// Without delegation no tool can be called.
	defs = slices.DeleteFunc(defs, func(d tools.Definition) bool { return !r.Config.Delegation.Enabled || d.Run == tools.RunDeny })
	ceiling, err := rule.CeilingOf(conv.Grant, conv.Role)
	if err != nil {
		return st, err
	}
	st.Caller.Tools = ceiling.Names(defs)
	st.Tool = delegates(defs, st.Caller.Tools)
	return st, nil
}

// standToContinue is standFor for a person who continues a sub-conversation, which needs no tool.
func (env *Env) standToContinue(ctx context.Context, id convstore.ID, ds []profiles.Directive, by convstore.Change) (st Stand, err error) {
	st, r, err := env.standOf(ctx, id, ds, by)
	if err == nil && !r.Config.Delegation.Enabled {
		err = exit.Refusedf("conversation %s: delegation.enabled: is false", id).WithHint("`jp conversation show %s` shows its config", id)
	}
	return st, err
}

// standOf returns a Stand without tools, and the config of the conversation.
func (env *Env) standOf(ctx context.Context, id convstore.ID, ds []profiles.Directive, by convstore.Change) (st Stand, r *profiles.Resolved, err error) {
	if st.store, err = env.WS.Store(ctx); err != nil {
		return st, nil, err
	}
	if r, err = env.configOf(ctx, st.store, id, ds); err != nil {
		return st, nil, err
	}
	st.Caller.Limits, st.Caller.Priced = rule.LimitsOf(r.Config, env.WaitLimit), env.Priced(r.Config)
	terms := convstore.Terms{Change: by}
	account, err := st.store.Account(ctx, id)
	if err == nil && account.Limits == nil {
		terms.Limits, err = env.firstLimits(ctx, st.store, id, ds)
	}
	if err != nil {
		return st, nil, err
	}
	st.Session = terms.Over(account.Limits)
	st.Scope, err = st.store.Below(ctx, id)
	st.Scope = st.Scope.Under(terms)
	return st, r, err
}

// configOf returns the stored config of a conversation.
func (env *Env) configOf(ctx context.Context, store *convstore.Store, id convstore.ID, ds []profiles.Directive) (*profiles.Resolved, error) {
	c, err := store.Get(ctx, id)
	if err != nil {
		return nil, err
	}
	stored, err := store.Config(ctx, id)
	if err != nil {
		return nil, err
	}
	src, err := env.WS.Sources(ctx, ds)
	if err != nil {
		return nil, err
	}
	src.Stored, src.Person = stored.JSON, c.Grant == nil
	return profiles.Resolve(src, nil, nil)
}

// firstLimits returns the limits of a session whose root has begun no turn here, by the root's config.
// Only a turn fixes how many calls and levels it has.
func (env *Env) firstLimits(ctx context.Context, store *convstore.Store, id convstore.ID, ds []profiles.Directive) (l convstore.Limits, err error) {
	root, err := usage.Ledger(ctx, store.View, id)
	if err != nil {
		return l, err
	}
	r, err := env.configOf(ctx, store, root, ds)
	if err == nil {
		l = rule.SessionLimits(r.Config, rule.LimitsOf(r.Config, env.WaitLimit))
		l.Calls, l.Depth = nil, nil
	}
	return l, err
}

// delegates returns the name of a held tool that can start sub-agents under profiles. It prefers
// jp_query. If no such tool is held it returns jp_query too, and the rule then refuses.
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

// Order is a request of a person for a delegation.
type Order struct {
	Parent     convstore.ID         // conversation that delegates
	Directives []profiles.Directive // values of --cfg: the profile
	Session    convstore.Change     // what flags say of the sub-agents of the session
	Model      string               // model of the run; "" = that of the profile
	Effort     string               // level of its reasoning; "" = that of the profile
	Role       string               // bounds its tools beside the role of a sub-agent; "" = nothing does
	Title      string
	Hidden     bool
	Want       convstore.Budget          // limit of the run
	Narrow     func(*rule.Profile) error // changes the profile before the rule sees it; nil = as it is
	Task       Task                      // what is asked
	Changes    []string                  // what flags change in the profile, see Request
	Reuse      bool                      // whether an answer that is there from before will do; the error is then a *rule.Known
	Check      func(config []byte) error // called with the profile's config before anything is made; may refuse it; nil = no check
}

// Handed is a delegation made by a person.
type Handed struct {
	Scope convstore.Scope
	Res   *convstore.Reservation
}

// HandOver applies the rule to a delegation by a person on behalf of a conversation. The stored
// config of the conversation has the allowed profiles and the limits. --cfg names the profile.
func (env *Env) HandOver(ctx context.Context, o Order) (*Handed, error) {
	st, err := env.standFor(ctx, o.Parent, o.Directives, o.Session)
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
	profile, err := env.Profile(ctx, name, rule.Overrides(o.Model))
	if err == nil && o.Narrow != nil {
		err = o.Narrow(&profile)
	}
	if err != nil {
		return nil, err
	}
	ask := rule.Ask{Call: callByHand(), Tool: st.Tool, Title: o.Title, Profile: profile, Model: o.Model, Effort: o.Effort, Role: o.Role, Want: o.Want, Asked: o.Task.asked()}
	ask.Asked.Meaning, ask.Asked.Overrides = profile.Meaning, o.Changes
	if o.Reuse {
		ask.Reuse = &st.store.View
	}
	reserve := func(commit bool) ([]*convstore.Reservation, error) {
		return st.Scope.Reserve(ctx, func(s convstore.Standing) ([]convstore.Child, error) {
			v := rule.Decide(s, st.Caller, []rule.Ask{ask})[0]
			if v.Err == nil && !commit {
				v.Err = errTried
			}
			v.Child.Hidden = o.Hidden
			v.Child.Replayed = env.Tape.Replays()
			return []convstore.Child{v.Child}, v.Err
		})
	}
	if o.Check != nil { // a refusal of the rule comes before a mistake in the config
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
	return &Handed{Scope: st.Scope, Res: res[0]}, nil
}

func callByHand() string { return model.CallByHand + convstore.NewEventID() }

// ByHand reports whether a person made a delegation, by `jp query`.
func ByHand(del convstore.Delegation) bool { return strings.HasPrefix(del.Call, model.CallByHand) }

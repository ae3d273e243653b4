package run

import (
	"bytes"
	"context"
	"slices"
	"strings"

	"jp/cmd/jp/internal/enabled"
	"jp/cmd/jp/internal/exit"
	"jp/cmd/jp/internal/rule"
	"jp/cmd/jp/internal/wording"
	"jp/convstore"
	"jp/profiles"
)

// delegateByHand makes a child of --root-id for a person, if the rule allows it. Run.Finish settles
// the run.
func (o *opening) delegateByHand(ctx context.Context) error {
	parent, err := o.env.WS.Target(ctx, o.req.RootID.Value)
	if err != nil {
		return err
	}
	check := func(config []byte) error {
		if err := o.resolve(ctx, config, nil); err != nil {
			return err
		}
		_, _, err := o.accept(ctx)
		return err
	}
	hand, err := o.env.HandOver(ctx, Order{
		Parent: parent, Directives: o.req.Directives, Session: o.req.Session, Model: o.req.Model, Effort: o.req.Effort, Role: o.req.Role,
		Title: o.req.Title.Value, Hidden: o.req.Hidden, Want: o.req.Bounds, Check: check, Narrow: func(p *rule.Profile) error { return o.narrow(ctx, p) },
		Task: o.req.Task, Changes: o.req.changes(), Reuse: o.req.Reuse,
	})
	if err != nil {
		return err
	}
	if err := o.take(ctx, hand.Scope, hand.Res); err != nil {
		return err
	}
	return o.resolve(ctx, o.locked().Taken().JSON, nil)
}

// narrow takes from a profile what flags take from its sub-agent for good: the tools are not granted,
// and no later run gets them. Other flags change the config that is stored, or this run alone.
func (o *opening) narrow(ctx context.Context, p *rule.Profile) error {
	all := o.req.Flags
	o.req.Flags = slices.DeleteFunc(slices.Clone(all), func(d profiles.Directive) bool { return !lasts(d) })
	err := o.resolve(ctx, p.Config.JSON, nil)
	o.req.Flags, o.req.Toggles, o.req.Only = all, nil, nil
	if err != nil {
		return err
	}
	if more := p.Narrow(enabled.In(o.Resolved)); len(more) > 0 {
		o.env.Con.Warn("not in %s and left out: %s", p.Name, strings.Join(more, ", "))
	}
	o.Resolved.Cut(p.Config.Tools)
	p.Config.JSON = o.Resolved.Stored()
	return nil
}

// continueChild continues a sub-conversation for a person. Its config is checked first, so that a
// mistake costs nothing.
func (o *opening) continueChild(ctx context.Context) error {
	if o.req.Task.Text == "" && !Resumable(o.Conv) {
		return ErrNothing()
	}
	stored, err := o.resolveStored(ctx, o.req.Directives)
	if err != nil {
		return err
	}
	if _, _, err := o.accept(ctx); err != nil {
		return err
	}
	models, err := o.env.Answering(o.Resolved.Config)
	if err != nil {
		return err
	}
	if err := o.reserve(ctx, models...); err != nil {
		return err
	}
	if taken := o.locked().Taken(); !bytes.Equal(taken.JSON, stored) {
		return exit.Refusedf("conversation %s: its config was changed meanwhile", o.Conv.ID).WithHint("try it again")
	}
	o.change, err = o.changed(ctx, stored)
	return err
}

// reserve reserves a run of a sub-conversation that a person continues, under the grant that it had: no
// conversation has to hold a tool for that, and no call of a turn is used. The rest of the rule is the same, and
// the conversation that delegated it pays. The first of models is asked first. Run.Finish settles the run.
func (o *opening) reserve(ctx context.Context, models ...string) error {
	child := o.Conv
	st, err := o.env.standToContinue(ctx, child.Parent, o.req.Directives, o.req.Session)
	if err != nil {
		return err
	}
	ask := rule.Ask{
		Call: callByHand(), Person: true, ID: child.ID, Profile: rule.Profile{Name: child.Profile, Others: models[1:]},
		Model: models[0], Want: o.req.Bounds, Asked: o.req.Task.asked(),
	}
	ask.Asked.Overrides = o.req.changes()
	if ask.Asked.Meaning, err = rule.MeaningOf(o.Resolved.Stored(), nil); err != nil {
		return err
	}
	if o.req.Reuse {
		ask.Reuse = &st.store.View
	}
	res, err := st.Scope.Reserve(ctx, func(s convstore.Standing) ([]convstore.Child, error) {
		v := rule.Decide(s, st.Caller, []rule.Ask{ask})[0]
		v.Child.Replayed = o.env.Tape.Replays()
		return []convstore.Child{v.Child}, v.Err
	})
	if err != nil {
		return err
	}
	return o.take(ctx, st.Scope, res[0])
}

// take makes a reservation the run of this process. The conversation then has the grant of this
// run, but keeps the status of its last run, which says whether it can be resumed. The log and the
// reservation each hold the lock by a descriptor of their own: when one is closed, the other keeps
// the lock.
func (o *opening) take(ctx context.Context, scope convstore.Scope, res *convstore.Reservation) error {
	was := o.Conv
	o.scope, o.hand, o.Conv = scope, res, res.Child
	if was.ID == o.Conv.ID {
		o.Conv.Status, o.Conv.Reason = was.Status, was.Reason
	}
	log, err := scope.Log(ctx, res)
	if err != nil {
		return err
	}
	o.Log = log
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	off := onStop(o.env, log, stop)
	defer func() { go off() }() // after a stop it waits for the run lock, which is held here
	most := res.Delegation.Grant.MaxParallel
	o.slot, err = scope.Slots(res.Delegation.Root, most).Take(ctx, func() {
		o.env.Con.Note("waiting for a slot: %s at work in this tree", wording.Plural(most, "sub-agent"))
	})
	return err
}

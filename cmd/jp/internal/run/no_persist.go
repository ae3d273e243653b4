package run

import (
	"context"

	"jp/cmd/jp/internal/exit"
	"jp/cmd/jp/internal/review"
	"jp/convstore"
	"jp/tools"
)

// borrow copies a conversation of the workspace's store into the temporary store and locks the copy
// there. With --fork it copies only the last turns. The copy keeps the status of the original.
func (o *opening) borrow(ctx context.Context, src convstore.ID) error {
	from, err := o.env.WS.Store(ctx)
	if err != nil {
		return err
	}
	c, err := from.Get(ctx, src)
	if err != nil {
		return err
	}
	switch {
	case c.Grant != nil:
		return exit.Refusedf("--no-persist: %s was delegated, and what its runs use is recorded", src)
	case c.Status == convstore.StatusRunning:
		return &convstore.BusyError{ID: src}
	}
	account, err := from.Account(ctx, src)
	if err != nil {
		return err
	}
	if o.req.Task.Text == "" && c.Status == convstore.StatusInterrupted && account.Limit != (convstore.Budget{}) {
		return exit.Refusedf("--no-persist: the turn of %s has a limit, and what it uses is recorded", src)
	}
	stored, err := from.Config(ctx, src)
	if err != nil {
		return err
	}
	turns := convstore.Range{}
	if f := o.req.Fork; f.Set && f.Value >= 0 {
		turns = convstore.LastTurns(f.Value)
	}
	var events []convstore.Event
	for e, err := range from.Events(ctx, src, turns) {
		if err != nil {
			return err
		}
		switch e.Body.(type) {
		case convstore.ConfigDelta:
			e.Body = convstore.ConfigDelta{} // the copy has the present config; summaries count the event
		case convstore.TurnStart:
			e.Body = convstore.TurnStart{Limits: account.Limits} // those in the event can be a stranger's
		}
		events = append(events, e)
	}
	if o.Conv, err = o.Store.Create(ctx, convstore.New{
		Title: c.Title, Profile: c.Profile, ProfileArg: c.ProfileArg, ProfileHash: c.ProfileHash, Model: c.Model, Role: c.Role, Config: stored,
	}); err != nil {
		return err
	}
	if err = o.lock(ctx, o.Conv.ID); err == nil {
		err = review.Keep(ctx, o.locked(), &o.Conv, review.Had(c))
	}
	if err != nil {
		return err
	}
	if err := o.Log.Append(ctx, events...); err != nil {
		return err
	}
	if len(events) > 0 {
		o.Conv.Status, o.Conv.Turns = c.Status, events[len(events)-1].Turn
	}
	if err := o.resolve(ctx, stored.JSON, o.req.Directives); err != nil {
		return err
	}
	o.change, err = o.changed(ctx, stored.JSON)
	return err
}

// lone refuses tools that delegate, also by a jp inside the tool: conversations of sub-agents have
// to be stored.
func lone(set tools.Set) error {
	for t := range set.All() {
		if t.Source == tools.SourceDelegation {
			return exit.Refusedf("--no-persist: the tool %s delegates, and conversations of sub-agents are kept", t.Name).
				WithHint("--no-sub-calls runs without sub-agents")
		}
	}
	return nil
}

package run

import (
	"context"
	"fmt"

	"jp/convstore"
)

// Used returns the most that this run can have used so far, sub-agents included. Its own part is
// the larger one of what the agent counted and what the store has, because a reply can be paid for
// and not stored. A sub-agent that could not be settled counts with its whole grant. A nil amount
// is unknown. Used must not be called while a turn runs.
func (ag *Agent) Used(ctx context.Context) (convstore.Budget, error) {
	r, own := ag.run, ag.Loop.Used()
	if r.settled != nil { // a call that was not stored is in it with its bound
		return own.Most(*r.settled), nil
	}
	ctx, stop := convstore.Outlast(ctx)
	defer stop()
	unknown := func(err error) error {
		return fmt.Errorf("conversation %s: what its run used: %w", r.Conv.ID, err)
	}
	conv, err := r.Log.Get(ctx)
	if err != nil {
		return convstore.Budget{}, unknown(err)
	}
	if !r.Resumes() && conv.Turns == r.Conv.Turns { // the turn is not in the store: the account is that of the one before
		return own.Most(convstore.Spend{}), nil
	}
	a, err := r.Store.Account(ctx, r.Conv.ID)
	if err != nil {
		return convstore.Budget{}, unknown(err)
	}
	return own.Most(a.Own).Plus(a.Below.Most(convstore.Spend{})).Plus(a.Open), nil
}

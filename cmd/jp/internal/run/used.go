package run

import (
	"context"
	"fmt"

	"jp/convstore"
	"jp/convstore/amount"
)

// Used returns the most that this run can have used so far, sub-agents included. Its own part is
// the larger one of what the agent counted and what the store has, because a reply can be paid for
// and not stored. A sub-agent that could not be settled counts with its whole grant. A nil amount
// is unknown. Used must not be called while a turn runs.
func (ag *Agent) Used(ctx context.Context) (convstore.Budget, error) {
	r, own := ag.run, ag.Loop.Used()
	if r.settled != nil { // a call that was not stored is in it with its bound
		return most(own, *r.settled), nil
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
		return most(own, convstore.Spend{}), nil
	}
	a, err := r.Store.Account(ctx, r.Conv.ID)
	if err != nil {
		return convstore.Budget{}, unknown(err)
	}
	used := most(own, a.Own)
	below := most(a.Below, convstore.Spend{})
	return convstore.Budget{
		Tokens:   sum(used.Tokens, below.Tokens, a.Open.Tokens),
		CostNano: sum(used.CostNano, below.CostNano, a.Open.CostNano),
	}, nil
}

// most returns the larger of each amount. The cost is nil where that of a call is unknown.
func most(a, b convstore.Spend) convstore.Budget {
	tokens, cost := max(a.Tokens(), b.Tokens()), max(a.CostNano, b.CostNano)
	if a.Unpriced > 0 || b.Unpriced > 0 {
		return convstore.Budget{Tokens: &tokens}
	}
	return convstore.Budget{Tokens: &tokens, CostNano: &cost}
}

// sum returns the sum of amounts, nil where one is nil.
func sum(amounts ...*int64) *int64 {
	var n int64
	for _, a := range amounts {
		if a == nil {
			return nil
		}
		n = amount.Sum(n, *a)
	}
	return &n
}

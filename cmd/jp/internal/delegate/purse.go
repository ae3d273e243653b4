package delegate

import (
	"sync"

	"jp/cmd/jp/internal/rule"
	"jp/convstore"
	"jp/convstore/amount"
)

// Purse is what the tasks of a batch and its reduction may use together, whatever the account of
// their caller has besides: so many tasks as there are, they use no more. A nil Purse has no limit.
// Safe for concurrent use.
type Purse struct {
	set  bool // whether somebody has set its limit of money
	mu   sync.Mutex
	left convstore.Budget
}

// NewPurse returns a purse with so much in it; nil amounts are no limit. set says whether the money is
// a limit that somebody has set.
func NewPurse(all convstore.Budget, set bool) *Purse { return &Purse{set: set, left: all} }

// Add puts more in.
func (p *Purse) Add(more convstore.Budget) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.left = p.left.Plus(more)
}

// part returns the n-th part of what is left.
func (p *Purse) part(n int) convstore.Budget {
	if p == nil {
		return convstore.Budget{}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return convstore.Budget{Tokens: amount.Portion(p.left.Tokens, n), CostNano: amount.Portion(p.left.CostNano, n)}
}

// take takes what is left for an ask, and not more than most. put is called with what was used of it,
// and puts the rest back.
func (p *Purse) take(a *rule.Ask, most convstore.Budget) (put func(used convstore.Spend)) {
	if a.Want = most; p == nil {
		return func(convstore.Spend) {}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	within := func(left, most *int64) *int64 {
		n := amount.Portion(left, 1, most)
		if left != nil {
			n = new(max(*n, 0)) // more than foreseen may have been used
		}
		return n
	}
	taken := convstore.Budget{Tokens: within(p.left.Tokens, most.Tokens), CostNano: within(p.left.CostNano, most.CostNano)}
	p.left = p.left.Minus(taken)
	a.Want, a.Default = taken, !p.set
	return func(used convstore.Spend) {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.left = p.left.Plus(taken).Minus(convstore.Budget{Tokens: new(used.Tokens()), CostNano: &used.CostNano})
	}
}

package delegate

import (
	"sync"

	"jp/convstore"
	"jp/convstore/amount"
)

// Purse is what the tasks of a batch and its reduction may use together, whatever the account of
// their caller has besides: so many tasks as there are, they use no more. A nil Purse has no limit.
// Safe for concurrent use.
type Purse struct {
	mu   sync.Mutex
	left convstore.Budget
}

// NewPurse returns a purse with so much in it; nil amounts are no limit.
func NewPurse(all convstore.Budget) *Purse { return &Purse{left: all} }

// Add puts more in.
func (p *Purse) Add(more convstore.Budget) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.left = p.left.Plus(more)
}

// tokens returns how many tokens are left; nil = they are not limited.
func (p *Purse) tokens() *int64 {
	if p == nil {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return amount.Portion(p.left.Tokens, 1)
}

// take takes the n-th part of what is left, and not more than most. put is called with what was
// used of it, and puts the rest back.
func (p *Purse) take(n int, most convstore.Budget) (taken convstore.Budget, put func(used convstore.Spend)) {
	if p == nil {
		return most, func(convstore.Spend) {}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	part := func(left, most *int64) *int64 {
		n := amount.Portion(left, n, most)
		if left != nil {
			n = new(max(*n, 0)) // more than foreseen may have been used
		}
		return n
	}
	taken = convstore.Budget{Tokens: part(p.left.Tokens, most.Tokens), CostNano: part(p.left.CostNano, most.CostNano)}
	p.left = p.left.Minus(taken)
	return taken, func(used convstore.Spend) {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.left = p.left.Plus(taken).Minus(convstore.Budget{Tokens: new(used.Tokens()), CostNano: &used.CostNano})
	}
}

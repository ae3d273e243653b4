package convstore

import (
	"cmp"
	"math"
	"math/bits"
)

// The arithmetic of the ledger: plain functions over plain numbers. Amounts are whole tokens and
// billionths of a dollar. Of a limit, nil means unlimited and zero means none.

// Spend is what calls of models have used.
type Spend struct {
	Usage
	CostNano int64 `json:"cost_nano"`         // billionths of a dollar, of the calls whose price is known
	Unpriced int   `json:"unpriced,omitzero"` // calls whose price is not
}

// Tokens returns those that count against limits: input, cache writes and output. What is read from
// a cache does not.
func (u Usage) Tokens() int64 { return add(add(u.Input, u.CacheWrite), u.Output) }

// Cost returns the billionths of a dollar, nil when the price of a call is unknown.
func (s Spend) Cost() *int64 {
	if s.Unpriced > 0 {
		return nil
	}
	return &s.CostNano
}

// Add returns the sum of s and t.
func (s Spend) Add(t Spend) Spend {
	return Spend{s.Usage.Add(t.Usage), add(s.CostNano, t.CostNano), s.Unpriced + t.Unpriced}
}

// sub returns what was spent between t and s.
func (s Spend) sub(t Spend) Spend {
	return Spend{s.Usage.sub(t.Usage), s.CostNano - t.CostNano, s.Unpriced - t.Unpriced}
}

// budget is s as an amount to take from another.
func (s Spend) budget() Budget {
	tokens, cost := s.Tokens(), s.CostNano
	return Budget{Tokens: &tokens, CostNano: &cost}
}

// mostSpent bounds what a conversation has spent before a turn or a run of it begins. As much again
// has room above it, so that what is spent from then on is never lost in the largest number, and a
// limit on it holds.
const mostSpent = math.MaxInt64 / 2

// bounded returns s with no amount above mostSpent.
func (s Spend) bounded() Spend {
	for _, n := range []*int64{&s.Input, &s.Output, &s.CacheRead, &s.CacheWrite, &s.CostNano} {
		*n = min(*n, mostSpent)
	}
	return s
}

// Sum adds numbers that are not negative; the largest stands for all above.
func Sum(a, b int64) int64 { return add(a, b) }

func add(a, b int64) int64 {
	if a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}

// Budget is an amount of tokens and one of money, in billionths of a dollar. Nil is unlimited. One
// that is left over can be negative.
type Budget struct {
	Tokens   *int64 `json:"tokens"`
	CostNano *int64 `json:"cost_nano"`
}

// Min returns the smaller of each amount.
func (b Budget) Min(c Budget) Budget {
	return Budget{Tokens: lesser(b.Tokens, c.Tokens), CostNano: lesser(b.CostNano, c.CostNano)}
}

// Minus returns what is left of b. Of a limited amount nothing is left when an unlimited one is
// taken from it.
func (b Budget) Minus(c Budget) Budget {
	return Budget{Tokens: minus(b.Tokens, c.Tokens), CostNano: minus(b.CostNano, c.CostNano)}
}

// plus returns the sum, unlimited where one of the two is.
func (b Budget) plus(c Budget) Budget {
	return Budget{Tokens: plus(b.Tokens, c.Tokens), CostNano: plus(b.CostNano, c.CostNano)}
}

func (b Budget) clone() Budget {
	return Budget{Tokens: clonePtr(b.Tokens), CostNano: clonePtr(b.CostNano)}
}

func lesser(a, b *int64) *int64 {
	if a == nil || b != nil && *b < *a {
		return clonePtr(b)
	}
	return clonePtr(a)
}

func minus(a, b *int64) *int64 {
	switch {
	case a == nil:
		return nil
	case b == nil:
		return new(int64)
	}
	n := *a - *b
	if *b > 0 && n > *a || *b < 0 && n < *a { // beyond what an int64 can hold
		n = math.MinInt64
		if *b < 0 {
			n = math.MaxInt64
		}
	}
	return &n
}

func plus(a, b *int64) *int64 {
	if a == nil || b == nil {
		return nil
	}
	n := add(*a, *b)
	return &n
}

// Pool returns what one reply may hand down of what remains: remaining × share, rounded down, nil
// when unlimited. A share has six decimals and is held to 0..1.
func Pool(remaining *int64, share float64) *int64 {
	if remaining == nil {
		return nil
	}
	const unit = 1_000_000
	if !(share > 0) || *remaining <= 0 {
		return new(int64)
	}
	parts := uint64(math.Round(min(share, 1) * unit))
	hi, lo := bits.Mul64(uint64(*remaining), parts)
	n, _ := bits.Div64(hi, lo, unit) // hi < unit, since parts <= unit
	pool := int64(n)
	return &pool
}

// Portion returns what each of n delegations that reserve together is given of a pool: min(⌊pool /
// n⌋, limits...), nil when all are unlimited. Nothing can be reserved when it is zero or less.
func Portion(pool *int64, n int, limits ...*int64) *int64 {
	if pool != nil {
		each := *pool / int64(max(n, 1))
		pool = &each
	}
	for _, l := range limits {
		pool = lesser(pool, l)
	}
	return clonePtr(pool)
}

// Limits are what a session may use: one turn of the root of a ledger, with all that it delegates.
// They are written when the turn starts and not read from any config after that.
type Limits struct {
	Budget        // of the sub-agents together
	Run    Budget `json:"run"` // of everything, the root's own calls included

	// Strict: a person has set CostNano, here or in Run, so that what has no known price is
	// refused. Else it runs, and counts as nothing.
	Strict   bool `json:"strict,omitzero"`
	Children int  `json:"children"`          // conversations made by delegation
	Parallel int  `json:"parallel,omitzero"` // of these, how many run at once; 0 = not said
}

// narrow holds the limits of a turn that is open to others as well: each is the smaller of the two.
// Nil are none yet.
func (l *Limits) narrow(by Limits) *Limits {
	n := by.clone()
	if l == nil {
		return n
	}
	n.Budget, n.Run = l.Budget.Min(by.Budget), l.Run.Min(by.Run)
	n.Strict, n.Children = l.Strict || by.Strict, min(l.Children, by.Children)
	n.Parallel = min(cmp.Or(l.Parallel, by.Parallel), cmp.Or(by.Parallel, l.Parallel)) // 0 = not said
	return n
}

func (l *Limits) clone() *Limits {
	if l == nil {
		return nil
	}
	c := *l
	c.Budget, c.Run = l.Budget.clone(), l.Run.clone()
	return &c
}

// Account is the state of one conversation in the ledger, in its present turn.
type Account struct {
	Session int     // the root's turn that it belongs to
	Limits  *Limits // of that session; nil when none were written
	Limit   Budget  // of its own calls and all below: its grant or, at the root, that of the whole run
	Subs    Budget  // of all below alone: at the root that of its sub-agents, unlimited elsewhere

	Own   Spend  // its own calls
	Call  Spend  // the most that its call under way may use
	Below Spend  // of the delegations that it made and that have ended, with all below them
	Open  Budget // granted to those that have not ended

	// Left is what its own next calls may use, and may be negative. At the root it is limited only
	// where the whole run is.
	Left Budget
	// Free is what may be handed down, before the share is taken of it.
	Free Budget
}

// left works out Left and Free from the rest.
//
//	remaining = limit or grant − own use (in a child) − settled − open
//
// A call under way counts as used in full: a person may delegate meanwhile.
func (a *Account) left() {
	given := a.Below.budget().plus(a.Open)
	a.Left = a.Limit.Minus(a.Own.Add(a.Call).budget()).Minus(given)
	a.Free = a.Left.Min(a.Subs.Minus(given))
}

// Package amount is the arithmetic of the ledger: plain functions over plain numbers. Amounts are
// whole tokens and billionths of a dollar. A limit of nil means unlimited, one of zero means that
// nothing may be used.
package amount

import (
	"cmp"
	"fmt"
	"math"
	"math/bits"
	"reflect"
	"strings"
)

// Usage counts tokens.
type Usage struct {
	Input      int64 `json:"input_tokens"`
	Output     int64 `json:"output_tokens"`
	CacheRead  int64 `json:"cache_read_tokens"`
	CacheWrite int64 `json:"cache_write_tokens"`
}

// Add returns the sum of u and v. A sum above the largest int64 becomes the largest int64.
func (u Usage) Add(v Usage) Usage {
	return Usage{Sum(u.Input, v.Input), Sum(u.Output, v.Output), Sum(u.CacheRead, v.CacheRead), Sum(u.CacheWrite, v.CacheWrite)}
}

// Sub returns what was used between v and u.
func (u Usage) Sub(v Usage) Usage {
	return Usage{u.Input - v.Input, u.Output - v.Output, u.CacheRead - v.CacheRead, u.CacheWrite - v.CacheWrite}
}

// Spend is what calls of models used.
type Spend struct {
	Usage
	CostNano int64 `json:"cost_nano"`         // billionths of a dollar, for calls with a known price
	Unpriced int   `json:"unpriced,omitzero"` // calls with an unknown price
}

// Tokens returns the tokens that count against limits: input, cache writes and output. Cache reads
// do not count.
func (u Usage) Tokens() int64 { return Sum(Sum(u.Input, u.CacheWrite), u.Output) }

// Of returns what one call used; nano is nil if its price is unknown.
func Of(u Usage, nano *int64) Spend {
	if nano == nil {
		return Spend{Usage: u, Unpriced: 1}
	}
	return Spend{Usage: u, CostNano: *nano}
}

// Cost returns the cost in billionths of a dollar, or nil if the price of a call is unknown.
func (s Spend) Cost() *int64 {
	if s.Unpriced > 0 {
		return nil
	}
	return &s.CostNano
}

// Add returns the sum of s and t.
func (s Spend) Add(t Spend) Spend {
	return Spend{s.Usage.Add(t.Usage), Sum(s.CostNano, t.CostNano), s.Unpriced + t.Unpriced}
}

// Sub returns what was spent between t and s.
func (s Spend) Sub(t Spend) Spend {
	return Spend{s.Usage.Sub(t.Usage), s.CostNano - t.CostNano, s.Unpriced - t.Unpriced}
}

// Budget returns s as a Budget.
func (s Spend) Budget() Budget {
	tokens, cost := s.Tokens(), s.CostNano
	return Budget{Tokens: &tokens, CostNano: &cost}
}

// mostSpent bounds the counters of what a conversation spent before a turn or a run begins. The
// same amount fits above it, so that the counters do not overflow during that turn, and its limits
// work.
const mostSpent = math.MaxInt64 / 2

// Bounded returns s with no amount above half of the largest int64, as the counters keep it.
func (s Spend) Bounded() Spend {
	for _, n := range []*int64{&s.Input, &s.Output, &s.CacheRead, &s.CacheWrite, &s.CostNano} {
		*n = min(*n, mostSpent)
	}
	return s
}

// Most returns the larger of each amount. The cost is nil, which is unknown, where that of a call is.
func (s Spend) Most(o Spend) Budget {
	tokens, cost := max(s.Tokens(), o.Tokens()), max(s.CostNano, o.CostNano)
	if s.Unpriced > 0 || o.Unpriced > 0 {
		return Budget{Tokens: &tokens}
	}
	return Budget{Tokens: &tokens, CostNano: &cost}
}

// Sum adds two numbers that are not negative. A sum above the largest int64 becomes the largest
// int64.
func Sum(a, b int64) int64 {
	if a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}

// Dollars writes billionths of a dollar as an exact decimal number of dollars: 14200000 is 0.0142.
func Dollars(nano int64) string {
	n, sign := uint64(nano), ""
	if nano < 0 {
		n, sign = -n, "-"
	}
	text := fmt.Sprintf("%s%d.%09d", sign, n/1e9, n%1e9)
	return strings.TrimRight(strings.TrimRight(text, "0"), ".")
}

// Budget is an amount of tokens and one of money, in billionths of a dollar. Nil is unlimited. An
// amount that is left can be negative.
type Budget struct {
	Tokens   *int64 `json:"tokens"`
	CostNano *int64 `json:"cost_nano"`
}

// Min returns the smaller of each amount.
func (b Budget) Min(c Budget) Budget {
	return Budget{Tokens: lesser(b.Tokens, c.Tokens), CostNano: lesser(b.CostNano, c.CostNano)}
}

// Minus returns what is left of b after c. If an amount of b is limited and that of c is not,
// nothing is left of it.
func (b Budget) Minus(c Budget) Budget {
	return Budget{Tokens: minus(b.Tokens, c.Tokens), CostNano: minus(b.CostNano, c.CostNano)}
}

// Plus returns the sum of each amount, unlimited if either is.
func (b Budget) Plus(c Budget) Budget {
	return Budget{Tokens: plus(b.Tokens, c.Tokens), CostNano: plus(b.CostNano, c.CostNano)}
}

// Clone returns a copy that shares nothing with b.
func (b Budget) Clone() Budget {
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
	if *b > 0 && n > *a || *b < 0 && n < *a { // overflow
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
	n := Sum(*a, *b)
	return &n
}

// Pool returns how much one reply of a model may grant to its delegations: remaining × share,
// rounded down; nil = unlimited. A share is brought into 0..1 and rounded to six decimals.
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

// Portion returns the part of a pool that each of n delegations gets: min(⌊pool / n⌋, limits...),
// or nil if all are unlimited. If the part is zero or less, nothing can be reserved.
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

// Limits are the limits of a session: one turn of the root of a ledger, with everything that it
// delegates. They are written when the turn starts. No config changes them after that.
type Limits struct {
	Budget        // budget of all sub-agents together
	Run    Budget `json:"run"` // budget of all, with the root's own calls

	// Strict is set if a person set CostNano, here or in Run. Then a model with an unknown price is
	// refused. Otherwise it runs, and costs nothing in the ledger.
	Strict   bool `json:"strict,omitzero"`
	Children int  `json:"children"`          // conversations made by delegation
	Parallel int  `json:"parallel,omitzero"` // how many of these run at the same time; 0 = not set

	// Rounds of tool calls, calls of sub-agents and levels below it, of the turn of the root itself; nil
	// = not set.
	Rounds *int64 `json:"rounds,omitempty"`
	Calls  *int64 `json:"calls,omitempty"`
	Depth  *int64 `json:"depth,omitempty"`
}

// Narrow returns the smaller of each limit of an open turn and of other limits. A nil l has no
// limits.
func (l *Limits) Narrow(by Limits) *Limits {
	n := by.Clone()
	if l == nil {
		return n
	}
	n.Budget, n.Run = l.Budget.Min(by.Budget), l.Run.Min(by.Run)
	n.Strict, n.Children = l.Strict || by.Strict, min(l.Children, by.Children)
	n.Parallel = min(cmp.Or(l.Parallel, by.Parallel), cmp.Or(by.Parallel, l.Parallel)) // 0 = not set
	n.Rounds, n.Calls, n.Depth = lesser(l.Rounds, by.Rounds), lesser(l.Calls, by.Calls), lesser(l.Depth, by.Depth)
	return n
}

// Choice is an amount that a person may have chosen. The zero Choice is none.
type Choice struct {
	Set   bool
	Value *int64 // nil = unlimited
}

// Change is what the flags of a person say of the limits of a session. What they do not name stays.
type Change struct {
	Tokens, CostNano Choice // for all sub-agents together
	Run              Budget // for the whole run, whose limits only become lower
}

// With returns the limits after a change. Nothing else says what a flag does to limits.
func (l Limits) With(c Change) Limits {
	l = *l.Clone()
	if c.Tokens.Set {
		l.Tokens = clonePtr(c.Tokens.Value)
	}
	if c.CostNano.Set {
		l.CostNano, l.Strict = clonePtr(c.CostNano.Value), c.CostNano.Value != nil
	}
	l.Run = l.Run.Min(c.Run)
	l.Strict = l.Strict || l.Run.CostNano != nil
	return l
}

// Is reports whether all limits are the same.
func (l Limits) Is(m Limits) bool { return reflect.DeepEqual(l, m) }

// Terms are those of a person who delegates on behalf of a conversation that they do not run.
type Terms struct {
	Limits // of a session that has none yet
	Change Change
}

// Over returns the limits of a session that had those of was; nil = none.
func (t Terms) Over(was *Limits) Limits {
	if was == nil {
		was = &t.Limits
	}
	return was.With(t.Change)
}

// Clone returns a copy that shares nothing with l; nil of nil.
func (l *Limits) Clone() *Limits {
	if l == nil {
		return nil
	}
	c := *l
	c.Budget, c.Run = l.Budget.Clone(), l.Run.Clone()
	c.Rounds, c.Calls, c.Depth = clonePtr(l.Rounds), clonePtr(l.Calls), clonePtr(l.Depth)
	return &c
}

// Account is the state of one conversation in the ledger, in its present turn.
type Account struct {
	Limits *Limits // limits of that session; nil = none were written
	Limit  Budget  // of its own calls and all below: its grant or, at the root, the limit of the whole run
	Subs   Budget  // of all below, without its own calls: at the root the limit of its sub-agents, unlimited elsewhere

	Own   Spend  // use by its own calls
	Call  Spend  // most that its open call may use
	Below Spend  // use by the delegations that it made and that have ended, with all below them
	Open  Budget // grants of those that have not ended

	// Left is what its next calls may use. It may be negative. At the root it is limited only if
	// the whole run is.
	Left Budget
	// Free is what may be granted to delegations, before it is multiplied by the share.
	Free Budget
}

// ComputeLeft computes Left and Free from the other fields.
//
//	remaining = limit or grant − own use (in a child) − settled − open
//
// An open call counts as used in full, because a person may delegate meanwhile.
func (a *Account) ComputeLeft() {
	given := a.Below.Budget().Plus(a.Open)
	a.Left = a.Limit.Minus(a.Own.Add(a.Call).Budget()).Minus(given)
	a.Free = a.Left.Min(a.Subs.Minus(given))
}

func clonePtr[T any](p *T) *T {
	if p == nil {
		return nil
	}
	v := *p
	return &v
}

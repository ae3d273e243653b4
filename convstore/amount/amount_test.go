package amount

import (
	"math"
	"reflect"
	"testing"

	"pgregory.net/rapid"
)

func ptr(n int64) *int64 { return &n }

func budget(tokens, cost int64) Budget { return Budget{Tokens: &tokens, CostNano: &cost} }

func TestPool(t *testing.T) {
	for _, test := range []struct {
		remaining int64
		share     float64
		want      int64
	}{
		{8000, 0.5, 4000}, {6000, 0.5, 3000}, {10000, 0.3, 3000}, {10000, 0.5, 5000},
		{1, 0.5, 0}, {3, 0.5, 1}, {7999, 0.5, 3999}, {0, 0.5, 0}, {-50, 0.5, 0},
		{100, 0, 0}, {100, 1, 100}, {100, 2, 100}, {100, -1, 0}, {100, math.NaN(), 0},
		{100, 0.29, 29}, {math.MaxInt64, 1, math.MaxInt64}, {math.MaxInt64, 0.5, math.MaxInt64 / 2},
	} {
		if got := Pool(&test.remaining, test.share); *got != test.want {
			t.Errorf("Pool(%d, %v) = %d, want %d", test.remaining, test.share, *got, test.want)
		}
	}
	if got := Pool(nil, 0.5); got != nil {
		t.Errorf("Pool(unlimited) = %d, want unlimited", *got)
	}
}

func TestPortion(t *testing.T) {
	for _, test := range []struct {
		pool   *int64
		n      int
		limits []*int64
		want   *int64
	}{
		{ptr(4000), 1, []*int64{nil, nil}, ptr(4000)},
		{ptr(4000), 1, []*int64{ptr(2000), nil}, ptr(2000)},
		{ptr(4000), 1, []*int64{ptr(6000), nil}, ptr(4000)},
		{ptr(4000), 1, []*int64{ptr(6000), ptr(100)}, ptr(100)},
		{ptr(8000), 3, nil, ptr(2666)},
		{ptr(2), 3, nil, ptr(0)},
		{ptr(100), 0, nil, ptr(100)},
		{nil, 3, []*int64{nil, nil}, nil},
		{nil, 3, []*int64{ptr(7), nil}, ptr(7)},
		{ptr(-5), 1, nil, ptr(-5)},
	} {
		if got := Portion(test.pool, test.n, test.limits...); !reflect.DeepEqual(got, test.want) {
			t.Errorf("Portion(%v, %d, %v) = %v, want %v", show(test.pool), test.n, test.limits, show(got), show(test.want))
		}
	}
}

func show(n *int64) any {
	if n == nil {
		return "unlimited"
	}
	return *n
}

func TestBudgetMinus(t *testing.T) {
	most, least := int64(math.MaxInt64), int64(math.MinInt64)
	for _, test := range []struct{ a, b, want *int64 }{
		{ptr(10), ptr(3), ptr(7)}, {ptr(3), ptr(10), ptr(-7)}, {nil, ptr(10), nil}, {nil, nil, nil},
		{ptr(10), nil, ptr(0)}, {&least, &most, &least}, {&most, &least, &most}, {ptr(-1), &most, &least},
		{ptr(-9), &most, &least},
	} {
		if got := (Budget{Tokens: test.a}).Minus(Budget{Tokens: test.b}).Tokens; !reflect.DeepEqual(got, test.want) {
			t.Errorf("%v minus %v = %v, want %v", show(test.a), show(test.b), show(got), show(test.want))
		}
	}
}

// TestAccountLeft is the worked examples: of a limit of 8000 of which 2000 are settled 3000 can be
// granted; three one by one get 4000, 2000 and 1000, and when the first has settled at 500 the next
// gets 2250.
func TestAccountLeft(t *testing.T) {
	next := func(below, open int64) int64 {
		zero := int64(0)
		a := Account{
			Subs: budget(8000, 8000), Own: Spend{Usage: Usage{Input: 99999}},
			Below: Spend{Usage: Usage{Input: below, CacheRead: 1 << 40}}, Open: Budget{Tokens: &open, CostNano: &zero},
		}
		a.ComputeLeft()
		if a.Left != (Budget{}) {
			t.Errorf("the root's own calls are limited to %+v", a.Left)
		}
		return *Pool(a.Free.Tokens, 0.5)
	}
	for _, test := range []struct{ below, open, want int64 }{
		{2000, 0, 3000}, {0, 0, 4000}, {0, 4000, 2000}, {0, 6000, 1000}, {500, 3000, 2250}, {8000, 0, 0}, {9000, 0, 0},
	} {
		if got := next(test.below, test.open); got != test.want {
			t.Errorf("of 8000, %d settled and %d open: grants %d, want %d", test.below, test.open, got, test.want)
		}
	}
	// In a sub-agent, and where the whole run is limited, its own calls count.
	own := Spend{Usage: Usage{Input: 100, Output: 20, CacheWrite: 3, CacheRead: 7}, CostNano: 50}
	child := Account{Limit: budget(1000, 1000), Own: own, Open: budget(0, 0)}
	child.ComputeLeft()
	if want := budget(877, 950); !reflect.DeepEqual(child.Left, want) || !reflect.DeepEqual(child.Free, want) {
		t.Errorf("a child has left %v and free %v, want 877", *child.Left.Tokens, *child.Free.Tokens)
	}
	main := Account{Subs: budget(500, 2000), Limit: budget(1000, 1000), Own: own, Open: budget(0, 0)}
	main.ComputeLeft()
	if !reflect.DeepEqual(main.Left, budget(877, 950)) || !reflect.DeepEqual(main.Free, budget(500, 950)) {
		t.Errorf("a bounded run has left %v, %v and free %v, %v", *main.Left.Tokens, *main.Left.CostNano, *main.Free.Tokens, *main.Free.CostNano)
	}
}

// TestGrantsNeverExceedTheLimit hands down from one account in any order, and settles at no more
// than what was granted.
func TestGrantsNeverExceedTheLimit(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		limit := rapid.Int64Range(0, 1<<50).Draw(rt, "limit")
		share := rapid.Float64Range(0, 1).Draw(rt, "share")
		var settled int64
		var open []int64
		sum := func() (n int64) {
			for _, g := range open {
				n += g
			}
			return n
		}
		for range rapid.IntRange(1, 40).Draw(rt, "steps") {
			if len(open) > 0 && rapid.Bool().Draw(rt, "settle") {
				i := rapid.IntRange(0, len(open)-1).Draw(rt, "which")
				settled += rapid.Int64Range(0, open[i]).Draw(rt, "used")
				open = append(open[:i], open[i+1:]...)
			} else {
				n := rapid.IntRange(1, 5).Draw(rt, "n")
				given := sum()
				zero := int64(0)
				a := Account{Subs: Budget{Tokens: &limit}, Below: Spend{Usage: Usage{Output: settled}}, Open: Budget{&given, &zero}}
				a.ComputeLeft()
				each := *Portion(Pool(a.Free.Tokens, share), n)
				for range n {
					open = append(open, each)
				}
			}
			if settled+sum() > limit {
				rt.Fatalf("settled %d + open %d > %d", settled, sum(), limit)
			}
		}
	})
}

// TestSumsDoNotOverflow: the largest number stands for all above it, so that no use turns into
// credit.
func TestSumsDoNotOverflow(t *testing.T) {
	huge := Spend{Usage: Usage{math.MaxInt64, 10, math.MaxInt64, 1}, CostNano: math.MaxInt64}
	if got := huge.Tokens(); got != math.MaxInt64 {
		t.Errorf("Tokens = %d", got)
	}
	want := Spend{Usage: Usage{math.MaxInt64, 20, math.MaxInt64, 2}, CostNano: math.MaxInt64}
	if got := huge.Add(huge); got != want {
		t.Errorf("Add = %+v, want %+v", got, want)
	}
}

func TestLimitsNarrow(t *testing.T) {
	was := Limits{Budget: budget(100, 7), Run: Budget{Tokens: ptr(90)}, Children: 5, Parallel: 3}
	for name, test := range map[string]struct {
		was      *Limits
		by, want Limits
	}{
		"none yet": {nil, was, was},
		"lifted":   {&was, Limits{Children: 64, Parallel: 8}, was},
		"not said": {&was, Limits{Children: 5}, was},
		"smaller": {
			&was, Limits{Budget: budget(200, 6), Run: budget(80, 1), Strict: true, Children: 2, Parallel: 1},
			Limits{Budget: budget(100, 6), Run: budget(80, 1), Strict: true, Children: 2, Parallel: 1},
		},
		"of the turn": {
			&Limits{Rounds: ptr(1), Calls: ptr(5)}, Limits{Rounds: ptr(9), Calls: ptr(2), Depth: ptr(1)},
			Limits{Rounds: ptr(1), Calls: ptr(2), Depth: ptr(1)},
		},
	} {
		if got := test.was.Narrow(test.by); !reflect.DeepEqual(*got, test.want) {
			t.Errorf("%s: narrow = %+v, want %+v", name, *got, test.want)
		}
	}
}

// TestLimitsWith: a flag sets what it names, and nothing else.
func TestLimitsWith(t *testing.T) {
	was := Limits{Budget: budget(100, 7), Run: Budget{Tokens: ptr(90)}, Children: 5, Parallel: 3}
	strict := was
	strict.Run, strict.Strict = budget(90, 8), true
	for name, test := range map[string]struct {
		was  Limits
		by   Change
		want Limits
	}{
		"nothing": {was, Change{}, was},
		"tokens":  {strict, Change{Tokens: Choice{true, ptr(200)}}, Limits{Budget: budget(200, 7), Run: budget(90, 8), Strict: true, Children: 5, Parallel: 3}},
		"money":   {was, Change{CostNano: Choice{true, ptr(7)}}, Limits{Budget: budget(100, 7), Run: Budget{Tokens: ptr(90)}, Strict: true, Children: 5, Parallel: 3}},
		"no limit of money": {
			Limits{Budget: budget(100, 7), Run: Budget{}, Strict: true, Children: 5, Parallel: 3}, Change{CostNano: Choice{Set: true}},
			Limits{Budget: Budget{Tokens: ptr(100)}, Run: Budget{}, Strict: false, Children: 5, Parallel: 3},
		},
		"but one of the whole run": {
			strict, Change{CostNano: Choice{Set: true}}, Limits{Budget: Budget{Tokens: ptr(100)}, Run: budget(90, 8), Strict: true, Children: 5, Parallel: 3},
		},
		"the whole run": {was, Change{Run: budget(91, 9)}, Limits{Budget: budget(100, 7), Run: budget(90, 9), Strict: true, Children: 5, Parallel: 3}},
	} {
		if got := test.was.With(test.by); !got.Is(test.want) {
			t.Errorf("%s: %+v, want %+v", name, got, test.want)
		}
	}
}

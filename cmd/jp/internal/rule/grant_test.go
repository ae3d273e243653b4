package rule

import (
	"fmt"
	"reflect"
	"testing"

	"pgregory.net/rapid"

	"jp/convstore"
	"jp/convstore/amount"
)

func some(n int64) *int64 { return &n }

// grantsOf is what each of the asks is granted in tokens, or the code of its refusal.
func grantsOf(vs []Verdict) []string {
	list := make([]string, len(vs))
	for i, v := range vs {
		switch n := v.Child.Grant.Tokens; {
		case v.Err != nil:
			list[i] = string(codeOf(v.Err))
		case n == nil:
			list[i] = "unlimited"
		default:
			list[i] = fmt.Sprint(*n)
		}
	}
	return list
}

func TestGrants(t *testing.T) {
	plain := Ask{Tool: toolQuery, Profile: researcher(0)}
	wants := func(n int64) Ask {
		a := plain
		a.Want.Tokens = some(n)
		return a
	}
	capped := plain
	capped.Profile.Caps.Tokens = some(700)
	none := plain
	none.Profile.Caps.Tokens = some(0)
	follow := plain
	follow.ID = child
	stranger := plain
	stranger.Profile.Name = "agent/other"
	batch := func(n int) (list []Ask) {
		b := new(Batch)
		for range n {
			a := plain
			a.Batch = b
			list = append(list, a)
		}
		return list
	}
	for _, test := range []struct {
		name string
		free *int64
		asks []Ask
		want []string
	}{
		{"one", some(8000), []Ask{plain}, []string{"4000"}},
		{"used before", some(6000), []Ask{plain}, []string{"3000"}},
		{"requested", some(8000), []Ask{wants(2000)}, []string{"2000"}},
		{"more than there is", some(8000), []Ask{wants(6000)}, []string{"4000"}},
		{"nothing requested", some(8000), []Ask{wants(0)}, []string{"tokens"}},
		{"together", some(8000), []Ask{plain, wants(100), capped}, []string{"1333", "100", "700"}},
		{"refused ones do not share", some(8000), []Ask{plain, stranger, none, plain}, []string{"2000", "profile", "tokens", "2000"}},
		{"a follow-up", some(8000), []Ask{follow}, []string{"4000"}},
		{"spent", some(0), []Ask{plain}, []string{"tokens"}},
		{"overspent", some(-50), []Ask{plain}, []string{"tokens"}},
		{"too little to share", some(1), []Ask{plain}, []string{"tokens"}},
		{"none for any", some(4), []Ask{plain, plain, plain}, []string{"tokens", "tokens", "tokens"}},
		{"unlimited", nil, []Ask{plain, wants(5)}, []string{"unlimited", "5"}},
		{"a batch", some(16000), batch(3), []string{"2666", "2666", "2666"}},
		{"a batch beside a call", some(8000), append(batch(2), plain), []string{"1000", "1000", "2000"}},
		{"a batch up to the limit of calls", some(8000), batch(7), []string{"800", "800", "800", "800", "800", "calls", "calls"}},
	} {
		s := standing(0, 0, nil)
		s.Account.Free.Tokens = test.free
		c := caller(toolQuery)
		c.Limits.Share = 0.5
		if got := grantsOf(Decide(s, c, test.asks)); fmt.Sprint(got) != fmt.Sprint(test.want) {
			t.Errorf("%s: %v, want %v", test.name, got, test.want)
		}
	}
}

// TestGrantsKeepTheClosingCall: even a share of all leaves what the caller's own last call needs.
func TestGrantsKeepTheClosingCall(t *testing.T) {
	s := standing(1, 3, []string{toolQuery})
	s.Account.Left = convstore.Budget{Tokens: some(5000), CostNano: some(900)}
	s.Account.Free = s.Account.Left
	c := caller(toolQuery)
	c.Limits.Share, c.Closing = 1, convstore.Budget{Tokens: some(1024), CostNano: some(100)}
	got, err := decide(s, c, Ask{Tool: toolQuery, Profile: researcher(0)})
	if err != nil || *got.Grant.Tokens != 3976 || *got.Grant.CostNano != 800 {
		t.Errorf("granted %+v, %v, want 3976 tokens and 800", got.Grant.Budget, err)
	}
	s.Account.Left.Tokens, s.Account.Free.Tokens = some(1000), some(1000)
	if _, err := decide(s, c, Ask{Tool: toolQuery, Profile: researcher(0)}); codeOf(err) != CodeTokens {
		t.Errorf("with less than the closing call needs: %v, want a refusal", err)
	}
}

// TestPriceUnknown: what has no price is refused only under a limit that somebody set.
func TestPriceUnknown(t *testing.T) {
	ask := Ask{Tool: toolQuery, Profile: researcher(0)}
	ask.Profile.Model = "p/dear"
	capped, wants := ask, ask
	above := &convstore.Grant{Tools: []string{toolQuery}, MaxDepth: 3, Strict: true}
	capped.Profile.Caps.CostNano, wants.Want.CostNano = some(50), some(50)
	for _, test := range []struct {
		name   string
		ask    Ask
		strict bool
		grant  *convstore.Grant // of the caller
		priced bool
		want   Code
	}{
		{"default limit", ask, false, nil, false, ""}, {"a limit that was set", ask, true, nil, false, CodePrice},
		{"its profile's limit", capped, false, nil, false, CodePrice}, {"asked for", wants, false, nil, false, CodePrice},
		{"a limit above", ask, false, above, false, CodePrice},
		{"priced", ask, true, nil, true, ""}, {"priced, capped", capped, true, nil, true, ""}, {"priced, a limit above", ask, false, above, true, ""},
	} {
		s := standing(0, 3, nil)
		s.Caller.Grant = test.grant
		s.Account.Limits = &convstore.Limits{Strict: test.strict, Children: 64}
		s.Account.Free.CostNano = some(1000)
		c := caller(toolQuery)
		c.Limits.Share = 0.5
		c.Priced = func(model string) bool { return test.priced && model == "p/dear" }
		child, err := decide(s, c, test.ask)
		if codeOf(err) != test.want {
			t.Errorf("%s: %v, want %q", test.name, err, test.want)
		}
		if limited := test.ask.Profile.Caps.CostNano != nil || test.strict || test.grant != nil; err == nil && child.Grant.Strict != limited {
			t.Errorf("%s: strict %v below it, want %v", test.name, child.Grant.Strict, limited)
		}
	}
}

// TestGrantsComeToNoMore: whatever is asked, what is granted is never more than the share of what
// is free, nor to a batch more than is left of its tokens.
func TestGrantsComeToNoMore(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		s := standing(0, 0, nil)
		free := rapid.Int64Range(-10, 1<<40).Draw(rt, "free")
		s.Account.Free.Tokens = &free
		c := caller(toolQuery)
		c.Limits.Share, c.Limits.MaxPerTurn = rapid.Float64Range(0, 1).Draw(rt, "share"), rapid.IntRange(0, 8).Draw(rt, "calls")
		tokens, used := rapid.Int64Range(0, 1<<41).Draw(rt, "tokens"), rapid.Int64Range(0, 1<<41).Draw(rt, "used")
		bounded := Batch{Tokens: &tokens, Calls: "a#"} // of items that are asked for by themselves, too
		s.Used = func(calls string) (int64, error) { return map[string]int64{"a#": used}[calls], nil }
		batches := []*Batch{nil, {}, {Later: rapid.IntRange(0, 3).Draw(rt, "later")}, &bounded, new(bounded)}
		var asks []Ask
		for range rapid.IntRange(1, 12).Draw(rt, "n") {
			a := Ask{Tool: toolQuery, Profile: researcher(0), Batch: rapid.SampledFrom(batches).Draw(rt, "batch")}
			if rapid.Bool().Draw(rt, "wants") {
				a.Want.Tokens = some(rapid.Int64Range(0, 1<<41).Draw(rt, "want"))
			}
			asks = append(asks, a)
		}
		var sum, ofBatch int64
		admitted := 0
		for i, v := range Decide(s, c, asks) {
			if v.Err != nil {
				continue
			}
			admitted++
			if n := *v.Child.Grant.Tokens; n <= 0 || asks[i].Want.Tokens != nil && n > *asks[i].Want.Tokens {
				rt.Fatalf("granted %d of %v", n, asks[i].Want.Tokens)
			}
			sum += *v.Child.Grant.Tokens
			if b := asks[i].Batch; b != nil && b.Tokens != nil {
				ofBatch += *v.Child.Grant.Tokens
			}
		}
		if ofBatch > max(tokens-used, 0) {
			rt.Fatalf("a batch that has used %d of %d tokens was granted %d", used, tokens, ofBatch)
		}
		if pool := *amount.Pool(&free, c.Limits.Share); sum > pool || admitted > c.Limits.MaxPerTurn {
			rt.Fatalf("granted %d of a pool of %d in %d calls of %d", sum, pool, admitted, c.Limits.MaxPerTurn)
		}
	})
}

func TestRestOfLife(t *testing.T) {
	for _, test := range []struct {
		name   string
		child  convstore.Conversation
		life   convstore.Budget
		rest   convstore.Budget
		refuse string
	}{
		{name: "no limit", child: convstore.Conversation{ID: 7, Usage: convstore.Usage{Input: 9}}},
		{name: "new", life: convstore.Budget{Tokens: some(10), CostNano: some(5)}, rest: convstore.Budget{Tokens: some(10), CostNano: some(5)}},
		{name: "some left", child: convstore.Conversation{ID: 7, Usage: convstore.Usage{Input: 8, Output: 1, CacheRead: 50}, CostNano: some(4)},
			life: convstore.Budget{Tokens: some(10), CostNano: some(5)}, rest: convstore.Budget{Tokens: some(1), CostNano: some(1)}},
		{name: "used up", child: convstore.Conversation{ID: 7, Usage: convstore.Usage{Input: 10}, CostNano: some(0)}, life: convstore.Budget{Tokens: some(10)},
			refuse: "refused (tokens): jp-c7 has used 10 tokens, and max_life_tokens of its profile is 10; begin a new one"},
		{name: "money used up", child: convstore.Conversation{ID: 7, CostNano: some(9e9)}, life: convstore.Budget{CostNano: some(5e9)},
			refuse: "refused (cost): jp-c7 has cost 9.000000000 USD, and max_life_cost of its profile is 5.000000000 USD; begin a new one"},
		{name: "no money at all", life: convstore.Budget{CostNano: some(0)},
			refuse: "refused (cost): max_life_cost of its profile is 0.000000000 USD"},
		{name: "unknown cost", child: convstore.Conversation{ID: 7}, life: convstore.Budget{CostNano: some(5)},
			refuse: "refused (cost): what jp-c7 has cost is not known, and max_life_cost of its profile is set; begin a new one"},
	} {
		rest, err := restOfLife(test.child, test.life)
		if err != nil && err.Error() != test.refuse || err == nil && (test.refuse != "" || !reflect.DeepEqual(rest, test.rest)) {
			t.Errorf("%s: %+v, %v", test.name, rest, err)
		}
	}
}

// TestSpentHint: who is refused reads what helps: another limit of the session, or another grant of
// the caller where that one is used up.
func TestSpentHint(t *testing.T) {
	zero := convstore.Spend{}.Budget()
	for name, test := range map[string]struct {
		depth      int
		limit, own int64 // of the caller
		want       string
	}{
		"session":           {0, 100, 50, "--max-sub-tokens sets another limit"},
		"whole run":         {0, 100, 100, "`jp query --id jp-c1` begins another session"},
		"session below":     {1, 100, 50, "--max-sub-tokens sets another limit"},
		"grant of a caller": {1, 100, 100, "`jp query --id jp-c1` gives its caller another grant"},
	} {
		s := standing(test.depth, 5, []string{toolQuery})
		s.Account = convstore.Account{
			Limit: convstore.Budget{Tokens: &test.limit}, Own: convstore.Spend{Usage: convstore.Usage{Input: test.own}}, Open: zero, Free: zero,
		}
		err := Decide(s, caller(toolQuery), []Ask{{Tool: toolQuery, Profile: researcher(0)}})[0].Err
		if r, ok := err.(*Refusal); !ok || r.Hint != test.want {
			t.Errorf("%s: %v, want the hint %q", name, err, test.want)
		}
	}
}

package rule

import (
	"fmt"

	"jp/convstore"
	"jp/convstore/amount"
)

// pool returns what one reply may hand down: the caller's share of what is free, without what is
// set aside for the caller's own last call.
func pool(s convstore.Standing, c Caller) convstore.Budget {
	free := s.Account.Free
	p := convstore.Budget{Tokens: amount.Pool(free.Tokens, c.Limits.Share), CostNano: amount.Pool(free.CostNano, c.Limits.Share)}
	if t := c.Closing.Tokens; t != nil {
		p = p.Min(convstore.Budget{Tokens: s.Account.Left.Minus(c.Closing).Tokens})
	}
	if n := c.Closing.CostNano; n != nil {
		p = p.Min(convstore.Budget{CostNano: s.Account.Left.Minus(c.Closing).CostNano})
	}
	return p
}

// grants shares the pool among the asks that are not refused. Each call gets the same part, and
// each item of a batch the same part of that of the batch. Nobody gets more than was asked for, or
// than its profile allows, or than is left of the tokens of its batch.
func grants(s convstore.Standing, c Caller, asks []Ask, vs []Verdict, over []error, left map[string]*int64) []convstore.Budget {
	admitted := func(i int) bool { return vs[i].Err == nil && over[i] == nil }
	items := map[*Batch]int{}
	calls, among := 0, 0
	for i, a := range asks {
		if !admitted(i) {
			continue
		}
		among = max(among, a.Among)
		if a.Batch == nil || items[a.Batch] == 0 {
			calls++
		}
		if a.Batch != nil {
			items[a.Batch]++
		}
	}
	calls = max(calls, among)
	whole := pool(s, c)
	out := make([]convstore.Budget, len(asks))
	for i, a := range asks {
		if admitted(i) {
			n := items[a.Batch]
			if a.Batch != nil {
				n += a.Batch.Later
			}
			out[i] = part(whole, calls, n, a, vs[i].Child.Grant.Caps)
			if a.Batch != nil && left[a.Batch.Calls] != nil {
				rest := convstore.Budget{Tokens: left[a.Batch.Calls]}
				out[i] = out[i].Min(rest)
				left[a.Batch.Calls] = rest.Minus(out[i]).Tokens
			}
		}
	}
	return out
}

// part returns the grant of one ask, where so many calls share the pool, and so many items its
// batch; 0 items = it has none.
func part(pool convstore.Budget, calls, items int, a Ask, caps convstore.Budget) convstore.Budget {
	return convstore.Budget{
		Tokens:   amount.Portion(amount.Portion(pool.Tokens, calls), items, a.Want.Tokens, caps.Tokens),
		CostNano: amount.Portion(amount.Portion(pool.CostNano, calls), items, a.Want.CostNano, caps.CostNano),
	}
}

// affordable refuses an ask for which nothing would be left if it were the only one, and a model
// without a price where a limit of money must hold.
func affordable(s convstore.Standing, c Caller, a Ask, child convstore.Child) error {
	if n := a.Want.Tokens; n != nil && *n <= 0 {
		return Refuse(CodeTokens, "nothing is left of the tokens that it may use")
	}
	if n := a.Want.CostNano; n != nil && *n <= 0 {
		return Refuse(CodeCost, "nothing is left of the money that it may use")
	}
	if err := spent(s, part(pool(s, c), 1, 1, a, child.Grant.Caps)); err != nil {
		return err
	}
	if !child.Grant.Strict {
		return nil
	}
	models := append([]string{child.Model}, a.Profile.Others...)
	if a.ID != 0 && c.Answering != nil { // its profile is not read again: its config says which
		stored, err := s.Config(a.ID)
		if err != nil {
			return err
		}
		others, err := c.Answering(stored.JSON, Overrides(a.Model))
		if err != nil {
			return err
		}
		models = append(models, others...)
	}
	for _, id := range models {
		if c.Priced == nil || !c.Priced(id) {
			return Refuse(CodePrice, "the price of the model %s is not known, and a limit of cost is set", id).
				withHint("give its price in [providers.llm.prices] of the user's config.toml, or lift the limit with max_cost_per_session = \"unlimited\"")
		}
	}
	return nil
}

// strict reports whether somebody has limited what a sub-agent with these caps may cost: for the
// whole run, for it, or for one above it.
func strict(s convstore.Standing, a Ask, caps convstore.Budget) bool {
	l, above := s.Account.Limits, s.Caller.Grant
	return l != nil && l.Strict || above != nil && above.Strict || caps.CostNano != nil || a.Want.CostNano != nil && !a.Default
}

// restOfLife returns what the calls of a sub-conversation may still use of the limits of its life.
// It refuses one that has used them up. A new one has used nothing.
func restOfLife(child convstore.Conversation, life convstore.Budget) (convstore.Budget, error) {
	used := child.Usage.Tokens()
	rest := life.Minus(convstore.Budget{Tokens: &used, CostNano: orZero(child.CostNano)})
	switch {
	case rest.Tokens != nil && *rest.Tokens <= 0:
		return rest, Refuse(CodeTokens, "%s has used %d tokens, and max_life_tokens of its profile is %d; begin a new one", child.ID, used, *life.Tokens)
	case rest.CostNano != nil && *rest.CostNano <= 0 && child.ID == 0:
		return rest, Refuse(CodeCost, "max_life_cost of its profile is %s", dollars(*life.CostNano))
	case life.CostNano != nil && child.ID != 0 && child.CostNano == nil:
		return rest, Refuse(CodeCost, "what %s has cost is not known, and max_life_cost of its profile is set; begin a new one", child.ID)
	case rest.CostNano != nil && *rest.CostNano <= 0:
		return rest, Refuse(CodeCost, "%s has cost %s, and max_life_cost of its profile is %s; begin a new one", child.ID, dollars(*child.CostNano), dollars(*life.CostNano))
	}
	return rest, nil
}

// Spent refuses a grant of nothing.
func Spent(left, grant convstore.Budget) error {
	if n := grant.Tokens; n != nil && *n <= 0 {
		return Refuse(CodeTokens, "%d tokens are left for sub-agents, which comes to none for this one", max(*orZero(left.Tokens), 0)).
			withHint("--max-sub-tokens sets another limit")
	}
	if n := grant.CostNano; n != nil && *n <= 0 {
		return Refuse(CodeCost, "%s are left for sub-agents, which comes to nothing for this one", dollars(max(*orZero(left.CostNano), 0))).
			withHint("--max-sub-cost sets another limit")
	}
	return nil
}

// spent is Spent for the caller of a decision. Where its own grant is used up, no other limit of the
// session helps.
func spent(s convstore.Standing, grant convstore.Budget) error {
	err := Spent(s.Account.Free, grant)
	alone := s.Account
	alone.ComputeLeft()
	r, ok := err.(*Refusal)
	switch {
	case ok && s.Caller.Grant != nil && Spent(alone.Free, alone.Free) != nil:
		return r.withHint(fmt.Sprintf("`jp query --id %s` gives its caller another grant", s.Caller.ID))
	case ok && s.Caller.Grant == nil && Spent(alone.Left, alone.Left) != nil: // of the whole run
		return r.withHint(fmt.Sprintf("`jp query --id %s` begins another session", s.Caller.ID))
	}
	return err
}

func orZero(n *int64) *int64 {
	if n == nil {
		return new(int64)
	}
	return n
}

// dollars formats billionths of a dollar without rounding.
func dollars(nano int64) string {
	return fmt.Sprintf("%d.%09d USD", nano/1e9, nano%1e9)
}

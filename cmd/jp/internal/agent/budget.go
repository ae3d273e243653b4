package agent

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"jp/cmd/jp/internal/model"
	"jp/convstore"
)

// A turn that comes to a limit hands in what it has: one more call of the model, without tools, for which tokens and time
// are set aside from the start.
const (
	closingTokens = 1024 // of output
	closingLeast  = 64   // with less than this it is not made
	callLeast     = 256  // the same of any other call
	closingTime   = 30 * time.Second
)

// Limit names what a turn was stopped at.
type Limit string

const (
	LimitTurns  Limit = "max_turns"
	LimitTokens Limit = "tokens"
	LimitCost   Limit = "cost"
	LimitTime   Limit = "time"
)

// limit is what stopped a turn.
type limit struct {
	kind   Limit
	reason string          // as the turn's end names it
	notice string          // what is reached, for the model: in the closing call, and as the result of calls that are not run
	state  convstore.State // with nothing handed in
}

// Closing is what is set aside for the last call of a turn, given the price of its model; without one no money is.
func Closing(price *model.Price) convstore.Budget {
	tokens := int64(closingTokens)
	b := convstore.Budget{Tokens: &tokens}
	if price != nil {
		cost := price.Cost(convstore.Usage{Output: closingTokens})
		b.CostNano = &cost
	}
	return b
}

var errLate = fmt.Errorf("time to hand in: %w", context.DeadlineExceeded)

// working is the part of ctx for all but the closing call: a fifth of the time that is left, at most half a minute, is kept.
func working(ctx context.Context) (context.Context, context.CancelFunc) {
	end, ok := ctx.Deadline()
	if !ok {
		return context.WithCancel(ctx)
	}
	return context.WithDeadlineCause(ctx, end.Add(-min(time.Until(end)/5, closingTime)), errLate)
}

// reached tells which limit the turn has come to before its next call, if any.
func (t *turn) reached(work context.Context) *limit {
	switch {
	case errors.Is(context.Cause(work), errLate):
		return &limit{kind: LimitTime, reason: "deadline", notice: "the time for this task is up", state: convstore.StateTimeout}
	case t.spent():
		return &limit{
			kind: LimitTurns, reason: fmt.Sprintf("max_turns %d", t.loop.MaxRounds), state: convstore.StateBudget,
			notice: fmt.Sprintf("the limit of %d tool rounds is reached", t.loop.MaxRounds),
		}
	}
	return nil
}

// begin stores what is not stored yet and records the bound of a call that is to be sent now; of one that is to be sent later no
// bound stands any more. It lowers what the request may bring to what the account has left and, of a closing call, leaves out old
// results until it fits. A limit means that the call must not be made.
func (a *asker) begin(ctx context.Context, req *model.Request, closing, now bool) (stop *limit, err error) {
	a.cut = nil
	bound := func(acc convstore.Account) *convstore.Call {
		var in model.Bound
		var out int64
		if in, out, stop = a.afford(acc, req, closing); stop != nil || !now {
			return nil
		}
		return &convstore.Call{Model: a.model.Model, Usage: convstore.Usage{Input: in.Tokens, Output: out}, CostNano: a.most(in, out), Replayed: a.replayed}
	}
	err = a.history.log.Begin(ctx, bound, a.history.unsaved...)
	if err == nil {
		a.history.unsaved = nil
	}
	return stop, err
}

// afford works out the most that a call uses: the bound of its input, and its output.
func (a *asker) afford(acc convstore.Account, req *model.Request, closing bool) (in model.Bound, out int64, stop *limit) {
	output := a.model.Output
	if output == nil {
		output = model.Info{}.Output
	}
	want := int64(output(req.MaxTokens))
	left, least := acc.Left, min(want, callLeast)
	if closing {
		want, least = min(want, closingTokens), min(want, closingLeast)
	}
	if a.model.Price == nil {
		if left.CostNano != nil && acc.Limits != nil && acc.Limits.Strict {
			why := "the price of the model " + a.model.Model + " is not known, and a limit of cost is set"
			return in, 0, &limit{kind: LimitCost, reason: why, notice: why, state: convstore.StateBudget}
		}
		if left.CostNano != nil && *left.CostNano < a.foreseen(closing) {
			return in, 0, a.shortOf(acc, convstore.Budget{}, 0, 0)
		}
		left.CostNano = nil // what has no price is bounded by tokens, and by what its server tells that calls have cost
	}
	if !closing {
		aside := a.aside
		if left.CostNano == nil { // what is not limited needs nothing set aside
			aside.CostNano = nil
		}
		left = left.Minus(aside)
	}
	for in = a.meter.Bound(*req); ; in = a.meter.Bound(*req) {
		if out = a.room(left, in, want); out >= least || !closing || !leaveOut(req) {
			break
		}
	}
	if out < least {
		return in, 0, a.shortOf(acc, left, in.Tokens, least)
	}
	if out < want {
		a.cut = a.shortOf(acc, left, in.Tokens, want)
	}
	if limited := left.Tokens != nil || left.CostNano != nil && *a.most(model.Bound{}, 1) > 0; limited || out < int64(output(0)) {
		req.MaxTokens = int(out) // else the model gives no more by itself, or nobody minds
	}
	return in, out, nil
}

// foreseen is what a call without a price may cost, as far as anybody can say: as much as the dearest of this turn whose cost
// the server has told, and the same again for the closing call.
func (a *asker) foreseen(closing bool) (most int64) {
	for _, ev := range a.history.events[a.since:] {
		if c, ok := ev.Body.(convstore.ModelCall); ok && c.Model == a.model.Model && c.CostNano != nil {
			most = max(most, *c.CostNano)
		}
	}
	if closing || most > math.MaxInt64/2 {
		return most
	}
	return 2 * most
}

// most is the highest cost of a call; nil where the price is unknown.
func (a *asker) most(in model.Bound, out int64) *int64 {
	if a.model.Price == nil {
		return nil
	}
	n := a.model.Price.Most(in, out)
	return &n
}

// room is how many tokens of output, at most want, fit into what is left beside the input; negative when that does not fit.
func (a *asker) room(left convstore.Budget, in model.Bound, want int64) int64 {
	if left.Tokens != nil {
		want = min(want, *left.Tokens-in.Tokens)
	}
	if left.CostNano == nil || want < 0 || *a.most(in, want) <= *left.CostNano {
		return want
	}
	low, high := int64(-1), want // the largest that fits is at least low and less than high
	for high-low > 1 {
		if mid := (low + high) / 2; *a.most(in, mid) <= *left.CostNano {
			low = mid
		} else {
			high = mid
		}
	}
	return low
}

// shortOf names what a call of this size has too little of.
func (a *asker) shortOf(acc convstore.Account, left convstore.Budget, in, out int64) *limit {
	l := &limit{kind: LimitCost, reason: "cost budget", notice: "the cost budget is used up", state: convstore.StateBudget}
	if left.Tokens != nil && *left.Tokens < in+out {
		l.kind, l.reason, l.notice = LimitTokens, "token budget", "the token budget is used up"
		if n := acc.Limit.Tokens; n != nil {
			l.reason += fmt.Sprintf(" %d", *n)
		}
	} else if n := acc.Limit.CostNano; n != nil {
		l.reason += fmt.Sprintf(" %.4g USD", float64(*n)/1e9)
	}
	return l
}

// shortResult is not worth leaving out: what would stand in its place is about as long.
const shortResult = 100

// leaveOut takes the oldest result that is not short out of a request and reports whether there was one.
func leaveOut(req *model.Request) bool {
	for _, m := range req.Messages {
		for _, c := range m.Content {
			if r := c.Result; r != nil && len(r.Text) > shortResult {
				r.Text = fmt.Sprintf("[%d bytes left out to stay within the budget]", len(r.Text))
				return true
			}
		}
	}
	return false
}

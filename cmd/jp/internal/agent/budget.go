package agent

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"jp/cmd/jp/internal/model"
	"jp/convstore"
	"jp/convstore/amount"
)

// At a limit a turn is closed: the model is called once more, without tools, to hand in what it
// has. Tokens and time for this closing call are set aside from the start.
const (
	closingTokens = 1024 // tokens of output that are set aside
	closingLeast  = 64   // least tokens of output with which a closing call is made
	callLeast     = 256  // least tokens of output with which any other call is made
	closingTime   = 30 * time.Second
)

// Limit names a limit at which a turn is stopped.
type Limit string

const (
	LimitTurns  Limit = "max_turns"
	LimitTokens Limit = "tokens"
	LimitCost   Limit = "cost"
	LimitTime   Limit = "time"
)

// limit is a limit that a turn has reached.
type limit struct {
	kind   Limit
	reason string // reason in the end of the turn
	// sentence for the model, in the closing call and in results of calls that are not run
	notice string
	state  convstore.State // state of the turn if nothing is handed in
}

// Closing returns what is set aside for the closing call of a turn, whichever of the models makes
// it: tokens, and money if one of them has a price.
func Closing(prices ...*model.Price) convstore.Budget {
	tokens := int64(closingTokens)
	b := convstore.Budget{Tokens: &tokens}
	for _, price := range prices {
		if price == nil {
			continue
		}
		if cost := price.Cost(convstore.Usage{Output: closingTokens}); b.CostNano == nil || cost > *b.CostNano {
			b.CostNano = &cost
		}
	}
	return b
}

var errLate = fmt.Errorf("time to hand in: %w", context.DeadlineExceeded)

// working returns ctx with an earlier deadline for all but the closing call, for which a fifth of
// the time is set aside, and at most half a minute.
func working(ctx context.Context) (context.Context, context.CancelFunc) {
	end, ok := ctx.Deadline()
	if !ok {
		return context.WithCancel(ctx)
	}
	return context.WithDeadlineCause(ctx, end.Add(-min(time.Until(end)/5, closingTime)), errLate)
}

// reached returns the limit that the turn has reached before its next call, nil for none.
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

// begin stores what is not stored yet and, in the same transaction, puts the bound of a call into
// the account, if the call is sent now; else it takes out the bound that is there. It lowers the
// output of the request to what is left in the account. For a closing call it also leaves out old
// results, until the request fits. A limit means that the call must not be made.
func (a *asker) begin(ctx context.Context, req *model.Request, closing, now bool) (stop *limit, err error) {
	asked, fitted := *req, *req
	bound := func(acc convstore.Account) *convstore.Call { // the store may call it again, with another account
		if a.free {
			acc = convstore.Account{}
		}
		a.cut, fitted, a.note = nil, asked, ""
		if closing {
			fitted.Messages = ownResults(asked.Messages)
		} else {
			a.note, a.told = a.tell.due(acc)
			fitted.Messages = beside(asked.Messages, a.note)
		}
		fitted.Learned = a.meter.Learned()
		var in model.Bound
		var out int64
		if in, out, stop = a.afford(acc, &fitted, closing); stop != nil || !now {
			return nil
		}
		fitted.MaxInput = in.Tokens
		return &convstore.Call{Model: a.model.Model, Usage: convstore.Usage{Input: in.Tokens, Output: out}, CostNano: a.most(in, out), Replayed: a.replayed}
	}
	err = a.history.log.Begin(ctx, bound, a.history.unsaved...)
	*req = fitted
	if err == nil {
		a.history.saved()
	}
	return stop, err
}

// ownResults returns messages whose results leaveOut can change without changing those of others.
func ownResults(messages []model.Message) []model.Message {
	own := slices.Clone(messages)
	for i, m := range own {
		own[i].Content = slices.Clone(m.Content)
		for j, c := range m.Content {
			if c.Result != nil {
				r := *c.Result
				own[i].Content[j].Result = &r
			}
		}
	}
	return own
}

// afford returns the most that a call can use: the bound of its input, and its output.
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
	if left.CostNano != nil && acc.Limits != nil && acc.Limits.Strict {
		for _, m := range append(a.others[:len(a.others):len(a.others)], a.model) {
			if m.Price == nil {
				why := "the price of the model " + m.Model + " is not known, and a limit of cost is set"
				return in, 0, &limit{kind: LimitCost, reason: why, notice: why, state: convstore.StateBudget}
			}
		}
	}
	if !a.model.Price.Bounds() && left.CostNano != nil && *left.CostNano < a.foreseen(closing) {
		return in, 0, a.shortOf(acc, convstore.Budget{}, 0, 0)
	}
	if a.model.Price == nil {
		// without a price only tokens bound the call, and what its server reports of cost
		left.CostNano = nil
	}
	if !closing {
		aside := a.aside
		if left.CostNano == nil { // without a limit of money none is set aside
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
		// otherwise the default of the model is not above it, or there is no limit
		req.MaxTokens = int(out)
	}
	return in, out, nil
}

// foreseen estimates what a call may cost whose price does not bound it: as much as the dearest one
// so far whose cost the server reported, and the same again for the closing call.
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

// most returns the highest cost of a call, by whichever model makes it in the end; nil where the
// price of the one that is asked is unknown.
func (a *asker) most(in model.Bound, out int64) *int64 {
	if a.model.Price == nil {
		return nil
	}
	n := a.model.Price.Most(in, out)
	for _, m := range a.others {
		if m.Price != nil {
			n = max(n, m.Price.Most(in, out))
		}
	}
	return &n
}

// room returns how many tokens of output, at most want, fit into what is left beside the input. It
// is negative where the input alone does not fit.
func (a *asker) room(left convstore.Budget, in model.Bound, want int64) int64 {
	if left.Tokens != nil {
		want = min(want, *left.Tokens-in.Tokens)
	}
	if left.CostNano == nil || want < 0 || *a.most(in, want) <= *left.CostNano {
		return want
	}
	low, high := int64(-1), want // the largest number that fits is at least low and less than high
	for high-low > 1 {
		if mid := (low + high) / 2; *a.most(in, mid) <= *left.CostNano {
			low = mid
		} else {
			high = mid
		}
	}
	return low
}

// shortOf returns the limit that a call of this size would exceed.
func (a *asker) shortOf(acc convstore.Account, left convstore.Budget, in, out int64) *limit {
	l := &limit{kind: LimitCost, reason: "cost budget", notice: "the cost budget is used up", state: convstore.StateBudget}
	if left.Tokens != nil && *left.Tokens < in+out {
		l.kind, l.reason, l.notice = LimitTokens, "token budget", "the token budget is used up"
		if n := acc.Limit.Tokens; n != nil {
			l.reason += fmt.Sprintf(" %d", *n)
		}
	} else if n := acc.Limit.CostNano; n != nil {
		l.reason += " " + amount.Dollars(*n) + " USD"
	}
	return l
}

// shortResult is the length of a result that is not worth leaving out: the line in its place is
// about as long.
const shortResult = 100

// leaveOut takes the oldest result that is not short out of a request. It reports whether there was
// one.
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

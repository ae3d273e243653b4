package delegate

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"sync"

	"jp/cmd/jp/internal/model"
	"jp/cmd/jp/internal/rule"
	"jp/cmd/jp/internal/stream"
	"jp/cmd/jp/internal/subtree"
	"jp/convstore"
	"jp/tools"
	"jp/tools/brief"
	"jp/tools/jsondoc"
	"jp/tools/unseen"
)

// Row is the end of one item of a batch, as JSON shows it.
type Row struct {
	ConversationID *string     `json:"conversation_id"` // nil when there is none
	Label          string      `json:"label,omitempty"`
	Query          string      `json:"query,omitempty"` // beginning of what was asked; "" = not told
	Status         string      `json:"status"`          // a terminal state
	Reason         string      `json:"reason"`
	Text           string      `json:"text"`
	TokensUsed     int64       `json:"tokens_used"`
	CostUSD        *stream.USD `json:"cost_usd"` // nil when a price is unknown
	Calls          int         `json:"calls"`    // of its model
	Context        string      `json:"context,omitempty"`
	Reused         bool        `json:"reused,omitempty"`  // the answer was there before
	Trouble        string      `json:"trouble,omitempty"` // last tool call and last messages of a child that failed
	*Detail                    // nil = what only a person gets is left out

	Reduced *Reduced `json:"reduced,omitempty"` // it is the answer made of those of a batch

	Turn int       `json:"-"` // of the conversation; 0 = none
	Size int       `json:"-"` // bytes of the text before it was cut
	Code rule.Code `json:"-"` // part of the rule that refused
	Why  error     `json:"-"` // why nothing was run; nil = something was
}

// RowError names why an item has no result.
type RowError struct {
	Code string `json:"code"`
}

// Detail is what a row has for a person besides.
type Detail struct {
	Error      *RowError    `json:"error,omitempty"` // nil when there is a result
	Model      string       `json:"model,omitempty"`
	Usage      stream.Usage `json:"usage"` // also of its sub-agents
	DurationMS int64        `json:"duration_ms"`
	Attempts   int          `json:"attempts,omitempty"` // how often it was tried, where that is more than once
}

// batchArguments are those of a call of jp_batch_query.
type batchArguments struct {
	Queries     []arguments `json:"queries"`
	MaxParallel int         `json:"max_parallel"`
	TotalBudget *int64      `json:"total_budget"` // tokens; nil = as many as the rule grants
	Reduce      *Reduction  `json:"reduce"`       // nil = the answers are the result
}

// forTasks returns what the tasks may use of the budget. A tenth of it is kept for a reduction.
func (a *batchArguments) forTasks() *int64 {
	if a.TotalBudget == nil || a.Reduce == nil {
		return a.TotalBudget
	}
	n := ForTasks(*a.TotalBudget)
	return &n
}

// ForTasks returns what the tasks of a batch may use of a limit whose rest is for a reduction.
func ForTasks(limit int64) int64 { return limit - limit/10 }

// itemCall identifies an item of a batch, counted from 1, among all delegations of its caller.
func itemCall(call string, item int) string { return call + "#" + strconv.Itoa(item) }

// batch is jp_batch_query. It runs what Admit reserved for its items, some at a time, and returns
// their ends in order.
func (d *Delegator) batch(ctx context.Context, c tools.Call) (tools.Result, error) {
	var a batchArguments
	if err := json.Unmarshal(c.Arguments, &a); err != nil {
		return subtree.Denied(fmt.Errorf("arguments: %w", err))
	}
	items := make([]admission, len(a.Queries))
	for i := range items {
		var ok bool
		// a person was asked for permission, or the call is a reply by itself
		if items[i], ok = d.queue.claim(itemCall(c.ID, i+1)); !ok {
			end, err := d.admitAlone(ctx, c)
			if err != nil {
				return tools.Result{}, err
			}
			defer end()
			items[i], _ = d.queue.claim(itemCall(c.ID, i+1))
		}
	}
	ends := make([]outcome, len(items))
	errs := make([]error, len(items))
	slots := make(chan struct{}, max(a.MaxParallel, 1))
	var all sync.WaitGroup
	for i, item := range items {
		select {
		case slots <- struct{}{}:
		case <-ctx.Done(): // what has not begun is not run any more
			ends[i], errs[i] = d.carryOut(ctx, item)
			continue
		}
		all.Go(func() {
			defer func() { <-slots }()
			ends[i], errs[i] = d.carryOut(ctx, item)
			ends[i].shorten(d.inline) // a row has no more
		})
	}
	all.Wait()

	useful, recalled, began := len(items) == 0, true, false
	for i := range ends {
		useful = useful || ends[i].useful()
		if ends[i].denied == nil {
			began = true
			recalled = recalled && ends[i].recalled
		}
	}
	if began && recalled {
		d.recalled.Store(c.ID, true)
	}
	t, _ := d.set.Get(toolBatch)
	if a.Reduce != nil && ctx.Err() == nil && len(items) > 0 {
		return d.reduced(ctx, c.ID, a, ends, errs, t.SizeLimit())
	}
	text, err := rows(a.Queries, ends, errs, d.inline, t.SizeLimit())
	if err != nil {
		return tools.Result{}, err
	}
	return tools.Result{Text: text, IsError: !useful}, context.Cause(ctx)
}

// useful reports whether the model can work with the outcome.
func (o *outcome) useful() bool { return o.denied == nil && o.handedIn() }

// queryEcho is how many bytes of its query a row repeats, so that a model can tell rows apart.
const queryEcho = 200

// rows returns the result of a batch: a JSON array. Each text in it has at most limit bytes, and
// fewer where the array would else have more than size bytes.
func rows(asked []arguments, ends []outcome, errs []error, limit, size int) (string, error) {
	for {
		list := make([]Row, len(ends))
		for i := range ends {
			list[i] = ends[i].row(errs[i], limit)
			list[i].Query, _ = brief.Cut(unseen.Neutralize(asked[i].Query), min(queryEcho, limit))
			list[i].Label, _ = brief.Cut(unseen.Neutralize(asked[i].Label), min(queryEcho, limit))
		}
		text, err := jsondoc.Encode(list)
		if err != nil || len(text) <= size || limit == 0 {
			return string(text), err
		}
		limit /= 2 // how long a text becomes depends on what must be escaped in it
	}
}

// row returns an outcome with at most limit bytes of its text. err says why the run was stopped, or
// how the store failed.
func (o *outcome) row(err error, limit int) Row {
	r := Row{TokensUsed: o.Total.Tokens(), Calls: o.Calls, CostUSD: (*stream.USD)(o.Total.Cost())}
	if o.child != 0 {
		id := o.child.String()
		r.ConversationID, r.Turn = &id, o.Turn
	}
	switch {
	case rule.Refused(o.denied):
		if no, ok := errors.AsType[*rule.Refusal](o.denied); ok {
			r.Code = no.Code
		}
		r.Status, r.Reason = string(convstore.StateRefused), o.denied.Error()
	case o.denied != nil:
		r.Status, r.Reason = string(convstore.StateError), o.denied.Error()
	case o.State != "":
		r.Status, r.Reason = string(o.State), o.Reason
		r.Text, r.Trouble = strings.TrimSuffix(o.text(o.child, math.MaxInt), "\n"), strings.TrimSuffix(o.trouble(), "\n")
		if r.Size = len(r.Text); r.Size > limit {
			r.Text = strings.TrimSuffix(o.text(o.child, limit), "\n")
		}
		r.Reused = o.reused
		if o.NoContext != "" {
			r.Context = "none: " + attribute(o.NoContext)
		}
	default:
		r.Status, r.Reason = string(convstore.StateError), fmt.Sprint(err)
	}
	r.Reason, _ = brief.Cut(unseen.Neutralize(r.Reason), 300)
	return r
}

// code names why an outcome has no result, as the errors of a jp are named.
func (o *outcome) code() string {
	no, refused := errors.AsType[*rule.Refusal](o.denied)
	switch {
	case refused:
		return "refused_" + string(no.Code)
	case errors.As(o.denied, new(*convstore.BusyError)):
		return "busy"
	case errors.As(o.denied, new(*convstore.NotFoundError)):
		return "not_found"
	case errors.As(o.denied, new(*convstore.ScopeError)):
		return "scope"
	case o.denied != nil:
		return "failed"
	case o.State == convstore.StateError:
		return cmp.Or(errorIn(o.Stderr).Code, "failed")
	case o.State != "":
		return string(o.State)
	}
	return "failed"
}

// retryable reports whether what was asked may succeed when it is asked again.
func (o *outcome) retryable() bool {
	code := o.code()
	switch {
	case o.useful():
		return false
	case o.denied != nil, o.State == convstore.StateError:
		kind, _ := strings.CutPrefix(code, "provider_")
		return code == "busy" || code == "schema" || (&model.Error{Kind: model.Kind(kind)}).Temporary()
	}
	return o.State == convstore.StateKilled || o.State == convstore.StateLost
}

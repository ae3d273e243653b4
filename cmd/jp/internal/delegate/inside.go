package delegate

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"jp/cmd/jp/internal/rule"
	"jp/convstore"
	"jp/tools/schema"
	"jp/tools/unseen"
)

// Inside delegates for a jp that runs inside one call of a tool. The caller's rule, scope and
// account apply, and the rule is asked about the tool that the call is of. The delegations of the
// call are numbered in the order in which they come. That order may differ the next time, so a turn
// that is resumed after a crash does not repeat such a call. Safe for concurrent use.
type Inside struct {
	all     *Delegator // of the caller
	catalog *catalog
	ledger  *ledger
	runner  *runner

	tool string
	call string

	mu     sync.Mutex
	closed bool
	n      int
	forked map[convstore.ID]forked // delegations that Fork admitted and no Query has run
}

type forked struct {
	res *held
	req request
}

// Order is a delegation that a jp inside a tool asks for.
type Order struct {
	ID      convstore.ID // sub-conversation to continue; 0 = a new one
	Profile string       // name in the enum, or path; "" = the profile of the sub-conversation ID
	Model   string       // override of the model; "" = none
	Title   string
	Query   string
	Expire  time.Duration   // how long after its last run a new sub-conversation expires; 0 = as config says
	Schema  json.RawMessage // schema of the answer; nil = free text
	Reuse   bool            // whether an answer will do that is below the caller from before
}

// Report is how a delegation ended.
type Report struct {
	Child    convstore.ID
	Turn     int
	State    convstore.State
	Reason   string
	Code     string // names why there is no result, as the errors of a jp are named
	Text     string // answer, which cannot close the wrapper of a result
	Model    string
	Own      convstore.Spend // without its sub-agents
	Total    convstore.Spend
	SubCalls int
	Duration time.Duration
	Reused   bool // the answer was there before, and nothing was asked

	Structured json.RawMessage // answer as a value that matches the schema of the order; nil = none
}

// Inside begins a call of a tool. Its Close ends it.
func (d *Delegator) Inside(tool, call string) *Inside {
	return &Inside{all: d, catalog: d.catalog, ledger: d.ledger, runner: d.runner, tool: tool, call: call, forked: map[convstore.ID]forked{}}
}

// Close settles what was admitted and never run. No Query may be running.
func (in *Inside) Close(ctx context.Context) {
	in.mu.Lock()
	left := in.forked
	in.forked, in.closed = nil, true
	in.mu.Unlock()
	for _, f := range left {
		in.ledger.cancel(ctx, f.res)
	}
}

// Fork admits a new delegation, which a Query with its id runs. The rule decides here and not
// again.
func (in *Inside) Fork(ctx context.Context, o Order) (convstore.ID, error) {
	if o.ID != 0 {
		return 0, errors.New("a fork is a new conversation")
	}
	o, err := in.catalog.listed(ctx, o)
	if err != nil {
		return 0, err
	}
	f, err := in.admit(ctx, o)
	if err != nil {
		return 0, err
	}
	id := f.res.Child.ID
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.closed {
		in.ledger.cancel(ctx, f.res)
		return 0, errors.New("the tool call has ended")
	}
	in.forked[id] = f
	return id, nil
}

// Query runs a delegation to its end: a new one, one that Fork admitted, or another turn of a
// child. The error is that of the rule, of the scope, of a child that is busy, or of the store. How
// the child ended is no error: the Report says it.
func (in *Inside) Query(ctx context.Context, o Order) (Report, error) {
	if strings.TrimSpace(o.Query) == "" {
		return Report{}, errors.New("query: is empty")
	}
	o, err := in.catalog.listed(ctx, o)
	if err != nil {
		return Report{}, err
	}
	var form *schema.Answer
	if len(o.Schema) > 0 {
		if form, err = schema.ParseAnswer(o.Schema); err != nil {
			return Report{}, fmt.Errorf("schema: %w", err)
		}
		o.Schema = form.JSON()
	}
	f, ok, err := in.take(o)
	if err == nil && !ok {
		f, err = in.admit(ctx, o)
	}
	if a, ok := rule.AnswerIn(err); ok {
		report, err := in.reuse(ctx, a)
		if form != nil && err == nil {
			report.structure()
		}
		return report, err
	}
	if err != nil {
		return Report{}, err
	}
	f.req.query, f.req.schema = o.Query, form
	if f.req.Title == "" {
		f.req.Title = Title(o.Query)
	}
	begun := time.Now()
	del := f.res.Delegation
	e, err := in.runner.run(ctx, f.res, f.req)
	if err != nil {
		return Report{}, err
	}
	report := Report{
		Child: del.Child, Turn: e.Turn, State: e.State, Reason: unseen.Neutralize(e.Reason), Code: e.code(), Text: unseen.Neutralize(e.Text),
		Model: cmp.Or(e.Model, del.Model), Own: e.Own, Total: e.Total, SubCalls: e.SubCalls, Duration: time.Since(begun),
	}
	if form != nil {
		report.structure()
	}
	return report, nil
}

// Batch is Delegator.Batch for the tool of the call, whose output a model may read.
func (in *Inside) Batch(ctx context.Context, next func(context.Context) (Item, error), w Work, report func(Item, Row) error) error {
	call, err := in.next()
	if err != nil {
		return err
	}
	w.tool = in.tool
	return in.all.Batch(ctx, call, next, w, func(it Item, r Row) error {
		r.Query, r.Label = unseen.Neutralize(r.Query), unseen.Neutralize(r.Label) // as the rest of it is
		return report(it, r)
	})
}

// Reduce is Delegator.Reduce for the tool of the call.
func (in *Inside) Reduce(ctx context.Context, what Reduction, inputs []Input, parallel int, reuse bool) (Row, error) {
	call, err := in.next()
	if err != nil {
		return Row{}, err
	}
	what.tool = in.tool
	return in.all.Reduce(ctx, call, what, inputs, parallel, nil, reuse)
}

// next returns the id of the next call that is made inside of this one.
func (in *Inside) next() (call string, err error) {
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.closed {
		return "", errors.New("the tool call has ended")
	}
	in.n++
	return fmt.Sprintf("%s/%d", in.call, in.n), nil
}

// structure sets Structured of an answer that had to match a schema.
func (r *Report) structure() {
	if r.State == convstore.StateOK && json.Valid([]byte(r.Text)) {
		r.Structured = json.RawMessage(r.Text)
	}
}

// reuse returns an answer below the caller.
func (in *Inside) reuse(ctx context.Context, a convstore.Answer) (Report, error) {
	c, err := in.ledger.scope.Get(ctx, a.ID)
	if err != nil {
		return Report{}, err
	}
	o, err := reuse(ctx, in.ledger.scope.View, a)
	if err = cmp.Or(err, o.denied); err != nil {
		return Report{}, err
	}
	return Report{Child: a.ID, Turn: a.Turn, State: o.State, Text: unseen.Neutralize(o.Text), Model: c.Model, Reused: true}, nil
}

// take returns what Fork admitted for this child, and reports whether it did.
func (in *Inside) take(o Order) (forked, bool, error) {
	in.mu.Lock()
	defer in.mu.Unlock()
	f, ok := in.forked[o.ID]
	switch {
	case !ok:
		return f, false, nil
	case o.Profile != "" && o.Profile != f.req.Profile.Name:
		return f, true, rule.Refuse(rule.CodeProfile, "%s was forked under the profile %q, not %q", o.ID, f.req.Profile.Name, o.Profile)
	case o.Model != "" && o.Model != f.req.Model:
		return f, true, rule.Refuse(rule.CodeProfile, "%s was forked with another model: say it at the fork", o.ID)
	}
	delete(in.forked, o.ID)
	return f, true, nil
}

// admit reserves a delegation, if the rule allows it.
func (in *Inside) admit(ctx context.Context, o Order) (forked, error) {
	call, err := in.next()
	if err != nil {
		return forked{}, err
	}
	r := request{Ask: rule.Ask{Call: call, Tool: in.tool, ID: o.ID, Title: Title(o.Title), Model: o.Model, Expire: o.Expire}, query: o.Query}
	if o.Title == "" {
		r.Title = Title(o.Query)
	}
	r.Deadline, _ = ctx.Deadline()
	r.overrides = rule.Overrides(o.Model)
	r.Asked.Query, r.Asked.Schema = o.Query, o.Schema
	if o.Reuse {
		r.Reuse = &in.ledger.scope.View
	}
	r.Profile.Name = o.Profile
	switch {
	case o.ID == 0:
		if r.Profile, err = in.catalog.profile(ctx, o.Profile, rule.Overrides(o.Model)); err != nil {
			return forked{}, err
		}
		r.Asked.Meaning = r.Profile.Meaning
	case o.Profile == "":
		child, err := in.ledger.scope.Get(ctx, o.ID)
		if err != nil {
			return forked{}, err
		}
		r.Profile.Name = child.Profile
	}
	res, errs := in.ledger.reserve(ctx, []request{r})
	if errs[0] != nil {
		if rule.Refused(errs[0]) {
			in.ledger.log.Info("delegation refused", "caller", in.runner.caller, "why", errs[0])
		}
		return forked{}, errs[0]
	}
	if res[0].Existed {
		return forked{}, fmt.Errorf("call %s: was made before, and is not made again", call)
	}
	return forked{res[0], r}, nil
}

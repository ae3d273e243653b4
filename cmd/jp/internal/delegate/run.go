package delegate

import (
	"context"
	"errors"
	"fmt"
	"time"

	"jp/cmd/jp/internal/rule"
	"jp/cmd/jp/internal/stream"
	"jp/cmd/jp/internal/subprocess"
	"jp/cmd/jp/internal/subtree"
	"jp/convstore"
	"jp/tools"
)

// query is every delegation tool but jp_batch_query. It takes what Admit reserved, or reserves now,
// runs the child and returns its end.
func (d *Delegator) query(ctx context.Context, c tools.Call) (tools.Result, error) {
	a, ok := d.queue.claim(c.ID)
	if !ok { // a person was asked for permission, or the call is a reply by itself
		end, err := d.admitAlone(ctx, c)
		if err != nil {
			return tools.Result{}, err
		}
		defer end()
		a, _ = d.queue.claim(c.ID)
	}
	o, err := d.carryOut(ctx, a)
	if s, ok := answeredStep(o); ok {
		d.runner.o.Follow(ctx, s)
	}
	switch {
	case o.denied != nil:
		return subtree.Denied(o.denied)
	case o.child == 0:
		return tools.Result{}, err
	}
	return o.response(o.child, d.inline), err
}

// outcome is how a call for a delegation ended.
type outcome struct {
	denied   error        // why the child was not run; nil = it was
	child    convstore.ID // 0 = there was none yet
	recalled bool         // whether an earlier try of the call made the run
	reused   bool         // whether the answer was there before, and nothing was asked
	ending                // State is "" where the store has failed
}

// carryOut runs what was admitted, when its turn comes. An error means that the run is being
// stopped, or that the store has failed.
func (d *Delegator) carryOut(ctx context.Context, a admission) (outcome, error) {
	if a.done != nil {
		defer close(a.done)
	}
	if err := a.wait(ctx); err != nil {
		return outcome{ending: unstarted()}, err
	}
	if a.err == nil && a.res == nil {
		a.res, a.err = d.reserveAlone(ctx, a.request)
		if a.err != nil && ctx.Err() != nil {
			return outcome{ending: unstarted()}, context.Cause(ctx)
		}
	}
	if found, ok := rule.AnswerIn(a.err); ok {
		return reuse(ctx, *a.Reuse, found)
	}
	if a.err != nil {
		if rule.Refused(a.err) || errors.As(a.err, new(*convstore.BusyError)) {
			d.ledger.log.Info("delegation refused", "caller", d.scope.Caller(), "why", a.err)
		}
		d.showDenied(a)
		return outcome{denied: a.err}, nil
	}
	if a.res.Existed {
		return d.recall(ctx, a.res, a.request)
	}
	d.aged(a.res, a.Ask)
	o, err := d.runner.run(ctx, a.res, a.request)
	if no, ok := errors.AsType[*rule.Refusal](err); ok {
		return outcome{denied: no}, nil
	}
	return o, err
}

// reserveAlone reserves what is not reserved with others. It waits while an earlier run, whose jp
// has died, may still work on another machine.
func (d *Delegator) reserveAlone(ctx context.Context, r request) (*held, error) {
	for waited := false; ; waited = true {
		res, errs := d.ledger.reserve(ctx, []request{r})
		busy, ok := errors.AsType[*convstore.BusyError](errs[0])
		if !ok || busy.Away == 0 || waited {
			return res[0], errs[0]
		}
		if _, said := d.said.LoadOrStore("away", true); !said {
			d.ledger.warn("%v: waiting for that", busy)
		}
		select {
		case <-time.After(busy.Away):
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// reuse returns an answer that is in view.
func reuse(ctx context.Context, v convstore.View, a convstore.Answer) (outcome, error) {
	events, err := turnOf(ctx, v, a.ID, a.Turn)
	if err != nil && !Gone(err) {
		return outcome{}, err
	}
	o := outcome{child: a.ID, reused: true, ending: answered(events)}
	o.State, o.Turn, o.Calls = convstore.StateOK, a.Turn, 0
	if o.Text == "" { // removed meanwhile
		return outcome{denied: &convstore.NotFoundError{ID: a.ID}}, nil
	}
	return o, nil
}

// showDenied shows a delegation that was not begun. It has no conversation. In the batch of a
// person it is said once that a model cannot be asked.
func (d *Delegator) showDenied(a admission) {
	if no := (*rule.Refusal)(nil); a.ofPerson && errors.As(a.err, &no) && no.Code == rule.CodeProvider {
		if _, said := d.said.LoadOrStore(no.Why, true); !said {
			d.ledger.warn("%s", no.Why)
		}
		return
	}
	if !a.ofPerson && !d.refused.allows() {
		return
	}
	l := &stream.Delegation{
		Phase: stream.Ended, ParentID: d.scope.Caller().String(), CallID: a.Call, Profile: a.Profile.Name, Title: a.Title,
		Status: (&outcome{denied: a.err}).row(nil, 0).Status, Reason: a.err.Error(), Place: a.place,
	}
	if no, ok := errors.AsType[*rule.Refusal](a.err); ok {
		l.Reason = no.Text
	}
	l.Reason = short(l.Reason)
	d.runner.watch(l)
}

// unstarted is the ending of a delegation that was stopped while it waited.
func unstarted() ending {
	return ending{State: convstore.StateCancelled, Reason: "cancelled before it started"}
}

// stoppedBefore is the ending of a delegation that a person stopped while it waited.
func stoppedBefore() ending {
	return ending{State: convstore.StateCancelled, Reason: subprocess.ByPerson + " before it started"}
}

// recall answers a repeated call from the run that there is.
func (d *Delegator) recall(ctx context.Context, res *held, r request) (outcome, error) {
	del := res.Delegation
	if del.State == "" {
		return outcome{denied: fmt.Errorf("%s is still being worked on by an earlier run of this call", del.Child)}, nil
	}
	e, events, err := recorded(ctx, d.scope.View, del)
	if Gone(err) {
		return outcome{child: del.Child, recalled: true, ending: e, denied: unreadable(err)}, nil
	}
	if err != nil {
		return outcome{}, err
	}
	e.amend(r, events)
	d.recalled.Store(del.Call, true)
	return outcome{child: del.Child, recalled: true, ending: e}, nil
}

package agent

import (
	"context"
	"errors"
	"slices"
	"strings"

	"jp/cmd/jp/internal/model"
	"jp/convstore"
	"jp/tools/unseen"
)

// close ends a turn at a limit. Pending calls are not run. The model is called once more, without
// tools, to hand in what it has.
func (t *turn) close(ctx context.Context, l *limit) (Outcome, error) {
	if err := t.refuse(ctx, l); err != nil {
		return Outcome{}, err
	}
	if l.state != convstore.StateTimeout { // there is no time for a summary
		if err := t.compactor.fit(ctx); err != nil {
			return Outcome{}, err
		}
	}
	r, short, err := t.ask(ctx, func() model.Request { return t.closing(l) }, true)
	if broken := (storeError{}); errors.As(err, &broken) {
		return Outcome{}, broken.error
	}
	if short != nil {
		return t.end(ctx, reply{limit: l, none: true}, nil)
	}
	r.calls, r.limit = nil, l
	if err != nil && ctx.Err() == nil { // the turn ends by its limit, even if the closing call fails
		if err := t.storeCut(ctx, r); err != nil {
			return Outcome{}, err
		}
		l.reason += "; nothing could be handed in: " + err.Error()
		return t.end(ctx, reply{limit: l, none: true}, nil)
	}
	if err == nil {
		t.match(&r)
	}
	return t.end(ctx, r, err)
}

// refuse stores for each call that is pending that the limit keeps it from running.
func (t *turn) refuse(ctx context.Context, l *limit) error {
	calls := pending(t.history.current())
	refused := make([]convstore.Body, len(calls))
	for i, c := range calls {
		refused[i] = convstore.ToolResult{ID: c.ID, Text: "error: not run: " + l.notice, IsError: true}
	}
	return t.history.save(ctx, refused...)
}

// closing returns the request of the closing call.
func (t *turn) closing(l *limit) model.Request {
	req := t.next()
	say := "Stop here: " + l.notice + ". No tool can be called any more. Hand in now what you have found"
	if t.schema != nil {
		say += ": one JSON value in the form of the answer, and no other word."
	} else {
		say += ", and say what is missing."
	}
	if n := len(req.Messages); n > 0 && req.Messages[n-1].Role == model.Assistant {
		say += "\n\nYour reply was cut off after this:\n"
		for _, c := range req.Messages[n-1].Content {
			say += c.Text
		}
		req.Messages = req.Messages[:n-1]
	}
	req.System = append(req.System[:len(req.System):len(req.System)], model.Section{Text: say})
	req.ToolChoice, req.Brief = "none", true
	return req
}

// end closes the turn in the transaction that stores its last reply. err is that of the reply's
// call.
func (t *turn) end(ctx context.Context, r reply, err error) (Outcome, error) {
	if r.limit == nil && r.stop == model.StopMaxTokens {
		r.limit = t.asker.cut
	}
	state, reason, failed := verdict(ctx, r, err)
	var bodies []convstore.Body
	if !r.none && (err == nil || r.any) {
		if err != nil {
			r.cutOff()
		}
		bodies = r.bodies(t.asker.record(r))
	}
	bodies = append(bodies, convstore.TurnEnd{State: state, Reason: reason, Asked: t.asked, Personal: t.loop.Personal != nil && t.loop.Personal()})
	e := (*model.Error)(nil)
	back := t.loop.Back != nil && t.loop.paid.of == nil && t.at == 0 && errors.As(failed, &e) && e.Kind == model.KindUnknownModel
	said := len(bodies) > 1
	if back {
		bodies = append([]convstore.Body{*t.loop.Back}, bodies...)
	}
	if saveErr := t.history.save(ctx, bodies...); saveErr != nil {
		return t.unstored(r, saveErr)
	}
	if said {
		t.show(r)
	}
	out := Outcome{
		Turn: t.history.turn, State: state, Reason: reason, Err: failed, Back: back, Model: t.asker.model.Model,
		Text: Answer(t.history.current()), Structured: r.data, Usage: t.bill.Usage, Cost: t.bill.Cost(), Models: t.bill.of,
		First: state == convstore.StateOK && !slices.ContainsFunc(t.history.events[:t.history.from], endedWell),
	}
	if r.limit != nil && (state == convstore.StatePartial || failed == nil && state == r.limit.state) { // the end of the closing call counts
		out.Limit = r.limit.kind
	}
	return out, nil
}

// ModelRefused is the reason of an end where no rule refused, but the model.
const ModelRefused = "the model refused"

// verdict decides how a turn with this last reply ends: in which state, why, and by which failure,
// if any. err is that of the reply's call.
func verdict(ctx context.Context, r reply, err error) (state convstore.State, reason string, failed error) {
	switch {
	case err != nil && ctx.Err() != nil && errors.Is(context.Cause(ctx), context.DeadlineExceeded):
		return convstore.StateTimeout, "the deadline passed", err
	case err != nil && ctx.Err() != nil:
		return convstore.StateCancelled, context.Cause(ctx).Error(), err
	case err != nil:
		return convstore.StateError, err.Error(), err
	case r.stop == model.StopRefusal:
		return convstore.StateRefused, ModelRefused, nil
	case !Visible(r.text) && r.limit != nil:
		return r.limit.state, r.limit.reason, nil
	case !Visible(r.text) && r.stop == model.StopMaxTokens:
		return convstore.StateBudget, "max_tokens", nil
	case !Visible(r.text):
		return convstore.StateEmpty, "the model said nothing", nil
	case r.bad != nil:
		return convstore.StateError, r.bad.Error(), r.bad
	case r.limit != nil:
		return convstore.StatePartial, r.limit.reason, nil
	case r.stop == model.StopMaxTokens:
		return convstore.StatePartial, "max_tokens", nil
	}
	return convstore.StateOK, "", nil
}

// NotStoredError says that the model answered and the store failed. The Outcome beside it has the
// answer.
type NotStoredError struct{ Err error }

func (e *NotStoredError) Error() string { return "the answer was not stored: " + e.Err.Error() }

// Unwrap returns the error of the store.
func (e *NotStoredError) Unwrap() error { return e.Err }

// unstored shows a last reply that could not be stored, because it was paid for. In the store the
// turn stays open.
func (t *turn) unstored(r reply, err error) (Outcome, error) {
	if !Visible(r.text) {
		return Outcome{}, err
	}
	failed := &NotStoredError{err}
	t.show(r)
	return Outcome{
		Turn: t.history.turn, State: convstore.StateError, Reason: failed.Error(), Err: failed, Model: t.asker.model.Model,
		Text: r.text, Structured: r.data, Usage: t.bill.Usage, Cost: t.bill.Cost(), Models: t.bill.of,
	}, failed
}

func endedWell(ev convstore.Event) bool {
	end, ok := ev.Body.(convstore.TurnEnd)
	return ok && end.State == convstore.StateOK
}

// Visible reports whether a person sees anything of a text.
func Visible(text string) bool {
	return strings.ContainsFunc(text, func(r rune) bool { return r != ' ' && unseen.Shows(r) })
}

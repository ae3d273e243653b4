package agent

import (
	"context"
	"errors"

	"jp/cmd/jp/internal/model"
	"jp/convstore"
)

// Writer is a model that writes something beside the turns of a conversation: a summary, a title.
type Writer struct {
	Ask    model.Stream
	Model  string              // full id
	Name   string              // the provider's own id
	Price  *model.Price        // nil = unknown
	Output func(asked int) int // as of a Loop
	Window int                 // 0 = unknown
}

// AsideError tells why a Writer has not written what it was asked for. Err is nil where no model failed.
type AsideError struct {
	What   string // "summary", "title"
	Reason string
	Limit  bool // a budget does not allow it
	Err    error
}

func (e *AsideError) Error() string {
	if e.Err != nil {
		return "no " + e.What + ": " + e.Err.Error()
	}
	return "no " + e.What + ": " + e.Reason
}

func (e *AsideError) Unwrap() error { return e.Err }

// consult makes one call of w, which is one of this conversation like others: with a bound, within the limits. Nobody watches
// what it says. The caller has to store the record of the call: until then its bound stands. Where nothing came of it that is
// done already, and the error is an *AsideError about what was wanted; other errors are of the store.
func (t *turn) consult(ctx context.Context, what string, w Writer, req model.Request) (r reply, call convstore.ModelCall, err error) {
	loop := *t.Loop
	loop.Ask, loop.Model, loop.Name, loop.Price, loop.Output, loop.Watch = w.Ask, w.Model, w.Name, w.Price, w.Output, Watch{}
	kept := Closing(t.Price)
	own := &turn{Loop: &loop, history: &history{log: t.Log, unsaved: t.history.unsaved, turn: t.history.turn}, kept: &kept}
	r, short, asked := own.ask(ctx, req, false)
	if broken := (storeError{}); errors.As(asked, &broken) {
		return r, call, broken.error
	}
	t.history.unsaved = own.history.unsaved
	t.history.events = append(t.history.events, own.history.events...) // attempts that failed
	for _, ev := range own.history.events {
		t.bill.add(ev.Body.(convstore.ModelCall))
	}
	if short != nil {
		return r, call, &AsideError{What: what, Reason: short.told, Limit: true}
	}
	if asked != nil {
		r.cutOff()
	}
	call = r.call(&loop)
	if asked != nil && !r.any {
		call.CostNano = new(int64) // nothing came, whatever its price
	}
	t.bill.add(call)
	none := &AsideError{What: what, Err: asked}
	switch {
	case asked != nil:
	case r.stop == model.StopRefusal:
		none.Reason = "the model refused"
	case !visible(r.text):
		none.Reason = "the model said nothing"
	default:
		return r, call, nil
	}
	if err := t.history.save(ctx, call); err != nil {
		return r, call, err
	}
	return r, call, none
}

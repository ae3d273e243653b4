package agent

import (
	"context"
	"errors"

	"jp/cmd/jp/internal/model"
	"jp/convstore"
)

// Writer is a model that writes a text outside of the turns of a conversation: a summary or a
// title.
type Writer struct {
	Ask    model.Stream
	Model  string              // full id
	Name   string              // the provider's own id
	Price  *model.Price        // nil = unknown
	Output func(asked int) int // see Loop.Output
	Window int                 // tokens of a request that it takes; 0 = unknown
}

// AsideError says why a Writer did not write what it was asked for. Err is nil if no model failed.
type AsideError struct {
	What   string // "summary", "title"
	Reason string
	Limit  bool // whether a budget does not allow it
	Err    error
}

func (e *AsideError) Error() string {
	if e.Err != nil {
		return "no " + e.What + ": " + e.Err.Error()
	}
	return "no " + e.What + ": " + e.Reason
}

func (e *AsideError) Unwrap() error { return e.Err }

// consult makes one call of w for this conversation. The call has a bound and keeps the limits like
// any other. Its reply is not shown. The caller must store the record of the call: until then its
// bound is in the account. If w wrote nothing, the record is stored already, and the error is an
// *AsideError. Other errors are errors of the store.
func (a *asker) consult(ctx context.Context, what string, w Writer, req model.Request) (r reply, call convstore.ModelCall, err error) {
	own := &asker{model: w, replayed: a.replayed, history: a.history, bill: a.bill, paid: a.paid, aside: a.aside, since: a.since, free: a.free}
	r, short, asked := own.ask(ctx, req, false)
	if broken := (storeError{}); errors.As(asked, &broken) {
		return r, call, broken.error
	}
	if short != nil {
		return r, call, &AsideError{What: what, Reason: short.notice, Limit: true}
	}
	if asked != nil {
		r.cutOff()
	}
	call = own.record(r)
	if asked != nil && !r.any {
		call.CostNano = new(int64) // nothing came, whatever its price
	}
	none := &AsideError{What: what, Err: asked}
	switch {
	case asked != nil:
	case r.stop == model.StopRefusal:
		none.Reason = ModelRefused
	case !Visible(r.text):
		none.Reason = "the model said nothing"
	default:
		return r, call, nil
	}
	if err := a.history.save(ctx, call); err != nil {
		return r, call, err
	}
	return r, call, none
}

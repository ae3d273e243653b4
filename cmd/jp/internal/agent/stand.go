package agent

import (
	"context"
	"errors"
	"fmt"

	"jp/cmd/jp/internal/model"
	"jp/convstore"
)

// More than one model may answer in a turn, each call of one:
//
//   - A model that fails for now is left for the next of Loop.Models, for the rest of the turn. The
//     call that failed is made again, by that one. What it had used is charged.
//   - Where the turn would not end well, Loop.Escalate goes on with it, once, with what was found
//     so far. It has no model that stands in for it.
//
// Both only go forward, so that a turn ends. A call is in the account with what the dearest of the
// models that may have to make it costs. Notes record both, for a turn that is resumed.

// The kinds of the notes that say that another model goes on. The model reads the second one, as a
// message of the user.
const (
	NoteStandIn    = "stand_in"
	NoteEscalation = "escalation"
)

// all returns all models that may be asked in a turn.
func (l *Loop) all() []Model {
	if l.Escalate == nil {
		return l.Models
	}
	return append(l.Models[:len(l.Models):len(l.Models)], *l.Escalate)
}

// prices returns their prices.
func (l *Loop) prices() []*model.Price {
	var list []*model.Price
	for _, m := range l.all() {
		list = append(list, m.Price)
	}
	return list
}

// standIns returns the models that stand in for the one at an index.
func (l *Loop) standIns(at int) []Writer {
	var list []Writer
	for i := at + 1; i < len(l.Models); i++ {
		list = append(list, l.Models[i].Writer)
	}
	return list
}

// turnTo makes the model at an index the one that is asked.
func (t *turn) turnTo(at int) {
	t.at = at
	t.asker.model, t.asker.others, t.asker.meter = t.models[at].Writer, t.loop.standIns(at), model.Meter{}
	t.compactor.limit, t.compactor.stuck = t.models[at].Limit, false
}

// fails reports whether the next model has to make a call, which came to r and err.
func (t *turn) fails(ctx context.Context, r reply, err error) bool {
	var e *model.Error
	return t.at+1 < len(t.loop.Models) && !r.shown && ctx.Err() == nil && errors.As(err, &e) && e.Elsewhere()
}

// standIn turns to the next model. The call of the one before came to r and err.
func (t *turn) standIn(ctx context.Context, r reply, err error) error {
	text := fmt.Sprintf("%v; %s is asked instead of %s", err, t.models[t.at+1].Model, t.asker.model.Model)
	if err := t.history.save(ctx, t.broken(r)); err != nil {
		return err
	}
	t.turnTo(t.at + 1)
	if err := t.note(ctx, convstore.Note{Kind: NoteStandIn, Text: text}); err != nil {
		return err
	}
	return t.compactor.fit(ctx)
}

// broken returns the record of a call that failed, whose reply is dropped.
func (t *turn) broken(r reply) convstore.Body {
	r.stop = StopBroken
	call := t.asker.record(r)
	if !r.any {
		call.CostNano = new(int64) // nothing came, whatever its price
	}
	return call
}

// escalates reports whether another model may go on with the turn.
func (t *turn) escalates() bool {
	e := t.loop.Escalate
	return e != nil && t.at < len(t.loop.Models) && t.asker.model.Model != e.Model
}

// overcome reports whether another model may go on after an error.
func overcome(err error) bool {
	var e *model.Error
	return errors.As(err, &e) && e.Kind != model.KindAuth && e.Kind != model.KindUnknownModel
}

// poor returns why a last reply is not good enough, where another model may do better; "" = it is,
// or none may: one that was refused is not asked of another model, and at a limit nothing is left.
func (t *turn) poor(ctx context.Context, r reply) string {
	if r.stop == model.StopRefusal || t.asker.cut != nil {
		return ""
	}
	state, reason, _ := verdict(ctx, r, nil)
	if state == convstore.StateOK {
		return ""
	}
	return reason
}

// escalate lets another model go on with the turn. Before that it stores what came last.
func (t *turn) escalate(ctx context.Context, why string, last ...convstore.Body) error {
	if err := t.history.save(ctx, last...); err != nil {
		return err
	}
	t.turnTo(len(t.loop.Models))
	t.free = t.rounds
	return t.note(ctx, convstore.Note{Kind: NoteEscalation, Text: t.loop.Escalate.Model + " goes on with this request, which has not come to a good end so far: " + why +
		"\nGo on from what was found until here, and answer it."})
}

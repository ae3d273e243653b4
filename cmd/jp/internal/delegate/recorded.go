package delegate

import (
	"context"
	"errors"

	"jp/convstore"
)

// turnOf returns the events of one turn of a conversation in view. A turn that it does not have has
// none: 0, or that of a run that has not begun one.
func turnOf(ctx context.Context, v convstore.View, child convstore.ID, turn int) ([]convstore.Event, error) {
	var events []convstore.Event
	for ev, err := range v.Events(ctx, child, convstore.Turn(turn)) {
		if errors.As(err, new(*convstore.RangeError)) {
			break
		}
		if err != nil {
			return nil, err
		}
		events = append(events, ev)
	}
	return events, nil
}

// Gone reports whether err says that a conversation was removed, or moved out of view.
func Gone(err error) bool {
	return errors.As(err, new(*convstore.NotFoundError)) || errors.As(err, new(*convstore.ScopeError))
}

// recorded returns the ending of a delegation from the store, with the events of its turn. Where
// these cannot be read, the ending has what the delegation says.
func recorded(ctx context.Context, v convstore.View, del convstore.Delegation) (ending, []convstore.Event, error) {
	events, err := turnOf(ctx, v, del.Child, del.ChildTurn)
	e := answered(events)
	e.State, e.Reason, e.Total = del.State, del.Reason, del.Total
	e.ran(del)
	return e, events, err
}

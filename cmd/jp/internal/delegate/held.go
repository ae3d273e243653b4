package delegate

import (
	"context"
	"sync"

	"jp/convstore"
)

// held is a reservation of a ledger. A person may stop it whenever it waits, whatever for: if nobody
// has begun it by then, it is settled at once. Safe for concurrent use.
type held struct {
	*convstore.Reservation
	off func() // nobody is told of a stop any more

	mu   sync.Mutex
	stop func()  // stops what has begun it; nil = nobody has
	end  *ending // how it ended before anybody began it; nil = it has not
	err  error   // why the store has not settled that end
}

// hold makes a reservation held. ctx is that of the call.
func (l *ledger) hold(ctx context.Context, res *convstore.Reservation) *held {
	h := &held{Reservation: res, off: func() {}}
	if res.Existed {
		return h
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	off, err := l.scope.OnStop(res, func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		if h.stop != nil {
			h.stop()
			return
		}
		e := stoppedBefore()
		h.end, h.err = &e, l.settle(ctx, h, &e)
	})
	if err != nil {
		l.warn("%s cannot be stopped by itself: %v", res.Child.ID, err)
		return h
	}
	h.off = off
	return h
}

// begin takes a reservation over: who calls it settles or withdraws it, unless it has an end by then.
// From now on a stop is a call of stop.
func (h *held) begin(stop func()) (end *ending, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.stop = stop
	return h.end, h.err
}

package delegate

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"jp/convstore"
)

// ledger reserves and settles the delegations of one caller in the store. Safe for concurrent use.
type ledger struct {
	scope    convstore.Scope
	caller   Caller // for the rule
	replayed bool   // children follow a recording
	warn     func(format string, a ...any)
	log      *slog.Logger

	mu   sync.Mutex
	made int // delegations that were reserved
}

// reserve runs the rule over asks in one transaction. The store takes all or nothing, so what the rule refuses is left out of what the
// store is given. A child that is busy is refused alone, by trying the rest again.
func (l *ledger) reserve(ctx context.Context, asks []request) ([]*convstore.Reservation, []error) {
	res := make([]*convstore.Reservation, len(asks))
	errs := make([]error, len(asks))
	busy := map[convstore.ID]error{}
	for {
		var granted []int
		got, err := l.scope.Reserve(ctx, func(s convstore.Standing) (children []convstore.Child, err error) {
			children, granted, err = l.decide(s, asks, busy, errs)
			return children, err
		})
		var b *convstore.BusyError
		if errors.As(err, &b) && b.ID != 0 && busy[b.ID] == nil {
			busy[b.ID] = err
			continue
		}
		if err != nil {
			for i := range errs {
				if errs[i] == nil {
					errs[i] = err
				}
			}
			return res, errs
		}
		l.mu.Lock()
		defer l.mu.Unlock()
		for n, i := range granted {
			res[i] = got[n]
			if !got[n].Existed {
				l.made++
			}
		}
		return res, errs
	}
}

// decide has the rule decide about asks, as the store knows the caller now. It returns the children to reserve, and the index of the
// ask of each. errs takes why an ask is refused; the error is the store's.
func (l *ledger) decide(s convstore.Standing, asks []request, busy map[convstore.ID]error, errs []error) (children []convstore.Child, granted []int, err error) {
	var put []Ask
	var from []int // index in asks of each of put
	for i, r := range asks {
		ask, err := r.present(s)
		if err != nil {
			return nil, nil, err
		}
		if errs[i] = busy[ask.ID]; errs[i] != nil {
			continue
		}
		// One that a crash kept from beginning is decided about again, and reserved under its call.
		if d, ok := s.Existing(ask.Call); ok && !d.Unstarted {
			children = append(children, convstore.Child{Call: ask.Call})
			granted = append(granted, i)
			continue
		}
		put, from = append(put, ask), append(from, i)
	}
	for n, v := range Decide(s, l.caller, put) {
		i := from[n]
		if errs[i] = v.Err; v.Err != nil {
			if !refused(v.Err) {
				return nil, nil, v.Err
			}
			continue
		}
		v.Child.Replayed = l.replayed
		children = append(children, v.Child)
		granted = append(granted, i)
	}
	return children, granted, nil
}

// settle ends a reservation in the store, and tells e what was used. Where the store fails the reservation is released: nobody holds the
// child's lock then, and whoever looks next finds the delegation lost.
func (l *ledger) settle(ctx context.Context, res *convstore.Reservation, e *ending) error {
	settled, err := l.scope.Settle(ctx, res, convstore.Outcome{
		State: e.State, Reason: e.Reason, PID: e.PID, Started: e.Started, Ended: time.Now(),
	})
	if err != nil {
		l.warn("delegation %s: %v", res.Child.ID, err)
		_ = res.Release()
		return err
	}
	e.Own, e.Total = settled.Own, settled.Total
	LogEnd(l.log, settled)
	return nil
}

// cancel settles a reservation that was never run.
func (l *ledger) cancel(ctx context.Context, res *convstore.Reservation) {
	_ = l.settle(ctx, res, &ending{State: convstore.StateCancelled, Reason: "never started"}) // settle has warned of it
}

// calls returns how many delegations were reserved.
func (l *ledger) calls() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.made
}

package delegate

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"time"

	"jp/cmd/jp/internal/rule"
	"jp/convstore"
)

// ledger reserves and settles the delegations of one caller in the store. Safe for concurrent use.
type ledger struct {
	scope    convstore.Scope
	caller   rule.Caller // for the rule
	replayed bool        // whether a recording answers in the children
	taped    bool        // whether there is a recording, so that nothing is answered from before
	warn     func(format string, a ...any)
	log      *slog.Logger
	made     atomic.Int64 // number of delegations that were reserved
}

// reserve asks the rule about asks and reserves what it allows, in one transaction. It returns a
// reservation or an error for each ask. The store takes all or nothing: what the rule refuses is
// left out before, and if a child is busy, the others are tried again without it.
func (l *ledger) reserve(ctx context.Context, asks []request) ([]*held, []error) {
	res := make([]*held, len(asks))
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
		for n, i := range granted {
			res[i] = l.hold(ctx, got[n])
			if !got[n].Existed {
				l.made.Add(1)
			}
		}
		return res, errs
	}
}

// decide asks the rule about asks, with what the store knows of the caller now. It returns the
// children to reserve, and for each the index of its ask. It writes to errs why an ask is refused.
// Its own error is that of the store.
func (l *ledger) decide(s convstore.Standing, asks []request, busy map[convstore.ID]error, errs []error) (children []convstore.Child, granted []int, err error) {
	clear(errs)
	var put []rule.Ask
	var from []int // index in asks of each of put
	for i, r := range asks {
		ask, err := r.Present(s)
		if err != nil {
			return nil, nil, err
		}
		if errs[i] = busy[ask.ID]; errs[i] != nil {
			continue
		}
		// A delegation that a crash kept from beginning is decided about again, under the same
		// call.
		if d, ok := s.Existing(ask.Call); ok && !d.Unstarted {
			children = append(children, convstore.Child{Call: ask.Call})
			granted = append(granted, i)
			continue
		}
		if l.taped {
			ask.Reuse = nil
		}
		put, from = append(put, ask), append(from, i)
	}
	for n, v := range rule.Decide(s, l.caller, put) {
		i := from[n]
		if errs[i] = v.Err; v.Err != nil {
			if _, known := rule.AnswerIn(v.Err); !known && !rule.Refused(v.Err) {
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

// settle settles a reservation in the store, and sets in e what was used. If the store fails, it
// frees the run lock of the child: the next process that reads the delegation finds it lost.
func (l *ledger) settle(ctx context.Context, res *held, e *ending) error {
	defer res.off()
	settled, err := l.scope.Settle(ctx, res.Reservation, convstore.Outcome{
		State: e.State, Reason: e.Reason, PID: e.PID, Started: e.Started, Ended: time.Now(), Hold: e.Hold,
	})
	if err != nil {
		l.warn("delegation %s: %v", res.Child.ID, err)
		_ = res.Release()
		return err
	}
	e.Own, e.Total = settled.Own, settled.Total
	e.ran(settled)
	LogEnd(l.log, settled)
	return nil
}

// cancel settles a reservation that was never run.
func (l *ledger) cancel(ctx context.Context, res *held) {
	if end, _ := res.begin(func() {}); end == nil {
		_ = l.settle(ctx, res, &ending{State: convstore.StateCancelled, Reason: "never started"}) // it has warned
	}
}

// withdraw removes a reservation, with the conversation that was made for it.
func (l *ledger) withdraw(ctx context.Context, res *held) error {
	defer res.off()
	ctx, stop := convstore.Outlast(ctx)
	defer stop()
	err := l.scope.Withdraw(ctx, res.Reservation, convstore.Outcome{State: convstore.StateRefused, Reason: "never started", Ended: time.Now()})
	if err != nil {
		l.warn("delegation %s: %v", res.Child.ID, err)
		_ = res.Release()
	}
	return err
}

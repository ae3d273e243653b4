package convstore

import (
	"context"
	"errors"
	"time"

	"jp/convstore/internal/db"
)

// Lease records that the process of a reserved run is on another machine, host, where it may run on
// for so long after this process. If this one dies without settling the run, nobody else can
// continue the conversation before that time is over.
func (s Scope) Lease(ctx context.Context, r *Reservation, host string, lease time.Duration) error {
	return s.f.write(ctx, func(t *tx) error {
		d, err := t.delegation(r.Delegation.Root, r.Delegation.Number)
		if err != nil {
			return err
		}
		d.Host, d.Lease = host, lease
		return t.SaveDelegation(d)
	})
}

// away returns a *BusyError while a process on another machine may still run the conversation.
func (t *tx) away(id ID, r *record) error {
	left := min(r.Until.Sub(t.Now), r.Hold)
	if r.Until.IsZero() || left <= 0 {
		return nil
	}
	return &BusyError{ID: id, Away: left}
}

// holdFor lets nobody continue the conversation for so long.
func (r *record) holdFor(hold time.Duration, now time.Time) {
	if r.Until, r.Hold = (time.Time{}), max(hold, 0); hold > 0 {
		r.Until = now.UTC().Add(hold)
	}
}

// settleAway settles the run of a conversation because of which err is what away has returned. What
// the transaction of err has settled was rolled back, and its time has to count from now.
func (s Scope) settleAway(ctx context.Context, err error) error {
	busy, ok := errors.AsType[*BusyError](err)
	if !ok || busy.Away == 0 {
		return err
	}
	settled := s.f.write(ctx, func(t *tx) error {
		r, err := t.Load(busy.ID)
		if err != nil {
			return err
		}
		if r.Run == nil {
			if r.Until.Sub(t.Now) <= r.Hold {
				return db.ErrUnchanged
			}
			r.holdFor(r.Hold, t.Now) // the clock was set back: the rest counts from now
			return t.Save(busy.ID, r)
		}
		lock, err := t.TakeRun(int64(busy.ID))
		if err != nil {
			return err
		}
		defer func() { _ = lock.Drop() }()
		_, err = t.takeOver(busy.ID, r)
		return err
	})
	if held := (*BusyError)(nil); settled != nil && !errors.As(settled, &held) {
		return settled
	}
	return err
}

package convstore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"jp/convstore/internal/db"
	"jp/convstore/internal/file"
)

// Settle records how a delegation ended, and then frees the child's run lock. The last process of
// the delegation must have ended. What it used is charged to the caller; the rest of its grant is
// free again. If the child left its turn open, Settle ends the turn with the same state. If it left
// a model call open, that is charged in full.
//
// Only the first settlement counts: a second one changes nothing and returns the first. If Settle
// fails, the lock is still held and the call can be repeated.
func (s Scope) Settle(ctx context.Context, r *Reservation, o Outcome) (settled Delegation, err error) {
	if !o.State.Terminal() {
		return Delegation{}, fmt.Errorf("delegation %s: %q is not a terminal state", r.Delegation.ID, o.State)
	}
	ctx, stop := file.Outlast(ctx, s.f.Deadline)
	defer stop()
	err = s.f.patiently().write(ctx, func(t *tx) error {
		d, err := t.delegation(r.Delegation.Root, r.Delegation.Number)
		if err != nil {
			return err
		}
		if d.State != "" {
			settled = d
			return db.ErrUnchanged
		}
		// Delegations that the child left open count in its total. We still hold the child's run
		// lock, and its processes have ended.
		if err := t.reconcileBut(d.Root, runner{id: d.Child}, d.Number); err != nil {
			return err
		}
		settled, err = t.settle(d, o)
		return err
	})
	if err != nil {
		return Delegation{}, err
	}
	return settled, r.drop()
}

// settle ends a delegation.
func (t *tx) settle(d Delegation, o Outcome) (Delegation, error) {
	d.State, d.Reason, d.PID, d.Started = o.State, o.Reason, o.PID, o.Started.UTC().Round(0)
	d.Ended = o.Ended.UTC().Round(0)
	if d.Ended.IsZero() {
		d.Ended = t.Now.UTC()
	}
	d.Unstarted = o.unstarted
	if err := t.endRun(&d, o.Hold); err != nil {
		return d, err
	}
	if d.Unstarted {
		if err := t.tally(d, -1); err != nil {
			return d, err
		}
	}
	return d, cmp.Or(t.SaveDelegation(d), t.Drop(db.OpenDelegations, db.PairKey(d.Root, d.Number)), t.charge(d, d.Total))
}

// endRun ends the run of a delegation in the record of its child. Unless the child was removed, it
// sets its usage. If the run began no turn, it has none: the next one of the child is another's.
func (t *tx) endRun(d *Delegation, hold time.Duration) error {
	rec, err := t.Load(d.Child)
	if errors.As(err, new(*NotFoundError)) || err == nil && !rec.runs(*d) {
		return nil
	}
	if err != nil {
		return err
	}
	if err := t.chargeLostCall(d.Child, rec); err != nil {
		return err
	}
	begun := rec.Turns > rec.Run.Turns
	d.Own = rec.spend().Sub(rec.Run.Before)
	if d.Total = d.Own.Add(rec.Below); !begun {
		d.Total, d.ChildTurn = d.Own, 0
	}
	if err := t.putOff(d.Child, rec, rec.Run.Expire); err != nil {
		return err
	}
	if run := rec.Run; begun || rec.Last == nil {
		rec.Last, rec.Run, run.Grant = run, nil, nil
	} else {
		rec.leave()
	}
	rec.holdFor(hold, t.Now)
	// The conversation must show the same end as its delegation, even if the child did not store that
	// of its turn or began none. One that used something without a turn only made it shorter.
	switch {
	case rec.TurnOpen:
		reason := d.Reason
		if d.Unstarted { // an earlier run began the turn
			reason = reasonLost
		}
		if err := t.noteEvent(d.Child, rec, Event{ID: NewEventID(), Time: t.Now, Body: TurnEnd{State: d.State, Reason: reason}}); err != nil {
			return err
		}
	case !begun && d.Own == Spend{} && d.State != StateOK && d.State != StateEmpty: // otherwise it was only made, to be used later, and is still new
		rec.RunState, rec.RunReason = d.State, d.Reason
	}
	if !begun || d.State != StateOK || rec.State != StateOK {
		rec.Asked = nil
	}
	if err := t.saveAnswer(d.Child, rec); err != nil {
		return err
	}
	return t.Save(d.Child, rec)
}

package convstore

import (
	"cmp"
	"context"

	"jp/convstore/internal/db"
)

// Withdraw removes a reservation whose child began no turn and called no model. It also removes the
// conversation that was made for it, if nothing is below that. If the child has begun, Withdraw
// settles, as Settle does.
func (s Scope) Withdraw(ctx context.Context, r *Reservation, o Outcome) error {
	withdrawn := false
	err := s.f.write(ctx, func(t *tx) error {
		withdrawn = false
		d, err := t.delegation(r.Delegation.Root, r.Delegation.Number)
		if err != nil {
			return err
		}
		if d.State != "" {
			return db.ErrUnchanged
		}
		rec, err := t.Load(d.Child)
		if err != nil {
			return err
		}
		if !rec.runs(d) || rec.begun() {
			return db.ErrUnchanged
		}
		withdrawn = true
		return t.withdraw(d, rec)
	})
	if err != nil {
		return err
	}
	if !withdrawn {
		_, err := s.Settle(ctx, r, o)
		return err
	}
	return r.drop()
}

func (t *tx) withdraw(d Delegation, rec *record) error {
	k := db.PairKey(d.Root, d.Number)
	if err := cmp.Or(t.tally(d, -1), t.Drop(db.OpenDelegations, k), t.Drop(db.Delegations, k), t.Drop(db.Calls, db.TextKey(d.Caller, d.Call))); err != nil {
		return err
	}
	rec.leave()
	if err := t.Save(d.Child, rec); err != nil {
		return err
	}
	if d.Fresh && rec.LastSeq == 0 && rec.Children == 0 {
		return t.remove([]ID{d.Child})
	}
	return nil
}

// runs reports whether d is the delegation that runs the conversation.
func (r *record) runs(d Delegation) bool {
	return r.Run != nil && r.Run.Number == d.Number && r.Run.Root == d.Root
}

// begun reports whether the delegation that runs the conversation has begun a turn or called a
// model.
func (r *record) begun() bool {
	return r.Turns > r.Run.Turns || r.Call != nil || r.spend() != r.Run.Before
}

package convstore

import (
	"context"

	"jp/convstore/internal/db"
)

// Open returns the open delegations that the caller has made, oldest first: those that run, and
// those that a run has left.
func (s Scope) Open(ctx context.Context) (ds []Delegation, err error) {
	err = s.f.read(ctx, func(t *tx) error {
		ds = nil
		caller, err := t.Load(s.root)
		if err != nil {
			return err
		}
		ledger, err := t.LedgerOf(s.root, caller)
		if err != nil {
			return err
		}
		return t.Prefixed(db.OpenDelegations, ledger.key(), func(k, v []byte) error {
			if idAt(v, 8) != s.root {
				return nil
			}
			d, err := t.delegation(ledger, db.Num(k[8:]))
			ds = append(ds, d)
			return err
		})
	})
	return ds, absent(err, s.root)
}

// SettleLeft settles an open delegation of the caller that a run has left: as the child stored the
// end of its turn, or as lost. One that is settled is returned as it is.
//
// It fails with a *BusyError while anybody holds the run lock of the child. The error names no
// holder: to find one all processes are looked at. Whoever reserved a delegation holds that lock
// until it has settled, and the child inherits it. So where the lock is free nobody else is left to
// settle, also where the caller runs again.
func (s Scope) SettleLeft(ctx context.Context, left Delegation) (settled Delegation, err error) {
	look := func(t *tx) error {
		settled = Delegation{}
		d, err := t.delegation(left.Root, left.Number)
		if err != nil {
			return err
		}
		if d.Caller != s.root {
			return &ScopeError{ID: d.Child, Root: s.root}
		}
		if settled = d; d.State != "" {
			return nil
		}
		held, err := t.Held(d.Child)
		if held {
			err = &BusyError{ID: d.Child}
		}
		return err
	}
	if err = s.f.read(ctx, look); err != nil || settled.State != "" { // so that who waits for it keeps nobody out of the store
		return settled, err
	}
	err = s.f.write(ctx, func(t *tx) error {
		if err := look(t); err != nil {
			return err
		}
		if settled.State != "" {
			return db.ErrUnchanged
		}
		if err := t.reconcileBut(settled.Root, runner{}, settled.Number); err != nil {
			return err
		}
		settled, err = t.settleLeft(settled)
		return err
	})
	return settled, err
}

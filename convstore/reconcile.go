package convstore

import (
	"context"

	"jp/convstore/internal/db"
	"jp/convstore/internal/file"
)

// Reconcile settles the delegations of all ledgers that nobody else can settle any more. Reserve
// does the same for its own ledger.
func (s *Store) Reconcile(ctx context.Context) error {
	var ledgers []ID
	err := s.f.read(ctx, func(t *tx) (err error) {
		ledgers, err = t.abandonedLedgers()
		return err
	})
	if err == file.ErrAbsent || err == nil && len(ledgers) == 0 {
		return nil
	}
	if err != nil {
		return err
	}
	return s.f.write(ctx, func(t *tx) error {
		ledgers, err := t.abandonedLedgers() // again: some may have been settled meanwhile
		if err == nil && len(ledgers) == 0 {
			return db.ErrUnchanged
		}
		for _, ledger := range ledgers {
			if err == nil {
				err = t.reconcile(ledger, runner{})
			}
		}
		return err
	})
}

// abandonedLedgers returns the ledgers that have an open, abandoned delegation, each once.
func (t *tx) abandonedLedgers() (ledgers []ID, err error) {
	err = t.Prefixed(db.OpenDelegations, nil, func(k, v []byte) error {
		ledger := idAt(k, 0)
		if n := len(ledgers); n > 0 && ledgers[n-1] == ledger {
			return nil
		}
		abandoned, err := t.abandoned(idAt(v, 0), idAt(v, 8), runner{})
		if abandoned {
			ledgers = append(ledgers, ledger)
		}
		return err
	})
	return ledgers, err
}

package convstore

import (
	"context"
	"errors"
	"slices"

	"jp/convstore/internal/db"
	"jp/convstore/internal/file"
)

const (
	reasonLost      = "the processes that ran it ended without settling it"
	reasonUnstarted = "the processes that were to run it ended before it began"
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
		abandoned, err := t.abandoned(idAt(v, 0), runner{})
		if abandoned {
			ledgers = append(ledgers, ledger)
		}
		return err
	})
	return ledgers, err
}

// reconcile settles the open delegations of a ledger that nobody else can settle any more. Self is
// the conversation that this process runs.
func (t *tx) reconcile(ledger ID, self runner) error { return t.reconcileBut(ledger, self, 0) }

// reconcileBut is reconcile without one delegation.
func (t *tx) reconcileBut(ledger ID, self runner, but uint64) error {
	var lost []uint64
	if err := t.Prefixed(db.OpenDelegations, ledger.key(), func(k, v []byte) error {
		abandoned, err := t.abandoned(idAt(v, 0), self)
		if number := db.Num(k[8:]); abandoned && number != but {
			lost = append(lost, number)
		}
		return err
	}); err != nil {
		return err
	}
	for _, number := range slices.Backward(lost) { // the deepest first
		d, err := t.delegation(ledger, number)
		if err != nil {
			return err
		}
		if _, err := t.settleLeft(d); err != nil {
			return err
		}
	}
	return nil
}

// settleLeft settles a delegation that nobody has settled.
func (t *tx) settleLeft(d Delegation) (Delegation, error) {
	o, err := t.outcomeOf(d)
	if err != nil {
		return d, err
	}
	return t.settle(d, o)
}

// outcomeOf returns how a delegation ended that nobody settled: with the state of its turn if the
// child stored the end of it, and lost otherwise.
func (t *tx) outcomeOf(d Delegation) (Outcome, error) {
	lost := Outcome{State: StateLost, Reason: reasonLost, Hold: d.Lease}
	rec, err := t.Load(d.Child)
	switch {
	case errors.As(err, new(*NotFoundError)):
		return lost, nil
	case err != nil:
		return lost, err
	case !rec.runs(d):
		return lost, nil
	case !rec.begun():
		lost.Reason, lost.unstarted = reasonUnstarted, true
		return lost, nil
	case rec.Turns <= rec.Run.Turns || rec.TurnOpen || !rec.State.Terminal():
		return lost, nil
	}
	return Outcome{State: rec.State, Reason: rec.Reason, Hold: d.Lease}, nil
}

// abandoned reports whether no process is left that could settle an open delegation of child: a
// reservation holds the run lock of the child until it is settled, whoever the caller is.
//
// The lock that this process holds for self does not count. If self is the child, it matters how it
// got its lock: if the lock came with a reservation, this is the run that was reserved, and the
// delegation is not abandoned; if it took the lock itself, it is another run.
func (t *tx) abandoned(child ID, self runner) (bool, error) {
	if child == self.id {
		return !self.reserved, nil
	}
	held, err := t.Held(child)
	return !held, err
}

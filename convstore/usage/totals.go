package usage

import (
	"bytes"
	"context"

	"jp/convstore"
	"jp/convstore/amount"
	"jp/convstore/internal/db"
	"jp/convstore/internal/file"
)

// Totals returns for each conversation of a listing what it and everything below it by delegation
// cost, in billionths of a dollar. That is the sum of what Spent charges; nil if a price is
// unknown. Of conversations below, Totals reads neither events nor records, because a listing may
// be long.
func Totals(ctx context.Context, v convstore.View, list []convstore.Conversation) (totals []*int64, err error) {
	in := v.Inside(db.Room{})
	err = in.Read(ctx, func(t *convstore.Tx) error {
		totals = make([]*int64, len(list))
		a := adder{t: t, open: make(map[convstore.ID]bool), ledger: make(map[convstore.ID]convstore.ID), removed: make(map[convstore.ID]ledgerRuns)}
		if err := t.Prefixed(db.OpenDelegations, nil, func(_, v []byte) error {
			a.open[convstore.ID(db.Num(v))] = true
			return nil
		}); err != nil {
			return err
		}
		for _, delegated := range []bool{false, true} { // owners of ledgers first
			for i, c := range list {
				if (c.Link == convstore.DelegationLink) != delegated {
					continue
				}
				if ctx.Err() != nil { // others wait for the store
					return context.Cause(ctx)
				}
				total, err := a.total(c)
				if err != nil {
					return err
				}
				totals[i] = total.Cost()
			}
		}
		return nil
	})
	if err == file.ErrAbsent && len(list) == 0 {
		err = nil
	}
	return totals, err
}

// adder adds up costs in one transaction.
type adder struct {
	t       *convstore.Tx
	open    map[convstore.ID]bool         // children of delegations that are not settled
	ledger  map[convstore.ID]convstore.ID // by conversation below its owner, as far as it is known
	removed map[convstore.ID]ledgerRuns   // by ledger: what runs has returned
}

// total returns the cost of a conversation, as it was listed, and of everything below it.
func (a *adder) total(c convstore.Conversation) (convstore.Spend, error) {
	sum := amount.Of(convstore.Usage{}, c.CostNano)
	if !a.there(c.ID) { // removed since it was listed
		return sum, nil
	}
	owns, at := c.Link != convstore.DelegationLink, a.t.Entries()
	here := map[convstore.ID]bool{c.ID: true}
	if err := a.t.Below(c.ID, true, a.t.Entries(), func(id convstore.ID) error {
		here[id] = true
		if owns {
			a.ledger[id] = c.ID
		}
		cost, err := at.Cost(id)
		if err != nil {
			return err
		}
		sum = sum.Add(cost)
		if !a.open[id] {
			return nil // it has no open call
		}
		r, err := a.t.Load(id)
		if err != nil {
			return err
		}
		lost, err := appendLostCall(a.t, nil, id, r, "")
		for _, l := range lost {
			sum = sum.Add(amount.Of(l.Usage, l.CostNano))
		}
		return err
	}); err != nil {
		return sum, err
	}
	runs, err := a.runs(c, here)
	if len(runs.all) == 0 {
		return sum, err
	}
	for _, r := range recordedCharges(runs.below(here), func(r Run) bool { return here[r.Child] }) {
		sum = sum.Add(amount.Of(r.Usage, r.CostNano))
	}
	return sum, err
}

// runs returns the delegations of a conversation's ledger if a child of one was removed or moved
// out, else none: then the conversations themselves have all costs. here has the conversation and
// all below it.
func (a *adder) runs(c convstore.Conversation, here map[convstore.ID]bool) (runs ledgerRuns, err error) {
	ledger, known := a.ledger[c.ID]
	if c.Link != convstore.DelegationLink {
		ledger = c.ID
	} else if !known {
		r, err := a.t.Load(c.ID)
		if err != nil {
			return runs, err
		}
		if ledger, err = a.t.LedgerOf(c.ID, r); err != nil {
			return runs, err
		}
	}
	if runs, known := a.removed[ledger]; known {
		return runs, nil
	}
	if ledger != c.ID {
		here = make(map[convstore.ID]bool)
		if err := a.t.Below(ledger, true, a.t.Entries(), func(id convstore.ID) error {
			here[id] = true
			return nil
		}); err != nil {
			return runs, err
		}
	}
	gone := false
	err = a.t.Prefixed(db.Delegations, db.Key(uint64(ledger)), func(_, v []byte) error {
		// To decode whole records would take most of the time of a listing. Inside a JSON string
		// the quotes would be escaped, so the first match is the member.
		_, after, _ := bytes.Cut(v, []byte(`"child_id":"`))
		text, _, _ := bytes.Cut(after, []byte(`"`))
		id, err := convstore.ParseID(string(text))
		gone = gone || err != nil || !here[id]
		return nil
	})
	if err == nil && gone {
		all, failed := runsOf(a.t, ledger)
		runs, err = byCaller(all), failed
	}
	a.removed[ledger] = runs
	return runs, err
}

// there reports whether a conversation is in the store.
func (a *adder) there(id convstore.ID) bool {
	return a.t.Bucket(db.Listing).Get(db.Key(uint64(id))) != nil
}

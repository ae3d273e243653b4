package archive

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"jp/convstore"
	"jp/convstore/internal/db"
	"jp/convstore/internal/file"
	"jp/tools/jsondoc"
)

// commit turns what was staged into conversations, in one transaction.
func (im *importer) commit(ctx context.Context) (res ImportResult, err error) {
	if err := im.cycles(); err != nil {
		return res, err
	}
	write := im.in.WriteOnce
	if im.id == 0 {
		write = im.in.Read // nothing is new: only check that all is the same
	}
	err = write(ctx, func(t *convstore.Tx) error {
		res = ImportResult{}
		if err := im.conflicts(t); err != nil {
			return err
		}
		counts := im.offspring()
		for _, a := range im.order {
			if a.here {
				res.Same = append(res.Same, a.id)
				if n := counts[a.id]; n.children > 0 {
					if err := countMany(t, a.id, n); err != nil {
						return err
					}
				}
				continue
			}
			if err := im.create(t, a, counts[a.id], &res); err != nil {
				return err
			}
		}
		for _, from := range slices.Sorted(maps.Keys(im.ledgers)) {
			if a := im.at[from]; !a.here {
				if err := im.storeLedger(t, a, im.ledgers[from]); err != nil {
					return err
				}
				res.Delegated += im.ledgers[from]
			}
		}
		return nil
	})
	if err == file.ErrAbsent {
		err = nil
	}
	return res, err
}

// conflicts fails with a *ConflictError if the store has conversations with other content.
func (im *importer) conflicts(t *convstore.Tx) error {
	var ids []convstore.ID
	for _, a := range im.order {
		if !a.here {
			continue
		}
		_, last, err := lostCall(t, a.id)
		if err != nil {
			return err
		}
		if a.differs || last != a.seq {
			ids = append(ids, a.id)
		}
	}
	if ids != nil {
		return &ConflictError{IDs: ids}
	}
	return nil
}

// cycles fails if a conversation would be its own ancestor.
func (im *importer) cycles() error {
	done := make(map[convstore.ID]bool, len(im.order))
	for _, a := range im.order {
		way := map[convstore.ID]bool{}
		for at := a; at != nil && !done[at.from]; at = im.at[at.parent] {
			if way[at.from] {
				return &ImportError{Pos: at.pos, Err: fmt.Errorf("conversation %s: is its own ancestor", at.from)}
			}
			way[at.from] = true
		}
		for id := range way {
			done[id] = true
		}
	}
	return nil
}

// offspring counts the new children of a conversation.
type offspring struct{ children, hidden int }

func (im *importer) offspring() map[convstore.ID]offspring {
	counts := make(map[convstore.ID]offspring)
	for _, a := range im.order {
		parent := im.at[a.parent]
		if a.here || parent == nil {
			continue
		}
		n := counts[parent.id]
		n.children++
		if a.hidden {
			n.hidden++
		}
		counts[parent.id] = n
	}
	return counts
}

// countMany adds to a parent's number of children.
func countMany(t *convstore.Tx, parent convstore.ID, n offspring) error {
	p, err := t.Load(parent)
	if err != nil {
		return err
	}
	p.Children += n.children
	p.HiddenChildren += n.hidden
	return t.Save(parent, p)
}

// create turns an arrival into a conversation.
func (im *importer) create(t *convstore.Tx, a *arrival, n offspring, res *ImportResult) error {
	st, err := t.StagedAt(db.Key(uint64(a.id)))
	if err != nil {
		return err
	}
	r := st.Record
	r.Children, r.HiddenChildren = n.children, n.hidden
	r.After, r.Foreign, r.Imported = t.Bucket(db.Delegations).Sequence(), r.LastSeq, true
	r.RunState, r.RunReason = a.state, a.reason // of a run after the turns that were appended
	if !st.UpdatedAt.IsZero() {
		r.UpdatedAt = st.UpdatedAt
	}
	switch parent := im.at[a.parent]; {
	case parent != nil:
		r.Parent, r.Link = parent.id, convstore.ForkLink
		st.Imported.Parent = parent.id
		err = t.Put(db.Children, db.PairKey(r.Parent, uint64(a.id)), []byte{byte(r.Link)})
	default:
		if a.parent != 0 {
			st.Imported.Apart = true
			res.Orphans = append(res.Orphans, Orphan{a.id, a.parent})
		}
		err = t.Put(db.Roots, db.Key(uint64(a.id)), []byte{})
	}
	if err != nil {
		return err
	}
	encoded, err := jsondoc.Encode(st.Imported)
	if err != nil {
		return fmt.Errorf("conversation %s: %w", a.from, err)
	}
	if err := t.Put(db.Imported, db.Key(uint64(a.id)), encoded); err != nil {
		return err
	}
	if err := t.Expires(a.id, time.Time{}, r.ExpiresAt); err != nil {
		return err
	}
	if !r.ExpiresAt.IsZero() && r.ExpiresAt.Before(t.Now) {
		res.Expired = append(res.Expired, a.id)
	}
	if err := t.SaveConfig(a.id, convstore.Config{}); err != nil {
		return err
	}
	if err := t.Save(a.id, r); err != nil {
		return err
	}
	res.Made = append(res.Made, Made{a.from, a.id})
	res.Events += r.Events
	return t.Drop(db.Imports, db.Key(uint64(a.id)))
}

// storeLedger stores the n delegations of an arrival's ledger. The ledger may have some already,
// from conversations of the same ids that were removed. What was imported before gets new numbers:
// first what comes again, as it comes, and then what does not. So each is behind the one that it is
// within, in whatever order archives come. None is within one that the store made: what that one
// has used is known, and accounts that are here hold it.
func (im *importer) storeLedger(t *convstore.Tx, root *arrival, n int) error {
	r, err := t.Load(root.id)
	if err != nil {
		return err
	}
	id := func(from convstore.ID) convstore.ID {
		if a := im.at[from]; a != nil {
			return a.id
		}
		return from
	}
	recorded, err := t.Delegations(root.id)
	if err != nil {
		return err
	}
	known := make(map[made]convstore.Delegation, len(recorded))
	for _, d := range recorded {
		known[madeOf(d)] = d
		if !d.Imported {
			continue
		}
		if err := t.Drop(db.Delegations, db.PairKey(root.id, d.Number)); err != nil {
			return err
		}
	}
	save := func(d *convstore.Delegation) error {
		if d.Number, err = t.NextNumber(db.Delegations, db.Key(uint64(root.id))); err != nil {
			return err
		}
		d.ID, d.Imported = convstore.DelegationID(d.Number), true
		return t.SaveDelegation(*d)
	}
	stored := make([]uint64, n+1) // number of each delegation that was stored, by its index from 1
	came := make(map[made]uint64, n)
	for i := range n {
		key := db.PairKey(root.id, uint64(i)+1)
		st, err := t.StagedAt(key)
		if err != nil {
			return err
		}
		if err := t.Drop(db.Imports, key); err != nil {
			return err
		}
		d := *st.Delegation
		d.Root, d.Caller, d.Child = root.id, id(d.Caller), id(d.Child)
		within := stored[d.Within]
		if k, is := known[madeOf(d)]; is && knows(k, d) {
			if d = k; !k.Imported {
				continue
			}
		}
		d.Session, d.Within = min(d.Session, r.Turns), within
		if err := save(&d); err != nil {
			return err
		}
		stored[i+1], came[madeOf(d)] = d.Number, d.Number
	}
	moved := make(map[uint64]uint64) // number of each that was imported before, by the one that it had
	for _, d := range recorded {
		was := d.Number
		if !d.Imported {
			continue
		}
		if moved[was] = came[madeOf(d)]; moved[was] != 0 {
			continue
		}
		d.Within = moved[d.Within]
		if err := save(&d); err != nil {
			return err
		}
		moved[was] = d.Number
	}
	return sumLedger(t, root.id)
}

// knows reports whether a recorded delegation says more than d, which comes again: the store made it
// itself, or d had not ended when it was exported.
func knows(k, d convstore.Delegation) bool {
	open := func(d convstore.Delegation) bool { return d.State == convstore.StateLost && d.Reason == reasonOpen }
	return !k.Imported || open(d) && !open(k)
}

// made identifies a delegation in any store.
type made struct {
	caller, child convstore.ID
	call          string
	reserved      int64
}

func madeOf(d convstore.Delegation) made {
	return made{d.Caller, d.Child, d.Call, d.Reserved.UnixNano()}
}

// sumLedger computes the totals of a ledger again, whose delegations have all ended.
func sumLedger(t *convstore.Tx, root convstore.ID) error {
	ds, err := t.Delegations(root)
	if err != nil {
		return err
	}
	sums, index := slices.Clone(ds), make(map[uint64]uint64, len(ds))
	for i := range sums {
		index[sums[i].Number] = uint64(i) + 1
		sums[i].Within = index[sums[i].Within]
	}
	sumTotals(sums)
	for i := range ds {
		if ds[i].Total == sums[i].Total {
			continue
		}
		ds[i].Total = sums[i].Total
		if err := t.SaveDelegation(ds[i]); err != nil {
			return err
		}
	}
	return nil
}

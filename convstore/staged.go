package convstore

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	"jp/convstore/internal/db"
	"jp/convstore/internal/file"
	"jp/tools/jsondoc"
)

// staged is what an import keeps of a conversation or a delegation until its last
// transaction.
type staged struct {
	By         ID          `json:"-"` // the import
	Record     *record     `json:"record,omitempty"`
	Imported   *Imported   `json:"imported,omitempty"`
	UpdatedAt  time.Time   `json:"updated_at,omitzero"` // as it came; zero = its last event
	Delegation *Delegation `json:"delegation,omitempty"`
}

func (t *tx) stage(key []byte, s staged) error {
	v, err := jsondoc.Encode(s)
	if err != nil {
		return fmt.Errorf("import: %w", err)
	}
	return t.Put(db.Imports, key, append(s.By.key(), v...))
}

func (t *tx) staged(key []byte) (*staged, error) {
	s, err := parseStaged(t.Bucket(db.Imports).Get(key))
	if err != nil {
		return nil, t.Damaged("imports: %x: %w", key, err)
	}
	return s, nil
}

func parseStaged(v []byte) (*staged, error) {
	if len(v) < 8 {
		return nil, fmt.Errorf("too short")
	}
	s := &staged{By: idAt(v, 0)}
	if err := json.Unmarshal(v[8:], s); err != nil {
		return nil, err
	}
	if (s.Record == nil) != (s.Imported == nil) || (s.Record == nil) == (s.Delegation == nil) {
		return nil, fmt.Errorf("neither a conversation nor a delegation")
	}
	return s, nil
}

// commit makes conversations of what was staged.
func (im *importer) commit(ctx context.Context) (res ImportResult, err error) {
	if err := im.cycles(); err != nil {
		return res, err
	}
	write := im.f.write
	if im.id == 0 {
		write = im.f.read // nothing is new: only to see whether all is the same
	}
	err = write(ctx, func(t *tx) error {
		res = ImportResult{}
		if err := im.conflicts(t); err != nil {
			return err
		}
		counts := im.offspring()
		for _, a := range im.order {
			if a.here {
				res.Same = append(res.Same, a.id)
				if n := counts[a.id]; n.children > 0 {
					if err := t.countMany(a.id, n); err != nil {
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

// conflicts reports the conversations that are here with other content.
func (im *importer) conflicts(t *tx) error {
	var ids []ID
	for _, a := range im.order {
		if !a.here {
			continue
		}
		r, err := t.load(a.id)
		if err != nil {
			return err
		}
		if a.differs || r.LastSeq != a.seq {
			ids = append(ids, a.id)
		}
	}
	if ids != nil {
		return &ConflictError{IDs: ids}
	}
	return nil
}

// cycles reports a conversation that would be its own ancestor.
func (im *importer) cycles() error {
	done := make(map[ID]bool, len(im.order))
	for _, a := range im.order {
		way := map[ID]bool{}
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

func (im *importer) offspring() map[ID]offspring {
	counts := make(map[ID]offspring)
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
func (t *tx) countMany(parent ID, n offspring) error {
	p, err := t.load(parent)
	if err != nil {
		return err
	}
	p.Children += n.children
	p.HiddenChildren += n.hidden
	return t.save(parent, p)
}

// create makes a conversation of an arrival.
func (im *importer) create(t *tx, a *arrival, n offspring, res *ImportResult) error {
	st, err := t.staged(a.id.key())
	if err != nil {
		return err
	}
	r := st.Record
	r.Children, r.HiddenChildren = n.children, n.hidden
	r.Limits, r.Call = nil, nil // those were somebody else's
	r.After = t.Bucket(db.Delegations).Sequence()
	if !st.UpdatedAt.IsZero() {
		r.UpdatedAt = st.UpdatedAt
	}
	switch parent := im.at[a.parent]; {
	case parent != nil:
		r.Parent, r.Link = parent.id, ForkLink
		st.Imported.Parent = parent.id
		err = t.Put(db.Children, db.PairKey(r.Parent, uint64(a.id)), []byte{byte(r.Link)})
	default:
		if a.parent != 0 {
			st.Imported.Apart = true
			res.Orphans = append(res.Orphans, Orphan{a.id, a.parent})
		}
		err = t.Put(db.Roots, a.id.key(), []byte{})
	}
	if err != nil {
		return err
	}
	kept, err := jsondoc.Encode(st.Imported)
	if err != nil {
		return fmt.Errorf("conversation %s: %w", a.from, err)
	}
	if err := t.Put(db.Imported, a.id.key(), kept); err != nil {
		return err
	}
	if err := t.expires(a.id, time.Time{}, r.ExpiresAt); err != nil {
		return err
	}
	if !r.ExpiresAt.IsZero() && r.ExpiresAt.Before(t.Now) {
		res.Expired = append(res.Expired, a.id)
	}
	if err := t.saveConfig(a.id, Config{}); err != nil {
		return err
	}
	if err := t.save(a.id, r); err != nil {
		return err
	}
	res.Made = append(res.Made, Made{a.from, a.id})
	res.Events += r.Events
	if err := t.known(a.id); err != nil {
		return err
	}
	return t.Drop(db.Imports, a.id.key())
}

// known sees to it that a store with conversations has a last id.
func (t *tx) known(id ID) error {
	if db.Num(t.Bucket(db.Meta).Get([]byte(db.LastKey))) != 0 {
		return nil
	}
	return t.Put(db.Meta, []byte(db.LastKey), db.Key(uint64(id)))
}

// storeLedger stores the n delegations of an arrival's ledger. One of which the ledger has a record,
// since the conversation was here before and was removed, is not stored again.
func (im *importer) storeLedger(t *tx, root *arrival, n int) error {
	r, err := t.load(root.id)
	if err != nil {
		return err
	}
	id := func(from ID) ID {
		if a := im.at[from]; a != nil {
			return a.id
		}
		return from
	}
	known, err := t.delegations(root.id)
	if err != nil {
		return err
	}
	numbers := make(map[made]uint64, len(known))
	for _, d := range known {
		numbers[d.made()] = d.number
	}
	place := make([]uint64, n+1) // the numbers of those that came, by their place from 1
	for i := range n {
		key := db.PairKey(root.id, uint64(i)+1)
		st, err := t.staged(key)
		if err != nil {
			return err
		}
		if err := t.Drop(db.Imports, key); err != nil {
			return err
		}
		d := *st.Delegation
		d.Root, d.Caller, d.Child = root.id, id(d.Caller), id(d.Child)
		if number, is := numbers[d.made()]; is {
			place[i+1] = number
			continue
		}
		if d.number, err = t.Bucket(db.Delegations).NextSequence(); err != nil {
			return fmt.Errorf("delegation: %w", err)
		}
		place[i+1] = d.number
		d.ID, d.Imported = delegationID(d.number), true
		d.Session, d.Within = min(d.Session, r.Turns), place[d.Within]
		if err := t.saveDelegation(d); err != nil {
			return err
		}
	}
	return t.sumLedger(root.id)
}

// made tells one delegation from another, wherever its record is.
type made struct {
	caller, child ID
	call          string
	reserved      int64
}

func (d *Delegation) made() made { return made{d.Caller, d.Child, d.Call, d.Reserved.UnixNano()} }

// sumLedger works the totals of a ledger out again whose delegations have all ended.
func (t *tx) sumLedger(root ID) error {
	ds, err := t.delegations(root)
	if err != nil {
		return err
	}
	sums, place := slices.Clone(ds), make(map[uint64]uint64, len(ds))
	for i := range sums {
		place[sums[i].number] = uint64(i) + 1
		sums[i].Within = place[sums[i].Within]
	}
	sumTotals(sums)
	for i := range ds {
		if ds[i].Total == sums[i].Total {
			continue
		}
		ds[i].Total = sums[i].Total
		if err := t.saveDelegation(ds[i]); err != nil {
			return err
		}
	}
	return nil
}

// sweepBatch is how many entries one transaction removes.
const sweepBatch = 50_000

// sweepImports removes what imports have left that were cut off.
func (f *base) sweepImports(ctx context.Context) error {
	for {
		left := false
		err := f.read(ctx, func(t *tx) error {
			keys, err := t.abandonedImports(1)
			left = len(keys) > 0
			return err
		})
		if err == file.ErrAbsent || err == nil && !left {
			return nil
		}
		if err == nil {
			err = f.write(ctx, (*tx).sweepSome)
		}
		if err != nil {
			return err
		}
	}
}

// abandonedImports returns the keys of things that imports which do not run any more have staged, at
// most so many.
func (t *tx) abandonedImports(most int) (keys [][]byte, err error) {
	runs := make(map[ID]bool)
	err = t.Prefixed(db.Imports, nil, func(k, v []byte) error {
		by := idAt(v, 0)
		held, known := runs[by]
		if !known {
			var err error
			if held, err = t.held(by); err != nil {
				return err
			}
			runs[by] = held
		}
		if held {
			return nil
		}
		if keys = append(keys, slices.Clone(k)); len(keys) == most {
			return errEnough
		}
		return nil
	})
	if err == errEnough {
		err = nil
	}
	return keys, err
}

// sweepSome removes as much of what abandoned imports have staged as one transaction should.
func (t *tx) sweepSome() error {
	keys, err := t.abandonedImports(sweepBatch)
	if err != nil {
		return err
	}
	left := sweepBatch
	for _, key := range keys {
		if left <= 0 {
			return nil
		}
		if err := t.sweep(key, &left); err != nil {
			return err
		}
	}
	return nil
}

// sweep removes what was staged under a key, and the key with the last of it, as long as there are
// entries left that it may remove.
func (t *tx) sweep(key []byte, left *int) error {
	for _, n := range []db.BucketNumber{db.Events, db.EventIDs, db.Turns} {
		if len(key) != 8 {
			break // a delegation: it is all in the entry
		}
		var keys [][]byte
		if err := t.Prefixed(n, key, func(k, _ []byte) error {
			if len(keys) == *left {
				return errEnough
			}
			keys = append(keys, k)
			return nil
		}); err != nil && err != errEnough {
			return err
		}
		for _, k := range keys {
			if err := t.Drop(n, k); err != nil {
				return err
			}
		}
		if *left -= len(keys); *left <= 0 {
			return nil
		}
	}
	*left--
	return t.Drop(db.Imports, key)
}

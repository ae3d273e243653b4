package convstore

import (
	"cmp"
	"fmt"
	"slices"

	"jp/convstore/internal/db"
)

const (
	schemaVersion = 6 // version of the drawing in the package comment
	readsVersion  = 5 // the earliest that needs no migration to be read: its step changes nothing
)

// migration migrates a store from one schema version to the next.
type migration struct {
	from  int
	makes []db.BucketNumber // buckets that the version from does not have
	run   func(*tx) error   // nil = there is nothing else to do
}

// migrations are all migrations, oldest first, one for each step from version 1 on. A change of the
// drawing adds one, together with a test that begins with a store of the version before.
var migrations = []migration{
	{1, []db.BucketNumber{db.Listing}, fillListing},
	{2, []db.BucketNumber{db.Imported, db.Imports}, nil},
	{3, nil, markImported},
	{4, []db.BucketNumber{db.Answers}, nil}, // turns of before have no digest and answer nothing
	{5, nil, nil},                           // some programs that write 5 drop until, foreign and imported of a conversation
}

// fillListing adds an entry of the listing for every conversation.
func fillListing(t *tx) error {
	return t.Prefixed(db.Conversations, nil, func(k, _ []byte) error {
		id := idAt(k, 0)
		r, err := t.Load(id)
		if err != nil {
			return err
		}
		return t.saveEntry(id, r)
	})
}

// markImported sets record.After of imported conversations: the number of the last delegation
// before the import. Their accounts ignore delegations up to that number, which belong to removed
// conversations of the same ids. Some programs that write version 3 do not set it.
func markImported(t *tx) error {
	var made []Delegation
	if err := t.Prefixed(db.Delegations, nil, func(k, v []byte) error {
		d, err := t.parseDelegation(k, v)
		if !d.Imported {
			made = append(made, d)
		}
		return err
	}); err != nil {
		return err
	}
	slices.SortFunc(made, func(a, b Delegation) int { return cmp.Compare(a.Number, b.Number) })
	return t.Prefixed(db.Imported, nil, func(k, _ []byte) error {
		id := idAt(k, 0)
		im, err := t.Imported(id)
		if err != nil {
			return err
		}
		r, err := t.Load(id)
		if err != nil {
			return err
		}
		n := slices.IndexFunc(made, func(d Delegation) bool { return d.Reserved.After(im.At) })
		if n < 0 {
			n = len(made)
		}
		if n == 0 || made[n-1].Number <= r.After {
			return nil
		}
		r.After = made[n-1].Number
		return t.Save(id, r)
	})
}

func (m migration) do(t *tx) error {
	for _, n := range m.makes {
		if err := t.MakeBucket(n); err != nil {
			return err
		}
	}
	if m.run == nil {
		return nil
	}
	return m.run(t)
}

// migrate runs all steps that lead to version want, inside the transaction. It fails on a store of
// a later version, and with a *BusyError while anything runs: that is of an earlier version, which
// could not store what it has paid for.
func (t *tx) migrate(steps []migration, want int) error {
	started := t.Schema()
	switch {
	case started == want:
		return nil
	case started > want:
		return &SchemaError{Path: t.F.StorePath(), Have: started, Want: want}
	}
	if err := t.F.Idle(); err != nil {
		return fmt.Errorf("store %s: schema %d is brought to %d when no other jp runs anything: %w", t.F.StorePath(), started, want, busy(err))
	}
	have := started
	for _, step := range steps {
		if step.from != have || have == want {
			continue
		}
		if err := step.do(t); err != nil {
			return fmt.Errorf("store %s: migrating from schema %d: %w", t.F.StorePath(), have, err)
		}
		have++
		if err := t.Put(db.Meta, []byte(db.SchemaKey), db.Key(uint64(have))); err != nil {
			return err
		}
	}
	if have != want {
		return t.Damaged("no migration from schema %d to %d", have, want)
	}
	t.migrated = true
	t.After(func() {
		t.F.Notice(fmt.Sprintf("store %s: brought from schema %d to %d", t.F.StorePath(), started, want))
	})
	return nil
}

func (id ID) key() []byte { return db.Key(uint64(id)) }

// idAt reads the id at offset i of a key; a shorter key has none.
func idAt(key []byte, i int) ID { return ID(db.Num(key[min(i, len(key)):])) }

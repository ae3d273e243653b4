package convstore

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"slices"

	"go.etcd.io/bbolt"
)

// schemaVersion is the version of the drawing in the package comment.
const schemaVersion = 4

// bucketNumber names a bucket in the code.
type bucketNumber int

const (
	bMeta bucketNumber = iota
	bConversations
	bListing
	bRoots
	bChildren
	bConfigs
	bEvents
	bEventIDs
	bTurns
	bDelegations
	bCalls
	bOpen
	bExpiring
	bSessions
	bImported
	bImports
	bucketCount
)

// bucketNames are the names in the file. They are part of the format.
var bucketNames = [bucketCount]string{
	bMeta:          "meta",
	bConversations: "conversations",
	bListing:       "listing",
	bRoots:         "roots",
	bChildren:      "children",
	bConfigs:       "configs",
	bEvents:        "events",
	bEventIDs:      "event_ids",
	bTurns:         "turns",
	bDelegations:   "delegations",
	bCalls:         "calls",
	bOpen:          "open",
	bExpiring:      "expiring",
	bSessions:      "sessions",
	bImported:      "imported",
	bImports:       "imports",
}

// The keys of the bucket meta.
const (
	metaSchema = "schema" // schemaVersion
	metaLast   = "last"   // the id allocated last
)

// makeBuckets fills an empty file with what every store has.
func makeBuckets(b *bbolt.Tx) error {
	for _, name := range bucketNames {
		if _, err := b.CreateBucket([]byte(name)); err != nil {
			return err
		}
	}
	return b.Bucket([]byte(bucketNames[bMeta])).Put([]byte(metaSchema), be64(schemaVersion))
}

// migration brings a store from one schema version to the next.
type migration struct {
	from int
	run  func(*tx) error
}

// migrations are all there are, oldest first, one per step from version 1 to
// schemaVersion. A change of the drawing adds one here, together with a test that
// begins with a store of the version before.
var migrations = []migration{
	{1, makeListing},
	{2, makeImports},
	{3, markImported},
}

// makeListing gives every conversation its entry in the listing, which version 1
// did not have.
func makeListing(t *tx) error {
	if _, err := t.b.CreateBucketIfNotExists([]byte(bucketNames[bListing])); err != nil {
		return err
	}
	return t.prefixed(bConversations, nil, func(k, _ []byte) error {
		id := idAt(k, 0)
		r, err := t.load(id)
		if err != nil {
			return err
		}
		return t.saveEntry(id, r)
	})
}

// makeImports makes the buckets of imports, which version 2 did not have.
func makeImports(t *tx) error {
	for _, n := range []bucketNumber{bImported, bImports} {
		if _, err := t.b.CreateBucketIfNotExists([]byte(bucketNames[n])); err != nil {
			return err
		}
	}
	return nil
}

// markImported gives imported conversations the number of the last delegation
// before they came, by which their accounts tell their own delegations from those
// of conversations of the same ids that were removed. Not everything that writes
// version 3 keeps it.
func markImported(t *tx) error {
	var made []Delegation
	if err := t.prefixed(bDelegations, nil, func(k, v []byte) error {
		d, err := t.parseDelegation(k, v)
		if !d.Imported {
			made = append(made, d)
		}
		return err
	}); err != nil {
		return err
	}
	slices.SortFunc(made, func(a, b Delegation) int { return cmp.Compare(a.number, b.number) })
	return t.prefixed(bImported, nil, func(k, _ []byte) error {
		id := idAt(k, 0)
		im, err := t.imported(id)
		if err != nil {
			return err
		}
		r, err := t.load(id)
		if err != nil {
			return err
		}
		later := func(d Delegation) bool { return d.Reserved.After(im.At) }
		n := slices.IndexFunc(made, later)
		if n < 0 {
			n = len(made)
		}
		if n == 0 || made[n-1].number <= r.After {
			return nil
		}
		r.After = made[n-1].number
		return t.save(id, r)
	})
}

// migrate runs, inside the transaction, all the steps that lead to want. A store
// from a later version is refused untouched.
func (t *tx) migrate(steps []migration, want int) error {
	started := t.schema()
	have := started
	if have > want {
		return &SchemaError{Path: t.f.StorePath(), Have: have, Want: want}
	}
	for _, step := range steps {
		if step.from != have || have == want {
			continue
		}
		if err := step.run(t); err != nil {
			return fmt.Errorf("store %s: migrating from schema %d: %w", t.f.StorePath(), have, err)
		}
		have++
		if err := t.put(bMeta, []byte(metaSchema), be64(uint64(have))); err != nil {
			return err
		}
	}
	if have != want {
		return t.damaged("no way from schema %d to %d", have, want)
	}
	if have != started {
		t.migrated = true
		t.f.Notice(fmt.Sprintf("store %s: brought from schema %d to %d", t.f.StorePath(), started, want))
	}
	return nil
}

// schema returns the version that the file says it has. A file without one is
// somebody else's.
func (t *tx) schema() int {
	meta := t.b.Bucket([]byte(bucketNames[bMeta]))
	if meta == nil {
		panic(damage{fmt.Errorf("a bbolt file, but no store")})
	}
	v := meta.Get([]byte(metaSchema))
	if len(v) != 8 || v[0] != 0 || v[1] != 0 || v[2] != 0 || v[3] != 0 {
		panic(damage{fmt.Errorf("meta: no schema version")})
	}
	return int(binary.BigEndian.Uint64(v))
}

// Keys. All numbers are big-endian, so that they sort.

func be64(n uint64) []byte { return binary.BigEndian.AppendUint64(nil, n) }

func (id ID) key() []byte { return be64(uint64(id)) }

// pairKey is a conversation, or the root of a ledger, and a number below it.
func pairKey(id ID, n uint64) []byte { return binary.BigEndian.AppendUint64(id.key(), n) }

// textKey is a conversation and a name below it.
func textKey(id ID, name string) []byte { return append(id.key(), name...) }

// turnKey is a conversation and one of its turns.
func turnKey(id ID, turn int) []byte { return binary.BigEndian.AppendUint32(id.key(), uint32(turn)) }

// idAt reads the id at offset i of a key; a shorter key has none.
func idAt(key []byte, i int) ID {
	if len(key) < i+8 {
		return 0
	}
	return ID(binary.BigEndian.Uint64(key[i:]))
}

func num(v []byte) uint64 {
	if len(v) < 8 {
		return 0
	}
	return binary.BigEndian.Uint64(v)
}

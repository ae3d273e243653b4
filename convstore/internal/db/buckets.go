package db

import (
	"encoding/binary"

	"go.etcd.io/bbolt"
)

// BucketNumber identifies a bucket in the code.
type BucketNumber int

// The buckets of every store. The comment of package convstore draws what is in them.
const (
	Meta BucketNumber = iota
	Conversations
	Listing
	Roots
	Children
	Configs
	Events
	EventIDs
	Turns
	Answers
	Delegations
	Calls
	OpenDelegations
	Expiring
	Sessions
	Imported
	Imports
	bucketCount
)

// BucketNames are the names in the file. They are part of the format.
var BucketNames = [bucketCount]string{
	Meta:            "meta",
	Conversations:   "conversations",
	Listing:         "listing",
	Roots:           "roots",
	Children:        "children",
	Configs:         "configs",
	Events:          "events",
	EventIDs:        "event_ids",
	Turns:           "turns",
	Answers:         "answers",
	Delegations:     "delegations",
	Calls:           "calls",
	OpenDelegations: "open",
	Expiring:        "expiring",
	Sessions:        "sessions",
	Imported:        "imported",
	Imports:         "imports",
}

// The keys of the bucket meta.
const (
	SchemaKey = "schema" // schema version of the file
	LastKey   = "last"   // id that was allocated last
)

// makeBuckets creates the buckets of every store in an empty file.
func makeBuckets(b *bbolt.Tx, version int) error {
	for _, name := range BucketNames {
		if _, err := b.CreateBucket([]byte(name)); err != nil {
			return err
		}
	}
	return b.Bucket([]byte(BucketNames[Meta])).Put([]byte(SchemaKey), Key(uint64(version)))
}

// Key returns a number as a key: big-endian, so that keys sort like numbers.
func Key(n uint64) []byte { return binary.BigEndian.AppendUint64(nil, n) }

// PairKey returns the key of a conversation, or of the root of a ledger, and a number.
func PairKey[ID ~int64](id ID, n uint64) []byte {
	return binary.BigEndian.AppendUint64(Key(uint64(id)), n)
}

// TextKey returns the key of a conversation and a name.
func TextKey[ID ~int64](id ID, name string) []byte { return append(Key(uint64(id)), name...) }

// TurnKey returns the key of a conversation and one of its turns.
func TurnKey[ID ~int64](id ID, turn int) []byte {
	return binary.BigEndian.AppendUint32(Key(uint64(id)), uint32(turn))
}

// Num returns the number in the first eight bytes of v, or 0 if there are fewer.
func Num(v []byte) uint64 {
	if len(v) < 8 {
		return 0
	}
	return binary.BigEndian.Uint64(v)
}

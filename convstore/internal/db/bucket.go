package db

import (
	"bytes"
	"errors"
	"fmt"
	"unsafe"

	"go.etcd.io/bbolt"

	"jp/convstore/internal/page"
)

// Bucket reads one bucket in a transaction. It panics with damage before bbolt would go where
// page.Paths finds no leaf. Only the methods of Tx write.
type Bucket struct {
	b     *bbolt.Bucket // nil before it was asked for
	root  uint64        // page where its tree begins; 0 = it is in the page of the buckets, which has been checked
	paths *page.Paths
	got   page.Span // leaf of the last Get
}

// Bucket returns one of the buckets that every store has.
func (t *Tx) Bucket(n BucketNumber) *Bucket {
	b := &t.buckets[n]
	if b.b != nil {
		return b
	}
	in := t.Bolt.Bucket([]byte(BucketNames[n]))
	if in == nil {
		panic(damage{fmt.Errorf("bucket %s is missing", BucketNames[n])})
	}
	switch n {
	case Events, EventIDs, Turns:
		// Within a conversation their keys are added in order, so a page that is split gets few
		// more entries. By default bbolt would leave it half empty.
		in.FillPercent = 0.9
	}
	*b = Bucket{b: in, root: uint64(in.Root()), paths: t.paths}
	return b
}

// paths returns the Paths of a transaction. It is valid until bbolt maps the file again, which it
// does in a commit.
func (h *Handle) paths(b *bbolt.Tx) *page.Paths {
	info := h.db.Info()
	return page.PathsOf(unsafe.Slice(*(**byte)(unsafe.Pointer(&info.Data)), b.Size()), uint64(info.PageSize))
}

// Get returns the value of a key, or nil if the bucket does not have it.
func (b *Bucket) Get(key []byte) []byte {
	if b.root != 0 && !b.got.Has(key) {
		var err error
		b.got, err = b.paths.Leaf(b.root, key)
		must(err)
	}
	return b.b.Get(key)
}

// Sequence returns the number that Tx.NextNumber returned last.
func (b *Bucket) Sequence() uint64 { return b.b.Sequence() }

// changing returns the bucket for a change at a key. It panics with damage where bbolt would free
// more pages than the change replaces.
func (b *Bucket) changing(key []byte, dropped bool) *bbolt.Bucket {
	if b.root != 0 {
		must(b.paths.Change(b.root, key, dropped))
	}
	return b.b
}

// Cursor returns a cursor, which stands nowhere yet.
func (b *Bucket) Cursor() *Cursor { return &Cursor{in: b, c: b.b.Cursor()} }

// Cursor is a bbolt cursor that has checked the leaf where it stands and those beside it. Whoever
// writes to the bucket must position it again.
type Cursor struct {
	in     *Bucket
	c      *bbolt.Cursor
	at     []byte      // key where it stands; nil = nowhere
	leaves page.Leaves // around at
}

// First goes to the first entry. The key is nil if there is none, as for Last, Seek, Next and Prev.
func (c *Cursor) First() (key, value []byte) { return c.Seek(nil) }

// Seek goes to the first entry whose key is not before key.
func (c *Cursor) Seek(key []byte) (k, v []byte) {
	c.check(key)
	return c.stands(c.c.Seek(key))
}

// Last goes to the last entry.
func (c *Cursor) Last() (key, value []byte) {
	if k, _ := c.First(); k == nil {
		return nil, nil // bbolt would look for ever where all leaves were emptied
	}
	if c.in.root != 0 {
		last, err := c.in.paths.Before(c.in.root, nil)
		must(err)
		c.check(last.From)
	}
	return c.stands(c.c.Last())
}

// Next goes to the entry after the one where it stands.
func (c *Cursor) Next() (key, value []byte) {
	k, v := c.c.Next()
	return c.moved(k, v, 1)
}

// Prev goes to the entry before the one where it stands.
func (c *Cursor) Prev() (key, value []byte) {
	k, v := c.c.Prev()
	for from := c.leaves.At.From; k == nil && from != nil; k, v = c.c.Prev() { // bbolt stops at a leaf that was emptied
		before, err := c.in.paths.Before(c.in.root, from)
		must(err)
		if from = before.From; from == nil {
			break
		}
	}
	return c.moved(k, v, -1)
}

// moved notes that the cursor stands at an entry now, the one after or before that where it stood.
func (c *Cursor) moved(k, v []byte, sign int) (key, value []byte) {
	if k != nil && c.at != nil && bytes.Compare(k, c.at) != sign {
		panic(damage{errors.New("keys do not rise")})
	}
	return c.stands(k, v)
}

// stands notes where the cursor stands now.
func (c *Cursor) stands(k, v []byte) (key, value []byte) {
	if c.at = k; k != nil {
		c.check(k)
	}
	return k, v
}

// check checks the leaf of a key and those beside it.
func (c *Cursor) check(key []byte) {
	if c.in.root == 0 || c.leaves.At.Has(key) {
		return
	}
	var err error
	c.leaves, err = c.in.paths.Around(c.in.root, key, c.leaves)
	must(err)
}

// must panics with damage if there is an error.
func must(err error) {
	if err != nil {
		panic(damage{err})
	}
}

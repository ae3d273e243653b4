package page

import (
	"bytes"
	"errors"
	"fmt"
)

// Paths checks where bbolt goes in one transaction, before it goes there. bbolt follows branches
// down to the first page that is not one: a branch where a leaf should be can lead back to itself,
// and then bbolt goes on until its stack is full. It writes a changed leaf to another place and
// frees as many pages as the header of the old one names: if those are too many, a later commit
// writes over pages in use.
//
// It reads the pages where bbolt has mapped them, so as they were when the transaction began; bbolt
// does too, but for what it has changed itself. A page that the file has no more is a fault, as for
// bbolt. Not safe for concurrent use.
type Paths struct {
	file  File
	data  []byte
	right map[uint64]bool // leaves whose length was checked
}

// PathsOf returns the Paths of a transaction with the mapped pages that are in use.
func PathsOf(data []byte, pageSize uint64) *Paths {
	return &Paths{file: File{PageSize: pageSize, High: uint64(len(data)) / pageSize}, data: data, right: make(map[uint64]bool)}
}

// Span is the part of a bucket's keys that is in one leaf.
type Span struct {
	From, To []byte // the least key, and the least key of the next leaf; nil if there is no bound
	leaf     uint64 // its page; 0 = there is none
}

// Has reports whether a key belongs into the leaf.
func (s Span) Has(key []byte) bool {
	return s.leaf != 0 && bytes.Compare(key, s.From) >= 0 && (s.To == nil || bytes.Compare(key, s.To) < 0)
}

// Leaf checks the way to the leaf that has a key, or would have it, in the bucket whose tree begins
// at page root.
func (w *Paths) Leaf(root uint64, key []byte) (Span, error) {
	return w.find(root, func(g Page) (int, error) { return g.childOf(key) })
}

// Before checks the way to the last leaf that begins before a key, or to the last one if key is
// nil.
func (w *Paths) Before(root uint64, key []byte) (Span, error) {
	return w.find(root, func(g Page) (int, error) {
		if key == nil {
			return g.Count - 1, nil
		}
		return g.lastChild(func(least []byte) bool { return bytes.Compare(least, key) < 0 })
	})
}

// Leaves are a leaf and those beside it, with no page where there is none.
type Leaves struct{ Before, At, After Span }

// Around is Leaf, and checks the ways to the leaves beside that one, too. known are the leaves
// around another key, if any: most often one beside that has this one.
func (w *Paths) Around(root uint64, key []byte, known Leaves) (l Leaves, err error) {
	switch {
	case known.After.Has(key):
		l.Before, l.At = known.At, known.After
	case known.Before.Has(key):
		l.At, l.After = known.Before, known.At
	default:
		l.At, err = w.Leaf(root, key)
	}
	if err == nil && l.After.leaf == 0 && l.At.To != nil {
		l.After, err = w.Leaf(root, l.At.To)
	}
	if err == nil && l.Before.leaf == 0 && l.At.From != nil {
		l.Before, err = w.Before(root, l.At.From)
	}
	return l, err
}

// Change checks the leaf that has a key, or would have it: that is about to be changed. If the key
// is dropped, bbolt may merge the leaf with one beside it, so these are checked too.
func (w *Paths) Change(root uint64, key []byte, dropped bool) error {
	var l Leaves
	var err error
	if dropped {
		l, err = w.Around(root, key, l)
	} else {
		l.At, err = w.Leaf(root, key)
	}
	for _, s := range []Span{l.Before, l.At, l.After} {
		if err == nil && s.leaf != 0 && !w.right[s.leaf] {
			err = w.length(s.leaf)
			w.right[s.leaf] = err == nil
		}
	}
	return err
}

// find follows the children that next picks down to a leaf.
func (w *Paths) find(root uint64, next func(branch Page) (int, error)) (s Span, err error) {
	s.leaf = root
	var least []byte
	for range maxDepth {
		g, err := w.page(s.leaf)
		if err == nil && s.leaf != root {
			err = g.between(least, s.To)
		}
		if err != nil || g.Flags == flagLeaf {
			return s, err
		}
		i, err := next(g)
		if err == nil && i+1 < g.Count {
			s.To, _, err = g.child(i + 1)
		}
		if err == nil {
			least, s.leaf, err = g.child(i)
		}
		if err != nil {
			return s, fmt.Errorf("page %d: %w", g.id, err)
		}
		if i > 0 {
			s.From = least
		}
	}
	return s, fmt.Errorf("page %d: too deep", root)
}

// between checks that a page begins with the key that the branch above it names, and ends before the
// next page. bbolt passes an empty leaf and goes on to one that was not checked. Where it writes a
// page that begins with another key, the branch gets that key: in the place of the page that it has
// at it, or beside the one that is freed now.
func (g Page) between(least, to []byte) error {
	if g.Count == 0 {
		return fmt.Errorf("page %d: empty leaf", g.id)
	}
	first, err := g.key(0)
	last, bad := g.key(g.Count - 1)
	if err = errors.Join(err, bad); err == nil && (!bytes.Equal(first, least) || to != nil && bytes.Compare(last, to) >= 0) {
		err = errors.New("its keys belong elsewhere")
	}
	if err != nil {
		return fmt.Errorf("page %d: %w", g.id, err)
	}
	return nil
}

// key returns the key of entry i of a leaf, or the least key of child i of a branch.
func (g Page) key(i int) (key []byte, err error) {
	if g.Flags == FlagBranch {
		key, _, err = g.child(i)
	} else {
		_, key, _, err = g.Entry(i)
	}
	return key, err
}

// page returns a page that is a leaf, or a branch with children.
func (w *Paths) page(id uint64) (Page, error) {
	if id < 2 || id >= w.file.High {
		return Page{}, fmt.Errorf("page %d: out of range", id)
	}
	data := w.data[id*w.file.PageSize:]
	g, err := w.file.parseHeader(id, data)
	switch {
	case err != nil:
		return Page{}, err
	case g.Flags != flagLeaf && g.Flags != FlagBranch:
		err = fmt.Errorf("unexpected kind %#x", g.Flags)
	case g.Flags == FlagBranch && g.Count == 0:
		err = errors.New("empty branch")
	}
	if err != nil {
		return Page{}, fmt.Errorf("page %d: %w", id, err)
	}
	g.Data = data[:(1+g.overflow)*w.file.PageSize]
	return g, nil
}

// length checks that a leaf has as many pages as its entries take.
func (w *Paths) length(id uint64) error {
	g, err := w.page(id)
	if err != nil {
		return err
	}
	at := extent{end: HeaderSize}
	if g.Count > 0 {
		at, err = g.claimed(g.Count - 1)
	}
	if takes := (at.end + w.file.PageSize - 1) / w.file.PageSize; err == nil && takes != 1+g.overflow {
		err = fmt.Errorf("has %d pages, and its entries take %d", 1+g.overflow, takes)
	}
	if err != nil {
		return fmt.Errorf("page %d: %w", id, err)
	}
	return nil
}

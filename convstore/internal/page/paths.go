package page

import (
	"bytes"
	"fmt"
	"io"
)

// Paths checks where bbolt goes in one transaction, before it goes there. bbolt follows branches
// down to the first page that is not one: a branch where a leaf should be can lead back to itself,
// and then bbolt goes on until its stack is full. It writes a changed leaf to another place and
// frees as many pages as the header of the old one names: if those are too many, a later commit
// writes over pages in use.
//
// It reads the file as it was when the transaction began, as bbolt does but for what it has changed
// itself. Each page is read once. Not safe for concurrent use.
type Paths struct {
	p        *File
	branches map[uint64]Page
	leaves   map[uint64]bool     // leaves by their page: is the length right, or unknown
	found    map[uint64]*[4]Span // by root: the leaves that were found last, most of which are asked for again
}

// PathsOf returns the Paths of a transaction. The file has so many pages of this size.
func PathsOf(r io.ReaderAt, pageSize, high uint64) *Paths {
	return &Paths{p: &File{r: r, PageSize: pageSize, High: high}, branches: make(map[uint64]Page), leaves: make(map[uint64]bool), found: make(map[uint64]*[4]Span)}
}

// Span is the part of a bucket's keys that is in one leaf.
type Span struct {
	From, To []byte // the least key, and the least key of the next leaf; nil if there is no bound
	leaf     uint64
}

// Has reports whether a key belongs into the leaf.
func (s Span) Has(key []byte) bool {
	return bytes.Compare(key, s.From) >= 0 && (s.To == nil || bytes.Compare(key, s.To) < 0)
}

// Leaf checks the way to the leaf that has a key, or would have it, in the bucket whose tree begins
// at page root.
func (w *Paths) Leaf(root uint64, key []byte) (Span, error) {
	return w.find(root, func(s Span) bool { return s.Has(key) }, func(g Page) (int, error) { return g.childOf(key) })
}

// Last checks the way to the last leaf.
func (w *Paths) Last(root uint64) (Span, error) { return w.Before(root, nil) }

// Around is Leaf, and checks the ways to the leaves beside that one, too.
func (w *Paths) Around(root uint64, key []byte) (Span, error) {
	spans, err := w.around(root, key)
	return spans[0], err
}

// Change checks the leaf that has a key, or would have it: that is about to be changed. If the key
// is dropped, bbolt may merge the leaf with one beside it, so these are checked too.
func (w *Paths) Change(root uint64, key []byte, dropped bool) (err error) {
	var spans []Span
	if dropped {
		spans, err = w.around(root, key)
	} else {
		spans = make([]Span, 1)
		spans[0], err = w.Leaf(root, key)
	}
	for _, s := range spans {
		if err == nil && !w.leaves[s.leaf] {
			err = w.length(s.leaf)
			w.leaves[s.leaf] = err == nil
		}
	}
	return err
}

// around returns the leaf of a key, followed by those beside it.
func (w *Paths) around(root uint64, key []byte) ([]Span, error) {
	s, err := w.Leaf(root, key)
	spans := []Span{s}
	if err == nil && s.To != nil {
		s, err = w.Leaf(root, s.To)
		spans = append(spans, s)
	}
	if err == nil && spans[0].From != nil {
		s, err = w.Before(root, spans[0].From)
		spans = append(spans, s)
	}
	return spans, err
}

// Before checks the way to the last leaf that begins before a key, or to the last one if key is
// nil.
func (w *Paths) Before(root uint64, key []byte) (Span, error) {
	return w.find(root, func(s Span) bool { return bytes.Equal(s.To, key) }, func(g Page) (i int, err error) {
		if key == nil {
			return g.Count - 1, nil
		}
		return g.lastChild(func(least []byte) bool { return bytes.Compare(least, key) < 0 })
	})
}

// find follows the children that next picks down to the leaf of which is is true.
func (w *Paths) find(root uint64, is func(Span) bool, next func(branch Page) (int, error)) (s Span, err error) {
	found := w.found[root]
	if found == nil {
		found = new([4]Span)
		w.found[root] = found
	}
	for _, s := range found {
		if s.leaf != 0 && is(s) {
			return s, nil
		}
	}
	s.leaf = root
	for range maxDepth {
		g, err := w.branch(s.leaf, root)
		if err != nil {
			return s, err
		}
		if g.Count == 0 {
			copy(found[1:], found[:])
			found[0] = s
			return s, nil
		}
		i, err := next(g)
		if err == nil && i+1 < g.Count {
			s.To, _, err = g.child(i + 1)
		}
		var least []byte
		id := s.leaf
		if err == nil {
			least, s.leaf, err = g.child(i)
		}
		if err != nil {
			return s, fmt.Errorf("page %d: %w", id, err)
		}
		if i > 0 {
			s.From = least
		}
	}
	return s, fmt.Errorf("page %d: too deep", root)
}

// branch returns a branch, or a page without entries for a leaf.
func (w *Paths) branch(id, root uint64) (Page, error) {
	if g, ok := w.branches[id]; ok {
		return g, nil
	}
	if _, ok := w.leaves[id]; ok {
		return Page{}, nil
	}
	g, err := w.p.header(id)
	switch {
	case err != nil:
		return Page{}, err
	case g.Flags == flagLeaf && g.Count == 0 && id != root:
		return Page{}, fmt.Errorf("page %d: empty leaf", id) // bbolt passes it and goes on to one that was not checked
	case g.Flags == flagLeaf:
		w.leaves[id] = false
		return Page{}, nil
	case g.Flags != FlagBranch:
		return Page{}, fmt.Errorf("page %d: unexpected kind %#x", id, g.Flags)
	case g.Count == 0:
		return Page{}, fmt.Errorf("page %d: empty branch", id)
	}
	g, err = w.p.first(id, make([]byte, (1+g.overflow)*w.p.PageSize))
	if err == nil {
		w.branches[id] = g
	}
	return g, err
}

// length checks that a leaf has as many pages as its entries take. The heads of all entries are in
// the first of them.
func (w *Paths) length(id uint64) error {
	g, err := w.p.first(id, make([]byte, w.p.PageSize))
	if err != nil {
		return err
	}
	at := extent{end: HeaderSize}
	if g.Count > 0 {
		at, err = g.claimed(g.Count - 1)
	}
	if takes := (at.end + w.p.PageSize - 1) / w.p.PageSize; err == nil && takes != 1+g.overflow {
		err = fmt.Errorf("has %d pages, and its entries take %d", 1+g.overflow, takes)
	}
	if err != nil {
		return fmt.Errorf("page %d: %w", id, err)
	}
	return nil
}

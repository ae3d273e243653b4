package page

import (
	"errors"
	"fmt"
	"io"
)

// Lengths checks the leaves that a transaction changes. bbolt writes a changed leaf to another
// place and frees as many pages as the header of the old one names. If those are too many, a later
// commit writes over pages in use.
//
// It is for one transaction of a file whose branches are sound, see File.CheckFast.
type Lengths struct {
	p    *File
	seen map[uint64]Page // pages that were checked; leaves without their data
	room []byte          // for a page
}

// Changing returns the Lengths of a transaction. The file has so many pages of this size.
func Changing(r io.ReaderAt, pageSize, high uint64) *Lengths {
	return &Lengths{p: &File{r: r, PageSize: pageSize, High: high}, seen: make(map[uint64]Page)}
}

// Check checks the leaf that has a key, or would have it, in the bucket whose tree begins at page
// id. If the key is dropped, bbolt may merge the leaf with one beside it, so these are checked too.
func (l *Lengths) Check(id uint64, key []byte, dropped bool) error {
	return l.check(id, key, dropped, 0)
}

func (l *Lengths) check(id uint64, key []byte, dropped bool, depth int) error {
	g, err := l.page(id)
	if err != nil || g.Flags == flagLeaf {
		return err
	}
	i, err := g.childOf(key)
	if err == nil && (g.Count == 0 || depth == maxDepth) {
		err = errors.New("neither a leaf nor a branch")
	}
	if err != nil {
		return fmt.Errorf("page %d: %w", id, err)
	}
	first, last := i, i
	if dropped {
		first, last = max(i-1, 0), min(i+1, g.Count-1)
	}
	for ; first <= last; first++ {
		_, below, err := g.child(first)
		if err == nil {
			err = l.check(below, key, dropped, depth+1)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// page reads a page, and checks that a leaf has as many pages as its entries take.
func (l *Lengths) page(id uint64) (Page, error) {
	if g, ok := l.seen[id]; ok {
		return g, nil
	}
	if l.room == nil {
		l.room = make([]byte, l.p.PageSize)
	}
	g, err := l.p.first(id, l.room)
	switch {
	case err != nil:
	case g.Flags == FlagBranch:
		l.room = nil
		err = l.p.whole(&g)
	case g.Flags == flagLeaf:
		err = l.length(g)
		g.Data = nil
	default:
		err = fmt.Errorf("page %d: unexpected kind %#x", id, g.Flags)
	}
	if err != nil {
		return Page{}, err
	}
	l.seen[id] = g
	return g, nil
}

// length checks that a leaf has as many pages as its entries take. Its data is the first of them,
// where the heads of all entries are.
func (l *Lengths) length(g Page) error {
	at := extent{end: HeaderSize}
	var err error
	if g.Count > 0 {
		at, err = g.claimed(g.Count - 1)
	}
	if takes := (at.end + l.p.PageSize - 1) / l.p.PageSize; err == nil && takes != 1+g.overflow {
		err = fmt.Errorf("has %d pages, and its entries take %d", 1+g.overflow, takes)
	}
	if err != nil {
		return fmt.Errorf("page %d: %w", g.id, err)
	}
	return nil
}

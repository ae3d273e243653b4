package page

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
)

// Check walks the trees of all buckets. Each page may be used only once. Every page must be inside
// the file, and every key and value inside its page. Keys must be in ascending order. No page in
// use may be free, because the next commit would write over it.
func (p *File) Check() error {
	w := walker{p: p, seen: make([]use, p.High)}
	if err := w.walk(p.Root, nil, nil); err != nil {
		return err
	}
	return w.freelist()
}

// CheckFast checks in a small part of the time of Check. The first error makes the file unfit to be
// read: a branch leads to a page to which another one leads, or back to itself, where bbolt would
// go round until no memory is left. The second makes it unfit to be written: a page in use is free,
// or is used twice.
//
// Whatever is at the height of leaves is taken for a leaf. Of the leaves of buckets only the
// headers are read, of those that a free page follows. Paths is for the others.
func (p *File) CheckFast() (reading, writing error) {
	w := walker{p: p, seen: make([]use, p.High), quick: true}
	if err := w.walk(p.Root, nil, nil); err != nil {
		return err, err
	}
	if err := w.freelist(); err != nil {
		return nil, err
	}
	return nil, w.lengths()
}

// lengths checks that no leaf reaches a free page.
func (w *walker) lengths() error {
	next := w.p.High
	for id := w.p.High - 1; id > 1; id-- {
		if w.seen[id] == isLeaf && next < w.p.High && w.seen[next] == isFree {
			g, err := w.p.header(id)
			if err == nil && id+g.overflow >= next {
				err = fmt.Errorf("page %d: free and in use", next)
			}
			if err != nil {
				return err
			}
		}
		if w.seen[id] != isUnknown {
			next = id
		}
	}
	return nil
}

// freelist checks that each page in the freelist is inside the file, is listed once, is not in use,
// and is not a page of the freelist itself.
func (w *walker) freelist() (err error) {
	if w.p.Freelist == noFreelist {
		return nil
	}
	defer func() {
		if err != nil {
			err = fmt.Errorf("freelist: %w", err)
		}
	}()
	list, err := w.p.header(w.p.Freelist)
	if err != nil {
		return err
	}
	if err := w.take(list.id, list.overflow, isUsed); err != nil {
		return err
	}
	at := int64(list.id*w.p.PageSize + HeaderSize)
	if list.Count == math.MaxUint16 {
		at += 8
	}
	ids := make([]byte, 8*w.p.Free)
	if _, err := w.p.r.ReadAt(ids, at); err != nil {
		return err
	}
	for ; len(ids) > 0; ids = ids[8:] {
		if err := w.take(binary.NativeEndian.Uint64(ids), 0, isFree); err != nil {
			return err
		}
	}
	return nil
}

// use is what a page is known to be.
type use byte

const (
	isUnknown use = iota // not in use, or one more page of a leaf whose header was not read
	isUsed
	isLeaf // first page of a leaf, whose header was not read
	isFree
)

type walker struct {
	p      *File
	seen   []use
	quick  bool // of the leaves of buckets not even the headers are read
	inside bool // the walk is inside a bucket
	leaves int  // levels from here to the leaves of the bucket, if quick

	room []byte // for a branch above leaves, if quick
}

// walk checks a page and all pages below it. Their keys must be at least min and, if there is a
// max, less than max.
func (w *walker) walk(id uint64, min, max []byte) error {
	quick := w.quick && w.inside // no bucket has buckets
	if quick && w.leaves == 0 {
		return w.take(id, 0, isLeaf)
	}
	lowest, first := quick && w.leaves == 1, w.room
	if !lowest {
		first = make([]byte, w.p.PageSize)
	}
	g, err := w.page(id, first)
	switch {
	case err != nil:
		return err
	case lowest && g.Flags == FlagBranch:
		err = w.lowest(g)
	case !lowest && g.Flags == FlagBranch:
		err = w.branch(g, min, max)
	case !lowest && g.Flags == flagLeaf:
		err = w.leaf(g, min, max)
	default:
		err = fmt.Errorf("unexpected kind %#x", g.Flags)
	}
	if err != nil {
		return fmt.Errorf("page %d: %w", id, err)
	}
	return nil
}

// page reads a page and notes that it is used; into first if it has no overflow pages.
func (w *walker) page(id uint64, first []byte) (Page, error) {
	g, err := w.p.first(id, first)
	if err == nil {
		err = w.take(id, g.overflow, isUsed)
	}
	if err == nil {
		err = w.p.whole(&g)
	}
	return g, err
}

// take notes how a page is used, and so many more behind it.
func (w *walker) take(id, overflow uint64, as use) error {
	if id < 2 || id >= w.p.High {
		return fmt.Errorf("page %d: out of range", id)
	}
	for i := id; i <= id+overflow; i++ {
		if w.seen[i] != isUnknown {
			return fmt.Errorf("page %d: used twice", i)
		}
		w.seen[i] = as
	}
	return nil
}

// lowest notes the leaves below a branch. There is one such branch for a hundred leaves, and so its
// keys are not compared.
func (w *walker) lowest(g Page) error {
	if err := g.counted(); err != nil {
		return err
	}
	heads, err := g.element(0, 0, uint64(g.Count)*elementSize)
	if err != nil {
		return err
	}
	order := binary.NativeEndian
	for at := 0; at < len(heads); at += elementSize {
		head := heads[at:][:elementSize]
		id, end := order.Uint64(head[8:]), HeaderSize+at+int(order.Uint32(head))+int(order.Uint32(head[4:]))
		if end > len(g.Data) {
			return fmt.Errorf("element %d: reaches out of the page", at/elementSize)
		}
		if id < 2 || id >= w.p.High || w.seen[id] != isUnknown {
			return w.take(id, 0, isLeaf)
		}
		w.seen[id] = isLeaf
	}
	return nil
}

func (w *walker) branch(g Page, min, max []byte) error {
	if g.Count == 0 {
		return errors.New("empty branch")
	}
	if err := g.counted(); err != nil {
		return err
	}
	keys, ids := make([][]byte, g.Count), make([]uint64, g.Count)
	for i := range keys {
		var err error
		if keys[i], ids[i], err = g.child(i); err != nil {
			return err
		}
	}
	if err := rising(keys, min, max); err != nil {
		return err
	}
	for i, key := range keys {
		below := max
		if i+1 < len(keys) {
			below = keys[i+1]
		}
		w.leaves--
		err := w.walk(ids[i], key, below)
		w.leaves++
		if err != nil {
			return err
		}
	}
	return nil
}

func (w *walker) leaf(g Page, min, max []byte) error {
	if err := g.counted(); err != nil {
		return err
	}
	keys := make([][]byte, g.Count)
	end := HeaderSize + uint64(g.Count)*elementSize
	for i := range keys {
		at, err := g.extent(i)
		if err == nil && at.key != end {
			err = fmt.Errorf("element %d: does not begin where the one before it ends", i)
		}
		if err != nil {
			return err
		}
		keys[i], end = g.Data[at.key:at.value], at.end
		switch at.flags {
		case 0:
			continue
		case elementBucket:
		default:
			return fmt.Errorf("element %d: unknown flags %#x", i, at.flags)
		}
		if err := w.bucket(g.Data[at.value:at.end]); err != nil {
			return fmt.Errorf("bucket %q: %w", keys[i], err)
		}
	}
	return rising(keys, min, max)
}

func (w *walker) bucket(value []byte) error {
	root, inline, err := parseBucket(value)
	switch {
	case err != nil:
		return err
	case root != 0:
		inside := *w
		inside.inside = true
		if w.quick {
			inside.room = make([]byte, w.p.PageSize)
			if inside.leaves, err = w.p.depth(root); err != nil {
				return err
			}
		}
		return inside.walk(root, nil, nil)
	}
	return w.leaf(inline, nil, nil)
}

// depth returns how many levels of branches are above the leaves of a bucket. They are the same
// everywhere below its root: it looks at the first way down and at the last.
func (p *File) depth(root uint64) (int, error) {
	first, err := p.levels(root, false)
	if err != nil {
		return 0, err
	}
	last, err := p.levels(root, true)
	if err == nil && first != last {
		err = fmt.Errorf("page %d: leaves at two heights", root)
	}
	return first, err
}

// levels returns how many branches are on the way down to the first leaf, or to the last.
func (p *File) levels(id uint64, last bool) (int, error) {
	for n := range maxDepth {
		g, err := p.header(id)
		switch {
		case err != nil:
			return 0, err
		case g.Flags == flagLeaf:
			return n, nil
		case g.Flags != FlagBranch:
			return 0, fmt.Errorf("page %d: unexpected kind %#x", id, g.Flags)
		}
		at := id*p.PageSize + HeaderSize
		if last && g.Count > 0 {
			at += uint64(g.Count-1) * elementSize
		}
		var head [elementSize]byte
		if _, err := p.r.ReadAt(head[:], int64(at)); err != nil {
			return 0, fmt.Errorf("page %d: %w", id, err)
		}
		id = binary.NativeEndian.Uint64(head[8:])
	}
	return 0, fmt.Errorf("page %d: too deep", id)
}

func rising(keys [][]byte, min, max []byte) error {
	for i, key := range keys {
		switch {
		case i > 0 && bytes.Compare(keys[i-1], key) >= 0:
			return fmt.Errorf("element %d: keys do not rise", i)
		case i == 0 && bytes.Compare(key, min) < 0, max != nil && bytes.Compare(key, max) >= 0:
			return fmt.Errorf("element %d: key belongs elsewhere", i)
		}
	}
	return nil
}

package convstore

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"math"
	"os"
)

// bbolt trusts its file: it maps it and follows page numbers wherever they lead,
// in one case in a goroutine of its own, where a fault cannot be caught. So the
// parts that it reads unasked are looked at here first, and a check looks at
// every page, with plain reads.
//
// Pages are in the byte order of the machine. Each begins with a header:
//
//	id 8, flags 2, count 2, overflow 4 (how many pages more it takes)
//
// followed, in the two pages 0 and 1, by a meta:
//
//	magic 4, version 4, page size 4, flags 4, root page 8, sequence 8,
//	freelist page 8, pages in use 8, transaction 8, checksum 8
//
// in a branch by count elements (offset 4, key size 4, page 8), in a leaf by
// count elements (flags 4, offset 4, key size 4, value size 4), offsets being
// relative to the element, and in a freelist by count page numbers of 8 bytes or,
// when count is 0xffff, by their number and then the page numbers.
const (
	pageHeader   = 16
	pageElement  = 16
	pageMetaSize = 64
	pageMagic    = 0xED0CDAED

	flagBranch   = 0x01
	flagLeaf     = 0x02
	flagMeta     = 0x04
	flagFreelist = 0x10

	elementBucket = 0x01
	noFreelist    = math.MaxUint64
)

// pageFile reads the pages of a bbolt file.
type pageFile struct {
	r        io.ReaderAt
	pageSize uint64
	root     uint64
	freelist uint64
	high     uint64 // pages in use: every page number is below
	txid     uint64
	free     uint64 // pages that the freelist names
	lone     bool   // the other meta makes no sense
}

// errLone says what a lone meta means. The meta of a commit is written at once, so that a power cut
// leaves one of the two as it was: no sound store has a meta that makes no sense.
var errLone = errors.New("one of its two meta pages makes no sense: what was written last may be missing; the next command that writes replaces that page")

// bytes is the size of the pages in use.
func (p *pageFile) bytes() int64 { return int64(p.high * p.pageSize) }

// freeBytes is the size of those that the freelist names.
func (p *pageFile) freeBytes() int64 { return int64(p.free * p.pageSize) }

// page is one page, or several that belong together.
type page struct {
	id       uint64
	flags    uint16
	count    int
	overflow uint64
	data     []byte // header included
}

// inspectFile returns the pages of a file that bbolt can open safely.
func inspectFile(file *os.File) (*pageFile, error) {
	info, err := file.Stat()
	if err != nil {
		return nil, err
	}
	return openPages(file, info.Size())
}

// openPages reads the newer of the two metas that is sound, as bbolt does.
func openPages(r io.ReaderAt, size int64) (*pageFile, error) {
	first := readMeta(r, 0)
	var second *pageFile
	if first != nil {
		second = readMeta(r, int64(first.pageSize))
	} else {
		for shift := range 15 {
			if second = readMeta(r, 1024<<shift); second != nil {
				break
			}
		}
	}
	p := first
	if p == nil || second != nil && second.txid > p.txid {
		p = second
	}
	if p == nil {
		return nil, errors.New("not a bbolt file")
	}
	p.lone = first == nil || second == nil
	if want := p.high * p.pageSize; p.high > math.MaxInt64/p.pageSize || uint64(size) < want {
		return nil, fmt.Errorf("truncated: %d bytes of %d", size, want)
	}
	if p.freelist == noFreelist {
		return p, nil
	}
	list, err := p.header(p.freelist)
	if err != nil {
		return nil, fmt.Errorf("freelist: %w", err)
	}
	n, room := uint64(list.count), (list.overflow+1)*p.pageSize-pageHeader
	if list.count == math.MaxUint16 {
		var long [8]byte
		if _, err := r.ReadAt(long[:], int64(p.freelist*p.pageSize+pageHeader)); err != nil {
			return nil, fmt.Errorf("freelist: %w", err)
		}
		n, room = binary.NativeEndian.Uint64(long[:]), room-8
	}
	if list.flags != flagFreelist || n > room/8 {
		return nil, errors.New("freelist: malformed page")
	}
	p.free = n
	return p, nil
}

// readMeta returns the meta page at an offset, nil when there is none.
func readMeta(r io.ReaderAt, at int64) *pageFile {
	var b [pageHeader + pageMetaSize]byte
	if _, err := r.ReadAt(b[:], at); err != nil {
		return nil
	}
	m, order := b[pageHeader:], binary.NativeEndian
	sum := fnv.New64a()
	sum.Write(m[:pageMetaSize-8])
	p := &pageFile{
		r:        r,
		pageSize: uint64(order.Uint32(m[8:])),
		root:     order.Uint64(m[16:]),
		freelist: order.Uint64(m[32:]),
		high:     order.Uint64(m[40:]),
		txid:     order.Uint64(m[48:]),
	}
	small := p.pageSize < 1024 || p.pageSize > 1<<24 || p.pageSize&(p.pageSize-1) != 0
	if order.Uint32(m) != pageMagic || order.Uint64(m[56:]) != sum.Sum64() || small {
		return nil
	}
	return p
}

// header reads the header of a page and checks that the page is in the file.
func (p *pageFile) header(id uint64) (page, error) {
	if id < 2 || id >= p.high {
		return page{}, fmt.Errorf("page %d: out of range", id)
	}
	var b [pageHeader]byte
	if _, err := p.r.ReadAt(b[:], int64(id*p.pageSize)); err != nil {
		return page{}, fmt.Errorf("page %d: %w", id, err)
	}
	return p.parseHeader(id, b[:])
}

// parseHeader returns a page without its data from the bytes that it begins with.
func (p *pageFile) parseHeader(id uint64, b []byte) (page, error) {
	order := binary.NativeEndian
	g := page{
		id:       order.Uint64(b[0:]),
		flags:    order.Uint16(b[8:]),
		count:    int(order.Uint16(b[10:])),
		overflow: uint64(order.Uint32(b[12:])),
	}
	if g.id != id || g.overflow >= p.high-id {
		return page{}, fmt.Errorf("page %d: malformed header", id)
	}
	return g, nil
}

// checkAll walks the tree of all buckets. No page may be met twice, every page,
// key and value must lie where it can, and keys must rise. No page that was met may be free:
// the next commit would write over it.
func (p *pageFile) checkAll() error {
	w := walker{p: p, seen: make([]bool, p.high)}
	if err := w.walk(p.root, nil, nil); err != nil {
		return err
	}
	if p.freelist == noFreelist {
		return nil
	}
	if err := w.freelist(); err != nil {
		return fmt.Errorf("freelist: %w", err)
	}
	return nil
}

// freelist checks that each page that the freelist names is in the file, is named once, and is
// neither reachable nor one of the list's own.
func (w *walker) freelist() error {
	list, err := w.p.header(w.p.freelist)
	if err != nil {
		return err
	}
	take := func(id uint64) error {
		if id < 2 || id >= w.p.high {
			return fmt.Errorf("page %d: out of range", id)
		}
		if w.seen[id] {
			return fmt.Errorf("page %d: free and in use", id)
		}
		w.seen[id] = true
		return nil
	}
	for id := list.id; id <= list.id+list.overflow; id++ {
		if err := take(id); err != nil {
			return err
		}
	}
	at := int64(list.id*w.p.pageSize + pageHeader)
	if list.count == math.MaxUint16 {
		at += 8
	}
	ids := make([]byte, 8*w.p.free)
	if _, err := w.p.r.ReadAt(ids, at); err != nil {
		return err
	}
	for ; len(ids) > 0; ids = ids[8:] {
		if err := take(binary.NativeEndian.Uint64(ids)); err != nil {
			return err
		}
	}
	return nil
}

type walker struct {
	p    *pageFile
	seen []bool
}

// walk checks a page and what is below it. All its keys are at least min and,
// where there is a max, less than that.
func (w *walker) walk(id uint64, min, max []byte) error {
	g, err := w.p.header(id)
	if err != nil {
		return err
	}
	for i := id; i <= id+g.overflow; i++ {
		if w.seen[i] {
			return fmt.Errorf("page %d: used twice", i)
		}
		w.seen[i] = true
	}
	g.data = make([]byte, (g.overflow+1)*w.p.pageSize)
	if _, err := w.p.r.ReadAt(g.data, int64(id*w.p.pageSize)); err != nil {
		return fmt.Errorf("page %d: %w", id, err)
	}
	switch g.flags {
	case flagLeaf:
		err = w.leaf(g, min, max)
	case flagBranch:
		err = w.branch(g, min, max)
	default:
		err = fmt.Errorf("unexpected kind %#x", g.flags)
	}
	if err != nil {
		return fmt.Errorf("page %d: %w", id, err)
	}
	return nil
}

// element returns n bytes at an offset relative to element i of a page.
func (g page) element(i int, offset, n uint64) ([]byte, error) {
	from := pageHeader + uint64(i)*pageElement + offset
	if from > uint64(len(g.data)) || n > uint64(len(g.data))-from {
		return nil, fmt.Errorf("element %d: reaches out of the page", i)
	}
	return g.data[from : from+n], nil
}

// child returns the least key below a branch's child i, and the child's page.
func (g page) child(i int) (key []byte, id uint64, err error) {
	head, err := g.element(i, 0, pageElement)
	if err != nil {
		return nil, 0, err
	}
	order := binary.NativeEndian
	key, err = g.element(i, uint64(order.Uint32(head)), uint64(order.Uint32(head[4:])))
	return key, order.Uint64(head[8:]), err
}

// extent is where in a leaf's data an entry is: its key, and its value to the end.
type extent struct {
	flags           uint32
	key, value, end uint64
}

// extent returns where entry i of a leaf is.
func (g page) extent(i int) (extent, error) {
	at, order := pageHeader+uint64(i)*pageElement, binary.NativeEndian
	if at+pageElement > uint64(len(g.data)) {
		return extent{}, fmt.Errorf("element %d: reaches out of the page", i)
	}
	head := g.data[at:][:pageElement]
	p := extent{flags: order.Uint32(head), key: at + uint64(order.Uint32(head[4:]))}
	p.value = p.key + uint64(order.Uint32(head[8:]))
	p.end = p.value + uint64(order.Uint32(head[12:]))
	if p.end > uint64(len(g.data)) {
		return extent{}, fmt.Errorf("element %d: reaches out of the page", i)
	}
	return p, nil
}

// entry returns entry i of a leaf.
func (g page) entry(i int) (flags uint32, key, value []byte, err error) {
	at, err := g.extent(i)
	return at.flags, g.data[at.key:at.value], g.data[at.value:at.end], err
}

func (w *walker) branch(g page, min, max []byte) error {
	if g.count == 0 {
		return errors.New("empty branch")
	}
	keys, ids := make([][]byte, g.count), make([]uint64, g.count)
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
		if err := w.walk(ids[i], key, below); err != nil {
			return err
		}
	}
	return nil
}

func (w *walker) leaf(g page, min, max []byte) error {
	keys := make([][]byte, g.count)
	for i := range keys {
		flags, key, value, err := g.entry(i)
		if err != nil {
			return err
		}
		keys[i] = key
		if flags&elementBucket == 0 {
			continue
		}
		if err := w.bucket(value); err != nil {
			return fmt.Errorf("bucket %q: %w", key, err)
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
		return w.walk(root, nil, nil)
	}
	return w.leaf(inline, nil, nil)
}

// parseBucket reads a bucket's header, root page 8 and sequence 8. One without a
// root page has a small leaf right behind the header.
func parseBucket(value []byte) (root uint64, inline page, err error) {
	if len(value) < 16 {
		return 0, page{}, errors.New("malformed header")
	}
	order := binary.NativeEndian
	if root := order.Uint64(value); root != 0 {
		return root, page{}, nil
	}
	b := value[16:]
	if len(b) < pageHeader || order.Uint16(b[8:]) != flagLeaf {
		return 0, page{}, errors.New("malformed inline page")
	}
	return 0, page{flags: flagLeaf, count: int(order.Uint16(b[10:])), data: b}, nil
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

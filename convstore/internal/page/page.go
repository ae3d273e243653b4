// Package page reads the pages of a bbolt file, even a damaged one, without bbolt: to check them
// before bbolt reads them, to search all bytes of a leaf at once, and to rescue what is left of a
// damaged file.
//
// bbolt trusts its file. It maps the file and follows page numbers without a check, in one case in
// a goroutine of its own, where a fault cannot be caught. So this package first checks what bbolt
// reads when it opens the file. CheckFast reads the branches, Check every page, and Paths what a
// transaction needs.
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
// in a branch by count elements (offset 4, key size 4, page 8), in a leaf by count elements (flags
// 4, offset 4, key size 4, value size 4), offsets being relative to the element, and in a freelist
// by count page numbers of 8 bytes or, when count is 0xffff, by their number and then the page
// numbers.
package page

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"math"
	"os"
	"sort"
)

// Sizes in bytes, and flags of pages and of the entries of a leaf.
const (
	HeaderSize  = 16
	elementSize = 16
	metaSize    = 64
	magic       = 0xED0CDAED

	FlagBranch   = 0x01
	flagLeaf     = 0x02
	flagMeta     = 0x04
	flagFreelist = 0x10

	elementBucket = 0x01
	noFreelist    = math.MaxUint64
)

// File reads the pages of a bbolt file.
type File struct {
	r           io.ReaderAt
	PageSize    uint64
	Root        uint64
	Freelist    uint64
	High        uint64 // number of pages in use: every page number is less
	Transaction uint64
	Free        uint64 // number of pages in the freelist
	Lone        bool   // only one of the two metas is valid
}

// ErrLone is the problem of a file with only one valid meta. A commit writes one meta in one write,
// and a power cut leaves the other one as it was. So both metas of a sound store are valid.
var ErrLone = errors.New("one of its two meta pages is invalid: what was written last may be missing; the next command that writes replaces that page")

// Bytes is the size of the pages in use.
func (p *File) Bytes() int64 { return int64(p.High * p.PageSize) }

// FreeBytes is the size of the pages in the freelist.
func (p *File) FreeBytes() int64 { return int64(p.Free * p.PageSize) }

// Page is one page with its overflow pages.
type Page struct {
	id       uint64
	Flags    uint16
	Count    int
	overflow uint64
	Data     []byte // with the header
}

// Inspect returns the pages of a file that bbolt can open safely.
func Inspect(file *os.File) (*File, error) {
	info, err := file.Stat()
	if err != nil {
		return nil, err
	}
	return Open(file, info.Size())
}

// Open returns the pages by the newer valid meta, as bbolt does.
func Open(r io.ReaderAt, size int64) (*File, error) {
	first, err := readMeta(r, 0)
	if err != nil {
		return nil, err
	}
	var second *File
	if first != nil {
		second, err = readMeta(r, int64(first.PageSize))
	} else {
		for shift := 0; shift < 15 && second == nil && err == nil; shift++ {
			second, err = readMeta(r, 1024<<shift)
		}
	}
	if err != nil {
		return nil, err
	}
	p := first
	if p == nil || second != nil && second.Transaction > p.Transaction {
		p = second
	}
	if p == nil {
		return nil, errors.New("not a bbolt file")
	}
	p.Lone = first == nil || second == nil
	if want := p.High * p.PageSize; p.High > math.MaxInt64/p.PageSize || uint64(size) < want {
		return nil, fmt.Errorf("truncated: %d bytes of %d", size, want)
	}
	if p.Freelist == noFreelist {
		return p, nil
	}
	list, err := p.header(p.Freelist)
	if err != nil {
		return nil, fmt.Errorf("freelist: %w", err)
	}
	n, room := uint64(list.Count), (list.overflow+1)*p.PageSize-HeaderSize
	if list.Count == math.MaxUint16 {
		var long [8]byte
		if _, err := r.ReadAt(long[:], int64(p.Freelist*p.PageSize+HeaderSize)); err != nil {
			return nil, fmt.Errorf("freelist: %w", err)
		}
		n, room = binary.NativeEndian.Uint64(long[:]), room-8
	}
	if list.Flags != flagFreelist || n > room/8 {
		return nil, errors.New("freelist: malformed page")
	}
	p.Free = n
	return p, nil
}

// readMeta returns the meta page at an offset, or nil if there is no valid one. What the disk fails
// to read may be valid: that is an error.
func readMeta(r io.ReaderAt, at int64) (*File, error) {
	var b [HeaderSize + metaSize]byte
	if _, err := r.ReadAt(b[:], at); err == io.EOF {
		return nil, nil
	} else if err != nil {
		return nil, err
	}
	m, order := b[HeaderSize:], binary.NativeEndian
	sum := fnv.New64a()
	sum.Write(m[:metaSize-8])
	p := &File{
		r:           r,
		PageSize:    uint64(order.Uint32(m[8:])),
		Root:        order.Uint64(m[16:]),
		Freelist:    order.Uint64(m[32:]),
		High:        order.Uint64(m[40:]),
		Transaction: order.Uint64(m[48:]),
	}
	small := p.PageSize < 1024 || p.PageSize > 1<<24 || p.PageSize&(p.PageSize-1) != 0
	if order.Uint32(m) != magic || order.Uint64(m[56:]) != sum.Sum64() || small {
		return nil, nil
	}
	return p, nil
}

// header reads the header of a page.
func (p *File) header(id uint64) (Page, error) {
	g, err := p.first(id, make([]byte, HeaderSize))
	g.Data = nil
	return g, err
}

// first reads a page into data, which has room for its header at least, and checks that the page is
// in the file.
func (p *File) first(id uint64, data []byte) (Page, error) {
	if id < 2 || id >= p.High {
		return Page{}, fmt.Errorf("page %d: out of range", id)
	}
	if _, err := p.r.ReadAt(data, int64(id*p.PageSize)); err != nil {
		return Page{}, fmt.Errorf("page %d: %w", id, err)
	}
	g, err := p.parseHeader(id, data)
	g.Data = data
	return g, err
}

// whole reads the overflow pages of a page too.
func (p *File) whole(g *Page) error {
	if g.overflow == 0 {
		return nil
	}
	g.Data = make([]byte, (g.overflow+1)*p.PageSize)
	if _, err := p.r.ReadAt(g.Data, int64(g.id*p.PageSize)); err != nil {
		return fmt.Errorf("page %d: %w", g.id, err)
	}
	return nil
}

// parseHeader returns a page without its data, from its first bytes.
func (p *File) parseHeader(id uint64, b []byte) (Page, error) {
	order := binary.NativeEndian
	g := Page{
		id:       order.Uint64(b[0:]),
		Flags:    order.Uint16(b[8:]),
		Count:    int(order.Uint16(b[10:])),
		overflow: uint64(order.Uint32(b[12:])),
	}
	if g.id != id || g.overflow >= p.High-id {
		return Page{}, fmt.Errorf("page %d: malformed header", id)
	}
	return g, nil
}

// element returns n bytes at an offset relative to element i of a page.
func (g Page) element(i int, offset, n uint64) ([]byte, error) {
	from := HeaderSize + uint64(i)*elementSize + offset
	if from > uint64(len(g.Data)) || n > uint64(len(g.Data))-from {
		return nil, fmt.Errorf("element %d: reaches out of the page", i)
	}
	return g.Data[from : from+n], nil
}

// room returns how many entries have room before the first key, which follows the last of them; the
// number in the header if the first key is not in the page.
func (g Page) room() int {
	head, err := g.element(0, 0, elementSize)
	if err != nil {
		return g.Count
	}
	if g.Flags != FlagBranch {
		head = head[4:]
	}
	offset := uint64(binary.NativeEndian.Uint32(head))
	if offset > uint64(len(g.Data)) {
		return g.Count
	}
	return int(offset / elementSize)
}

// counted checks that as many entries have room as the header says.
func (g Page) counted() error {
	if room := g.room(); room != g.Count {
		return fmt.Errorf("%d entries in the room of %d", g.Count, room)
	}
	return nil
}

// child returns the least key of child i of a branch, and the child's page number.
func (g Page) child(i int) (key []byte, id uint64, err error) {
	head, err := g.element(i, 0, elementSize)
	if err != nil {
		return nil, 0, err
	}
	order := binary.NativeEndian
	key, err = g.element(i, uint64(order.Uint32(head)), uint64(order.Uint32(head[4:])))
	return key, order.Uint64(head[8:]), err
}

// childOf returns which child of a branch has a key, or would have it.
func (g Page) childOf(key []byte) (int, error) {
	return g.lastChild(func(least []byte) bool { return bytes.Compare(least, key) <= 0 })
}

// lastChild returns the last child of a branch of whose least key ok is true, and the first child
// if there is none. ok must be true up to a key, and false from there on.
func (g Page) lastChild(ok func(least []byte) bool) (i int, bad error) {
	i = sort.Search(g.Count-1, func(i int) bool {
		least, _, err := g.child(i + 1)
		bad = errors.Join(bad, err)
		return !ok(least)
	})
	return i, bad
}

// extent is the position of an entry's key and value in the data of a leaf.
type extent struct {
	flags           uint32
	key, value, end uint64
}

// extent returns the position of entry i of a leaf.
func (g Page) extent(i int) (extent, error) {
	p, err := g.claimed(i)
	if err == nil && p.end > uint64(len(g.Data)) {
		err = fmt.Errorf("element %d: reaches out of the page", i)
	}
	if err != nil {
		return extent{}, err
	}
	return p, nil
}

// claimed is extent for a leaf whose data may end before the entry does.
func (g Page) claimed(i int) (p extent, err error) {
	at, order := HeaderSize+uint64(i)*elementSize, binary.NativeEndian
	if at+elementSize > uint64(len(g.Data)) {
		return p, fmt.Errorf("element %d: reaches out of the page", i)
	}
	head := g.Data[at:][:elementSize]
	p.flags, p.key = order.Uint32(head), at+uint64(order.Uint32(head[4:]))
	p.value = p.key + uint64(order.Uint32(head[8:]))
	p.end = p.value + uint64(order.Uint32(head[12:]))
	return p, nil
}

// Entry returns entry i of a leaf.
func (g Page) Entry(i int) (flags uint32, key, value []byte, err error) {
	at, err := g.extent(i)
	return at.flags, g.Data[at.key:at.value], g.Data[at.value:at.end], err
}

// parseBucket reads a bucket's header: root page 8, sequence 8. A bucket without a root page has a
// small leaf directly after the header.
func parseBucket(value []byte) (root uint64, inline Page, err error) {
	if len(value) < 16 {
		return 0, Page{}, errors.New("malformed header")
	}
	order := binary.NativeEndian
	if root := order.Uint64(value); root != 0 {
		return root, Page{}, nil
	}
	b := value[16:]
	if len(b) < HeaderSize || order.Uint16(b[8:]) != flagLeaf {
		return 0, Page{}, errors.New("malformed inline page")
	}
	return 0, Page{Flags: flagLeaf, Count: int(order.Uint16(b[10:])), Data: b}, nil
}

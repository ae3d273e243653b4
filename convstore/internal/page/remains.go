package page

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
)

// Remains is the part of a damaged file that can be reached.
type Remains struct {
	p       *File
	lost    func(error)
	seen    []bool // by the present walk
	buckets map[string]bucketRoot
}

// bucketRoot says where a bucket's entries are: below a page, or in an inline page.
type bucketRoot struct {
	root   uint64
	inline *Page
}

// OpenRemains returns the part of a file that can be reached. It trusts no page, and needs neither
// the freelist nor both metas. It calls lost for each part that cannot be read.
func OpenRemains(file *os.File, lost func(error)) (*Remains, error) {
	p, err := openLeniently(file, lost)
	if err != nil {
		return nil, err
	}
	r := &Remains{p: p, lost: lost, seen: make([]bool, p.High), buckets: make(map[string]bucketRoot)}
	return r, r.walk(p.Root, func(k, v []byte) error {
		if len(v) < 16 {
			return nil // Each says that it is lost
		}
		at := bucketRoot{root: binary.NativeEndian.Uint64(v)}
		if inline := v[16:]; at.root == 0 && len(inline) >= HeaderSize {
			at.inline = &Page{Count: int(binary.NativeEndian.Uint16(inline[10:])), Data: inline}
		}
		r.buckets[string(k)] = at
		return nil
	})
}

// Each calls fn for the entries of a bucket that has none within it, in order. An error of fn ends
// it. A damaged branch may lead into another bucket, and takes nothing from that.
func (r *Remains) Each(bucket string, fn func(k, v []byte) error) error {
	at, ok := r.buckets[bucket]
	if !ok {
		r.lost(fmt.Errorf("bucket %s", bucket))
		return nil
	}
	if at.inline != nil {
		return r.leaf(*at.inline, fn)
	}
	clear(r.seen)
	return r.walk(at.root, fn)
}

// openLeniently is Open without the freelist, also for a file that is too short. Where only one
// meta is valid, the other may have been the newer one.
func openLeniently(file *os.File, lost func(error)) (*File, error) {
	info, err := file.Stat()
	if err != nil {
		return nil, err
	}
	var p *File
	valid := 0
	for at := int64(0); at <= 1<<24; at = max(1024, 2*at) {
		m, err := readMeta(file, at)
		if err != nil {
			lost(err)
		}
		if m == nil {
			continue
		}
		if valid++; p == nil || m.Transaction > p.Transaction {
			p = m
		}
	}
	if p == nil {
		return nil, errors.New("not a bbolt file, or both of its metas are lost")
	}
	if valid == 1 {
		lost(errors.New("one of the two meta pages: what was written last may be missing"))
	}
	p.High = min(p.High, uint64(info.Size())/p.PageSize)
	return p, nil
}

// walk calls fn for the entries below a page, in order, and skips invalid pages. An error of fn
// ends it.
func (r *Remains) walk(id uint64, fn func(k, v []byte) error) error {
	g, err := r.p.header(id)
	if err == nil && r.seen[id] {
		err = fmt.Errorf("page %d: used twice", id)
	}
	if err != nil {
		r.lost(err)
		return nil
	}
	r.seen[id] = true
	g.Data = make([]byte, (g.overflow+1)*r.p.PageSize)
	if _, err := r.p.r.ReadAt(g.Data, int64(id*r.p.PageSize)); err != nil {
		r.lost(fmt.Errorf("page %d: %w", id, err))
		return nil
	}
	switch g.Flags {
	case flagLeaf:
		return r.leaf(g, fn)
	case FlagBranch:
		for i := range r.entries(g) {
			head, err := g.element(i, 0, elementSize)
			if err != nil {
				r.lost(fmt.Errorf("page %d: %w", id, err))
				return nil
			}
			if err := r.walk(binary.NativeEndian.Uint64(head[8:]), fn); err != nil {
				return err
			}
		}
		return nil
	}
	r.lost(fmt.Errorf("page %d: unexpected kind %#x", id, g.Flags))
	return nil
}

// entries returns how many entries a page has: as many as its header says or, if that is more, as
// have room.
func (r *Remains) entries(g Page) int {
	room := g.room()
	if room != g.Count {
		r.lost(fmt.Errorf("page %d: whether it has %d entries or %d", g.id, g.Count, room))
	}
	return max(g.Count, room)
}

// leaf calls fn for the entries of one page. Keys and values are parts of the page's data, which
// nobody else uses.
func (r *Remains) leaf(g Page, fn func(k, v []byte) error) error {
	order, n := binary.NativeEndian, r.entries(g)
	end := HeaderSize + uint64(n)*elementSize
	for i := range n {
		head, err := g.element(i, 0, elementSize)
		if err != nil {
			r.lost(fmt.Errorf("page %d: %w", g.id, err))
			return nil
		}
		offset, ksize, vsize := uint64(order.Uint32(head[4:])), uint64(order.Uint32(head[8:])), uint64(order.Uint32(head[12:]))
		k, err := g.element(i, offset, ksize)
		var v []byte
		if err == nil {
			v, err = g.element(i, offset+ksize, vsize)
		}
		if err != nil {
			r.lost(fmt.Errorf("page %d: %w", g.id, err))
			end = 0
			continue
		}
		at := HeaderSize + uint64(i)*elementSize + offset
		if end != 0 && at != end {
			r.lost(fmt.Errorf("page %d: element %d: it does not begin where the one before it ends", g.id, i))
		}
		end = at + ksize + vsize
		if err := fn(k, v); err != nil {
			return err
		}
	}
	return nil
}

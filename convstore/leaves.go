package convstore

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"sort"
	"sync"

	"golang.org/x/sys/unix"
)

// pageMap is the pages of the store in memory, for a search, which looks at all
// bytes of a leaf at once where bbolt's cursor goes from entry to entry. What they
// say holds for one transaction: until its end nobody writes.
type pageMap struct {
	*pageFile
	data    []byte // all pages in use
	read    int    // bytes of leaves
	of      *mappings
	mapping *mapping
}

// mapping is the store's file in memory. The pages of a conversation may lie far
// apart, and the kernel maps sixteen for each one that is met; so a search keeps
// the mapping from one transaction to the next, for mappedBytes that it reads, and
// the goroutines of a search share it.
type mapping struct {
	data  []byte
	file  os.FileInfo
	users int // goroutines, and mappings that has it
	read  int // bytes
}

// mappedBytes bounds how much of a store is in a process's memory at a time,
// together with what lies between.
const mappedBytes = 32 << 20

// mappings hands out a mapping. It is safe for concurrent use.
type mappings struct {
	mu  sync.Mutex
	now *mapping // nil before the first
}

// get returns a mapping of at least size bytes of a file, to be put back.
//
// It asks for sequential read-ahead: bbolt asks for random access to its own
// mapping, which makes a scan of a file that is not in memory ten times slower.
func (ms *mappings) get(file *os.File, size int) (*mapping, error) {
	info, err := file.Stat()
	if err != nil {
		return nil, err
	}
	ms.mu.Lock()
	defer ms.mu.Unlock()
	if m := ms.now; m == nil || m.read > mappedBytes || len(m.data) < size || !os.SameFile(m.file, info) {
		data, err := unix.Mmap(int(file.Fd()), 0, size, unix.PROT_READ, unix.MAP_SHARED)
		if err != nil {
			return nil, fmt.Errorf("mapping it: %w", err)
		}
		_ = unix.Madvise(data, unix.MADV_SEQUENTIAL) // else it is only slower
		ms.leave(ms.now)
		ms.now = &mapping{data: data, file: info, users: 1}
	}
	ms.now.users++
	return ms.now, nil
}

// put takes a mapping back of which so many bytes were read.
func (ms *mappings) put(m *mapping, read int) {
	ms.mu.Lock()
	defer ms.mu.Unlock()
	m.read += read
	ms.leave(m)
}

// close ends the use of all mappings that are not in use.
func (ms *mappings) close() {
	ms.mu.Lock()
	defer ms.mu.Unlock()
	ms.leave(ms.now)
	ms.now = nil
}

func (ms *mappings) leave(m *mapping) {
	if m == nil {
		return
	}
	if m.users--; m.users == 0 {
		_ = unix.Munmap(m.data)
	}
}

// mapFile returns the pages of a file in memory, to be ended with done.
func (ms *mappings) mapFile(file *os.File, p *pageFile) (*pageMap, error) {
	m, err := ms.get(file, int(p.bytes()))
	if err != nil {
		return nil, err
	}
	return &pageMap{pageFile: p, data: m.data, of: ms, mapping: m}, nil
}

// done ends the use of the pages.
func (m *pageMap) done() { m.of.put(m.mapping, m.read) }

// page returns a page; its data is part of the mapping.
func (m *pageMap) page(id uint64) (page, error) {
	if id < 2 || id >= m.high {
		return page{}, fmt.Errorf("page %d: out of range", id)
	}
	g, err := m.parseHeader(id, m.data[id*m.pageSize:])
	if err == nil {
		g.data = m.data[id*m.pageSize : (id+g.overflow+1)*m.pageSize]
	}
	return g, err
}

// bucketPages is the tree of pages of one bucket.
type bucketPages struct {
	*pageMap
	top page
}

// bucket returns one of the buckets of the file.
func (m *pageMap) bucket(bucket string) (bucketPages, error) {
	root, err := m.page(m.root)
	if err != nil {
		return bucketPages{}, err
	}
	name, found := []byte(bucket), bucketPages{pageMap: m}
	err = bucketPages{m, root}.leaves(name, name, func(leaf page) error {
		for i := range leaf.count {
			flags, key, value, err := leaf.entry(i)
			if err != nil {
				return err
			}
			if flags&elementBucket == 0 || !bytes.Equal(key, name) {
				continue
			}
			id, inline, err := parseBucket(value)
			if found.top = inline; err == nil && id != 0 {
				found.top, err = m.page(id)
			}
			return err
		}
		return nil
	})
	if err == nil && found.top.data == nil {
		err = fmt.Errorf("bucket %s is missing", name)
	}
	return found, err
}

// maxDepth is how many branches may stand above a leaf. In a sound file each has
// a hundred children, and never less than two.
const maxDepth = 32

// leaves calls fn for the leaves that can hold keys from first to last, in the
// order of the keys, until it fails. They are cut off behind their last entry, so
// that one which is not in its place reaches out. No page is met twice, whatever
// the file says.
func (b bucketPages) leaves(first, last []byte, fn func(leaf page) error) error {
	w := leafWalk{b.pageMap, first, last, fn}
	return w.walk(b.top, nil, nil, 0)
}

type leafWalk struct {
	*pageMap
	first, last []byte
	fn          func(page) error
}

// walk goes through what is below a page, whose keys must be at least min and,
// where there is a max, less than that.
func (w *leafWalk) walk(g page, min, max []byte, depth int) error {
	switch {
	case g.flags == flagLeaf:
		if g.count > 0 {
			at, err := g.extent(g.count - 1)
			if err != nil {
				return fmt.Errorf("page %d: %w", g.id, err)
			}
			g.data = g.data[:at.end]
		}
		w.read += len(g.data)
		return w.fn(g)
	case g.flags != flagBranch || g.count == 0 || depth == maxDepth:
		return fmt.Errorf("page %d: neither a leaf nor a branch", g.id)
	}
	// The child that begins the range is the last one that does not begin after it.
	var bad error
	i := sort.Search(g.count-1, func(i int) bool {
		key, _, err := g.child(i + 1)
		bad = errors.Join(bad, err)
		return bytes.Compare(key, w.first) > 0
	})
	key, id, err := g.child(i)
	if err = errors.Join(bad, err); err != nil {
		return fmt.Errorf("page %d: %w", g.id, err)
	}
	for {
		next, nextID, end := max, uint64(0), i+1 == g.count
		if !end {
			if next, nextID, err = g.child(i + 1); err != nil {
				return fmt.Errorf("page %d: %w", g.id, err)
			}
		}
		if bytes.Compare(key, min) < 0 || next != nil && bytes.Compare(key, next) >= 0 || max != nil && bytes.Compare(next, max) > 0 {
			return fmt.Errorf("page %d: keys do not rise", g.id)
		}
		below, err := w.page(id)
		if err == nil {
			err = w.walk(below, key, next, depth+1)
		}
		if err != nil || end || bytes.Compare(next, w.last) > 0 {
			return err
		}
		key, id, i = next, nextID, i+1
	}
}

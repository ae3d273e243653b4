package page

import (
	"bytes"
	"fmt"
	"os"
	"sync"

	"golang.org/x/sys/unix"
)

// Map has the pages of the store in memory, for a search, which looks at all bytes of a leaf at
// once. It is valid until the end of one transaction: until then nobody writes.
type Map struct {
	*File
	data    []byte // all pages in use
	read    int    // bytes of leaves that were read
	of      *Mappings
	mapping *mapped
}

// mapped is the store's file, mapped into memory. The pages of a conversation may be far apart, and
// for each page that is read the kernel maps sixteen. So a search uses the same mapping in several
// transactions, until it has read mappedBytes, and its goroutines share it.
type mapped struct {
	data  []byte
	file  os.FileInfo
	users int // number of goroutines that use it, and one for Mappings
	read  int // bytes
}

// mappedBytes bounds how many bytes are read of one mapping, and so how much of the store is in the
// process's memory.
const mappedBytes = 32 << 20

// Mappings has the present mapping of a search. It is safe for concurrent use.
type Mappings struct {
	mu  sync.Mutex
	now *mapped // nil before the first
}

// get returns a mapping of at least size bytes of a file. The caller must put it back.
//
// It asks the kernel for sequential read-ahead. bbolt asks for random access to its own mapping,
// which makes a scan ten times slower if the file is not in memory.
func (ms *Mappings) get(file *os.File, size int) (*mapped, error) {
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
		_ = unix.Madvise(data, unix.MADV_SEQUENTIAL) // if this fails, the scan is only slower
		ms.release(ms.now)
		ms.now = &mapped{data: data, file: info, users: 1}
	}
	ms.now.users++
	return ms.now, nil
}

// put takes back a mapping of which read bytes were read.
func (ms *Mappings) put(m *mapped, read int) {
	ms.mu.Lock()
	defer ms.mu.Unlock()
	m.read += read
	ms.release(m)
}

// Close unmaps the mapping if nobody uses it.
func (ms *Mappings) Close() {
	ms.mu.Lock()
	defer ms.mu.Unlock()
	ms.release(ms.now)
	ms.now = nil
}

// release ends one use of a mapping, and unmaps it after the last one; ms.mu is held.
func (ms *Mappings) release(m *mapped) {
	if m == nil {
		return
	}
	if m.users--; m.users == 0 {
		_ = unix.Munmap(m.data)
	}
}

// Map returns the pages of a file in memory. The caller must call Done.
func (ms *Mappings) Map(file *os.File, p *File) (*Map, error) {
	m, err := ms.get(file, int(p.Bytes()))
	if err != nil {
		return nil, err
	}
	return &Map{File: p, data: m.data, of: ms, mapping: m}, nil
}

// Done ends the use of the pages.
func (m *Map) Done() { m.of.put(m.mapping, m.read) }

// Page returns a page; its data is part of the mapping.
func (m *Map) Page(id uint64) (Page, error) {
	if id < 2 || id >= m.High {
		return Page{}, fmt.Errorf("page %d: out of range", id)
	}
	g, err := m.parseHeader(id, m.data[id*m.PageSize:])
	if err == nil {
		g.Data = m.data[id*m.PageSize : (id+g.overflow+1)*m.PageSize]
	}
	return g, err
}

// Bucket is the tree of pages of one bucket.
type Bucket struct {
	*Map
	Top Page
}

// Bucket returns one of the buckets of the file.
func (m *Map) Bucket(bucket string) (Bucket, error) {
	root, err := m.Page(m.Root)
	if err != nil {
		return Bucket{}, err
	}
	name, found := []byte(bucket), Bucket{Map: m}
	err = Bucket{m, root}.Leaves(name, name, func(leaf Page) error {
		for i := range leaf.Count {
			flags, key, value, err := leaf.Entry(i)
			if err != nil {
				return err
			}
			if flags&elementBucket == 0 || !bytes.Equal(key, name) {
				continue
			}
			id, inline, err := parseBucket(value)
			if found.Top = inline; err == nil && id != 0 {
				found.Top, err = m.Page(id)
			}
			return err
		}
		return nil
	})
	if err == nil && found.Top.Data == nil {
		err = fmt.Errorf("bucket %s is missing", name)
	}
	return found, err
}

// maxDepth is the largest number of branches above a leaf. In a sound file each branch has about a
// hundred children, and at least two.
const maxDepth = 32

// Leaves calls fn for the leaves that can hold keys from first to last, in the order of the keys,
// until it fails. The data of a leaf ends after its last entry, so that an entry that is not at its
// place is out of range. No page is read twice, even in a damaged file.
func (b Bucket) Leaves(first, last []byte, fn func(leaf Page) error) error {
	w := leafWalk{b.Map, first, last, fn}
	return w.walk(b.Top, nil, nil, 0)
}

type leafWalk struct {
	*Map
	first, last []byte
	fn          func(Page) error
}

// walk visits the leaves below a page. Their keys must be at least min and, if there is a max, less
// than max.
func (w *leafWalk) walk(g Page, min, max []byte, depth int) error {
	switch {
	case g.Flags == flagLeaf:
		if g.Count > 0 {
			at, err := g.extent(g.Count - 1)
			if err != nil {
				return fmt.Errorf("page %d: %w", g.id, err)
			}
			g.Data = g.Data[:at.end]
		}
		w.read += len(g.Data)
		return w.fn(g)
	case g.Flags != FlagBranch || g.Count == 0 || depth == maxDepth:
		return fmt.Errorf("page %d: neither a leaf nor a branch", g.id)
	}
	i, err := g.childOf(w.first)
	if err != nil {
		return fmt.Errorf("page %d: %w", g.id, err)
	}
	key, id, err := g.child(i)
	if err != nil {
		return fmt.Errorf("page %d: %w", g.id, err)
	}
	for {
		next, nextID, end := max, uint64(0), i+1 == g.Count
		if !end {
			if next, nextID, err = g.child(i + 1); err != nil {
				return fmt.Errorf("page %d: %w", g.id, err)
			}
		}
		if bytes.Compare(key, min) < 0 || next != nil && bytes.Compare(key, next) >= 0 || max != nil && bytes.Compare(next, max) > 0 {
			return fmt.Errorf("page %d: keys do not rise", g.id)
		}
		below, err := w.Page(id)
		if err == nil {
			err = w.walk(below, key, next, depth+1)
		}
		if err != nil || end || bytes.Compare(next, w.last) > 0 {
			return err
		}
		key, id, i = next, nextID, i+1
	}
}

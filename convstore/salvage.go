package convstore

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"os"
)

// Salvaged is a piece of a store that could still be read: a conversation or, where
// Event is not nil, one of its events.
type Salvaged struct {
	ID ID

	// Of a conversation. Record is what the store said of it as stored, nil when that
	// is lost and only events, or the config, tell that there was one.
	Record json.RawMessage
	Config Config

	Event *Event
}

// Salvage reads what can be read of a store, however damaged, and changes nothing.
// It yields the conversations in the order of their ids, then all events by
// conversation and place. Lost is told of each part that could not be read. It
// takes no page for granted and needs neither the freelist nor both metas; without
// a meta, or without a way from there to a page, that page counts as lost. The
// iteration ends with an error when nothing at all can be read.
func (s *Store) Salvage(ctx context.Context, lost func(error)) iter.Seq2[Salvaged, error] {
	return func(yield func(Salvaged, error) bool) {
		// Who reads the pieces may be slow, so they come of a copy where there is room for one.
		file, err := s.f.aside(ctx, s.f.anyhow(ctx))
		if err == nil && file == nil {
			file, err = s.f.acquire(ctx, false)
		}
		if err == errAbsent {
			return
		}
		if err != nil {
			yield(Salvaged{}, err)
			return
		}
		h := handle{file: file}
		defer h.abandon()
		p, err := openLeniently(file)
		if err != nil {
			yield(Salvaged{}, &DamagedError{Path: s.Path(), Err: err})
			return
		}
		sv := salvage{p: p, lost: lost, seen: make([]bool, p.high)}
		if err := sv.run(ctx, yield); err != nil && err != errEnough {
			yield(Salvaged{}, err)
		}
	}
}

// openLeniently is openPages that needs no freelist and takes a file that is too
// short.
func openLeniently(file *os.File) (*pageFile, error) {
	info, err := file.Stat()
	if err != nil {
		return nil, err
	}
	var p *pageFile
	for shift := range 15 {
		for _, at := range []int64{0, 1024 << shift} {
			if m := readMeta(file, at); m != nil && (p == nil || m.txid > p.txid) {
				p = m
			}
		}
	}
	if p == nil {
		return nil, errors.New("not a bbolt file, or both of its metas are lost")
	}
	p.high = min(p.high, uint64(info.Size())/p.pageSize)
	return p, nil
}

// salvage goes through the pages that can be reached.
type salvage struct {
	p    *pageFile
	lost func(error)
	seen []bool
}

// bucketPlace is where a bucket's entries are: below a page, or in an inline one.
type bucketPlace struct {
	root   uint64
	inline *page
}

func (s *salvage) run(ctx context.Context, yield func(Salvaged, error) bool) error {
	places := make(map[string]bucketPlace)
	if err := s.walk(s.p.root, func(flags uint32, k, v []byte) error {
		if flags&elementBucket == 0 || len(v) < 16 {
			return nil
		}
		place := bucketPlace{root: binary.NativeEndian.Uint64(v)}
		if inline := v[16:]; place.root == 0 && len(inline) >= pageHeader {
			place.inline = &page{count: int(binary.NativeEndian.Uint16(inline[10:])), data: inline}
		}
		places[string(k)] = place
		return nil
	}); err != nil {
		return err
	}
	each := func(n bucketNumber, fn func(k, v []byte) error) error {
		place, ok := places[bucketNames[n]]
		if !ok {
			s.lost(fmt.Errorf("bucket %s", bucketNames[n]))
			return nil
		}
		leaf := func(flags uint32, k, v []byte) error {
			if flags != 0 {
				return nil
			}
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			return fn(k, v)
		}
		if place.inline != nil {
			return s.leaf(*place.inline, leaf)
		}
		return s.walk(place.root, leaf)
	}

	configs := make(map[ID]Config)
	if err := each(bConfigs, func(k, v []byte) error {
		c, err := parseConfig(v)
		if err != nil {
			s.lost(fmt.Errorf("config of %s: %w", idAt(k, 0), err))
			return nil
		}
		configs[idAt(k, 0)] = c
		return nil
	}); err != nil {
		return err
	}
	if err := each(bConversations, func(k, v []byte) error {
		found := Salvaged{ID: idAt(k, 0), Config: configs[idAt(k, 0)]}
		delete(configs, found.ID)
		if json.Valid(v) {
			found.Record = v
		} else {
			s.lost(fmt.Errorf("conversation %s: its record", found.ID))
		}
		return proceed(yield(found, nil))
	}); err != nil {
		return err
	}
	for id, config := range configs {
		s.lost(fmt.Errorf("conversation %s: its record", id))
		if err := proceed(yield(Salvaged{ID: id, Config: config}, nil)); err != nil {
			return err
		}
	}
	return each(bEvents, func(k, v []byte) error {
		if len(k) != 16 {
			s.lost(fmt.Errorf("event: malformed key %x", k))
			return nil
		}
		id, seq := idAt(k, 0), num(k[8:])
		stored, err := parseStored(v)
		var e Event
		if err == nil {
			e, err = stored.event(seq)
		}
		if err != nil {
			s.lost(fmt.Errorf("conversation %s: event %d: %w", id, seq, err))
			return nil
		}
		return proceed(yield(Salvaged{ID: id, Event: &e}, nil))
	})
}

func proceed(more bool) error {
	if !more {
		return errEnough
	}
	return nil
}

// walk calls fn for the entries below a page, in order, and passes over pages that
// make no sense. An error of fn ends it.
func (s *salvage) walk(id uint64, fn func(flags uint32, k, v []byte) error) error {
	g, err := s.p.header(id)
	if err == nil && s.seen[id] {
		err = fmt.Errorf("page %d: used twice", id)
	}
	if err != nil {
		s.lost(err)
		return nil
	}
	s.seen[id] = true
	g.data = make([]byte, (g.overflow+1)*s.p.pageSize)
	if _, err := s.p.r.ReadAt(g.data, int64(id*s.p.pageSize)); err != nil {
		s.lost(fmt.Errorf("page %d: %w", id, err))
		return nil
	}
	switch g.flags {
	case flagLeaf:
		return s.leaf(g, fn)
	case flagBranch:
		for i := range g.count {
			head, err := g.element(i, 0, pageElement)
			if err != nil {
				s.lost(fmt.Errorf("page %d: %w", id, err))
				return nil
			}
			if err := s.walk(binary.NativeEndian.Uint64(head[8:]), fn); err != nil {
				return err
			}
		}
		return nil
	}
	s.lost(fmt.Errorf("page %d: unexpected kind %#x", id, g.flags))
	return nil
}

// leaf calls fn for the entries of one page. What it gives them are parts of the
// page, which nobody else uses.
func (s *salvage) leaf(g page, fn func(flags uint32, k, v []byte) error) error {
	order := binary.NativeEndian
	for i := range g.count {
		head, err := g.element(i, 0, pageElement)
		if err != nil {
			s.lost(fmt.Errorf("page %d: %w", g.id, err))
			return nil
		}
		offset, ksize, vsize := uint64(order.Uint32(head[4:])), uint64(order.Uint32(head[8:])), uint64(order.Uint32(head[12:]))
		k, err := g.element(i, offset, ksize)
		var v []byte
		if err == nil {
			v, err = g.element(i, offset+ksize, vsize)
		}
		if err != nil {
			s.lost(fmt.Errorf("page %d: %w", g.id, err))
			continue
		}
		if err := fn(order.Uint32(head), k, v); err != nil {
			return err
		}
	}
	return nil
}

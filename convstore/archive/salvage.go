package archive

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"time"

	"jp/convstore"
	"jp/convstore/internal/db"
	"jp/convstore/internal/file"
	"jp/convstore/internal/page"
	"jp/convstore/internal/stored"
)

// salvaged is a piece of a store that could be read: a conversation or, if it is not nil, one of
// its events or a delegation of its ledger.
type salvaged struct {
	ID convstore.ID

	// Of a conversation. Record is its stored record; nil if that is lost and only its events or
	// its config are left.
	Record   json.RawMessage
	Config   convstore.Config
	Imported *convstore.Imported
	Listed   []byte // its entry in the listing; nil = there is none

	Delegation *convstore.Delegation
	Removed    bool // the conversation of Delegation was removed, and what it used is kept

	Event *ExportedEvent
	Seq   uint64 // of Event
	Err   error  // why nothing else of Event is known; nil = it is
}

// salvage reads everything that can be read of a damaged store, and changes nothing. It yields the
// conversations in the order of their ids, then all events by conversation and sequence number,
// then the delegations. It calls lost for each part that could not be read. It trusts no page, and
// needs neither the freelist nor both metas. A page that cannot be reached from a meta is lost. The
// iteration ends with an error if nothing can be read.
func salvage(ctx context.Context, f *db.Base, lost func(error)) iter.Seq2[salvaged, error] {
	return func(yield func(salvaged, error) bool) {
		// The reader of the pieces may be slow, so they are read from a copy if there is room for
		// one.
		copied, err := f.TempCopy(ctx, f.LockAny(ctx))
		if err == nil && copied == nil {
			copied, err = f.Acquire(ctx, false)
		}
		if err == file.ErrAbsent {
			return
		}
		if err != nil {
			yield(salvaged{}, err)
			return
		}
		h := db.Handle{File: copied}
		defer h.Abandon()
		r, err := page.OpenRemains(copied, lost)
		if err != nil {
			yield(salvaged{}, &convstore.DamagedError{Path: f.StorePath(), Err: err})
			return
		}
		sv := salvager{r: r, lost: lost}
		if err := sv.run(ctx, yield); err != nil && err != errStop {
			yield(salvaged{}, err)
		}
	}
}

// salvager turns the entries that can be read into conversations and events.
type salvager struct {
	r    *page.Remains
	lost func(error)
}

func (s *salvager) run(ctx context.Context, yield func(salvaged, error) bool) error {
	each := func(n db.BucketNumber, fn func(k, v []byte) error) error {
		return s.r.Each(db.BucketNames[n], func(k, v []byte) error {
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			return fn(k, v)
		})
	}

	staged := make(map[convstore.ID]bool) // what an import has not made visible
	if err := each(db.Imports, func(k, _ []byte) error {
		if len(k) == 8 {
			staged[convstore.ID(db.Num(k))] = true
		}
		return nil
	}); err != nil {
		return err
	}
	configs := make(map[convstore.ID]convstore.Config)
	if err := each(db.Configs, func(k, v []byte) error {
		c, err := convstore.ParseConfig(v)
		if err != nil {
			s.lost(fmt.Errorf("config of %s: %w", convstore.ID(db.Num(k)), err))
			return nil
		}
		configs[convstore.ID(db.Num(k))] = c
		return nil
	}); err != nil {
		return err
	}
	imported := make(map[convstore.ID]*convstore.Imported)
	if err := each(db.Imported, func(k, v []byte) error {
		id, im := convstore.ID(db.Num(k)), new(convstore.Imported)
		if err := json.Unmarshal(v, im); err != nil {
			s.lost(fmt.Errorf("conversation %s: what was imported with it: %w", id, err))
			return nil
		}
		imported[id] = im
		return nil
	}); err != nil {
		return err
	}
	listed := make(map[convstore.ID][]byte)
	if err := each(db.Listing, func(k, v []byte) error {
		listed[convstore.ID(db.Num(k))] = v
		return nil
	}); err != nil {
		return err
	}
	if err := each(db.Conversations, func(k, v []byte) error {
		id := convstore.ID(db.Num(k))
		found := salvaged{ID: id, Config: configs[id], Imported: imported[id], Listed: listed[id]}
		delete(configs, id)
		delete(imported, id)
		delete(listed, id)
		delete(staged, id)
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
		if err := proceed(yield(salvaged{ID: id, Config: config}, nil)); err != nil {
			return err
		}
		delete(listed, id)
	}
	for id := range listed {
		s.lost(fmt.Errorf("conversation %s: its record", id))
	}
	for id := range imported {
		s.lost(fmt.Errorf("conversation %s: what was imported with it", id))
	}
	if err := each(db.Events, func(k, v []byte) error {
		if len(k) != 16 {
			s.lost(fmt.Errorf("event: malformed key %x", k))
			return nil
		}
		id, seq := convstore.ID(db.Num(k)), db.Num(k[8:])
		if staged[id] {
			return nil
		}
		e, err := stored.Parse(v)
		if err == nil {
			_, err = convstore.BodyOf(e)
		}
		x := &ExportedEvent{Conversation: id, ID: string(e.ID), Time: time.Unix(0, e.Nano).UTC(), Body: bytes.TrimSpace(e.Body)}
		return proceed(yield(salvaged{ID: id, Event: x, Seq: seq, Err: err}, nil))
	}); err != nil {
		return err
	}
	tree := make(map[convstore.ID]bool)
	for _, n := range []db.BucketNumber{db.Roots, db.Children} {
		if err := each(n, func(k, _ []byte) error {
			tree[convstore.ID(db.Num(k[max(0, len(k)-8):]))] = true
			return nil
		}); err != nil {
			return err
		}
	}
	return each(db.Delegations, func(k, v []byte) error {
		var d convstore.Delegation
		root := convstore.ID(db.Num(k))
		if err := json.Unmarshal(v, &d); err != nil || len(k) != 16 || d.Root != root || d.ID != convstore.DelegationID(db.Num(k[8:])) {
			s.lost(fmt.Errorf("delegation of %s: malformed", root))
			return nil
		}
		d.Number = db.Num(k[8:])
		return proceed(yield(salvaged{ID: root, Delegation: &d, Removed: !tree[root]}, nil))
	})
}

func proceed(more bool) error {
	if !more {
		return errStop
	}
	return nil
}

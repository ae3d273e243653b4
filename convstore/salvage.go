package convstore

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"jp/convstore/internal/file"
	"jp/convstore/internal/page"
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
		copied, err := s.f.aside(ctx, s.f.anyhow(ctx))
		if err == nil && copied == nil {
			copied, err = s.f.acquire(ctx, false)
		}
		if err == file.ErrAbsent {
			return
		}
		if err != nil {
			yield(Salvaged{}, err)
			return
		}
		h := handle{file: copied}
		defer h.abandon()
		r, err := page.OpenRemains(copied, lost)
		if err != nil {
			yield(Salvaged{}, &DamagedError{Path: s.Path(), Err: err})
			return
		}
		sv := salvage{r: r, lost: lost}
		if err := sv.run(ctx, yield); err != nil && err != errEnough {
			yield(Salvaged{}, err)
		}
	}
}

// salvage makes conversations and events of the entries that can be read.
type salvage struct {
	r    *page.Remains
	lost func(error)
}

func (s *salvage) run(ctx context.Context, yield func(Salvaged, error) bool) error {
	each := func(n bucketNumber, fn func(k, v []byte) error) error {
		return s.r.Each(bucketNames[n], func(k, v []byte) error {
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			return fn(k, v)
		})
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

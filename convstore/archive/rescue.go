package archive

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"

	"jp/convstore"
	"jp/convstore/internal/db"
)

// Rescue reads everything that can be read of a damaged store, and changes nothing. It yields
// pieces for Import: each conversation of which anything can be read, followed by its events. It
// leaves out what Import would not accept, and calls lost for it. It ends with an error if nothing
// can be read. It keeps the metadata of all conversations in memory, and no events.
func Rescue(ctx context.Context, s *convstore.Store, lost func(error)) iter.Seq2[Piece, error] {
	return func(yield func(Piece, error) bool) {
		r := rescue{lost: lost, heads: make(map[convstore.ID]*Exported), done: make(map[convstore.ID]bool), yield: yield}
		for p, err := range salvage(ctx, s.Inside(db.Room{}).DB(), lost) {
			switch {
			case err != nil:
				yield(Piece{}, err)
				return
			case p.Event == nil:
				r.head(p)
			case !r.event(p.ID, p.Seq, p.Event):
				return
			}
		}
		for _, id := range slices.Sorted(maps.Keys(r.heads)) {
			if !r.begin(id) {
				return
			}
		}
	}
}

// rescue is the state of Rescue.
type rescue struct {
	lost    func(error)
	heads   map[convstore.ID]*Exported // conversations that were not yielded yet
	done    map[convstore.ID]bool
	current convstore.ID
	yield   func(Piece, error) bool
}

// head stores what can be read of a conversation's metadata.
func (r *rescue) head(p salvaged) {
	x := &Exported{ID: p.ID}
	var rec convstore.Record
	if p.Record != nil {
		if err := json.Unmarshal(p.Record, &rec); err != nil {
			r.lost(fmt.Errorf("conversation %s: its record: %w", p.ID, err))
		} else {
			x = exportedRecord(p.ID, &rec)
		}
	}
	setConfig(&x.Void, p.Config)
	if err := x.check(); err != nil {
		r.lost(fmt.Errorf("its record: %w", err))
		x = &Exported{ID: p.ID}
	}
	r.heads[p.ID] = x
	for up := x; up != nil; up = r.heads[up.Parent] {
		if up.Parent == p.ID {
			r.lost(fmt.Errorf("conversation %s: its parent: it would be its own ancestor", p.ID))
			x.Parent, x.Link = 0, convstore.NoLink
			return
		}
	}
}

// begin yields a conversation.
func (r *rescue) begin(id convstore.ID) bool {
	x := r.heads[id]
	if x == nil {
		x = &Exported{ID: id}
	}
	delete(r.heads, id)
	r.done[id], r.current = true, id
	if x.check() != nil {
		r.lost(fmt.Errorf("conversation %d: its id is out of range", id))
		return true
	}
	return r.yield(Piece{Conversation: x}, nil)
}

// event yields an event, after its conversation.
func (r *rescue) event(id convstore.ID, seq uint64, x *ExportedEvent) bool {
	if id != r.current {
		if r.done[id] {
			r.lost(fmt.Errorf("conversation %s: event %d: not at its place", id, seq))
			return true
		}
		if !r.begin(id) {
			return false
		}
	}
	_, _, err := x.stored()
	if err == nil && (id <= 0 || id > maxExchangedID) {
		err = errors.New("its conversation's id is out of range")
	}
	if err != nil {
		r.lost(fmt.Errorf("conversation %s: event %d: %w", id, seq, err))
		return true
	}
	return r.yield(Piece{Event: x}, nil)
}

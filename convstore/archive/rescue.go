package archive

import (
	"bytes"
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
// pieces for Import: each conversation of which anything can be read, followed by its events, and
// at the end their delegations. It leaves out what Import would not accept, and calls lost for it,
// and for events that are not there though later ones or the record say that they were. If there is
// nothing of that, it calls lost for the error of Check. It ends with an error if nothing can be
// read. It keeps the metadata of all conversations and all delegations in memory, and the ids of
// the events of one.
func Rescue(ctx context.Context, s *convstore.Store, lost func(error)) iter.Seq2[Piece, error] {
	return func(yield func(Piece, error) bool) {
		whole, report := true, lost
		lost = func(err error) { whole = false; report(err) }
		r := rescue{lost: lost, heads: make(map[convstore.ID]*Exported), ledgers: make(map[convstore.ID][]convstore.Delegation), done: make(map[convstore.ID]bool),
			last: make(map[convstore.ID]uint64), ids: make(map[string]bool), yield: yield}
		for p, err := range salvage(ctx, s.Inside(db.Room{}).DB(), lost) {
			switch {
			case err != nil:
				yield(Piece{}, err)
				return
			case p.Delegation != nil && p.Removed && !r.done[p.ID] && r.heads[p.ID] == nil:
			case p.Delegation != nil:
				r.delegation(p.ID, p.Delegation)
			case p.Event == nil:
				r.head(p)
			case !r.event(p):
				return
			}
		}
		for _, id := range slices.Sorted(maps.Keys(r.heads)) {
			if !r.begin(id) {
				return
			}
		}
		r.end()
		for _, id := range slices.Sorted(maps.Keys(r.ledgers)) {
			detach(id, r.ledgers[id])
			for i := range r.ledgers[id] {
				if !yield(Piece{Delegation: &r.ledgers[id][i]}, nil) {
					return
				}
			}
		}
		if !whole {
			return
		}
		// A page of before, which a lost write leaves, can be read as well as the present one.
		if err := s.Check(ctx); ctx.Err() != nil {
			yield(Piece{}, context.Cause(ctx))
		} else if err != nil {
			lost(fmt.Errorf("perhaps something: %w", err))
		}
	}
}

// rescue is the state of Rescue.
type rescue struct {
	lost    func(error)
	heads   map[convstore.ID]*Exported // conversations that were not yielded yet
	ledgers map[convstore.ID][]convstore.Delegation
	done    map[convstore.ID]bool
	last    map[convstore.ID]uint64 // sequence numbers of the last events, as the records say
	current convstore.ID
	seq     uint64          // of the latest event of current
	ids     map[string]bool // ids of the events of current
	yield   func(Piece, error) bool
}

// upTo calls lost if not all events of the current conversation up to one have come.
func (r *rescue) upTo(seq uint64) {
	if first := r.seq + 1; first < seq {
		r.lost(fmt.Errorf("conversation %s: events %d to %d", r.current, first, seq))
	} else if first == seq {
		r.lost(fmt.Errorf("conversation %s: event %d", r.current, seq))
	}
	r.seq = max(r.seq, seq)
}

// end calls lost for what the record of the current conversation says and its events do not, or the
// other way round.
func (r *rescue) end() {
	last, known := r.last[r.current]
	if known && r.seq > last {
		r.lost(fmt.Errorf("conversation %s: its record: only an older one is there", r.current))
	}
	r.upTo(last)
}

// head stores what can be read of a conversation's metadata.
func (r *rescue) head(p salvaged) {
	if r.heads[p.ID] != nil {
		r.lost(fmt.Errorf("conversation %s: its record: there are two", p.ID))
		return
	}
	x := &Exported{ID: p.ID}
	var rec convstore.Record
	if p.Record != nil {
		if err := json.Unmarshal(p.Record, &rec); err != nil {
			r.lost(fmt.Errorf("conversation %s: its record: %w", p.ID, err))
		} else {
			x, r.last[p.ID] = exportedRecord(p.ID, &rec), rec.LastSeq
			if p.Listed != nil && !bytes.Equal(p.Listed, rec.Entry()) {
				r.lost(fmt.Errorf("conversation %s: its record or its entry in the listing: they differ, and one is an older one", p.ID))
			}
		}
	}
	if rec.Call != nil {
		r.lost(fmt.Errorf("conversation %s: what a call of its model used that was open", p.ID))
	}
	setConfig(&x.Void, p.Config)
	x.bring(p.Imported)
	if err := x.check(); err != nil {
		r.lost(fmt.Errorf("its record: %w", err))
		x = &Exported{ID: p.ID}
	}
	r.heads[p.ID] = x
	for up := x; up != nil && up.Parent != 0; up = r.heads[up.Parent] {
		if up.Parent == p.ID {
			r.lost(fmt.Errorf("conversation %s: its parent: it would be its own ancestor", p.ID))
			x.Parent, x.Link = 0, convstore.NoLink
			return
		}
	}
}

// delegation stores a delegation that Import would accept.
func (r *rescue) delegation(root convstore.ID, d *convstore.Delegation) {
	before := r.ledgers[root]
	alone := []convstore.Delegation{*d}
	detach(root, alone)
	err := checkExchanged(&alone[0])
	if n := len(before); n > 0 && before[n-1].Number >= d.Number {
		err = fmt.Errorf("delegation %s: not at its place", d.ID)
	}
	if err != nil {
		r.lost(fmt.Errorf("ledger of %s: %w", root, err))
		return
	}
	r.ledgers[root] = append(before, *d)
	if !r.done[root] && r.heads[root] == nil {
		r.heads[root] = nil // nothing else is left of it
	}
}

// begin yields a conversation.
func (r *rescue) begin(id convstore.ID) bool {
	r.end()
	x := r.heads[id]
	if x == nil {
		x = &Exported{ID: id}
		r.lost(fmt.Errorf("conversation %s: its record", id))
	}
	delete(r.heads, id)
	r.done[id], r.current, r.seq = true, id, 0
	clear(r.ids)
	if x.check() != nil {
		r.lost(fmt.Errorf("conversation %d: its id is out of range", id))
		return true
	}
	return r.yield(Piece{Conversation: x}, nil)
}

// event yields an event, after its conversation.
func (r *rescue) event(p salvaged) bool {
	id, err := p.ID, p.Err
	if id != r.current {
		switch {
		case r.done[id]:
			r.lost(fmt.Errorf("conversation %s: event %d: not at its place", id, p.Seq))
			return true
		case err != nil && r.heads[id] == nil: // nothing is known of it
			r.lost(fmt.Errorf("conversation %s: event %d: %w", id, p.Seq, err))
			return true
		case !r.begin(id):
			return false
		}
	}
	r.upTo(max(p.Seq, 1) - 1)
	r.seq = max(r.seq, p.Seq)
	if err == nil {
		_, _, err = p.Event.stored()
	}
	switch {
	case err != nil:
	case id <= 0 || id > maxExchangedID:
		err = errors.New("its conversation's id is out of range")
	case r.ids[p.Event.ID]:
		err = errors.New("is there twice")
	}
	if err != nil {
		r.lost(fmt.Errorf("conversation %s: event %d: %w", id, p.Seq, err))
		return true
	}
	r.ids[p.Event.ID] = true
	return r.yield(Piece{Event: p.Event}, nil)
}

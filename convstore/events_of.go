package convstore

import (
	"context"
	"fmt"
	"iter"

	"jp/convstore/internal/stored"
)

// EventIn is an event with the conversation that it is in.
type EventIn struct {
	Conversation ID
	Event
}

// EventsOf returns the events of several conversations, all of one before those of the next. It
// opens the file less often than Events does for each: it reads several small conversations at a
// time. In all else it works as Events, but that a call of a model whose process died comes last in
// its conversation even before an event is stored for it.
func (v View) EventsOf(ctx context.Context, ids []ID) iter.Seq2[EventIn, error] {
	return func(yield func(EventIn, error) bool) {
		type part struct {
			id     ID
			events []stored.Placed
			lost   *Event
		}
		at := 0
		var next, last uint64 // sequence numbers in ids[at]; next = 0 before the first event
		for at < len(ids) {
			var parts []part
			err := v.f.read(ctx, func(t *tx) error {
				for size := 0; at < len(ids) && size < batchBytes; {
					id := ids[at]
					r, err := v.within(t, id)
					if err != nil {
						return err
					}
					if next == 0 {
						next, last = 1, r.LastSeq
					}
					batch, err := t.Events(id, next, last)
					if err != nil {
						return err
					}
					const each = batchBytes / batchEvents
					for _, s := range batch {
						size += max(len(s.Body), each)
						next = s.Seq + 1
					}
					p := part{id: id, events: batch}
					if len(batch) == 0 || next > last {
						if r.LastSeq == last {
							if p.lost, err = t.LostCall(id, r); err != nil {
								return err
							}
						}
						at, next = at+1, 0
					}
					parts = append(parts, p)
				}
				return nil
			})
			for _, p := range parts {
				for _, s := range p.events {
					e, err := eventOf(s.Event, s.Seq)
					if err != nil {
						yield(EventIn{}, &DamagedError{Path: v.f.StorePath(), Err: fmt.Errorf("conversation %s: event %d: %w", p.id, s.Seq, err)})
						return
					}
					if !yield(EventIn{p.id, e}, nil) {
						return
					}
				}
				if p.lost != nil && !yield(EventIn{p.id, *p.lost}, nil) {
					return
				}
			}
			if err != nil {
				yield(EventIn{}, absent(err, ids[at]))
				return
			}
		}
	}
}

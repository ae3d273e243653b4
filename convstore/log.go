package convstore

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"jp/convstore/internal/db"
	"jp/convstore/internal/file"
	"jp/convstore/internal/stored"
)

// Log is one conversation whose run lock this process holds, alone or with the parent that it
// inherited the lock from. Its methods are safe for concurrent use; Close waits for those that are
// under way.
type Log struct {
	f  *base
	id ID

	shared  bool        // the parent holds the lock too, until it settles
	calling atomic.Bool // a call that the record says was begun is this process's
	blank   atomic.Bool // it has no events: nobody else can append any
	taken   Config      // as it was when the lock was taken

	mu   sync.RWMutex
	lock *os.File // nil when closed
}

// ID returns the conversation's id.
func (l *Log) ID() ID { return l.id }

func (l *Log) view() View { return View{f: l.f} }

// Get returns the conversation.
func (l *Log) Get(ctx context.Context) (Conversation, error) { return l.view().Get(ctx, l.id) }

// Taken returns the config that the conversation had when its run lock was taken. It must not be
// changed.
func (l *Log) Taken() Config { return l.taken }

// Blank reports, without looking at the store, that the conversation has no events.
func (l *Log) Blank() bool { return l.blank.Load() }

// Events is View.Events of the conversation.
func (l *Log) Events(ctx context.Context, r Range) iter.Seq2[Event, error] {
	return l.view().Events(ctx, l.id, r)
}

// Below returns the scope of the conversation.
func (l *Log) Below() Scope {
	return Scope{View: View{f: l.f, root: l.id, delegated: true}, as: runner{id: l.id, inherited: l.shared}}
}

// Close lets go of the run lock. A further Close does nothing.
func (l *Log) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.lock == nil {
		return nil
	}
	lock := l.lock
	l.lock = nil
	if l.shared {
		return lock.Close()
	}
	return file.DropRun(lock)
}

// write runs fn in a write transaction with the conversation's record, as long as the log is open.
func (l *Log) write(ctx context.Context, fn func(*tx, *record) error) error {
	l.mu.RLock()
	defer l.mu.RUnlock()
	if l.lock == nil {
		return ErrClosed
	}
	err := l.f.write(ctx, func(t *tx) error {
		r, err := t.loadWhole(l.id)
		if err == nil && !l.shared {
			r, err = t.takeOver(l.id, r)
		}
		if err == nil && !l.calling.Load() {
			err = t.loseCall(l.id, r)
		}
		if err != nil {
			return err
		}
		return fn(t, r)
	})
	return absent(err, l.id)
}

// takeOver parts a conversation, whose run lock was free to take, from the delegation that ran it,
// if any: it settles that one and what was left open below it. Else its end would be taken for the
// end of a turn that somebody else began since, and what it had used would be in no account.
func (t *tx) takeOver(id ID, r *record) (*record, error) {
	if r.Run == nil {
		return r, nil
	}
	root, number := r.Run.Root, r.Run.Number
	if err := t.reconcileBut(root, runner{id: id}, number); err != nil {
		return nil, err
	}
	d, err := t.delegation(root, number)
	if err != nil {
		return nil, err
	}
	o, err := t.lastWord(d)
	if err != nil {
		return nil, err
	}
	if _, err := t.settle(d, o); err != nil {
		return nil, err
	}
	return t.Load(id)
}

// SetTitle changes the conversation's title.
func (l *Log) SetTitle(ctx context.Context, title string) error {
	return l.write(ctx, func(t *tx, r *record) error {
		if r.Title == title {
			return db.ErrUnchanged
		}
		r.Title = title
		return t.Save(l.id, r)
	})
}

// Retitle changes the conversation's title from was and stores events with that. Where the title is
// another one by now it does neither, and reports so.
func (l *Log) Retitle(ctx context.Context, was, title string, events ...Event) (changed bool, err error) {
	err = l.append(ctx, events, func(t *tx, r *record) error {
		if changed = r.Title == was; !changed {
			return db.ErrUnchanged
		}
		r.Title = title
		return t.Save(l.id, r)
	})
	return changed && err == nil, err
}

// Append stores events at the end of the conversation, all of them or none. When it has returned
// nil they survive whatever happens to the process or, as far as the disk keeps its word, to the
// machine.
//
// It sets the ID and Time of events that have none and, once they are stored, the Seq and Turn of
// all: in the slice itself when one is passed. An event whose ID is there already is passed over,
// so that an append whose acknowledgement was lost can be repeated.
//
// It waits for the store longer than ctx lives, by Options.Deadline: what has happened is recorded
// also where that ends the run.
//
// It fails with a *NotFoundError when the conversation or an ancestor is gone.
func (l *Log) Append(ctx context.Context, events ...Event) error {
	return l.append(ctx, events, nil)
}

// append is Append that goes on with then, if any, in the same transaction.
func (l *Log) append(ctx context.Context, events []Event, then func(*tx, *record) error) error {
	encoded, bodies := make([]stored.Event, len(events)), make([]Body, len(events))
	for i := range events {
		e := &events[i]
		if e.ID == "" {
			e.ID = NewEventID()
		}
		if e.Time.IsZero() {
			e.Time = l.f.Now().UTC().Round(0)
		}
		s, err := EncodeEvent(*e)
		if err != nil {
			return fmt.Errorf("conversation %s: %w", l.id, err)
		}
		encoded[i], bodies[i] = s, e.Body
		if o, ok := e.Body.(Opaque); ok { // it may be of a type that counts
			if bodies[i], err = DecodeBody(o.Raw); err != nil {
				return fmt.Errorf("conversation %s: %w", l.id, err)
			}
		}
	}
	ctx, stop := file.Outlast(ctx, l.f.Deadline)
	defer stop()
	seqs := make([]uint64, len(events))
	l.blank.Store(false) // whatever comes of it
	err := l.write(ctx, func(t *tx, r *record) error {
		changed := false
		for i := range encoded {
			before := r.LastSeq
			seq, err := t.Append(l.id, r, &encoded[i], bodies[i])
			if err != nil {
				return err
			}
			seqs[i] = seq
			changed = changed || r.LastSeq != before
		}
		switch {
		case then != nil:
			return then(t, r)
		case !changed:
			return db.ErrUnchanged
		}
		return t.Save(l.id, r)
	})
	if err != nil {
		return err
	}
	for i := range events {
		events[i].Seq, events[i].Turn = seqs[i], int(encoded[i].Turn)
	}
	return nil
}

// Append stores one event and what follows from it in the record, which the caller saves. It fills
// in the event's turn and returns its sequence number; an event that is there already leaves
// everything as it is.
func (t *tx) Append(id ID, r *record, s *stored.Event, body Body) (uint64, error) {
	idKey := db.TextKey(id, string(s.ID))
	if v := t.Bucket(db.EventIDs).Get(idKey); v != nil {
		seq := db.Num(v)
		there, err := stored.Parse(t.Bucket(db.Events).Get(db.PairKey(id, seq)))
		if err != nil {
			return 0, t.Damaged("conversation %s: event %d: %w", id, seq, err)
		}
		s.Turn = there.Turn
		return seq, nil
	}
	seq := r.LastSeq + 1
	switch b := body.(type) {
	case TurnStart:
		r.Turns++
		r.TurnOpen, r.RunState, r.RunReason = true, "", ""
		r.Since, r.Below, r.Limits, r.Made = r.rebase(), Spend{}, nil, new(tallied)
		if r.Link != DelegationLink {
			r.Limits = b.Limits.clone()
		}
		if err := t.Put(db.Turns, db.TurnKey(id, r.Turns), db.Key(seq)); err != nil {
			return 0, err
		}
	case TurnEnd:
		r.TurnOpen, r.State, r.Reason = false, b.State, b.Reason
		r.Call = nil
	case ModelCall:
		r.Call = nil
		r.Usage = r.Usage.Add(b.Usage)
		if b.CostNano == nil {
			r.Unpriced++
		} else {
			r.CostNano = add(r.CostNano, *b.CostNano)
		}
	case ConfigDelta:
		if b.Resolved.JSON != nil {
			if err := t.SaveConfig(id, b.Resolved); err != nil {
				return 0, err
			}
			r.Model = cmp.Or(b.Model, r.Model)
			if n := b.Named; n != nil {
				r.Profile, r.ProfileArg, r.ProfileHash = n.Profile, n.Arg, n.Hash
			}
		}
	}
	s.Turn = uint32(r.Turns)
	if err := t.Put(db.Events, db.PairKey(id, seq), s.Append(nil)); err != nil {
		return 0, err
	}
	if err := t.Put(db.EventIDs, idKey, db.Key(seq)); err != nil {
		return 0, err
	}
	r.LastSeq = seq
	r.Events++
	if at := time.Unix(0, s.Nano).UTC(); at.After(r.UpdatedAt) {
		r.UpdatedAt = at
	}
	return seq, nil
}

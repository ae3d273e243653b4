package convstore

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"jp/convstore/amount"
	"jp/convstore/internal/db"
	"jp/convstore/internal/file"
	"jp/convstore/internal/stored"
)

// Log is one conversation whose run lock this process holds, alone or with the reservation
// that it is of. Its methods are safe for concurrent use. Close waits for calls that are
// still running.
type Log struct {
	f  *base
	id ID

	shared  bool        // a reservation holds the lock too, until it is settled
	calling atomic.Bool // the open call in the record is this process's own
	blank   atomic.Bool // no events; nobody else can append any
	taken   Config      // config when the lock was taken
	foreign uint64      // record.Foreign
	account Account     // account when a reserved run began; zero in other logs
	session string      // session whose active conversation a turn makes this one; "" = none

	mu   sync.RWMutex
	lock *file.RunLock // nil when closed
}

// ID returns the conversation's id.
func (l *Log) ID() ID { return l.id }

func (l *Log) view() View { return View{f: l.f} }

// Get returns the conversation.
func (l *Log) Get(ctx context.Context) (Conversation, error) { return l.view().Get(ctx, l.id) }

// Taken returns the config that the conversation had when its run lock was taken. It must not be
// changed.
func (l *Log) Taken() Config { return l.taken }

// Foreign returns the number of the last event that came by an import, 0 for none. No run of this
// store has said what is in the events up to it.
func (l *Log) Foreign() uint64 { return l.foreign }

// Account returns the account when the reserved run began. It is zero in a Log of Store.Lock.
func (l *Log) Account() Account { return l.account }

// ActivateIn makes the conversation the active one of a session when its next turn begins.
func (l *Log) ActivateIn(session string) { l.session = session }

// Blank reports, without reading the store, whether the conversation has no events.
func (l *Log) Blank() bool { return l.blank.Load() }

// Events is View.Events of the conversation.
func (l *Log) Events(ctx context.Context, r Range) iter.Seq2[Event, error] {
	return l.view().Events(ctx, l.id, r)
}

// Children returns the latest conversations that this one has delegated to, at most limit of them,
// newest first.
func (l *Log) Children(ctx context.Context, limit int) ([]Conversation, error) {
	return l.Below().List(ctx, Filter{Children: l.id, Hidden: true, Archived: true, Descending: true, Limit: limit})
}

// Below returns the scope of the conversation.
func (l *Log) Below() Scope {
	return Scope{View: View{f: l.f, root: l.id, delegated: true}, as: runner{id: l.id, reserved: l.shared}}
}

// Close releases the run lock. A second Close does nothing.
func (l *Log) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.lock == nil {
		return nil
	}
	lock := l.lock
	l.lock = nil
	if l.shared {
		return lock.Leave()
	}
	return lock.Drop()
}

// write runs fn in a write transaction with the conversation's record. It fails with ErrClosed
// after Close.
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
			err = t.chargeLostCall(l.id, r)
		}
		if err != nil {
			return err
		}
		return fn(t, r)
	})
	return absent(err, l.id)
}

// takeOver settles the delegation that last ran a conversation, if it is still open, and the open
// ones below it. The caller has taken the run lock, so that nobody else can settle it. Otherwise
// the end of a turn that the caller begins would count as the end of that delegation, and its use
// would be in no account.
func (t *tx) takeOver(id ID, r *record) (*record, error) {
	if r.Run == nil {
		return r, nil
	}
	if err := t.reconcileBut(r.Run.Root, runner{id: id}, r.Run.Number); err != nil {
		return nil, err
	}
	d, err := t.delegation(r.Run.Root, r.Run.Number)
	if err == nil {
		_, err = t.settleLeft(d)
	}
	if err != nil {
		return nil, err
	}
	return t.Load(id)
}

// Retitle changes the conversation's title from was to title and appends events in the same
// transaction. If the title is not was any more, it does neither and returns false.
func (l *Log) Retitle(ctx context.Context, was, title string, events ...Event) (changed bool, err error) {
	ctx = file.Begins(ctx, l.shared || was != "" || len(events) > 0) // the first title comes before the turn
	err = l.append(ctx, events, func(t *tx, r *record) error {
		if changed = r.Title == was; !changed {
			return db.ErrUnchanged
		}
		r.Title = title
		return t.Save(l.id, r)
	})
	return changed && err == nil, err
}

const maxAllowed = 100     // allowances of one conversation; the oldest are forgotten first
const LabelBatch = "batch" // label of the conversation that a batch runs below; its value is the sum of the batch

// Allow allows this until Store.Edit removes it, in place of what was of its kind for its tool.
func (l *Log) Allow(ctx context.Context, list ...Allowance) error {
	return l.append(ctx, nil, func(t *tx, r *record) error {
		for _, a := range list {
			r.Allowed = append(slices.DeleteFunc(r.Allowed, func(o Allowance) bool { return o.Kind == a.Kind && o.Tool == a.Tool }), a)
		}
		r.Allowed = r.Allowed[max(0, len(r.Allowed)-maxAllowed):]
		return t.Save(l.id, r)
	})
}

// Append stores events at the end of the conversation, all of them or none. After it returned nil
// they survive a crash of the process and, if the disk flushes as it says, of the machine.
//
// It sets the ID and Time of events that have none and, after they are stored, the Seq and Turn of
// all. If a slice is passed, it sets them in that slice. An event whose ID is there already is
// skipped, so that an append can be repeated.
//
// It waits for the store until Options.Deadline after the end of ctx, so that the last events of a
// run that was stopped are stored too. With a TurnStart among the events it gives up soon after the
// end of ctx: no model was asked in that turn.
//
// It fails with a *NotFoundError when the conversation or an ancestor is gone.
func (l *Log) Append(ctx context.Context, events ...Event) error {
	return l.append(ctx, events, nil)
}

// append is Append that also calls then, if it is not nil, in the same transaction.
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
		if o, ok := e.Body.(Opaque); ok { // its type may change the record
			if bodies[i], err = DecodeBody(o.Raw); err != nil {
				return fmt.Errorf("conversation %s: %w", l.id, err)
			}
		}
	}
	outlast, stop := file.Outlast(ctx, l.f.Deadline)
	if slices.ContainsFunc(bodies, func(b Body) bool { _, begins := b.(TurnStart); return begins }) {
		stop()
		outlast, stop = file.Beginning(ctx, l.shared)
	}
	defer stop()
	seqs := make([]uint64, len(events))
	l.blank.Store(false) // even if it fails
	err := l.write(outlast, func(t *tx, r *record) error {
		changed := false
		for i := range encoded {
			before := r.LastSeq
			seq, err := t.Append(l.id, r, &encoded[i], bodies[i])
			if err != nil {
				return err
			}
			seqs[i] = seq
			b, begins := bodies[i].(TurnStart)
			if begins && r.LastSeq != before && r.Link != DelegationLink {
				r.Limits = b.Limits.Clone()
			}
			if begins && l.session != "" {
				if err := t.activate(l.session, l.id); err != nil && err != db.ErrUnchanged {
					return err
				}
			}
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

// Append stores one event and updates the record, which the caller saves. It sets the event's turn
// and returns its sequence number. An event that is there already changes nothing.
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
	case TurnStart: // its limits are those of a run here, and of no copy
		r.Turns++
		r.TurnOpen, r.NoAgent, r.RunState, r.RunReason = true, b.NoAgent, "", ""
		r.Since, r.Below, r.Limits, r.Made = r.rebase(), Spend{}, nil, new(tallied)
		if err := t.Put(db.Turns, db.TurnKey(id, r.Turns), db.Key(seq)); err != nil {
			return 0, err
		}
	case TurnEnd:
		r.TurnOpen, r.State, r.Reason = false, b.State, b.Reason
		r.Call = nil
		if b.Personal || b.State != StateOK {
			r.Asked = nil
		} else if r.Run == nil {
			r.Asked = b.Asked.asked()
		}
		if r.Run == nil { // else the end of that run counts
			if err := t.saveAnswer(id, r); err != nil {
				return 0, err
			}
		}
	case ModelCall:
		r.Call = nil
		r.Usage = r.Usage.Add(b.Usage)
		if b.CostNano == nil {
			r.Unpriced++
		} else {
			r.CostNano = amount.Sum(r.CostNano, *b.CostNano)
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
	if err := t.Add(db.Events, db.PairKey(id, seq), s.Append(nil)); err != nil {
		return 0, err
	}
	if err := t.Put(db.EventIDs, idKey, db.Key(seq)); err != nil {
		return 0, err
	}
	r.LastSeq = seq
	r.Events++
	if at := time.Unix(0, s.Nano).UTC(); at.After(r.UpdatedAt) || r.UpdatedAt.After(t.Now) {
		r.UpdatedAt = at
	}
	return seq, nil
}

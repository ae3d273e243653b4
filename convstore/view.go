package convstore

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"

	"jp/convstore/internal/db"
	"jp/convstore/internal/file"
	"jp/convstore/internal/stored"
)

// View reads conversations: all of a store, or the strict descendants of one. It is a value, safe
// for concurrent use. Every call locks and unlocks the file. A call that returns an iterator locks
// it again and again, for a few milliseconds at a time, and never has it locked while the caller
// handles a value.
type View struct {
	f         *base
	root      ID   // 0 = everything
	delegated bool // follow delegation links only
}

// within returns the record of a conversation in view. It fails with a *NotFoundError if there is
// none, and with a *ScopeError if it is outside of the view. An agent gets a *ScopeError for both,
// so that it cannot find out which conversations exist outside of its scope.
func (v View) within(t *tx, id ID) (*record, error) {
	r, err := t.Load(id)
	if v.delegated && errors.As(err, new(*NotFoundError)) {
		return nil, &ScopeError{ID: id, Root: v.root}
	}
	if err != nil || v.root == 0 {
		return r, err
	}
	below := r
	for at, up := range t.Ancestors(id, r, &err) {
		if v.delegated && below.Link != DelegationLink {
			break
		}
		if at == v.root {
			return r, nil
		}
		below = up
	}
	if err != nil {
		return nil, err
	}
	return nil, &ScopeError{ID: id, Root: v.root}
}

// absent turns file.ErrAbsent, the error of a store that does not exist yet, into a *NotFoundError
// for a conversation.
func absent(err error, id ID) error {
	if err == file.ErrAbsent {
		return &NotFoundError{ID: id}
	}
	return err
}

// present is err, unless it is file.ErrAbsent: a store that does not exist yet has nothing.
func present(err error) error {
	if err == file.ErrAbsent {
		return nil
	}
	return err
}

// of returns what f makes of the record of a conversation in view. It fails with the errors of Get.
func of[T any](ctx context.Context, v View, id ID, f func(*tx, *record) (T, error)) (is T, err error) {
	err = v.f.read(ctx, func(t *tx) error {
		r, err := v.within(t, id)
		if err == nil {
			is, err = f(t, r)
		}
		return err
	})
	return is, absent(err, id)
}

// Get returns one conversation. It fails with a *NotFoundError, or with a *ScopeError if the
// conversation is outside of the view. In a Scope it fails with a *ScopeError in both cases.
func (v View) Get(ctx context.Context, id ID) (Conversation, error) {
	return of(ctx, v, id, func(t *tx, r *record) (Conversation, error) { return t.conversation(id, r) })
}

// Under returns the view of everything below root, by the links that v follows. It fails with the
// errors of Get.
func (v View) Under(ctx context.Context, root ID) (View, error) {
	if _, err := v.Get(ctx, root); err != nil {
		return View{}, err
	}
	return View{f: v.f, root: root, delegated: v.delegated}, nil
}

// Config returns the stored config of a conversation, with the errors of Get.
func (v View) Config(ctx context.Context, id ID) (Config, error) {
	return of(ctx, v, id, func(t *tx, _ *record) (Config, error) { return t.Config(id) })
}

// Delegations returns the delegations of the ledger of root, oldest first, also those of removed
// conversations. In a view below a conversation it returns only those that this conversation or one
// in view made.
//
// An open delegation that nobody can settle any more has the state that settling would give it,
// such as lost.
//
// It fails with a *NotFoundError if there is no such conversation and no delegation.
func (v View) Delegations(ctx context.Context, root ID) (ds []Delegation, err error) {
	err = v.f.read(ctx, func(t *tx) error {
		ds = nil
		all, err := t.Delegations(root)
		if err != nil {
			return err
		}
		if len(all) == 0 {
			_, err := t.Load(root)
			return err
		}
		for _, d := range all {
			if v.root != 0 && d.Caller != v.root {
				if _, err := v.within(t, d.Caller); errors.As(err, new(*ScopeError)) || errors.As(err, new(*NotFoundError)) {
					continue
				} else if err != nil {
					return err
				}
			}
			if d.State == "" {
				abandoned, err := t.abandoned(d.Child, runner{})
				if abandoned {
					var o Outcome
					o, err = t.outcomeOf(d)
					if d.State, d.Reason, d.Unstarted = o.State, o.Reason, o.unstarted; d.Unstarted {
						d.ChildTurn = 0
					}
				}
				if err != nil {
					return err
				}
			}
			ds = append(ds, d)
		}
		return nil
	})
	return ds, absent(err, root)
}

// List returns the conversations in view that the filter admits. Without a Filter.Sort each one
// comes before its children. It reads the records only of those that it returns, so that a limit
// bounds its time and memory.
func (v View) List(ctx context.Context, f Filter) (list []Conversation, err error) {
	err = v.f.read(ctx, func(t *tx) error {
		list = nil
		if err := t.prepareStatus(); err != nil {
			return err
		}
		ids, err := v.choose(t, f)
		if err != nil {
			return err
		}
		for _, id := range ids {
			r, err := t.Load(id)
			if err != nil {
				return err
			}
			if list, err = t.appendConversation(list, id, r); err != nil {
				return err
			}
		}
		return nil
	})
	if err == file.ErrAbsent && v.root == 0 && f.Children == 0 {
		err = nil
	}
	if err != nil {
		return nil, absent(err, cmp.Or(f.Children, v.root))
	}
	return list, nil
}

// errEnough ends a walk early.
var errEnough = errors.New("enough")

// enough is err, unless it is errEnough.
func enough(err error) error {
	if err == errEnough {
		return nil
	}
	return err
}

// walk calls fn for the conversations in view that the filter admits, in preorder. With Roots or
// Children it reads only those.
func (v View) walk(t *tx, f Filter, fn func(ID, entry) error) error {
	at := t.Entries()
	visit := func(id ID) error {
		e, err := at.at(id)
		if err != nil || !f.admits(e) {
			return err
		}
		return fn(id, e)
	}
	switch {
	case f.Roots && (v.root != 0 || f.Children != 0):
		return nil // a root is below nothing
	case f.Children != 0:
		if f.Children != v.root {
			if _, err := v.within(t, f.Children); err != nil {
				return err
			}
		}
		return t.children(f.Children, func(id ID, l Link) error {
			if v.delegated && l != DelegationLink {
				return nil
			}
			return visit(id)
		})
	case v.root != 0:
		if _, err := t.Load(v.root); err != nil {
			return err
		}
		return t.Below(v.root, v.delegated, at, visit)
	}
	return t.Prefixed(db.Roots, nil, func(k, _ []byte) error {
		id := idAt(k, 0)
		if err := visit(id); err != nil || f.Roots {
			return err
		}
		return t.Below(id, false, at, visit)
	})
}

// children calls fn for the direct children of a conversation, oldest first.
func (t *tx) children(id ID, fn func(child ID, l Link) error) error {
	return t.Prefixed(db.Children, id.key(), func(k, v []byte) error {
		if len(k) != 16 || len(v) != 1 {
			return t.Damaged("children of %s: malformed entry", id)
		}
		return fn(idAt(k, 8), Link(v[0]))
	})
}

// Below calls fn for the strict descendants of a conversation in preorder. The tree may be deep, so
// it keeps its own stack instead of calling itself. It reads children only if the entry in at says
// that there are any.
func (t *tx) Below(id ID, delegated bool, at *entries, fn func(ID) error) error {
	var todo []ID // in reverse: the next one is last
	push := func(id ID) error {
		if e, err := at.at(id); err != nil || !e.is(entryParent) {
			return err
		}
		from := len(todo)
		err := t.children(id, func(child ID, l Link) error {
			if !delegated || l == DelegationLink {
				todo = append(todo, child)
			}
			return nil
		})
		slices.Reverse(todo[from:])
		return err
	}
	if err := push(id); err != nil {
		return err
	}
	seen := make(map[ID]struct{})
	for len(todo) > 0 {
		next := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		if _, again := seen[next]; again {
			return t.Damaged("conversation %s: is its own descendant", next)
		}
		seen[next] = struct{}{}
		if err := fn(next); err != nil {
			return err
		}
		if err := push(next); err != nil {
			return err
		}
	}
	return nil
}

// prepareStatus reads all run locks at once, which makes many calls of status fast.
func (t *tx) prepareStatus() error {
	if _, err := t.Held(0); err != nil {
		return err
	}
	return t.runs.ReadAll()
}

// batchBytes and batchEvents bound how much is read each time the file is opened.
const (
	batchBytes  = 1 << 20
	batchEvents = 1024
)

// Events returns the events of the chosen turns, in order. The iteration ends with an error of Get,
// or with a *RangeError if a single turn was asked for that does not exist. It yields the events
// that were there when it began. If the conversation is removed meanwhile, it ends with the error
// of Get for a missing one.
func (v View) Events(ctx context.Context, id ID, r Range) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		var next, last uint64
		for first := true; first || next <= last; first = false {
			var batch []stored.Placed
			err := v.f.read(ctx, func(t *tx) error {
				rec, err := v.within(t, id)
				if err != nil {
					return err
				}
				if first {
					next, last, err = t.span(id, rec, r)
					if err != nil || next > last {
						return err
					}
				}
				batch, err = t.Events(id, next, last)
				return err
			})
			if err != nil {
				yield(Event{}, absent(err, id))
				return
			}
			for _, s := range batch {
				e, err := eventOf(s.Event, s.Seq)
				if err != nil {
					yield(Event{}, &DamagedError{Path: v.f.StorePath(), Err: fmt.Errorf("conversation %s: event %d: %w", id, s.Seq, err)})
					return
				}
				if !yield(e, nil) {
					return
				}
				next = s.Seq + 1
			}
			if len(batch) == 0 {
				return
			}
		}
	}
}

// span returns the first and the last sequence number of a range of turns. If it has no events, the
// last is smaller than the first.
func (t *tx) span(id ID, r *record, turns Range) (first, last uint64, err error) {
	from, to, err := turns.resolve(id, r.Turns)
	if err != nil || to < from {
		return 1, 0, err
	}
	first, last = 1, r.LastSeq
	if from > 0 {
		first, err = t.turnStart(id, from)
	}
	if err == nil && to < r.Turns {
		last, err = t.turnStart(id, to+1)
		last--
	}
	return first, last, err
}

// turnStart returns the sequence number of a turn's first event.
func (t *tx) turnStart(id ID, turn int) (uint64, error) {
	v := t.Bucket(db.Turns).Get(db.TurnKey(id, turn))
	if len(v) != 8 && len(v) != 8+len(Digest{}) {
		return 0, t.Damaged("conversation %s: turn %d is not indexed", id, turn)
	}
	return db.Num(v), nil
}

// resolve returns the first and the last turn of a range among n turns. Turn 0 has the events
// before the first turn. If to < from, the range is empty.
func (r Range) resolve(id ID, n int) (from, to int, err error) {
	if r.none {
		return 1, 0, nil
	}
	from, to = r.First, r.Last
	if from < 0 {
		from += n + 1
	}
	if to < 0 {
		to += n + 1
	}
	if r.First != 0 && r.First == r.Last && (from < 1 || from > n) {
		return 0, 0, &RangeError{ID: id, Range: r, Turns: n}
	}
	if r.First != 0 {
		from = max(from, 1)
	}
	if r.Last == 0 {
		to = n
	} else if to < 1 {
		return 1, 0, nil
	}
	return from, min(to, n), nil
}

// Events returns copies of a batch of events from sequence number first to last. If one is missing,
// it fails. The caller decodes them after the transaction, when nobody waits for the store any
// more.
func (t *tx) Events(id ID, first, last uint64) ([]stored.Placed, error) {
	var batch []stored.Placed
	size := 0
	prefix := id.key()
	c := t.Bucket(db.Events).Cursor()
	for k, v := c.Seek(db.PairKey(id, first)); k != nil; k, v = c.Next() {
		if len(k) != 16 || string(k[:8]) != string(prefix) || db.Num(k[8:]) > last {
			break
		}
		if want := first + uint64(len(batch)); db.Num(k[8:]) != want {
			return nil, t.Damaged("%w", missing(id, want))
		}
		s, err := stored.Parse(bytes.Clone(v))
		if err != nil {
			return nil, t.Damaged("conversation %s: event %d: %w", id, db.Num(k[8:]), err)
		}
		batch = append(batch, stored.Placed{Seq: db.Num(k[8:]), Event: s})
		if size += len(v); size >= batchBytes || len(batch) == batchEvents {
			break
		}
	}
	if len(batch) == 0 && first <= last {
		return nil, t.Damaged("conversation %s: event %d is missing, and there should be %d", id, first, last)
	}
	return batch, nil
}

// missing returns the error for an event that the store has lost.
func missing(id ID, seq uint64) error {
	return fmt.Errorf("conversation %s: event %d is missing", id, seq)
}

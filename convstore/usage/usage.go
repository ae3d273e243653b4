// Package usage says what conversations have used: the model calls in their events and, for
// conversations that were removed, what the ledgers have recorded.
package usage

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"iter"
	"maps"
	"slices"
	"time"

	"jp/convstore"
	"jp/convstore/amount"
	"jp/convstore/internal/db"
	"jp/convstore/internal/file"
	"jp/convstore/internal/stored"
)

// Charge is one thing that was paid for: a model call or, if the conversation is not in the tree
// any more, a whole run of it as its delegation recorded it.
type Charge struct {
	Conversation convstore.ID
	Profile      string // profile of the conversation; "" = none
	Model        string
	Turn         int
	Session      int       // turn of the ledger's root that it belongs to; 0 = not known
	Time         time.Time // when it ended
	Usage        convstore.Usage
	CostNano     *int64        // billionths of a dollar, nil = price unknown
	Took         time.Duration // duration of a model call; 0 if Recorded

	// Lost marks a call whose process died before the call ended. What it used is not known: Usage
	// is the most that it may have used.
	Lost bool

	// Recorded marks a run. It replaces the model calls of the run, which were removed.
	Recorded bool

	// Replayed marks a charge for which nothing was paid, because a recording answered.
	Replayed bool
}

// Run is the part of a convstore.Delegation that concerns usage.
type Run struct {
	Caller   convstore.ID    `json:"caller_id"`
	Child    convstore.ID    `json:"child_id"`
	Turn     int             `json:"child_turn"` // of the child
	From     int             `json:"turn"`       // turn of the caller
	Session  int             `json:"session"`
	Profile  string          `json:"profile"`
	Model    string          `json:"model"`
	Reserved time.Time       `json:"reserved_at"`
	Ended    time.Time       `json:"ended_at,omitzero"` // zero = not settled yet
	Own      convstore.Spend `json:"own"`

	Replayed bool `json:"replayed,omitzero"` // as in convstore.Delegation
	Person   bool `json:"person,omitzero"`   // as in convstore.Delegation

	ledger convstore.ID // root of the ledger that has it
}

// Spending is what a conversation and everything below it by delegation used, at one moment.
type Spending struct {
	Conversation convstore.Conversation
	Ledger       convstore.ID // root that owns the ledger; for a root the conversation itself
	Session      int          // present turn of that root
	Charges      []Charge
	Below        []convstore.ID // strict descendants by delegation links, each before its children
	Runs         []Run          // delegations that the conversation or one below it made, also removed ones; oldest first

	earlier []Run // runs of descendants in the ledger that the tree was moved out of
}

// Spent returns the model calls in the events of a conversation and of its strict descendants by
// delegation links. For a conversation that was removed, or moved out of the tree, it returns what
// the records of its delegations hold. It fails as View.Get does.
//
// Of a descendant it reads only the model calls, because a tree may be large.
func Spent(ctx context.Context, v convstore.View, id convstore.ID) (s Spending, err error) {
	in := v.Inside(db.Room{})
	err = in.ReadOf(ctx, id, func(t *convstore.Tx) error {
		s = Spending{}
		r, err := in.Within(t, id)
		if err != nil {
			return err
		}
		if s.Conversation, err = in.Conversation(t, id, r); err != nil {
			return err
		}
		if s.Ledger, err = t.LedgerOf(id, r); err != nil {
			return err
		}
		top, err := t.Load(s.Ledger)
		if err != nil {
			return err
		}
		s.Session = top.Turns
		here := map[convstore.ID]bool{id: true}
		if err := t.Below(id, true, t.Entries(), func(child convstore.ID) error {
			here[child] = true
			s.Below = append(s.Below, child)
			return nil
		}); err != nil {
			return err
		}
		all, err := runsOf(t, s.Ledger)
		if err != nil {
			return err
		}
		s.Runs = byCaller(all).below(here)
		if top.Grant != nil { // the owner of the ledger was delegated before it was moved or copied
			if s.earlier, err = runsOf(t, 0); err != nil {
				return err
			}
			s.earlier = slices.DeleteFunc(s.earlier, func(r Run) bool { return r.ledger == s.Ledger || !here[r.Child] })
		}
		byTurn := make(map[turnOf]*Run, len(all))
		byChild := make(map[convstore.ID]*Run, len(all))
		for i := range all {
			byTurn[turnOf{all[i].Child, all[i].Turn}] = &all[i]
			byChild[all[i].Child] = &all[i]
		}
		for _, member := range append([]convstore.ID{id}, s.Below...) {
			profile, from := "", len(s.Charges)
			run := byChild[member]
			if run != nil {
				profile = run.Profile
			}
			if run == nil || run.Ended.IsZero() || member == id { // otherwise it has no open call
				r, err := t.Load(member)
				if err == nil && run == nil {
					profile = r.Profile
				}
				if err == nil {
					s.Charges, err = appendLostCall(t, s.Charges, member, r, profile)
				}
				if err != nil {
					return err
				}
			}
			if s.Charges, err = appendCalls(t, s.Charges, member, profile, time.Time{}); err != nil {
				return err
			}
			for i := range s.Charges[from:] {
				c := &s.Charges[from+i]
				if run := byTurn[turnOf{member, c.Turn}]; run != nil {
					c.Session, c.Profile = run.Session, run.Profile
				} else if member == s.Ledger {
					c.Session = c.Turn
				}
			}
		}
		s.Charges = append(s.Charges, recordedCharges(s.Runs, func(r Run) bool { return here[r.Child] })...)
		return nil
	})
	return s, err
}

// Turn yields what a turn of the conversation used: its own model calls and all runs that it made,
// with what those made in turn. A run in which a person continued a child is none of them.
func (s Spending) Turn(n int) iter.Seq[Charge] {
	return func(yield func(Charge) bool) {
		within := map[turnOf]bool{{s.Conversation.ID, n}: true}
		for _, r := range s.Runs { // a run is behind the one that made its caller
			if within[turnOf{r.Caller, r.From}] && !r.Person {
				within[turnOf{r.Child, r.Turn}] = true
			}
		}
		for _, c := range s.Charges {
			if within[turnOf{c.Conversation, c.Turn}] && !yield(c) {
				return
			}
		}
	}
}

// Ledger returns the conversation that owns the ledger of one, with the errors of Get.
func Ledger(ctx context.Context, v convstore.View, id convstore.ID) (ledger convstore.ID, err error) {
	in := v.Inside(db.Room{})
	err = in.ReadOf(ctx, id, func(t *convstore.Tx) error {
		r, err := in.Within(t, id)
		if err == nil {
			ledger, err = t.LedgerOf(id, r)
		}
		return err
	})
	return ledger, err
}

// turnOf names a turn of a conversation.
type turnOf struct {
	id   convstore.ID
	turn int
}

// runsOf returns the delegations of a ledger; the zero ID means all ledgers.
func runsOf(t *convstore.Tx, ledger convstore.ID) (runs []Run, err error) {
	var prefix []byte
	if ledger != 0 {
		prefix = db.Key(uint64(ledger))
	}
	err = t.Prefixed(db.Delegations, prefix, func(k, v []byte) error {
		r := Run{ledger: convstore.ID(db.Num(k))}
		if err := json.Unmarshal(v, &r); err != nil || len(k) != 16 {
			return t.Damaged("delegation of %s: %w", r.ledger, err)
		}
		runs = append(runs, r)
		return nil
	})
	return runs, err
}

// ledgerRuns are the delegations of a ledger, oldest first, and where in that list those of each
// caller are.
type ledgerRuns struct {
	all []Run
	by  map[convstore.ID][]int
}

func byCaller(all []Run) ledgerRuns {
	by := make(map[convstore.ID][]int)
	for i, r := range all {
		by[r.Caller] = append(by[r.Caller], i)
	}
	return ledgerRuns{all, by}
}

// below returns the runs that were made by one of the conversations or below one, also by removed
// ones, oldest first. Of imported runs, one can come before the run that made its caller.
func (l ledgerRuns) below(here map[convstore.ID]bool) []Run {
	var at []int
	within, todo := maps.Clone(here), slices.Collect(maps.Keys(here))
	for len(todo) > 0 {
		made := l.by[todo[len(todo)-1]]
		todo, at = todo[:len(todo)-1], append(at, made...)
		for _, i := range made {
			if child := l.all[i].Child; !within[child] {
				within[child], todo = true, append(todo, child)
			}
		}
	}
	slices.Sort(at)
	list := make([]Run, len(at))
	for i, n := range at {
		list[i] = l.all[n]
	}
	return list
}

// appendCalls appends the model calls of a conversation that ended at or after since to list.
func appendCalls(t *convstore.Tx, list []Charge, id convstore.ID, profile string, since time.Time) ([]Charge, error) {
	prefix := string(db.Key(uint64(id)))
	cur := t.Bucket(db.Events).Cursor()
	for k, v := cur.Seek(db.PairKey(id, 0)); len(k) == 16 && string(k[:8]) == prefix; k, v = cur.Next() {
		s, err := stored.Parse(v)
		if err != nil {
			return list, t.Damaged("conversation %s: event %d: %w", id, db.Num(k[8:]), err)
		}
		at := time.Unix(0, s.Nano).UTC()
		if s.Kind != stored.KindModelCall || at.Before(since) {
			continue
		}
		var m convstore.ModelCall
		if err := json.Unmarshal(s.Body, &m); err != nil {
			return list, t.Damaged("conversation %s: event %d: %w", id, db.Num(k[8:]), err)
		}
		list = append(list, chargeOf(id, profile, int(s.Turn), at, m))
	}
	return list, nil
}

// appendLostCall appends the open call of a conversation that nobody runs any more to list. No
// event records this call until somebody writes to the conversation again.
func appendLostCall(t *convstore.Tx, list []Charge, id convstore.ID, r *convstore.Record, profile string) ([]Charge, error) {
	e, err := t.LostCall(id, r)
	if e == nil || err != nil {
		return list, err
	}
	return append(list, chargeOf(id, profile, e.Turn, e.Time, e.Body.(convstore.ModelCall))), nil
}

// chargeOf returns the charge for a model call of a conversation.
func chargeOf(id convstore.ID, profile string, turn int, at time.Time, m convstore.ModelCall) Charge {
	return Charge{
		Conversation: id, Profile: profile, Model: m.Model, Turn: turn,
		Time: at, Usage: m.Usage, CostNano: m.CostNano, Took: m.Duration, Lost: m.Stop == convstore.StopLost, Replayed: m.Replayed,
	}
}

// once reports whether a run was not there before: if two ledgers have a record of one run, because
// one was imported, it counts once.
func once() func(Run) bool {
	type run struct {
		turnOf
		caller convstore.ID
		ended  int64
	}
	counted := make(map[run]bool)
	return func(r Run) bool {
		key := run{turnOf{r.Child, r.Turn}, r.Caller, r.Ended.UnixNano()}
		before := counted[key]
		counted[key] = true
		return !before
	}
}

// recordedCharges returns a charge for each run whose model calls are not here any more, once.
func recordedCharges(runs []Run, here func(Run) bool) []Charge {
	var list []Charge
	first := once()
	for _, r := range runs {
		if r.Ended.IsZero() || here(r) || !first(r) {
			continue
		}
		list = append(list, Charge{
			Conversation: r.Child, Profile: r.Profile, Model: r.Model, Turn: r.Turn, Session: r.Session,
			Time: r.Ended, Usage: r.Own.Usage, CostNano: r.Own.Cost(), Recorded: true, Replayed: r.Replayed,
		})
	}
	return list
}

// Difference is a child whose events and ledger disagree about what it used.
type Difference struct {
	Child            convstore.ID
	Events, Recorded convstore.Spend
}

// Differences compares the events of every child in the tree with what the ledger settled for it.
// Children that run now are left out: they are not settled yet.
func (s Spending) Differences() []Difference {
	open := make(map[convstore.ID]bool)
	events, recorded := make(map[convstore.ID]convstore.Spend), make(map[convstore.ID]convstore.Spend)
	for _, c := range s.Charges {
		if !c.Recorded {
			events[c.Conversation] = events[c.Conversation].Add(amount.Of(c.Usage, c.CostNano))
		}
	}
	for _, d := range slices.Concat(s.earlier, s.Runs) {
		if d.Ended.IsZero() {
			open[d.Child] = true
		} else {
			recorded[d.Child] = recorded[d.Child].Add(d.Own)
		}
	}
	var out []Difference
	for _, id := range s.Below {
		if e, r := events[id], recorded[id]; !open[id] && !alike(e.Bounded(), r.Bounded()) {
			out = append(out, Difference{Child: id, Events: e, Recorded: r})
		}
	}
	return out
}

// alike reports whether two sums are equal. If both miss a price, their costs count as equal.
func alike(a, b convstore.Spend) bool {
	unpriced := a.Unpriced > 0
	return a.Usage == b.Usage && unpriced == (b.Unpriced > 0) && (unpriced || a.CostNano == b.CostNano)
}

// chargesTime is the longest time for which Charges keeps the store open at once.
const chargesTime = 5 * time.Millisecond

// Charges yields what all conversations of the store used since a moment: their model calls and,
// for removed ones, the records of their delegations. It yields one conversation after the other,
// without Session. It keeps the store open for a few milliseconds at a time. Before that it calls run,
// if it is not nil, for each delegation that ended since then or has not ended, once.
func Charges(ctx context.Context, s *convstore.Store, since time.Time, run func(Run)) iter.Seq2[Charge, error] {
	in := s.Inside(db.Room{})
	return func(yield func(Charge, error) bool) {
		var todo []convstore.ID
		var gone []Charge
		var runs []Run
		err := in.Read(ctx, func(t *convstore.Tx) error {
			todo, gone = todo[:0], nil
			if err := t.Prefixed(db.Conversations, nil, func(k, _ []byte) error {
				todo = append(todo, convstore.ID(db.Num(k)))
				return nil
			}); err != nil {
				return err
			}
			var err error
			if runs, err = runsOf(t, 0); err != nil {
				return err
			}
			gone = recordedCharges(runs, func(r Run) bool {
				_, there := slices.BinarySearch(todo, r.Child)
				if !there || t.Bucket(db.Imported).Get(db.Key(uint64(r.Child))) == nil {
					return there
				}
				// An export from before the run can have been imported after its child was removed.
				rec, failed := t.Load(r.Child)
				if err = cmp.Or(err, failed); err != nil {
					return true
				}
				last, failed := stored.Parse(t.Bucket(db.Events).Get(db.PairKey(r.Child, cmp.Or(rec.Foreign, rec.LastSeq))))
				return failed == nil && last.Nano >= r.Reserved.UnixNano()
			})
			return err
		})
		first := once()
		for _, r := range runs {
			if run != nil && err == nil && (r.Ended.IsZero() || !r.Ended.Before(since)) && first(r) {
				run(r)
			}
		}
		runs = nil
		for len(todo) > 0 && err == nil {
			var charges []Charge
			done := 0
			err = in.Read(ctx, func(t *convstore.Tx) error {
				charges, done = nil, 0
				for until := time.Now().Add(chargesTime); done < len(todo) && time.Now().Before(until); done++ {
					r, err := t.Load(todo[done])
					if _, ok := errors.AsType[*convstore.NotFoundError](err); ok {
						continue // after the list was made
					}
					if err == nil && !r.UpdatedAt.Before(since) {
						charges, err = appendCalls(t, charges, todo[done], r.Profile, since)
						if err == nil {
							charges, err = appendLostCall(t, charges, todo[done], r, r.Profile)
						}
					}
					if err != nil {
						return err
					}
				}
				return ctx.Err()
			})
			if err != nil {
				break
			}
			todo = todo[done:]
			for _, c := range charges {
				if !yield(c, nil) {
					return
				}
			}
		}
		if err != nil && err != file.ErrAbsent {
			yield(Charge{}, err)
			return
		}
		for _, c := range gone {
			if !c.Time.Before(since) && !yield(c, nil) {
				return
			}
		}
	}
}

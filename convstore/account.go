package convstore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"jp/convstore/amount"
	"jp/convstore/internal/db"
	"jp/convstore/internal/stored"
)

// The numbers of the ledger, see package amount.
type (
	Usage   = amount.Usage
	Spend   = amount.Spend
	Budget  = amount.Budget
	Limits  = amount.Limits
	Terms   = amount.Terms
	Change  = amount.Change
	Choice  = amount.Choice
	Account = amount.Account
)

// opens are the open delegations of a ledger, in order.
type opens []openDelegation

// openDelegation is an open delegation, whose entry is decoded when it is needed: see stored.Open.
type openDelegation struct {
	number uint64
	caller ID
	entry  []byte // stored bytes, valid until the transaction writes
}

// openEntry returns the stored bytes of an open delegation.
func (d Delegation) openEntry() []byte {
	return stored.Open{
		Child: int64(d.Child), Caller: int64(d.Caller), Turn: d.Turn, Session: d.Session, Within: d.Within,
		Tokens: d.Grant.Budget.Tokens, CostNano: d.Grant.Budget.CostNano,
	}.Append(nil)
}

func (t *tx) opens(ledger ID) (open opens, err error) {
	err = t.Prefixed(db.OpenDelegations, ledger.key(), func(k, v []byte) error {
		number := db.Num(k[8:])
		if !stored.IsOpen(v) {
			return t.Damaged("open delegation %d of %s: malformed entry", number, ledger)
		}
		open = append(open, openDelegation{number: number, caller: idAt(v, 8), entry: v})
		return nil
	})
	return open, err
}

// entered returns an open delegation, with only the fields that are in its entry.
func (t *tx) entered(ledger ID, o openDelegation) (Delegation, error) {
	e, whole := stored.ParseOpen(o.entry)
	if !whole {
		return t.delegation(ledger, o.number)
	}
	return Delegation{
		Root: ledger, Number: o.number, Child: ID(e.Child), Caller: o.caller, Turn: e.Turn, Session: e.Session, Within: e.Within,
		Grant: Grant{Budget: Budget{Tokens: e.Tokens, CostNano: e.CostNano}},
	}, nil
}

// used is Standing.Used.
func (t *tx) used(ledger, caller ID, prefix string) (tokens int64, err error) {
	of := map[uint64]bool{} // numbers of the delegations
	if err := t.Prefixed(db.Calls, db.TextKey(caller, prefix), func(_, v []byte) error {
		d, err := t.delegation(idAt(v, 0), db.Num(v[8:]))
		if of[d.Number] = true; d.State != "" {
			tokens = amount.Sum(tokens, d.Total.Tokens())
		}
		return err
	}); err != nil {
		return 0, err
	}
	open, err := t.opens(ledger)
	if err != nil {
		return 0, err
	}
	granted, err := t.grantedBy(open, ledger, caller, func(at Delegation, _ int) bool { return of[at.Number] })
	if n := granted.Tokens; n != nil {
		tokens = amount.Sum(tokens, *n)
	}
	return tokens, err
}

func (o opens) has(number uint64) bool {
	_, ok := slices.BinarySearchFunc(o, number, func(at openDelegation, n uint64) int { return cmp.Compare(at.number, n) })
	return ok
}

// grantedBy adds up what is reserved in the account of id: the grants of the open delegations that
// belong to it. A delegation within another open one is left out, since the grant of that one
// covers it. A delegation belongs to the account if belongs says so of it or of a settled
// delegation above it: a delegation can outlive the one that it was made in.
func (t *tx) grantedBy(open opens, ledger, id ID, belongs func(at Delegation, session int) bool) (Budget, error) {
	var zero Spend
	sum := zero.Budget()
	for _, o := range open {
		if o.caller == ledger && id != ledger {
			continue // the root made it: no other delegation is above it
		}
		d, err := t.entered(ledger, o)
		if err != nil {
			return sum, err
		}
		for at := d; ; {
			if belongs(at, d.Session) {
				sum = sum.Plus(d.Grant.Budget)
				break
			}
			if at.Within == 0 || open.has(at.Within) {
				break
			}
			if at, err = t.delegation(at.Root, at.Within); err != nil {
				return sum, err
			}
		}
	}
	return sum, nil
}

// account returns the account of a conversation. When the run of a conversation has ended, what it
// had left went back to its caller. From then on the caller's account bounds it too, until its next
// run has begun.
func (t *tx) account(id ID, r *record) (Account, error) {
	ledger, err := t.LedgerOf(id, r)
	if err != nil {
		return Account{}, err
	}
	open, err := t.opens(ledger)
	if err != nil {
		return Account{}, err
	}
	root := r
	if ledger != id {
		if root, err = t.Load(ledger); err != nil {
			return Account{}, err
		}
	}
	a, err := t.accountAlone(id, r, ledger, open)
	if err != nil {
		return a, err
	}
	a.Limits = root.Limits.Clone()
	for at, rec := id, r; at != ledger && (rec.Run == nil || at != id && rec.Run.Turns == rec.Turns); {
		parent, err := t.Load(rec.Parent)
		if err != nil {
			return a, err
		}
		at, rec = rec.Parent, parent
		up, err := t.accountAlone(at, rec, ledger, open)
		if err != nil {
			return a, err
		}
		a.Left, a.Free = a.Left.Min(up.Free), a.Free.Min(up.Free)
	}
	return a, nil
}

// accountAlone is account without the bounds of the conversations above.
func (t *tx) accountAlone(id ID, r *record, ledger ID, open opens) (Account, error) {
	a := Account{Below: r.Below}
	if c := r.Call; c != nil {
		a.Call = amount.Of(c.Usage, c.CostNano)
	}
	belongs := func(at Delegation, _ int) bool { return at.Caller == id && at.Turn == r.Turns }
	if id == ledger {
		if l := r.Limits.Clone(); l != nil {
			a.Limit, a.Subs = l.Run, l.Budget
		}
		a.Own = r.spend().Sub(r.Since)
		belongs = func(at Delegation, session int) bool { return at.Within == 0 && session == r.Turns }
	} else {
		if r.Grant != nil {
			a.Limit = r.Grant.Budget.Clone()
		}
		if run := r.run(); run != nil {
			a.Own = r.spend().Sub(run.Before)
		}
		if r.Run != nil && r.Run.Turns == r.Turns && !r.TurnOpen { // the last turn is not of this run
			a.Below, belongs = Spend{}, func(Delegation, int) bool { return false }
		}
	}
	var err error
	if a.Open, err = t.grantedBy(open, ledger, id, belongs); err != nil {
		return a, err
	}
	a.ComputeLeft()
	return a, nil
}

// charge adds what a delegation used to the account of its caller. If the caller's own delegation
// has ended already, charge adds it to the account above that one too, and so on. What reaches the
// root counts in the session in which it was reserved.
func (t *tx) charge(d Delegation, s Spend) error {
	session := d.Session
	for {
		top := d.Within == 0
		id, turn := d.Caller, d.Turn
		if top {
			id, turn = d.Root, session
		}
		r, err := t.Load(id)
		switch {
		case errors.As(err, new(*NotFoundError)): // removed since
		case err != nil:
			return err
		case r.Turns == turn && d.Number > r.After:
			r.Below = r.Below.Add(s)
			if err := t.Save(id, r); err != nil {
				return err
			}
		}
		if top {
			return nil
		}
		up, err := t.delegation(d.Root, d.Within)
		if err != nil {
			return err
		}
		if up.State == "" {
			return nil // settling that one carries it further up
		}
		up.Total = up.Total.Add(s)
		if err := t.SaveDelegation(up); err != nil {
			return err
		}
		d = up
	}
}

// Account returns the present account of a conversation in view.
func (v View) Account(ctx context.Context, id ID) (Account, error) {
	return of(ctx, v, id, func(t *tx, r *record) (Account, error) { return t.account(id, r) })
}

// Under returns the scope of a person who delegates on behalf of a conversation that they do not
// run. Its Reserve applies their terms to the limits of the session, in the same transaction.
func (s Scope) Under(terms Terms) Scope {
	s.terms = &terms
	return s
}

// agree applies the terms of a scope to the limits of the ledger's session. Those of an open turn
// only become lower, and none changes while anything is at work within them.
func (s Scope) agree(t *tx, ledger ID) error {
	r, err := t.Load(ledger)
	if err != nil || s.terms == nil {
		return err
	}
	was, now := r.Limits, s.terms.Over(r.Limits)
	if was != nil {
		if now.Is(*was) {
			return nil
		}
		if by, err := t.workFor(ledger); err != nil {
			return err
		} else if by != 0 || r.TurnOpen && !was.Narrow(now).Is(now) {
			return &LimitsError{ID: ledger, By: by}
		}
	}
	r.Limits = &now
	return t.Save(ledger, r)
}

// workFor returns a conversation of the ledger that is run, or that a process stands for; 0 = none.
func (t *tx) workFor(ledger ID) (ID, error) {
	held, err := t.F.HeldRuns()
	for _, number := range held {
		id := worksFor(number)
		r, err := t.Load(id)
		if errors.As(err, new(*NotFoundError)) { // a claim, or an import
			continue
		} else if err != nil {
			return 0, err
		}
		if of, err := t.LedgerOf(id, r); of == ledger || err != nil {
			return id, err
		}
	}
	return 0, err
}

// Call is a call of a model that is about to be made, with the most that it may use.
type Call struct {
	Model    string `json:"model"`
	Usage    Usage  `json:"usage"`
	CostNano *int64 `json:"cost_nano"` // nil = price unknown
	Replayed bool   `json:"replayed,omitzero"`
}

// StopLost is the Stop of a ModelCall whose process died before the call ended.
const StopLost = "lost"

// Begin appends events, as Append does, and records in the same transaction that a model is about
// to be called. It calls bound with the account. The call that bound returns must fit into what is
// left there. If bound returns nil, no call is recorded, and the caller must make none. Bound can
// be called more than once: the last call counts.
//
// The recorded call is open until a ModelCall is appended or the turn ends. If the process ends
// before that, the call is charged in full.
//
// In a conversation with a grant, Begin fails while no delegation runs it: nobody would be charged.
func (l *Log) Begin(ctx context.Context, bound func(Account) *Call, events ...Event) error {
	return l.append(ctx, events, func(t *tx, r *record) error {
		if r.Link == DelegationLink && r.Grant != nil && r.Run == nil {
			return fmt.Errorf("conversation %s: no delegation runs it, so nobody would be charged for a call of a model", l.id)
		}
		r.Call = nil // an earlier call of this process, which was never made
		a, err := t.account(l.id, r)
		if err != nil {
			return err
		}
		if r.Call = bound(a); r.Call != nil && l.calling.CompareAndSwap(false, true) {
			t.Undo(func() { l.calling.Store(false) })
		}
		return t.Save(l.id, r)
	})
}

// Limit narrows the limits of the open turn. They were fixed by its TurnStart, and nothing raises
// them before its end. In a delegated conversation Limit does nothing.
func (l *Log) Limit(ctx context.Context, limits Limits) error {
	return l.write(ctx, func(t *tx, r *record) error {
		if r.Link == DelegationLink {
			return db.ErrUnchanged
		}
		r.Limits = r.Limits.Narrow(limits)
		return t.Save(l.id, r)
	})
}

// chargeLostCall charges a call that was begun and never ended. It appends an event, because the
// events say what was used.
func (t *tx) chargeLostCall(id ID, r *record) error {
	if r.Call == nil {
		return nil
	}
	return t.noteEvent(id, r, t.lostCallEvent(id, r))
}

// LostCall returns the event of an open call whose process died, before it is stored; nil if there
// is none. Whoever adds up what a conversation used counts it beside the stored events.
func (t *tx) LostCall(id ID, r *record) (*Event, error) {
	if r.Call == nil {
		return nil, nil
	}
	held, err := t.Held(id)
	if held || err != nil {
		return nil, err
	}
	e := t.lostCallEvent(id, r)
	e.Seq, e.Turn = r.LastSeq+1, r.Turns
	return &e, nil
}

// lostCallEvent returns that event. It is always the same event, whenever it is called: an export
// can contain it before it is stored, and must then equal the stored one. Its ID is new in the
// conversation, even if an import brought an event with an ID of this form.
func (t *tx) lostCallEvent(id ID, r *record) Event {
	name := fmt.Sprintf("lost-%d", r.LastSeq+1)
	for n := 2; t.Bucket(db.EventIDs).Get(db.TextKey(id, name)) != nil; n++ {
		name = fmt.Sprintf("lost-%d-%d", r.LastSeq+1, n)
	}
	return Event{ID: name, Time: r.UpdatedAt, Body: ModelCall{
		Model: r.Call.Model, Usage: r.Call.Usage, CostNano: r.Call.CostNano, Stop: StopLost, Estimated: true, Replayed: r.Call.Replayed,
	}}
}

// noteEvent appends an event that the store makes itself.
func (t *tx) noteEvent(id ID, r *record, ev Event) error {
	s, err := EncodeEvent(ev)
	if err != nil {
		return err
	}
	_, err = t.Append(id, r, &s, ev.Body)
	return err
}

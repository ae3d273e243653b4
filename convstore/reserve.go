package convstore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	"jp/convstore/internal/db"
)

// Scope is the View of an agent: the strict descendants of its conversation by delegation links.
// Who has a Scope may delegate on behalf of that conversation.
type Scope struct {
	View
	as    runner // conversation that this process runs, or none
	terms *Terms // see Under; nil = none
}

// runner is a conversation whose run lock this process holds. The zero runner is none.
type runner struct {
	id       ID
	reserved bool // the lock came with a reservation: this process runs that delegation
}

// Caller returns the conversation whose scope this is. It is not in view itself.
func (s Scope) Caller() ID { return s.root }

// Slots returns the n slots of the tree whose ledger root owns; n is brought into 1 to MaxSlots.
// All processes share the slots of a root. If they use different n, they share the lower number of
// slots.
func (s Scope) Slots(root ID, n int) *Slots {
	return s.f.Slots(int64(root), n)
}

// Reserve decides about delegations and reserves what they may use, in one transaction. It calls
// admit with the present Standing. For each child that admit returns it makes or continues a
// conversation, writes its grant, takes its run lock, and records the open delegation. All of that
// happens, or nothing.
//
// If admit fails, Reserve changes nothing and returns the same error. If a child runs already, it
// fails with a *BusyError; if a child is not a strict descendant, with a *ScopeError or a
// *NotFoundError. A call that was made before, even by an earlier child of the same list, reserves
// nothing: its reservation has Existed set. But if its child had not begun before a crash, the
// delegation is reserved again: in the child that was made for it, or in another one if a person asks
// something there. Admit must use the store only through the Standing, and can be called more than
// once: the last call counts.
//
// Before that, Reserve settles the delegations of the ledger whose processes have ended: with the
// state that the child stored at the end of its turn, or as lost. It fails with a *LimitsError if
// the terms of the scope may not be applied; see Under.
func (s Scope) Reserve(ctx context.Context, admit func(Standing) ([]Child, error)) (rs []*Reservation, err error) {
	err = s.f.write(ctx, func(t *tx) error {
		rs = nil
		caller, err := t.loadWhole(s.root)
		if err != nil {
			return err
		}
		ledger, err := t.LedgerOf(s.root, caller)
		if err != nil {
			return err
		}
		if err := t.reconcile(ledger, s.as); err != nil {
			return err
		}
		if err := s.agree(t, ledger); err != nil {
			return err
		}
		if caller, err = t.Load(s.root); err != nil { // both may have touched it
			return err
		}
		standing, session, err := s.standing(t, caller, ledger)
		if err != nil {
			return err
		}
		children, err := admit(standing)
		if err != nil {
			return err
		}
		for _, child := range children {
			r := new(Reservation)
			rs = append(rs, r)
			if err := s.reserve(t, r, caller, ledger, session, child); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return nil, absent(s.settleAway(ctx, err), s.root)
	}
	return rs, nil
}

// LedgerOf returns the conversation that owns the ledger: the topmost ancestor by delegation links.
func (t *tx) LedgerOf(id ID, r *record) (ID, error) {
	var err error
	link := r.Link
	for at, up := range t.Ancestors(id, r, &err) {
		if link != DelegationLink {
			break
		}
		id, link = at, up.Link
	}
	return id, err
}

// standing returns the Standing for a decision, and the number of the root's present turn.
func (s Scope) standing(t *tx, caller *record, ledger ID) (Standing, int, error) {
	var st Standing
	var err error
	if st.Caller, err = t.conversation(s.root, caller); err != nil {
		return st, 0, err
	}
	root := caller
	link := caller.Link
	for at, up := range t.Ancestors(s.root, caller, &err) {
		if link != DelegationLink {
			break
		}
		c, err := t.conversation(at, up)
		if err != nil {
			return st, 0, err
		}
		st.Ancestors = append(st.Ancestors, c)
		root, link = up, up.Link
	}
	if err != nil {
		return st, 0, err
	}
	of := *caller
	if of.Run != nil && of.Run.Turns == of.Turns { // it runs the next turn, and what is made now is not of that
		of.leave()
	}
	if st.Account, err = t.account(s.root, &of); err != nil {
		return st, 0, err
	}
	made, err := t.tallied(s.root, caller)
	if err != nil {
		return st, 0, err
	}
	st.Calls = made.Calls
	if made, err = t.tallied(ledger, root); err != nil {
		return st, 0, err
	}
	st.Children = made.Forked
	st.Lookup = func(id ID) (Conversation, error) {
		r, err := s.within(t, id)
		if err != nil {
			return Conversation{}, err
		}
		return t.conversation(id, r)
	}
	st.Existing = func(call string) (Delegation, bool) {
		d, ok, err := t.delegationOfCall(s.root, call)
		return d, ok && err == nil
	}
	st.Used = func(prefix string) (int64, error) { return t.used(ledger, s.root, prefix) }
	st.Config = func(id ID) (Config, error) {
		if _, err := s.within(t, id); err != nil {
			return Config{}, err
		}
		return t.Config(id)
	}
	st.Answer = func(v View, d Digest, of ID) (Answer, bool, error) { return v.answer(t, d, of) }
	st.Labelled = func(key, value string) ([]Conversation, error) { return s.labelled(t, key, value) }
	return st, root.Turns, nil
}

// labelled returns the caller's delegated children with a label. It decodes only their records: a
// caller may have ten thousand other children.
func (s Scope) labelled(t *tx, key, value string) (cs []Conversation, err error) {
	at, want := t.Entries(), map[string]string{key: value}
	err = t.children(s.root, func(id ID, l Link) error {
		if l != DelegationLink {
			return nil
		}
		e, err := at.at(id)
		if err != nil || !e.hasLabels(want) {
			return err
		}
		r, err := t.Load(id)
		if err != nil {
			return err
		}
		if label, ok := r.Labels[key]; !ok || label != value {
			return nil
		}
		c, err := t.conversation(id, r)
		cs = append(cs, c)
		return err
	})
	return cs, err
}

// reserve reserves one admitted delegation.
func (s Scope) reserve(t *tx, r *Reservation, caller *record, ledger ID, session int, c Child) error {
	if c.Call == "" || len(c.Call) > MaxCall {
		return fmt.Errorf("delegation: call %.40q: want an id of 1 to %d bytes", c.Call, MaxCall)
	}
	d, made, err := t.delegationOfCall(s.root, c.Call)
	if err != nil {
		return err
	}
	if made && !d.Unstarted {
		return t.existed(r, d)
	}
	fresh := c.ID == 0
	if made {
		// The child is used again, unless somebody moved or removed it, or uses one that the call made.
		child, err := s.within(t, d.Child)
		if held, lockErr := t.Held(d.Child); lockErr != nil {
			return lockErr
		} else if err == nil && !(d.Fresh && (held || child.Turns > 0 || t.away(d.Child, child) != nil)) {
			c.ID, fresh = d.Child, d.Fresh
		}
		if err := t.Drop(db.Delegations, db.PairKey(d.Root, d.Number)); err != nil {
			return err
		}
	}
	number, err := t.NextNumber(db.Delegations, ledger.key()) // behind the run that it is within
	if err != nil {
		return err
	}
	id, rec, err := s.child(t, r, caller, c)
	if err != nil {
		return err
	}
	d = Delegation{
		ID: DelegationID(number), Number: number,
		Root: ledger, Caller: s.root, Child: id, Call: c.Call, Kind: c.Kind,
		Profile: rec.Profile, ProfileHash: rec.ProfileHash, Model: cmp.Or(c.Model, rec.Model),
		Depth: rec.Depth, Grant: c.Grant.clone(),
		Turn: caller.Turns, Session: session, ChildTurn: rec.Turns + 1, Fresh: fresh, Reserved: t.Now.UTC(),
		ToolsAllowed: len(c.Grant.Tools), ToolsTotal: c.ToolsTotal, ToolsDenied: c.ToolsDenied,
		Replayed: c.Replayed, Person: c.Person, Within: caller.within(ledger),
	}
	if rec.Asked = nil; !c.Replayed {
		rec.Asked = c.Asked.asked()
	}
	rec.Run = &openRun{Root: ledger, Number: number, Turns: rec.Turns, Before: rec.rebase(), Expire: c.Expire, Grant: rec.Grant}
	rec.Grant = new(c.Grant.clone())
	if err := t.Save(id, rec); err != nil {
		return err
	}
	if err := t.tally(d, 1); err != nil {
		return err
	}
	if err := t.SaveDelegation(d); err != nil {
		return err
	}
	if err := t.Put(db.OpenDelegations, db.PairKey(d.Root, number), d.openEntry()); err != nil {
		return err
	}
	call := append(db.PairKey(d.Root, number), db.TurnKey(ID(0), d.Turn)[8:]...)
	if err := t.Put(db.Calls, db.TextKey(s.root, c.Call), call); err != nil {
		return err
	}
	r.Delegation = d
	r.Child, err = t.conversation(id, rec)
	return err
}

// existed fills in the reservation of a call that was made before.
func (t *tx) existed(r *Reservation, d Delegation) error {
	r.Delegation, r.Existed = d, true
	r.Child = Conversation{ID: d.Child}
	rec, err := t.Load(d.Child)
	if _, ok := errors.AsType[*NotFoundError](err); ok {
		return nil
	}
	if err == nil {
		r.Child, err = t.conversation(d.Child, rec)
	}
	return err
}

// child makes the child of an admitted delegation, or prepares an existing one to continue, and
// takes its run lock. The caller saves the record.
func (s Scope) child(t *tx, r *Reservation, caller *record, c Child) (ID, *record, error) {
	if c.ID != 0 {
		rec, err := s.within(t, c.ID)
		if err != nil {
			return 0, nil, err
		}
		if err := r.take(t, c.ID); err != nil {
			return 0, nil, err
		}
		if rec, err = t.takeOver(c.ID, rec); err != nil {
			return 0, nil, err
		}
		if err := t.away(c.ID, rec); err != nil {
			return 0, nil, err
		}
		return c.ID, rec, t.putOff(c.ID, rec, c.Expire)
	}
	rec := &record{
		Parent: s.root, Link: DelegationLink, Depth: caller.Depth + 1,
		Title: c.Title, Hidden: c.Hidden, Labels: maps.Clone(c.Labels),
		Profile: c.Profile, ProfileArg: c.ProfileArg, ProfileHash: c.ProfileHash,
		Model: c.Model, Role: c.Role,
	}
	var err error
	if rec.ExpiresAt, err = t.expiry(s.root, c.Expire); err != nil {
		return 0, nil, err
	}
	id, err := t.insert(rec, c.Config)
	if err == nil {
		err = r.take(t, id)
	}
	return id, rec, err
}

// take takes the run lock of the child.
func (r *Reservation) take(t *tx, id ID) (err error) {
	r.lock, err = t.TakeRun(int64(id))
	return err
}

// putOff puts off the expiry of a child of a conversation to a time after now. One that never
// expires stays so.
func (t *tx) putOff(id ID, rec *record, after time.Duration) error {
	at, err := t.expiry(rec.Parent, after)
	if err != nil || rec.ExpiresAt.IsZero() || !at.After(rec.ExpiresAt) {
		return err
	}
	err = t.Expires(id, rec.ExpiresAt, at)
	rec.ExpiresAt = at
	return err
}

// expiry returns when a child of a conversation expires that does so after a time; zero = not by
// itself: with 0, or where one above it expires before, and would have to stay for it.
func (t *tx) expiry(parent ID, after time.Duration) (time.Time, error) {
	at := t.Now.Add(after).UTC()
	for id := parent; id != 0 && after > 0; {
		r, err := t.Load(id)
		if err != nil {
			return time.Time{}, err
		}
		if !r.ExpiresAt.IsZero() && r.ExpiresAt.Before(at) {
			return time.Time{}, nil
		}
		id = r.Parent
	}
	if after <= 0 {
		at = time.Time{}
	}
	return at, nil
}

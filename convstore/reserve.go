package convstore

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"jp/convstore/internal/db"
	"jp/convstore/internal/file"
	"jp/tools/jsondoc"
)

// Scope is the View of an agent: the strict descendants of its conversation by delegation links.
// Who has a Scope may delegate on behalf of that conversation.
type Scope struct {
	View
	as runner // conversation that this process runs, or none
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

const (
	reasonLost      = "the processes that ran it ended without settling it"
	reasonUnstarted = "the processes that were to run it ended before it began"
)

// Reserve decides about delegations and reserves what they may use, in one transaction. It calls
// admit with the present Standing. For each child that admit returns it makes or continues a
// conversation, writes its grant, takes its run lock, and records the open delegation. All of that
// happens, or nothing.
//
// If admit fails, Reserve changes nothing and returns the same error. If a child runs already, it
// fails with a *BusyError; if a child is not a strict descendant, with a *ScopeError or a
// *NotFoundError. A call that was made before, even by an earlier child of the same list, reserves
// nothing: its reservation has Existed set. But if its child had not begun before a crash, the
// delegation is reserved again. Admit must use the store only through the Standing, and can be called
// more than once: the last call counts.
//
// Before that, Reserve settles the delegations of the ledger whose processes have ended: with the
// state that the child stored at the end of its turn, or as lost.
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
		if caller, err = t.Load(s.root); err != nil { // settling may have touched it
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
	if st.Account, err = t.account(s.root, caller); err != nil {
		return st, 0, err
	}
	of, err := t.tallied(s.root, caller)
	if err != nil {
		return st, 0, err
	}
	st.Calls = of.Calls
	if of, err = t.tallied(ledger, root); err != nil {
		return st, 0, err
	}
	st.Children = of.Forked
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
	number, fresh := d.Number, c.ID == 0
	if made {
		// The child is used again, unless somebody moved or removed it.
		child, err := s.within(t, d.Child)
		if held, lockErr := t.Held(d.Child); err == nil && (held || lockErr != nil) {
			return cmp.Or(lockErr, t.existed(r, d))
		}
		if err == nil && !(d.Fresh && t.away(d.Child, child) != nil) {
			c.ID, fresh = d.Child, d.Fresh
		}
	} else if number, err = t.NextNumber(db.Delegations); err != nil {
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
		Replayed: c.Replayed, Person: c.Person,
	}
	if run := caller.run(); run != nil && run.Root == ledger {
		d.Within = run.Number
	}
	if rec.Asked = nil; !c.Replayed {
		rec.Asked = c.Asked.asked()
	}
	rec.Run = &openRun{Root: ledger, Number: number, Turns: rec.Turns, Before: rec.rebase(), Expire: c.Expire}
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
	var gone *NotFoundError
	if errors.As(err, &gone) {
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
	grant := c.Grant.clone()
	if c.ID != 0 {
		rec, err := s.within(t, c.ID)
		if err != nil {
			return 0, nil, err
		}
		if r.lock, err = t.TakeRun(int64(c.ID)); err != nil {
			return 0, nil, err
		}
		if rec, err = t.takeOver(c.ID, rec); err != nil {
			return 0, nil, err
		}
		if err := t.away(c.ID, rec); err != nil {
			return 0, nil, err
		}
		rec.Grant = &grant
		if err := t.putOff(c.ID, rec, c.Expire); err != nil {
			return 0, nil, err
		}
		if c.Config.JSON != nil {
			if err := t.SaveConfig(c.ID, c.Config); err != nil {
				return 0, nil, err
			}
			rec.Profile = cmp.Or(c.Profile, rec.Profile)
			rec.ProfileArg = cmp.Or(c.ProfileArg, rec.ProfileArg)
			rec.ProfileHash = cmp.Or(c.ProfileHash, rec.ProfileHash)
			rec.Model = cmp.Or(c.Model, rec.Model)
		}
		return c.ID, rec, nil
	}
	rec := &record{
		Parent: s.root, Link: DelegationLink, Depth: caller.Depth + 1,
		Title: c.Title, Hidden: c.Hidden, Labels: maps.Clone(c.Labels),
		Profile: c.Profile, ProfileArg: c.ProfileArg, ProfileHash: c.ProfileHash,
		Model: c.Model, Role: c.Role, Grant: &grant,
	}
	var err error
	if rec.ExpiresAt, err = t.expiry(s.root, c.Expire); err != nil {
		return 0, nil, err
	}
	id, err := t.insert(rec, c.Config)
	if err == nil {
		r.lock, err = t.TakeRun(int64(id))
	}
	return id, rec, err
}

// putOff puts off the expiry of a child of a conversation to a time after now. One that never expires
// stays so.
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

// Settle records how a delegation ended, and then frees the child's run lock. The last process of
// the delegation must have ended. What it used is charged to the caller; the rest of its grant is
// free again. If the child left its turn open, Settle ends the turn with the same state. If it left
// a model call open, that is charged in full.
//
// Only the first settlement counts: a second one changes nothing and returns the first. If Settle
// fails, the lock is still held and the call can be repeated.
func (s Scope) Settle(ctx context.Context, r *Reservation, o Outcome) (settled Delegation, err error) {
	if !o.State.Terminal() {
		return Delegation{}, fmt.Errorf("delegation %s: %q is not a terminal state", r.Delegation.ID, o.State)
	}
	ctx, stop := file.Outlast(ctx, s.f.Deadline)
	defer stop()
	err = s.f.patiently().write(ctx, func(t *tx) error {
		d, err := t.delegation(r.Delegation.Root, r.Delegation.Number)
		if err != nil {
			return err
		}
		if d.State != "" {
			settled = d
			return db.ErrUnchanged
		}
		// Delegations that the child left open count in its total. We still hold the child's run
		// lock, and its processes have ended.
		if err := t.reconcileBut(d.Root, runner{id: d.Child}, d.Number); err != nil {
			return err
		}
		settled, err = t.settle(d, o)
		return err
	})
	if err != nil {
		return Delegation{}, err
	}
	return settled, r.drop()
}

// settle ends a delegation.
func (t *tx) settle(d Delegation, o Outcome) (Delegation, error) {
	d.State, d.Reason, d.PID, d.Started = o.State, o.Reason, o.PID, o.Started.UTC().Round(0)
	d.Ended = o.Ended.UTC().Round(0)
	if d.Ended.IsZero() {
		d.Ended = t.Now.UTC()
	}
	d.Unstarted = o.unstarted
	var err error
	if d.Own, d.Total, err = t.endRun(d, o.Hold); err != nil {
		return d, err
	}
	if d.Unstarted {
		if err := t.tally(d, -1); err != nil {
			return d, err
		}
	}
	if err := t.SaveDelegation(d); err != nil {
		return d, err
	}
	if err := t.Drop(db.OpenDelegations, db.PairKey(d.Root, d.Number)); err != nil {
		return d, err
	}
	return d, t.charge(d, d.Total)
}

// endRun ends the run of a delegation in the record of its child. It returns what the child itself
// used and what it used with all below it: zero if the child was removed.
func (t *tx) endRun(d Delegation, hold time.Duration) (own, total Spend, err error) {
	rec, err := t.Load(d.Child)
	var gone *NotFoundError
	switch {
	case errors.As(err, &gone):
		return own, total, nil
	case err != nil:
		return own, total, err
	case !rec.runs(d):
		return own, total, nil
	}
	if err := t.chargeLostCall(d.Child, rec); err != nil {
		return own, total, err
	}
	own = rec.spend().sub(rec.Run.Before)
	total = own
	begun := rec.Turns > rec.Run.Turns
	if begun {
		total = own.Add(rec.Below)
	}
	if err := t.putOff(d.Child, rec, rec.Run.Expire); err != nil {
		return own, total, err
	}
	rec.closeRun()
	if rec.Until = (time.Time{}); hold > 0 {
		rec.Until = t.Now.UTC().Add(hold)
	}
	// The conversation must show the same end as its delegation, even if the child could not store
	// the end of its turn or never began one.
	switch {
	case rec.TurnOpen:
		reason := d.Reason
		if d.Unstarted { // an earlier run began the turn
			reason = reasonLost
		}
		if err := t.note(d.Child, rec, TurnEnd{State: d.State, Reason: reason}); err != nil {
			return own, total, err
		}
	case !begun && d.State != StateOK && d.State != StateEmpty: // otherwise it was only made, to be used later, and is still new
		rec.RunState, rec.RunReason = d.State, d.Reason
	}
	if !begun || d.State != StateOK || rec.State != StateOK {
		rec.Asked = nil
	}
	if err := t.saveAnswer(d.Child, rec); err != nil {
		return own, total, err
	}
	return own, total, t.Save(d.Child, rec)
}

// reconcile settles the open delegations of a ledger that nobody else can settle any more. Self is
// the conversation that this process runs.
func (t *tx) reconcile(ledger ID, self runner) error { return t.reconcileBut(ledger, self, 0) }

// reconcileBut is reconcile without one delegation.
func (t *tx) reconcileBut(ledger ID, self runner, but uint64) error {
	var lost []uint64
	if err := t.Prefixed(db.OpenDelegations, ledger.key(), func(k, v []byte) error {
		abandoned, err := t.abandoned(idAt(v, 0), idAt(v, 8), self)
		if number := db.Num(k[8:]); abandoned && number != but {
			lost = append(lost, number)
		}
		return err
	}); err != nil {
		return err
	}
	for _, number := range slices.Backward(lost) { // the deepest first
		d, err := t.delegation(ledger, number)
		if err != nil {
			return err
		}
		o, err := t.outcomeOf(d)
		if err != nil {
			return err
		}
		if _, err := t.settle(d, o); err != nil {
			return err
		}
	}
	return nil
}

// outcomeOf returns how a delegation ended that nobody settled: with the state of its turn if the
// child stored the end of it, and lost otherwise.
func (t *tx) outcomeOf(d Delegation) (Outcome, error) {
	lost := Outcome{State: StateLost, Reason: reasonLost, Hold: d.Lease}
	rec, err := t.Load(d.Child)
	var gone *NotFoundError
	switch {
	case errors.As(err, &gone):
		return lost, nil
	case err != nil:
		return lost, err
	case !rec.runs(d):
		return lost, nil
	case !rec.begun():
		lost.Reason, lost.unstarted = reasonUnstarted, true
		return lost, nil
	case rec.Turns <= rec.Run.Turns || rec.TurnOpen || !rec.State.Terminal():
		return lost, nil
	}
	return Outcome{State: rec.State, Reason: rec.Reason, Hold: d.Lease}, nil
}

// abandoned reports whether no process is left that could settle an open delegation: the run locks
// of the child and of the caller are both free.
//
// The lock that this process holds for self does not count. If self is the caller, only the child's
// lock must be free, because a live reservation of the caller holds that one. If self is the child,
// it matters how it got its lock: if the lock came with a reservation, this is the run that was
// reserved, and the delegation is not abandoned; if it took the lock itself, it is another run.
func (t *tx) abandoned(child, caller ID, self runner) (bool, error) {
	if child == self.id && self.reserved {
		return false, nil
	}
	for _, id := range []ID{child, caller} {
		if id == self.id {
			continue
		}
		if held, err := t.Held(id); held || err != nil {
			return false, err
		}
	}
	return true, nil
}

// MaxCall is the length in bytes of the longest id of a tool call.
const MaxCall = 1024

// A delegation is stored as JSON under its root and number.

// DelegationID returns the public id of a delegation.
func DelegationID(number uint64) string { return "jp-d" + strconv.FormatUint(number, 10) }

// SaveDelegation stores a delegation under its Root and Number.
func (t *tx) SaveDelegation(d Delegation) error {
	v, err := jsondoc.Encode(d)
	if err != nil {
		return fmt.Errorf("delegation %s: %w", d.ID, err)
	}
	return t.Put(db.Delegations, db.PairKey(d.Root, d.Number), v)
}

func (t *tx) parseDelegation(k, v []byte) (Delegation, error) {
	var d Delegation
	if err := json.Unmarshal(v, &d); err != nil || len(k) != 16 {
		return d, t.Damaged("delegation of %s: %w", idAt(k, 0), err)
	}
	d.Number = db.Num(k[8:])
	return d, nil
}

func (t *tx) delegation(root ID, number uint64) (Delegation, error) {
	k := db.PairKey(root, number)
	v := t.Bucket(db.Delegations).Get(k)
	if v == nil {
		return Delegation{}, &NotFoundError{ID: root, What: "delegation " + strconv.FormatUint(number, 10)}
	}
	return t.parseDelegation(k, v)
}

func (t *tx) delegationOfCall(caller ID, call string) (Delegation, bool, error) {
	if len(call) > MaxCall {
		return Delegation{}, false, nil
	}
	v := t.Bucket(db.Calls).Get(db.TextKey(caller, call))
	if v == nil {
		return Delegation{}, false, nil
	}
	d, err := t.delegation(idAt(v, 0), db.Num(v[8:]))
	return d, err == nil, err
}

// Delegations returns the delegations of a ledger, oldest first.
func (t *tx) Delegations(root ID) (ds []Delegation, err error) {
	err = t.Prefixed(db.Delegations, root.key(), func(k, v []byte) error {
		d, err := t.parseDelegation(k, v)
		ds = append(ds, d)
		return err
	})
	return ds, err
}

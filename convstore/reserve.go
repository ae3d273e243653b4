package convstore

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"

	"jp/convstore/internal/db"
	"jp/convstore/internal/file"
	"jp/tools/jsondoc"
)

// Scope is the View that an agent has: the strict descendants of its conversation by delegation
// links. It is also the authority to delegate on that conversation's behalf.
type Scope struct {
	View
	as runner // what this process runs: the conversation, or nothing
}

// runner is a conversation whose run lock this process holds. The zero runner is none.
type runner struct {
	id        ID
	inherited bool // the lock came with a reservation: it is the run of that delegation
}

// Caller returns the conversation whose scope this is. It is not in view itself.
func (s Scope) Caller() ID { return s.root }

// Slots returns the slots of the tree whose ledger root owns: n of them, which is brought into 1 to
// MaxSlots. All that ask with one root share them; where they disagree about n, the slots that both
// know are shared.
func (s Scope) Slots(root ID, n int) *Slots {
	return s.f.Slots(int64(root), n)
}

// AdoptSlot takes over a slot by its inherited descriptor. An error means that it is none of this
// store; the descriptor stays the caller's then.
func (s Scope) AdoptSlot(file *os.File) (*Slot, error) {
	return s.f.AdoptSlot(file)
}

const (
	reasonLost      = "the processes that ran it ended without settling it"
	reasonUnstarted = "the processes that were to run it ended before it began"
)

// Reserve decides about delegations and makes room for them, in one transaction: it calls admit
// with the present standing, then forks or continues each child that admit returns, writes what it
// was given, takes its run lock, and records the open delegation. All of that happens, or nothing.
//
// An error of admit rolls everything back and is returned as it is. So does a child that runs
// already, with a *BusyError, or one that is not a strict descendant, with a *ScopeError or a
// *NotFoundError. A call that was made before, if only by the child in front of it, reserves
// nothing: its reservation has Existed set. Where nothing came of it before a crash, its delegation
// is reserved again. Admit must not use the store but through the Standing.
//
// Delegations of the ledger whose processes are gone are settled first: as the child stored the end
// of its turn, or as lost.
func (s Scope) Reserve(ctx context.Context, admit func(Standing) ([]Child, error)) (rs []*Reservation, err error) {
	defer func() {
		if err == nil {
			return
		}
		for _, r := range rs {
			_ = r.drop()
		}
		rs = nil
	}()
	err = s.f.write(ctx, func(t *tx) error {
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
	return rs, absent(err, s.root)
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

// standing gathers what a decision is made on. It also returns the number of the root's present
// turn.
func (s Scope) standing(t *tx, caller *record, ledger ID) (Standing, int, error) {
	st := Standing{Now: t.Now}
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
	st.Labelled = func(key, value string) ([]Conversation, error) { return s.labelled(t, key, value) }
	return st, root.Turns, nil
}

// labelled finds the caller's delegated children with a label. Only their records are read.
func (s Scope) labelled(t *tx, key, value string) (cs []Conversation, err error) {
	err = t.children(s.root, func(id ID, l Link) error {
		if l != DelegationLink {
			return nil
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

// reserve carries out one admitted delegation. What it has taken is in r even when it fails.
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
		// Its child stays, unless somebody has moved or removed it.
		_, err := s.within(t, d.Child)
		if held, lockErr := t.Held(d.Child); err == nil && (held || lockErr != nil) {
			return cmp.Or(lockErr, t.existed(r, d))
		}
		if err == nil {
			c.ID, fresh = d.Child, d.Fresh
		}
	} else if number, err = t.Bucket(db.Delegations).NextSequence(); err != nil {
		return fmt.Errorf("delegation: %w", err)
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
		Replayed: c.Replayed,
	}
	if run := caller.run(); run != nil && run.Root == ledger {
		d.Within = run.Number
	}
	rec.Run = &openRun{Root: ledger, Number: number, Turns: rec.Turns, Before: rec.rebase()}
	if err := t.Save(id, rec); err != nil {
		return err
	}
	if err := t.tally(d, 1); err != nil {
		return err
	}
	if err := t.SaveDelegation(d); err != nil {
		return err
	}
	if err := t.Put(db.OpenDelegations, db.PairKey(d.Root, number), db.PairKey(id, uint64(s.root))); err != nil {
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

// child forks the child of an admitted delegation, or prepares an existing one to go on, and takes
// its run lock. The caller saves the record.
func (s Scope) child(t *tx, r *Reservation, caller *record, c Child) (ID, *record, error) {
	grant := c.Grant.clone()
	if c.ID != 0 {
		rec, err := s.within(t, c.ID)
		if err != nil {
			return 0, nil, err
		}
		if r.lock, err = t.F.TakeRun(int64(c.ID)); err != nil {
			return 0, nil, err
		}
		if rec, err = t.takeOver(c.ID, rec); err != nil {
			return 0, nil, err
		}
		rec.Grant = &grant
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
	id, err := t.insert(rec, c.Config)
	if err == nil {
		r.lock, err = t.F.TakeRun(int64(id))
	}
	return id, rec, err
}

// Settle records how a delegation ended, after the last of its processes has, and frees the child's
// run lock once that is stored. What it used is charged to the caller, the rest of its grant is
// free again. A turn that the child left open ends with the same state; a model call that it left
// open is charged in full.
//
// The first settlement stands: another one changes nothing and returns it. When Settle fails the
// lock is kept, so that it can be repeated.
func (s Scope) Settle(ctx context.Context, r *Reservation, o Outcome) (settled Delegation, err error) {
	if !o.State.Terminal() {
		return Delegation{}, fmt.Errorf("delegation %s: %q is no terminal state", r.Delegation.ID, o.State)
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
		// What the child left open below it belongs to its total. Our own lock is still held, and
		// nothing of it runs any more.
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
	if d.Own, d.Total, err = t.endRun(d); err != nil {
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

// endRun parts a child from the delegation that ran it, and returns what the child has used and
// what with all below it. Of a child that is gone nobody knows.
func (t *tx) endRun(d Delegation) (own, total Spend, err error) {
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
	if err := t.loseCall(d.Child, rec); err != nil {
		return own, total, err
	}
	own = rec.spend().sub(rec.Run.Before)
	total = own
	begun := rec.Turns > rec.Run.Turns
	if begun {
		total = own.Add(rec.Below)
	}
	rec.ended()
	// The conversation must not say less than its delegation where the child could not say how its
	// turn ended, or has not come to one.
	switch {
	case rec.TurnOpen:
		reason := d.Reason
		if d.Unstarted { // an earlier run has begun the turn
			reason = reasonLost
		}
		if err := t.note(d.Child, rec, TurnEnd{State: d.State, Reason: reason}); err != nil {
			return own, total, err
		}
	case !begun && d.State != StateOK && d.State != StateEmpty: // made to be used later, it is still new
		rec.RunState, rec.RunReason = d.State, d.Reason
	}
	return own, total, t.Save(d.Child, rec)
}

// reconcile settles the open delegations of a ledger that nobody else can settle any more. Self is
// what this process runs.
func (t *tx) reconcile(ledger ID, self runner) error { return t.reconcileBut(ledger, self, 0) }

// reconcileBut is reconcile that leaves out one delegation.
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
		o, err := t.lastWord(d)
		if err != nil {
			return err
		}
		if _, err := t.settle(d, o); err != nil {
			return err
		}
	}
	return nil
}

// lastWord is how a delegation ended that nobody settled: as the turn that it ran did where the
// child stored its end, and lost otherwise.
func (t *tx) lastWord(d Delegation) (Outcome, error) {
	lost := Outcome{State: StateLost, Reason: reasonLost}
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
	return Outcome{State: rec.State, Reason: rec.Reason}, nil
}

// abandoned reports whether nobody is left who could settle an open delegation: the run locks of
// both the child and the caller are free.
//
// The lock of self does not count. The caller itself needs only the child's to be free, for its
// live reservations hold that. Who has taken the child's is not the run that was reserved; who
// inherited it is.
func (t *tx) abandoned(child, caller ID, self runner) (bool, error) {
	if child == self.id && self.inherited {
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

// DelegationID is the published name of a delegation.
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

// Delegations returns those of a ledger, oldest first.
func (t *tx) Delegations(root ID) (ds []Delegation, err error) {
	err = t.Prefixed(db.Delegations, root.key(), func(k, v []byte) error {
		d, err := t.parseDelegation(k, v)
		ds = append(ds, d)
		return err
	})
	return ds, err
}

package convstore

import (
	"encoding/json"
	"fmt"
	"os"
	"strconv"
	"time"

	"jp/convstore/internal/db"
	"jp/convstore/internal/file"
	"jp/tools/jsondoc"
)

// Delegation is one run of a child conversation on behalf of a tool call. Its record is stored
// under the root of its ledger, and stays when the conversations are removed.
type Delegation struct {
	ID     string `json:"id"`
	Root   ID     `json:"root_id"` // topmost ancestor of Caller by delegation links: owner of the ledger
	Caller ID     `json:"caller_id"`
	Child  ID     `json:"child_id"`
	Call   string `json:"call"` // the tool call's id
	Kind   string `json:"kind"` // sub_complete, batch_complete, specialization

	Profile     string `json:"profile"`
	ProfileHash string `json:"profile_hash"`
	Model       string `json:"model"`
	Depth       int    `json:"depth"` // of Child
	Grant       Grant  `json:"grant"`

	Turn      int  `json:"turn"`       // turn of the caller in which the call was made
	ChildTurn int  `json:"child_turn"` // turn of the child that the delegation ran; 0 = it ended without one
	Fresh     bool `json:"fresh"`      // it made the child; false = it continued an existing one
	Session   int  `json:"session"`    // the root's turn at that time

	Reserved time.Time `json:"reserved_at"`
	Started  time.Time `json:"started_at,omitzero"` // start of its process; zero while it is open, or if no process ran
	Ended    time.Time `json:"ended_at,omitzero"`
	PID      int       `json:"pid,omitempty"` // for display

	State  State  `json:"state"` // "" = open
	Reason string `json:"reason"`
	Own    Spend  `json:"own"`   // use by the child's own calls in this run
	Total  Spend  `json:"total"` // Own and the totals of all delegations that the child made

	ToolsAllowed int `json:"tools_allowed"`
	ToolsTotal   int `json:"tools_total"`
	ToolsDenied  int `json:"tools_denied"`

	Within uint64 `json:"within,omitzero"` // number of the delegation in which Caller ran; 0 = none

	// Unstarted marks a delegation that was lost before its child began. It counts nowhere, and its
	// call may be made again.
	Unstarted bool `json:"unstarted,omitzero"`

	// Host is the machine of its process, as that machine calls itself; "" = this one, or none yet.
	Host string `json:"host,omitempty"`
	// Lease is how long its process, on another machine, may run on when the one that settles it
	// has died; 0 = it runs on this machine.
	Lease time.Duration `json:"lease,omitzero"`

	// Replayed marks a delegation in which a recording answers: nothing is paid.
	Replayed bool `json:"replayed,omitzero"`

	// Person marks a run in which a person continued the child: no call of the caller's turn.
	Person bool `json:"person,omitzero"`

	// Imported marks a delegation that came by an import: no conversation of this store made it.
	Imported bool `json:"imported,omitzero"`

	Number uint64 `json:"-"` // its number in the ledger of Root
}

// Standing is the state on which a decision about a delegation is based. It cannot change until the
// transaction is committed.
type Standing struct {
	Caller    Conversation
	Ancestors []Conversation // of Caller by delegation links, nearest first
	Account   Account        // account of Caller before this decision
	Calls     int            // delegations that Caller made in its present turn, without those that are Unstarted or of a Person
	Children  int            // conversations made for delegations of the ledger in the root's present turn

	// Lookup returns a strict descendant of Caller by delegation links. For any other id it returns
	// a *NotFoundError or a *ScopeError. Valid only inside admit.
	Lookup func(ID) (Conversation, error)

	// Existing returns the delegation that a call of Caller made before. Valid only inside admit.
	Existing func(call string) (Delegation, bool)

	// Used returns the tokens that those delegations of Caller use whose calls begin with a prefix;
	// an open one uses its whole grant, and so does one that was made in an ended one and outlives
	// it. Valid only inside admit.
	Used func(prefix string) (tokens int64, err error)

	// Config returns the stored config of such a descendant. Valid only inside admit.
	Config func(ID) (Config, error)

	// Answer is View.Answer, in v. Valid only inside admit.
	Answer func(v View, d Digest, of ID) (Answer, bool, error)

	// Labelled returns Caller's own children by delegation that have this label, oldest first.
	// Valid only inside admit.
	Labelled func(key, value string) ([]Conversation, error)
}

// Child is the conversation that an admitted delegation runs: a new blank one, or an existing one
// that it continues.
type Child struct {
	Call string // id of the tool call, unique among all the caller's delegations
	ID   ID     // 0 = make a new one
	Kind string

	// Expire is how long after the end of the run the child expires, if none above it expires
	// earlier; 0 = a new one never does by itself. One that exists expires later by it, and never
	// earlier; one that never expires stays so.
	Expire time.Duration

	Title       string            // of a new child
	Hidden      bool              // of a new child
	Labels      map[string]string // of a new child
	Profile     string            // of a new child, as the three below it
	ProfileArg  string            // as in Conversation
	ProfileHash string
	Role        string
	Model       string // of the run; "" = that of the conversation
	Grant       Grant
	Asked       Digest // of what this run is asked; zero, or Replayed = its answer is not found again
	Config      Config // of a new child

	ToolsTotal  int // number of tools that the profile asked for
	ToolsDenied int // number of these that were not granted

	Replayed bool // as in Delegation
	Person   bool // as in Delegation
}

// Reservation is an admitted delegation and, unless it Existed, the child's run lock. Its owner
// ends it with Scope.Settle; with Scope.Withdraw if the child may not have begun; or with Release
// if the process is about to end anyway.
type Reservation struct {
	Delegation Delegation
	Child      Conversation
	Existed    bool // the call was made before: nothing was reserved

	lock *file.RunLock
}

// LockFile returns a descriptor for the child's process, which holds the child's run lock until it
// ends: nobody runs the conversation before, whatever becomes of this process. The caller closes it
// when the child's process has it. It fails if the delegation existed, and after Settle or Release.
func (r *Reservation) LockFile() (*os.File, error) {
	if r.lock == nil {
		return nil, os.ErrClosed
	}
	return r.lock.Heir()
}

// Release leaves the run lock without settling. It is for a caller
// that cannot settle. As soon as no process holds the lock, the delegation counts as lost. A second
// Release does nothing.
func (r *Reservation) Release() error { return r.unlock((*file.RunLock).Leave) }

// drop frees the run lock, also for a Log of the run.
func (r *Reservation) drop() error { return r.unlock((*file.RunLock).Drop) }

func (r *Reservation) unlock(how func(*file.RunLock) error) error {
	lock := r.lock
	if r.lock = nil; lock == nil {
		return nil
	}
	return how(lock)
}

// Outcome is how a delegation ended. The store itself computes what it used.
type Outcome struct {
	State   State
	Reason  string
	PID     int       // its process; 0 = none was started
	Started time.Time // of that process
	Ended   time.Time // zero = now
	// Hold is how long a process of it may still run on another machine. Until then nobody can
	// continue the conversation.
	Hold time.Duration

	unstarted bool // see Delegation
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

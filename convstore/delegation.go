package convstore

import (
	"os"
	"time"

	"jp/convstore/internal/file"
)

// Delegation is one run of a child conversation on behalf of a tool call. Its record stands under
// the root of its ledger, and stays when the conversations are removed.
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

	Turn      int  `json:"turn"`       // the caller's turn that made the call
	ChildTurn int  `json:"child_turn"` // the child's turn that it ran
	Fresh     bool `json:"fresh"`      // it made the child, which otherwise went on
	Session   int  `json:"session"`    // the root's turn at that time

	Reserved time.Time `json:"reserved_at"`
	Started  time.Time `json:"started_at,omitzero"` // of its process; zero while it is open, and when none ran
	Ended    time.Time `json:"ended_at,omitzero"`
	PID      int       `json:"pid,omitempty"` // for display

	State  State  `json:"state"` // "" = open
	Reason string `json:"reason"`
	Own    Spend  `json:"own"`   // what the child's calls used in this run
	Total  Spend  `json:"total"` // with all delegations that it made

	ToolsAllowed int `json:"tools_allowed"`
	ToolsTotal   int `json:"tools_total"`
	ToolsDenied  int `json:"tools_denied"`

	Within uint64 `json:"within,omitzero"` // number of the delegation that Caller ran or had run in; 0 = none

	// Unstarted marks one that was lost before anything came of it: it counts for nothing, and its
	// call may be made again.
	Unstarted bool `json:"unstarted,omitzero"`

	// Replayed: a recording answers in it, and nothing is paid.
	Replayed bool `json:"replayed,omitzero"`

	// Imported marks history from elsewhere: no call of a conversation here made it.
	Imported bool `json:"imported,omitzero"`

	Number uint64 `json:"-"` // its place under Root
}

// Standing is what a decision about delegating is made on: the state that the transaction commits
// against.
type Standing struct {
	Caller    Conversation
	Ancestors []Conversation // of Caller by delegation links, nearest first
	Now       time.Time
	Account   Account // Caller's, before anything of this decision
	Calls     int     // delegations that Caller has made in its present turn, but for those Unstarted
	Children  int     // conversations forked for the ledger's delegations, whoever made them, in the root's present turn

	// Lookup finds a strict descendant of Caller by delegation links. Anything else is a
	// *NotFoundError or a *ScopeError. Valid only inside admit.
	Lookup func(ID) (Conversation, error)

	// Existing finds the delegation that a call of Caller has already made. Valid only inside
	// admit.
	Existing func(call string) (Delegation, bool)

	// Labelled returns Caller's own children by delegation that have this label, oldest first.
	// Valid only inside admit.
	Labelled func(key, value string) ([]Conversation, error)
}

// Child is what an admitted delegation shall run: a conversation forked for it, blank, or an
// existing one that goes on.
type Child struct {
	Call string // the tool call's id, unique among all the caller's delegations
	ID   ID     // 0 = fork a new one
	Kind string

	Title       string            // of a new child
	Hidden      bool              // of a new child
	Labels      map[string]string // of a new child
	Profile     string
	ProfileArg  string // as in Conversation
	ProfileHash string
	Model       string
	Role        string // of a new child; one that goes on keeps its own
	Grant       Grant
	Config      Config // of a new child; replaces that of one that goes on only when it has JSON

	ToolsTotal  int // the tools that the profile asked for
	ToolsDenied int // of these, the ones that were cut

	Replayed bool // as in Delegation
}

// Reservation is a delegation that was admitted and, unless it Existed, the child's run lock. Its
// owner ends it with Scope.Settle, with Scope.Withdraw where it may be that nothing came of it, or
// with Release when the process is about to end anyway.
type Reservation struct {
	Delegation Delegation
	Child      Conversation
	Existed    bool // the call had been made before, and not in vain: nothing was reserved

	lock *os.File
}

// LockFile returns the descriptor that holds the child's run lock, for the child process to inherit
// and Adopt. The Reservation keeps owning it. It is nil when the delegation existed, and after
// Settle or Release.
func (r *Reservation) LockFile() *os.File { return r.lock }

// Release gives up this process's hold of the run lock without settling. It is for a caller that
// cannot settle; the delegation counts as lost from the moment that nobody holds the lock.
// Releasing again does nothing.
func (r *Reservation) Release() error {
	f := r.lock
	r.lock = nil
	if f == nil {
		return nil
	}
	return f.Close()
}

// drop frees the run lock, of which nobody uses a copy any more.
func (r *Reservation) drop() error {
	f := r.lock
	r.lock = nil
	if f == nil {
		return nil
	}
	return file.DropRun(f)
}

// Outcome is how a delegation ended. What it has used is not part of that: the store knows.
type Outcome struct {
	State   State
	Reason  string
	PID     int       // of its process; 0 = none was started
	Started time.Time // of that process
	Ended   time.Time // zero = now

	unstarted bool // see Delegation
}

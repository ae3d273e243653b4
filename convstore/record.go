package convstore

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"jp/convstore/amount"
	"jp/convstore/internal/db"
	"jp/tools/jsondoc"
)

// record is a conversation's stored metadata, JSON under its id. The transactions that append, fork
// and remove update the counts, so that a listing reads no events.
type record struct {
	Parent ID   `json:"parent,omitzero"`
	Link   Link `json:"link,omitzero"`
	Depth  int  `json:"depth,omitzero"`

	Title      string            `json:"title,omitzero"`
	Hidden     bool              `json:"hidden,omitzero"`
	Pinned     bool              `json:"pinned,omitzero"`
	ArchivedAt time.Time         `json:"archived_at,omitzero"`
	ExpiresAt  time.Time         `json:"expires_at,omitzero"`
	Labels     map[string]string `json:"labels,omitempty"`
	Allowed    []Allowance       `json:"allowed,omitempty"`
	CreatedAt  time.Time         `json:"created_at"`
	UpdatedAt  time.Time         `json:"updated_at"`

	Profile     string `json:"profile,omitzero"`
	ProfileArg  string `json:"profile_arg,omitzero"`
	ProfileHash string `json:"profile_hash,omitzero"`
	Model       string `json:"model,omitzero"`
	Role        string `json:"role,omitzero"`
	Grant       *Grant `json:"grant,omitempty"`

	LastSeq        uint64 `json:"last_seq,omitzero"`
	Events         int    `json:"events,omitzero"`
	Turns          int    `json:"turns,omitzero"`
	Children       int    `json:"children,omitzero"`
	HiddenChildren int    `json:"hidden_children,omitzero"`

	Usage    Usage `json:"usage,omitzero"`
	CostNano int64 `json:"cost_nano,omitzero"`
	Unpriced int   `json:"unpriced,omitzero"` // model calls of unknown price

	TurnOpen bool   `json:"turn_open,omitzero"` // the last turn has not ended
	NoAgent  bool   `json:"no_agent,omitzero"`  // TurnStart.NoAgent of the last turn
	Asked    []byte `json:"asked,omitempty"`    // Digest of what the reserved run is asked; nil = none
	State    State  `json:"state,omitzero"`     // end of the last turn that has ended
	Reason   string `json:"reason,omitzero"`

	Run  *openRun `json:"run,omitempty"`  // delegation that runs it, until it is settled
	Last *openRun `json:"last,omitempty"` // delegation that ran its last turn before that, or the first one

	// How its last run was settled, if that run ended before its turn began.
	RunState  State  `json:"run_state,omitzero"`
	RunReason string `json:"run_reason,omitzero"`

	// Until then its last run may go on, on another machine, and in no case longer than Hold.
	Until time.Time     `json:"until,omitzero"`
	Hold  time.Duration `json:"hold,omitzero"`

	// The ledger of its present turn.
	Limits *Limits  `json:"limits,omitempty"` // limits of the session, at the root of a ledger
	Since  Spend    `json:"since,omitzero"`   // what it had spent before the turn began
	Below  Spend    `json:"below,omitzero"`   // use by the settled delegations that it made
	Call   *Call    `json:"call,omitempty"`   // open call of a model
	Made   *tallied `json:"made,omitempty"`   // number of its delegations; nil = not counted yet

	// Number of the last delegation at the time when the conversation was imported. Delegations up
	// to it belong to a removed conversation of the same id and count in no account of this one.
	After uint64 `json:"after,omitzero"`

	// Number of the last event that came by an import, also where it was copied since.
	Foreign  uint64 `json:"foreign,omitzero"`
	Imported bool   `json:"imported,omitzero"` // bucket imported has an entry for it
}

// spend returns what its own calls used in all its turns.
func (r *record) spend() Spend {
	return Spend{Usage: r.Usage, CostNano: r.CostNano, Unpriced: r.Unpriced}
}

// rebase bounds the counters of what was spent, so that they cannot overflow in the next turn or
// run, and returns them.
func (r *record) rebase() Spend {
	s := r.spend().Bounded()
	r.Usage, r.CostNano = s.Usage, s.CostNano
	return s
}

// run returns the delegation that runs the conversation or, if none does, the one that ran its last
// turn; nil = none did.
func (r *record) run() *openRun {
	if r.Run != nil {
		return r.Run
	}
	return r.Last
}

// within returns the number of the delegation that the present turn belongs to, 0 if there is none in
// this ledger: one that is reserved begins the next turn.
func (r *record) within(ledger ID) uint64 {
	for _, run := range []*openRun{r.Run, r.Last} {
		if run != nil && run.Root == ledger && run.Turns < r.Turns {
			return run.Number
		}
	}
	return 0
}

// leave ends a run that began no turn. The account and the grant are those of the last turn again: what
// such a run has used is no part of them.
func (r *record) leave() {
	run := r.Run
	r.Run, r.Grant = nil, cmp.Or(run.Grant, r.Grant)
	if r.Last != nil {
		last := *r.Last
		last.Before = last.Before.Add(r.spend().Sub(run.Before))
		r.Last = &last
	}
}

// tallied counts the delegations of the present turn of a conversation, without those that may be
// reserved again.
type tallied struct {
	Calls  int `json:"calls,omitzero"`  // delegations that the conversation itself made
	Forked int `json:"forked,omitzero"` // conversations made for delegations of the ledger that it owns
}

// openRun is what the record of a child holds about the delegation that runs it.
type openRun struct {
	Root   ID     `json:"root"`   // Root and Number are the delegation's key
	Number uint64 `json:"number"` //

	// The child's counts when it was reserved; the difference is what this run added.
	Turns  int   `json:"turns,omitzero"`
	Before Spend `json:"before,omitzero"`

	Expire time.Duration `json:"expire_ns,omitzero"` // Child.Expire: it counts from the end of the run
	Grant  *Grant        `json:"grant,omitempty"`    // grant of the child before that; nil = none
}

// Load returns the record of a conversation or a *NotFoundError.
func (t *tx) Load(id ID) (*record, error) {
	if id <= 0 {
		return nil, &NotFoundError{ID: id}
	}
	v := t.Bucket(db.Conversations).Get(id.key())
	if v == nil {
		return nil, &NotFoundError{ID: id}
	}
	var r record
	if err := json.Unmarshal(v, &r); err != nil {
		return nil, t.Damaged("conversation %s: %w", id, err)
	}
	return &r, nil
}

// loadWhole is Load that also fails if an ancestor is missing.
func (t *tx) loadWhole(id ID) (*record, error) {
	r, err := t.Load(id)
	if err != nil {
		return nil, err
	}
	_, err = t.rootOf(id, r)
	return r, err
}

// Ancestors walks up from a conversation, parent first. If a parent is missing, or is its own
// ancestor, it ends with an error in *err.
func (t *tx) Ancestors(id ID, r *record, err *error) func(yield func(ID, *record) bool) {
	return func(yield func(ID, *record) bool) {
		// Brent's algorithm finds a cycle without a list of the visited ids.
		mark, steps, limit := id, 0, 1
		for r.Parent != 0 {
			next := r.Parent
			if next == mark {
				*err = t.Damaged("conversation %s: is its own ancestor", id)
				return
			}
			if steps++; steps == limit {
				mark, steps, limit = next, 0, 2*limit
			}
			var parent *record
			if parent, *err = t.Load(next); *err != nil {
				return
			}
			if !yield(next, parent) {
				return
			}
			r = parent
		}
	}
}

// Save stores a record, and its entry in the listing.
func (t *tx) Save(id ID, r *record) error {
	r.ValidUTF8()
	v, err := jsondoc.Encode(r)
	if err != nil {
		return fmt.Errorf("conversation %s: %w", id, err)
	}
	if err := t.Put(db.Conversations, id.key(), v); err != nil {
		return err
	}
	return t.saveEntry(id, r)
}

// ValidUTF8 replaces invalid UTF-8 in the title and the labels, which JSON cannot hold.
func (r *record) ValidUTF8() {
	valid := func(s string) string { return strings.ToValidUTF8(s, "\uFFFD") }
	r.Title = valid(r.Title)
	for k, v := range r.Labels {
		if utf8.ValidString(k) && utf8.ValidString(v) {
			continue
		}
		labels := make(map[string]string, len(r.Labels))
		for k, v := range r.Labels {
			labels[valid(k)] = valid(v)
		}
		r.Labels = labels
		return
	}
}

// rootOf returns the topmost ancestor of a conversation by all links.
func (t *tx) rootOf(id ID, r *record) (ID, error) {
	if root, ok := t.roots[id]; ok {
		return root, nil
	}
	if root, ok := t.roots[r.Parent]; ok && r.Parent != 0 { // a listing reads parents first
		t.roots[id] = root
		return root, nil
	}
	root, path := id, []ID{id}
	var err error
	for a := range t.Ancestors(id, r, &err) {
		if cached, ok := t.roots[a]; ok {
			root = cached
			break
		}
		root, path = a, append(path, a)
	}
	if err != nil {
		return 0, err
	}
	if t.roots == nil {
		t.roots = make(map[ID]ID)
	}
	for _, p := range path {
		t.roots[p] = root
	}
	return root, nil
}

// conversation returns the public form of a record.
func (t *tx) conversation(id ID, r *record) (Conversation, error) {
	root, err := t.rootOf(id, r)
	if err != nil {
		return Conversation{}, err
	}
	c := Conversation{
		ID: id, Parent: r.Parent, Root: root, Link: r.Link, Depth: r.Depth,
		Title: r.Title, Hidden: r.Hidden, Pinned: r.Pinned,
		ArchivedAt: r.ArchivedAt, ExpiresAt: r.ExpiresAt, Labels: maps.Clone(r.Labels), Allowed: slices.Clone(r.Allowed),
		CreatedAt: r.CreatedAt, UpdatedAt: r.UpdatedAt,
		Turns: r.Turns, Events: r.Events, Children: r.Children, HiddenChildren: r.HiddenChildren,
		Profile: r.Profile, ProfileArg: r.ProfileArg, ProfileHash: r.ProfileHash,
		Model: r.Model, Role: r.Role, NoAgent: r.NoAgent,
	}
	if r.Grant != nil {
		g := r.Grant.clone()
		c.Grant = &g
	}
	lost, err := t.LostCall(id, r)
	if err != nil {
		return c, err
	}
	spent := r.spend()
	if lost != nil {
		spent = spent.Add(amount.Of(r.Call.Usage, r.Call.CostNano))
	}
	c.Usage, c.CostNano = spent.Usage, spent.Cost()
	c.Status, c.Reason, err = t.status(id, r)
	return c, err
}

// appendConversation appends the public form of a record.
func (t *tx) appendConversation(list []Conversation, id ID, r *record) ([]Conversation, error) {
	c, err := t.conversation(id, r)
	if err != nil {
		return nil, err
	}
	return append(list, c), nil
}

// status returns what a conversation is doing, by its run lock and its record. The two agree:
// nobody writes during the transaction, and a run writes the end of its turn before it releases the
// lock.
func (t *tx) status(id ID, r *record) (Status, string, error) {
	held, err := t.Held(id)
	if err != nil {
		return "", "", err
	}
	begun := r.Run == nil || r.TurnOpen || r.Turns > r.Run.Turns
	switch {
	case held && begun:
		return StatusRunning, "", nil
	case held:
		return StatusQueued, "", nil
	case r.TurnOpen && r.Link == DelegationLink:
		return StatusLost, "its process ended in the middle of a turn", nil
	case r.TurnOpen:
		return StatusInterrupted, "", nil
	case r.Run != nil && !r.begun():
		return StatusLost, "its run ended without a turn", nil
	case r.RunState != "":
		return Status(r.RunState), r.RunReason, nil
	case r.Turns == 0:
		return StatusNew, "", nil
	}
	return Status(r.State), r.Reason, nil
}

// Held reports whether anybody holds the run lock of a conversation.
func (t *tx) Held(id ID) (bool, error) {
	if t.idle[id] {
		return false, nil
	}
	if t.runs == nil {
		probe, err := t.F.ProbeRuns()
		if err != nil {
			return false, err
		}
		t.runs = probe
	}
	return t.runs.Held(int64(id))
}

// requireIdle fails with a *BusyError if one of several conversations runs. A write transaction
// calls it before it removes or moves them. For the rest of the transaction they count as not
// running.
//
// It takes no run locks, because many of them are slow: the kernel reads the list of all locks for
// each. It does not need them: a process that takes one of these locks before the commit must wait
// for the store before it can do anything.
func (t *tx) requireIdle(ids []ID) error {
	if err := t.prepareStatus(); err != nil {
		return err
	}
	for _, id := range ids {
		held, err := t.Held(id)
		if err != nil {
			return err
		}
		if held {
			return &BusyError{ID: id, Holder: t.F.RunHolder(int64(id))}
		}
	}
	if t.idle == nil {
		t.idle = make(map[ID]bool, len(ids))
	}
	for _, id := range ids {
		t.idle[id] = true
	}
	return nil
}

func (g Grant) clone() Grant {
	g.Tools, g.Authority, g.Permissions = slices.Clone(g.Tools), maps.Clone(g.Authority), maps.Clone(g.Permissions)
	g.Budget, g.Caps, g.Life = g.Budget.Clone(), g.Caps.Clone(), g.Life.Clone()
	return g
}

// A stored config is one line of JSON with the names of the tools, and then the bytes of the
// config. No bytes after the line mean nil.

func (c Config) stored() ([]byte, error) {
	if len(c.JSON) > 0 && !json.Valid(c.JSON) {
		return nil, errors.New("config: is no JSON")
	}
	tools := c.Tools
	if tools == nil {
		tools = []string{}
	}
	line, err := jsondoc.Encode(tools)
	if err != nil {
		return nil, fmt.Errorf("config: %w", err)
	}
	return append(append(line, '\n'), c.JSON...), nil
}

// ParseConfig reads a stored config.
func ParseConfig(v []byte) (Config, error) {
	line, rest, ok := bytes.Cut(v, []byte("\n"))
	if !ok || len(rest) > 0 && !json.Valid(rest) {
		return Config{}, fmt.Errorf("config: malformed record")
	}
	var c Config
	if err := json.Unmarshal(line, &c.Tools); err != nil {
		return Config{}, fmt.Errorf("config: %w", err)
	}
	if len(rest) > 0 {
		c.JSON = bytes.Clone(rest)
	}
	if len(c.Tools) == 0 {
		c.Tools = nil
	}
	return c, nil
}

// Config returns the stored config of a conversation.
func (t *tx) Config(id ID) (Config, error) {
	c, err := ParseConfig(t.Bucket(db.Configs).Get(id.key()))
	if err != nil {
		return Config{}, t.Damaged("conversation %s: %w", id, err)
	}
	return c, nil
}

// SaveConfig stores the config of a conversation.
func (t *tx) SaveConfig(id ID, c Config) error {
	v, err := c.stored()
	if err != nil {
		return fmt.Errorf("conversation %s: %w", id, err)
	}
	return t.Put(db.Configs, id.key(), v)
}

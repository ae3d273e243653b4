package convstore

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"jp/convstore/internal/db"
	"jp/tools/jsondoc"
)

// record is a conversation's metadata as stored, JSON under its id. The counts are kept by the
// transactions that append, fork and remove, so that a listing reads no events.
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
	State    State  `json:"state,omitzero"`     // of the last turn that ended
	Reason   string `json:"reason,omitzero"`

	Run  *openRun `json:"run,omitempty"`  // the delegation that runs it, until settled
	Last *openRun `json:"last,omitempty"` // the one that ran it before that

	// How its last run was settled, when that has not come to a turn of its own.
	RunState  State  `json:"run_state,omitzero"`
	RunReason string `json:"run_reason,omitzero"`

	// The ledger of its present turn.
	Limits *Limits  `json:"limits,omitempty"` // of the session, at the root of a ledger
	Since  Spend    `json:"since,omitzero"`   // what it had spent when the turn began
	Below  Spend    `json:"below,omitzero"`   // settled by the delegations that it made
	Call   *Call    `json:"call,omitempty"`   // of a model, begun and not ended
	Made   *tallied `json:"made,omitempty"`   // by delegations; nil = not counted yet

	// The number of the last delegation when it was imported. Those up to it were made by, or for,
	// a conversation of the same id that was here before: they are in no account of this one.
	After uint64 `json:"after,omitzero"`
}

// spend is what its own calls have used in all its turns.
func (r *record) spend() Spend { return Spend{r.Usage, r.CostNano, r.Unpriced} }

// rebase makes room for what is spent from now on, and returns what was spent before.
func (r *record) rebase() Spend {
	s := r.spend().bounded()
	r.Usage, r.CostNano = s.Usage, s.CostNano
	return s
}

// run is the delegation that runs it or, when none does, did so last; nil when it was never
// delegated.
func (r *record) run() *openRun {
	if r.Run != nil {
		return r.Run
	}
	return r.Last
}

// ended leaves the delegation that ran it behind.
func (r *record) ended() { r.Last, r.Run = r.Run, nil }

// tallied counts what was made by delegations in the present turn of a conversation, but for those
// that may be reserved again.
type tallied struct {
	Calls  int `json:"calls,omitzero"`  // delegations by the conversation itself
	Forked int `json:"forked,omitzero"` // conversations for delegations of the ledger that it owns
}

// openRun is what a child knows of the delegation that runs it.
type openRun struct {
	Root   ID     `json:"root"`   // with Number, the delegation's key
	Number uint64 `json:"number"` //

	// The child's counts when it was reserved, to tell what this run added.
	Turns  int   `json:"turns,omitzero"`
	Before Spend `json:"before,omitzero"`
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

// loadWhole is load that also sees to it that no ancestor is gone.
func (t *tx) loadWhole(id ID) (*record, error) {
	r, err := t.Load(id)
	if err != nil {
		return nil, err
	}
	for range t.Ancestors(id, r, &err) {
	}
	return r, err
}

// Ancestors walks up from a conversation, parent first. A parent that is gone or a parent that was
// met before end it with an error in *err.
func (t *tx) Ancestors(id ID, r *record, err *error) func(yield func(ID, *record) bool) {
	return func(yield func(ID, *record) bool) {
		// Brent's way to notice a ring without keeping what was seen.
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

// ValidUTF8 makes of the texts that people and models choose what JSON can hold.
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
	if root, ok := t.roots[r.Parent]; ok && r.Parent != 0 { // a listing meets parents first
		t.roots[id] = root
		return root, nil
	}
	root, path := id, []ID{id}
	var err error
	for a := range t.Ancestors(id, r, &err) {
		if known, ok := t.roots[a]; ok {
			root = known
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

// conversation makes the public form of a record.
func (t *tx) conversation(id ID, r *record) (Conversation, error) {
	root, err := t.rootOf(id, r)
	if err != nil {
		return Conversation{}, err
	}
	c := Conversation{
		ID: id, Parent: r.Parent, Root: root, Link: r.Link, Depth: r.Depth,
		Title: r.Title, Hidden: r.Hidden, Pinned: r.Pinned,
		ArchivedAt: r.ArchivedAt, ExpiresAt: r.ExpiresAt, Labels: maps.Clone(r.Labels),
		CreatedAt: r.CreatedAt, UpdatedAt: r.UpdatedAt,
		Turns: r.Turns, Events: r.Events, Children: r.Children, HiddenChildren: r.HiddenChildren,
		Profile: r.Profile, ProfileArg: r.ProfileArg, ProfileHash: r.ProfileHash,
		Model: r.Model, Role: r.Role,
		Usage: r.Usage,
	}
	if r.Grant != nil {
		g := r.Grant.clone()
		c.Grant = &g
	}
	if r.Unpriced == 0 {
		cost := r.CostNano
		c.CostNano = &cost
	}
	c.Status, c.Reason, err = t.status(id, r)
	return c, err
}

// status tells what a conversation is doing, from its run lock and its record. The transaction
// keeps writers out, so what the lock says belongs to what the record says: whoever ends a turn
// does so before letting go of the lock.
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
	case r.Run != nil && r.Turns == r.Run.Turns:
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
	if t.mine[id] {
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

// takeAll sees to it that none of several conversations runs while a write transaction removes or
// moves them, or fails with a *BusyError. To the transaction they count as free from then on.
//
// It takes no lock: a lock for each of many would have the kernel walk all of them each time. Who
// takes one of these locks before the commit has to wait for the store to see what has become of
// the conversation.
func (t *tx) takeAll(ids []ID) error {
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
	if t.mine == nil {
		t.mine = make(map[ID]bool, len(ids))
	}
	for _, id := range ids {
		t.mine[id] = true
	}
	return nil
}

func (g Grant) clone() Grant {
	g.Tools, g.Authority, g.Leave = slices.Clone(g.Tools), maps.Clone(g.Authority), maps.Clone(g.Leave)
	g.Budget, g.Caps = g.Budget.clone(), g.Caps.clone()
	return g
}

func clonePtr[T any](p *T) *T {
	if p == nil {
		return nil
	}
	v := *p
	return &v
}

// A stored config is one line of JSON, the names of the tools, and then the opaque bytes as they
// were given. No bytes at all after the line stands for nil.

func (c Config) stored() ([]byte, error) {
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
	if !ok {
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

package convstore

import (
	"encoding/json"
	"fmt"
	"time"

	"jp/convstore/amount"
	"jp/tools/jsondoc"
)

// Link says what joins a conversation to its parent.
type Link uint8

// The kinds of link. An agent's scope, depth and ledger follow delegation links only. A person's
// views follow all links.
const (
	NoLink         Link = iota // a root: no parent
	ForkLink                   // a person forked it
	DelegationLink             // an agent or a person delegated to it
)

// String returns "", "fork" or "delegation".
func (l Link) String() string {
	switch l {
	case ForkLink:
		return "fork"
	case DelegationLink:
		return "delegation"
	}
	return ""
}

// Grant is what a delegated conversation was given for the run that runs it or ran its last turn. A
// zero Deadline means no deadline. Empty Tools mean no tool at all.
type Grant struct {
	Tools []string `json:"tools"`
	// Authority identifies each tool as it was when it was granted. A different tool with the same
	// name is not granted.
	Authority map[string]string `json:"authority,omitempty"`
	// Permissions says for each tool what it may do without a question, in the granter's own words.
	// It is never more than what the conversations above were given.
	Permissions map[string]string `json:"leave,omitempty"`
	MaxDepth    int               `json:"max_depth"`
	MaxParallel int               `json:"max_parallel,omitzero"` // most sub-agents of the whole tree that work at the same time
	Deadline    time.Time         `json:"deadline,omitzero"`     // by the clock of the caller at that time; for display only
	Timeout     time.Duration     `json:"timeout_ns,omitzero"`   // longest time of a run, from its start; 0 = none
	Budget                        // budget of this run and all below it
	Strict      bool              `json:"strict,omitzero"` // its cost is limited, or that of one above: as Limits.Strict
	Caps        Budget            `json:"caps,omitzero"`   // limits of its own profile; no run is granted more
	Life        Budget            `json:"life,omitzero"`   // limits of its own calls in all turns together, from its profile
}

// Config is a conversation's stored configuration: JSON, which this package keeps byte by byte, and
// the names of its tools.
type Config struct {
	JSON  json.RawMessage
	Tools []string
}

// Conversation is a copy of one conversation's metadata. It does not change when the store does.
//
// It encodes to JSON as `jp conversation ls` shows it.
type Conversation struct {
	ID     ID
	Parent ID // 0 in a root
	Root   ID // the topmost ancestor by all links; ID itself in a root
	Link   Link

	// Depth counts the delegations above this conversation. It is fixed when the conversation is
	// made (one more than the caller's, or the same as the source of a fork) and never falls when
	// it is moved.
	Depth int

	Title      string
	Hidden     bool
	Pinned     bool
	ArchivedAt time.Time // zero = not archived
	ExpiresAt  time.Time // zero = never
	Labels     map[string]string
	Allowed    []Allowance // answers of a person for good, and its tools as they were; no import has them

	CreatedAt time.Time
	UpdatedAt time.Time // the last append; before the first one, CreatedAt

	Turns          int
	Events         int
	Children       int // direct children, by all links
	HiddenChildren int // hidden ones among Children

	Profile     string
	ProfileArg  string // where the profile was read from, as on a command line
	ProfileHash string
	Model       string
	Role        string
	Grant       *Grant // of a delegated conversation or a fork of one, else nil

	Usage    Usage  // of its own model calls, without those of its children; with a call whose process died
	CostNano *int64 // billionths of a dollar; nil when the price of a call is unknown

	Status  Status // computed when it was read
	Reason  string // why the last turn ended as it did
	NoAgent bool   // TurnStart.NoAgent of the last turn
}

// Allowance is what is allowed for all later calls of a tool in one conversation.
type Allowance struct {
	Kind      string `json:"kind"` // of the question that was answered
	Tool      string `json:"tool"`
	Authority string `json:"authority"` // digest of what the tool can do; with another digest it is another tool
}

// Archived reports whether the conversation is archived.
func (c Conversation) Archived() bool { return !c.ArchivedAt.IsZero() }

// MarshalJSON encodes the published shape of a conversation. Ids and times that are not there are
// null, costs are dollars.
func (c Conversation) MarshalJSON() ([]byte, error) {
	labels := c.Labels
	if labels == nil {
		labels = map[string]string{}
	}
	return jsondoc.Encode(struct {
		ID        ID                `json:"id"`
		Title     string            `json:"title"`
		Parent    *ID               `json:"parent_id"`
		Root      ID                `json:"root_id"`
		Depth     int               `json:"depth"`
		Children  int               `json:"children"`
		Hidden    bool              `json:"hidden"`
		Pinned    bool              `json:"pinned"`
		Archived  bool              `json:"archived"`
		Profile   string            `json:"profile"`
		Model     string            `json:"model"`
		Status    Status            `json:"status"`
		Turns     int               `json:"turns"`
		Events    int               `json:"events_count"`
		CreatedAt time.Time         `json:"created_at"`
		UpdatedAt time.Time         `json:"updated_at"`
		ExpiresAt *time.Time        `json:"expires_at"`
		Labels    map[string]string `json:"labels"`
		Usage     Usage             `json:"usage"`
		Cost      json.RawMessage   `json:"cost_usd"`
	}{
		c.ID, c.Title, orNull(c.Parent), c.Root, c.Depth, c.Children, c.Hidden, c.Pinned, c.Archived(),
		c.Profile, c.Model, c.Status, c.Turns, c.Events, c.CreatedAt, c.UpdatedAt, orNull(c.ExpiresAt),
		labels, c.Usage, dollars(c.CostNano),
	})
}

func orNull[T comparable](v T) *T {
	var zero T
	if v == zero {
		return nil
	}
	return &v
}

// dollars writes billionths of a dollar as an exact decimal JSON number.
func dollars(nano *int64) json.RawMessage {
	if nano == nil {
		return json.RawMessage("null")
	}
	return json.RawMessage(amount.Dollars(*nano))
}

// MarshalText encodes what String returns.
func (l Link) MarshalText() ([]byte, error) { return []byte(l.String()), nil }

// UnmarshalText decodes what MarshalText wrote.
func (l *Link) UnmarshalText(text []byte) error {
	for _, link := range []Link{NoLink, ForkLink, DelegationLink} {
		if string(text) == link.String() {
			*l = link
			return nil
		}
	}
	return fmt.Errorf("link %q: want fork or delegation", text)
}

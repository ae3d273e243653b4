package rule

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"jp/cmd/jp/internal/attach"
	"jp/convstore"
)

// Limits are the caller's delegation limits, from its stored config. Those of its session come first.
type Limits struct {
	MaxDepth    int // levels below this caller; a child without the key has 0
	MaxPerTurn  int // delegations in one turn of the caller
	MaxChildren int // conversations made in a session, where the store has no limit of the root
	// sub-agents of the tree that work at the same time, where the store has no limit of the root
	MaxParallel int
	Share       float64 // part of what is left that one reply may hand down, 0 to 1
	Timeout     time.Duration
	Expire      time.Duration // how long after its last run a sub-conversation expires; 0 = never
	Profiles    []string      // profiles of the enum
	Models      []string      // models that an override may name; nil = any but script/
	Efforts     []string      // levels of reasoning that an override may name; nil = any
	// whether a person says what runs, line by line: the lists and the time of the config do
	// not bound that
	Free bool
}

// within returns the limits with those of the session, which were fixed when its turn began: neither
// a child nor a person who delegates later changes them.
func (l Limits) within(s convstore.Standing) Limits {
	session := s.Account.Limits
	if session == nil {
		return l
	}
	l.MaxChildren = session.Children
	if len(s.Ancestors) == 0 && session.Calls != nil {
		l.MaxPerTurn = int(*session.Calls)
	}
	if len(s.Ancestors) == 0 && session.Depth != nil {
		l.MaxDepth = int(*session.Depth)
	}
	return l
}

// Permit refuses a profile that the caller may not delegate to.
func (l Limits) Permit(profile string) error {
	if l.Free || slices.Contains(l.Profiles, profile) {
		return nil
	}
	return Refuse(CodeProfile, "%q is not one of the profiles that may be delegated to", profile)
}

// PermitAsk refuses a profile, a model or a level of reasoning that the lists do not name.
func (l Limits) PermitAsk(a Ask) error {
	return cmp.Or(l.Permit(a.Profile.Name), l.choose("models", a.Model, l.Models), l.choose("levels of reasoning", a.Effort, l.Efforts))
}

// choose refuses an override that a list does not name.
func (l Limits) choose(what, value string, list []string) error {
	if value == "" || l.Free || list == nil || slices.Contains(list, value) {
		return nil
	}
	return Refuse(CodeProfile, "%q is not one of the %s that may be chosen (%s)", value, what, cmp.Or(strings.Join(list, ", "), "none"))
}

// timeout returns how long a sub-agent may run for which so much time is asked; 0 = as the config
// says.
func (l Limits) timeout(asked time.Duration) time.Duration {
	if asked > 0 && (l.Free || l.Timeout == 0 || asked < l.Timeout) {
		return asked
	}
	return l.Timeout
}

// Ask is one delegation that is asked for.
type Ask struct {
	Call    string // tool call id: (caller, Call) identifies the delegation
	Tool    string // tool that was called
	ID      convstore.ID
	Title   string
	Profile Profile

	Model    string           // override of the child's model; "" = none
	Effort   string           // override of its level of reasoning; "" = none
	Role     string           // role that bounds the tools of a new child beside that of a sub-agent; "" = none
	Want     convstore.Budget // most that it shall be granted; nil = as much as the rule grants
	Default  bool             // whether the cost in Want is a part of a limit that nobody set
	Batch    *Batch           // batch that it is an item of; nil = a call by itself
	Deadline time.Time        // deadline of the caller; zero = none
	Timeout  time.Duration    // longest time that it shall run; 0 = as the caller's config says
	// least number of calls that share what is free, for those that come later
	Among int

	Asked  Asked           // what it is asked
	Expire time.Duration   // how long after its last run a new one expires; 0 = as Limits say
	Refs   attach.Refs     // what it attaches, before that is read
	Reuse  *convstore.View // view in which its answer may be, from before; nil = it is asked anew

	Turn int // the turn of ID that it goes on with, which must be the last one; 0 = none

	// whether a person continues the sub-conversation ID, whatever its caller may start by itself
	Person bool
	Fixed  bool   // whether the tool has one profile, which a person fixed; its children are leaves
	Sticky string // label of the caller's one child that does this; "" = a new child for each call
}

// Batch is a call of several items, which share what a call gets: each gets the same part of it.
type Batch struct {
	Later  int    // number of items that are asked for later, each in its turn
	Tokens *int64 // most that all delegations may use together whose calls begin with Calls; nil = no limit
	Calls  string
}

// left returns what nobody has used yet of the tokens of the batch, nil if they have no limit.
func (b *Batch) left(s convstore.Standing) (*int64, error) {
	if b == nil || b.Tokens == nil {
		return nil, nil
	}
	used, err := s.Used(b.Calls)
	if err == nil && used >= *b.Tokens {
		err = Refuse(CodeTokens, "nothing is left of the %d tokens that its batch may use", *b.Tokens)
	}
	return new(*b.Tokens - used), err
}

// Profile is a resolved agent profile, as far as the rule needs it.
type Profile struct {
	Name     string // name in the enum
	Arg      string // value of --cfg for the child: an absolute path or builtin:name
	Hash     string
	Model    string
	Others   []string         // models that may answer in its place
	Config   convstore.Config // resolved
	Tools    []Tool           // tools that Config enables
	Meaning  string           // see MeaningOf
	Room     int64            // tokens that a first request of its agent can have beside its prompt; 0 = not known
	MaxDepth int
	Caps     convstore.Budget // its own token_budget and max_cost_per_session
	Life     convstore.Budget // its own max_life_tokens and max_life_cost
}

// Narrow leaves only those of the tools of a profile that names has, and returns the other names.
func (p *Profile) Narrow(names []string) (others []string) {
	p.Tools = slices.DeleteFunc(p.Tools, func(t Tool) bool { return !slices.Contains(names, t.Name) })
	for _, name := range names {
		if !slices.Contains(p.Config.Tools, name) {
			others = append(others, name)
		}
	}
	p.Config.Tools = slices.DeleteFunc(p.Config.Tools, func(name string) bool { return !slices.Contains(names, name) })
	return others
}

// Tool is a tool that may be granted.
type Tool struct {
	Name, Source string
	Authority    string // what it is; see tools.Definition.Authority
	Permissions  string // what it may do without a question; see tools.Definition.Permissions
}

// Caller is the calling agent, as far as the store does not know it.
type Caller struct {
	Tools     []string // tools that it holds
	Limits    Limits
	Closing   convstore.Budget                                          // amounts set aside for its own last call; nil = none
	Priced    func(model string) bool                                   // whether the price of a model is known; nil = of none
	Answering func(config []byte, overrides []string) ([]string, error) // all models that may answer under a config; nil = the first alone
	Down      func(model string) error                                  // why a model cannot be asked; nil = nothing is known against any
}

// Present returns the ask with what the store knows now: that of a specialization names its child,
// where there is one.
func (a Ask) Present(s convstore.Standing) (Ask, error) {
	if a.Sticky == "" {
		return a, nil
	}
	made, err := s.Labelled(LabelSpecialization, a.Sticky)
	for _, c := range made {
		if c.Profile == a.Profile.Name {
			a.ID = c.ID
			break
		}
	}
	return a, err
}

// Queue returns a name for what runs in call order: calls to the same child, and calls of which the
// later may have the answer of the earlier; "" = nothing.
func (a Ask) Queue() string {
	switch {
	case a.Sticky != "":
		return a.Sticky
	case a.ID != 0:
		return a.ID.String()
	case a.Reuse != nil:
		if d, err := DigestOf([]any{a.Asked, a.Model, a.Refs}); err == nil {
			return string(d[:])
		}
	}
	return ""
}

// Overrides are the beginnings of the values that a caller may set in the config of a sub-agent.
const (
	OverrideModel     = "assistant.model="
	OverrideReasoning = "assistant.parameters.reasoning="
)

// Overrides returns the override of a model, nil for "".
func Overrides(model string) []string {
	if model == "" {
		return nil
	}
	return []string{OverrideModel + model}
}

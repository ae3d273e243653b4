package delegate

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"

	"jp/cmd/jp/internal/attach"
	"jp/convstore"
	"jp/profiles/role"
	"jp/tools"
)

// DepthCeiling is the deepest level that a delegation may have, whatever is configured.
const DepthCeiling = 5

// Code names the part of the rule that refused.
type Code string

// The codes of a refusal, in the order in which the rule checks them.
const (
	CodeDepth    Code = "depth"
	CodeTool     Code = "tool"
	CodeProfile  Code = "profile"
	CodeTokens   Code = "tokens"
	CodeCost     Code = "cost"
	CodeCalls    Code = "calls"
	CodeChildren Code = "children"
	CodeProvider Code = "provider"
)

// Refusal is a no of the rule. The same state gives the same bytes: nothing in it changes from run
// to run.
type Refusal struct {
	Code Code
	Text string
	Hint string // advice for a person; "" = none
	Why  string // what is wrong with the provider; set with CodeProvider
}

func (r *Refusal) Error() string { return fmt.Sprintf("refused (%s): %s", r.Code, r.Text) }

func refuse(c Code, format string, args ...any) *Refusal {
	return &Refusal{Code: c, Text: fmt.Sprintf(format, args...)}
}

func (r *Refusal) withHint(hint string) *Refusal {
	r.Hint = hint
	return r
}

// Limits are the caller's delegation limits, from its stored config.
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
	// whether a person says what runs, line by line: the lists of profiles and models and the time of
	// the config do not bound that
	Free bool
}

// allows reports whether the caller may delegate to a profile.
func (l Limits) allows(profile string) bool {
	return l.Free || slices.Contains(l.Profiles, profile)
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

	// whether a person continues the sub-conversation ID, whatever its caller may start by itself
	Person bool
	Fixed  bool   // whether the tool has one profile, which a person fixed; its children are leaves
	Sticky string // label of the caller's one child that does this; "" = a new child for each call
}

// Batch is a call of several items, which share one grant: each gets the same part of it.
type Batch struct {
	Want convstore.Budget // most that all items together shall be granted
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

// Verdict is the answer of the rule to one ask: the child to run, or why not.
type Verdict struct {
	Child convstore.Child
	Err   error // *Refusal, *Known, or an error of the store about the ID of the ask
}

// Decide is the one rule: may the caller, as the store knows it now, run these children? It is
// pure. The store calls it inside the transaction that forks or reserves. The asks are those of one
// reply, in call order. An ask that is refused, or answered from the store, counts for nothing; the
// others share what there is. An answer that is there costs nothing and asks nobody: limits of calls
// and amounts do not keep it back, nor does a model that cannot be asked.
func Decide(s convstore.Standing, c Caller, asks []Ask) []Verdict {
	vs := make([]Verdict, len(asks))
	for i, a := range asks {
		if vs[i].Child, vs[i].Err = draft(s, c, a); vs[i].Err == nil {
			vs[i].Err = a.known(s, &vs[i].Child)
		}
		if vs[i].Err == nil {
			vs[i].Err = c.down(a)
		}
		if vs[i].Err == nil {
			vs[i].Err = affordable(s, c, a, vs[i].Child)
		}
	}
	for {
		over := count(s, c, asks, vs)
		for i, g := range grants(s, c, asks, vs, over) {
			vs[i].Child.Grant.Budget = g
		}
		late := false
		for i := range vs {
			if vs[i].Err == nil && over[i] == nil {
				vs[i].Err = spent(s.Account.Free, vs[i].Child.Grant.Budget)
				late = late || vs[i].Err != nil
			}
		}
		if late { // fewer asks share now, and there may be room for another
			continue
		}
		for i := range vs {
			if vs[i].Err = cmp.Or(vs[i].Err, over[i]); vs[i].Err != nil {
				vs[i].Child = convstore.Child{}
			}
		}
		return vs
	}
}

// down refuses a new sub-agent none of whose models can be asked. Those of one that is continued are
// in its stored config, which the runner reads.
func (c Caller) down(a Ask) error {
	if a.ID != 0 {
		return nil
	}
	return c.allDown(append([]string{a.Profile.Model}, a.Profile.Others...))
}

// allDown refuses a sub-agent with these models if none of them can be asked.
func (c Caller) allDown(models []string) error {
	if c.Down == nil || len(models) == 0 {
		return nil
	}
	for _, m := range models[1:] {
		if c.Down(m) == nil {
			return nil
		}
	}
	model := models[0]
	why := c.Down(model)
	if why == nil {
		return nil
	}
	text := fmt.Sprintf("the model %s cannot be asked now: %v; no more sub-agents with it are started", model, why)
	return &Refusal{Code: CodeProvider, Text: text + ". Use a profile with another model, or finish with what there is", Why: text}
}

// draft applies depth, tool and profile. It makes the child, without the amounts of its grant.
func draft(s convstore.Standing, c Caller, a Ask) (convstore.Child, error) {
	p := s.Caller
	depth := p.Depth + 1
	var child convstore.Conversation
	if a.ID != 0 {
		var err error
		if child, err = s.Lookup(a.ID); err != nil {
			return convstore.Child{}, err
		}
		depth = child.Depth
	}

	// 1. Depth. A grant holds the deepest level that is allowed below it.
	deepest := deepestBelow(p, c.Limits.MaxDepth)
	for _, up := range s.Ancestors {
		if up.Grant != nil {
			deepest = min(deepest, up.Grant.MaxDepth)
		}
	}
	if depth > deepest {
		return convstore.Child{}, refuse(CodeDepth, "a sub-agent here would be at depth %d and at most %d is allowed; do the work with your own tools", depth, max(deepest, 0))
	}

	// 2. Tool.
	if !a.Person && (!slices.Contains(c.Tools, a.Tool) || p.Grant != nil && !slices.Contains(p.Grant.Tools, a.Tool)) {
		return convstore.Child{}, refuse(CodeTool, "this conversation does not hold the tool %s", a.Tool)
	}

	// 3. Profile.
	if !a.Person && !a.Fixed && !c.Limits.allows(a.Profile.Name) {
		return convstore.Child{}, refuse(CodeProfile, "%q is not one of the profiles that may be delegated to", a.Profile.Name)
	}
	if a.ID != 0 && child.Profile != a.Profile.Name {
		return convstore.Child{}, refuse(CodeProfile, "%s runs under the profile %q, not %q", a.ID, child.Profile, a.Profile.Name)
	}
	held := a.Profile.Tools
	ceiling, err := CeilingOf(p.Grant, roleSubagent)
	if err != nil {
		return convstore.Child{}, err
	}
	within := func(t Tool) bool { return ceiling.holds(t.Name, t.Source, t.Authority) }
	if g := child.Grant; a.ID != 0 && g != nil {
		// The tools of a child that is continued were narrowed to its role when it was forked.
		held = nil
		for _, name := range g.Tools {
			held = append(held, Tool{Name: name, Authority: g.Authority[name], Permissions: g.Leave[name]})
		}
		within = func(t Tool) bool { return covers(p.Grant, t.Name, t.Authority) }
	}
	granted, authority, permissions := make([]string, 0, len(held)), make(map[string]string, len(held)), make(map[string]string, len(held))
	for _, t := range held {
		if within(t) {
			above := ""
			if p.Grant != nil {
				above = p.Grant.Leave[t.Name]
			}
			if above != "" && !tools.RunsUnasked(above) {
				continue // what the caller cannot run, no child can run for it
			}
			granted = append(granted, t.Name)
			authority[t.Name] = t.Authority
			if unasked := tools.StricterPermissions(t.Permissions, above); unasked != "" {
				permissions[t.Name] = unasked
			}
		}
	}
	total := len(held)

	own, caps, life := depth+a.Profile.MaxDepth, a.Profile.Caps, a.Profile.Life
	if a.ID != 0 && child.Grant != nil {
		own, caps, life = child.Grant.MaxDepth, child.Grant.Caps, child.Grant.Life
	}
	rest, err := restOfLife(child, life)
	if err != nil {
		return convstore.Child{}, err
	}
	caps = caps.Min(rest)
	kind := kindSingle
	var labels map[string]string
	if a.Fixed {
		own = depth
	}
	if a.Batch != nil {
		kind = kindBatch
	}
	if a.Sticky != "" {
		kind, labels = kindSpecialization, map[string]string{LabelSpecialization: a.Sticky}
	}
	parallel := c.Limits.MaxParallel
	if l := s.Account.Limits; l != nil && l.Parallel > 0 {
		parallel = l.Parallel
	} else if p.Grant != nil {
		parallel = p.Grant.MaxParallel
	}
	grant := convstore.Grant{
		Tools: granted, Authority: authority, Leave: permissions, MaxDepth: min(deepest, own), MaxParallel: parallel,
		Timeout: c.Limits.timeout(a.Timeout), Deadline: a.Deadline, Caps: caps, Life: life,
	}
	expire := c.Limits.Expire
	if a.Expire > 0 && (expire == 0 || a.Expire < expire) {
		expire = a.Expire
	}
	if a.ID != 0 {
		// A child that is continued keeps its stored config: its profile is not read again.
		return convstore.Child{
			Call: a.Call, ID: a.ID, Kind: kind, Expire: c.Limits.Expire, Model: cmp.Or(a.Model, child.Model), Grant: grant,
			ToolsTotal: total, ToolsDenied: total - len(granted), Person: a.Person,
		}, nil
	}
	return convstore.Child{
		Call: a.Call, Kind: kind, Labels: labels, Expire: expire,
		Title: a.Title, Profile: a.Profile.Name, ProfileHash: a.Profile.Hash, ProfileArg: a.Profile.Arg,
		Model: a.Profile.Model, Role: roleSubagent, Hidden: true,
		Grant: grant, Config: a.Profile.Config,
		ToolsTotal: total, ToolsDenied: total - len(granted),
	}, nil
}

// count applies the limits of calls and children to the asks that are not refused yet, in call
// order. The limit of children is that of the session, which a child cannot raise for itself.
func count(s convstore.Standing, c Caller, asks []Ask, vs []Verdict) (over []error) {
	calls, made, most := s.Calls, s.Children, c.Limits.MaxChildren
	if l := s.Account.Limits; l != nil {
		most = l.Children
	}
	over = make([]error, len(asks))
	for i, a := range asks {
		switch {
		case vs[i].Err != nil, a.Person:
			continue
		case calls >= c.Limits.MaxPerTurn:
			over[i] = refuse(CodeCalls, "%d of %d sub-agent calls of this turn are used", calls, c.Limits.MaxPerTurn)
			continue
		case a.ID == 0 && made >= most:
			over[i] = refuse(CodeChildren, "%d of %d sub-conversations of this session are used", made, most)
			continue
		case a.ID == 0:
			made++
		}
		calls++
	}
	return over
}

// deepestBelow returns the deepest level that a delegation by p may have.
func deepestBelow(p convstore.Conversation, configured int) int {
	if p.Grant != nil {
		return min(DepthCeiling, p.Grant.MaxDepth)
	}
	return min(DepthCeiling, p.Depth+configured)
}

const (
	kindSingle         = "sub_complete"
	kindBatch          = "batch_complete"
	kindSpecialization = "specialization"

	roleSubagent = role.Subagent
)

// LabelSpecialization is the label of the one child for a caller, tool and session. Its value is
// <tool>/<session>. Only this package sets it.
const LabelSpecialization = "specialization"

// refused reports whether an error is a no of the rule or of the scope, and not a failure of the
// store.
func refused(err error) bool {
	var (
		r  *Refusal
		nf *convstore.NotFoundError
		sc *convstore.ScopeError
	)
	return errors.As(err, &r) || errors.As(err, &nf) || errors.As(err, &sc)
}

package delegate

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"jp/convstore"
	"jp/profiles"
)

// DepthCeiling is the deepest that any delegation may ever be, whatever is configured.
const DepthCeiling = 5

// Code says which part of the rule refused.
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
)

// Refusal is the answer no. Same state, same bytes: it holds nothing that changes from run to run.
type Refusal struct {
	Code Code
	Text string
}

func (r *Refusal) Error() string { return fmt.Sprintf("refused (%s): %s", r.Code, r.Text) }

func refuse(c Code, format string, args ...any) *Refusal {
	return &Refusal{Code: c, Text: fmt.Sprintf(format, args...)}
}

// Limits are the caller's delegation limits, from its stored config.
type Limits struct {
	MaxDepth    int // levels below this caller; a child without the key has 0
	MaxPerTurn  int // delegations in one turn of the caller
	MaxChildren int // conversations made in one session of the tree
	MaxParallel int // sub-agents of the tree that work at the same time
	Timeout     time.Duration
	Profiles    []string // what the config enum lists
}

// Ask is one wished delegation.
type Ask struct {
	Call    string // tool call id: (caller, Call) identifies the delegation
	Tool    string // the delegation tool that was called
	ID      convstore.ID
	Title   string
	Profile Profile

	Model    string    // an override of the child's model; "" = none
	Deadline time.Time // the caller's own; zero = none

	Fixed  bool   // the tool has one sub-agent, which a person fixed; its children are leaves
	Sticky string // the child is the one of its caller with this label; "" = not so
}

// Profile is what the rule needs to know of a resolved agent profile.
type Profile struct {
	Name      string // as the enum spells it
	Arg       string // for argv: an absolute path or builtin:name
	Hash      string
	Model     string
	Config    convstore.Config  // resolved; Tools are the names it enables
	Sources   map[string]string // of these tools, by name
	Authority map[string]string // what each of them is, by name
	MaxDepth  int
}

// Caller is what the rule takes from the calling agent besides the store's word on it.
type Caller struct {
	Tools  []string // effective tools: what it is offered and can call
	Limits Limits
}

// Decide is the one rule: may the caller, as the store knows it now, run this child? It is pure; the store calls it inside
// the transaction that forks or reserves. admitted counts the asks of the same transaction that were already granted,
// fresh how many of them make a new conversation.
func Decide(s convstore.Standing, c Caller, a Ask, admitted, fresh int) (convstore.Child, error) {
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

	// 1. Depth. A grant carries the deepest level allowed below it, already cut to that of every ancestor.
	ceiling := ceilingOf(p, c.Limits.MaxDepth)
	for _, up := range s.Ancestors {
		if up.Grant != nil {
			ceiling = min(ceiling, up.Grant.MaxDepth)
		}
	}
	if depth > ceiling {
		return convstore.Child{}, refuse(CodeDepth, "a sub-agent here would be at depth %d and at most %d is allowed; do the work with your own tools", depth, max(ceiling, 0))
	}

	// 2. Tool.
	if !slices.Contains(c.Tools, a.Tool) || p.Grant != nil && !slices.Contains(p.Grant.Tools, a.Tool) {
		return convstore.Child{}, refuse(CodeTool, "this conversation does not hold the tool %s", a.Tool)
	}

	// 3. Profile.
	if !a.Fixed && !slices.Contains(c.Limits.Profiles, a.Profile.Name) {
		return convstore.Child{}, refuse(CodeProfile, "%q is not one of the profiles that may be delegated to", a.Profile.Name)
	}
	if a.ID != 0 && child.Profile != a.Profile.Name {
		return convstore.Child{}, refuse(CodeProfile, "%s runs under the profile %q, not %q", a.ID, child.Profile, a.Profile.Name)
	}
	held, is := a.Profile.Config.Tools, a.Profile.Authority
	if a.ID != 0 && child.Grant != nil {
		held, is = child.Grant.Tools, child.Grant.Authority
	}
	role, err := profiles.Role(roleSubagent)
	if err != nil {
		return convstore.Child{}, err
	}
	granted, authority := make([]string, 0, len(held)), make(map[string]string, len(held))
	for _, t := range held {
		// What a child holds that goes on was cut to its role when it was forked.
		ceiling := a.ID != 0 && child.Grant != nil || role.Matches(t, a.Profile.Sources[t])
		// A tool that only bears the name of one that the caller holds is another tool.
		if ceiling && (p.Grant == nil || slices.Contains(p.Grant.Tools, t) && p.Grant.Authority[t] == is[t]) {
			granted = append(granted, t)
			authority[t] = is[t]
		}
	}
	total := len(held)

	// 4. Grant: the counts. Those of the tree a child cannot raise for itself.
	children, parallel := c.Limits.MaxChildren, c.Limits.MaxParallel
	if p.Grant != nil {
		children, parallel = p.Grant.MaxChildren, p.Grant.MaxParallel
	}
	if n := len(s.Turn) + admitted; n >= c.Limits.MaxPerTurn {
		return convstore.Child{}, refuse(CodeCalls, "%d of %d sub-agent calls of this turn are used", n, c.Limits.MaxPerTurn)
	}
	if a.ID == 0 {
		made := fresh
		for _, d := range s.Session {
			if d.Fresh {
				made++
			}
		}
		if made >= children {
			return convstore.Child{}, refuse(CodeChildren, "%d of %d sub-conversations of this session are used", made, children)
		}
	}

	own := depth + a.Profile.MaxDepth
	if a.ID != 0 && child.Grant != nil {
		own = child.Grant.MaxDepth
	}
	kind := kindSingle
	var labels map[string]string
	if a.Tool == toolBatch {
		kind = kindBatch
	}
	if a.Fixed {
		own = depth
	}
	if a.Sticky != "" {
		kind, labels = kindSpecialization, map[string]string{labelSpecialization: a.Sticky}
	}
	grant := convstore.Grant{Tools: granted, Authority: authority, MaxDepth: min(ceiling, own), MaxChildren: children, MaxParallel: parallel, Timeout: c.Limits.Timeout, Deadline: a.Deadline}
	if a.ID != 0 {
		// A child that goes on keeps its stored config: its profile is not read again.
		return convstore.Child{
			Call: a.Call, ID: a.ID, Kind: kind, Model: a.Model, Grant: grant,
			ToolsTotal: total, ToolsDenied: total - len(granted),
		}, nil
	}
	return convstore.Child{
		Call: a.Call, Kind: kind, Labels: labels,
		Title: a.Title, Profile: a.Profile.Name, ProfileHash: a.Profile.Hash, ProfileArg: a.Profile.Arg,
		Model: a.Profile.Model, Role: roleSubagent, Hidden: true,
		Grant: grant, Config: a.Profile.Config,
		ToolsTotal: total, ToolsDenied: total - len(granted),
	}, nil
}

// ceilingOf is the deepest level that a delegation by p may have.
func ceilingOf(p convstore.Conversation, configured int) int {
	if p.Grant != nil {
		return min(DepthCeiling, p.Grant.MaxDepth)
	}
	return min(DepthCeiling, p.Depth+configured)
}

const (
	kindSingle         = "sub_complete"
	kindBatch          = "batch_complete"
	kindSpecialization = "specialization"

	labelSpecialization = "specialization" // of the one child of a caller, tool and session: <tool>/<session>

	roleSubagent = profiles.RoleSubagent
)

// refused tells an error of the rule or of the scope from a failure of the store.
func refused(err error) bool {
	var (
		r  *Refusal
		nf *convstore.NotFoundError
		sc *convstore.ScopeError
	)
	return errors.As(err, &r) || errors.As(err, &nf) || errors.As(err, &sc)
}

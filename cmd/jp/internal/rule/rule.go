// Package rule decides what a sub-agent may do.
//
// Decide is the one rule: whether a caller, as the store knows it, may run the children that it
// asks for, and with which tools, depth, time, tokens and money. It is pure, so that it can run
// inside the transaction that carries out what it allows. A Refusal is its no, with the same bytes
// for the same state. A Ceiling says which tools a conversation may hold, which a run applies to
// itself. An Asked and what the rule has granted make the digest under which an answer is found
// again.
//
// The package starts no process, asks no model, opens no file, and reads only what the store shows
// it of the caller, a convstore.Standing. Who delegates resolves profiles and fills in a Caller:
// both must come from config that the caller cannot write.
package rule

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"

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
	CodePrice    Code = "price"
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

func Refuse(c Code, format string, args ...any) *Refusal {
	return &Refusal{Code: c, Text: fmt.Sprintf(format, args...)}
}

func (r *Refusal) withHint(hint string) *Refusal {
	r.Hint = hint
	return r
}

// Verdict is the answer of the rule to one ask: the child to run, or why not.
type Verdict struct {
	Child convstore.Child
	Err   error // *Refusal, *Known, or an error of the store about the ID of the ask
}

// Decide is the one rule: may the caller, as the store knows it now, run these children? It is
// pure. The store calls it inside the transaction that forks or reserves. The asks are those of one
// reply, in call order. An ask that is refused, or answered from the store, counts for nothing; the
// others share what there is. An answer that is there costs nothing and asks nobody: limits of
// calls and amounts do not keep it back, nor does a model that cannot be asked.
func Decide(s convstore.Standing, c Caller, asks []Ask) []Verdict {
	c.Limits = c.Limits.within(s)
	vs := make([]Verdict, len(asks))
	left := map[string]*int64{} // tokens of batches, by what their calls begin with
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
		if b := a.Batch; vs[i].Err == nil && b != nil && left[b.Calls] == nil {
			left[b.Calls], vs[i].Err = b.left(s)
		}
	}
	for {
		over := count(s, c, asks, vs)
		for i, g := range grants(s, c, asks, vs, over, maps.Clone(left)) {
			vs[i].Child.Grant.Budget = g
		}
		late := false
		for i := range vs {
			if vs[i].Err == nil && over[i] == nil {
				vs[i].Err = spent(s, vs[i].Child.Grant.Budget)
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

// down refuses a new sub-agent none of whose models can be asked. Those of one that is continued
// are in its stored config, which the runner reads.
func (c Caller) down(a Ask) error {
	if a.ID != 0 {
		return nil
	}
	return c.AllDown(append([]string{a.Profile.Model}, a.Profile.Others...))
}

// AllDown refuses a sub-agent with these models if none of them can be asked.
func (c Caller) AllDown(models []string) error {
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
		if depth = child.Depth; a.Turn != 0 && child.Turns > a.Turn {
			return convstore.Child{}, &convstore.BusyError{ID: a.ID}
		}
	}

	// 1. Depth. A grant holds the deepest level that is allowed below it, and a session that below its root.
	deepest, root := min(DepthCeiling, p.Depth+c.Limits.MaxDepth), p
	for _, root = range append([]convstore.Conversation{p}, s.Ancestors...) {
		if root.Grant != nil {
			deepest = min(deepest, root.Grant.MaxDepth)
		}
	}
	if l := s.Account.Limits; l != nil && l.Depth != nil {
		deepest = min(deepest, root.Depth+int(*l.Depth))
	}
	if depth > deepest && (a.ID == 0 || !a.Person) { // a person goes on with what is there at any depth, and nothing begins below it
		return convstore.Child{}, Refuse(CodeDepth, "a sub-agent here would be at depth %d and at most %d is allowed; do the work with your own tools", depth, max(deepest, 0))
	}

	// 2. Tool.
	if !a.Person && (!slices.Contains(c.Tools, a.Tool) || p.Grant != nil && !slices.Contains(p.Grant.Tools, a.Tool)) {
		return convstore.Child{}, Refuse(CodeTool, "this conversation does not hold the tool %s", a.Tool)
	}

	// 3. Profile.
	if !a.Person && !a.Fixed {
		if err := c.Limits.PermitAsk(a); err != nil {
			return convstore.Child{}, err
		}
	}
	if a.ID != 0 && child.Profile != a.Profile.Name {
		return convstore.Child{}, Refuse(CodeProfile, "%s runs under the profile %q, not %q", a.ID, child.Profile, a.Profile.Name)
	}
	held := a.Profile.Tools
	ceiling, err := CeilingOf(p.Grant, roleSubagent, a.Role)
	if err != nil {
		return convstore.Child{}, err
	}
	within := func(t Tool) bool { return ceiling.holds(t.Name, t.Source, t.Authority) }
	if g := child.Grant; a.ID != 0 && g != nil {
		// The tools of a child that is continued were narrowed to its role when it was forked. If
		// its caller lends it tools, it has those that are lent now.
		held = nil
		lent := map[string]Tool{}
		for _, t := range a.Profile.Tools {
			lent[t.Name] = t
		}
		for _, name := range g.Tools {
			t := Tool{Name: name, Authority: g.Authority[name], Permissions: g.Permissions[name]}
			if a.Fixed {
				t.Permissions = tools.StricterPermissions(t.Permissions, lent[name].Permissions)
			}
			held = append(held, t)
		}
		within = func(t Tool) bool {
			now, is := lent[t.Name]
			return covers(p.Grant, t.Name, t.Authority) && (!a.Fixed || is && now.Authority == t.Authority)
		}
	}
	granted, authority, permissions := make([]string, 0, len(held)), make(map[string]string, len(held)), make(map[string]string, len(held))
	for _, t := range held {
		if within(t) {
			above := ""
			if p.Grant != nil {
				above = p.Grant.Permissions[t.Name]
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
		Tools: granted, Authority: authority, Permissions: permissions, MaxDepth: min(deepest, own), MaxParallel: parallel,
		Timeout: c.Limits.timeout(a.Timeout), Deadline: a.Deadline, Caps: caps, Life: life, Strict: strict(s, a, caps),
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
// order.
func count(s convstore.Standing, c Caller, asks []Ask, vs []Verdict) (over []error) {
	calls, made := s.Calls, s.Children
	over = make([]error, len(asks))
	for i, a := range asks {
		switch {
		case vs[i].Err != nil, a.Person:
			continue
		case calls >= c.Limits.MaxPerTurn:
			r := Refuse(CodeCalls, "%d of %d sub-agent calls of this turn are used", calls, c.Limits.MaxPerTurn)
			if over[i] = r; s.Caller.Grant == nil && s.Account.Limits != nil && s.Account.Limits.Calls != nil {
				over[i] = r.withHint(fmt.Sprintf("`jp query --id %s --max-sub-calls N` begins a turn with more", s.Caller.ID))
			}
			continue
		case a.ID == 0 && made >= c.Limits.MaxChildren:
			over[i] = Refuse(CodeChildren, "%d of %d sub-conversations of this session are used", made, c.Limits.MaxChildren)
			continue
		case a.ID == 0:
			made++
		}
		calls++
	}
	return over
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

// Refused reports whether an error is a no of the rule or of the scope, and not a failure of the
// store.
func Refused(err error) bool {
	var (
		r  *Refusal
		nf *convstore.NotFoundError
		sc *convstore.ScopeError
	)
	return errors.As(err, &r) || errors.As(err, &nf) || errors.As(err, &sc)
}

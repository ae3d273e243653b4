package delegate

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"jp/cmd/jp/internal/agent"
	"jp/cmd/jp/internal/rule"
	"jp/cmd/jp/internal/term"
	"jp/convstore"
	"jp/convstore/amount"
	"jp/profiles/effort"
	"jp/tools"
	"jp/tools/period"
	"jp/tools/schema"
)

// catalog holds what a caller may delegate to: profiles, models, special tools. It turns the
// arguments of a call into requests. It reads the file of a profile or of a special tool once: a
// change takes effect in the next run. Safe for concurrent use.
type catalog struct {
	limits  rule.Limits // those of the caller, of which only the lists count here
	dir     string      // workspace: paths of profiles are relative to it
	resolve func(ctx context.Context, name string, overrides []string) (rule.Profile, error)
	special func(ctx context.Context, tool string) (Special, error)

	profiles sync.Map     // resolved: a rule.Profile by name and overrides, of which a model may make any number
	kept     atomic.Int64 // bytes of the keys of profiles
	specials sync.Map     // resolved: a Special by tool
}

// request is one delegation that a call asks for.
type request struct {
	rule.Ask
	query     string
	overrides []string
	schema    *schema.Answer // form of the answer; nil = free text
	attached  []convstore.Attachment
	context   string // query for the child's context tool; "" = none
	ofPerson  bool   // whether it is a task of a batch of a person
	place     int    // place among the calls of its caller, from 1: lower ones start first; 0 = none
}

// arguments are those of a call of jp_query, and an item of jp_batch_query.
type arguments struct {
	Config    string          `json:"config"`
	Query     string          `json:"query"`
	ID        string          `json:"id"`
	Overrides []string        `json:"overrides"`
	MaxTokens *int64          `json:"max_tokens"`
	Context   string          `json:"context_query"`
	Schema    json.RawMessage `json:"schema"`
	Timeout   string          `json:"timeout"`
	Label     string          `json:"label"` // of its row in a batch, and of its title
}

// ParseTimeout reads how long a sub-agent may run; "" is 0, as the config says.
func ParseTimeout(text string) (time.Duration, error) {
	if text == "" {
		return 0, nil
	}
	t, err := period.Parse(text)
	if err != nil || t <= 0 {
		return 0, fmt.Errorf("timeout: %q is no time such as 90s or 10m", text)
	}
	return t, nil
}

// read reads a call: one delegation, or those of a batch. The executor has validated the arguments,
// or will not run the call.
func (c *catalog) read(ctx context.Context, call tools.Call) []admission {
	if call.Name == toolBatch {
		return c.items(ctx, call)
	}
	var a arguments
	if err := json.Unmarshal(call.Arguments, &a); err != nil {
		return []admission{{request: request{Ask: rule.Ask{Call: call.ID}}, err: fmt.Errorf("arguments: %w", err)}}
	}
	r, err := c.request(ctx, call.ID, call.Name, a)
	return []admission{{request: r, err: err}}
}

// items reads a call of a batch. Each item is a delegation by itself: it is refused, fails, and is
// repeated after a crash without the others.
func (c *catalog) items(ctx context.Context, call tools.Call) []admission {
	var a batchArguments
	if err := json.Unmarshal(call.Arguments, &a); err != nil {
		return nil // the tool reports the error
	}
	list := make([]admission, len(a.Queries))
	whole := &rule.Batch{Tokens: a.TotalBudget, Calls: call.ID + "#"}
	for i, q := range a.Queries {
		list[i].request, list[i].err = c.request(ctx, itemCall(call.ID, i+1), call.Name, q)
		// Its part depends on nothing else, so that all parts together are never more than the
		// whole, whenever each is reserved: in its turn, or after a crash.
		list[i].Batch, list[i].Want.Tokens = whole, amount.Portion(a.forTasks(), len(list), list[i].Want.Tokens)
	}
	return list
}

// request reads one delegation. For a child that is continued no profile is resolved: its stored
// config counts.
func (c *catalog) request(ctx context.Context, call, tool string, a arguments) (request, error) {
	r := request{Ask: rule.Ask{Call: call, Tool: tool, Title: Title(a.Query)}, query: agent.Stored(a.Query), overrides: a.Overrides, context: a.Context}
	if a.Label != "" {
		r.Title = Title(a.Label + ": " + a.Query)
	}
	r.Deadline, _ = ctx.Deadline()
	r.Want.Tokens = a.MaxTokens
	if strings.TrimSpace(a.Query) == "" {
		return r, errors.New("query: is empty")
	}
	if strings.ContainsRune(a.Query, 0) {
		return r, errors.New("query: holds a NUL byte")
	}
	if a.Context != "" && strings.TrimSpace(a.Context) == "" {
		return r, errors.New("context_query: is empty")
	}
	var err error
	if r.Timeout, err = ParseTimeout(a.Timeout); err != nil {
		return r, err
	}
	if len(a.Schema) > 0 {
		if r.schema, err = schema.ParseAnswer(a.Schema); err != nil {
			return r, fmt.Errorf("schema: %w", err)
		}
	}
	r.Asked = rule.Asked{Query: r.query, Context: a.Context, Overrides: a.Overrides}
	if r.schema != nil {
		r.Asked.Schema = r.schema.JSON()
	}
	if tool != toolQuery && tool != toolBatch {
		r.Ask, err = c.fixed(ctx, r.Ask)
		r.Asked.Meaning = r.Profile.Meaning
		return r, err
	}
	if a.ID != "" && a.ID != "new" {
		id, err := convstore.ParseID(a.ID)
		if err != nil {
			return r, err
		}
		r.ID = id
	}
	if err := c.override(&r.Ask, a.Overrides); err != nil {
		return r, err
	}
	// The lists are checked before anything is read: no name from a model reaches the file system.
	r.Profile.Name = a.Config
	if err := c.limits.PermitAsk(r.Ask); err != nil {
		return r, err
	}
	if r.ID == 0 {
		r.Profile, err = c.profile(ctx, a.Config, a.Overrides)
		r.Asked.Meaning = r.Profile.Meaning
	}
	return r, err
}

// profile resolves a profile with these overrides, which are valid.
func (c *catalog) profile(ctx context.Context, name string, overrides []string) (rule.Profile, error) {
	key := name + "\x00" + strings.Join(overrides, "\x00")
	if p, ok := c.profiles.Load(key); ok {
		return p.(rule.Profile), nil
	}
	p, err := c.resolve(ctx, name, overrides)
	if err == nil && c.kept.Add(int64(len(key))) <= 64<<10 {
		c.profiles.Store(key, p)
	}
	return p, err
}

// fixed completes the ask of a call of a special tool, which has one profile.
func (c *catalog) fixed(ctx context.Context, a rule.Ask) (rule.Ask, error) {
	known, ok := c.specials.Load(a.Tool)
	if !ok {
		s, err := c.special(ctx, a.Tool)
		if err != nil {
			return a, err
		}
		c.specials.Store(a.Tool, s)
		known = s
	}
	s := known.(Special)
	a.Fixed, a.Profile = true, s.Profile
	if s.Session != "" {
		a.Sticky = a.Tool + "/" + s.Session
	}
	return a, nil
}

// override checks the form of the values that a caller sets, and puts them into the ask. The rule
// asks its lists.
func (c *catalog) override(a *rule.Ask, list []string) error {
	for _, o := range list {
		m, ok := strings.CutPrefix(o, rule.OverrideModel)
		level, ofEffort := strings.CutPrefix(o, rule.OverrideReasoning)
		switch levels := effort.Levels(); {
		case ofEffort && !slices.Contains(levels, level):
			return fmt.Errorf("overrides: %q is not one of the levels of reasoning (%s)", level, strings.Join(levels, ", "))
		case ofEffort:
			a.Effort = level
		case ok && c.limits.Free:
			a.Model = m
		case !ok || m == "":
			return fmt.Errorf("overrides: only assistant.model=MODEL and assistant.parameters.reasoning=LEVEL are allowed, got %q", o)
		case strings.HasPrefix(m, "script/"):
			return fmt.Errorf("overrides: %q is not a model that may be chosen", m)
		default:
			a.Model = m
		}
	}
	return nil
}

// listed checks the model of an order, and spells its profile as the enum does. The profile may
// also be given as the path of a file that a name of the enum stands for, relative to the
// workspace. For any other word nothing is read.
func (c *catalog) listed(ctx context.Context, o Order) (Order, error) {
	if err := c.override(new(rule.Ask), rule.Overrides(o.Model)); err != nil {
		return o, rule.Refuse(rule.CodeProfile, "%v", err)
	}
	no := c.limits.Permit(o.Profile)
	if no == nil || o.Profile == "" && o.ID != 0 {
		return o, nil
	}
	path := filepath.Clean(o.Profile)
	if !filepath.IsAbs(path) {
		path = filepath.Join(c.dir, path)
	}
	for _, name := range c.limits.Profiles {
		if !strings.HasSuffix(path, "/"+filepath.Clean(name)+".toml") {
			continue
		}
		if p, err := c.profile(ctx, name, rule.Overrides(o.Model)); err == nil && p.Arg == path {
			o.Profile = name
			return o, nil
		}
	}
	return o, no
}

// Title returns the first line of a query as the title of its conversation: printable and short.
func Title(query string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(query), "\n")
	line = strings.Join(strings.Fields(term.Line(line)), " ")
	const most = 72
	if r := []rune(line); len(r) > most {
		return strings.TrimSpace(string(r[:most-1])) + "…"
	}
	return line
}

// Package delegate hands scoped work to sub-agents: each a process of its own, on a conversation of its own.
//
// The way of one delegation: Decide (the one rule) runs inside the store's reserving transaction, which forks the child
// and takes its run lock; the child is this program started again, with the query on stdin and the lock inherited; its
// whole process tree ends; its end is judged from the operating system's word, the store's and its own (judge); and one
// more transaction settles it. What the model gets is a bounded text that cannot close its own wrapper.
//
// A Delegator serves one run of one caller. Its tools are ordinary tools: the agent loop knows nothing of them but Admit,
// which lets the calls of one reply reserve together.
package delegate

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"jp/cmd/jp/internal/stream"
	"jp/cmd/jp/internal/term"
	"jp/convstore"
	"jp/tools"
	"jp/tools/proc"
	"jp/tools/schema"
)

// Delegator runs sub-agents for one caller. All fields but the noted ones are required.
type Delegator struct {
	Scope  convstore.Scope // below the caller
	Slot   *convstore.Slot // of a sub-agent: the one that it works in, given back and taken again from here on; nil at a root
	Caller convstore.ID
	Set    tools.Set // the caller's effective tools; set before the first call
	Limits Limits

	Closing convstore.Budget        // set aside for the caller's own last call
	Priced  func(model string) bool // whether the price of a model is known; nil = of none

	Replayed bool // a recording answers in sub-agents too

	Models       []string // what an assistant.model override may name; empty: any but script/
	ContextTool  string   // of the child, that answers a context_query; "" = none
	InlineResult int      // bytes of a result that the model gets; 0 = 16 KiB

	// Resolve loads a profile under NONE with the model override, if any.
	Resolve func(ctx context.Context, name, model string) (Profile, error)
	// Special says what stands behind a delegation tool other than jp_query; nil when the caller holds none.
	Special func(ctx context.Context, tool string) (Special, error)

	// Lanes is how many calls that are replies of their own, as those of an MCP client are, run at the same time: each is given an
	// even part of what is free, and the others wait before they reserve. 0 = as many as come, each as if it were the only one.
	Lanes int

	Host    *proc.Host
	Dir     string                              // the child's working directory
	Environ func(context.Context, Run) []string // the child's environment, with what its model needs
	Watch   func(d *stream.Delegation)          // progress, from any goroutine; nil drops it
	Warn    func(format string, a ...any)       // nil drops it
	Log     *slog.Logger                        // nil discards

	// Follow is told where delegations are, in the contexts of their calls and from any goroutine; nil is nobody.
	Follow func(context.Context, Step)

	// Checkpoint is told that a delegation has come to a point of its way: Reserved, Running, Ended, Settled. It is how a
	// crash at each of them is tried. nil is nobody.
	Checkpoint func(point string)

	once   sync.Once
	lanes  lanes
	tree   treeSlots
	starts starts

	mu       sync.Mutex
	calls    int
	profiles map[string]Profile   // resolved in this run, by name and model
	specials map[string]Special   // the same, by tool
	admitted map[string]admission // by call id
	recalled map[string]bool      // calls that were answered from a run that had ended
	told     map[string]bool      // models that a warning named
}

// Run is a child that is about to be started.
type Run struct {
	Model     string // as the override or the profile names it
	Delegates bool   // its grant lets it start sub-agents of its own
	Call      string // on whose behalf, as the ledger identifies it
	Query     string
}

// request is one call of a delegation tool, read.
type request struct {
	Ask
	query     string
	overrides []string
	schema    *schema.Answer // form of the answer; nil = free text
	context   string         // to ask the context tool for; "" = nothing
}

// admission is what Admit decided for one call.
type admission struct {
	request
	res   *convstore.Reservation
	err   error
	after <-chan struct{} // an earlier call of the reply to the same child, which must end first
	done  chan struct{}   // closed when this call has ended; nil for a new child
}

func (d *Delegator) init() {
	d.once.Do(func() {
		d.admitted, d.profiles, d.specials = map[string]admission{}, map[string]Profile{}, map[string]Special{}
		d.recalled, d.told = map[string]bool{}, map[string]bool{}
		d.lanes.free = make(chan struct{}, max(d.Lanes, 0))
		if d.Log == nil {
			d.Log = slog.New(slog.DiscardHandler)
		}
		if d.InlineResult <= 0 {
			d.InlineResult = 16 << 10
		}
	})
}

// Admit reserves the delegations among the calls of one reply in one transaction, in call order: what the rule refuses
// is refused alone. Calls to one child run in call order, so all but the first are reserved when their turn comes.
// Every admitted call must reach its tool or Release.
func (d *Delegator) Admit(ctx context.Context, calls []tools.Call) {
	d.init()
	var asked []admission
	for _, c := range calls {
		if !d.delegates(c.Name) {
			continue
		}
		// A call that a person is asked about, or that will be refused for its arguments, must not fork a child first.
		t, ok := d.Set.Get(c.Name)
		if !ok || t.Run != tools.RunUnattended {
			continue
		}
		valid, err := t.Validate(c.Arguments)
		if err != nil {
			continue
		}
		c.Arguments = valid
		asked = append(asked, d.read(ctx, c)...)
	}
	d.admit(ctx, asked)
}

// admit reserves what was asked together and keeps it for whoever claims it.
func (d *Delegator) admit(ctx context.Context, asked []admission) {
	admitted := map[string]admission{}
	last := map[string]chan struct{}{} // the end of the latest call to one child
	var together []request
	for _, a := range asked {
		a.line(last)
		if a.err == nil && a.after == nil {
			together = append(together, a.request)
		}
		admitted[a.Call] = a
	}
	if len(together) > 0 {
		res, errs := d.reserve(ctx, together)
		for i, r := range together {
			a := admitted[r.Call]
			a.res, a.err = res[i], errs[i]
			admitted[r.Call] = a
		}
	}
	partLater(admitted)
	d.mu.Lock()
	maps.Copy(d.admitted, admitted)
	d.mu.Unlock()
}

// partLater has the items of a batch that reserve alone, in their turn, ask for no more than those that reserved together got.
func partLater(admitted map[string]admission) {
	part := map[*Batch]convstore.Budget{}
	for _, a := range admitted {
		if a.Batch != nil && a.res != nil && !a.res.Existed {
			part[a.Batch] = part[a.Batch].Min(a.res.Delegation.Grant.Budget)
		}
	}
	for call, a := range admitted {
		if a.Batch != nil && a.after != nil {
			a.Want = a.Want.Min(part[a.Batch])
			admitted[call] = a
		}
	}
}

// line puts a call behind the latest to the same child, whose end is in last.
func (a *admission) line(last map[string]chan struct{}) {
	if queue := a.queue(); a.err == nil && queue != "" {
		a.after = last[queue]
		a.done = make(chan struct{})
		last[queue] = a.done
	}
}

// claim takes over what was admitted for a call.
func (d *Delegator) claim(call string) (admission, bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	a, ok := d.admitted[call]
	delete(d.admitted, call)
	return a, ok
}

// Release ends what Admit began: it settles what was admitted and never ran, and takes a slot again where this agent gave its
// own to those that it waited for.
func (d *Delegator) Release(ctx context.Context) {
	d.init()
	defer d.resume(ctx)
	d.mu.Lock()
	left := d.admitted
	d.admitted = map[string]admission{}
	d.mu.Unlock()
	for _, a := range left {
		if a.res != nil && !a.res.Existed {
			_ = d.settle(ctx, a.res, &ending{State: convstore.StateCancelled, Reason: "never started"})
		}
		if a.done != nil {
			close(a.done)
		}
	}
}

// settle ends a reservation in the store. What cannot be settled is let go: nobody holds the child's lock then, and whoever
// looks next finds the delegation lost. Else the ending is told what was used.
func (d *Delegator) settle(ctx context.Context, res *convstore.Reservation, e *ending) error {
	settled, err := d.Scope.Settle(ctx, res, convstore.Outcome{
		State: e.State, Reason: e.Reason, PID: e.PID, Started: e.Started, Ended: time.Now(),
	})
	if err != nil {
		d.warn("delegation %s: %v", res.Child.ID, err)
		_ = res.Release()
		return err
	}
	e.Own, e.Total = settled.Own, settled.Total
	LogEnd(d.Log, settled)
	return nil
}

// reserve runs the rule over asks in one transaction. The store takes all or nothing, so what the rule refuses is left
// out of what it is given, and a child that is busy is refused alone by trying the rest again.
func (d *Delegator) reserve(ctx context.Context, asks []request) ([]*convstore.Reservation, []error) {
	res := make([]*convstore.Reservation, len(asks))
	errs := make([]error, len(asks))
	busy := map[convstore.ID]error{}
	for {
		var granted []int
		got, err := d.Scope.Reserve(ctx, func(s convstore.Standing) ([]convstore.Child, error) {
			granted = granted[:0]
			var children []convstore.Child
			var put []Ask
			var from []int // where in asks each of put stands
			for i, r := range asks {
				ask, err := r.present(s)
				if err != nil {
					return nil, err
				}
				if errs[i] = busy[ask.ID]; errs[i] != nil {
					continue
				}
				// One that a crash kept from beginning is decided about again, and reserved under its call.
				if d, ok := s.Existing(ask.Call); ok && !d.Unstarted {
					children = append(children, convstore.Child{Call: ask.Call})
					granted = append(granted, i)
					continue
				}
				put, from = append(put, ask), append(from, i)
			}
			for n, v := range Decide(s, d.caller(), put) {
				i := from[n]
				if errs[i] = v.Err; v.Err != nil {
					if !refused(v.Err) {
						return nil, v.Err
					}
					continue
				}
				v.Child.Replayed = d.Replayed
				children = append(children, v.Child)
				granted = append(granted, i)
			}
			return children, nil
		})
		var b *convstore.BusyError
		if errors.As(err, &b) && b.ID != 0 && busy[b.ID] == nil {
			busy[b.ID] = err
			continue
		}
		if err != nil {
			for i := range errs {
				if errs[i] == nil {
					errs[i] = err
				}
			}
			return res, errs
		}
		d.mu.Lock()
		defer d.mu.Unlock()
		for n, i := range granted {
			res[i] = got[n]
			if !got[n].Existed {
				d.calls++
			}
		}
		return res, errs
	}
}

// caller is this run as the rule sees it.
func (d *Delegator) caller() Caller {
	return Caller{Tools: d.Set.Names(), Limits: d.Limits, Closing: d.Closing, Priced: d.Priced}
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
}

// read reads the arguments of one call: one delegation, or those of a batch. The executor has validated them or will refuse
// the call.
func (d *Delegator) read(ctx context.Context, c tools.Call) []admission {
	if c.Name == toolBatch {
		return d.items(ctx, c)
	}
	var a arguments
	if err := json.Unmarshal(c.Arguments, &a); err != nil {
		return []admission{{request: request{Ask: Ask{Call: c.ID}}, err: fmt.Errorf("arguments: %w", err)}}
	}
	r, err := d.request(ctx, c.ID, c.Name, a)
	return []admission{{request: r, err: err}}
}

// request reads one delegation. Of a child that goes on nothing is resolved: its stored config stands.
func (d *Delegator) request(ctx context.Context, call, tool string, a arguments) (request, error) {
	r := request{Ask: Ask{Call: call, Tool: tool, Title: Title(a.Query)}, query: a.Query, overrides: a.Overrides, context: a.Context}
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
	if len(a.Schema) > 0 {
		var err error
		if r.schema, err = schema.ParseAnswer(a.Schema); err != nil {
			return r, fmt.Errorf("schema: %w", err)
		}
	}
	if tool != toolQuery && tool != toolBatch {
		var err error
		r.Ask, err = d.special(ctx, r.Ask)
		return r, err
	}
	if a.ID != "" && a.ID != "new" {
		id, err := convstore.ParseID(a.ID)
		if err != nil {
			return r, err
		}
		r.ID = id
	}
	var err error
	if r.Model, err = d.override(a.Overrides); err != nil {
		return r, err
	}
	// The enum is checked before anything is read: no name from a model reaches the file system.
	if !slices.Contains(d.Limits.Profiles, a.Config) {
		return r, refuse(CodeProfile, "%q is not one of the profiles that may be delegated to", a.Config)
	}
	r.Profile.Name = a.Config
	if r.ID == 0 {
		r.Profile, err = d.profile(ctx, a.Config, r.Model)
	}
	return r, err
}

// profile resolves a profile once in a run: what a file says changes with the next run, not within a reply.
func (d *Delegator) profile(ctx context.Context, name, model string) (Profile, error) {
	key := name + "\x00" + model
	d.mu.Lock()
	p, ok := d.profiles[key]
	d.mu.Unlock()
	if ok {
		return p, nil
	}
	p, err := d.Resolve(ctx, name, model)
	if err == nil {
		d.mu.Lock()
		d.profiles[key] = p
		d.mu.Unlock()
	}
	return p, err
}

// override reads `assistant.model=X`, the one key that a caller may set.
func (d *Delegator) override(list []string) (model string, err error) {
	for _, o := range list {
		m, ok := strings.CutPrefix(o, "assistant.model=")
		switch {
		case !ok || m == "":
			return "", fmt.Errorf("overrides: only assistant.model=MODEL is allowed, got %q", o)
		case strings.HasPrefix(m, "script/"):
			return "", fmt.Errorf("overrides: %q is not a model that may be chosen", m)
		case len(d.Models) > 0 && !slices.Contains(d.Models, m):
			return "", fmt.Errorf("overrides: %q is not one of the models that may be chosen (%s)", m, strings.Join(d.Models, ", "))
		}
		model = m
	}
	return model, nil
}

// Transcript returns what was said in one descendant, in its last turns, or in all of them where last is 0. The text is whole, and it
// can pass for nothing of ours. It is "" where nothing was said yet.
func (d *Delegator) Transcript(ctx context.Context, id convstore.ID, last int) (string, error) {
	return d.subtree().transcript(ctx, id, last)
}

// subtree is what the caller can read.
func (d *Delegator) subtree() subtree { return subtree{scope: d.Scope, set: d.Set} }

// The names of the tools of this package.
const (
	toolQuery    = "jp_query"
	toolBatch    = "jp_batch_query"
	toolLLMQuery = "llm_query"
	toolList     = "jp_conversation_list"
	toolPrint    = "jp_conversation_print"
	toolGrep     = "jp_conversation_grep"
)

// Func returns what runs the delegation or conversation tool of that name.
func (d *Delegator) Func(name string) (tools.Func, bool) {
	switch name {
	case toolQuery:
		return d.query, true
	case toolBatch:
		return d.batch, true
	case toolList:
		return func(ctx context.Context, c tools.Call) (tools.Result, error) { return d.subtree().list(ctx, c) }, true
	case toolPrint:
		return func(ctx context.Context, c tools.Call) (tools.Result, error) { return d.subtree().print(ctx, c) }, true
	case toolGrep:
		return func(ctx context.Context, c tools.Call) (tools.Result, error) { return d.subtree().grep(ctx, c) }, true
	}
	if d.Special != nil && IsSpecial(tools.Definition{Name: name, Source: tools.SourceDelegation}) {
		return d.query, true
	}
	return nil, false
}

// Calls is how many delegations were made so far.
func (d *Delegator) Calls() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.calls
}

// Repeats reports whether a call of the tool may be made again after a crash: one that has run answers from its run.
func (d *Delegator) Repeats(tool string) bool { return d.delegates(tool) }

// Recalled reports whether a call was answered from a run that had ended before this one began.
func (d *Delegator) Recalled(call string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.recalled[call]
}

// Title is the first line of a query as the title of its conversation: printable and short.
func Title(query string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(query), "\n")
	line = strings.Join(strings.Fields(term.Line(line)), " ")
	const most = 72
	if r := []rune(line); len(r) > most {
		return strings.TrimSpace(string(r[:most-1])) + "…"
	}
	return line
}

func (d *Delegator) warn(format string, a ...any) {
	if d.Warn != nil {
		d.Warn(format, a...)
	}
}

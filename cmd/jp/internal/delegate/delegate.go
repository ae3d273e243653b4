// Package delegate hands scoped work to sub-agents: each a process of its own, on a conversation of its own.
//
//	calls of one reply
//	     │  catalog    reads the arguments, resolves profiles
//	     ▼
//	  requests
//	     │  ledger     one transaction: Decide, the one rule; fork, grant, run lock, delegation
//	     ▼
//	 admissions ── queue: until the tool of each call claims its own
//	     │  runner     slot; process of this program, with the lock inherited; stream; end of the tree
//	     ▼
//	  outcomes         judged from three witnesses: the operating system, the store, the child
//	     │  ledger     one transaction: charge what was used, free the rest
//	     ▼
//	  results          bounded texts that cannot close their own wrapper
//
// A Delegator serves one run of one caller. Its tools are ordinary tools. The agent loop knows only Admit, which lets the calls of one
// reply reserve together, and Release. Calls that come one by one enter lanes first. A jp inside a tool delegates by an Inside, a person
// by Batch: they pass through the same catalog, ledger and runner. A Ceiling says which tools a conversation may hold.
package delegate

import (
	"context"
	"errors"
	"log/slog"
	"sync"

	"jp/cmd/jp/internal/stream"
	"jp/convstore"
	"jp/tools"
	"jp/tools/proc"
)

// Delegator runs sub-agents for one caller. All fields but the noted ones are required.
type Delegator struct {
	Scope  convstore.Scope // below the caller
	Slot   *convstore.Slot // the caller's own, which is given back and taken again from here on; nil at a root
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

	once     sync.Once // makes what follows from the fields above
	catalog  *catalog
	ledger   *ledger
	queue    *queue
	lanes    *lanes
	slots    *treeSlots
	runner   *runner
	recalled sync.Map // calls that were answered from a run that had ended
}

// Run is a child that is about to be started.
type Run struct {
	Model     string // as the override or the profile names it
	Delegates bool   // its grant lets it start sub-agents of its own
	Call      string // on whose behalf, as the ledger identifies it
	Query     string
}

// init makes the parts that a delegation goes through. The fields are set by then: the tools of the caller, which its Func made, are among
// them.
func (d *Delegator) init() {
	d.once.Do(func() {
		if d.InlineResult <= 0 {
			d.InlineResult = 16 << 10
		}
		warn, log, watch, checkpoint, priced := d.Warn, d.Log, d.Watch, d.Checkpoint, d.Priced
		if warn == nil {
			warn = func(string, ...any) {}
		}
		if log == nil {
			log = slog.New(slog.DiscardHandler)
		}
		if watch == nil {
			watch = func(*stream.Delegation) {}
		}
		if checkpoint == nil {
			checkpoint = func(string) {}
		}
		follow := d.Follow
		if follow == nil {
			follow = func(context.Context, Step) {}
		}
		if priced == nil {
			priced = func(string) bool { return false }
		}
		d.catalog = &catalog{
			names: d.Limits.Profiles, models: d.Models, dir: d.Dir, resolve: d.Resolve, special: d.Special,
			profiles: map[string]Profile{}, specials: map[string]Special{},
		}
		d.ledger = &ledger{
			scope: d.Scope, replayed: d.Replayed, warn: warn, log: log,
			caller: Caller{Tools: d.Set.Names(), Limits: d.Limits, Closing: d.Closing, Priced: priced},
		}
		d.queue = &queue{admitted: map[string]admission{}}
		d.lanes = newLanes(d.Lanes)
		d.slots = &treeSlots{scope: d.Scope, own: d.Slot, warn: warn}
		d.runner = &runner{
			caller: d.Caller, subtree: d.subtree(), ledger: d.ledger, slots: d.slots, starts: &starts{},
			host: d.Host, dir: d.Dir, contextTool: d.ContextTool, environ: d.Environ, priced: priced,
			watch: watch, follow: follow, checkpoint: checkpoint, warn: warn, log: log,
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
		asked = append(asked, d.catalog.read(ctx, c)...)
	}
	d.admit(ctx, asked)
}

// admit reserves what was asked together and queues it for the tools.
func (d *Delegator) admit(ctx context.Context, asked []admission) {
	last := map[string]chan struct{}{} // the end of the latest call to one child
	var together []request
	var from []int // index in asked of each of together
	for i := range asked {
		a := &asked[i]
		a.line(last)
		if a.err == nil && a.after == nil {
			together, from = append(together, a.request), append(from, i)
		}
	}
	if len(together) > 0 {
		res, errs := d.ledger.reserve(ctx, together)
		for n, i := range from {
			asked[i].res, asked[i].err = res[n], errs[n]
		}
	}
	partLater(asked)
	d.queue.put(asked)
}

// admitAlone admits a call that is a reply of its own, which shares what is free with others. starved reports that all of it was refused
// because nothing was left.
func (d *Delegator) admitAlone(ctx context.Context, c tools.Call, among int) (starved bool) {
	asked := d.catalog.read(ctx, c)
	for i := range asked {
		asked[i].Among = among
	}
	d.admit(ctx, asked)
	for _, a := range asked {
		var no *Refusal
		if !errors.As(a.err, &no) || no.Code != CodeTokens && no.Code != CodeCost {
			return false
		}
	}
	return len(asked) > 0
}

// Release ends what Admit began: it settles what was admitted and never run, and takes a slot again where this agent gave its own to those
// that it waited for.
func (d *Delegator) Release(ctx context.Context) {
	d.init()
	defer d.slots.resume(ctx)
	for _, a := range d.queue.drain() {
		if a.res != nil && !a.res.Existed {
			d.ledger.cancel(ctx, a.res)
		}
		if a.done != nil {
			close(a.done)
		}
	}
}

// Leave hands over the slot that this agent has by now, nil for none.
func (d *Delegator) Leave() *convstore.Slot {
	d.init()
	return d.slots.leave()
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

// Calls returns how many delegations were made so far.
func (d *Delegator) Calls() int {
	d.init()
	return d.ledger.calls()
}

// Repeats reports whether a call of the tool may be made again after a crash: one that has run answers from its run.
func (d *Delegator) Repeats(tool string) bool { return d.delegates(tool) }

// Recalled reports whether a call was answered from a run that had ended before this one began.
func (d *Delegator) Recalled(call string) bool {
	_, ok := d.recalled.Load(call)
	return ok
}

// The points of a delegation's way.
const (
	Reserved = "reserved"
	Running  = "running"
	Ended    = "ended"
	Settled  = "settled"
)

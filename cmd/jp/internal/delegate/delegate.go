// Package delegate hands scoped work to sub-agents: each a process of its own, on a conversation of
// its own.
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
// A Delegator serves one run of one caller. Its tools are ordinary tools. The agent loop knows only
// Admit, which reserves the calls of one reply together, and Release. Calls that come one by one
// enter lanes first. A jp inside a tool delegates through an Inside, a person through Batch: they
// use the same catalog, ledger and runner. A Ceiling says which tools a conversation may hold.
package delegate

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"sync"

	"jp/cmd/jp/internal/call"
	"jp/cmd/jp/internal/stream"
	"jp/convstore"
	"jp/tools"
	"jp/tools/proc"
)

// Delegator runs sub-agents for one caller. A field is required where its comment does not say what
// its zero value means. Fields are set before the first call and not changed. Safe for concurrent
// use.
type Delegator struct {
	Scope convstore.Scope // below the caller
	// slot of the caller, which the Delegator owns until TakeSlot; nil at a root
	Slot   *convstore.Slot
	Caller convstore.ID
	Set    tools.Set // tools that the caller holds, those of Func among them
	Limits Limits

	Closing convstore.Budget        // amounts set aside for the last call of the caller's own model
	Priced  func(model string) bool // whether the price of a model is known; nil = of none

	Replayed bool // whether a recording answers in sub-agents too

	// models that an assistant.model override may name; empty = any but script/
	Models       []string
	ContextTool  string // tool of the child that answers a context_query; "" = none
	InlineResult int    // most bytes of a result that the model gets; 0 = 16 KiB

	// Resolve resolves a profile under NONE, with an override of its model, "" for none.
	Resolve func(ctx context.Context, name, model string) (Profile, error)
	// Special returns what a special tool stands for; nil = the caller holds none.
	Special func(ctx context.Context, tool string) (Special, error)

	// Lanes bounds how many calls run at the same time that are each a reply by itself, like those
	// of an MCP client. Each gets an even part of what is free; the others wait before they
	// reserve. 0 = no bound: each call gets as much as if it were the only one.
	Lanes int

	// Below returns what a sub-agent delegates with, when it does so for the first time: a Delegator
	// with the fields that its own config decides. The others, such as Slot, are set here.
	Below func(context.Context, Below) (*Delegator, error)
	// Placed is told the place of a call in a recording; nil = nothing is recorded.
	Placed func(call, place string)
	// Command carries out the command line of a jp inside a call of a tool, and returns its status.
	Command func(ctx context.Context, in *Inside, tool tools.Definition, r call.Request) int

	Host    *proc.Host
	Dir     string                              // working directory of the children
	Environ func(context.Context, Run) []string // environment of a child, with what its model needs
	// progress, from any goroutine; nil = nobody watches
	Watch func(d *stream.Delegation)
	Warn  func(format string, a ...any) // nil = warnings are dropped
	Log   *slog.Logger                  // nil = nothing is logged

	// Follow is called at each step of a delegation, with the context of its call, from any
	// goroutine; nil = nobody follows.
	Follow func(context.Context, Step)

	// Checkpoint is called at the points Reserved, Running, Ended and Settled of a delegation, so
	// that tests can crash at each of them; nil = no test does.
	Checkpoint func(point string)

	starts *starts // of the process; nil = init makes them

	once     sync.Once // for init, which makes the fields below
	catalog  *catalog
	ledger   *ledger
	queue    *queue
	lanes    *lanes
	slots    *treeSlots
	runner   *runner
	recalled sync.Map // ids of calls that were answered from a run that had ended
}

// Run is a child that is about to start.
type Run struct {
	Model string // model as the override or the profile names it
	Call  string // id of the call in the ledger
	Query string
}

// init makes the parts that a delegation passes through. It waits for the first call, because Set
// holds tools that Func has made.
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
			caller: d.Caller, subtree: d.subtree(), ledger: d.ledger, slots: d.slots, starts: cmp.Or(d.starts, &starts{}),
			host: d.Host, dir: d.Dir, contextTool: d.ContextTool, environ: d.Environ, below: d.Below, priced: priced,
			watch: watch, follow: follow, checkpoint: checkpoint, warn: warn, log: log,
		}
	})
}

// Admit reserves the delegations among the calls of one reply in one transaction, in call order. A
// call that the rule refuses does not stop the others. Calls to the same child run in call order,
// so all but the first are reserved when their turn comes. Every admitted call must reach its tool
// or Release.
func (d *Delegator) Admit(ctx context.Context, calls []tools.Call) {
	d.init()
	var asked []admission
	for _, c := range calls {
		if !d.delegates(c.Name) {
			continue
		}
		// A call that a person is asked about, or whose arguments are not valid, must not fork a
		// child first.
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

// admit reserves these calls together and queues them for their tools.
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

// admitAlone admits a call that is a reply by itself, and divides what is free among the running
// calls. starved reports that the whole call was refused because nothing was left.
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

// Release ends what Admit began. It settles what was admitted and never run, and takes a slot again
// where the caller gave back its own to wait for sub-agents.
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

// TakeSlot returns the slot that the caller has now, nil for none. The caller of
// TakeSlot owns it then.
func (d *Delegator) TakeSlot() *convstore.Slot {
	d.init()
	return d.slots.handOver()
}

// Transcript returns what was said in one descendant, in its last turns, or in all of them where
// last is
// 0. The text is not cut. It cannot close a wrapper of ours. It is "" where nothing was said yet.
func (d *Delegator) Transcript(ctx context.Context, id convstore.ID, last int) (string, error) {
	return d.subtree().transcript(ctx, id, last)
}

// subtree returns what the caller can read.
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

// IsTool reports whether a delegation or conversation tool of this name can exist.
func IsTool(name string) bool {
	switch name {
	case toolQuery, toolBatch, toolList, toolPrint, toolGrep:
		return true
	}
	return IsSpecial(tools.Definition{Name: name, Source: tools.SourceDelegation})
}

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

// Calls returns how many delegations were reserved so far.
func (d *Delegator) Calls() int {
	d.init()
	return d.ledger.calls()
}

// Repeats reports whether a call of the tool may be made again after a crash: a call whose child
// has run is answered from that run.
func (d *Delegator) Repeats(tool string) bool { return d.delegates(tool) }

// Recalled reports whether a call was answered from a run that had ended before this one began.
func (d *Delegator) Recalled(call string) bool {
	_, ok := d.recalled.Load(call)
	return ok
}

// The points of a delegation, see Delegator.Checkpoint.
const (
	Reserved = "reserved"
	Running  = "running"
	Ended    = "ended"
	Settled  = "settled"
)

// Package delegate hands scoped work to sub-agents: each has a process and a conversation of its own.
//
//	calls of one reply
//	     │  catalog    reads the arguments, resolves profiles
//	     ▼
//	  requests
//	     │  ledger     one transaction: rule.Decide; fork, grant, run lock, delegation
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
// use the same catalog, ledger and runner. What a sub-agent may do is decided by package rule.
package delegate

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"jp/cmd/jp/internal/call"
	"jp/cmd/jp/internal/rule"
	"jp/cmd/jp/internal/stream"
	"jp/cmd/jp/internal/subprocess"
	"jp/cmd/jp/internal/subtree"
	"jp/cmd/jp/internal/wire"
	"jp/convstore"
	"jp/tools"
	"jp/tools/fs"
	"jp/tools/proc"
)

// Options say for whom a Delegator works, and with what. A field is required where its comment does
// not say what its zero value means.
type Options struct {
	Scope  convstore.Scope // below the caller
	Slot   *convstore.Slot // slot of the caller, which the Delegator owns until TakeSlot; nil at a root
	Limits rule.Limits

	Closing convstore.Budget        // amounts set aside for the last call of the caller's own model
	Priced  func(model string) bool // whether the price of a model is known; nil = of none

	// Answering returns all models that may answer under a stored config with overrides. It must
	// not use the store. A nil function says of all that it is the first alone.
	Answering func(config []byte, overrides []string) ([]string, error)

	// Down says why a model cannot be asked; nil = nothing is known against it. It must not use the
	// store. Without the function nothing is known against any model.
	Down      func(model string) error
	WaitLimit time.Duration // longest wait of a sub-agent for a limit to reset; 0 = the usual one
	Keys      []string      // names of variables that no tool of a sub-agent gets, see wire.Start
	Kept      fs.Kept       // what else sub-agents keep from their tools, see wire.Start

	Replayed bool // whether a recording answers in sub-agents too
	Taped    bool // whether the run is recorded or replayed: then no answer from before will do

	ContextTool  string // tool of the child that answers a context_query; "" = none
	InlineResult int    // most bytes of a result that the model gets; 0 = 16 KiB

	// Resolve resolves a profile under NONE, with overrides of its config.
	Resolve func(ctx context.Context, name string, overrides []string) (rule.Profile, error)
	// Special returns what a special tool stands for; nil = the caller holds none.
	Special func(ctx context.Context, tool string) (Special, error)

	// Readable has the answers that may be used again; nil = the conversations below the caller.
	Readable *convstore.View

	// Lanes bounds how many calls run at the same time that are each a reply by itself, like those
	// of an MCP client. Each gets an even part of what is free; the others wait before they
	// reserve. 0 = no bound: each call gets as much as if it were the only one.
	Lanes int

	// Below returns what a sub-agent delegates with, when it does so for the first time: the
	// options that its own config decides, and its tools. The Delegator sets the others, such as
	// Slot; nil = no sub-agent delegates.
	Below func(context.Context, Below) (Options, Arm, error)
	// Change returns what the overrides of a sub-agent that is continued change in its stored
	// config; nil = nothing.
	Change func(context.Context, Below) (*convstore.ConfigDelta, error)
	// Record returns what keeps the lines that a sub-agent records; nil = nothing is recorded.
	Record func(Below) func(line json.RawMessage) error
	// Placed is told the place of a call in a recording; nil = nothing is recorded.
	Placed func(call, place string)
	// Command carries out the command line of a jp inside a call of a tool, and returns its status;
	// nil = the caller's tools run no jp.
	Command func(ctx context.Context, in *Inside, tool tools.Definition, r call.Request) int

	Host    *proc.Host
	Dir     string                              // working directory of the children
	Environ func(context.Context, Run) []string // environment of a child, with what its model needs
	Warn    func(format string, a ...any)       // nil = warnings are dropped
	Log     *slog.Logger                        // nil = nothing is logged

	// Models returns the models of a sub-agent, which asks them through this process; nil = none
	// may be asked.
	Models func(context.Context, Below) []wire.Model

	// Variables returns the variables that a sub-agent of this machine gets for its tools. nil = none.
	Variables func(context.Context, Below) []string
	// Place returns what runs the process of a sub-agent, nil = this machine; nil = all run here.
	Place func(context.Context, Below) (subprocess.Runner, error)

	// Served returns the tools that are served to a sub-agent, when it starts; nil = none
	// holds any. An error ends the sub-agent before that.
	Served func(context.Context, Below) (Served, error)

	Reads call.Readers // of the conversation tools

	// Follow is called at each step of a delegation, with the context of its call, from any
	// goroutine; nil = nobody follows.
	Follow func(context.Context, Step)

	// Checkpoint is called at the points Reserved, Running, Ended and Settled of a delegation, so
	// that tests can crash at each of them; nil = no test does.
	Checkpoint func(point string)
}

// Delegator runs sub-agents for one caller. Safe for concurrent use.
type Delegator struct {
	scope    convstore.Scope
	set      tools.Set
	inline   int // Options.InlineResult
	readable *convstore.View
	catalog  *catalog
	ledger   *ledger
	queue    *queue
	lanes    *lanes
	slots    *treeSlots
	runner   *runner
	reads    call.Readers // one: a caller with many calls keeps no other one waiting for more than that
	placed   atomic.Int64 // calls that were admitted so far
	said     sync.Map     // texts of refusals of models that cannot be asked, which are said once
	recalled sync.Map     // ids of calls that were answered from a run that had ended
	refused  pace         // of what is shown of calls that are refused
}

// Run is a child that is about to start.
type Run struct {
	Call  string // id of the call in the ledger
	Query string
}

// Funcs returns what runs the delegation or conversation tool of a name, and whether there is such
// a tool.
type Funcs func(name string) (tools.Func, bool)

// Arm returns the tools that a caller holds, those made of Funcs among them. It calls none of them.
type Arm func(Funcs) (tools.Set, error)

// New returns a Delegator whose caller holds the tools that arm returns. It fails only if arm does.
func New(o Options, arm Arm) (*Delegator, error) {
	if o.InlineResult <= 0 {
		o.InlineResult = 16 << 10
	}
	if o.Warn == nil {
		o.Warn = func(string, ...any) {}
	}
	o.Log = cmp.Or(o.Log, slog.New(slog.DiscardHandler))
	if o.Checkpoint == nil {
		o.Checkpoint = func(string) {}
	}
	if o.Follow == nil {
		o.Follow = func(context.Context, Step) {}
	}
	if o.Models == nil {
		o.Models = func(context.Context, Below) []wire.Model { return []wire.Model{{Err: errNoModel}} }
	}
	if o.Record == nil {
		o.Record = func(Below) func(json.RawMessage) error { return nil }
	}
	if o.Variables == nil {
		o.Variables = func(context.Context, Below) []string { return nil }
	}
	if o.Place == nil {
		o.Place = func(context.Context, Below) (subprocess.Runner, error) { return nil, nil }
	}
	if o.Served == nil {
		o.Served = func(context.Context, Below) (Served, error) { return Served{}, nil }
	}
	o.Readable = cmp.Or(o.Readable, &o.Scope.View)
	if o.Priced == nil {
		o.Priced = func(string) bool { return false }
	}
	d := &Delegator{
		reads: make(call.Readers, 1),
		scope: o.Scope, inline: o.InlineResult, readable: o.Readable, queue: &queue{admitted: map[string]admission{}}, lanes: newLanes(o.Lanes),
		slots:   &treeSlots{scope: o.Scope, own: o.Slot, warn: o.Warn},
		catalog: &catalog{limits: o.Limits, dir: o.Dir, resolve: o.Resolve, special: o.Special},
	}
	var err error
	if d.set, err = arm(d.function); err != nil {
		return nil, err
	}
	d.ledger = &ledger{
		scope: o.Scope, replayed: o.Replayed, taped: o.Taped, warn: o.Warn, log: o.Log,
		caller: rule.Caller{Tools: d.set.Names(), Limits: o.Limits, Closing: o.Closing, Priced: o.Priced, Answering: o.Answering, Down: o.Down},
	}
	d.runner = &runner{
		o: o, caller: o.Scope.Caller(), ledger: d.ledger, slots: d.slots, starts: &starts{},
		watch: func(*stream.Delegation) {},
	}
	return d, nil
}

// Watch passes progress to f, which is called from any goroutine. It must be called before the
// first call of a tool.
func (d *Delegator) Watch(f func(*stream.Delegation)) { d.runner.watch = f }

// Scope returns the scope below the caller.
func (d *Delegator) Scope() convstore.Scope { return d.scope }

// Set returns the tools that the caller holds.
func (d *Delegator) Set() tools.Set { return d.set }

// Admit reserves the delegations among the calls of one reply in one transaction, in call order. A
// call that the rule refuses does not stop the others. Calls to the same child run in call order,
// so all but the first are reserved when their turn comes. Every admitted call must reach its tool
// or Release.
func (d *Delegator) Admit(ctx context.Context, calls []tools.Call) {
	var asked []admission
	for _, c := range calls {
		if !Delegates(d.set, c.Name) {
			continue
		}
		// A call that a person is asked about, or whose arguments are not valid, must not fork a
		// child first.
		t, ok := d.set.Get(c.Name)
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
		a.place = int(d.placed.Add(1))
		a.line(last)
		if a.err == nil && a.after == nil {
			together, from = append(together, a.request), append(from, i)
		} else if a.after != nil && a.Batch != nil {
			a.Batch.Later++
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

// admitAlone admits a call that is a reply by itself, when it has a lane, and divides what is free
// among the running calls. end ends the call. With an error, nothing of it is left.
func (d *Delegator) admitAlone(ctx context.Context, c tools.Call) (end func(), err error) {
	var asked []admission
	read := func() { asked = d.catalog.read(ctx, c) } // a profile may have to start servers
	end, err = d.lanes.enter(ctx, read, func(among int) (starved bool) {
		for i := range asked {
			asked[i].Among = among
		}
		d.admit(ctx, asked)
		for _, a := range asked {
			var no *rule.Refusal
			if !errors.As(a.err, &no) || no.Code != rule.CodeTokens && no.Code != rule.CodeCost {
				return false
			}
		}
		return len(asked) > 0
	})
	if err != nil { // the last try was refused, or there was none
		for _, a := range asked {
			d.queue.claim(a.Call)
		}
	}
	return end, err
}

// Release ends what Admit began. It settles what was admitted and never run, and takes a slot again
// where the caller gave back its own to wait for sub-agents.
func (d *Delegator) Release(ctx context.Context) {
	defer func() { _ = d.slots.resume(ctx) }()
	for _, a := range d.queue.drain() {
		if a.res != nil && !a.res.Existed {
			d.ledger.cancel(ctx, a.res)
		}
		if a.done != nil {
			close(a.done)
		}
	}
}

// TakeSlot returns the slot that the caller has now, nil for none. Who calls it owns it then.
func (d *Delegator) TakeSlot() *convstore.Slot { return d.slots.handOver() }

// Transcript returns the beginning of what was said in one descendant, at most most bytes, and how
// many bytes there are. It cannot close a wrapper of ours.
func (d *Delegator) Transcript(ctx context.Context, id convstore.ID, most int) (text string, size int, err error) {
	return d.subtree().Transcript(ctx, id, 0, 0, most)
}

// subtree returns what the caller can read.
func (d *Delegator) subtree() subtree.Reader { return subtree.Reader{Scope: d.scope, Set: d.set} }

// The names of the tools of this package.
const (
	toolQuery    = "jp_query"
	toolBatch    = "jp_batch_query"
	toolLLMQuery = "llm_query"
)

// IsTool reports whether a delegation or conversation tool of this name can exist.
func IsTool(name string) bool {
	return name == toolQuery || name == toolBatch || subtree.IsTool(name) || IsSpecial(tools.Definition{Name: name, Source: tools.SourceDelegation})
}

// function is the Funcs of the Delegator.
func (d *Delegator) function(name string) (tools.Func, bool) {
	switch name {
	case toolQuery:
		return d.query, true
	case toolBatch:
		return d.batch, true
	}
	if subtree.IsTool(name) {
		return func(ctx context.Context, c tools.Call) (r tools.Result, err error) {
			err = d.reads.Run(ctx, nil, func(io.Reader) error {
				return d.runner.o.Reads.Run(ctx, nil, func(io.Reader) (err error) {
					r, err = d.subtree().Tool(name)(ctx, c)
					return err
				})
			})
			return r, err
		}, true
	}
	if d.catalog.special != nil && IsSpecial(tools.Definition{Name: name, Source: tools.SourceDelegation}) {
		return d.query, true
	}
	return nil, false
}

// Calls returns how many delegations were reserved so far.
func (d *Delegator) Calls() int { return int(d.ledger.made.Load()) }

// Repeats reports whether a call of the tool may be made again after a crash: a call whose child
// has run is answered from that run.
func (d *Delegator) Repeats(tool string) bool { return Delegates(d.set, tool) }

// Recalled reports whether a call was answered from a run that had ended before this one began.
func (d *Delegator) Recalled(call string) bool {
	_, ok := d.recalled.Load(call)
	return ok
}

// The points of a delegation, see Options.Checkpoint.
const (
	Reserved = "reserved"
	Running  = "running"
	Ended    = "ended"
	Settled  = "settled"
)

// Package agent is the turn loop. It asks a model and runs the tools that the model calls, until it
// answers without a call.
//
//	    ┌─────────────────── history: the events of the conversation ◄──────────────────┐
//	    ▼                                                                               │
//	request ── compactor: shorter, where it would come near the window ── asker ──► reply
//	                                                                                    │
//	history ◄── results ◄── call: Admit, the tools, Release ◄── it calls tools ◄────────┤
//	history ◄── answer and end of the turn ◄── verdict ◄── it answers, or a limit ◄─────┘
//
// A history is stored in steps, each before the next one begins: the user's message before the
// model is asked, a whole reply in one transaction, each result as its call ends. A crash loses at
// most the reply that was streaming. What a stopped run had received is stored, and a Loop on the
// same conversation resumes from there.
//
// An asker makes one call of the model, with its retries. The bound of each attempt is in the
// account of the tree while it is on its way, so that no call can use more than what is left. At a
// limit the turn is closed: one last call, without tools, for which tokens and time are set aside
// from the start. Its answer makes the turn partial.
//
// The loop knows nothing of sub-agents but this: all calls of a reply are passed to Admit before
// the first of them runs.
package agent

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"time"

	"jp/cmd/jp/internal/model"
	"jp/convstore"
	"jp/tools"
	"jp/tools/schema"
)

// Model is a model that answers in turns.
type Model struct {
	Writer
	Provider    string // provider whose reasoning may be replayed
	Temperature *float64
	Limit       int64 // most estimated tokens of a request to it; 0 = as many as it takes
}

// Loop runs turns of one locked conversation. Fields are set before the first turn and not changed.
type Loop struct {
	Log      Log
	Models   []Model // each stands in for the one before, see stand.go; at least one
	Escalate *Model  // goes on where a turn would not end well; nil = none does
	Replayed bool    // whether a recording answers, at no cost

	System    []model.Section
	Tools     tools.Executor
	Profile   string
	MaxTokens int // most tokens of one reply; 0 = the default of the model
	Reasoning string
	MaxRounds int // tool rounds in one turn; 0 = no limit
	Window    int // earlier turns that the model is sent; 0 = all

	// Limits are those of the session that a turn begins or resumes; nil in a delegated
	// conversation, whose caller has set them.
	Limits *convstore.Limits

	// Change is what this run changes in the config of the conversation. It is stored with the
	// first step of the turn; nil = nothing.
	Change *convstore.ConfigDelta
	// Back takes back the model of Change. It is stored with the end of a turn whose first model
	// does not exist; nil = nothing.
	Back *convstore.ConfigDelta

	// Admit gets all calls of a reply before the first of them runs. Release is called after the
	// last has ended. Repeat reports whether a tool answers a repeated call from the run that there
	// is, so that a resumed turn may call it again. Await is called with the ids of the calls that
	// are made again, and waits until that run has ended; its error leaves the turn as it is.
	// Recalled reports whether a call was answered so. All may be nil.
	Admit    func(context.Context, []tools.Call)
	Release  func(context.Context)
	Repeat   func(tool string) bool
	Await    func(ctx context.Context, calls []string) error
	Recalled func(call string) bool
	Foreign  uint64 // number of the last event that came by an import; no call up to it is made again

	Asked    convstore.Digest // of what Send is given; zero = its answer is not found again
	Personal func() bool      // reports whether a person's word is part of how the turn went; nil = it is not

	// context of a turn that Send begins; its Tokens also bound that of a resumed turn
	Fetch     Fetch
	Synthesis Synthesis // prompt and tools of a turn into which late results are folded
	Compact   Compact   // when and how the thread is made shorter

	Watch Watch

	paid bill
}

// Used returns what the calls of models in this Loop have used so far, also those that could not be
// stored. It must not be called while a turn runs.
func (l *Loop) Used() convstore.Spend { return l.paid.Spend }

// Watch is what somebody sees of a turn while it runs. The goroutine of the loop calls the
// functions. Each may be nil.
type Watch struct {
	Text      func(delta string)
	Reasoning func(delta string)
	Message   func(Message)
	Call      func(convstore.ToolCall)
	Result    func(call convstore.ToolCall, r convstore.ToolResult, took time.Duration)
	Note      func(convstore.Note)
	Compacted func(convstore.Compaction)
}

// Message is one complete reply of the model.
type Message struct {
	ID    string // id of the event of its model call
	Text  string
	Calls []convstore.ToolCall
	Usage convstore.Usage
	Cost  *int64     // nano-dollars; nil = unknown
	Model string     // full id
	Stop  model.Stop // StopCut where the run cut it off
	Took  time.Duration
}

// Outcome is how a turn ended.
type Outcome struct {
	Turn       int
	State      convstore.State
	Reason     string
	Limit      Limit           // limit at which the turn was stopped; "" = none
	Text       string          // answer
	Structured json.RawMessage // answer as a value that matches the schema of the turn; nil = none
	Model      string          // full id of the model that was asked last
	Usage      convstore.Usage
	Cost       *int64                     // nano-dollars; nil = the cost of a call is unknown
	Models     map[string]convstore.Spend // what each model used, by its full id
	Err        error                      // why State is Error, Timeout or Cancelled
	Back       bool                       // whether the conversation has its model of before again
	First      bool                       // whether no turn of the conversation ended well before, and this one did
}

// ErrNothingToResume is returned by Resume when the last turn was answered, or is one without an agent.
var ErrNothingToResume = errors.New("the last turn is complete, or no agent took it; there is nothing to resume")

// turn is a running turn. newTurn makes a valid one.
type turn struct {
	loop    *Loop
	history *history
	bill    *bill
	asker   *asker
	models  []Model // those of the loop, and behind them the one that it escalates to
	at      int     // index in models of the one that is asked

	compactor *compactor

	schema *schema.Answer  // form of the answer; nil = free text
	tools  tools.Executor  // tools that this turn may call
	system []model.Section // prompt of this turn, without context and schema
	rounds int             // number of replies that called tools
	free   int             // number of those that do not count for the limit
	mends  int             // number of answers that did not match the schema and were sent back

	asked convstore.Digest // Loop.Asked of a turn that Send has begun; zero = its answer is not found again
}

// newTurn returns the turn whose events begin at history.from. form is the form of its answer, nil
// for free text.
func (l *Loop) newTurn(h *history, form *schema.Answer) *turn {
	t := &turn{loop: l, history: h, bill: &bill{}, schema: form, tools: l.Tools, system: l.System}
	t.models = l.all()
	t.asker = l.newAsker(h, t.bill)
	t.asker.tell = teller{on: true, subs: slices.ContainsFunc(slices.Collect(l.Tools.Set.All()), func(t tools.Tool) bool { return t.Delegates() })}
	t.asker.text, t.asker.reasoning = l.Watch.Text, l.Watch.Reasoning
	if form != nil {
		t.asker.text = nil // nobody sees an answer before it is checked
	}
	t.compactor = &compactor{
		settings: l.Compact, limit: t.models[0].Limit, history: h, asker: t.asker, window: l.Window, profile: l.Profile,
		request: t.request, note: t.note, watch: l.Watch.Compacted,
	}
	return t
}

// newAsker returns an asker of the loop's model, for the turn whose events begin at history.from.
func (l *Loop) newAsker(h *history, b *bill) *asker {
	return &asker{
		model: l.Models[0].Writer, others: l.standIns(0),
		replayed: l.Replayed, history: h, bill: b, paid: &l.paid, aside: Closing(l.prices()...), since: h.from,
	}
}

// Send runs one turn on a new user message. An error means that the store failed. Every other
// failure is in the Outcome.
func (l *Loop) Send(ctx context.Context, msg convstore.UserMessage) (Outcome, error) {
	h, err := readHistory(ctx, l.Log)
	if err != nil {
		return Outcome{}, err
	}
	// Calls that a crash left without a result get one in the store, which says what happened.
	if err := h.save(ctx, abandoned(h.events)...); err != nil {
		return Outcome{}, err
	}
	t, err := l.open(h, msg, l.Asked)
	if err != nil {
		return Outcome{}, err
	}
	return t.run(ctx, func(work context.Context) error { return t.fetch(ctx, work, l.Fetch) })
}

// Stored returns the words of a request as a turn stores them: valid UTF-8, with no line break at
// their end. Who looks for a request in the store looks for these.
func Stored(words string) string {
	return strings.ToValidUTF8(strings.TrimRight(words, "\n"), "\uFFFD")
}

// Continue is the request to an agent whose last turn did not end well.
const Continue = "Continue where you stopped."

// NoteCut is the kind of the note that asks for the rest of a turn that was cut off with a reply. It is sent as
// a message of the user.
const NoteCut = "cut"

const resumeCut = "The reply was cut off here. Go on from what was found until then: the last message must be the whole answer."

// Resume resumes a turn that was cut off. Of the calls that had not ended, only those that Repeat
// allows are made again. If the last turn did not end well, a new turn begins.
func (l *Loop) Resume(ctx context.Context) (Outcome, error) {
	h, err := readHistory(ctx, l.Log)
	if err != nil {
		return Outcome{}, err
	}
	start, end := LastTurn(h.events)
	switch {
	case start < 0 || end != nil && end.State == convstore.StateOK || noAgent(h.events[start:]):
		return Outcome{}, ErrNothingToResume
	case end != nil:
		if err := h.save(ctx, abandoned(h.events)...); err != nil {
			return Outcome{}, err
		}
		t, err := l.open(h, convstore.UserMessage{Text: Continue, Schema: schemaOf(h.events[start:])}, convstore.Digest{})
		if err != nil {
			return Outcome{}, err
		}
		return t.run(ctx, nil)
	}
	form, err := parseForm(schemaOf(h.events[start:])) // before anything is stored
	if err != nil {
		return Outcome{}, err
	}
	if l.Change != nil {
		if err := h.save(ctx, *l.Change); err != nil {
			return Outcome{}, err
		}
	}
	if l.Limits != nil {
		if err := l.Log.Limit(ctx, *l.Limits); err != nil {
			return Outcome{}, err
		}
	}
	if h, err = readHistory(ctx, l.Log); err != nil { // with the call of the process that died, which the first write charges
		return Outcome{}, err
	}
	h.from = start
	t := l.reopen(h, form)
	var again []convstore.ToolCall
	if !t.spent() { // otherwise what is pending is refused
		if again, err = t.await(ctx); err != nil {
			return Outcome{}, err
		}
		if msgs := t.next().Messages; len(msgs) > 0 && msgs[len(msgs)-1].Role == model.Assistant {
			if err := t.note(ctx, convstore.Note{Kind: NoteCut, Text: resumeCut}); err != nil {
				return Outcome{}, err
			}
		}
	}
	return t.run(ctx, func(work context.Context) error { return t.repeat(ctx, work, again) })
}

// noAgent reports whether a turn is that of a command that only delegates. What earlier versions of jp began has no
// mark: no model was asked in it, and its first words are those of such a command.
func noAgent(turn []convstore.Event) bool {
	old := false
	for _, ev := range turn {
		switch b := ev.Body.(type) {
		case convstore.TurnStart:
			if b.NoAgent {
				return true
			}
		case convstore.UserMessage:
			old = b.Text == "an MCP client" || strings.Contains(b.Text, "batch of ") && strings.HasSuffix(b.Text, ", from a shell")
		case convstore.ModelCall:
			return false
		}
	}
	return old
}

// await returns the calls of a turn that was cut off that are made again, once the runs have ended that they
// had started. The others get a result.
func (t *turn) await(ctx context.Context) (again []convstore.ToolCall, err error) {
	l := t.loop
	foreign := map[string]bool{} // ids of calls that no model made here
	for _, ev := range t.history.current() {
		if c, ok := ev.Body.(convstore.ToolCall); ok && ev.Seq <= l.Foreign {
			foreign[c.ID] = true
		}
	}
	var ids []string
	var lost []convstore.Body
	for _, c := range pending(t.history.current()) {
		if l.Repeat != nil && l.Repeat(c.Name) && !foreign[c.ID] {
			again, ids = append(again, c), append(ids, c.ID)
		} else {
			lost = append(lost, convstore.ToolResult{ID: c.ID, Text: interrupted, IsError: true})
		}
	}
	if l.Await != nil && len(again) > 0 {
		if err := l.Await(ctx, ids); err != nil {
			return nil, err
		}
	}
	return again, t.history.save(ctx, lost...)
}

// repeat makes calls again. Where their results are late, the rest of the turn only folds them in.
func (t *turn) repeat(ctx, work context.Context, calls []convstore.ToolCall) error {
	if err := t.call(work, calls); err != nil {
		return err
	}
	if !t.loop.late(calls, resultsOf(t.history.current())) {
		return nil
	}
	if err := t.note(ctx, convstore.Note{Kind: NoteSynthesis, Text: "late results are folded in: for the rest of this turn nothing is held but what reads"}); err != nil {
		return err
	}
	t.fold()
	return nil
}

// open begins a new turn, which is stored with its first step.
func (l *Loop) open(h *history, msg convstore.UserMessage, asked convstore.Digest) (*turn, error) {
	form, err := parseForm(msg.Schema) // before anything is stored
	if err != nil {
		return nil, err
	}
	if l.Change != nil {
		h.add(*l.Change)
	}
	h.begin(convstore.TurnStart{Limits: l.Limits}, msg)
	t := l.newTurn(h, form)
	t.asked = asked
	return t, nil
}

// reopen returns the open turn whose events begin at history.from, with what its events say of it.
// form is as in newTurn.
func (l *Loop) reopen(h *history, form *schema.Answer) *turn {
	t := l.newTurn(h, form)
	called := false
	for _, ev := range h.current() {
		switch b := ev.Body.(type) {
		case convstore.ToolCall:
			called = called || !isFetch(b.ID)
		case convstore.ModelCall:
			t.bill.add(b)
			if called {
				t.rounds++
			}
			called = false
		case convstore.Note:
			switch b.Kind {
			case NoteSchema:
				t.mends++
			case NoteSynthesis:
				t.fold()
			case NoteStandIn:
				if t.at+1 < len(l.Models) {
					t.turnTo(t.at + 1)
				}
			case NoteEscalation:
				if l.Escalate != nil {
					t.turnTo(len(l.Models))
					t.free = t.rounds
				}
			}
		}
	}
	return t
}

// note stores a note and shows it.
func (t *turn) note(ctx context.Context, n convstore.Note) error {
	if err := t.history.save(ctx, n); err != nil {
		return err
	}
	if t.loop.Watch.Note != nil {
		t.loop.Watch.Note(n)
	}
	return nil
}

// run does what comes first (nil = nothing), asks the model and runs the tools that it calls, until the turn
// ends. work is ctx without the time of the closing call, from here on.
func (t *turn) run(ctx context.Context, first func(work context.Context) error) (Outcome, error) {
	work, stop := working(ctx)
	defer stop()
	if first != nil {
		if err := first(work); err != nil {
			return Outcome{}, err
		}
	}
	for {
		if ctx.Err() != nil {
			return t.end(ctx, reply{}, context.Cause(ctx))
		}
		if l := t.reached(work); l != nil {
			if l.kind == LimitTurns && t.escalates() {
				if err := t.refuse(ctx, l); err != nil {
					return Outcome{}, err
				}
				if err := t.escalate(ctx, l.reason); err != nil {
					return Outcome{}, err
				}
				continue
			}
			return t.close(ctx, l)
		}
		if err := t.compactor.fit(work); err != nil {
			return Outcome{}, err
		}
		r, stop, err := t.ask(work, t.next, false)
		if broken := (storeError{}); errors.As(err, &broken) {
			return Outcome{}, broken.error
		}
		if stop != nil {
			return t.close(ctx, stop)
		}
		if err != nil && ctx.Err() == nil && t.reached(work) != nil {
			if err := t.storeCut(ctx, r); err != nil {
				return Outcome{}, err
			}
			continue
		}
		if err != nil && !r.any && ctx.Err() == nil {
			if again, err := t.compactor.tooLong(work, t.next(), err); err != nil {
				return Outcome{}, err
			} else if again {
				continue
			}
		}
		if err != nil {
			if t.escalates() && !r.shown && ctx.Err() == nil && overcome(err) {
				if err := t.escalate(ctx, err.Error(), t.broken(r)); err != nil {
					return Outcome{}, err
				}
				continue
			}
			return t.end(ctx, r, err)
		}
		if len(r.calls) == 0 {
			if t.match(&r); !t.mendable(r) {
				if why := t.poor(ctx, r); why != "" && t.escalates() {
					if err := t.store(ctx, r); err != nil {
						return Outcome{}, err
					}
					if err := t.escalate(ctx, why); err != nil {
						return Outcome{}, err
					}
					continue
				}
				return t.end(ctx, r, nil)
			}
			if err := t.mend(ctx, r); err != nil {
				return Outcome{}, err
			}
			continue
		}
		if err := t.store(ctx, r); err != nil {
			return Outcome{}, err
		}
		t.rounds++
		if t.spent() {
			continue
		}
		if err := t.call(work, r.calls); err != nil {
			return Outcome{}, err
		}
	}
}

// next returns the next request to the model.
func (t *turn) next() model.Request { return t.request(t.history.events) }

// ask makes one call of the turn's model, or of those that stand in for it, and adds the sources of
// the tools that the reply calls. next returns the request, for the model that is asked by then.
func (t *turn) ask(ctx context.Context, next func() model.Request, closing bool) (reply, *limit, error) {
	for attempt := 1; ; attempt++ {
		req := next()
		req.Attempt = attempt
		r, stop, err := t.asker.ask(ctx, req, closing)
		if !t.fails(ctx, r, err) {
			for i, c := range r.calls {
				if tool, ok := t.tools.Set.Get(c.Name); ok {
					r.calls[i].Source = tool.Declared() // a command that runs jp is no tool of jp
				}
			}
			return r, stop, err
		}
		if err := t.standIn(ctx, r, err); err != nil {
			return reply{}, nil, storeError{err}
		}
	}
}

// spent reports whether the model has called tools in more rounds than the limit allows.
func (t *turn) spent() bool { return t.loop.MaxRounds > 0 && t.rounds-t.free > t.loop.MaxRounds }

// store stores a reply, with further events behind it, and shows it.
func (t *turn) store(ctx context.Context, r reply, behind ...convstore.Body) error {
	if err := t.history.save(ctx, append(r.bodies(t.asker.record(r)), behind...)...); err != nil {
		return err
	}
	t.show(r)
	return nil
}

// show shows a reply.
func (t *turn) show(r reply) {
	if t.loop.Watch.Message == nil {
		return
	}
	m := Message{Model: t.asker.model.Model, Text: r.text, Calls: r.calls, Usage: r.usage, Cost: r.cost, Stop: r.stop, Took: r.took}
	for _, ev := range slices.Backward(t.history.events) {
		if _, ok := ev.Body.(convstore.ModelCall); ok {
			m.ID = ev.ID
			break
		}
	}
	t.loop.Watch.Message(m)
}

// mend stores an answer that does not match the schema, and for the model what is wrong with it.
func (t *turn) mend(ctx context.Context, r reply) error {
	n := complaint(r.bad)
	if err := t.store(ctx, r, n); err != nil {
		return err
	}
	t.mends++
	if t.loop.Watch.Note != nil {
		t.loop.Watch.Note(n)
	}
	return nil
}

// storeCut stores the part of a reply that came before it was cut off, for the closing call.
func (t *turn) storeCut(ctx context.Context, r reply) error {
	if !r.any {
		return nil
	}
	r.cutOff()
	return t.store(ctx, r)
}

// LastTurn finds where the last turn begins (-1: no turn yet) and how it ended (nil: it is open).
func LastTurn(events []convstore.Event) (start int, end *convstore.TurnEnd) {
	start = -1
	for i, ev := range events {
		switch b := ev.Body.(type) {
		case convstore.TurnStart:
			start, end = i, nil
		case convstore.TurnEnd:
			end = &b
		}
	}
	return start, end
}

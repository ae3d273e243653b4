// Package agent is the turn loop: stored events become a thread, the thread a request, the model's reply events again,
// its tool calls results, until it answers without calling a tool.
//
// Each step is committed before the next begins: the user's message before the model is asked, a whole reply in one
// transaction, each tool result as its call ends. A crash loses at most the reply that was streaming. What a stopped run
// had said is kept, and a Loop on the same conversation goes on from there.
//
// Sub-agents are tools like others here. The one thing the loop does for them is to hand all calls of a reply to Admit
// before it runs any.
package agent

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"time"

	"jp/cmd/jp/internal/model"
	"jp/cmd/jp/internal/otel"
	"jp/convstore"
	"jp/tools"
	"jp/tools/schema"
	"jp/tools/unseen"
)

// Loop runs turns of one locked conversation. Fields are set before the first turn and not changed.
type Loop struct {
	Log      *convstore.Log
	Ask      model.Stream
	Model    string       // full id, as recorded with each call
	Provider string       // provider whose reasoning may be replayed
	Name     string       // the provider's own id of the model
	Price    *model.Price // nil = unknown
	Replayed bool         // a recording answers, for nothing

	System      []model.Section
	Tools       tools.Executor
	Profile     string
	MaxTokens   int                 // of one reply; 0 = as the model does by itself
	Output      func(asked int) int // tokens of output that a request asks for, see model.Info.Output; nil = as of an unknown model
	Reasoning   string
	Temperature *float64
	MaxRounds   int // tool rounds in one turn; 0 = no limit
	Window      int // earlier turns that the model is sent; 0 = all

	// Limits are those of the session that each turn begins, and of a turn that goes on; nil in a delegated conversation,
	// whose caller has set them.
	Limits *convstore.Limits

	// Admit is told all calls of a reply before the first runs, Release after the last has ended. Repeat tells which
	// tools answer a repeated call from the run that exists, so that a resumed turn may call them again, Recalled which
	// calls were answered so. All may be nil.
	Admit    func(context.Context, []tools.Call)
	Release  func(context.Context)
	Repeat   func(tool string) bool
	Recalled func(call string) bool

	Fetch     Fetch     // the context of a turn that Send begins; its Tokens hold for one that goes on too
	Synthesis Synthesis // takes over where late results are folded in
	Compact   Compact   // keeps the thread within the window

	Watch Watch
}

// Watch is told what happens, from the goroutine that runs the loop. Each function may be nil.
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
	ID    string // of the event of its model call
	Text  string
	Calls []convstore.ToolCall
	Usage convstore.Usage
	Cost  *int64     // nano-dollars; nil = unknown
	Stop  model.Stop // StopCut when it was cut off
	Took  time.Duration
}

// Outcome is what a turn came to.
type Outcome struct {
	Turn       int
	State      convstore.State
	Reason     string
	Limit      Limit           // that the turn was stopped at; "" = none of these
	Text       string          // the answer
	Structured json.RawMessage // the answer as the JSON value that matches the schema of the turn; nil = none
	Usage      convstore.Usage
	Cost       *int64 // nano-dollars, nil when a price was unknown
	Err        error  // why State is Error, Timeout or Cancelled
	First      bool   // it is the first that ended well in its conversation

	Span *otel.Span // of the turn, which has ended; nil = it was not traced. What is still done for the turn goes below it
}

// ErrNothingToResume is returned by Resume when the last turn was answered.
var ErrNothingToResume = errors.New("the last turn is complete; there is nothing to resume")

// turn is the state of one running turn.
type turn struct {
	*Loop
	history *history
	bill    *bill
	asker   *asker
	schema  *schema.Answer // form of the answer; nil = free text

	compactor *compactor

	tools  tools.Executor  // what this turn may call
	system []model.Section // the prompt of this turn, context and schema left out
	rounds int             // replies that asked for tools
	mends  int             // answers that were sent back for not matching the schema

	out Outcome
}

// newTurn returns the turn whose events begin at history.from, and whose answer has this form, nil for free text.
func (l *Loop) newTurn(h *history, form *schema.Answer) *turn {
	t := &turn{Loop: l, history: h, bill: &bill{}, schema: form, tools: l.Tools, system: l.System}
	t.out.Turn = h.turn
	t.asker = l.newAsker(h, t.bill)
	t.asker.text, t.asker.reasoning = l.Watch.Text, l.Watch.Reasoning
	if form != nil {
		t.asker.text = nil // it is no answer before it was checked
	}
	t.compactor = &compactor{
		settings: l.Compact, limit: l.Compact.Limit, history: h, asker: t.asker, window: l.Window, profile: l.Profile,
		request: t.request, note: t.note, watch: l.Watch.Compacted,
	}
	return t
}

// newAsker returns what asks the model of the loop. The calls of the turn that begins at history.from say what a call may cost.
func (l *Loop) newAsker(h *history, b *bill) *asker {
	return &asker{
		model:    Writer{Ask: l.Ask, Model: l.Model, Name: l.Name, Price: l.Price, Output: l.Output},
		replayed: l.Replayed, history: h, bill: b, aside: Closing(l.Price), since: h.from,
	}
}

// Send runs one turn on a new user message. An error means that the store failed; all else is in the Outcome.
func (l *Loop) Send(ctx context.Context, msg convstore.UserMessage) (Outcome, error) {
	return l.traced(ctx, func(ctx context.Context) (Outcome, error) { return l.send(ctx, msg) })
}

func (l *Loop) send(ctx context.Context, msg convstore.UserMessage) (Outcome, error) {
	h, err := readHistory(ctx, l.Log)
	if err != nil {
		return Outcome{}, err
	}
	// Calls that a crash left open are answered in the events too, so that the history reads as what happened.
	if err := h.save(ctx, abandoned(h.events)...); err != nil {
		return Outcome{}, err
	}
	t, err := l.open(h, msg)
	if err != nil {
		return Outcome{}, err
	}
	if err := t.fetch(ctx, l.Fetch); err != nil {
		return Outcome{}, err
	}
	return t.run(ctx)
}

// Resume goes on with a turn that was cut off. Calls that had not ended are not repeated unasked, but for those that
// Repeat names.
func (l *Loop) Resume(ctx context.Context) (Outcome, error) { return l.traced(ctx, l.resume) }

func (l *Loop) resume(ctx context.Context) (Outcome, error) {
	h, err := readHistory(ctx, l.Log)
	if err != nil {
		return Outcome{}, err
	}
	start, end := lastTurn(h.events)
	switch {
	case start < 0 || end != nil && end.State == convstore.StateOK:
		return Outcome{}, ErrNothingToResume
	case end != nil:
		if err := h.save(ctx, abandoned(h.events)...); err != nil {
			return Outcome{}, err
		}
		t, err := l.open(h, convstore.UserMessage{Text: "Continue where you stopped.", Schema: schemaOf(h.events[start:])})
		if err != nil {
			return Outcome{}, err
		}
		return t.run(ctx)
	}
	h.from = start
	t, err := l.adopt(h)
	if err != nil {
		return Outcome{}, err
	}
	if l.Limits != nil {
		if err := l.Log.Limit(ctx, *l.Limits); err != nil {
			return Outcome{}, err
		}
	}
	if calls := pending(h.current()); len(calls) > 0 && !t.spent() {
		var again []convstore.ToolCall
		var lost []convstore.Body
		for _, c := range calls {
			if l.Repeat != nil && l.Repeat(c.Name) {
				again = append(again, c)
			} else {
				lost = append(lost, convstore.ToolResult{ID: c.ID, Text: interrupted, IsError: true})
			}
		}
		if err := t.history.save(ctx, lost...); err != nil {
			return Outcome{}, err
		}
		if err := t.call(ctx, again); err != nil {
			return Outcome{}, err
		}
		if len(again) > 0 && l.late(again, resultsOf(h.current())) {
			if err := t.note(ctx, convstore.Note{Kind: NoteSynthesis, Text: "late results are folded in: for the rest of this turn nothing is held but what reads"}); err != nil {
				return Outcome{}, err
			}
			t.fold()
		}
	}
	return t.run(ctx)
}

// open begins a new turn, which is stored with its first step.
func (l *Loop) open(h *history, msg convstore.UserMessage) (*turn, error) {
	form, err := parseForm(msg.Schema) // before anything is stored
	if err != nil {
		return nil, err
	}
	h.begin(convstore.TurnStart{Limits: l.Limits}, msg)
	return l.newTurn(h, form), nil
}

// adopt goes on in the turn whose events begin at history.from.
func (l *Loop) adopt(h *history) (*turn, error) {
	form, err := parseForm(schemaOf(h.current()))
	if err != nil {
		return nil, err
	}
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
			}
		}
	}
	return t, nil
}

// note commits a remark.
func (t *turn) note(ctx context.Context, n convstore.Note) error {
	if err := t.history.save(ctx, n); err != nil {
		return err
	}
	if t.Watch.Note != nil {
		t.Watch.Note(n)
	}
	return nil
}

// run asks and calls until the turn ends.
func (t *turn) run(ctx context.Context) (Outcome, error) {
	work, stop := working(ctx)
	defer stop()
	for {
		if ctx.Err() != nil {
			return t.end(ctx, reply{}, context.Cause(ctx))
		}
		if l := t.reached(work); l != nil {
			return t.close(ctx, l)
		}
		if err := t.compactor.fit(work); err != nil {
			return Outcome{}, err
		}
		req := t.request(t.history.events)
		r, stop, err := t.ask(work, req, false)
		if broken := (storeError{}); errors.As(err, &broken) {
			return Outcome{}, broken.error
		}
		if stop != nil {
			return t.close(ctx, stop)
		}
		if err != nil && ctx.Err() == nil && t.reached(work) != nil {
			if err := t.keep(ctx, r); err != nil {
				return Outcome{}, err
			}
			continue
		}
		if err != nil && !r.any && ctx.Err() == nil {
			if again, err := t.compactor.tooLong(work, req, err); err != nil {
				return Outcome{}, err
			} else if again {
				continue
			}
		}
		if err != nil {
			return t.end(ctx, r, err)
		}
		if len(r.calls) == 0 {
			if t.match(&r); !t.mendable(r) {
				return t.end(ctx, r, nil)
			}
			if err := t.mend(ctx, r); err != nil {
				return Outcome{}, err
			}
			continue
		}
		if err := t.history.save(ctx, r.bodies(t.asker.record(r))...); err != nil {
			return Outcome{}, err
		}
		t.tell(r)
		t.rounds++
		if t.spent() {
			continue
		}
		if err := t.call(work, r.calls); err != nil {
			return Outcome{}, err
		}
	}
}

// ask makes one call of the turn's model.
func (t *turn) ask(ctx context.Context, req model.Request, closing bool) (reply, *limit, error) {
	r, stop, err := t.asker.ask(ctx, req, closing)
	for i, c := range r.calls {
		if tool, ok := t.tools.Set.Get(c.Name); ok {
			r.calls[i].Source = tool.Source
		}
	}
	return r, stop, err
}

// spent reports whether the model has asked for more tool rounds than there are.
func (t *turn) spent() bool { return t.MaxRounds > 0 && t.rounds > t.MaxRounds }

// close ends a turn at a limit: the pending calls are not run, and the model is asked once more, without tools, to hand in
// what it has.
func (t *turn) close(ctx context.Context, l *limit) (Outcome, error) {
	calls := pending(t.history.current())
	refused := make([]convstore.Body, len(calls))
	for i, c := range calls {
		refused[i] = convstore.ToolResult{ID: c.ID, Text: "error: not run: " + l.notice, IsError: true}
	}
	if err := t.history.save(ctx, refused...); err != nil {
		return Outcome{}, err
	}
	if l.state != convstore.StateTimeout { // there is no time for a summary
		if err := t.compactor.fit(ctx); err != nil {
			return Outcome{}, err
		}
	}
	req := t.request(t.history.events)
	say := "Stop here: " + l.notice + ". No tool can be called any more. Hand in now what you have found"
	if t.schema != nil {
		say += ": one JSON value in the form of the answer, and no other word."
	} else {
		say += ", and say what is missing."
	}
	if n := len(req.Messages); n > 0 && req.Messages[n-1].Role == model.Assistant {
		say += "\n\nYour reply was cut off after this:\n"
		for _, c := range req.Messages[n-1].Content {
			say += c.Text
		}
		req.Messages = req.Messages[:n-1]
	}
	req.System = append(req.System[:len(req.System):len(req.System)], model.Section{Text: say})
	req.ToolChoice = "none"
	r, short, err := t.ask(ctx, req, true)
	if broken := (storeError{}); errors.As(err, &broken) {
		return Outcome{}, broken.error
	}
	if short != nil {
		return t.end(ctx, reply{limit: l, none: true}, nil)
	}
	r.calls, r.limit = nil, l
	if err != nil && ctx.Err() == nil { // that it could not be handed in is no other end
		if err := t.keep(ctx, r); err != nil {
			return Outcome{}, err
		}
		l.reason += "; nothing could be handed in: " + err.Error()
		return t.end(ctx, reply{limit: l, none: true}, nil)
	}
	if err == nil {
		t.match(&r)
	}
	return t.end(ctx, r, err)
}

// tell accounts for a saved reply and shows it.
func (t *turn) tell(r reply) {
	t.bill.add(convstore.ModelCall{Usage: r.usage, CostNano: r.cost})
	if t.Watch.Message != nil {
		m := Message{Text: r.text, Calls: r.calls, Usage: r.usage, Cost: r.cost, Stop: r.stop, Took: r.took}
		for _, ev := range slices.Backward(t.history.events) {
			if _, ok := ev.Body.(convstore.ModelCall); ok {
				m.ID = ev.ID
				break
			}
		}
		t.Watch.Message(m)
	}
}

// mend commits an answer that does not match, and what is wrong with it for the model to read.
func (t *turn) mend(ctx context.Context, r reply) error {
	n := complaint(r.bad)
	if err := t.history.save(ctx, append(r.bodies(t.asker.record(r)), n)...); err != nil {
		return err
	}
	t.mends++
	t.tell(r)
	if t.Watch.Note != nil {
		t.Watch.Note(n)
	}
	return nil
}

// keep stores a reply that was cut off for the closing call.
func (t *turn) keep(ctx context.Context, r reply) error {
	if !r.any {
		return nil
	}
	r.cutOff()
	if err := t.history.save(ctx, r.bodies(t.asker.record(r))...); err != nil {
		return err
	}
	t.tell(r)
	return nil
}

// end closes the turn in the transaction that stores its last reply.
func (t *turn) end(ctx context.Context, r reply, err error) (Outcome, error) {
	state, reason, failed := convstore.StateOK, "", err
	if r.limit == nil && r.stop == model.StopMaxTokens {
		r.limit = t.asker.cut
	}
	switch {
	case err != nil && ctx.Err() != nil && errors.Is(context.Cause(ctx), context.DeadlineExceeded):
		state, reason = convstore.StateTimeout, "the deadline passed"
	case err != nil && ctx.Err() != nil:
		state, reason = convstore.StateCancelled, context.Cause(ctx).Error()
	case err != nil:
		state, reason = convstore.StateError, err.Error()
	case r.stop == model.StopRefusal:
		state, reason = convstore.StateRefused, "the model refused"
	case !visible(r.text) && r.limit != nil:
		state, reason = r.limit.state, r.limit.reason
	case !visible(r.text) && r.stop == model.StopMaxTokens:
		state, reason = convstore.StateBudget, "max_tokens"
	case !visible(r.text):
		state, reason = convstore.StateEmpty, "the model said nothing"
	case r.bad != nil:
		state, reason, failed = convstore.StateError, r.bad.Error(), r.bad
	case r.limit != nil:
		state, reason = convstore.StatePartial, r.limit.reason
	case r.stop == model.StopMaxTokens:
		state, reason = convstore.StatePartial, "max_tokens"
	}
	var bodies []convstore.Body
	if !r.none && (err == nil || r.any) {
		if err != nil {
			r.cutOff()
		}
		bodies = r.bodies(t.asker.record(r))
	}
	bodies = append(bodies, convstore.TurnEnd{State: state, Reason: reason})
	if saveErr := t.history.save(ctx, bodies...); saveErr != nil {
		return t.unstored(r, saveErr)
	}
	if len(bodies) > 1 {
		t.tell(r)
	}
	t.out.State, t.out.Reason, t.out.Err = state, reason, failed
	t.out.First = state == convstore.StateOK && !slices.ContainsFunc(t.history.events[:t.history.from], endedWell)
	if state != convstore.StateOK && r.limit != nil {
		t.out.Limit = r.limit.kind
	}
	t.out.Text = Answer(t.history.current())
	t.out.Structured = r.data
	t.out.Usage, t.out.Cost = t.bill.usage, t.bill.cost()
	return t.out, nil
}

// NotStoredError says that the model has answered, and that this could not be stored. The Outcome beside it has the answer.
type NotStoredError struct{ Err error }

func (e *NotStoredError) Error() string { return "the answer was not stored: " + e.Err.Error() }

// Unwrap returns why not.
func (e *NotStoredError) Unwrap() error { return e.Err }

// unstored shows a last reply that the store did not take: it was paid for. In the store the turn is open.
func (t *turn) unstored(r reply, err error) (Outcome, error) {
	if !visible(r.text) {
		return Outcome{}, err
	}
	failed := &NotStoredError{err}
	t.tell(r)
	t.out.State, t.out.Reason, t.out.Err = convstore.StateError, failed.Error(), failed
	t.out.Text, t.out.Structured = r.text, r.data
	t.out.Usage, t.out.Cost = t.bill.usage, t.bill.cost()
	return t.out, failed
}

func endedWell(ev convstore.Event) bool {
	end, ok := ev.Body.(convstore.TurnEnd)
	return ok && end.State == convstore.StateOK
}

// visible reports whether a text shows anything at all.
func visible(text string) bool {
	return strings.ContainsFunc(text, func(r rune) bool { return r != ' ' && unseen.Shows(r) })
}

// lastTurn finds where the last turn begins (-1: no turn yet) and how it ended (nil: it is open).
func lastTurn(events []convstore.Event) (start int, end *convstore.TurnEnd) {
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

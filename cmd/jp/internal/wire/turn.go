package wire

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"jp/cmd/jp/internal/agent"
	"jp/cmd/jp/internal/model"
	"jp/convstore"
	"jp/tools/brief"
)

// turn is the turn that a sub-agent takes, as its owner has stored it: the one place that says what
// a sub-agent may add to its conversation, and which calls it has. A sub-agent that runs a jp of
// this build adds nothing else. What this protects:
//
//   - The account: a run is one turn, because a second one would begin with nothing used by
//     sub-agents. A call of a model has a bound that was in the account, in the same model, one of
//     those that its config names, and neither gives anything back. What it used is what the owner
//     has heard, and is charged whether the sub-agent says it or not. A replay is what the owner
//     says it is.
//   - The end: nothing follows it, it is one that a run can have by itself, and it is a good one
//     only where the reply before it says something.
//   - The config: what a change of it says is made by the owner.
//   - Time: events happen during the run.
//   - Ids: an event is stored under an id of the owner. That of the sub-agent only says which
//     events it has said before.
//
// A use above the bound is stored: a provider may bill more than anybody could foresee.
type turn struct {
	owner *Owner
	model *attempts
	began time.Time // beginning of the run

	seen     map[string]bool // ids of events that were said
	made     map[string]bool // ids of calls of tools
	begun    bool            // whether the turn was begun
	ended    bool            // whether it was ended
	changed  bool            // whether the config was changed
	answered bool            // whether the latest reply says something
	personal bool            // whether its end is: see convstore.TurnEnd
	call     *convstore.Call // call of a model that has no event yet; nil = none
	failed   error           // why nothing more is stored; nil = it is

	mu    sync.Mutex           // for the fields below, which those who carry out calls read
	open  bool                 // whether the turn is in the store, and its end not
	calls map[string]*toolCall // by their ids; they are in the store
	kept  int                  // bytes of the arguments of calls
	early map[string]bool      // ids of calls that the sub-agent has read of earlier turns
}

// toolCall is a call of a tool.
type toolCall struct {
	tool      string
	arguments json.RawMessage // as they are stored, of a tool that the owner serves
	done      bool            // whether the owner was asked to carry it out, or it has a result
}

func newTurn(o *Owner, a *attempts) *turn {
	return &turn{
		owner: o, model: a, began: time.Now(),
		seen: map[string]bool{}, made: map[string]bool{}, calls: map[string]*toolCall{}, early: map[string]bool{},
	}
}

// note notes the id of a call in what the sub-agent reads of its conversation.
func (t *turn) note(call string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.early[call] = true
}

// callIDs returns the ids of all calls of the conversation.
func (t *turn) callIDs() map[string]bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	ids := maps.Clone(t.early)
	for id := range t.calls {
		ids[id] = true
	}
	return ids
}

// store stores by put those of the events that a sub-agent has said that were not said before. The
// error is a *FrameError where it may not say them. When the store has failed, nothing more is
// stored: what comes later would stand on what is missing.
func (t *turn) store(ctx context.Context, said []convstore.Event, put func([]convstore.Event) error) error {
	if t.failed != nil {
		return t.failed
	}
	events, err := t.take(ctx, said)
	if err == nil {
		err = put(events)
	}
	t.model.stored(err)
	if err == nil {
		t.stored(events)
	}
	t.failed = err
	return err
}

// take returns the events that are to be stored of those that the sub-agent has said: all but those
// that were said before. The error is a *FrameError, or one of Owner.Change.
func (t *turn) take(ctx context.Context, said []convstore.Event) ([]convstore.Event, error) {
	var list []convstore.Event
	for _, ev := range said {
		if ev.ID == "" {
			return nil, &FrameError{"an event without an id"}
		}
		if t.seen[ev.ID] {
			continue
		}
		t.seen[ev.ID] = true
		if reason := t.follow(ev.Body); reason != "" {
			return nil, &FrameError{fmt.Sprintf("event %.64q: %s", ev.ID, reason)}
		}
		body := ev.Body
		switch b := body.(type) {
		case convstore.ModelCall:
			body = t.model.charge(b)
		case convstore.TurnEnd:
			list = append(list, t.model.unsaid()...)
			b.Personal, b.Reason = t.personal, brief.Prefix(b.Reason, MaxReason)
			body = b
		case convstore.ConfigDelta:
			own, err := t.change(ctx)
			if err != nil {
				return nil, err
			}
			if own == nil {
				continue
			}
			body = *own
		}
		// A new Event, so that the body is stored in the form that this jp writes, and under an
		// id that the store does not have: it leaves out an event whose id is there.
		list = append(list, convstore.Event{ID: convstore.NewEventID(), Time: t.during(ev.Time), Body: body})
	}
	return list, nil
}

// change returns what stands for a change of the config in the place of what the sub-agent says;
// nil = nothing.
func (t *turn) change(ctx context.Context) (*convstore.ConfigDelta, error) {
	if t.owner.Change == nil {
		return nil, nil
	}
	return t.owner.Change(ctx)
}

// during returns a time of the run: at, or the end of the run that is nearer to it.
func (t *turn) during(at time.Time) time.Time {
	if at.Before(t.began) {
		return t.began
	}
	if now := time.Now(); at.After(now) {
		return now
	}
	return at
}

// ends are the ends of a turn that a run can have by itself. The others are said by its caller.
var ends = []convstore.State{
	convstore.StateOK, convstore.StatePartial, convstore.StateEmpty, convstore.StateRefused, convstore.StateBudget,
	convstore.StateTimeout, convstore.StateCancelled, convstore.StateError,
}

// follow notes that a body follows, and returns why it cannot; "" = it can.
func (t *turn) follow(body convstore.Body) string {
	if t.ended {
		return "comes after the end of the turn"
	}
	switch b := body.(type) {
	case convstore.TurnStart:
		switch {
		case t.begun:
			return "begins a second turn"
		case b.Limits != nil:
			return "sets limits, which the caller has set"
		}
		t.begun = true
		return ""
	case convstore.ConfigDelta:
		if t.begun || t.changed {
			return "changes the config a second time, or during a turn"
		}
		t.changed = true
		return ""
	case convstore.ToolResult: // before the turn: of calls that an earlier run has left
		return ""
	}
	if !t.begun {
		return "comes before the turn"
	}
	switch b := body.(type) {
	case convstore.Said:
		t.answered = agent.Visible(b.Said())
	case convstore.ToolCall:
		t.answered = false
		switch {
		case t.made[b.ID]:
			return "a call of a tool under the id of another one"
		case model.Reserved(strings.TrimPrefix(b.ID, model.CallOfContext)):
			return "a call of a tool under an id that only jp gives"
		case len(b.Name) > model.LongestName:
			return fmt.Sprintf("a call of a tool with a name of more than %d bytes", model.LongestName)
		}
		t.made[b.ID] = true
		return t.keep(b)
	case convstore.ModelCall:
		return t.charge(b)
	case convstore.TurnEnd:
		switch {
		case !slices.Contains(ends, b.State):
			return fmt.Sprintf("no run ends as %.20q by itself", b.State)
		case !t.answered && (b.State == convstore.StateOK || b.State == convstore.StatePartial):
			return fmt.Sprintf("ends as %s without an answer", b.State)
		}
		t.ended = true
		t.mu.Lock()
		defer t.mu.Unlock()
		t.open = false
	case convstore.Opaque:
		return "is of a kind that this jp does not know"
	}
	return ""
}

// charge is follow for a call of a model.
func (t *turn) charge(m convstore.ModelCall) string {
	call := t.call
	t.call = nil
	switch {
	case negative(m.Usage, m.CostNano):
		return "a call of a model that uses less than nothing"
	case m.Stop == convstore.StopLost:
		return "a call of a model that is lost, and was not"
	case m.Replayed != t.owner.Replayed:
		return "a call of a model that is replayed, and was not, or the other way round"
	case call == nil && (m.Usage != convstore.Usage{} || m.CostNano != nil && *m.CostNano != 0):
		return "a call of a model that was not begun"
	case call == nil && !m.Replayed && t.model.of(m.Model) == nil:
		return "a call of a model that the sub-agent does not have"
	case call != nil && m.Model != call.Model:
		return "a call of another model than was begun"
	case call != nil && call.CostNano != nil && m.CostNano == nil:
		return "a call of a model whose price is known, without a cost"
	}
	return ""
}

// fits returns why a call of a model cannot be begun with this account; "" = it can.
func (t *turn) fits(c *convstore.Call, a convstore.Account) string {
	left := a.Left
	switch {
	case !t.begun || t.ended:
		return "a call of a model outside of the turn"
	case negative(c.Usage, c.CostNano):
		return "a call of a model that may use less than nothing"
	case c.Replayed != t.owner.Replayed:
		return "a call of a model that is replayed, and is not, or the other way round"
	case left.Tokens != nil && c.Usage.Tokens() > *left.Tokens, left.CostNano != nil && c.CostNano != nil && *c.CostNano > *left.CostNano,
		t.model.dear(c, left.CostNano):
		return "a call of a model that may use more than is left"
	case t.model.cheap(c):
		return "a call of a model that costs less than its tokens"
	case left.CostNano != nil && c.CostNano == nil && (a.Limits != nil && a.Limits.Strict || t.owner.Priced != nil && t.owner.Priced(c.Model)):
		return "a call of a model without its cost, which is limited"
	}
	return ""
}

func negative(u convstore.Usage, cost *int64) bool {
	return u.Input < 0 || u.Output < 0 || u.CacheRead < 0 || u.CacheWrite < 0 || cost != nil && *cost < 0
}

// stored notes that events are in the store.
func (t *turn) stored(events []convstore.Event) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, ev := range events {
		switch b := ev.Body.(type) {
		case convstore.TurnStart:
			t.open = !t.ended
		case convstore.ToolCall:
			c := &toolCall{tool: b.Name}
			if t.owner.serves(b.Name) {
				c.arguments = b.Arguments
			}
			t.calls[b.ID] = c
		case convstore.ToolResult:
			t.finish(t.calls[b.ID])
		}
	}
}

// called returns an error where a call of a tool is not one that the model made in this turn.
func (t *turn) called(id, tool string) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if c := t.calls[id]; !t.open || c == nil || c.tool != tool {
		return &FrameError{fmt.Sprintf("call %.64q of the tool %.64q: was not made in this turn", id, tool)}
	}
	return nil
}

// keep makes room for the arguments of a call that the owner serves, and returns why there is none.
func (t *turn) keep(c convstore.ToolCall) string {
	if !t.owner.serves(c.Name) {
		return ""
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.kept += len(c.Arguments); t.kept > maxKept {
		return fmt.Sprintf("arguments of more than %d MiB for served tools", maxKept>>20)
	}
	return ""
}

// finish forgets the arguments of a call, nil for none. t.mu is held.
func (t *turn) finish(c *toolCall) {
	if c != nil {
		t.kept -= len(c.arguments)
		c.arguments, c.done = nil, true
	}
}

// serve returns the arguments of a call of a tool, once, if the owner serves it. The error is that of
// called.
func (t *turn) serve(id, tool string) (json.RawMessage, error) {
	if err := t.called(id, tool); err != nil {
		return nil, err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	c := t.calls[id]
	if c.done {
		return nil, &FrameError{fmt.Sprintf("call %.64q of the tool %.64q: was made before", id, tool)}
	}
	args := c.arguments
	t.finish(c)
	return args, nil
}

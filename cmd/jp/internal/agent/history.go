package agent

import (
	"context"
	"slices"
	"time"

	"jp/convstore"
	"jp/convstore/amount"
)

// history is a conversation during a turn: the events in the store, and after them those that will
// be stored with the next step.
type history struct {
	log     Log
	events  []convstore.Event // events of the whole conversation
	unsaved []convstore.Event // last events, which are not stored yet
	then    []func()          // called once they are stored
	from    int               // index of the first event of the running turn
	turn    int               // number of the running turn, or of the last one where none runs
}

// readHistory reads a conversation from the store.
func readHistory(ctx context.Context, log Log) (*history, error) {
	h := &history{log: log}
	if log.Blank() {
		return h, nil
	}
	for ev, err := range log.Events(ctx, convstore.Range{}) {
		if err != nil {
			return nil, err
		}
		h.events = append(h.events, ev)
		h.turn = ev.Turn
	}
	return h, nil
}

// current returns the events of the running turn.
func (h *history) current() []convstore.Event { return h.events[h.from:] }

// begin begins a new turn with these events. They are stored with its first step.
func (h *history) begin(bodies ...convstore.Body) {
	h.from = len(h.events)
	h.turn++
	h.add(bodies...)
}

// add appends events. They are stored with the next step.
func (h *history) add(bodies ...convstore.Body) {
	made := h.made(bodies...)
	h.unsaved = append(h.unsaved, made...)
	h.events = append(h.events, made...)
}

// save stores events, and those before them that are not stored yet, in one transaction. What has
// happened is stored even when the run is being stopped.
func (h *history) save(ctx context.Context, bodies ...convstore.Body) error {
	if len(bodies) == 0 {
		return nil
	}
	made := h.made(bodies...)
	if err := h.log.Append(ctx, slices.Concat(h.unsaved, made)...); err != nil {
		return err
	}
	h.events = append(h.events, made...)
	h.saved()
	return nil
}

// saved notes that all events are stored.
func (h *history) saved() {
	then := h.then
	h.unsaved, h.then = nil, nil
	for _, fn := range then {
		fn()
	}
}

// made returns new events of the running turn. They are in no list yet.
func (h *history) made(bodies ...convstore.Body) []convstore.Event {
	events := make([]convstore.Event, len(bodies))
	for i, b := range bodies {
		events[i] = convstore.Event{ID: convstore.NewEventID(), Time: time.Now(), Turn: h.turn, Body: b}
	}
	return events
}

// callIDs returns the ids of all calls. No later call may have one of them, because it names what
// its call started.
func callIDs(events []convstore.Event) map[string]bool {
	ids := map[string]bool{}
	for _, ev := range events {
		if c, ok := ev.Body.(convstore.ToolCall); ok {
			ids[c.ID] = true
		}
	}
	return ids
}

// bill adds up what calls of models have used. The zero value is that of no call.
type bill struct {
	convstore.Spend
	of map[string]convstore.Spend // by the full id of the model
}

func (b *bill) add(c convstore.ModelCall) {
	used := amount.Of(c.Usage, c.CostNano)
	b.Spend = b.Spend.Add(used)
	if b.of == nil {
		b.of = make(map[string]convstore.Spend)
	}
	b.of[c.Model] = b.of[c.Model].Add(used)
}

package agent

import (
	"encoding/json"
	"slices"
	"time"

	"jp/cmd/jp/internal/model"
	"jp/convstore"
	"jp/tools"
	"jp/tools/jsondoc"
)

// reply is one reply of the model, complete or cut off.
type reply struct {
	text      string
	reasoning []model.Reasoning
	calls     []convstore.ToolCall
	usage     convstore.Usage
	cost      *int64 // nano-dollars; nil = unknown
	reported  *int64 // cost that the provider reports; nil = none
	stop      model.Stop
	began     time.Time
	took      time.Duration
	limit     *limit // limit at which this closing call ends the turn; nil = it is no closing call
	any       bool   // whether the model said something
	shown     bool   // whether somebody saw a part of it
	none      bool   // whether there was no call
	guessed   bool   // whether the usage, or a part of it, is an estimate
	attempt   uint64 // see model.Part

	data json.RawMessage // value of a final reply that matches the schema
	bad  *SchemaError    // why a final reply does not match; nil = it does
}

// request returns the next request to the model for a conversation with these events.
func (t *turn) request(events []convstore.Event) model.Request {
	req := model.Request{
		Model: t.asker.model.Name, System: slices.Concat(t.system, quoted(events[t.history.from:], t.loop.Fetch.Tokens)),
		Messages: choose(events, t.loop.Window).thread(t.models[t.at].Provider), Tools: offer(t.tools.Set),
		MaxTokens: t.loop.MaxTokens, Reasoning: t.loop.Reasoning, Temperature: t.models[t.at].Temperature,
		Profile: t.loop.Profile, Turn: t.history.turn, Round: t.round(), CallIDs: callIDs(events),
	}
	if t.schema != nil {
		req.Schema = t.schema.JSON()
		req.System = append(req.System, form(t.schema))
	}
	return req
}

// round returns the number of the next call in the turn.
func (t *turn) round() int {
	n := t.rounds + t.mends + 1
	if t.at == len(t.loop.Models) { // the reply before it was a last one too
		n++
	}
	return n
}

func offer(set tools.Set) []model.Tool {
	var list []model.Tool
	for t := range set.All() {
		list = append(list, model.Tool{Name: t.Name, Description: t.Description, Schema: t.Schema})
	}
	return list
}

// bodies returns the events of a reply. The last one is the record of its call.
func (r *reply) bodies(call convstore.ModelCall) []convstore.Body {
	var list []convstore.Body
	for _, x := range r.reasoning {
		if jsondoc.Deep(x.Opaque, jsondoc.MaxDepth) { // no event could hold it, or no frame the event
			x.Opaque = nil
		}
		list = append(list, convstore.Reasoning{Text: x.Text, Signature: x.Signature, Opaque: x.Opaque, Provider: x.Provider})
	}
	switch {
	case r.data != nil:
		list = append(list, convstore.Structured{Data: r.data})
	case r.text != "":
		list = append(list, convstore.AssistantMessage{Text: r.text})
	}
	for _, c := range r.calls {
		list = append(list, c)
	}
	return append(list, call)
}

const (
	// StopCut is stored for a reply that the run cut off.
	StopCut model.Stop = "cut"
	// StopBroken is stored for an attempt that failed and was repeated.
	StopBroken model.Stop = "broken"
)

// cutOff makes a reply that was cut off fit to be stored: unfinished reasoning cannot be sent back.
func (r *reply) cutOff() { r.stop, r.reasoning = StopCut, nil }

package agent

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"jp/cmd/jp/internal/model"
	"jp/convstore"
	"jp/tools"
)

// reply is one reply of the model, complete or cut off.
type reply struct {
	text      string
	reasoning []model.Reasoning
	calls     []convstore.ToolCall
	usage     convstore.Usage
	cost      *int64
	stop      model.Stop
	began     time.Time
	took      time.Duration
	limit     *limit // it is the closing call of a turn that came to this
	any       bool   // the model said something
	none      bool   // no call was made
	guessed   bool   // the usage, or a part of it

	data json.RawMessage // the value of a final reply that matches the schema
	bad  *SchemaError    // why one does not match
}

// request is the next call of the model.
func (t *turn) request() model.Request {
	req := model.Request{
		Model: t.Name, System: slices.Concat(t.system, quoted(t.events[t.from:], t.Fetch.Tokens)),
		Messages: choose(t.events, t.Window).thread(t.Provider), Tools: offer(t.tools.Set),
		MaxTokens: t.MaxTokens, Reasoning: t.Reasoning, Temperature: t.Temperature,
		Profile: t.Profile, Turn: t.out.Turn, Round: t.rounds + t.mends + 1, CallIDs: t.callIDs(),
	}
	if t.schema != nil {
		req.Schema = t.schema.JSON()
		req.System = append(req.System, form(t.schema))
	}
	return req
}

// ask makes one model call. With an error the reply holds what had come by then.
func (t *turn) ask(ctx context.Context, req model.Request) (reply, error) {
	r := reply{began: time.Now()}
	var text, thinking strings.Builder
	defer func() { r.took = time.Since(r.began) }()
	for part, err := range t.Ask(ctx, req) {
		if err != nil {
			r.text = text.String()
			r.calls = nil
			r.took = time.Since(r.began)
			r.any = r.any || thinking.Len() > 0
			if r.any { // it is paid for all the same
				r.guess(req, text.Len()+thinking.Len())
			}
			return r, err
		}
		switch {
		case part.Text != "":
			r.any = true
			text.WriteString(part.Text)
			if t.Watch.Text != nil && t.schema == nil { // else it is no answer before it was checked
				t.Watch.Text(part.Text)
			}
		case part.ReasoningDelta != "":
			thinking.WriteString(part.ReasoningDelta)
			if t.Watch.Reasoning != nil {
				t.Watch.Reasoning(part.ReasoningDelta)
			}
		case part.Reasoning != nil:
			r.any = true
			r.reasoning = append(r.reasoning, *part.Reasoning)
		case part.Call != nil:
			r.any = true
			c := convstore.ToolCall{ID: part.Call.ID, Name: part.Call.Name, Arguments: storedArguments(part.Call.Arguments)}
			if tool, ok := t.tools.Set.Get(c.Name); ok {
				c.Source = tool.Source
			}
			r.calls = append(r.calls, c)
		case part.Usage != nil:
			r.any = true
			r.usage = *part.Usage
		case part.Stop != "":
			r.stop = part.Stop
		}
	}
	r.text = text.String()
	if r.usage == (convstore.Usage{}) { // the server does not count, and nothing is for nothing
		said := text.Len() + thinking.Len()
		for _, c := range r.calls {
			said += len(c.Name) + len(c.Arguments)
		}
		r.guess(req, said)
	}
	r.took = time.Since(r.began)
	return r, nil
}

// callIDs are those of all calls of the conversation: each names what its call started.
func (t *turn) callIDs() map[string]bool {
	ids := map[string]bool{}
	for _, ev := range t.events {
		if c, ok := ev.Body.(convstore.ToolCall); ok {
			ids[c.ID] = true
		}
	}
	return ids
}

// guess charges a reply of so many bytes to what nobody told the usage of: what is told while a reply is under way counts
// only its beginning.
func (r *reply) guess(req model.Request, said int) {
	if r.usage == (convstore.Usage{}) {
		r.usage.Input, r.guessed = req.Estimate(), true
	}
	if out := int64(said)/3 + 1; out > r.usage.Output {
		r.usage.Output, r.guessed = out, true
	}
}

func offer(set tools.Set) []model.Tool {
	var list []model.Tool
	for t := range set.All() {
		list = append(list, model.Tool{Name: t.Name, Description: t.Description, Schema: t.Schema})
	}
	return list
}

// bodies are the events of a reply, ModelCall last.
func (r *reply) bodies(l *Loop) []convstore.Body {
	var list []convstore.Body
	for _, x := range r.reasoning {
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
	if l.Price != nil {
		r.cost = l.Price(r.usage)
	}
	return append(list, convstore.ModelCall{Model: l.Model, Usage: r.usage, CostNano: r.cost, Stop: string(r.stop), Estimated: r.guessed, Duration: r.took})
}

// StopCut is stored of a reply that the run did not let come to its end.
const StopCut model.Stop = "cut"

// cutOff makes what came of a reply fit to be stored: an unfinished block of reasoning cannot be replayed.
func (r *reply) cutOff() { r.stop, r.reasoning = StopCut, nil }

package openai

import (
	"cmp"
	"encoding/json"
	"slices"
	"strings"

	"jp/cmd/jp/internal/model"
)

// responder speaks the Responses API. Nothing is stored at the vendor: each request carries the
// whole thread, with the model's reasoning items as they came, encrypted.
//
// Traps: the stream ends quietly when the connection does, so a reply counts as complete only after
// response.completed or response.incomplete. A reasoning item is refused without the item that
// followed it.
type responder struct{ config model.Config }

// item is what we read of an output item.
type item struct {
	Type      string          `json:"type"`  // message, reasoning, function_call; others are left out
	Phase     string          `json:"phase"` // of a message: commentary, final_answer; "" = its server has none
	ID        string          `json:"id"`
	Status    string          `json:"status"`
	CallID    string          `json:"call_id"`
	Name      string          `json:"name"`
	Arguments json.RawMessage `json:"arguments"` // a string, or an object on servers that do not follow
	Encrypted string          `json:"encrypted_content"`
	Summary   []textPart      `json:"summary"`
	Content   []textPart      `json:"content"`
}

type textPart struct {
	Type    string `json:"type"`
	Text    string `json:"text"`
	Refusal string `json:"refusal,omitempty"`
}

// reasoningItem is a reasoning item as model.Reasoning.Opaque holds it, to be sent back.
type reasoningItem struct {
	Type      string     `json:"type"`
	ID        string     `json:"id"`
	Summary   []textPart `json:"summary"`
	Content   []textPart `json:"content,omitempty"`
	Encrypted string     `json:"encrypted_content,omitempty"`
}

// opaqueItem is model.Reasoning.Opaque of this API. What is read as one may come from a sub-agent
// or an import, so only what a reasoning item has is sent back: an item of another type could name
// a file, which costs far more than its text.
type opaqueItem struct {
	Item reasoningItem `json:"response_item"`
}

// response puts one answer together.
type response struct {
	config  model.Config
	yield   func(model.Part, error) bool
	hidden  func(bytes int) // model.Hidden
	calls   *model.Calls
	queue   []queued // in the order of the model, from the first call on
	tally   tally
	end     model.Stop // "" = there is more to come
	failure error      // failure that the server reported
	refused bool
	schema  bool            // whether the answer must match one
	said    bool            // text of the answer
	spoke   int64           // output index of the last message
	aside   bool            // whether the item under way is no part of the answer
	asides  strings.Builder // text of such items
	thought strings.Builder // reasoning shown of the item under way
	// output indexes of items that came in pieces, besides reasoning
	inPieces map[int64]bool
}

// queued is something that waits for the end of the reply: reasoning, or the next call.
type queued struct{ reasoning *model.Reasoning }

// lastEvents end a reply. One that is whole JSON counts also without the blank line behind it: the
// reply is complete then, and to ask again would cost it twice.
var lastEvents = [...]string{"response.completed", "response.incomplete", "response.failed"}

func (r *response) whole() bool { return r.end != "" }

func (r *response) event(named model.Event, name func(id, model string)) (bool, error) {
	var e responsesEvent
	if named.Whole { // the response itself
		_ = named.Read(&e.Response) // what cannot be read says nothing
		if r.tally.add(e.Response.Usage); r.tally.output <= 0 {
			r.hidden(len(named.Data))
		}
		return true, nil
	}
	err := named.Read(&e)
	switch {
	case err != nil && named.Unended:
		return true, nil
	case err != nil:
		return true, err
	}
	if r.tally.add(e.Response.Usage); named.Unended && !slices.Contains(lastEvents[:], e.Type.Text) {
		return true, nil
	}
	if err := reported(r.config, named, e.Error); err != nil {
		return true, err
	}
	name(e.Response.ID.Text, e.Response.Model.Text)
	switch delta := e.Delta.Text; e.Type.Text {
	case "response.output_text.delta", "response.refusal.delta":
		r.refused = r.refused || e.Type.Text == "response.refusal.delta"
		r.pieces(e.OutputIndex.N)
		return r.say(e.OutputIndex.N, delta), nil
	case "response.output_item.added":
		r.calls.Next()
		_, _ = r.read(e.Item) // what cannot be read says nothing yet
	case "response.reasoning_summary_part.added":
		if r.thought.Len() > 0 {
			return r.think("\n\n"), nil
		}
	case "response.reasoning_summary_text.delta", "response.reasoning_text.delta":
		return r.think(delta), nil
	case "response.function_call_arguments.delta":
		r.pieces(e.OutputIndex.N)
		return delta == "" || r.yield(model.Part{CallDelta: delta}, nil), nil
	case "response.output_item.done":
		i, err := r.read(e.Item)
		if err != nil {
			return r.fails(r.config.Bad(model.KindStream, "an item of the reply makes no sense")), nil
		}
		more := r.item(e.OutputIndex.N, i, len(e.Item))
		r.aside = false
		return more, nil
	case lastEvents[0], lastEvents[1], lastEvents[2]:
		r.ends(e)
	case "error":
		return r.fails(r.config.StreamError(named.Data)), nil
	default:
		if delta != "" {
			r.pieces(e.OutputIndex.N)
			r.hidden(len(delta))
		}
	}
	return true, nil
}

// read reads an output item. With a schema, a message that a model calls a commentary is no part of
// the answer.
func (r *response) read(raw json.RawMessage) (i item, err error) {
	err = model.Event{Data: raw}.Read(&i)
	r.aside = r.schema && i.Phase == "commentary"
	return i, err
}

// say yields text of a message. In the answer each message has a paragraph of its own.
func (r *response) say(index int64, text string) bool {
	if text == "" {
		return true
	}
	if index != r.spoke && (r.aside && r.asides.Len() > 0 || !r.aside && r.said) {
		text = "\n\n" + text
	}
	r.spoke = index
	if r.aside {
		r.asides.WriteString(text)
		return r.yield(model.Part{ReasoningDelta: text}, nil)
	}
	r.said = true
	return r.yield(model.Part{Text: text}, nil)
}

// pieces notes that an item comes in pieces.
func (r *response) pieces(index int64) {
	if r.inPieces == nil {
		r.inPieces = map[int64]bool{}
	}
	if !r.inPieces[index] {
		r.calls.Next()
	}
	r.inPieces[index] = true
}

func (r *response) think(text string) bool {
	r.thought.WriteString(text)
	return text == "" || r.yield(model.Part{ReasoningDelta: text}, nil)
}

// fails ends the reply with an error, after its usage.
func (r *response) fails(err error) bool {
	r.failure, r.end = err, model.StopEnd
	return true
}

// item takes a complete output item of so many bytes.
func (r *response) item(index int64, i item, size int) bool {
	if !r.inPieces[index] {
		r.calls.Next()
	}
	switch i.Type {
	case "reasoning":
		return r.reasoning(i)
	case "function_call":
		arguments := []byte(i.Arguments)
		var text string
		if json.Unmarshal(arguments, &text) == nil {
			arguments = []byte(text)
		}
		if whole := i.Name + string(arguments); !r.inPieces[index] && whole != "" && !r.yield(model.Part{CallDelta: whole}, nil) {
			return false
		}
		if i.Status == "incomplete" {
			return true // it was cut off: its arguments are not what the model meant
		}
		if i.Name == "" {
			return r.fails(nameless(r.config))
		}
		if r.calls.Add(i.CallID, i.Name, arguments) != "" {
			r.queue = append(r.queue, queued{})
		}
	case "message":
		for _, c := range i.Content {
			r.refused = r.refused || c.Type == "refusal"
			if !r.inPieces[index] && !r.say(index, cmp.Or(c.Text, c.Refusal)) {
				return false
			}
		}
	default:
		if !r.inPieces[index] {
			r.hidden(size)
		}
	}
	return true
}

// reasoning keeps a reasoning item, in the order of the model.
func (r *response) reasoning(i item) bool {
	shown := i.Summary
	if len(shown) == 0 {
		shown = i.Content
	}
	r.hidden(len(i.Encrypted))
	var texts []string
	for _, p := range shown {
		texts = append(texts, p.Text)
	}
	text := strings.Join(texts, "\n\n")
	if text == "" {
		text = r.thought.String()
	}
	if r.thought.Len() == 0 && !r.think(text) {
		return false
	}
	r.thought.Reset()
	opaque, err := json.Marshal(opaqueItem{reasoningItem{Type: "reasoning", ID: i.ID, Summary: append([]textPart{}, i.Summary...), Content: i.Content, Encrypted: i.Encrypted}})
	if err != nil {
		return r.fails(r.config.Bad(model.KindStream, "%v", err))
	}
	reasoning := &model.Reasoning{Text: text, Opaque: opaque, Provider: r.config.Name}
	if len(r.queue) > 0 {
		r.queue = append(r.queue, queued{reasoning})
		return true
	}
	return r.yield(model.Part{Reasoning: reasoning}, nil)
}

// ends takes the last event.
func (r *response) ends(e responsesEvent) {
	r.end = model.StopEnd
	// Servers that follow OpenAI's send one last event for all ends, and say in the response which
	// it is.
	named := strings.TrimPrefix(e.Type.Text, "response.")
	status := cmp.Or(e.Response.Status.Text, named)
	if named != "completed" {
		status = named
	}
	switch reason := e.Response.IncompleteDetails.Reason.Text; {
	case status == "failed" || status == "cancelled":
		r.failure = r.config.StreamError([]byte(`{"error":` + cmp.Or(string(e.Response.Error), "null") + `}`))
	case reason == "content_filter", r.refused:
		r.end = model.StopRefusal
	case status == "incomplete":
		r.end = model.StopMaxTokens
	case status != "completed" && status != "in_progress": // some servers set the second only once
		r.end, r.failure = r.config.UnknownStop(status, r.said || r.asides.Len()+r.calls.Len() > 0)
	}
}

func (r *response) finish(err error) {
	if err == nil {
		err = r.failure
	}
	if err == nil && r.end == "" {
		err = r.config.Bad(model.KindStream, "the reply broke off")
	}
	if err != nil {
		if used := r.tally.used(); used == nil || r.yield(*used, nil) {
			r.yield(model.Part{}, err)
		}
		return
	}
	if !r.said && r.asides.Len() > 0 { // it has said nothing else, besides calls
		r.aside = false
		if !r.say(r.spoke, r.asides.String()) {
			return
		}
	}
	calls, stop := r.calls.Finish(r.end)
	for _, q := range r.queue {
		part := model.Part{Reasoning: q.reasoning}
		if q.reasoning == nil {
			if len(calls) == 0 {
				break // the last one was cut off
			}
			part.Call, calls = calls[0], calls[1:]
		}
		if !r.yield(part, nil) {
			return
		}
	}
	if used := r.tally.used(); used != nil && !r.yield(*used, nil) {
		return
	}
	r.yield(model.Part{Stop: stop}, nil)
}

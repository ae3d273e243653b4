// Package openai speaks OpenAI's chat completions, against the vendor or any server with the same
// wire format: Ollama, llama.cpp, vLLM, LM Studio, OpenRouter, Gemini's compatible endpoint and
// others; and the Responses API, where model.Info.API says so.
//
// Traps: the stream ends quietly when the connection does, so a reply counts as complete only
// when its finish reason was seen. Compatible servers give tool calls without ids, with the same
// index, twice, or whole in one delta, call reasoning by several names, and end replies with reasons
// of their own. From GPT-5.4 on, the vendor's models do not both reason and take tools over this API.
package openai

import (
	"bytes"
	"cmp"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync/atomic"
	"unicode"

	"jp/cmd/jp/internal/model"
)

// New is a model.Provider.
func New(c model.Config) (model.Stream, error) {
	if c.Model.API == model.Responses {
		return api{
			config: c, path: "responses", known: new(atomic.Pointer[demands]),
			request: func(r model.Request, _ demands) (any, error) { return responder{c}.request(r) },
			answer: func(r model.Request, yield func(model.Part, error) bool, hidden func(int)) answer {
				return &response{config: c, yield: yield, hidden: hidden, calls: model.NewCalls(r), schema: len(r.Schema) > 0}
			},
		}.stream, nil
	}
	return api{
		config: c, path: "chat/completions", known: new(atomic.Pointer[demands]),
		request: func(r model.Request, d demands) (any, error) { return provider{c, d}.request(r) },
		answer: func(r model.Request, yield func(model.Part, error) bool, hidden func(int)) answer {
			return &reply{config: c, yield: yield, hidden: hidden, calls: model.NewCalls(r)}
		},
	}.stream, nil
}

// provider makes the requests of the chat completions API.
type provider struct {
	config model.Config
	demands
}

// reply puts one answer together.
type reply struct {
	config    model.Config
	yield     func(model.Part, error) bool
	hidden    func(bytes int) // model.Hidden
	pending   []*call
	calls     *model.Calls
	tally     tally
	uncounted bool   // whether something was said since the usage was reported
	finished  string // the finish reason
	goesOn    bool   // whether more came after it: some servers send one in each chunk
	over      bool   // whether usage came after it, for the first time or with no choice, and nothing else
	said      bool
	refused   bool
	reasoning []byte
	memory    memory
	tags      thinkTags
	byTool    bool // whether the server has counted a call by the place of its tool, as SGLang does
}

// call is one tool call in the making.
type call struct {
	index     int64
	id, name  string
	signature string // the one in the id
	arguments []byte
	last      string  // latest piece of the arguments
	nesting   nesting // of the arguments
	extra     json.RawMessage
}

// signedID is what LiteLLM puts between the id of a call and Gemini's signature of it, of several
// KB.
const signedID = "__thought__"

// memory is data that must be sent back to a server and for which we have no field. It is stored in
// model.Reasoning.Opaque.
type memory struct {
	Field   string                     `json:"field,omitempty"`   // field that had the reasoning: reasoning_content, reasoning
	Details []json.RawMessage          `json:"details,omitempty"` // OpenRouter's reasoning_details
	Calls   map[string]json.RawMessage `json:"calls,omitempty"`   // Gemini's extra_content of tool calls, by id
	Signed  map[string]string          `json:"signed,omitempty"`  // Gemini's signatures of calls behind LiteLLM, by id
	Named   string                     `json:"named,omitempty"`   // model that wants its ids of calls back as they are, and signatures; "" = they are like those of others
}

// whole is false until there is usage that came after the finish reason, for the first time or with no choice.
func (r *reply) whole() bool { return r.over }

func (r *reply) event(e model.Event, name func(id, model string)) (bool, error) {
	var c chunk
	err := e.Read(&c)
	if e.Whole || e.Unended { // what cannot be read says nothing
		if r.tally.add(c.Usage); e.Whole && r.tally.output <= 0 {
			r.hidden(len(e.Data))
		}
		return true, nil
	}
	if err != nil {
		return true, err
	}
	counted := r.tally.output > 0
	r.tally.add(c.Usage)
	if err := reported(r.config, e, c.Error); err != nil {
		return true, err
	}
	name(c.ID.Text, c.Model.Text)
	finished := r.finished != ""
	r.over = finished && c.Usage.counts() && (!counted || len(c.Choices) == 0)
	for _, choice := range c.Choices {
		if choice.Index.N != 0 {
			continue // we ask for one
		}
		if choice.FinishReason.Text != "" {
			r.finished = choice.FinishReason.Text
		}
		d := choice.Delta
		r.uncounted = r.uncounted || !d.empty()
		r.over = r.over && d.empty()
		r.goesOn = r.goesOn || finished && !d.empty()
		field, text := "reasoning_content", d.ReasoningContent.Text
		if text == "" { // some servers give both
			field, text = "reasoning", d.Reasoning.Text
		}
		if text != "" {
			r.memory.Field = field
			r.reasoning = append(r.reasoning, text...)
			if !r.yield(model.Part{ReasoningDelta: text}, nil) {
				return false, nil
			}
		}
		r.memory.Details = append(r.memory.Details, d.ReasoningDetails...)
		r.hidden(beside(text, d.ReasoningDetails))
		if d.Refusal.Text != "" {
			r.refused = true
		}
		thought, said := "", d.Content.Text
		if r.memory.Field == "" && !r.config.Official() {
			thought, said = r.tags.take(said)
		}
		if !r.say(d.Content.Thought+thought, said) || !r.say("", d.Refusal.Text) {
			return false, nil
		}
		for _, t := range d.ToolCalls {
			delta := r.toolCall(t)
			if len(r.pending) > model.MaxCalls {
				return true, r.tooMany("calls more than %d tools", model.MaxCalls)
			}
			if delta != "" && !r.yield(model.Part{CallDelta: delta}, nil) {
				return false, nil
			}
		}
	}
	r.uncounted = r.uncounted && !(c.Usage.counts() || c.Usage != nil && c.Usage.Total.N > 0)
	if len(r.memory.Details) > maxDetails {
		return true, r.tooMany("has more than %d pieces of reasoning", maxDetails)
	}
	return true, nil
}

// maxDetails bounds memory.Details, each of which takes several times its bytes.
const maxDetails = 1 << 18

func (r *reply) tooMany(what string, most int) error {
	return &model.Error{Provider: r.config.Name, Kind: model.KindTooLarge, Final: true, Message: fmt.Sprintf("the reply "+what, most)}
}

// beside returns how many bytes of reasoning are in OpenRouter's details and not in the text beside
// them, which they may repeat.
func beside(text string, details []json.RawMessage) int {
	shown, hidden := 0, 0
	for _, raw := range details {
		var d struct{ Text, Summary, Data, Signature model.Str }
		_ = json.Unmarshal(raw, &d) // what is no object has none of these
		shown += len(d.Text.Text) + len(d.Summary.Text)
		hidden += len(d.Data.Text) + len(d.Signature.Text)
	}
	return hidden + max(shown-len(text), 0)
}

// say yields a piece of thinking, then of the answer.
func (r *reply) say(thought, said string) bool {
	if thought != "" {
		r.reasoning = append(r.reasoning, thought...)
		if !r.yield(model.Part{ReasoningDelta: thought}, nil) {
			return false
		}
	}
	if said == "" {
		return true
	}
	r.said = true
	return r.yield(model.Part{Text: said}, nil)
}

// toolCall finds the call that a delta belongs to, adds to it, and returns what was added. SGLang
// counts the first piece of a call by its tool, and those after it by the call: without a name, the
// index may be that of no call, or of one that is complete.
func (r *reply) toolCall(d deltaCall) string {
	name, arguments := d.Function.Name.Text, string(d.Function.Arguments)
	id, signature, _ := strings.Cut(d.ID.Text, signedID)
	if !strings.HasPrefix(arguments, "{") { // an object where a string belongs
		var text model.Str
		if d.Function.Arguments != nil && text.UnmarshalJSON(d.Function.Arguments) != nil {
			text = model.Str{}
		}
		arguments = text.Text
	}
	c := r.find(func(p *call) bool { return p.index == d.Index.N })
	if c != nil && !c.takes(id, name) {
		c = nil
	}
	if last := len(r.pending) - 1; name == "" && c == nil && last >= 0 {
		if id != "" {
			c = r.find(func(p *call) bool { return p.id == id })
		} else if p := r.pending[last]; !p.nesting.complete() || strings.TrimSpace(arguments) == "" {
			c, r.byTool = p, r.byTool || arguments != ""
		}
	}
	if r.byTool && name+id == "" && c != nil && c.nesting.complete() {
		if last := r.pending[len(r.pending)-1]; !last.nesting.complete() {
			c = last
		}
	}
	if c == nil {
		c = &call{index: d.Index.N}
		r.pending = append(r.pending, c)
	}
	if id != "" {
		r.hidden(max(0, len(signature)-len(c.signature)))
		c.id, c.signature = id, cmp.Or(signature, c.signature)
	}
	if name != "" {
		c.name = name
	}
	c.arguments, c.last = append(c.arguments, arguments...), cmp.Or(arguments, c.last)
	c.nesting.take(arguments)
	if d.Extra != nil {
		c.extra = d.Extra
		r.hidden(len(d.Extra))
	}
	return name + arguments
}

// find returns the latest call for which is holds, nil if there is none.
func (r *reply) find(is func(*call) bool) *call {
	for _, c := range slices.Backward(r.pending) {
		if is(c) {
			return c
		}
	}
	return nil
}

// takes reports whether a piece under the index of the call belongs to it. Some servers give no
// index, or 0 to all calls: another id or name, or a name after a complete call without ids, starts
// a new one.
func (c *call) takes(id, name string) bool {
	other := func(a, b string) bool { return a != "" && b != "" && a != b }
	return !other(id, c.id) && (!other(name, c.name) || id != "" && id == c.id && !c.nesting.begun && strings.HasPrefix(name, c.name)) && (id+c.id != "" || name == "" || !c.nesting.complete())
}

// objects returns the arguments of the call, and those of further ones if they are objects in a row,
// because the server gives one index and id to all calls of a tool. vLLM says all arguments once more
// in its last piece, sometimes behind only a part of them. If the reply was cut off, this piece is
// cut off too, and may be JSON.
func (c *call) objects(cut bool) (first []byte, further [][]byte) {
	if json.Valid(c.arguments) {
		return c.arguments, nil
	}
	var row [][]byte
	in := json.NewDecoder(bytes.NewReader(c.arguments))
	for range model.MaxCalls {
		var one json.RawMessage
		err := in.Decode(&one)
		if err == io.EOF && len(row) > 0 {
			return row[0], row[1:]
		}
		if err != nil || one[0] != '{' {
			break
		}
		if len(row) > 0 || string(one) != "{}" { // proxies begin with it where Anthropic does
			row = append(row, one)
		}
	}
	part := bytes.TrimSuffix(c.arguments, []byte(c.last))
	if !cut && len(part) > 0 && json.Valid([]byte(c.last)) && strings.HasPrefix(dense(c.last), dense(string(part))) {
		return []byte(c.last), nil
	}
	return c.arguments, nil
}

// dense returns a text without its space.
func dense(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsSpace(r) {
			return -1
		}
		return r
	}, text)
}

// finish yields the end of a reply, or the error that it is incomplete: err, or no finish reason.
// Once there is one, nothing but usage can follow, so a connection that breaks then breaks nothing.
func (r *reply) finish(err error) {
	if !r.say(r.tags.end()) {
		return
	}
	stop, problem := r.stop()
	if r.finished != "" && (err == nil || !r.goesOn) {
		err = problem
	} else if err == nil {
		err = r.config.Bad(model.KindStream, "the reply broke off")
	}
	if err == nil {
		err = r.addCalls(stop == model.StopMaxTokens || stop == model.StopRefusal)
	}
	if err != nil {
		if used := r.tally.used(); used == nil || r.yield(*used, nil) {
			r.yield(model.Part{}, err)
		}
		return
	}

	calls, stop := r.calls.Finish(stop)
	if len(r.reasoning) > 0 || len(r.memory.Details) > 0 || len(r.memory.Calls) > 0 || r.memory.Named != "" {
		opaque, err := json.Marshal(r.memory)
		if err != nil {
			r.yield(model.Part{}, r.config.Bad(model.KindStream, "%v", err))
			return
		}
		reasoning := &model.Reasoning{Text: string(r.reasoning), Opaque: opaque, Provider: r.config.Name}
		if !r.yield(model.Part{Reasoning: reasoning}, nil) {
			return
		}
	}
	for _, c := range calls {
		if !r.yield(model.Part{Call: c}, nil) {
			return
		}
	}
	if used := r.tally.used(); used != nil {
		if used.Estimated = r.uncounted; !r.yield(*used, nil) {
			return
		}
	}
	r.yield(model.Part{Stop: stop}, nil)
}

// addCalls completes the tool calls. A server that says a call under two indexes may say its
// arguments only once. cut says whether the reply was cut off.
func (r *reply) addCalls(cut bool) error {
	type named struct{ id, name string }
	whole, n := make(map[named]bool), 0
	for _, p := range r.pending {
		whole[named{p.id, p.name}] = whole[named{p.id, p.name}] || len(p.arguments) > 0
	}
	for _, p := range r.pending {
		if p.name == "" {
			if cut && p == r.pending[len(r.pending)-1] {
				r.calls.Next()
				break
			}
			return nameless(r.config)
		}
		if p.id != "" && len(p.arguments) == 0 && whole[named{p.id, p.name}] {
			continue
		}
		first, further := p.objects(cut)
		if n += 1 + len(further); n > model.MaxCalls {
			return r.tooMany("calls more than %d tools", model.MaxCalls)
		}
		said := cmp.Or(p.id, "call_"+rand.Text())
		id := r.calls.Add(said, p.name, first)
		for _, arguments := range further {
			r.calls.Add(said, p.name, arguments)
		}
		if id == "" {
			continue
		}
		if model.FitID(id, maxID) != id && !r.config.Official() {
			r.memory.Named = r.config.Model.Name
		}
		if p.signature != "" {
			if r.memory.Signed == nil {
				r.memory.Signed = make(map[string]string)
			}
			r.memory.Signed[id], r.memory.Named = p.signature, r.config.Model.Name
		}
		if p.extra != nil {
			if r.memory.Calls == nil {
				r.memory.Calls = make(map[string]json.RawMessage)
			}
			r.memory.Calls[id] = p.extra
		}
	}
	return nil
}

// stop maps the finish reason: OpenAI's, and those that servers take from elsewhere or add.
func (r *reply) stop() (model.Stop, error) {
	reason, _, _ := strings.Cut(strings.ReplaceAll(strings.ToLower(r.finished), "-", "_"), ":") // Gemini's own word is behind it
	switch reason {
	case "stop", "end_turn", "stop_sequence", "eos", "eos_token", "end", "normal", "complete", "completed", "done":
		if r.refused {
			return model.StopRefusal, nil
		}
		return model.StopEnd, nil
	case "length", "max_tokens", "model_length", "model_context_window_exceeded":
		return model.StopMaxTokens, nil
	case "tool_calls", "tool_call", "function_call", "tool_use":
		return model.StopToolUse, nil
	case "content_filter", "refusal", "sensitive", "safety", "recitation", "prohibited_content", "blocklist", "spii":
		return model.StopRefusal, nil
	case "error", "abort", "failed", "cancelled", "network_error", "function_call_filter", "malformed_function_call":
		return "", r.config.Bad(model.KindServer, "the server ended the reply with %q", r.finished)
	case "insufficient_system_resource":
		return "", r.config.Bad(model.KindOverloaded, "the server ended the reply with %q", r.finished)
	}
	return r.config.UnknownStop(r.finished, r.said || len(r.pending) > 0)
}

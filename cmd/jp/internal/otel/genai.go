package otel

import (
	"context"
	"encoding/json"
	"net/url"
	"slices"
	"strconv"
)

// The names here are those of the semantic conventions for generative AI as they stood in 2026
// (github.com/open-telemetry/semantic-conventions-genai, status: development). What the conventions have no name for begins
// with "jp.", and says it in the words of `jp trace`.
const (
	keyConversation = "gen_ai.conversation.id"
	keyState        = "jp.state"
)

// Agent is a run of an agent: one turn of a conversation.
type Agent struct {
	Name         string // of its profile, "" = none
	Conversation string
	Provider     string // as jp names it
	Model        string // the provider's own id
}

// InvokeAgent begins the span of a run. All spans below it name its conversation and its agent.
func InvokeAgent(ctx context.Context, a Agent) (context.Context, *Span) {
	ctx, s := Start(ctx, named("invoke_agent", a.Name), Internal,
		Str("gen_ai.operation.name", "invoke_agent"), Str("gen_ai.provider.name", provider(a.Provider)), Str("gen_ai.request.model", a.Model))
	s.Share(Conversation(a.Conversation), Str("gen_ai.agent.name", a.Name))
	return ctx, s
}

// Conversation names the conversation that a span is of.
func Conversation(id string) Attr { return Str(keyConversation, id) }

// InvokeWorkflow begins the span of what runs sub-agents without an agent of its own.
func InvokeWorkflow(ctx context.Context, name, conversation string) (context.Context, *Span) {
	ctx, s := Start(ctx, named("invoke_workflow", name), Internal,
		Str("gen_ai.operation.name", "invoke_workflow"), Str("gen_ai.workflow.name", name))
	s.Share(Conversation(conversation))
	return ctx, s
}

// Chat is one call of a model.
type Chat struct {
	Provider    string // as jp names it
	Model       string // the provider's own id
	Endpoint    string // base URL, "" = none
	MaxTokens   int    // 0 = not said
	Temperature *float64
	Reasoning   string // "" = not said
	JSON        bool   // the answer must match a schema
}

// StartChat begins the span of a call of a model.
func StartChat(ctx context.Context, c Chat) (context.Context, *Span) {
	attrs := []Attr{
		Str("gen_ai.operation.name", "chat"), Str("gen_ai.provider.name", provider(c.Provider)), Str("gen_ai.request.model", c.Model),
		Bool("gen_ai.request.stream", true),
	}
	if u, err := url.Parse(c.Endpoint); err == nil && u.Hostname() != "" {
		port, _ := strconv.ParseInt(u.Port(), 10, 32)
		switch {
		case port == 0 && u.Scheme == "https":
			port = 443
		case port == 0:
			port = 80
		}
		attrs = append(attrs, Str("server.address", u.Hostname()), Int("server.port", port))
	}
	if c.MaxTokens > 0 {
		attrs = append(attrs, Int("gen_ai.request.max_tokens", int64(c.MaxTokens)))
	}
	if c.Temperature != nil {
		attrs = append(attrs, Float("gen_ai.request.temperature", *c.Temperature))
	}
	attrs = append(attrs, Str("gen_ai.request.reasoning.level", c.Reasoning))
	if c.JSON {
		attrs = append(attrs, Str("gen_ai.output.type", "json"))
	}
	return Start(ctx, named("chat", c.Model), Client, attrs...)
}

// Usage is in tokens; Input is without those that a cache has saved or kept.
type Usage struct{ Input, Output, CacheRead, CacheWrite int64 }

// Used says what s has used. The conventions count all input as input.
func (s *Span) Used(u Usage) {
	s.Set(Int("gen_ai.usage.input_tokens", u.Input+u.CacheRead+u.CacheWrite), Int("gen_ai.usage.output_tokens", u.Output))
	if u.CacheRead > 0 {
		s.Set(Int("gen_ai.usage.cache_read.input_tokens", u.CacheRead))
	}
	if u.CacheWrite > 0 {
		s.Set(Int("gen_ai.usage.cache_write.input_tokens", u.CacheWrite))
	}
}

// Responded names the reply and the model that made it, as the provider does.
func (s *Span) Responded(id, model string) {
	s.Set(Str("gen_ai.response.id", id), Str("gen_ai.response.model", model))
}

// Finished says why a model stopped: stop, length, tool_call or content_filter.
func (s *Span) Finished(reason string) { s.Set(Strs("gen_ai.response.finish_reasons", reason)) }

// Status is that of the HTTP response that s failed with; 0 = none.
func (s *Span) Status(code int) {
	if code != 0 {
		s.Set(Int("http.response.status_code", int64(code)))
	}
}

// Refused says that the one rule refused what s was to do: a part of the rule, and its text, which is content.
func (s *Span) Refused(code, text string) {
	s.Fail("refused", text)
	s.Set(Str("jp.refused", code))
}

// State is how s ended, in jp's words. The reason may be somebody else's words, and is content. Of several calls the first counts.
func (s *Span) State(state, reason string) {
	if !s.change() {
		return
	}
	defer s.mu.Unlock()
	if slices.ContainsFunc(s.attrs, func(a Attr) bool { return a.key == keyState }) {
		return
	}
	s.set(Str(keyState, state))
	if s.tracer.set.content {
		s.set(Str("jp.reason", shorten(reason)))
	}
}

// Cost is what s cost, in nano-dollars; nil = unknown.
func (s *Span) Cost(nano *int64) {
	if nano != nil {
		s.Set(cost(*nano))
	}
}

func cost(nano int64) Attr { return Float("jp.cost_usd", float64(nano)/1e9) }

// Turn is the turn of the conversation that s is, counted from 1.
func (s *Span) Turn(n int) { s.Set(Int("jp.turn", int64(n))) }

// Tool is one call of a tool.
type Tool struct {
	Name      string
	Source    string // "" = there is no such tool
	Call      string // its id
	Arguments string // content
}

// ExecuteTool begins the span of a call of a tool.
func ExecuteTool(ctx context.Context, t Tool) (context.Context, *Span) {
	ctx, s := Start(ctx, named("execute_tool", t.Name), Internal,
		Str("gen_ai.operation.name", "execute_tool"), Str("gen_ai.tool.name", t.Name), Str("gen_ai.tool.type", "function"),
		Str("gen_ai.tool.call.id", t.Call), Str("jp.tool.source", t.Source))
	if s.Capturing() {
		s.Set(Str("gen_ai.tool.call.arguments", shorten(t.Arguments)))
	}
	return ctx, s
}

// Answered says what came of the call of a tool; the text is content. refused: it was not run.
func (s *Span) Answered(text string, isError, refused bool) {
	if s.Capturing() {
		s.Set(Str("gen_ai.tool.call.result", shorten(text)))
	}
	switch {
	case refused:
		s.Fail("refused", shorten(text))
		s.State("error", "")
	case isError:
		s.Fail("error", shorten(text))
		s.State("error", "")
	default:
		s.State("ok", "")
	}
}

// Delegation is one run of a sub-agent for a tool call. Its own span is that process's; what is told here is there even
// when that process was killed and its spans with it.
type Delegation struct {
	Conversation string
	Profile      string
	Model        string // as jp names it
	PID          int    // 0 = none yet
	State        string // a terminal state, "" = not yet
	Reason       string
	Tokens       int64
	Cost         *int64 // nano-dollars; nil = unknown
}

// Delegated records on the span of the call that a delegation has come to a point of its way: queued, started or ended.
func (s *Span) Delegated(point string, d Delegation) {
	if !s.records() {
		return
	}
	attrs := []Attr{
		Str("jp.delegation.conversation.id", d.Conversation), Str("jp.delegation.profile", d.Profile), Str("jp.delegation.model", d.Model),
	}
	if d.PID != 0 {
		attrs = append(attrs, Int("process.pid", int64(d.PID)))
	}
	if d.State != "" {
		attrs = append(attrs, Str(keyState, d.State), Int("jp.tokens", d.Tokens))
		if s.Capturing() {
			attrs = append(attrs, Str("jp.reason", shorten(d.Reason)))
		}
		if d.Cost != nil {
			attrs = append(attrs, cost(*d.Cost))
		}
	}
	s.Event("jp.delegation."+point, attrs...)
}

// Waits records that a request to a model waits, because of an error of that kind, before it is made again. attempt is the one that
// failed, 0 where none did and others hold it back.
func (s *Span) Waits(attempt int, kind string, seconds float64) {
	s.Event("jp.wait", Int("jp.attempt", int64(attempt)), Str("error.type", kind), Float("jp.wait_seconds", seconds))
}

// GoesOn records that a wait is over.
func (s *Span) GoesOn() { s.Event("jp.go_on") }

// Message is one message of a thread, in the form of the conventions.
type Message struct {
	Role   string `json:"role"` // user, assistant or tool
	Parts  []Part `json:"parts"`
	Finish string `json:"finish_reason,omitempty"` // of what a model said
}

// Part is a piece of a message. Type says which of the others are set: text and reasoning have Content, tool_call has ID, Name and
// Arguments, tool_call_response ID and Response, image MediaType.
type Part struct {
	Type      string `json:"type"`
	Content   string `json:"content,omitempty"`
	ID        string `json:"id,omitempty"`
	Name      string `json:"name,omitempty"`
	Arguments any    `json:"arguments,omitempty"` // json.RawMessage, or a string where it is no JSON
	Response  string `json:"response,omitempty"`
	MediaType string `json:"mime_type,omitempty"`
}

// Arguments are arguments as a Part has them.
func Arguments(raw json.RawMessage) any {
	if json.Valid(raw) && len(raw) <= maxPiece {
		return raw
	}
	return shorten(string(raw))
}

// Bounds of content: of one piece, and of all pieces of one attribute.
const (
	maxPiece   = 8 << 10
	maxContent = 48 << 10
)

// shorten cuts one piece.
func shorten(s string) string {
	if len(s) <= maxPiece {
		return s
	}
	return cut(text(s), maxPiece) + "\n[cut: " + strconv.Itoa(len(s)) + " bytes]"
}

// Said records what a model was sent, and what it said to that: content. Texts are cut, and of what was sent the oldest messages are
// left out where all are too long for one attribute; jp.left_out_messages says how many.
func (s *Span) Said(system []string, input []Message, output *Message) {
	if !s.Capturing() {
		return
	}
	var parts []Part
	for _, text := range system {
		parts = append(parts, Part{Type: "text", Content: shorten(text)})
	}
	if instructions, left := fitting(parts); len(parts) > 0 {
		s.Set(Str("gen_ai.system_instructions", instructions))
		if left > 0 {
			s.Set(Int("jp.left_out_sections", int64(left)))
		}
	}
	for i := range input {
		input[i] = input[i].short()
	}
	if messages, left := fitting(input); len(input) > 0 {
		s.Set(Str("gen_ai.input.messages", messages))
		if left > 0 {
			s.Set(Int("jp.left_out_messages", int64(left)))
		}
	}
	if output != nil {
		messages, _ := fitting([]Message{output.short()})
		s.Set(Str("gen_ai.output.messages", messages))
	}
}

// short is a copy with its texts cut, and without the parts for which there is no room.
func (m Message) short() Message {
	parts, room := []Part{}, maxContent-1024
	for i, p := range m.Parts {
		p.Content, p.Response = shorten(p.Content), shorten(p.Response)
		piece, err := json.Marshal(p)
		if err != nil || len(piece) > room {
			parts = append(parts, Part{Type: "text", Content: "[left out: " + strconv.Itoa(len(m.Parts)-i) + " parts]"})
			break
		}
		room -= len(piece) + 1
		parts = append(parts, p)
	}
	m.Parts = parts
	return m
}

// fitting is a JSON array of as many of the last of list as have room in an attribute, and how many are left out.
func fitting[T any](list []T) (text string, left int) {
	size, from := 2, len(list)
	pieces := make([]json.RawMessage, len(list))
	for from > 0 {
		piece, err := json.Marshal(list[from-1])
		if err != nil || size+len(piece)+1 > maxContent {
			break
		}
		size += len(piece) + 1
		from--
		pieces[from] = piece
	}
	b, err := json.Marshal(pieces[from:])
	if err != nil {
		return "[]", len(list)
	}
	return string(b), from
}

// named is the name of a span: the operation and what it is of.
func named(operation, of string) string {
	if of == "" {
		return operation
	}
	return operation + " " + of
}

// provider is the conventions' name of a provider, its own where they have none.
func provider(name string) string {
	switch name {
	case "gemini":
		return "gcp.gemini"
	case "mistral":
		return "mistral_ai"
	case "xai":
		return "x_ai"
	case "moonshot":
		return "moonshot_ai"
	}
	return name
}

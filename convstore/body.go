package convstore

import (
	"bytes"
	"encoding/json"
	"fmt"
	"time"
	"unicode/utf8"

	"jp/convstore/internal/stored"
	"jp/tools/jsondoc"
)

// Body is what an event says: one of the types of this file. Bytes of a text that are not UTF-8 are
// stored as U+FFFD. JSON fields must hold valid JSON; white space between its tokens is not kept.
type Body interface{ kind() stored.Kind }

// TurnStart opens the next turn. Events before the first one belong to turn 0.
type TurnStart struct {
	// Limits are the limits of the session that begins; nil = none. They are not used in a
	// delegated conversation, and only say what was where the event is a copy.
	Limits *Limits `json:"limits,omitempty"`
	// NoAgent marks the turn of a command that only delegates, which no agent can go on with.
	NoAgent bool `json:"no_agent,omitempty"`
}

// UserMessage is what the user asked for, or the caller of a sub-agent.
type UserMessage struct {
	Text        string          `json:"content"`
	Attachments []Attachment    `json:"attachments,omitempty"`
	Schema      json.RawMessage `json:"schema,omitempty"` // schema of the answer
}

// Attachment is a file or page that came with a UserMessage.
type Attachment struct {
	Source    string `json:"source"` // path or URL, as it was given
	MediaType string `json:"media_type,omitempty"`
	Text      string `json:"text,omitempty"`
	Data      []byte `json:"data,omitempty"` // content that is not text
}

// AssistantMessage is a piece of the assistant's answer.
type AssistantMessage struct {
	Text string `json:"message"`
}

// Reasoning is a piece of the model's reasoning, with the data that its provider needs to accept it
// again.
type Reasoning struct {
	Text      string          `json:"reasoning"`
	Signature string          `json:"signature,omitempty"`
	Opaque    json.RawMessage `json:"opaque,omitempty"` // the provider's own form
	Provider  string          `json:"provider,omitempty"`
}

// Structured is an answer to a request that had a Schema.
type Structured struct {
	Data json.RawMessage `json:"data"`
}

// ToolCall is a model's request to call a tool. Arguments are as the model wrote them and may not
// be JSON.
type ToolCall struct {
	ID        string
	Name      string
	Source    string
	Arguments json.RawMessage
}

// ToolResult answers the ToolCall with the same ID.
type ToolResult struct {
	ID      string `json:"id"`
	Text    string `json:"content"`
	IsError bool   `json:"is_error"`
}

// ModelCall records one call of a model after it was made.
type ModelCall struct {
	Model    string `json:"model"`
	Usage    Usage  `json:"usage"`
	CostNano *int64 `json:"cost_nano"` // billionths of a dollar, nil = price unknown
	Stop     string `json:"stop,omitempty"`

	// Estimated marks a call whose use is not known, because it was cut off or its process died.
	// Usage is then an upper estimate.
	Estimated bool `json:"estimated,omitempty"`

	// Replayed marks a call that a recording answered: nothing was paid. CostNano is what it would
	// have cost.
	Replayed bool `json:"replayed,omitempty"`

	Duration time.Duration `json:"duration_ns,omitempty"`
}

// TurnEnd closes the open turn.
type TurnEnd struct {
	State  State  `json:"state"`
	Reason string `json:"reason,omitempty"`

	// Asked identifies what the turn was asked, if all of it is the work of the process that ends
	// it: only that process knows how the turn went. It is not part of the event, and not used in a
	// run that was reserved: see Child.
	Asked Digest `json:"-"`
	// Personal marks an end that a person's decision led to. It is not part of the event: the turn
	// is no Answer.
	Personal bool `json:"-"`
}

// ConfigDelta says what changed in the configuration. Appending one also replaces the
// conversation's stored Config with Resolved, its Model with that of Resolved, and its profile with
// Named. These three are not part of the event: they are empty when it is read back.
type ConfigDelta struct {
	Delta    json.RawMessage `json:"delta,omitempty"`
	Reset    string          `json:"reset,omitempty"` // "none" or "workspace" where the state was reset first
	Resolved Config          `json:"-"`
	Model    string          `json:"-"` // full id; "" = unchanged
	Named    *Named          `json:"-"` // nil = unchanged
}

// Named is the profile that a config was made from; zero = none.
type Named struct{ Profile, Arg, Hash string }

// Inquiry is a question that a tool asked before it could go on.
type Inquiry struct {
	ID      string // id of the tool call and the question
	Tool    string
	Text    string
	Kind    string // boolean, select, text
	Options []string
	Default json.RawMessage
}

// InquiryAnswer answers the Inquiry with the same ID.
type InquiryAnswer struct {
	ID     string          `json:"id"`
	Answer json.RawMessage `json:"answer"`
}

// Note is a remark for readers of the conversation, for example that it continued after a crash.
type Note struct {
	Kind string `json:"kind"`
	Text string `json:"text"`
}

// Compaction says which earlier events are sent to a model in a shorter form or not at all. The
// events stay. It counts them backwards from its own place, without ModelCall events, so that it is
// right in a fork too.
type Compaction struct {
	Reason  string   `json:"reason"`            // "asked", "window" or "provider"
	Results []string `json:"results,omitempty"` // calls whose results are sent as one line

	// Summary replaces all events before this one except the last Kept ones; a model wrote it, "" =
	// none. Covered is the number of events that it replaces. If fewer are there, as in a fork of
	// the last turns, the summary is not used.
	Summary string `json:"summary,omitempty"`
	Model   string `json:"model,omitempty"` // model that wrote Summary
	Covered int    `json:"covered,omitempty"`
	Kept    int    `json:"kept,omitempty"`

	// Conversations are the sub-conversations at that time, because the summary may not name them.
	Conversations []CompactedConversation `json:"conversations,omitempty"`

	Before int64 `json:"tokens_before"` // size of the next request, estimated
	After  int64 `json:"tokens_after"`
}

// CompactedConversation is a sub-conversation at the time of a Compaction.
type CompactedConversation struct {
	ID      string `json:"id"`
	Profile string `json:"profile,omitempty"`
	Status  string `json:"status,omitempty"`
	Title   string `json:"title,omitempty"`
}

// Opaque is a body whose type, or whose form, this version does not know. Raw is the whole body, a
// JSON object with the member "type".
type Opaque struct {
	Name string
	Raw  json.RawMessage
}

// The types' names. The three kinds of chat_response differ in their members.
const (
	typeTurnStart     = "turn_start"
	typeRequest       = "chat_request"
	typeResponse      = "chat_response"
	typeToolCall      = "tool_call_request"
	typeToolResult    = "tool_call_response"
	typeModelCall     = "model_call"
	typeTurnEnd       = "turn_end"
	typeConfigDelta   = "config_delta"
	typeInquiry       = "inquiry_request"
	typeInquiryAnswer = "inquiry_response"
	typeNote          = "note"
	typeCompaction    = "context_compaction" // the Rust program's "compaction" has another form
)

func (TurnStart) kind() stored.Kind        { return stored.KindTurnStart }
func (UserMessage) kind() stored.Kind      { return stored.KindUser }
func (AssistantMessage) kind() stored.Kind { return stored.KindAssistant }
func (Reasoning) kind() stored.Kind        { return stored.KindReasoning }
func (Structured) kind() stored.Kind       { return stored.KindStructured }
func (ToolCall) kind() stored.Kind         { return stored.KindToolCall }
func (ToolResult) kind() stored.Kind       { return stored.KindToolResult }
func (ModelCall) kind() stored.Kind        { return stored.KindModelCall }
func (TurnEnd) kind() stored.Kind          { return stored.KindTurnEnd }
func (ConfigDelta) kind() stored.Kind      { return stored.KindConfigDelta }
func (Inquiry) kind() stored.Kind          { return stored.KindInquiry }
func (InquiryAnswer) kind() stored.Kind    { return stored.KindInquiryAnswer }
func (Note) kind() stored.Kind             { return stored.KindNote }
func (Compaction) kind() stored.Kind       { return stored.KindCompaction }
func (Opaque) kind() stored.Kind           { return stored.KindOpaque }

// Said is a body in which the model says something to whoever asked it: in words, or as data.
type Said interface{ Said() string }

func (b AssistantMessage) Said() string { return b.Text }
func (b Structured) Said() string       { return string(b.Data) }

// KindOf returns the kind that the record of a body has.
func KindOf(b Body) stored.Kind { return b.kind() }

// TypeOf returns the name under which a body is stored.
func TypeOf(b Body) string {
	if o, ok := b.(Opaque); ok {
		return o.Name
	}
	return kinds[b.kind()].name
}

// kinds are, for each kind, the JSON type name, how the body begins ("" = as another kind), and its decoder.
var kinds = [stored.KindCount]struct {
	name   string
	begin  string
	decode func(raw []byte) (Body, error)
}{
	stored.KindTurnStart:     {typeTurnStart, "", decodeAs[TurnStart]},
	stored.KindUser:          {typeRequest, opening + typeRequest + `",`, decodeAs[UserMessage]},
	stored.KindAssistant:     {typeResponse, opening + typeResponse + `","message":`, decodeAs[AssistantMessage]},
	stored.KindReasoning:     {typeResponse, opening + typeResponse + `","reasoning":`, decodeAs[Reasoning]},
	stored.KindStructured:    {typeResponse, opening + typeResponse + `","data":`, decodeAs[Structured]},
	stored.KindToolCall:      {typeToolCall, opening + typeToolCall + `",`, decodeCall},
	stored.KindToolResult:    {typeToolResult, opening + typeToolResult + `",`, decodeAs[ToolResult]},
	stored.KindModelCall:     {typeModelCall, opening + typeModelCall + `",`, decodeAs[ModelCall]},
	stored.KindTurnEnd:       {typeTurnEnd, "", decodeAs[TurnEnd]},
	stored.KindConfigDelta:   {typeConfigDelta, "", decodeAs[ConfigDelta]},
	stored.KindInquiry:       {typeInquiry, opening + typeInquiry + `",`, decodeInquiry},
	stored.KindInquiryAnswer: {typeInquiryAnswer, opening + typeInquiryAnswer + `",`, decodeAs[InquiryAnswer]},
	stored.KindNote:          {typeNote, "", decodeAs[Note]},
	stored.KindCompaction:    {typeCompaction, "", decodeAs[Compaction]},
}

// opening is the beginning of every body that the encoder writes.
const opening = `{"type":"`

// storedCall is a ToolCall in JSON. Arguments that are not JSON are stored in Text.
type storedCall struct {
	ID        string          `json:"id"`
	Name      string          `json:"name"`
	Source    string          `json:"source,omitempty"`
	Arguments json.RawMessage `json:"arguments,omitempty"`
	Text      string          `json:"arguments_text,omitempty"`
}

// storedInquiry is an Inquiry in JSON.
type storedInquiry struct {
	ID     string `json:"id"`
	Source struct {
		Source string `json:"source"`
		Name   string `json:"name"`
	} `json:"source"`
	Question struct {
		Text       string `json:"text"`
		AnswerType struct {
			Type    string   `json:"type"`
			Options []string `json:"options,omitempty"`
		} `json:"answer_type"`
		Default json.RawMessage `json:"default,omitempty"`
	} `json:"question"`
}

// encodeBody returns the body as a JSON object whose first member is "type".
func encodeBody(b Body) ([]byte, error) {
	var members any
	switch b := b.(type) {
	case Opaque:
		if name, err := typeOf(b.Raw); err != nil || name != b.Name {
			return nil, fmt.Errorf("event: %s: not an object of that type", b.Name)
		}
		return b.Raw, nil
	case ToolCall:
		c := storedCall{ID: b.ID, Name: b.Name, Source: b.Source}
		if args := validUTF8(b.Arguments); json.Valid(args) {
			c.Arguments = args
		} else {
			c.Text = string(args)
		}
		members = c
	case Inquiry:
		q := storedInquiry{ID: b.ID}
		q.Source.Source, q.Source.Name = "tool", b.Tool
		q.Question.Text, q.Question.Default = b.Text, validUTF8(b.Default)
		q.Question.AnswerType.Type, q.Question.AnswerType.Options = b.Kind, b.Options
		members = q
	case UserMessage:
		b.Schema = validUTF8(b.Schema)
		members = b
	case Reasoning:
		b.Opaque = validUTF8(b.Opaque)
		members = b
	case Structured:
		b.Data = validUTF8(b.Data)
		members = b
	case ConfigDelta:
		b.Delta = validUTF8(b.Delta)
		members = b
	case InquiryAnswer:
		b.Answer = validUTF8(b.Answer)
		members = b
	case TurnStart, AssistantMessage, ToolResult, ModelCall, TurnEnd, Note, Compaction:
		members = b
	default:
		return nil, fmt.Errorf("event: %T is not a body of this package", b)
	}
	rest, err := jsondoc.Encode(members)
	if err != nil {
		return nil, fmt.Errorf("event: %s: %w", TypeOf(b), err)
	}
	if jsondoc.Deep(rest, 10_000) { // encoding/json reads no more levels
		return nil, fmt.Errorf("event: %s: nested too deep", TypeOf(b))
	}
	out := append(make([]byte, 0, len(rest)+32), opening...)
	out = append(append(out, TypeOf(b)...), '"')
	if len(rest) > len("{}") {
		out = append(out, ',')
	}
	return append(out, rest[1:]...), nil
}

// DecodeBody reads a stored body. It keeps raw, without white space around it.
//
// It fails only if raw is not a JSON object with a string "type". A body of an unknown type, with
// members of other types than it expects, or with too many in its lists becomes Opaque.
func DecodeBody(raw []byte) (Body, error) {
	name, err := typeOf(raw)
	if err != nil {
		return nil, err
	}
	body, err := decodeKind(kindNamed(name, raw), raw)
	if err != nil || body == nil {
		return Opaque{Name: name, Raw: bytes.TrimSpace(raw)}, nil
	}
	return body, nil
}

// kindNamed returns the kind of a body with this type name.
func kindNamed(name string, raw []byte) stored.Kind {
	if name == typeResponse {
		return responseKind(raw)
	}
	for k := range kinds {
		if kinds[k].name == name {
			return stored.Kind(k)
		}
	}
	return stored.KindOpaque
}

// responseKind returns which of the three kinds of chat_response a body is, by the one member that
// each must have.
func responseKind(raw []byte) stored.Kind {
	var has struct {
		Message, Reasoning, Data json.RawMessage
	}
	if err := json.Unmarshal(raw, &has); err != nil {
		return stored.KindOpaque
	}
	switch {
	case has.Message != nil && has.Reasoning == nil && has.Data == nil:
		return stored.KindAssistant
	case has.Reasoning != nil && has.Message == nil && has.Data == nil:
		return stored.KindReasoning
	case has.Data != nil && has.Message == nil && has.Reasoning == nil:
		return stored.KindStructured
	}
	return stored.KindOpaque
}

// maxValues is how many values a body with lists may have: each takes many times its bytes.
const maxValues = 1 << 20

var errCrowded = fmt.Errorf("event: more than %d values", maxValues)

// crowded reports whether a body has lists of more values than that. The values of others, such as
// arguments of a call, stay as they are written.
func crowded(k stored.Kind, raw []byte) bool {
	lists := k == stored.KindUser || k == stored.KindInquiry || k == stored.KindCompaction
	return lists && jsondoc.Crowded(raw, maxValues)
}

// decodeKind decodes a body of a kind. It returns nil for stored.KindOpaque and for unknown kinds.
func decodeKind(k stored.Kind, raw []byte) (Body, error) {
	if k >= stored.KindCount || kinds[k].decode == nil {
		return nil, nil
	}
	if crowded(k, raw) {
		return nil, errCrowded
	}
	return kinds[k].decode(raw)
}

func decodeCall(raw []byte) (Body, error) {
	var c storedCall
	if err := json.Unmarshal(raw, &c); err != nil {
		return nil, err
	}
	call := ToolCall{ID: c.ID, Name: c.Name, Source: c.Source, Arguments: c.Arguments}
	if c.Arguments == nil && c.Text != "" {
		call.Arguments = json.RawMessage(c.Text)
	}
	return call, nil
}

func decodeInquiry(raw []byte) (Body, error) {
	var q storedInquiry
	if err := json.Unmarshal(raw, &q); err != nil {
		return nil, err
	}
	return Inquiry{
		ID: q.ID, Tool: q.Source.Name, Text: q.Question.Text, Kind: q.Question.AnswerType.Type,
		Options: q.Question.AnswerType.Options, Default: q.Question.Default,
	}, nil
}

// BodyOf returns the body of a record. If the record's kind and the first bytes of the body agree,
// it reads the body only once. To find the kind from the body alone takes two or three times as
// long.
func BodyOf(s stored.Event) (Body, error) {
	if k := s.Kind; k < stored.KindCount && kinds[k].begin != "" && bytes.HasPrefix(s.Body, []byte(kinds[k].begin)) {
		if body, err := decodeKind(k, s.Body); err == nil {
			return body, nil
		}
	}
	return DecodeBody(s.Body)
}

func decodeAs[T Body](raw []byte) (Body, error) {
	var b T
	err := json.Unmarshal(raw, &b)
	return b, err
}

// typeOf returns the member "type" of a JSON object.
func typeOf(raw []byte) (string, error) {
	var t struct {
		Type *string `json:"type"`
	}
	if err := json.Unmarshal(raw, &t); err != nil {
		return "", fmt.Errorf("event: %w", jsondoc.Explain(err))
	}
	if t.Type == nil {
		return "", fmt.Errorf("event: no type")
	}
	return *t.Type, nil
}

func validUTF8(raw json.RawMessage) json.RawMessage {
	if utf8.Valid(raw) {
		return raw
	}
	return bytes.ToValidUTF8(raw, []byte("\uFFFD"))
}

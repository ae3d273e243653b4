package stream

import (
	"encoding/json"

	"jp/tools/jsondoc"
)

// Message is a reply of the model in the form of the Anthropic API, which other agents stream.
type Message struct {
	ID           string   `json:"id"`
	Type         string   `json:"type"` // "message"
	Role         string   `json:"role"` // "assistant"
	Model        string   `json:"model"`
	Content      []Block  `json:"content"`
	StopReason   *string  `json:"stop_reason"`   // nil = the reply was cut off
	StopSequence *string  `json:"stop_sequence"` // always nil
	Usage        APIUsage `json:"usage"`
}

// MarshalJSON keeps the types of a message from those of an Assistant. See joined.
func (m Message) MarshalJSON() ([]byte, error) {
	type own Message
	return jsondoc.Encode(own(m))
}

// Block is a part of a message: a text, or a call of a tool.
type Block struct {
	Type  string          `json:"type"` // "text", "tool_use"
	Text  string          `json:"text,omitempty"`
	ID    string          `json:"id,omitempty"`
	Name  string          `json:"name,omitempty"`
	Input json.RawMessage `json:"input,omitempty"`
}

// APIUsage is Usage with the names of the Anthropic API.
type APIUsage struct {
	InputTokens              int64 `json:"input_tokens"`
	OutputTokens             int64 `json:"output_tokens"`
	CacheReadInputTokens     int64 `json:"cache_read_input_tokens"`
	CacheCreationInputTokens int64 `json:"cache_creation_input_tokens"`
}

// ResultUsage is Usage with the names of the Anthropic API where they differ.
type ResultUsage struct {
	Usage
	*CacheNames
}

// CacheNames are the counts of Usage that the Anthropic API has other names for.
type CacheNames struct {
	CacheReadInputTokens     int64 `json:"cache_read_input_tokens"`
	CacheCreationInputTokens int64 `json:"cache_creation_input_tokens"`
}

// NewResultUsage returns u under both names.
func NewResultUsage(u Usage) ResultUsage {
	return ResultUsage{u, &CacheNames{u.CacheReadTokens, u.CacheWriteTokens}}
}

// Stop reasons of the Anthropic API.
const (
	StopEndTurn   = "end_turn"
	StopToolUse   = "tool_use"
	StopMaxTokens = "max_tokens"
	StopRefusal   = "refusal"
)

// NewMessage returns what the model said as a message. stop is one of the stop reasons, or "" for a
// reply that was cut off.
func NewMessage(id, model, text, stop string, calls []ToolCall, u Usage) Message {
	m := Message{
		ID: id, Type: "message", Role: "assistant", Model: model, Content: []Block{},
		Usage: APIUsage{u.InputTokens, u.OutputTokens, u.CacheReadTokens, u.CacheWriteTokens},
	}
	if text != "" {
		m.Content = append(m.Content, Block{Type: "text", Text: text})
	}
	for _, c := range calls {
		m.Content = append(m.Content, Block{Type: "tool_use", ID: c.ID, Name: c.Name, Input: c.Arguments})
	}
	if stop != "" {
		m.StopReason = &stop
	}
	return m
}

// User is a message to the model: the result of a call or, as a replay, the message of a client as
// it came.
type User struct {
	Message  json.RawMessage `json:"message"`
	IsReplay bool            `json:"isReplay,omitempty"`
	UUID     string          `json:"-"` // id that the client gave the message; "" = a new one
}

// ResultBlock is the result of a call.
type ResultBlock struct {
	Type      string `json:"type"` // "tool_result"
	ToolUseID string `json:"tool_use_id"`
	Content   string `json:"content"`
	IsError   bool   `json:"is_error"`
}

// NewUser returns a ToolResult for readers of other agents' streams: a message in the form of the
// Anthropic API.
func NewUser(r *ToolResult) *User {
	b, _ := jsondoc.Encode(struct { // every field can be encoded
		Role    string        `json:"role"`
		Content []ResultBlock `json:"content"`
	}{"user", []ResultBlock{{Type: "tool_result", ToolUseID: r.ID, Content: r.Text, IsError: r.IsError}}})
	return &User{Message: b}
}

// NewReplay repeats the message of a client.
func NewReplay(in Input) *User { return &User{Message: in.Message, IsReplay: true, UUID: in.UUID} }

// Subtypes of a result.
const (
	Success          = "success"
	ErrorTurns       = "error_max_turns"
	ErrorBudget      = "error_max_budget_usd"
	ErrorSchema      = "error_max_structured_output_retries"
	ErrorInExecution = "error_during_execution"
)

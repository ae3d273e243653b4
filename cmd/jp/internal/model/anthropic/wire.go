package anthropic

import (
	"encoding/json"

	"jp/cmd/jp/internal/model"
)

// request is the body of a request.
type request struct {
	MaxTokens    int          `json:"max_tokens"`
	Messages     []message    `json:"messages"`
	Model        string       `json:"model"`
	OutputConfig outputConfig `json:"output_config,omitzero"`
	System       []*block     `json:"system,omitempty"`
	Temperature  *float64     `json:"temperature,omitempty"`
	Thinking     *thinking    `json:"thinking,omitempty"`
	ToolChoice   *typed       `json:"tool_choice,omitempty"`
	Tools        []tool       `json:"tools,omitempty"`
	Stream       bool         `json:"stream"`
}

type outputConfig struct {
	Effort string  `json:"effort,omitempty"`
	Format *format `json:"format,omitempty"`
}

type format struct {
	Schema json.RawMessage `json:"schema"`
	Type   string          `json:"type"`
}

type thinking struct {
	BudgetTokens int    `json:"budget_tokens,omitempty"`
	Display      string `json:"display,omitempty"`
	Type         string `json:"type"`
}

// typed is an object of which only the type matters.
type typed struct {
	Type string `json:"type"`
}

// ephemeral marks the end of what the provider is to remember.
var ephemeral = &typed{Type: "ephemeral"}

type tool struct {
	InputSchema  json.RawMessage `json:"input_schema"`
	Name         string          `json:"name"`
	CacheControl *typed          `json:"cache_control,omitempty"`
	Description  string          `json:"description,omitempty"`
}

type message struct {
	Content []*block `json:"content"`
	Role    string   `json:"role"`
}

// block is a block of content that is sent; its type says which fields it has.
type block struct {
	Text         string          `json:"text,omitempty"`
	ID           string          `json:"id,omitempty"`
	Input        json.RawMessage `json:"input,omitempty"`
	Name         string          `json:"name,omitempty"`
	ToolUseID    string          `json:"tool_use_id,omitempty"`
	IsError      bool            `json:"is_error,omitempty"`
	Source       *source         `json:"source,omitempty"`
	Signature    string          `json:"signature,omitempty"`
	Thinking     *string         `json:"thinking,omitempty"` // "" is a value
	Data         string          `json:"data,omitempty"`     // of redacted thinking
	CacheControl *typed          `json:"cache_control,omitempty"`
	Content      []*block        `json:"content,omitempty"` // of the result of a tool
	Type         string          `json:"type"`
}

type source struct {
	Data      []byte `json:"data"`
	MediaType string `json:"media_type"`
	Type      string `json:"type"`
}

// event is what we read of an event; its type says which fields it has.
type event struct {
	Type    model.Str
	Index   model.Num
	Message struct {
		ID, Model model.Str
		Usage     usage
	}
	ContentBlock struct {
		Type, ID, Name, Text, Thinking, Signature, Data model.Str
		Input                                           json.RawMessage
	} `json:"content_block"`
	Delta struct {
		Type, Text, Thinking, Signature model.Str
		PartialJSON                     model.Str `json:"partial_json"`
		StopReason                      model.Str `json:"stop_reason"`
	}
	Usage usage
}

type usage struct {
	Input      model.Num `json:"input_tokens"`
	Output     model.Num `json:"output_tokens"`
	CacheRead  model.Num `json:"cache_read_input_tokens"`
	CacheWrite model.Num `json:"cache_creation_input_tokens"`
	// the same by how long the provider remembers; some servers report only these
	CacheCreation struct {
		Minutes model.Num `json:"ephemeral_5m_input_tokens"`
		Hour    model.Num `json:"ephemeral_1h_input_tokens"`
	} `json:"cache_creation"`
	model.Stated // by servers that are not the vendor's
}

package openai

import (
	"encoding/json"
	"strings"

	"jp/cmd/jp/internal/model"
)

// chatRequest is the body of a request of the chat completions API.
type chatRequest struct {
	Messages            []chatMessage   `json:"messages"`
	Model               string          `json:"model"`
	MaxCompletionTokens int             `json:"max_completion_tokens,omitempty"`
	MaxTokens           int             `json:"max_tokens,omitempty"`
	Temperature         *float64        `json:"temperature,omitempty"`
	ReasoningEffort     string          `json:"reasoning_effort,omitempty"`
	PromptCacheKey      string          `json:"prompt_cache_key,omitempty"`
	ServiceTier         string          `json:"service_tier,omitempty"`
	StreamOptions       streamOptions   `json:"stream_options"`
	ResponseFormat      *responseFormat `json:"response_format,omitempty"`
	ToolChoice          string          `json:"tool_choice,omitempty"`
	Tools               []chatTool      `json:"tools,omitempty"`
	Stream              bool            `json:"stream"`
}

type streamOptions struct {
	IncludeUsage bool `json:"include_usage,omitempty"`
	// padding against eavesdroppers who measure packets, which doubles small events; nil = as the
	// server does
	IncludeObfuscation *bool `json:"include_obfuscation,omitempty"`
}

// no is a false that is sent.
var no = new(bool)

// standard is the vendor's tier whose prices are known. Without one the vendor takes the tier of
// the project, and that may cost a multiple.
const standard = "default"

type responseFormat struct {
	JSONSchema jsonSchema `json:"json_schema"`
	Type       string     `json:"type"`
}

type jsonSchema struct {
	Name   string          `json:"name"`
	Schema json.RawMessage `json:"schema"`
}

type chatTool struct {
	Function chatFunction `json:"function"`
	Type     string       `json:"type"`
}

type chatFunction struct {
	Name        string          `json:"name"`
	Description string          `json:"description,omitempty"`
	Parameters  json.RawMessage `json:"parameters"`
}

// chatMessage is a message that is sent; its role says which fields it has.
type chatMessage struct {
	Content    any        `json:"content,omitempty"` // string or []chatPart; nil = none
	ToolCalls  []chatCall `json:"tool_calls,omitempty"`
	ToolCallID string     `json:"tool_call_id,omitempty"`
	Role       string     `json:"role"`
	// what servers want to see again, see memory; one of the two names
	ReasoningContent *string           `json:"reasoning_content,omitempty"`
	Reasoning        *string           `json:"reasoning,omitempty"`
	Details          []json.RawMessage `json:"reasoning_details,omitempty"`
}

type chatPart struct {
	Text     string `json:"text,omitempty"`
	ImageURL *url   `json:"image_url,omitempty"`
	Type     string `json:"type"`
}

type url struct {
	URL string `json:"url"`
}

type chatCall struct {
	ID       string `json:"id"`
	Function struct {
		Arguments string `json:"arguments"`
		Name      string `json:"name"`
	} `json:"function"`
	Type   string          `json:"type"`
	Extra  json.RawMessage `json:"extra_content,omitempty"`
	Signed signed          `json:"provider_specific_fields,omitzero"`
}

// signed is what LiteLLM reads before it looks for a signature in the id.
type signed struct {
	Signature string `json:"thought_signature"`
}

// chunk is what we read of an event of the chat completions API.
type chunk struct {
	Error     json.RawMessage
	ID, Model model.Str
	Choices   []struct {
		Index        model.Num
		FinishReason model.Str `json:"finish_reason"`
		Delta        chatDelta
	}
	Usage *usage
}

// chatDelta is a piece of a message.
type chatDelta struct {
	Content            content
	Refusal, Reasoning model.Str
	ReasoningContent   model.Str         `json:"reasoning_content"`
	ReasoningDetails   []json.RawMessage `json:"reasoning_details"`
	ToolCalls          []deltaCall       `json:"tool_calls"`
}

// content is a piece of the answer: a string, or, of Mistral's models that reason, a list of parts
// of text and thinking.
type content struct{ Text, Thought string }

// UnmarshalJSON implements json.Unmarshaler.
func (c *content) UnmarshalJSON(raw []byte) error {
	*c = content{}
	if raw[0] != '[' {
		var s model.Str
		err := s.UnmarshalJSON(raw)
		c.Text = s.Text
		return err
	}
	var parts []struct {
		Text     model.Str
		Thinking json.RawMessage // parts of text, or a string
	}
	_ = json.Unmarshal(raw, &parts) // a value that is no part says nothing
	var text, thought strings.Builder
	for _, p := range parts {
		text.WriteString(p.Text.Text)
		var thoughts []struct{ Text model.Str }
		if json.Unmarshal(p.Thinking, &thoughts) != nil {
			thoughts = make([]struct{ Text model.Str }, 1)
			_ = json.Unmarshal(p.Thinking, &thoughts[0].Text)
		}
		for _, t := range thoughts {
			thought.WriteString(t.Text.Text)
		}
	}
	c.Text, c.Thought = text.String(), thought.String()
	return nil
}

// empty reports whether the piece adds nothing.
func (d chatDelta) empty() bool {
	return d.Content.Text+d.Content.Thought+d.Refusal.Text+d.Reasoning.Text+d.ReasoningContent.Text == "" && len(d.ReasoningDetails)+len(d.ToolCalls) == 0
}

// usage is what we read of the usage of both APIs, which name the same counts differently.
type usage struct {
	Prompt     model.Num `json:"prompt_tokens"`
	Input      model.Num `json:"input_tokens"`
	Completion model.Num `json:"completion_tokens"`
	Output     model.Num `json:"output_tokens"`
	Total      model.Num `json:"total_tokens"`

	PromptDetails inputDetails `json:"prompt_tokens_details"`
	InputDetails  inputDetails `json:"input_tokens_details"`
	// cache writes, as LiteLLM names them; its versions that do not tell them in the details leave
	// them out of the prompt
	Created model.Num `json:"cache_creation_input_tokens"`

	model.Stated
}

type inputDetails struct {
	Cached     model.Num `json:"cached_tokens"`
	CacheWrite model.Num `json:"cache_write_tokens"`
	Created    model.Num `json:"cache_creation_tokens"`       // the same, of LiteLLM
	NewAPI     model.Num `json:"cached_creation_tokens"`      // the same, of New API
	Alibaba    model.Num `json:"cache_creation_input_tokens"` // the same
}

// deltaCall is a piece of a tool call.
type deltaCall struct {
	Index    model.Num
	ID       model.Str
	Function struct {
		Name      model.Str
		Arguments json.RawMessage // a string, or an object on servers that do not follow
	}
	Extra json.RawMessage `json:"extra_content"`
}

// responsesRequest is the body of a request of the Responses API.
type responsesRequest struct {
	Instructions    string          `json:"instructions,omitempty"`
	MaxOutputTokens int             `json:"max_output_tokens,omitempty"`
	Store           bool            `json:"store"`
	Temperature     *float64        `json:"temperature,omitempty"`
	Include         []string        `json:"include,omitempty"`
	StreamOptions   streamOptions   `json:"stream_options,omitzero"`
	Input           []any           `json:"input"`
	Model           string          `json:"model"`
	PromptCacheKey  string          `json:"prompt_cache_key,omitempty"`
	ServiceTier     string          `json:"service_tier,omitempty"`
	Reasoning       reasoningEffort `json:"reasoning,omitzero"`
	Text            *responsesText  `json:"text,omitempty"`
	ToolChoice      string          `json:"tool_choice,omitempty"`
	Tools           []responsesTool `json:"tools,omitempty"`
	Stream          bool            `json:"stream"`
}

type reasoningEffort struct {
	Effort  string `json:"effort,omitempty"`
	Summary string `json:"summary,omitempty"`
}

type responsesText struct {
	Format responsesFormat `json:"format"`
}

type responsesFormat struct {
	Name   string          `json:"name"`
	Strict bool            `json:"strict"`
	Type   string          `json:"type"`
	Schema json.RawMessage `json:"schema"`
}

type responsesTool struct {
	Strict      bool            `json:"strict"`
	Name        string          `json:"name"`
	Description string          `json:"description,omitempty"`
	Type        string          `json:"type"`
	Parameters  json.RawMessage `json:"parameters"`
}

// responsesEvent is what we read of an event of the Responses API.
type responsesEvent struct {
	Error       json.RawMessage
	Type, Delta model.Str
	OutputIndex model.Num `json:"output_index"`
	Item        json.RawMessage
	Response    struct {
		ID, Model, Status model.Str
		Error             json.RawMessage
		IncompleteDetails struct{ Reason model.Str } `json:"incomplete_details"`
		Usage             *usage
	}
}

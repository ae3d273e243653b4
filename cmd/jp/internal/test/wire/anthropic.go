package wire

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"jp/cmd/jp/internal/model"
)

// object is a JSON object in the making.
type object = map[string]any

// anthropic is the Messages API.
type anthropic struct {
	model   string
	index   int    // of the open block, or of the next one
	open    string // kind of the open block, "" = none
	started bool
	usage   object
}

type anthropicRequest struct {
	Model       string             `json:"model"`
	MaxTokens   int                `json:"max_tokens"`
	Stream      bool               `json:"stream"`
	System      json.RawMessage    `json:"system"`
	Messages    []anthropicMessage `json:"messages"`
	Temperature *float64           `json:"temperature"`
	Tools       []struct {
		Name        string          `json:"name"`
		Description string          `json:"description"`
		InputSchema json.RawMessage `json:"input_schema"`
		Cache       *cacheControl   `json:"cache_control"`
	} `json:"tools"`
	ToolChoice *struct {
		Type string `json:"type"`
	} `json:"tool_choice"`
	Thinking     json.RawMessage `json:"thinking"`
	OutputConfig struct {
		Effort string `json:"effort"`
		Format *struct {
			Type   string          `json:"type"`
			Schema json.RawMessage `json:"schema"`
		} `json:"format"`
	} `json:"output_config"`
}

type cacheControl struct {
	Type string `json:"type"`
}

type anthropicMessage struct {
	Role    string          `json:"role"`
	Content json.RawMessage `json:"content"`
}

type anthropicBlock struct {
	Type      string          `json:"type"`
	Text      string          `json:"text"`
	Thinking  string          `json:"thinking"`
	Signature string          `json:"signature"`
	Data      string          `json:"data"`
	ID        string          `json:"id"`
	Name      string          `json:"name"`
	Input     json.RawMessage `json:"input"`
	ToolUseID string          `json:"tool_use_id"`
	Content   json.RawMessage `json:"content"`
	IsError   bool            `json:"is_error"`
	Source    *struct {
		Type      string `json:"type"`
		MediaType string `json:"media_type"`
		Data      []byte `json:"data"`
	} `json:"source"`
	Cache *cacheControl `json:"cache_control"`
}

// strict decodes JSON and refuses fields that the format does not have.
func strict(data []byte, into any) error {
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	return d.Decode(into)
}

// blocks reads content, which is a string or an array.
func blocks(data json.RawMessage) ([]anthropicBlock, error) {
	var text string
	if json.Unmarshal(data, &text) == nil {
		return []anthropicBlock{{Type: "text", Text: text}}, nil
	}
	var out []anthropicBlock
	if len(data) == 0 {
		return nil, nil
	}
	return out, strict(data, &out)
}

func (a *anthropic) request(body []byte) (model.Request, error) {
	var in anthropicRequest
	if err := strict(body, &in); err != nil {
		return model.Request{}, err
	}
	if in.Model == "" || in.MaxTokens < 1 || !in.Stream {
		return model.Request{}, errors.New("model, max_tokens and stream are required")
	}
	a.model = in.Model
	r := model.Request{Model: in.Model, MaxTokens: in.MaxTokens, Temperature: in.Temperature}
	caches := 0
	system, err := blocks(in.System)
	if err != nil {
		return r, fmt.Errorf("system: %w", err)
	}
	for _, b := range system {
		if strings.TrimSpace(b.Text) == "" {
			return r, errors.New("system: text content blocks must contain non-whitespace text")
		}
		caches += counted(b.Cache)
		r.System = append(r.System, model.Section{Text: b.Text})
	}
	for _, t := range in.Tools {
		caches += counted(t.Cache)
		r.Tools = append(r.Tools, model.Tool{Name: t.Name, Description: t.Description, Schema: t.InputSchema})
	}
	if in.ToolChoice != nil && in.ToolChoice.Type == "none" {
		r.ToolChoice = "none"
	}
	if f := in.OutputConfig.Format; f != nil {
		r.Schema = f.Schema
	}
	names := make(map[string]string)
	last := ""
	for i, m := range in.Messages {
		content, err := blocks(m.Content)
		if err != nil {
			return r, fmt.Errorf("messages.%d: %w", i, err)
		}
		if m.Role == last || m.Role != "user" && m.Role != "assistant" {
			return r, fmt.Errorf("messages.%d: roles must alternate between user and assistant", i)
		}
		last = m.Role
		for _, b := range content {
			if b.Cache != nil && (b.Type == "thinking" || b.Type == "redacted_thinking") {
				return r, fmt.Errorf("messages.%d: cache_control on a block of thinking", i)
			}
			caches += counted(b.Cache)
		}
		converted, err := a.messages(m.Role, content, names)
		if err != nil {
			return r, fmt.Errorf("messages.%d: %w", i, err)
		}
		r.Messages = append(r.Messages, converted...)
	}
	if caches > 4 {
		return r, fmt.Errorf("a maximum of 4 blocks with cache_control may be provided, found %d", caches)
	}
	return r, nil
}

func counted(c *cacheControl) int {
	if c != nil && c.Type == "ephemeral" {
		return 1
	}
	return 0
}

// messages converts one message; results and text of a user become two.
func (a *anthropic) messages(role string, content []anthropicBlock, names map[string]string) ([]model.Message, error) {
	var results, rest []model.Content
	for _, b := range content {
		switch b.Type {
		case "text":
			if strings.TrimSpace(b.Text) == "" {
				return nil, errors.New("text content blocks must contain non-whitespace text")
			}
			rest = append(rest, model.Content{Text: b.Text})
		case "image":
			if role != "user" || b.Source == nil || b.Source.Type != "base64" {
				return nil, errors.New("image: Input should be a base64 source of a user")
			}
			rest = append(rest, model.Content{Image: &model.Image{MediaType: b.Source.MediaType, Data: b.Source.Data}})
		case "thinking":
			rest = append(rest, model.Content{Reasoning: &model.Reasoning{Text: b.Thinking, Signature: b.Signature}})
		case "redacted_thinking":
			rest = append(rest, model.Content{Reasoning: &model.Reasoning{Signature: b.Data}})
		case "tool_use":
			var input map[string]any
			if json.Unmarshal(b.Input, &input) != nil || input == nil {
				return nil, errors.New("tool_use.input: Input should be a valid dictionary")
			}
			if model.FitName(b.ID, 128) != b.ID || model.FitName(b.Name, 128) != b.Name {
				return nil, errors.New("tool_use.id and name should match pattern '^[a-zA-Z0-9_-]+$'")
			}
			names[b.ID] = b.Name
			rest = append(rest, model.Content{Call: &model.Call{ID: b.ID, Name: b.Name, Arguments: b.Input}})
		case "tool_result":
			if len(rest) > 0 {
				return nil, errors.New("tool_result blocks must come first")
			}
			inner, err := blocks(b.Content)
			if err != nil {
				return nil, err
			}
			var text []string
			for _, t := range inner {
				text = append(text, t.Text)
			}
			results = append(results, model.Content{Result: &model.CallResult{
				ID: b.ToolUseID, Name: names[b.ToolUseID], Text: strings.Join(text, "\n"), IsError: b.IsError}})
		default:
			return nil, fmt.Errorf("a block of type %q", b.Type)
		}
	}
	if role == "assistant" {
		return []model.Message{{Role: model.Assistant, Content: append(results, rest...)}}, nil
	}
	var out []model.Message
	if len(results) > 0 {
		out = append(out, model.Message{Role: model.ToolRole, Content: results})
	}
	if len(rest) > 0 || len(results) == 0 {
		out = append(out, model.Message{Role: model.User, Content: rest})
	}
	return out, nil
}

func (a *anthropic) part(out *events, r model.Request, p model.Part) error {
	if !a.started {
		a.started = true
		// As the real one does: input is known at once, output grows.
		a.usage = object{"input_tokens": r.Estimate(), "output_tokens": 1}
		if p.Usage != nil {
			a.usage = anthropicUsage(p)
		}
		if err := out.send("message_start", object{"type": "message_start", "message": object{
			"id": "msg_wire", "type": "message", "role": "assistant", "model": a.model, "content": []any{},
			"stop_reason": nil, "stop_sequence": nil, "usage": a.usage}}); err != nil {
			return err
		}
		if err := out.send("ping", object{"type": "ping"}); err != nil {
			return err
		}
	}
	switch {
	case p.ReasoningDelta != "":
		if err := a.block(out, "thinking", object{"type": "thinking", "thinking": "", "signature": ""}); err != nil {
			return err
		}
		return a.delta(out, object{"type": "thinking_delta", "thinking": p.ReasoningDelta})
	case p.Reasoning != nil:
		if err := a.block(out, "thinking", object{"type": "thinking", "thinking": "", "signature": ""}); err != nil {
			return err
		}
		if err := a.delta(out, object{"type": "signature_delta", "signature": "signed"}); err != nil {
			return err
		}
		return a.close(out)
	case p.Text != "":
		if err := a.block(out, "text", object{"type": "text", "text": ""}); err != nil {
			return err
		}
		return a.delta(out, object{"type": "text_delta", "text": p.Text})
	case p.Call != nil:
		if err := a.close(out); err != nil {
			return err
		}
		if err := a.block(out, "tool_use", object{"type": "tool_use", "id": p.Call.ID, "name": p.Call.Name, "input": object{}}); err != nil {
			return err
		}
		for _, piece := range halves(string(p.Call.Arguments)) {
			if err := a.delta(out, object{"type": "input_json_delta", "partial_json": piece}); err != nil {
				return err
			}
		}
		return a.close(out)
	case p.Usage != nil:
		a.usage = anthropicUsage(p)
	case p.Stop != "":
		if err := a.close(out); err != nil {
			return err
		}
		reason := map[model.Stop]string{model.StopEnd: "end_turn", model.StopToolUse: "tool_use",
			model.StopMaxTokens: "max_tokens", model.StopRefusal: "refusal"}[p.Stop]
		if err := out.send("message_delta", object{"type": "message_delta",
			"delta": object{"stop_reason": reason, "stop_sequence": nil}, "usage": a.usage}); err != nil {
			return err
		}
		return out.send("message_stop", object{"type": "message_stop"})
	}
	return nil
}

func anthropicUsage(p model.Part) object {
	return object{"input_tokens": p.Usage.Input, "output_tokens": p.Usage.Output,
		"cache_read_input_tokens": p.Usage.CacheRead, "cache_creation_input_tokens": p.Usage.CacheWrite}
}

// block opens a block of the given kind unless one is open.
func (a *anthropic) block(out *events, kind string, start object) error {
	if a.open == kind {
		return nil
	}
	if err := a.close(out); err != nil {
		return err
	}
	a.open = kind
	return out.send("content_block_start", object{"type": "content_block_start", "index": a.index, "content_block": start})
}

func (a *anthropic) delta(out *events, delta object) error {
	return out.send("content_block_delta", object{"type": "content_block_delta", "index": a.index, "delta": delta})
}

func (a *anthropic) close(out *events) error {
	if a.open == "" {
		return nil
	}
	a.open = ""
	a.index++
	return out.send("content_block_stop", object{"type": "content_block_stop", "index": a.index - 1})
}

func (a *anthropic) problem(out *events, e *model.Error) {
	_ = out.send("error", a.failure(e)) // a client that has left is none of our business
}

func (a *anthropic) failure(e *model.Error) any {
	kind, ok := map[model.Kind]string{
		model.KindAuth: "authentication_error", model.KindQuota: "billing_error", model.KindRateLimit: "rate_limit_error",
		model.KindOverloaded: "overloaded_error", model.KindBadRequest: "invalid_request_error",
		model.KindTooLarge: "request_too_large", model.KindUnknownModel: "not_found_error",
		model.KindContext: "invalid_request_error",
	}[e.Kind]
	if !ok {
		kind = "api_error"
	}
	message := e.Message
	if e.Kind == model.KindUnknownModel {
		message = "model: " + message
	}
	if e.Kind == model.KindContext {
		message = "prompt is too long: " + message
	}
	return object{"type": "error", "error": object{"type": kind, "message": message}, "request_id": "req_wire"}
}

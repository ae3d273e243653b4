package wire

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"jp/cmd/jp/internal/model"
)

// openai is chat completions.
type openai struct {
	model   string
	wanted  bool   // the client wants the usage
	usage   object // sent after the finish reason
	calls   int
	started bool
}

type openaiRequest struct {
	Model    string          `json:"model"`
	Stream   bool            `json:"stream"`
	Messages []openaiMessage `json:"messages"`
	Options  struct {
		IncludeUsage       bool  `json:"include_usage"`
		IncludeObfuscation *bool `json:"include_obfuscation"`
	} `json:"stream_options"`
	MaxTokens           int      `json:"max_tokens"`
	MaxCompletionTokens int      `json:"max_completion_tokens"`
	Temperature         *float64 `json:"temperature"`
	ReasoningEffort     string   `json:"reasoning_effort"`
	Tools               []struct {
		Type     string `json:"type"`
		Function struct {
			Name        string          `json:"name"`
			Description string          `json:"description"`
			Parameters  json.RawMessage `json:"parameters"`
		} `json:"function"`
	} `json:"tools"`
	ToolChoice     string `json:"tool_choice"`
	ResponseFormat *struct {
		Type       string `json:"type"`
		JSONSchema struct {
			Name   string          `json:"name"`
			Schema json.RawMessage `json:"schema"`
		} `json:"json_schema"`
	} `json:"response_format"`
}

type openaiMessage struct {
	Role      string       `json:"role"`
	Content   *openaiText  `json:"content"`
	ToolCalls []openaiCall `json:"tool_calls"`
	CallID    string       `json:"tool_call_id"`
	Reasoning string       `json:"reasoning_content"`
}

// openaiText is content: a text, or parts of text and images, which only a user has.
type openaiText struct {
	text  string
	parts []model.Content
}

func (t *openaiText) UnmarshalJSON(data []byte) error {
	if json.Unmarshal(data, &t.text) == nil {
		return nil
	}
	var parts []struct {
		Type     string `json:"type"`
		Text     string `json:"text"`
		ImageURL struct {
			URL string `json:"url"`
		} `json:"image_url"`
	}
	if err := strict(data, &parts); err != nil {
		return err
	}
	for _, p := range parts {
		c := model.Content{Text: p.Text}
		if p.Type == "image_url" {
			kind, encoded, ok := strings.Cut(strings.TrimPrefix(p.ImageURL.URL, "data:"), ";base64,")
			raw, err := base64.StdEncoding.DecodeString(encoded)
			if !ok || err != nil {
				return errors.New("image_url: not a data URL")
			}
			c = model.Content{Image: &model.Image{MediaType: kind, Data: raw}}
		}
		t.parts = append(t.parts, c)
	}
	return nil
}

type openaiCall struct {
	ID       string `json:"id"`
	Type     string `json:"type"`
	Function struct {
		Name      string `json:"name"`
		Arguments string `json:"arguments"`
	} `json:"function"`
	Extra json.RawMessage `json:"extra_content"`
}

func (o *openai) request(body []byte) (model.Request, error) {
	var in openaiRequest
	if err := strict(body, &in); err != nil {
		return model.Request{}, err
	}
	if in.Model == "" || !in.Stream {
		return model.Request{}, errors.New("model and stream are required")
	}
	o.model, o.wanted = in.Model, in.Options.IncludeUsage
	r := model.Request{Model: in.Model, MaxTokens: max(in.MaxTokens, in.MaxCompletionTokens), Temperature: in.Temperature,
		ToolChoice: in.ToolChoice, Reasoning: in.ReasoningEffort}
	for _, t := range in.Tools {
		r.Tools = append(r.Tools, model.Tool{Name: t.Function.Name, Description: t.Function.Description, Schema: t.Function.Parameters})
	}
	if f := in.ResponseFormat; f != nil {
		r.Schema = f.JSONSchema.Schema
	}
	names := make(map[string]string)
	for i, m := range in.Messages {
		text := ""
		if m.Content != nil {
			text = m.Content.text
			if m.Content.parts != nil && m.Role != "user" {
				return r, fmt.Errorf("messages.%d: only a user's content has parts", i)
			}
		}
		switch m.Role {
		case "system", "developer":
			r.System = append(r.System, model.Section{Text: text})
		case "user":
			content := []model.Content{{Text: text}}
			if m.Content != nil && m.Content.parts != nil {
				content = m.Content.parts
			}
			r.Messages = append(r.Messages, model.Message{Role: model.User, Content: content})
		case "assistant":
			a := model.Message{Role: model.Assistant}
			if m.Reasoning != "" {
				a.Content = append(a.Content, model.Content{Reasoning: &model.Reasoning{Text: m.Reasoning}})
			}
			if text != "" {
				a.Content = append(a.Content, model.Content{Text: text})
			}
			for _, c := range m.ToolCalls {
				if len(c.ID) > 40 || !json.Valid([]byte(c.Function.Arguments)) {
					return r, fmt.Errorf("messages.%d: a tool call with a long id or arguments that are not JSON", i)
				}
				names[c.ID] = c.Function.Name
				a.Content = append(a.Content, model.Content{Call: &model.Call{ID: c.ID, Name: c.Function.Name, Arguments: json.RawMessage(c.Function.Arguments)}})
			}
			r.Messages = append(r.Messages, a)
		case "tool":
			result := model.Content{Result: &model.CallResult{ID: m.CallID, Name: names[m.CallID], Text: text}}
			if n := len(r.Messages); n > 0 && r.Messages[n-1].Role == model.ToolRole {
				r.Messages[n-1].Content = append(r.Messages[n-1].Content, result)
				continue
			}
			r.Messages = append(r.Messages, model.Message{Role: model.ToolRole, Content: []model.Content{result}})
		default:
			return r, fmt.Errorf("messages.%d: role %q", i, m.Role)
		}
	}
	return r, nil
}

// chunk sends one event with one choice.
func (o *openai) chunk(out *events, delta object, finish any) error {
	if !o.started {
		o.started = true
		if err := o.chunk(out, object{"role": "assistant", "content": ""}, nil); err != nil {
			return err
		}
	}
	return out.send("", object{"id": "chatcmpl-wire", "object": "chat.completion.chunk", "created": 1, "model": o.model,
		"choices": []any{object{"index": 0, "delta": delta, "finish_reason": finish}}})
}

func (o *openai) part(out *events, _ model.Request, p model.Part) error {
	switch {
	case p.ReasoningDelta != "":
		return o.chunk(out, object{"reasoning_content": p.ReasoningDelta}, nil)
	case p.Text != "":
		return o.chunk(out, object{"content": p.Text}, nil)
	case p.Call != nil:
		index := o.calls
		o.calls++
		if err := o.chunk(out, object{"tool_calls": []any{object{"index": index, "id": p.Call.ID, "type": "function",
			"function": object{"name": p.Call.Name, "arguments": ""}}}}, nil); err != nil {
			return err
		}
		for _, piece := range halves(string(p.Call.Arguments)) {
			if err := o.chunk(out, object{"tool_calls": []any{object{"index": index, "function": object{"arguments": piece}}}}, nil); err != nil {
				return err
			}
		}
	case p.Usage != nil:
		u := p.Usage
		prompt := u.Input + u.CacheRead + u.CacheWrite
		o.usage = object{"prompt_tokens": prompt, "completion_tokens": u.Output, "total_tokens": prompt + u.Output,
			"prompt_tokens_details": object{"cached_tokens": u.CacheRead, "cache_write_tokens": u.CacheWrite}}
		if p.Cost != nil { // as OpenRouter does
			o.usage["cost"] = float64(*p.Cost) / 1e9
		}
		if !o.started { // the reply has begun: it is told at the end
			return o.chunk(out, object{}, nil)
		}
	case p.Stop != "":
		return o.end(out, p.Stop)
	}
	return nil
}

func (o *openai) end(out *events, stop model.Stop) error {
	reason := map[model.Stop]string{model.StopEnd: "stop", model.StopToolUse: "tool_calls",
		model.StopMaxTokens: "length", model.StopRefusal: "content_filter"}[stop]
	if err := o.chunk(out, object{}, reason); err != nil {
		return err
	}
	if o.wanted && o.usage != nil {
		if err := out.send("", object{"id": "chatcmpl-wire", "object": "chat.completion.chunk", "created": 1, "model": o.model,
			"choices": []any{}, "usage": o.usage}); err != nil {
			return err
		}
	}
	return out.raw("data: [DONE]\n\n")
}

func (o *openai) problem(out *events, e *model.Error) {
	_ = out.send("", o.failure(e)) // a client that has left is none of our business
}

func (o *openai) failure(e *model.Error) any {
	kind, code := "server_error", any(nil)
	switch e.Kind {
	case model.KindAuth:
		kind, code = "invalid_request_error", "invalid_api_key"
	case model.KindQuota:
		kind, code = "insufficient_quota", "insufficient_quota"
	case model.KindRateLimit:
		kind, code = "requests", "rate_limit_exceeded"
	case model.KindBadRequest, model.KindTooLarge:
		kind = "invalid_request_error"
	case model.KindContext:
		kind, code = "invalid_request_error", "context_length_exceeded"
	case model.KindUnknownModel:
		kind, code = "invalid_request_error", "model_not_found"
	}
	return object{"error": object{"message": e.Message, "type": kind, "param": nil, "code": code}}
}

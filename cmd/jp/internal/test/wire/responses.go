package wire

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"jp/cmd/jp/internal/model"
)

// responses is OpenAI's Responses API. Like the vendor's it refuses reasoning that is not followed
// by what followed it, and encrypted content that it did not make.
type responses struct {
	model    string
	sequence int
	items    []object // complete ones
	kind     string   // of the item under way: reasoning, message, ""
	text     string   // of it
	usage    object
	begun    bool
}

type responsesRequest struct {
	Model           string            `json:"model"`
	Stream          bool              `json:"stream"`
	Store           *bool             `json:"store"`
	Include         []string          `json:"include"`
	Instructions    string            `json:"instructions"`
	Input           []json.RawMessage `json:"input"`
	MaxOutputTokens int               `json:"max_output_tokens"`
	Temperature     *float64          `json:"temperature"`
	ToolChoice      string            `json:"tool_choice"`
	Reasoning       struct {
		Effort  string `json:"effort"`
		Summary string `json:"summary"`
	} `json:"reasoning"`
	StreamOptions struct {
		IncludeObfuscation *bool `json:"include_obfuscation"`
	} `json:"stream_options"`
	Tools []struct {
		Type        string          `json:"type"`
		Name        string          `json:"name"`
		Description string          `json:"description"`
		Strict      *bool           `json:"strict"`
		Parameters  json.RawMessage `json:"parameters"`
	} `json:"tools"`
	Text struct {
		Format *struct {
			Type   string          `json:"type"`
			Name   string          `json:"name"`
			Strict *bool           `json:"strict"`
			Schema json.RawMessage `json:"schema"`
		} `json:"format"`
	} `json:"text"`
}

type responsesItem struct {
	Type      string          `json:"type"`
	Role      string          `json:"role"`
	Content   json.RawMessage `json:"content"`
	ID        string          `json:"id"`
	Summary   []responsesText `json:"summary"`
	Encrypted string          `json:"encrypted_content"`
	CallID    string          `json:"call_id"`
	Name      string          `json:"name"`
	Arguments string          `json:"arguments"`
	Output    string          `json:"output"`
}

type responsesText struct {
	Type     string `json:"type"`
	Text     string `json:"text"`
	ImageURL string `json:"image_url"`
	Detail   string `json:"detail"`
}

// sealed is what stands for encrypted content here.
const sealed = "sealed:"

func (o *responses) request(body []byte) (model.Request, error) {
	var in responsesRequest
	if err := strict(body, &in); err != nil {
		return model.Request{}, err
	}
	if in.Model == "" || !in.Stream {
		return model.Request{}, errors.New("model and stream are required")
	}
	if in.Store == nil || *in.Store || len(in.Include) != 1 || in.Include[0] != "reasoning.encrypted_content" {
		return model.Request{}, errors.New("here nothing is stored: store must be false, include the encrypted reasoning")
	}
	o.model = in.Model
	r := model.Request{Model: in.Model, MaxTokens: in.MaxOutputTokens, Temperature: in.Temperature, ToolChoice: in.ToolChoice, Reasoning: in.Reasoning.Effort}
	if in.Instructions != "" {
		r.System = []model.Section{{Text: in.Instructions}}
	}
	for _, t := range in.Tools {
		if t.Type != "function" || t.Strict == nil {
			return r, fmt.Errorf("tool %q: type and strict are required", t.Name)
		}
		r.Tools = append(r.Tools, model.Tool{Name: t.Name, Description: t.Description, Schema: t.Parameters})
	}
	if f := in.Text.Format; f != nil {
		r.Schema = f.Schema
	}
	names := map[string]string{}
	reasoning := false
	for i, raw := range in.Input {
		var item responsesItem
		if err := strict(raw, &item); err != nil {
			return r, fmt.Errorf("input.%d: %w", i, err)
		}
		role, content, err := item.content(names)
		if err != nil {
			return r, fmt.Errorf("input.%d: %w", i, err)
		}
		if reasoning && item.Type != "reasoning" && role != model.Assistant {
			return r, fmt.Errorf("input.%d: Item 'rs_wire' of type 'reasoning' was provided without its required following item", i)
		}
		reasoning = item.Type == "reasoning"
		if n := len(r.Messages); n > 0 && r.Messages[n-1].Role == role && role != model.User {
			r.Messages[n-1].Content = append(r.Messages[n-1].Content, content...)
			continue
		}
		r.Messages = append(r.Messages, model.Message{Role: role, Content: content})
	}
	if reasoning {
		return r, errors.New("the input ends with reasoning")
	}
	return r, nil
}

// content reads one input item.
func (i responsesItem) content(names map[string]string) (model.Role, []model.Content, error) {
	switch i.Type {
	case "reasoning":
		text, ok := strings.CutPrefix(i.Encrypted, sealed)
		if !ok || i.ID == "" || i.Summary == nil {
			return "", nil, errors.New("the encrypted content could not be verified")
		}
		return model.Assistant, []model.Content{{Reasoning: &model.Reasoning{Text: text}}}, nil
	case "function_call":
		if len(i.CallID) > 64 || !json.Valid([]byte(i.Arguments)) {
			return "", nil, errors.New("a call with a long id or arguments that are not JSON")
		}
		names[i.CallID] = i.Name
		return model.Assistant, []model.Content{{Call: &model.Call{ID: i.CallID, Name: i.Name, Arguments: json.RawMessage(i.Arguments)}}}, nil
	case "function_call_output":
		return model.ToolRole, []model.Content{{Result: &model.CallResult{ID: i.CallID, Name: names[i.CallID], Text: i.Output}}}, nil
	case "message":
		var text string
		if i.Role == "assistant" {
			err := json.Unmarshal(i.Content, &text)
			return model.Assistant, []model.Content{{Text: text}}, err
		}
		var parts []responsesText
		if err := json.Unmarshal(i.Content, &parts); err != nil || i.Role != "user" {
			return "", nil, fmt.Errorf("role %q, %v", i.Role, err)
		}
		var out []model.Content
		for _, p := range parts {
			c := model.Content{Text: p.Text}
			if p.Type == "input_image" {
				kind, encoded, ok := strings.Cut(strings.TrimPrefix(p.ImageURL, "data:"), ";base64,")
				raw, err := base64.StdEncoding.DecodeString(encoded)
				if !ok || err != nil {
					return "", nil, errors.New("image_url: not a data URL")
				}
				c = model.Content{Image: &model.Image{MediaType: kind, Data: raw}}
			}
			out = append(out, c)
		}
		return model.User, out, nil
	}
	return "", nil, fmt.Errorf("type %q", i.Type)
}

// event sends one event with its number.
func (o *responses) event(out *events, name string, data object) error {
	data["type"], data["sequence_number"] = name, o.sequence
	o.sequence++
	return out.send(name, data)
}

func (o *responses) response(status string) object {
	r := object{"id": "resp_wire", "object": "response", "created_at": 1, "model": o.model, "status": status,
		"output": append([]object{}, o.items...), "error": nil, "incomplete_details": nil, "usage": nil}
	if o.usage != nil {
		r["usage"] = o.usage
	}
	return r
}

func (o *responses) begin(out *events) error {
	if o.begun {
		return nil
	}
	o.begun = true
	if err := o.event(out, "response.created", object{"response": o.response("in_progress")}); err != nil {
		return err
	}
	return o.event(out, "response.in_progress", object{"response": o.response("in_progress")})
}

// delta sends text or reasoning, in an item of its kind.
func (o *responses) delta(out *events, kind, text string) error {
	if o.kind != kind {
		if err := o.close(out); err != nil {
			return err
		}
		o.kind = kind
		item := object{"type": kind, "id": "rs_wire", "summary": []any{}}
		if kind == "message" {
			item = object{"type": kind, "id": "msg_wire", "status": "in_progress", "role": "assistant", "content": []any{}}
		}
		if err := o.event(out, "response.output_item.added", object{"output_index": len(o.items), "item": item}); err != nil {
			return err
		}
		name, part := "response.reasoning_summary_part.added", object{"item_id": "rs_wire", "output_index": len(o.items), "summary_index": 0,
			"part": object{"type": "summary_text", "text": ""}}
		if kind == "message" {
			name, part = "response.content_part.added", object{"item_id": "msg_wire", "output_index": len(o.items), "content_index": 0,
				"part": object{"type": "output_text", "text": "", "annotations": []any{}}}
		}
		if err := o.event(out, name, part); err != nil {
			return err
		}
	}
	o.text += text
	if kind == "message" {
		return o.event(out, "response.output_text.delta", object{"item_id": "msg_wire", "output_index": len(o.items), "content_index": 0, "delta": text, "logprobs": []any{}})
	}
	return o.event(out, "response.reasoning_summary_text.delta", object{"item_id": "rs_wire", "output_index": len(o.items), "summary_index": 0, "delta": text})
}

// close completes the item under way.
func (o *responses) close(out *events) error {
	if o.kind == "" {
		return nil
	}
	item := object{"type": "reasoning", "id": "rs_wire", "summary": []object{{"type": "summary_text", "text": o.text}}, "encrypted_content": sealed + o.text}
	done := object{"item_id": "rs_wire", "output_index": len(o.items), "summary_index": 0, "text": o.text}
	name := "response.reasoning_summary_text.done"
	if o.kind == "message" {
		item = object{"type": "message", "id": "msg_wire", "status": "completed", "role": "assistant",
			"content": []object{{"type": "output_text", "text": o.text, "annotations": []any{}}}}
		done = object{"item_id": "msg_wire", "output_index": len(o.items), "content_index": 0, "text": o.text, "logprobs": []any{}}
		name = "response.output_text.done"
	}
	o.kind, o.text = "", ""
	if err := o.event(out, name, done); err != nil {
		return err
	}
	return o.done(out, item)
}

func (o *responses) done(out *events, item object) error {
	index := len(o.items)
	o.items = append(o.items, item)
	return o.event(out, "response.output_item.done", object{"output_index": index, "item": item})
}

func (o *responses) part(out *events, _ model.Request, p model.Part) error {
	if err := o.begin(out); err != nil {
		return err
	}
	switch {
	case p.ReasoningDelta != "":
		return o.delta(out, "reasoning", p.ReasoningDelta)
	case p.Text != "":
		return o.delta(out, "message", p.Text)
	case p.Call != nil:
		return o.call(out, p.Call)
	case p.Usage != nil:
		u := p.Usage
		input := u.Input + u.CacheRead + u.CacheWrite
		o.usage = object{"input_tokens": input, "output_tokens": u.Output, "total_tokens": input + u.Output,
			"input_tokens_details":  object{"cached_tokens": u.CacheRead, "cache_write_tokens": u.CacheWrite},
			"output_tokens_details": object{"reasoning_tokens": 0}}
	case p.Stop != "":
		return o.end(out, p.Stop)
	}
	return nil
}

func (o *responses) call(out *events, c *model.Call) error {
	if err := o.close(out); err != nil {
		return err
	}
	id, index := "fc_"+c.ID, len(o.items)
	item := func(arguments, status string) object {
		return object{"type": "function_call", "id": id, "call_id": c.ID, "name": c.Name, "arguments": arguments, "status": status}
	}
	if err := o.event(out, "response.output_item.added", object{"output_index": index, "item": item("", "in_progress")}); err != nil {
		return err
	}
	for _, piece := range halves(string(c.Arguments)) {
		if err := o.event(out, "response.function_call_arguments.delta", object{"item_id": id, "output_index": index, "delta": piece}); err != nil {
			return err
		}
	}
	if err := o.event(out, "response.function_call_arguments.done", object{"item_id": id, "output_index": index, "name": c.Name, "arguments": string(c.Arguments)}); err != nil {
		return err
	}
	return o.done(out, item(string(c.Arguments), "completed"))
}

func (o *responses) end(out *events, stop model.Stop) error {
	if err := o.close(out); err != nil {
		return err
	}
	name, r := "response.completed", o.response("completed")
	if reason := map[model.Stop]string{model.StopMaxTokens: "max_output_tokens", model.StopRefusal: "content_filter"}[stop]; reason != "" {
		name, r = "response.incomplete", o.response("incomplete")
		r["incomplete_details"] = object{"reason": reason}
	}
	return o.event(out, name, object{"response": r})
}

// problem is an error after the reply began: the response fails.
func (o *responses) problem(out *events, e *model.Error) {
	r := o.response("failed")
	code := "server_error"
	if e.Kind == model.KindRateLimit {
		code = "rate_limit_exceeded"
	}
	r["error"] = object{"code": code, "message": e.Message}
	_ = o.event(out, "response.failed", object{"response": r}) // a client that has left is none of our business
}

func (o *responses) failure(e *model.Error) any { return (&openai{}).failure(e) }

package openai

import (
	"encoding/json"
	"slices"
	"strings"

	"jp/cmd/jp/internal/model"
)

// object is JSON that is sent as it is.
type object map[string]any

// request writes a request that has passed model.Request.Check.
func (p responder) request(r model.Request) (responsesRequest, error) {
	out := responsesRequest{
		Model: r.Model, Temperature: r.Temperature, Instructions: system(r),
		Input: []any{}, Stream: true,
	}
	// The vendor refuses it for its models that do not reason, such as gpt-4.1.
	if !p.config.Official() || !strings.Contains(r.Model, "gpt-") || model.Reasons(r.Model) || r.Reasoning != "" && r.Reasoning != "none" {
		out.Include = []string{"reasoning.encrypted_content"}
	}
	if p.config.Official() {
		out.StreamOptions.IncludeObfuscation = no
		out.PromptCacheKey, out.ServiceTier = cacheKey(r), standard
	}
	if effort := p.config.Reasoning(r); effort != "" {
		out.Reasoning.Effort = effort
		if effort != "none" && r.Reasoning != "" {
			// Not by default: the vendor gives summaries to verified organisations only, and
			// refuses others.
			out.Reasoning.Summary = "auto"
		}
	}
	if r.MaxTokens > 0 {
		out.MaxOutputTokens = p.config.Model.Output(r.MaxTokens)
	}
	if len(r.Schema) > 0 && native(r, p.config.Official()) {
		out.Text = &responsesText{responsesFormat{Type: "json_schema", Name: "answer", Schema: r.Schema}}
	}
	for _, t := range r.Tools {
		// Strict is what this API takes a schema for that says nothing, and would change it.
		out.Tools = append(out.Tools, responsesTool{Type: "function", Name: t.Name, Description: t.Description, Parameters: t.Schema})
	}
	if len(r.Tools) > 0 && r.ToolChoice == "none" {
		out.ToolChoice = "none"
	}
	phased := p.config.Official() && model.Reasons(r.Model) && model.GPT(r.Model) >= 503
	for _, m := range r.Messages {
		out.Input = append(out.Input, p.items(m, phased)...)
	}
	return out, nil
}

// items writes one message: this API has an item for each text, call, result and block of
// reasoning. A text may have its phase.
func (p responder) items(m model.Message, phased bool) []any {
	var out []any
	switch m.Role {
	case model.User:
		var parts []object
		for _, c := range m.Content {
			if i := c.Image; i != nil {
				parts = append(parts, object{"type": "input_image", "detail": "auto", "image_url": dataURL(i)})
				continue
			}
			parts = append(parts, object{"type": "input_text", "text": c.Text})
		}
		return []any{object{"type": "message", "role": "user", "content": parts}}
	case model.ToolRole:
		for _, c := range m.Content {
			out = append(out, object{"type": "function_call_output", "call_id": model.FitID(c.Result.ID, maxID), "output": resultText(c.Result)})
		}
		return out
	}
	var waiting []any // reasoning goes only before what followed it
	for _, c := range m.Content {
		switch {
		case c.Reasoning != nil:
			var o opaqueItem
			if c.Reasoning.Provider == p.config.Name && json.Unmarshal(c.Reasoning.Opaque, &o) == nil && o.Item.Type == "reasoning" {
				waiting = append(waiting, o.Item)
			}
		case c.Text != "":
			said := object{"type": "message", "role": "assistant", "content": c.Text}
			if phased {
				said["phase"] = phase(m)
			}
			out = append(append(out, waiting...), said)
			waiting = nil
		case c.Call != nil:
			out = append(append(out, waiting...), object{"type": "function_call", "call_id": model.FitID(c.Call.ID, maxID),
				"name": model.FitName(c.Call.Name, maxName), "arguments": string(c.Call.Object())})
			waiting = nil
		}
	}
	return out
}

// phase says of the text of a message what the vendor's models say of it themselves since GPT-5.3, and
// want to hear again: that it is the answer, or no more than what they say while they work.
func phase(m model.Message) string {
	if slices.ContainsFunc(m.Content, func(c model.Content) bool { return c.Call != nil }) {
		return "commentary"
	}
	return "final_answer"
}

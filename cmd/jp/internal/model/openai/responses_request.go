package openai

import (
	"encoding/base64"
	"encoding/json"
	"strings"

	sdk "github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/packages/param"
	"github.com/openai/openai-go/v3/responses"
	"github.com/openai/openai-go/v3/shared"

	"jp/cmd/jp/internal/model"
)

// object is JSON that is sent as it is.
type object map[string]any

// params writes a request that has passed model.Request.Check.
func (p responder) params(r model.Request) (responses.ResponseNewParams, error) {
	out := responses.ResponseNewParams{
		Model:   r.Model,
		Store:   sdk.Bool(false),
		Include: []responses.ResponseIncludable{responses.ResponseIncludableReasoningEncryptedContent},
	}
	if p.config.Official() {
		out.StreamOptions.IncludeObfuscation = sdk.Bool(false)
	}
	if r.Reasoning != "" {
		out.Reasoning.Effort = shared.ReasoningEffort(r.Reasoning)
		if r.Reasoning != "none" {
			// Not by default: the vendor gives summaries to verified organisations only, and
			// refuses others.
			out.Reasoning.Summary = shared.ReasoningSummaryAuto
		}
	}
	if r.MaxTokens > 0 {
		out.MaxOutputTokens = sdk.Int(int64(p.config.Model.Output(r.MaxTokens)))
	}
	if r.Temperature != nil {
		out.Temperature = sdk.Float(*r.Temperature)
	}
	if len(r.Schema) > 0 && native(r, p.config.Official()) {
		format := responses.ResponseFormatTextJSONSchemaConfigParam{Name: "answer", Strict: sdk.Bool(false)}
		format.SetExtraFields(map[string]any{"schema": r.Schema})
		out.Text.Format.OfJSONSchema = &format
	}
	for _, t := range r.Tools {
		// Strict is what this API takes a schema for that says nothing, and would change it.
		def := responses.FunctionToolParam{Name: t.Name, Strict: sdk.Bool(false)}
		if t.Description != "" {
			def.Description = sdk.String(t.Description)
		}
		def.SetExtraFields(map[string]any{"parameters": t.Schema})
		out.Tools = append(out.Tools, responses.ToolUnionParam{OfFunction: &def})
	}
	if len(r.Tools) > 0 && r.ToolChoice == "none" {
		out.ToolChoice.OfToolChoiceMode = param.NewOpt(responses.ToolChoiceOptionsNone)
	}
	var system []string
	for _, s := range r.System {
		if strings.TrimSpace(s.Text) != "" {
			system = append(system, s.Text)
		}
	}
	if len(system) > 0 {
		out.Instructions = sdk.String(strings.Join(system, "\n\n"))
	}
	for _, m := range r.Messages {
		for _, i := range p.items(m) {
			raw, err := json.Marshal(i)
			if err != nil {
				return out, err
			}
			out.Input.OfInputItemList = append(out.Input.OfInputItemList, param.Override[responses.ResponseInputItemUnionParam](json.RawMessage(raw)))
		}
	}
	return out, nil
}

// items writes one message: this API has an item for each text, call, result and block of
// reasoning.
func (p responder) items(m model.Message) []any {
	var out []any
	switch m.Role {
	case model.User:
		var parts []object
		for _, c := range m.Content {
			if i := c.Image; i != nil {
				parts = append(parts, object{"type": "input_image", "detail": "auto",
					"image_url": "data:" + i.MediaType + ";base64," + base64.StdEncoding.EncodeToString(i.Data)})
				continue
			}
			parts = append(parts, object{"type": "input_text", "text": c.Text})
		}
		return []any{object{"type": "message", "role": "user", "content": parts}}
	case model.ToolRole:
		for _, c := range m.Content {
			text := c.Result.Text
			if text == "" && c.Result.IsError {
				text = "error" // the wire has no other place for it
			}
			out = append(out, object{"type": "function_call_output", "call_id": model.FitID(c.Result.ID, maxID), "output": text})
		}
		return out
	}
	var waiting []any // reasoning goes only before what followed it
	for _, c := range m.Content {
		switch {
		case c.Reasoning != nil:
			var o opaqueItem
			if c.Reasoning.Provider == p.config.Name && json.Unmarshal(c.Reasoning.Opaque, &o) == nil && len(o.Item) > 0 {
				waiting = append(waiting, o.Item)
			}
		case c.Text != "":
			out = append(append(out, waiting...), object{"type": "message", "role": "assistant", "content": c.Text})
			waiting = nil
		case c.Call != nil:
			out = append(append(out, waiting...), object{"type": "function_call", "call_id": model.FitID(c.Call.ID, maxID),
				"name": model.FitName(c.Call.Name, maxName), "arguments": string(c.Call.Object())})
			waiting = nil
		}
	}
	return out
}

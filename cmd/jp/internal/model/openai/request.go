package openai

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"

	sdk "github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/packages/param"
	"github.com/openai/openai-go/v3/shared"

	"jp/cmd/jp/internal/model"
)

// What the API takes as ids of calls and as names of tools, in bytes.
const (
	maxID   = 40
	maxName = 64
)

// params writes a request that has passed model.Request.Check.
func (p provider) params(r model.Request) (sdk.ChatCompletionNewParams, error) {
	out := sdk.ChatCompletionNewParams{
		Model:         r.Model,
		StreamOptions: sdk.ChatCompletionStreamOptionsParam{IncludeUsage: sdk.Bool(true)},
	}
	official := p.config.Official()
	if official {
		// Padding against eavesdroppers who measure packets; it doubles small events.
		out.StreamOptions.IncludeObfuscation = sdk.Bool(false)
	}
	if err := p.reason(&out, r); err != nil {
		return out, err
	}
	if r.MaxTokens > 0 {
		n := p.config.Model.Output(r.MaxTokens)
		// The vendor's reasoning models know only the one, behind a proxy too; many other servers
		// only the other.
		if official || model.Reasons(r.Model) {
			out.MaxCompletionTokens = sdk.Int(int64(n))
		} else {
			out.MaxTokens = sdk.Int(int64(n))
		}
	}
	if r.Temperature != nil {
		out.Temperature = sdk.Float(*r.Temperature)
	}
	if len(r.Schema) > 0 && native(r, official) {
		out.ResponseFormat.OfJSONSchema = &shared.ResponseFormatJSONSchemaParam{
			JSONSchema: shared.ResponseFormatJSONSchemaJSONSchemaParam{Name: "answer", Schema: r.Schema},
		}
	}
	for _, t := range r.Tools {
		def := shared.FunctionDefinitionParam{Name: t.Name}
		if t.Description != "" {
			def.Description = sdk.String(t.Description)
		}
		// As it is, not through a map, so that its bytes stay the same from call to call.
		def.SetExtraFields(map[string]any{"parameters": t.Schema})
		out.Tools = append(out.Tools, sdk.ChatCompletionFunctionTool(def))
	}
	if len(r.Tools) > 0 && r.ToolChoice == "none" {
		out.ToolChoice.OfAuto = param.NewOpt("none")
	}

	var system []string
	for _, s := range r.System {
		if strings.TrimSpace(s.Text) != "" {
			system = append(system, s.Text)
		}
	}
	if len(system) > 0 {
		out.Messages = append(out.Messages, sdk.SystemMessage(strings.Join(system, "\n\n")))
	}
	lastUser := 0
	for i, m := range r.Messages {
		if m.Role == model.User {
			lastUser = i
		}
	}
	for i, m := range r.Messages {
		out.Messages = append(out.Messages, p.message(m, i > lastUser)...)
	}
	return out, nil
}

// said returns a message of the user. Without an image it is a single text, which every compatible
// server reads.
func said(m model.Message) sdk.ChatCompletionMessageParamUnion {
	var texts []string
	var parts []sdk.ChatCompletionContentPartUnionParam
	pictures := false
	for _, c := range m.Content {
		if i := c.Image; i != nil {
			pictures = true
			url := "data:" + i.MediaType + ";base64," + base64.StdEncoding.EncodeToString(i.Data)
			parts = append(parts, sdk.ImageContentPart(sdk.ChatCompletionContentPartImageImageURLParam{URL: url}))
			continue
		}
		texts = append(texts, c.Text)
		parts = append(parts, sdk.TextContentPart(c.Text))
	}
	if pictures {
		return sdk.UserMessage(parts)
	}
	return sdk.UserMessage(strings.Join(texts, "\n\n"))
}

// message writes one message. The tool role has one per result on this wire.
func (p provider) message(m model.Message, current bool) []sdk.ChatCompletionMessageParamUnion {
	switch m.Role {
	case model.User:
		return []sdk.ChatCompletionMessageParamUnion{said(m)}
	case model.ToolRole:
		var out []sdk.ChatCompletionMessageParamUnion
		for _, c := range m.Content {
			text := c.Result.Text
			if text == "" && c.Result.IsError {
				text = "error" // the wire has no other place for it
			}
			out = append(out, sdk.ToolMessage(text, model.FitID(c.Result.ID, maxID)))
		}
		return out
	}

	var (
		a      sdk.ChatCompletionAssistantMessageParam
		texts  []string
		memory memory
		extra  = make(map[string]any)
	)
	for _, c := range m.Content {
		if r := c.Reasoning; r != nil && r.Provider == p.config.Name {
			if json.Unmarshal(r.Opaque, &memory) != nil {
				continue
			}
			// Servers want their reasoning back between tool calls and some refuse it later.
			if current && memory.Field != "" {
				extra[memory.Field] = r.Text
			}
			if current && len(memory.Details) > 0 {
				extra["reasoning_details"] = memory.Details
			}
		}
	}
	for _, c := range m.Content {
		switch {
		case c.Text != "":
			texts = append(texts, c.Text)
		case c.Call != nil:
			tool := &sdk.ChatCompletionMessageFunctionToolCallParam{
				ID: model.FitID(c.Call.ID, maxID),
				Function: sdk.ChatCompletionMessageFunctionToolCallFunctionParam{
					Name: model.FitName(c.Call.Name, maxName), Arguments: string(c.Call.Object()),
				},
			}
			if content, ok := memory.Calls[c.Call.ID]; ok {
				tool.SetExtraFields(map[string]any{"extra_content": content})
			}
			a.ToolCalls = append(a.ToolCalls, sdk.ChatCompletionMessageToolCallUnionParam{OfFunction: tool})
		}
	}
	if len(texts) == 0 && len(a.ToolCalls) == 0 {
		return nil // nothing but reasoning, which alone is no message
	}
	if len(texts) > 0 {
		a.Content.OfString = param.NewOpt(strings.Join(texts, ""))
	}
	if len(extra) > 0 {
		a.SetExtraFields(extra)
	}
	return []sdk.ChatCompletionMessageParamUnion{{OfAssistant: &a}}
}

// reason asks for as much reasoning as the request says. The vendor refuses to combine it with
// tools on this API: from GPT-5.4 on when it is asked for, from GPT-5.6 on even when it is not
// ruled out. What was not asked for is ruled out; what was asked for is refused here, and not
// dropped.
func (p provider) reason(out *sdk.ChatCompletionNewParams, r model.Request) error {
	effort := r.Reasoning
	if p.config.Official() && len(r.Tools) > 0 {
		strict := hasPrefix(r.Model, "gpt-5.6", "gpt-6")
		switch {
		case effort == "" && strict:
			effort = "none"
		case effort != "" && effort != "none" && (strict || hasPrefix(r.Model, "gpt-5.4", "gpt-5.5")):
			return &model.Error{Provider: p.config.Name, Kind: model.KindBadRequest, Final: true,
				Message: fmt.Sprintf("%s does not reason while it has tools over chat completions", r.Model),
				Hint:    fmt.Sprintf(`set providers.llm.%s.api = "responses", or assistant.parameters.reasoning = "none"`, p.config.Name)}
		}
	}
	out.ReasoningEffort = shared.ReasoningEffort(effort)
	return nil
}

// native reports whether the server can enforce the schema. If it cannot, the schema is only in the
// prompt. The vendor takes objects only, from GPT-4o on; other servers force each reply into the
// schema and so would get no call of a tool.
func native(r model.Request, official bool) bool {
	if !official {
		return len(r.Tools) == 0
	}
	var root struct{ Type any }
	return json.Unmarshal(r.Schema, &root) == nil && root.Type == "object" &&
		r.Model != "gpt-4" && !hasPrefix(r.Model, "gpt-3", "gpt-4-", "o1-mini", "o1-preview")
}

func hasPrefix(s string, prefixes ...string) bool {
	for _, p := range prefixes {
		if strings.HasPrefix(s, p) {
			return true
		}
	}
	return false
}

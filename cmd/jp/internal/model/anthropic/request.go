package anthropic

import (
	"encoding/base64"
	"encoding/json"
	"strings"

	sdk "github.com/anthropics/anthropic-sdk-go"
	"github.com/anthropics/anthropic-sdk-go/packages/param"

	"jp/cmd/jp/internal/model"
)

const maxName = 128 // bytes of a tool's name or a call's id

// params writes a request that has passed model.Request.Check.
//
// Cache breakpoints (four are allowed) are after the tools, after the system prompt, after the last
// message and after the message of ours before it: the provider looks back only 20 blocks for what
// it has seen, and one batch of tool calls may be longer than that.
func (p provider) params(r model.Request) sdk.MessageNewParams {
	out := sdk.MessageNewParams{Model: r.Model, MaxTokens: int64(p.config.Model.Output(r.MaxTokens))}
	for _, s := range r.System {
		if strings.TrimSpace(s.Text) != "" {
			out.System = append(out.System, sdk.TextBlockParam{Text: s.Text})
		}
	}
	if n := len(out.System); n > 0 {
		out.System[n-1].CacheControl = sdk.NewCacheControlEphemeralParam()
	}
	for _, t := range r.Tools {
		tool := sdk.ToolParam{Name: t.Name, InputSchema: param.Override[sdk.ToolInputSchemaParam](t.Schema)}
		if t.Description != "" {
			tool.Description = sdk.String(t.Description)
		}
		out.Tools = append(out.Tools, sdk.ToolUnionParam{OfTool: &tool})
	}
	if n := len(out.Tools); n > 0 {
		out.Tools[n-1].OfTool.CacheControl = sdk.NewCacheControlEphemeralParam()
		if r.ToolChoice == "none" {
			out.ToolChoice = sdk.ToolChoiceUnionParam{OfNone: &sdk.ToolChoiceNoneParam{}}
		}
	}
	if r.Temperature != nil {
		out.Temperature = sdk.Float(*r.Temperature)
	}
	if len(r.Schema) > 0 && p.native(r.Model, r.Schema) {
		// checked to be JSON
		format, _ := json.Marshal(map[string]any{"type": "json_schema", "schema": r.Schema})
		out.OutputConfig.Format = param.Override[sdk.JSONOutputFormatParam](json.RawMessage(format))
	}
	p.reason(&out, r)

	for _, m := range r.Messages {
		role := sdk.MessageParamRoleUser
		if m.Role == model.Assistant {
			role = sdk.MessageParamRoleAssistant
		}
		blocks := p.blocks(m)
		if len(blocks) == 0 {
			continue
		}
		if n := len(out.Messages); n > 0 && out.Messages[n-1].Role == role {
			out.Messages[n-1].Content = append(out.Messages[n-1].Content, blocks...)
			continue
		}
		out.Messages = append(out.Messages, sdk.MessageParam{Role: role, Content: blocks})
	}
	for i, marks := len(out.Messages)-1, 2; i >= 0 && marks > 0; i-- {
		if m := out.Messages[i]; m.Role == sdk.MessageParamRoleUser {
			if cache := m.Content[len(m.Content)-1].GetCacheControl(); cache != nil {
				*cache = sdk.NewCacheControlEphemeralParam()
			}
			marks--
		}
	}
	return out
}

// blocks writes the content of one message, without blank texts, which the API rejects.
func (p provider) blocks(m model.Message) []sdk.ContentBlockParamUnion {
	var out []sdk.ContentBlockParamUnion
	for _, c := range m.Content {
		switch {
		case c.Call != nil:
			out = append(out, sdk.NewToolUseBlock(model.FitID(c.Call.ID, maxName), c.Call.Object(), model.FitName(c.Call.Name, maxName)))
		case c.Result != nil:
			result := sdk.ToolResultBlockParam{ToolUseID: model.FitID(c.Result.ID, maxName)}
			if strings.TrimSpace(c.Result.Text) != "" {
				result.Content = []sdk.ToolResultBlockParamContentUnion{{OfText: &sdk.TextBlockParam{Text: c.Result.Text}}}
			}
			if c.Result.IsError {
				result.IsError = sdk.Bool(true)
			}
			out = append(out, sdk.ContentBlockParamUnion{OfToolResult: &result})
		case c.Reasoning != nil:
			if block, ok := p.thinking(*c.Reasoning); ok {
				out = append(out, block)
			}
		case c.Image != nil:
			out = append(out, sdk.NewImageBlockBase64(c.Image.MediaType, base64.StdEncoding.EncodeToString(c.Image.Data)))
		case strings.TrimSpace(c.Text) != "":
			out = append(out, sdk.NewTextBlock(c.Text))
		}
	}
	return out
}

// thinking sends a block back to the provider that made it; others could not check it.
func (p provider) thinking(r model.Reasoning) (sdk.ContentBlockParamUnion, bool) {
	if r.Provider != p.config.Name {
		return sdk.ContentBlockParamUnion{}, false
	}
	var hidden redacted
	if json.Unmarshal(r.Opaque, &hidden) == nil && hidden.Type == "redacted_thinking" && hidden.Data != "" {
		return sdk.NewRedactedThinkingBlock(hidden.Data), true
	}
	if r.Signature == "" {
		return sdk.ContentBlockParamUnion{}, false
	}
	return sdk.NewThinkingBlock(r.Signature, r.Text), true
}

// reason asks for as much thinking as the request says, in the way that the model's generation
// takes: token budgets up to 4.5, adaptive thinking with an effort after it. "none" is: nothing at
// all up to 4.8, where nothing is the default; the least there is where thinking is always on;
// "between_tools" for Sonnet from 5.5; "disabled" for the others. Unknown models are treated as new
// ones.
func (p provider) reason(out *sdk.MessageNewParams, r model.Request) {
	if r.Reasoning == "" {
		return
	}
	family, version := model.Generation(r.Model)
	switch {
	case r.Reasoning == "none":
		switch {
		case version > 0 && version < 500:
		case family == "fable", family == "mythos", family == "opus" && version >= 505:
			out.OutputConfig.Effort = sdk.OutputConfigEffortLow
		case family == "sonnet" && version >= 505:
			out.Thinking.OfBetweenTools = &sdk.ThinkingConfigBetweenToolsParam{}
		default:
			out.Thinking.OfDisabled = &sdk.ThinkingConfigDisabledParam{}
		}
	case version > 0 && version <= 405:
		budget := map[string]int64{"low": 4_096, "medium": 10_240, "high": 24_576}[r.Reasoning]
		if budget = min(budget, out.MaxTokens/2); budget >= 1_024 && p.begunThinking(r) {
			out.Thinking.OfEnabled = &sdk.ThinkingConfigEnabledParam{BudgetTokens: budget}
		}
	default:
		// Recent models leave out the text of their thinking, unless they are asked for it.
		out.Thinking.OfAdaptive = &sdk.ThinkingConfigAdaptiveParam{Display: sdk.ThinkingConfigAdaptiveDisplaySummarized}
		out.OutputConfig.Effort = sdk.OutputConfigEffort(r.Reasoning)
	}
}

// begunThinking reports whether the turn of the request has no reply yet or begins with a block of
// thinking, without which the API does not let the model think in the rest of it: one that was
// asked for no thinking, or was cut off, has none.
func (p provider) begunThinking(r model.Request) bool {
	turn := 0
	for i, m := range r.Messages {
		if m.Role == model.User {
			turn = i
		}
	}
	for _, m := range r.Messages[turn:] {
		if m.Role != model.Assistant {
			continue
		}
		for _, c := range m.Content {
			if c.Reasoning != nil {
				_, ok := p.thinking(*c.Reasoning)
				return ok
			}
			if c.Call != nil || strings.TrimSpace(c.Text) != "" {
				return false
			}
		}
	}
	return true
}

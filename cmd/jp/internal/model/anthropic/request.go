package anthropic

import (
	"encoding/json"
	"strings"

	"jp/cmd/jp/internal/model"
)

const maxName = 128 // bytes of a tool's name or a call's id

// request writes a request that has passed model.Request.Check.
//
// Cache breakpoints (four are allowed) are after the tools, after the system prompt, after the last
// message and after the message of ours before it: the provider looks back only 20 blocks for what
// it has seen, and one batch of tool calls may be longer than that.
func (p provider) request(r model.Request) request {
	out := request{Model: r.Model, MaxTokens: p.config.Model.Output(r.MaxTokens), Temperature: r.Temperature, Messages: []message{}, Stream: true}
	for _, s := range r.System {
		if strings.TrimSpace(s.Text) != "" {
			out.System = append(out.System, &block{Type: "text", Text: s.Text})
		}
	}
	if n := len(out.System); n > 0 {
		out.System[n-1].CacheControl = ephemeral
	}
	for _, t := range r.Tools {
		out.Tools = append(out.Tools, tool{Name: t.Name, Description: t.Description, InputSchema: t.Schema})
	}
	if n := len(out.Tools); n > 0 {
		out.Tools[n-1].CacheControl = ephemeral
		if r.ToolChoice == "none" {
			out.ToolChoice = &typed{Type: "none"}
		}
	}
	if len(r.Schema) > 0 && p.native(r.Model, r.Schema) {
		out.OutputConfig.Format = &format{Type: "json_schema", Schema: r.Schema}
	}
	p.reason(&out, r)

	for _, m := range r.Messages {
		role := "user"
		if m.Role == model.Assistant {
			role = "assistant"
		}
		blocks := p.blocks(m)
		if len(blocks) == 0 {
			continue
		}
		if n := len(out.Messages); n > 0 && out.Messages[n-1].Role == role {
			out.Messages[n-1].Content = append(out.Messages[n-1].Content, blocks...)
			continue
		}
		out.Messages = append(out.Messages, message{Role: role, Content: blocks})
	}
	for i, marks := len(out.Messages)-1, 2; i >= 0 && marks > 0; i-- {
		if m := out.Messages[i]; m.Role == "user" {
			m.Content[len(m.Content)-1].CacheControl = ephemeral
			marks--
		}
	}
	return out
}

// blocks writes the content of one message, without blank texts, which the API rejects.
func (p provider) blocks(m model.Message) []*block {
	var out []*block
	for _, c := range m.Content {
		switch {
		case c.Call != nil:
			out = append(out, &block{Type: "tool_use", ID: model.FitID(c.Call.ID, maxName), Input: c.Call.Object(), Name: model.FitName(c.Call.Name, maxName)})
		case c.Result != nil:
			result := &block{Type: "tool_result", ToolUseID: model.FitID(c.Result.ID, maxName), IsError: c.Result.IsError}
			if strings.TrimSpace(c.Result.Text) != "" {
				result.Content = []*block{{Type: "text", Text: c.Result.Text}}
			}
			out = append(out, result)
		case c.Reasoning != nil:
			if block := p.thinking(*c.Reasoning); block != nil {
				out = append(out, block)
			}
		case c.Image != nil:
			out = append(out, &block{Type: "image", Source: &source{Type: "base64", MediaType: c.Image.MediaType, Data: c.Image.Data}})
		case strings.TrimSpace(c.Text) != "":
			out = append(out, &block{Type: "text", Text: c.Text})
		}
	}
	return out
}

// thinking sends a block back to the provider that made it; others could not check it. nil = none.
func (p provider) thinking(r model.Reasoning) *block {
	if r.Provider != p.config.Name {
		return nil
	}
	var hidden redacted
	if json.Unmarshal(r.Opaque, &hidden) == nil && hidden.Type == "redacted_thinking" && hidden.Data != "" {
		return &block{Type: hidden.Type, Data: hidden.Data}
	}
	if r.Signature == "" {
		return nil
	}
	return &block{Type: "thinking", Signature: r.Signature, Thinking: &r.Text}
}

// reason asks for as much thinking as the request says, in the way that the model's generation
// takes: token budgets up to 4.5, adaptive thinking with an effort after it. "none" is: nothing at
// all up to 4.8, where nothing is the default; the least there is where thinking is always on;
// "between_tools" for Sonnet from 5.5; "disabled" for the others. Unknown models are treated as new
// ones.
func (p provider) reason(out *request, r model.Request) {
	if r.Reasoning = p.config.Reasoning(r); r.Reasoning == "" {
		return
	}
	family, version := model.Generation(r.Model)
	switch {
	case r.Reasoning == "none":
		switch {
		case version > 0 && version < 500:
		case family == "fable", family == "mythos", family == "opus" && version >= 505:
			out.OutputConfig.Effort = "low"
		case family == "sonnet" && version >= 505:
			out.Thinking = &thinking{Type: "between_tools"}
		default:
			out.Thinking = &thinking{Type: "disabled"}
		}
	case version > 0 && version <= 405:
		budget := map[string]int{"low": 4_096, "medium": 10_240, "high": 24_576}[r.Reasoning]
		if budget = min(budget, out.MaxTokens/2); budget >= 1_024 && p.begunThinking(r) {
			out.Thinking = &thinking{Type: "enabled", BudgetTokens: budget}
		}
	default:
		// Recent models leave out the text of their thinking, unless they are asked for it.
		out.Thinking = &thinking{Type: "adaptive", Display: "summarized"}
		out.OutputConfig.Effort = r.Reasoning
	}
}

// begunThinking reports whether the turn of the request has no reply yet or begins with a block of
// thinking, without which the API does not let the model think in the rest of it: one that was
// asked for no thinking, or was cut off, has none.
func (p provider) begunThinking(r model.Request) bool {
	for _, m := range r.Messages[r.LastUser():] {
		if m.Role != model.Assistant {
			continue
		}
		for _, c := range m.Content {
			if c.Reasoning != nil {
				return p.thinking(*c.Reasoning) != nil
			}
			if c.Call != nil || strings.TrimSpace(c.Text) != "" {
				return false
			}
		}
	}
	return true
}

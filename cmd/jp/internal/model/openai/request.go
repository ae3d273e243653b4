package openai

import (
	"crypto/sha256"
	"encoding/base32"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"jp/cmd/jp/internal/model"
)

// What the API takes as ids of calls and as names of tools, in bytes.
const (
	maxID   = 40
	maxName = 64
)

// request writes a request that has passed model.Request.Check.
func (p provider) request(r model.Request) (chatRequest, error) {
	out := chatRequest{Model: r.Model, Temperature: r.Temperature, StreamOptions: streamOptions{IncludeUsage: true}, Stream: true}
	official := p.config.Official()
	if official {
		out.StreamOptions.IncludeObfuscation = no
		out.PromptCacheKey, out.ServiceTier = cacheKey(r), standard
	}
	if err := p.reason(&out, r); err != nil {
		return out, err
	}
	if r.MaxTokens > 0 {
		n := p.config.Model.Output(r.MaxTokens)
		// The vendor's reasoning models know only the one, behind a proxy too; many other servers
		// only the other.
		if official || model.Reasons(r.Model) {
			out.MaxCompletionTokens = n
		} else {
			out.MaxTokens = n
		}
	}
	if len(r.Schema) > 0 && native(r, official) {
		out.ResponseFormat = &responseFormat{Type: "json_schema", JSONSchema: jsonSchema{Name: "answer", Schema: r.Schema}}
	}
	for _, t := range r.Tools {
		out.Tools = append(out.Tools, chatTool{Type: "function", Function: chatFunction{Name: t.Name, Description: t.Description, Parameters: t.Schema}})
	}
	if len(r.Tools) > 0 && r.ToolChoice == "none" {
		out.ToolChoice = "none"
	}
	if system := system(r); system != "" {
		out.Messages = append(out.Messages, chatMessage{Role: "system", Content: system})
	}
	lastUser := r.LastUser()
	own := map[string]bool{}
	for i, m := range r.Messages {
		out.Messages = append(out.Messages, p.message(m, i > lastUser, own)...)
	}
	return out, nil
}

// cacheKey returns the key by which the vendor brings requests with the same beginning together:
// agents under one profile have one. "" = none, for an agent without a profile.
func cacheKey(r model.Request) string {
	if r.Profile == "" {
		return ""
	}
	begins := r.Profile
	if len(r.System) > 0 {
		begins += "\x00" + r.System[0].Text
	}
	sum := sha256.Sum256([]byte(begins))
	return "jp-" + hex.EncodeToString(sum[:12])
}

// system returns the system prompt as one text.
func system(r model.Request) string {
	var texts []string
	for _, s := range r.System {
		if strings.TrimSpace(s.Text) != "" {
			texts = append(texts, s.Text)
		}
	}
	return strings.Join(texts, "\n\n")
}

// dataURL is an image in an address.
func dataURL(i *model.Image) string {
	return "data:" + i.MediaType + ";base64," + base64.StdEncoding.EncodeToString(i.Data)
}

// said returns a message of the user. Without an image it is a single text, which every compatible
// server reads.
func said(m model.Message) chatMessage {
	var texts []string
	var parts []chatPart
	pictures := false
	for _, c := range m.Content {
		if c.Image != nil {
			pictures = true
			parts = append(parts, chatPart{Type: "image_url", ImageURL: &url{dataURL(c.Image)}})
			continue
		}
		texts = append(texts, c.Text)
		parts = append(parts, chatPart{Type: "text", Text: c.Text})
	}
	if pictures {
		return chatMessage{Role: "user", Content: parts}
	}
	return chatMessage{Role: "user", Content: strings.Join(texts, "\n\n")}
}

// message writes one message. The tool role has one per result on this wire. own has the ids of
// calls that go back as they are: some models, Kimi for one, read their ids, and stop calling where
// these are others. A message of the assistant adds its own.
func (p provider) message(m model.Message, inTurn bool, own map[string]bool) []chatMessage {
	fit := func(id string) string {
		switch {
		case p.nine:
			return nine(id)
		case own[id]:
			return id
		}
		return model.FitID(id, maxID)
	}
	switch m.Role {
	case model.User:
		return []chatMessage{said(m)}
	case model.ToolRole:
		var out []chatMessage
		for _, c := range m.Content {
			out = append(out, chatMessage{Role: "tool", Content: resultText(c.Result), ToolCallID: fit(c.Result.ID)})
		}
		return out
	}

	var (
		out    = chatMessage{Role: "assistant"}
		texts  []string
		memory memory
	)
	// DeepSeek and Kimi want the thinking before a call in each later request. Where no call followed,
	// some servers refuse it in later turns. A demand adds no text, because the bound of a request takes
	// what was there before as counted.
	wanted := inTurn || slices.ContainsFunc(m.Content, func(c model.Content) bool { return c.Call != nil })
	if p.thought {
		out.ReasoningContent = new(" ") // Kimi takes an empty one for none
	}
	for _, c := range m.Content {
		if r := c.Reasoning; r != nil && r.Provider == p.config.Name {
			if json.Unmarshal(r.Opaque, &memory) != nil || !wanted {
				continue
			}
			switch {
			case memory.Field == "reasoning_content":
				out.ReasoningContent = &r.Text
			case memory.Field == "reasoning" && inTurn: // models of Groq that do not think refuse it
				out.Reasoning = &r.Text
			}
			if inTurn && len(memory.Details) > 0 {
				out.Details = memory.Details
			}
		}
	}
	for _, c := range m.Content {
		switch {
		case c.Text != "":
			texts = append(texts, c.Text)
		case c.Call != nil:
			own[c.Call.ID] = memory.Named != "" && memory.Named == p.config.Model.Name
			call := chatCall{Type: "function", ID: fit(c.Call.ID), Extra: memory.Calls[c.Call.ID]}
			if own[c.Call.ID] {
				call.Signed.Signature = memory.Signed[c.Call.ID]
			}
			call.Function.Name, call.Function.Arguments = model.FitName(c.Call.Name, maxName), string(c.Call.Object())
			out.ToolCalls = append(out.ToolCalls, call)
		}
	}
	if len(texts) == 0 && len(out.ToolCalls) == 0 {
		return nil // nothing but reasoning, which alone is no message
	}
	if len(texts) > 0 {
		out.Content = strings.Join(texts, "")
	}
	return []chatMessage{out}
}

// nine makes an id of nine letters and digits, the same of the same id.
func nine(id string) string {
	if len(id) == 9 && model.FitName(id, 9) == id && !strings.ContainsAny(id, "_-") {
		return id
	}
	sum := sha256.Sum256([]byte(id))
	return base32.StdEncoding.EncodeToString(sum[:])[:9]
}

// resultText returns the text of a result.
func resultText(r *model.CallResult) string {
	if r.Text == "" && r.IsError {
		return "error" // the wire has no other place for it
	}
	return r.Text
}

// reason asks for as much reasoning as the request says. The vendor refuses to combine it with
// tools on this API: from GPT-5.4 on when it is asked for, from GPT-5.6 on even when it is not
// ruled out. What was not asked for is ruled out; what was asked for is refused here, and not
// dropped.
func (p provider) reason(out *chatRequest, r model.Request) error {
	effort := p.config.Reasoning(r)
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
	out.ReasoningEffort = effort
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

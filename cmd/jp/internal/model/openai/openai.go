// Package openai speaks OpenAI's chat completions through the vendor's SDK, against the vendor or
// any server with the same wire format: Ollama, llama.cpp, vLLM, LM Studio, OpenRouter, Gemini's
// compatible endpoint and others; and the Responses API, where model.Info.API says so.
//
// The SDK does only the wire work. It gets its key, address and HTTP client from us and reads
// nothing from the environment (its Client would: keys, organisation, headers; its
// ChatCompletionService does not). It does not retry; model.Retry does.
//
// Traps: the SDK's stream ends quietly when the connection does, so a reply counts as complete only
// when its finish reason was seen. Compatible servers give tool calls without ids, with the same
// index, or whole in one delta, call reasoning by several names, and end replies with reasons of
// their own. From GPT-5.4 on, the vendor's models do not both reason and take tools over this API.
package openai

import (
	"context"
	"encoding/json"
	"math"
	"strings"

	sdk "github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	"github.com/openai/openai-go/v3/packages/respjson"
	"github.com/openai/openai-go/v3/responses"

	"jp/cmd/jp/internal/model"
	"jp/convstore"
)

// New is a model.Provider.
func New(c model.Config) (model.Stream, error) {
	opts := []option.RequestOption{
		option.WithBaseURL(c.BaseURL),
		option.WithHTTPClient(c.Client),
		option.WithMaxRetries(0),
		option.WithMiddleware(c.Intercept),
		option.WithHeader("User-Agent", "jp"),
	}
	if c.Key != "" {
		opts = append(opts, option.WithAPIKey(c.Key.Reveal()))
	}
	if c.Model.API == model.Responses {
		service := responses.NewResponseService(opts...)
		return api[responses.ResponseNewParams, responses.ResponseStreamEventUnion]{
			config: c, params: responder{c}.params, open: service.NewStreaming,
			answer: func(r model.Request, yield func(model.Part, error) bool) answer[responses.ResponseStreamEventUnion] {
				return &response{config: c, yield: yield, calls: model.NewCalls(r)}
			},
		}.stream, nil
	}
	service := sdk.NewChatCompletionService(opts...)
	return api[sdk.ChatCompletionNewParams, sdk.ChatCompletionChunk]{
		config: c, params: provider{c}.params, open: service.NewStreaming,
		answer: func(r model.Request, yield func(model.Part, error) bool) answer[sdk.ChatCompletionChunk] {
			return &reply{config: c, yield: yield, calls: model.NewCalls(r)}
		},
	}.stream, nil
}

// provider makes the requests of the chat completions API.
type provider struct{ config model.Config }

// reply puts one answer together.
type reply struct {
	config    model.Config
	yield     func(model.Part, error) bool
	pending   []*call
	calls     *model.Calls
	used      *model.Part // usage and cost that the server reported; nil = none
	finished  string      // the finish reason
	said      bool
	refused   bool
	reasoning []byte
	memory    memory
	tags      thinkTags
}

// call is one tool call in the making.
type call struct {
	index     int64
	id, name  string
	arguments []byte
	extra     json.RawMessage
}

// memory is data that must be sent back to a server and for which we have no field. It is stored in
// model.Reasoning.Opaque.
type memory struct {
	Field   string                     `json:"field,omitempty"`   // field that had the reasoning: reasoning_content, reasoning
	Details []json.RawMessage          `json:"details,omitempty"` // OpenRouter's reasoning_details
	Calls   map[string]json.RawMessage `json:"calls,omitempty"`   // Gemini's extra_content of tool calls, by id
}

func (r *reply) origin(c sdk.ChatCompletionChunk) (id, model string) { return c.ID, c.Model }

// whole is false: usage comes after the finish reason.
func (r *reply) whole() bool { return false }

func (r *reply) event(c sdk.ChatCompletionChunk) bool {
	if u := c.Usage; c.JSON.Usage.Valid() {
		d := u.PromptTokensDetails
		r.used = used(u.PromptTokens, u.CompletionTokens, u.TotalTokens, d.CachedTokens, d.CacheWriteTokens, u.JSON.ExtraFields["cost"].Raw())
	}
	for _, choice := range c.Choices {
		if choice.Index != 0 {
			continue // we ask for one
		}
		if choice.FinishReason != "" {
			r.finished = choice.FinishReason
		}
		d := choice.Delta
		for _, name := range []string{"reasoning_content", "reasoning"} {
			if text := text(d.JSON.ExtraFields[name]); text != "" {
				r.memory.Field = name
				r.reasoning = append(r.reasoning, text...)
				if !r.yield(model.Part{ReasoningDelta: text}, nil) {
					return false
				}
				break // some servers give both
			}
		}
		var details []json.RawMessage
		if json.Unmarshal([]byte(d.JSON.ExtraFields["reasoning_details"].Raw()), &details) == nil {
			r.memory.Details = append(r.memory.Details, details...)
		}
		if d.Refusal != "" {
			r.refused = true
		}
		thought, said := "", d.Content
		if r.memory.Field == "" && !r.config.Official() {
			thought, said = r.tags.take(d.Content)
		}
		if !r.say(thought, said) || !r.say("", d.Refusal) {
			return false
		}
		for _, t := range d.ToolCalls {
			r.toolCall(t)
			if delta := t.Function.Name + t.Function.Arguments; delta != "" && !r.yield(model.Part{CallDelta: delta}, nil) {
				return false
			}
		}
	}
	return true
}

// used is the usage that both APIs report at the end. Some vendors, such as xAI, count reasoning
// apart from the output, and only the total says what is paid. The cost is in the form of
// OpenRouter, see dollars.
func used(input, output, total, cached, written int64, cost string) *model.Part {
	return &model.Part{Cost: dollars(cost), Usage: model.Tokens(convstore.Usage{
		Input: fresh(input, cached, written), Output: max(output, total-input), CacheRead: cached, CacheWrite: written,
	})}
}

// fresh returns the tokens of a prompt without cache reads and writes. Most servers count these in
// the prompt, some count them apart.
func fresh(prompt, cached, written int64) int64 {
	if n := prompt - max(cached, 0) - max(written, 0); n >= 0 {
		return n
	}
	return prompt
}

// say yields a piece of thinking, then of the answer.
func (r *reply) say(thought, said string) bool {
	if thought != "" {
		r.reasoning = append(r.reasoning, thought...)
		if !r.yield(model.Part{ReasoningDelta: thought}, nil) {
			return false
		}
	}
	if said == "" {
		return true
	}
	r.said = true
	return r.yield(model.Part{Text: said}, nil)
}

// dollars returns OpenRouter's usage.cost in nano-dollars; nil if there is no valid one.
func dollars(raw string) *int64 {
	var usd float64
	if raw == "" || json.Unmarshal([]byte(raw), &usd) != nil || !(usd >= 0 && usd < 1e6) || raw == "null" {
		return nil
	}
	nano := int64(math.Round(usd * 1e9))
	return &nano
}

// text returns the string in a field that the SDK does not know.
func text(f respjson.Field) string {
	var s string
	if json.Unmarshal([]byte(f.Raw()), &s) != nil {
		return ""
	}
	return s
}

// toolCall finds the call that a delta belongs to, and adds to it.
func (r *reply) toolCall(d sdk.ChatCompletionChunkChoiceDeltaToolCall) {
	var c *call
	for i := len(r.pending) - 1; i >= 0 && c == nil; i-- {
		if r.pending[i].index == d.Index {
			c = r.pending[i]
		}
	}
	// Some servers give no index, or 0 to all calls: another id, or a name after a complete call
	// without ids, starts a new one.
	if c != nil {
		another := d.ID != "" && c.id != "" && d.ID != c.id
		if d.ID == "" && c.id == "" && d.Function.Name != "" && json.Valid(c.arguments) {
			another = true
		}
		if another {
			c = nil
		}
	}
	if c == nil {
		c = &call{index: d.Index}
		r.pending = append(r.pending, c)
	}
	if d.ID != "" {
		c.id = d.ID
	}
	if d.Function.Name != "" {
		c.name = d.Function.Name
	}
	arguments := d.Function.Arguments
	if raw := d.Function.JSON.Arguments.Raw(); strings.HasPrefix(raw, "{") {
		arguments = raw // an object where a string belongs
	}
	c.arguments = append(c.arguments, arguments...)
	if extra, ok := d.JSON.ExtraFields["extra_content"]; ok && json.Valid([]byte(extra.Raw())) {
		c.extra = json.RawMessage(extra.Raw())
	}
}

// finish yields the end of a reply, or the error that it is incomplete: err, or no finish reason.
// Once there is one, nothing but usage can follow, so a connection that breaks then breaks nothing.
func (r *reply) finish(ctx context.Context, err error) {
	if !r.say(r.tags.end()) {
		return
	}
	stop, problem := r.stop()
	if ctx.Err() != nil {
		err = r.config.Fail(ctx, err)
	} else if r.finished != "" {
		err = problem
	} else if err == nil {
		err = r.config.Bad(model.KindStream, "the reply broke off")
	}
	if err == nil {
		err = r.addCalls()
	}
	if err != nil {
		if r.used == nil || r.yield(*r.used, nil) {
			r.yield(model.Part{}, err)
		}
		return
	}

	calls, stop := r.calls.Finish(stop)
	if len(r.reasoning) > 0 || len(r.memory.Details) > 0 || len(r.memory.Calls) > 0 {
		opaque, err := json.Marshal(r.memory)
		if err != nil {
			r.yield(model.Part{}, r.config.Bad(model.KindStream, "%v", err))
			return
		}
		reasoning := &model.Reasoning{Text: string(r.reasoning), Opaque: opaque, Provider: r.config.Name}
		if !r.yield(model.Part{Reasoning: reasoning}, nil) {
			return
		}
	}
	for _, c := range calls {
		if !r.yield(model.Part{Call: c}, nil) {
			return
		}
	}
	if r.used != nil && !r.yield(*r.used, nil) {
		return
	}
	r.yield(model.Part{Stop: stop}, nil)
}

// addCalls completes the tool calls.
func (r *reply) addCalls() error {
	for _, p := range r.pending {
		if p.name == "" {
			return r.config.Bad(model.KindStream, "a tool call without a name")
		}
		id := r.calls.Add(p.id, p.name, p.arguments)
		if p.extra != nil {
			if r.memory.Calls == nil {
				r.memory.Calls = make(map[string]json.RawMessage)
			}
			r.memory.Calls[id] = p.extra
		}
	}
	return nil
}

// stop maps the finish reason.
func (r *reply) stop() (model.Stop, error) {
	switch r.finished {
	case "stop":
		if r.refused {
			return model.StopRefusal, nil
		}
		return model.StopEnd, nil
	case "length":
		return model.StopMaxTokens, nil
	case "tool_calls", "function_call":
		return model.StopToolUse, nil
	case "content_filter":
		return model.StopRefusal, nil
	case "error", "abort", "failed", "cancelled":
		return "", r.config.Bad(model.KindServer, "the server ended the reply with %q", r.finished)
	case "insufficient_system_resource":
		return "", r.config.Bad(model.KindOverloaded, "the server ended the reply with %q", r.finished)
	}
	return r.config.UnknownStop(r.finished, r.said || len(r.pending) > 0)
}

// Package anthropic speaks Anthropic's Messages API through the vendor's SDK, against the vendor or
// any server with the same wire format.
//
// The SDK does only the wire work. It gets its key, address and HTTP client from us and reads
// nothing from the environment (its Client would: keys, profiles, headers; its MessageService does
// not). It does not retry; model.Retry does.
//
// Traps of the SDK: its event decoder swallows pings and unnamed events, and ends quietly when the
// connection does, so a reply counts as complete only when its stop reason was seen; it prints a
// warning to stderr for token budgets on models that deprecate them, which are the models for which
// we send none.
package anthropic

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"strconv"

	sdk "github.com/anthropics/anthropic-sdk-go"
	"github.com/anthropics/anthropic-sdk-go/option"

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
		option.WithoutOpenTelemetry(),
		option.WithHeader("User-Agent", "jp"),
	}
	if c.Key != "" {
		opts = append(opts, option.WithAPIKey(c.Key.Reveal()))
	}
	p := provider{config: c, messages: sdk.NewMessageService(opts...)}
	return p.stream, nil
}

type provider struct {
	config   model.Config
	messages sdk.MessageService
}

func (p provider) stream(ctx context.Context, r model.Request) iter.Seq2[model.Part, error] {
	return func(yield func(model.Part, error) bool) {
		if err := r.Check(); err != nil {
			yield(model.Part{}, p.config.Fail(ctx, err))
			return
		}
		events := p.messages.NewStreaming(ctx, p.params(r),
			option.WithHeader("X-Stainless-Retry-Count", strconv.Itoa(max(r.Attempt-1, 0))))
		if err := events.Err(); err != nil {
			yield(model.Part{}, p.fail(ctx, err))
			return
		}
		defer func() { _ = events.Close() }()

		reply := reply{config: p.config, yield: yield, blocks: make(map[int64]*block), calls: model.NewCalls(r)}
		for !reply.complete && events.Next() {
			e := events.Current()
			r.Name(e.Message.ID, e.Message.Model)
			if err := reply.event(e); err == errConsumer {
				return
			} else if err != nil {
				reply.fail(ctx, err)
				return
			}
		}
		if err := events.Err(); err != nil && !reply.complete {
			reply.fail(ctx, p.fail(ctx, err))
			return
		}
		reply.finish(ctx)
	}
}

// fail maps an error of the SDK. Error events in the stream are the SDK's own type; what had an
// error status was caught before the SDK saw it.
func (p provider) fail(ctx context.Context, err error) error {
	if e, ok := err.(*sdk.Error); ok && ctx.Err() == nil {
		return p.config.StreamError([]byte(e.RawJSON()))
	}
	return p.config.Fail(ctx, err)
}

// reply puts one answer together.
type reply struct {
	config   model.Config
	yield    func(model.Part, error) bool
	blocks   map[int64]*block // open ones, by index
	calls    *model.Calls
	usage    convstore.Usage
	counted  bool // whether the usage was reported
	summed   bool // whether the usage is that of the whole output, and not of its beginning
	stop     sdk.StopReason
	said     bool // whether the answer has text
	complete bool // whether message_stop was seen
}

// block is one content block in the making.
type block struct {
	kind          string
	id, name      string
	text          []byte // of thinking, or the JSON of a tool call
	signature     string
	redacted      string
	startArgument json.RawMessage // where a server gives a call's input whole
}

// errConsumer ends a reply because its consumer wants no more.
var errConsumer = fmt.Errorf("the consumer stopped")

func (r *reply) part(p model.Part) error {
	if !r.yield(p, nil) {
		return errConsumer
	}
	return nil
}

func (r *reply) event(e sdk.MessageStreamEventUnion) error {
	switch e.Type {
	case "message_start":
		u := e.Message.Usage
		r.count(u.JSON.InputTokens.Valid(), u.InputTokens, &r.usage.Input)
		r.count(u.JSON.OutputTokens.Valid(), u.OutputTokens, &r.usage.Output)
		r.count(u.JSON.CacheReadInputTokens.Valid(), u.CacheReadInputTokens, &r.usage.CacheRead)
		r.count(u.JSON.CacheCreationInputTokens.Valid(), u.CacheCreationInputTokens, &r.usage.CacheWrite)
	case "message_delta":
		// These counts are totals and replace the earlier ones. Some servers report 0 here for
		// counts that they reported at the start.
		u := e.Usage
		r.count(u.JSON.InputTokens.Valid(), u.InputTokens, &r.usage.Input)
		r.count(u.JSON.OutputTokens.Valid(), u.OutputTokens, &r.usage.Output)
		r.count(u.JSON.CacheReadInputTokens.Valid(), u.CacheReadInputTokens, &r.usage.CacheRead)
		r.count(u.JSON.CacheCreationInputTokens.Valid(), u.CacheCreationInputTokens, &r.usage.CacheWrite)
		r.summed = r.summed || u.JSON.OutputTokens.Valid()
		if e.Delta.StopReason != "" {
			r.stop = e.Delta.StopReason
		}
	case "content_block_start":
		return r.start(e)
	case "content_block_delta":
		return r.delta(e)
	case "content_block_stop":
		return r.end(e.Index)
	case "message_stop":
		r.complete = true
	}
	// Unknown events are to be ignored, says the API's versioning policy.
	return nil
}

func (r *reply) count(valid bool, n int64, to *int64) {
	if valid {
		r.counted = true
	}
	if valid && n != 0 {
		*to = n
	}
}

func (r *reply) start(e sdk.MessageStreamEventUnion) error {
	if r.blocks[e.Index] != nil {
		return r.config.Bad(model.KindStream, "content block %d starts twice", e.Index)
	}
	c := e.ContentBlock
	b := &block{kind: c.Type, id: c.ID, name: c.Name, signature: c.Signature, redacted: c.Data, text: []byte(c.Thinking)}
	r.blocks[e.Index] = b
	switch c.Type {
	case "":
		return r.config.Bad(model.KindStream, "content block %d has no type", e.Index)
	case "text":
		if c.Text != "" {
			r.said = true
			return r.part(model.Part{Text: c.Text})
		}
	case "thinking":
		if c.Thinking != "" {
			return r.part(model.Part{ReasoningDelta: c.Thinking})
		}
	case "tool_use":
		if c.Name == "" {
			return r.config.Bad(model.KindStream, "content block %d: a tool call without a name", e.Index)
		}
		if raw := c.JSON.Input.Raw(); c.JSON.Input.Valid() && raw != "{}" {
			b.startArgument = json.RawMessage(raw)
		}
		return r.part(model.Part{CallDelta: c.Name})
	}
	return nil
}

func (r *reply) delta(e sdk.MessageStreamEventUnion) error {
	b, d := r.blocks[e.Index], e.Delta
	if b == nil {
		return r.config.Bad(model.KindStream, "a %s for content block %d, which is not open", d.Type, e.Index)
	}
	switch d.Type {
	case "text_delta":
		if !d.JSON.Text.Valid() || b.kind != "text" {
			return r.config.Bad(model.KindStream, "a text delta without text, or in a block of type %s", b.kind)
		}
		if d.Text != "" {
			r.said = true
			return r.part(model.Part{Text: d.Text})
		}
	case "thinking_delta":
		if !d.JSON.Thinking.Valid() || b.kind != "thinking" {
			return r.config.Bad(model.KindStream, "a thinking delta without thinking, or in a block of type %s", b.kind)
		}
		if b.text = append(b.text, d.Thinking...); d.Thinking != "" {
			return r.part(model.Part{ReasoningDelta: d.Thinking})
		}
	case "signature_delta":
		b.signature += d.Signature
	case "input_json_delta":
		if !d.JSON.PartialJSON.Valid() {
			return r.config.Bad(model.KindStream, "a delta of a tool call without JSON text")
		}
		if b.text = append(b.text, d.PartialJSON...); d.PartialJSON != "" {
			return r.part(model.Part{CallDelta: d.PartialJSON})
		}
	}
	return nil
}

func (r *reply) end(index int64) error {
	b := r.blocks[index]
	if b == nil {
		return r.config.Bad(model.KindStream, "the end of content block %d, which is not open", index)
	}
	delete(r.blocks, index)
	switch b.kind {
	case "thinking":
		return r.part(model.Part{Reasoning: &model.Reasoning{Text: string(b.text), Signature: b.signature, Provider: r.config.Name}})
	case "redacted_thinking":
		opaque, err := json.Marshal(redacted{Type: "redacted_thinking", Data: b.redacted})
		if err != nil {
			return r.config.Bad(model.KindStream, "%v", err)
		}
		return r.part(model.Part{Reasoning: &model.Reasoning{Opaque: opaque, Provider: r.config.Name}})
	case "tool_use":
		if len(b.text) == 0 {
			b.text = b.startArgument
		}
		r.calls.Add(b.id, b.name, b.text)
	}
	return nil
}

// redacted is an encrypted block of thinking, in the form in which it must be sent back to the
// provider.
type redacted struct {
	Type string `json:"type"`
	Data string `json:"data"`
}

// finish yields the end of a reply, or the error that it is incomplete.
func (r *reply) finish(ctx context.Context) {
	stop, ok := stopOf(r.stop)
	switch {
	case ctx.Err() != nil && !r.complete:
		r.fail(ctx, nil)
		return
	case r.stop == "":
		r.fail(ctx, r.config.Bad(model.KindStream, "the reply broke off"))
		return
	case !ok:
		var err error
		if stop, err = r.config.UnknownStop(string(r.stop), r.said || r.calls.Len() > 0); err != nil {
			r.fail(ctx, err)
			return
		}
	}
	for _, b := range r.blocks {
		// Only the limit may cut a block off. A call in such a block is dropped.
		if stop != model.StopMaxTokens {
			r.fail(ctx, r.config.Bad(model.KindStream, "the reply ended inside a block of type %s", b.kind))
			return
		}
	}
	calls, stop := r.calls.Finish(stop)
	for _, call := range calls {
		if !r.yield(model.Part{Call: call}, nil) {
			return
		}
	}
	if !r.summed {
		r.usage.Output = 0
	}
	if r.counted && !r.yield(model.Part{Usage: model.Tokens(r.usage)}, nil) {
		return
	}
	r.yield(model.Part{Stop: stop}, nil)
}

// fail yields the usage of the broken reply, as far as it was reported, and the error.
func (r *reply) fail(ctx context.Context, err error) {
	if ctx.Err() != nil {
		err = r.config.Fail(ctx, err)
	}
	if r.counted && !r.yield(model.Part{Usage: model.Tokens(r.usage)}, nil) {
		return
	}
	r.yield(model.Part{}, err)
}

func stopOf(s sdk.StopReason) (model.Stop, bool) {
	switch s {
	case sdk.StopReasonEndTurn, sdk.StopReasonStopSequence, sdk.StopReasonPauseTurn:
		return model.StopEnd, true
	case sdk.StopReasonToolUse:
		return model.StopToolUse, true
	case sdk.StopReasonMaxTokens, sdk.StopReasonModelContextWindowExceeded:
		return model.StopMaxTokens, true
	case sdk.StopReasonRefusal:
		return model.StopRefusal, true
	}
	return "", false
}

// Package anthropic speaks Anthropic's Messages API, against the vendor or any server with the same
// wire format.
//
// Trap: the stream ends quietly when the connection does, so a reply counts as complete only when
// its stop reason was seen.
package anthropic

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"net/http"
	"strings"

	"jp/cmd/jp/internal/model"
	"jp/convstore"
)

// New is a model.Provider.
func New(c model.Config) (model.Stream, error) { return provider{config: c}.stream, nil }

type provider struct{ config model.Config }

func (p provider) stream(ctx context.Context, r model.Request) iter.Seq2[model.Part, error] {
	return func(yield func(model.Part, error) bool) {
		if err := r.Check(); err != nil {
			yield(model.Part{}, p.config.Fail(ctx, err))
			return
		}
		header := http.Header{"Anthropic-Version": {"2023-06-01"}}
		if p.config.Key != "" {
			header.Set("X-Api-Key", p.config.Key.Reveal())
		}
		reply := reply{config: p.config, yield: yield, hidden: func(n int) { model.Hidden(ctx, n) }, blocks: make(map[int64]*open), calls: model.NewCalls(r)}
		for e, err := range p.config.Post(ctx, "v1/messages", header, r.Attempt, p.request(r)) {
			if err == nil {
				err = reply.take(e, r)
			}
			if err == errConsumer {
				return
			} else if err != nil && !reply.whole() {
				reply.fail(ctx, err)
				return
			}
			if err != nil || reply.complete {
				break
			}
		}
		reply.finish(ctx)
	}
}

// reply puts one answer together.
type reply struct {
	config   model.Config
	yield    func(model.Part, error) bool
	hidden   func(bytes int) // model.Hidden
	blocks   map[int64]*open // by index
	calls    *model.Calls
	usage    convstore.Usage
	cost     *int64 // see model.Part
	counted  bool   // whether the usage was reported
	summed   bool   // whether the usage is that of the whole output, and not of its beginning
	stop     string
	said     bool // whether the answer has text
	goesOn   bool // whether a block began after the stop reason
	complete bool // whether message_stop was seen
}

// open is a content block in the making.
type open struct {
	kind          string
	id, name      string
	text          []byte // of thinking, or the JSON of a tool call
	signature     []byte
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

// take handles an event. The names are those of the API, which may have others and pings between
// them, to be ignored.
func (r *reply) take(named model.Event, request model.Request) error {
	switch {
	case named.Whole:
		var e event
		_ = named.Read(&e) // what cannot be read says nothing
		if r.counts(e.Usage); r.usage.Output <= 0 {
			r.hidden(len(named.Data))
		}
		return nil
	case named.Unended:
		var e event
		if named.Read(&e) == nil {
			r.counts(e.Message.Usage)
			r.sums(e.Usage)
		}
		return nil
	case named.Name == "", named.Name == "ping":
		return nil
	case named.Name == "error":
		return r.config.StreamError(named.Data)
	}
	var e event
	if err := named.Read(&e); err != nil {
		return r.config.Bad(model.KindStream, "%v", err)
	}
	request.Name(e.Message.ID.Text, e.Message.Model.Text)
	switch e.Type.Text {
	case "message_start":
		r.counts(e.Message.Usage)
	case "message_delta":
		r.sums(e.Usage)
		if e.Delta.StopReason.Text != "" {
			r.stop = e.Delta.StopReason.Text
		}
	case "content_block_start":
		return r.start(e)
	case "content_block_delta":
		return r.delta(e)
	case "content_block_stop":
		return r.end(e.Index.N)
	case "message_stop":
		r.complete = true
	}
	return nil
}

// sums takes counts that are totals. Some servers report less there than at the start.
func (r *reply) sums(u usage) {
	r.counts(u)
	r.summed = r.summed || u.Output.Valid
}

func (r *reply) counts(u usage) {
	r.count(u.Input, &r.usage.Input)
	r.count(u.Output, &r.usage.Output)
	r.count(u.CacheRead, &r.usage.CacheRead)
	r.count(u.CacheWrite, &r.usage.CacheWrite)
	minutes, hour := u.CacheCreation.Minutes, u.CacheCreation.Hour
	if n := u.Paid(); n != nil && (r.cost == nil || *n > *r.cost) {
		r.cost, r.counted = n, true
	}
	r.count(model.Num{N: max(minutes.N, 0) + max(hour.N, 0), Valid: minutes.Valid || hour.Valid}, &r.usage.CacheWrite)
}

func (r *reply) count(n model.Num, to *int64) {
	r.counted = r.counted || n.Valid
	*to = max(*to, n.N)
}

func (r *reply) start(e event) error {
	if r.blocks[e.Index.N] != nil {
		return r.config.Bad(model.KindStream, "content block %d starts twice", e.Index.N)
	}
	c := e.ContentBlock
	b := &open{kind: c.Type.Text, id: c.ID.Text, name: c.Name.Text, signature: []byte(c.Signature.Text), redacted: c.Data.Text, text: []byte(c.Thinking.Text)}
	r.blocks[e.Index.N] = b
	r.calls.Next()
	r.goesOn = r.goesOn || r.stop != ""
	r.hidden(len(b.signature) + len(b.redacted))
	switch b.kind {
	case "":
		return r.config.Bad(model.KindStream, "content block %d has no type", e.Index.N)
	case "text":
		if c.Text.Text != "" {
			r.said = true
			return r.part(model.Part{Text: c.Text.Text})
		}
	case "thinking":
		if c.Thinking.Text != "" {
			return r.part(model.Part{ReasoningDelta: c.Thinking.Text})
		}
	case "tool_use":
		if b.name == "" {
			return &model.Error{Provider: r.config.Name, Kind: model.KindStream, Final: true, // another try would be paid and change nothing
				Message: fmt.Sprintf("content block %d: a tool call without a name", e.Index.N)}
		}
		if raw := string(c.Input); raw != "" && raw != "null" && raw != "{}" {
			b.startArgument = c.Input
		}
		return r.part(model.Part{CallDelta: b.name + string(b.startArgument)})
	default:
		r.hidden(len(c.Input))
	}
	return nil
}

func (r *reply) delta(e event) error {
	b, d := r.blocks[e.Index.N], e.Delta
	if b == nil {
		return r.config.Bad(model.KindStream, "a %s for content block %d, which is not open", d.Type.Text, e.Index.N)
	}
	switch d.Type.Text {
	case "text_delta":
		if !d.Text.Valid || b.kind != "text" {
			return r.config.Bad(model.KindStream, "a text delta without text, or in a block of type %s", b.kind)
		}
		if d.Text.Text != "" {
			r.said = true
			return r.part(model.Part{Text: d.Text.Text})
		}
	case "thinking_delta":
		if !d.Thinking.Valid || b.kind != "thinking" {
			return r.config.Bad(model.KindStream, "a thinking delta without thinking, or in a block of type %s", b.kind)
		}
		if b.text = append(b.text, d.Thinking.Text...); d.Thinking.Text != "" {
			return r.part(model.Part{ReasoningDelta: d.Thinking.Text})
		}
	case "signature_delta":
		b.signature = append(b.signature, d.Signature.Text...)
		r.hidden(len(d.Signature.Text))
	case "input_json_delta":
		if !d.PartialJSON.Valid {
			return r.config.Bad(model.KindStream, "a delta of a tool call without JSON text")
		}
		if b.text = append(b.text, d.PartialJSON.Text...); d.PartialJSON.Text != "" {
			return r.part(model.Part{CallDelta: d.PartialJSON.Text})
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
		return r.part(model.Part{Reasoning: &model.Reasoning{Text: string(b.text), Signature: string(b.signature), Provider: r.config.Name}})
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

// whole reports whether all of the reply came that matters, so that whatever happens before its
// formal end breaks nothing.
func (r *reply) whole() bool { return r.stop != "" && len(r.blocks) == 0 && !r.goesOn }

// finish yields the end of a reply, or the error that it is incomplete.
func (r *reply) finish(ctx context.Context) {
	stop, ok := stopOf(r.stop)
	switch {
	case ctx.Err() != nil && !r.complete && !r.whole():
		r.fail(ctx, nil)
		return
	case r.stop == "":
		r.fail(ctx, r.config.Bad(model.KindStream, "the reply broke off"))
		return
	case !ok:
		var err error
		if stop, err = r.config.UnknownStop(r.stop, r.said || r.calls.Len() > 0); err != nil {
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
	if r.counted && !r.yield(model.Part{Usage: model.Tokens(r.usage), Cost: r.cost, Estimated: !r.summed}, nil) {
		return
	}
	r.yield(model.Part{Stop: stop}, nil)
}

// fail yields the usage of the broken reply, as far as it was reported, and the error.
func (r *reply) fail(ctx context.Context, err error) {
	if ctx.Err() != nil {
		err = r.config.Fail(ctx, err)
	}
	if r.counted && !r.yield(model.Part{Usage: model.Tokens(r.usage), Cost: r.cost}, nil) {
		return
	}
	r.yield(model.Part{}, err)
}

func stopOf(reason string) (model.Stop, bool) {
	switch strings.ToLower(reason) {
	case "end_turn", "stop_sequence", "pause_turn", "stop", "end", "eos", "complete": // from the fourth on of proxies
		return model.StopEnd, true
	case "tool_use", "tool_calls":
		return model.StopToolUse, true
	case "max_tokens", "model_context_window_exceeded", "length":
		return model.StopMaxTokens, true
	case "refusal", "content_filter":
		return model.StopRefusal, true
	}
	return "", false
}

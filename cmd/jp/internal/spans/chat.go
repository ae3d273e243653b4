package spans

import (
	"context"
	"errors"
	"iter"
	"net/url"
	"strconv"
	"strings"

	"jp/cmd/jp/internal/model"
	"jp/cmd/jp/internal/otel"
	"jp/convstore"
)

// Model returns s with a span for each call, which includes all attempts and waits.
func Model(s model.Stream, info model.Info) model.Stream {
	return func(ctx context.Context, r model.Request) iter.Seq2[model.Part, error] {
		return func(yield func(model.Part, error) bool) {
			if !otel.Traced(ctx) {
				s(ctx, r)(yield)
				return
			}
			ctx, span := otel.Start(ctx, named("chat", r.Model), otel.Client, asked(info, r)...)
			c := chat{span: span, said: message{Role: string(model.Assistant)}}
			defer c.end(ctx, r)
			watched := r.Anew(c.forget)
			watched.Named = func(id, name string) {
				span.Set(otel.Str("gen_ai.response.id", id), otel.Str("gen_ai.response.model", name))
			}
			for p, err := range s(ctx, watched) {
				c.hear(p, err)
				if !yield(p, err) {
					return
				}
			}
		}
	}
}

// asked returns the attributes of a call that are known before it is made.
func asked(info model.Info, r model.Request) []otel.Attr {
	attrs := []otel.Attr{
		otel.Str("gen_ai.operation.name", "chat"), otel.Str("gen_ai.provider.name", provider(info.Provider)), otel.Str("gen_ai.request.model", r.Model),
		otel.Bool("gen_ai.request.stream", true),
	}
	if !r.Brief { // else the provider may get a lower one, see model.Config.Reasoning
		attrs = append(attrs, otel.Str("gen_ai.request.reasoning.level", r.Reasoning))
	}
	if u, err := url.Parse(info.Endpoint); err == nil && u.Hostname() != "" {
		port, _ := strconv.ParseInt(u.Port(), 10, 32)
		switch {
		case port == 0 && u.Scheme == "https":
			port = 443
		case port == 0:
			port = 80
		}
		attrs = append(attrs, otel.Str("server.address", u.Hostname()), otel.Int("server.port", port))
	}
	if r.MaxTokens > 0 {
		attrs = append(attrs, otel.Int("gen_ai.request.max_tokens", int64(r.MaxTokens)))
	}
	if r.Temperature != nil {
		attrs = append(attrs, otel.Float("gen_ai.request.temperature", *r.Temperature))
	}
	if len(r.Schema) > 0 {
		attrs = append(attrs, otel.Str("gen_ai.output.type", "json"))
	}
	return attrs
}

// Retries returns o with an event for each wait, and one for its end.
func Retries(o model.RetryOptions) model.RetryOptions {
	notice, goes := o.Notice, o.Goes
	o.Notice = func(ctx context.Context, r model.Retrying) {
		kind := model.KindRateLimit // rate limit of another process, known from the Gate
		if r.Err != nil {
			kind = r.Err.Kind
		}
		otel.Current(ctx).Event("jp.wait",
			otel.Int("jp.attempt", int64(r.Attempt)), otel.Str("error.type", string(kind)), otel.Float("jp.wait_seconds", r.Wait.Seconds()))
		if notice != nil {
			notice(ctx, r)
		}
	}
	o.Goes = func(ctx context.Context) {
		otel.Current(ctx).Event("jp.go_on")
		if goes != nil {
			goes(ctx)
		}
	}
	return o
}

// chat is one call.
type chat struct {
	span *otel.Span
	text strings.Builder
	said message         // reply; complete when the call has ended; only if content is recorded
	lost convstore.Usage // usage of attempts that failed
	stop model.Stop
	err  error
}

func (c *chat) hear(p model.Part, err error) {
	if err != nil {
		c.err = err
		return
	}
	if p.Stop != "" {
		c.stop = p.Stop
	}
	if p.Usage != nil {
		used(c.span, c.lost.Add(*p.Usage))
	}
	if !c.span.Capturing() {
		return
	}
	c.text.WriteString(p.Text)
	switch {
	case p.Reasoning != nil:
		c.flush()
		c.said.Parts = append(c.said.Parts, part{Type: "reasoning", Content: p.Reasoning.Text})
	case p.Call != nil:
		c.flush()
		c.said.Parts = append(c.said.Parts, callPart(*p.Call))
	}
}

// forget drops the reply of a failed attempt.
func (c *chat) forget(l model.Lost) {
	c.text.Reset()
	c.said.Parts = nil
	if l.Usage != nil {
		c.lost = c.lost.Add(*l.Usage)
	}
}

// flush turns the text so far into a part.
func (c *chat) flush() {
	if c.text.Len() > 0 {
		c.said.Parts = append(c.said.Parts, part{Type: "text", Content: c.text.String()})
		c.text.Reset()
	}
}

func (c *chat) end(ctx context.Context, r model.Request) {
	defer c.span.End()
	var e *model.Error
	switch {
	case errors.As(c.err, &e):
		c.span.Fail(string(e.Kind), e.Message)
		status(c.span, e.Status)
	case c.err != nil && errors.Is(c.err, context.DeadlineExceeded):
		c.span.Fail("timeout", c.err.Error())
	case c.err != nil && ctx.Err() != nil:
		c.span.Fail("cancelled", c.err.Error())
	case c.err != nil:
		c.span.Fail("error", c.err.Error())
	case c.stop == "":
		c.span.Fail("cut", "")
	default:
		c.said.Finish = finishReason(c.stop)
		c.span.Set(otel.Strs("gen_ai.response.finish_reasons", c.said.Finish))
	}
	if !c.span.Capturing() {
		return
	}
	c.flush()
	if c.said.Finish == "" {
		c.said.Finish = "error"
	}
	said(c.span, r, c.said)
}

// finishReason returns the conventions' word for a Stop.
func finishReason(s model.Stop) string {
	switch s {
	case model.StopToolUse:
		return "tool_call"
	case model.StopMaxTokens:
		return "length"
	case model.StopRefusal:
		return "content_filter"
	}
	return "stop"
}

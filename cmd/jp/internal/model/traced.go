package model

import (
	"context"
	"errors"
	"iter"
	"strings"

	"jp/cmd/jp/internal/otel"
	"jp/convstore"
)

// Traced returns s with a span for each call, all its attempts and waits included, where the context is traced.
func Traced(s Stream, info Info) Stream {
	return func(ctx context.Context, r Request) iter.Seq2[Part, error] {
		return func(yield func(Part, error) bool) {
			ctx, span := otel.StartChat(ctx, otel.Chat{
				Provider: info.Provider, Model: r.Model, Endpoint: info.Endpoint,
				MaxTokens: r.MaxTokens, Temperature: r.Temperature, Reasoning: r.Reasoning, JSON: len(r.Schema) > 0,
			})
			if span == nil {
				s(ctx, r)(yield)
				return
			}
			t := traced{span: span, said: otel.Message{Role: string(Assistant)}}
			defer t.end(ctx, r)
			asked := r.Anew(t.forget)
			asked.Named = span.Responded
			for p, err := range s(ctx, asked) {
				t.hear(p, err)
				if !yield(p, err) {
					return
				}
			}
		}
	}
}

// traced is one call.
type traced struct {
	span *otel.Span
	text strings.Builder
	said otel.Message    // complete when the call has ended, where content is captured
	lost convstore.Usage // by attempts that failed
	stop Stop
	err  error
}

func (t *traced) hear(p Part, err error) {
	if err != nil {
		t.err = err
		return
	}
	if p.Stop != "" {
		t.stop = p.Stop
	}
	if p.Usage != nil {
		u := t.lost.Add(*p.Usage)
		t.span.Used(otel.Usage{Input: u.Input, Output: u.Output, CacheRead: u.CacheRead, CacheWrite: u.CacheWrite})
	}
	if !t.span.Capturing() {
		return
	}
	t.text.WriteString(p.Text)
	switch {
	case p.Reasoning != nil:
		t.flush()
		t.said.Parts = append(t.said.Parts, otel.Part{Type: "reasoning", Content: p.Reasoning.Text})
	case p.Call != nil:
		t.flush()
		t.said.Parts = append(t.said.Parts, callPart(*p.Call))
	}
}

// forget drops what an attempt said that failed.
func (t *traced) forget(l Lost) {
	t.text.Reset()
	t.said.Parts = nil
	if l.Usage != nil {
		t.lost = t.lost.Add(*l.Usage)
	}
}

// flush makes a part of the text that came.
func (t *traced) flush() {
	if t.text.Len() > 0 {
		t.said.Parts = append(t.said.Parts, otel.Part{Type: "text", Content: t.text.String()})
		t.text.Reset()
	}
}

func (t *traced) end(ctx context.Context, r Request) {
	defer t.span.End()
	var e *Error
	switch {
	case errors.As(t.err, &e):
		t.span.Fail(string(e.Kind), e.Message)
		t.span.Status(e.Status)
	case t.err != nil && errors.Is(t.err, context.DeadlineExceeded):
		t.span.Fail("timeout", t.err.Error())
	case t.err != nil && ctx.Err() != nil:
		t.span.Fail("cancelled", t.err.Error())
	case t.err != nil:
		t.span.Fail("error", t.err.Error())
	case t.stop == "":
		t.span.Fail("cut", "")
	default:
		t.said.Finish = finishReason(t.stop)
		t.span.Finished(t.said.Finish)
	}
	if !t.span.Capturing() {
		return
	}
	t.flush()
	if t.said.Finish == "" {
		t.said.Finish = "error"
	}
	var system []string
	for _, s := range r.System {
		system = append(system, s.Text)
	}
	t.span.Said(system, threadMessages(r.Messages), &t.said)
}

// finishReason is a Stop in the words of the conventions.
func finishReason(s Stop) string {
	switch s {
	case StopToolUse:
		return "tool_call"
	case StopMaxTokens:
		return "length"
	case StopRefusal:
		return "content_filter"
	}
	return "stop"
}

// threadMessages is a thread in the form of the conventions. Of images only the type is told.
func threadMessages(thread []Message) []otel.Message {
	list := make([]otel.Message, len(thread))
	for i, m := range thread {
		list[i].Role = string(m.Role)
		for _, c := range m.Content {
			var p otel.Part
			switch {
			case c.Image != nil:
				p = otel.Part{Type: "image", MediaType: c.Image.MediaType}
			case c.Reasoning != nil:
				p = otel.Part{Type: "reasoning", Content: c.Reasoning.Text}
			case c.Call != nil:
				p = callPart(*c.Call)
			case c.Result != nil:
				p = otel.Part{Type: "tool_call_response", ID: c.Result.ID, Response: c.Result.Text}
			default:
				p = otel.Part{Type: "text", Content: c.Text}
			}
			list[i].Parts = append(list[i].Parts, p)
		}
	}
	return list
}

func callPart(c Call) otel.Part {
	return otel.Part{Type: "tool_call", ID: c.ID, Name: c.Name, Arguments: otel.Arguments(c.Arguments)}
}

package agent

import (
	"context"
	"errors"

	"jp/cmd/jp/internal/model"
	"jp/cmd/jp/internal/otel"
	"jp/convstore"
	"jp/tools"
)

// traced runs a turn in a span of its own, where the context is traced.
func (l *Loop) traced(ctx context.Context, turn func(context.Context) (Outcome, error)) (Outcome, error) {
	ctx, span := otel.InvokeAgent(ctx, otel.Agent{
		Name: l.Profile, Conversation: l.Log.ID().String(), Provider: l.Provider, Model: l.Name,
	})
	out, err := turn(ctx)
	out.Span = span
	if errors.Is(err, ErrNothingToResume) {
		return out, err // nothing was run
	}
	defer span.End()
	if err != nil {
		span.Fail("store", err.Error())
		return out, err
	}
	span.Turn(out.Turn)
	span.Used(otel.Usage{Input: out.Usage.Input, Output: out.Usage.Output, CacheRead: out.Usage.CacheRead, CacheWrite: out.Usage.CacheWrite})
	span.Cost(out.Cost)
	kind := string(out.State)
	var e *model.Error
	if errors.As(out.Err, &e) {
		kind = string(e.Kind)
		span.Status(e.Status)
	}
	if out.State != convstore.StateOK && out.State != convstore.StatePartial {
		span.Fail(kind, out.Reason)
	}
	span.State(string(out.State), out.Reason)
	return out, nil
}

// toolSpans are the spans of the calls of one reply, by call; empty where nothing is traced.
type toolSpans map[string]*otel.Span

// spans begins them.
func (t *turn) spans(ctx context.Context, calls []convstore.ToolCall) toolSpans {
	if otel.Current(ctx) == nil {
		return nil
	}
	spans := toolSpans{}
	for _, c := range calls {
		_, spans[c.ID] = otel.ExecuteTool(ctx, otel.Tool{
			Name: c.Name, Source: c.Source, Call: c.ID, Arguments: string(rawArguments(c.Arguments)),
		})
	}
	return spans
}

// within is the context that a call runs in.
func (s toolSpans) within(ctx context.Context, c tools.Call) context.Context {
	return otel.With(ctx, s[c.ID])
}

// end ends the span of a call.
func (s toolSpans) end(call string, r tools.Result) {
	s[call].Answered(r.Text, r.IsError, r.Refused)
	s[call].End()
}

// close ends those whose calls have no result.
func (s toolSpans) close() {
	for _, span := range s {
		span.Fail("interrupted", "")
		span.End()
	}
}

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

// toolSpan is tools.Executor.Around: a span for each call, where the context is traced.
func toolSpan(ctx context.Context, t tools.Tool, c tools.Call) (context.Context, func(tools.Result)) {
	if otel.Current(ctx) == nil {
		return ctx, func(tools.Result) {}
	}
	ctx, span := otel.ExecuteTool(ctx, otel.Tool{Name: c.Name, Source: t.Source, Call: c.ID, Arguments: string(c.Arguments)})
	return ctx, func(r tools.Result) {
		span.Answered(r.Text, r.IsError, r.Refused)
		span.End()
	}
}

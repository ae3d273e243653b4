// Package spans tells a collector what a run does: it watches the run from outside and builds spans of package otel. What it
// watches knows nothing of it.
//
//	Turn             around a turn of an agent.Loop      invoke_agent
//	Model            around a model.Stream               chat
//	Retries          in model.RetryOptions               events of chat: waits
//	Call, CallOf     as tools.Executor.Around            execute_tool
//	Follow           as delegate.Delegator.Follow        events of execute_tool: sub-agents, whose processes have spans of their own
//	Environ          in delegate.Delegator.Environ       puts these below the call
//	Batch            around jp batch                     invoke_workflow
//
// A span finds the one that it is below in its context. In a context that is not traced each of these does nothing but what it is
// around.
//
// The names are those of the semantic conventions for generative AI as they stood in 2026
// (github.com/open-telemetry/semantic-conventions-genai, status: development). What the conventions have no name for begins
// with "jp.", and says it in the words of `jp trace`. What people, models and tools say is content, and kept only where the
// environment asks for it.
package spans

import (
	"context"
	"errors"

	"jp/cmd/jp/internal/agent"
	"jp/cmd/jp/internal/delegate"
	"jp/cmd/jp/internal/model"
	"jp/cmd/jp/internal/otel"
	"jp/cmd/jp/internal/stream"
	"jp/cmd/jp/internal/wording"
	"jp/convstore"
	"jp/tools"
	"jp/tools/proc"
)

const keyState = "jp.state"

// Turn runs a turn of l in a span, and returns the span, which has ended: what is still done for the turn goes below it. All spans
// below it name its conversation and its agent. A turn that is not run because there is nothing to resume has no span that is sent.
func Turn(ctx context.Context, l *agent.Loop, run func(context.Context) (agent.Outcome, error)) (*otel.Span, agent.Outcome, error) {
	ctx, span := otel.Start(ctx, named("invoke_agent", l.Profile), otel.Internal,
		otel.Str("gen_ai.operation.name", "invoke_agent"), otel.Str("gen_ai.provider.name", provider(l.Provider)), otel.Str("gen_ai.request.model", l.Name))
	span.Share(conversation(l.Log.ID()), otel.Str("gen_ai.agent.name", l.Profile))
	out, err := run(ctx)
	switch {
	case errors.Is(err, agent.ErrNothingToResume):
		return span, out, err
	case err != nil:
		span.Fail("store", err.Error())
	default:
		ended(span, out)
	}
	span.End()
	return span, out, err
}

// ended says how a turn has ended.
func ended(span *otel.Span, out agent.Outcome) {
	span.Set(otel.Int("jp.turn", int64(out.Turn)))
	used(span, out.Usage)
	if out.Cost != nil {
		span.Set(cost(*out.Cost))
	}
	kind := string(out.State)
	var e *model.Error
	if errors.As(out.Err, &e) {
		kind = string(e.Kind)
		status(span, e.Status)
	}
	if !handedIn(out.State) {
		span.Fail(kind, out.Reason)
	}
	state(span, string(out.State), out.Reason)
}

// Batch begins the span of a batch from a shell, which caller is the conversation of. end is told how it has ended.
func Batch(ctx context.Context, caller convstore.ID) (_ context.Context, end func(convstore.TurnEnd)) {
	const name = "jp batch"
	ctx, span := otel.Start(ctx, named("invoke_workflow", name), otel.Internal,
		otel.Str("gen_ai.operation.name", "invoke_workflow"), otel.Str("gen_ai.workflow.name", name))
	span.Share(conversation(caller))
	return ctx, func(came convstore.TurnEnd) {
		if !handedIn(came.State) {
			span.Fail(string(came.State), came.Reason)
		}
		state(span, string(came.State), came.Reason)
		span.End()
	}
}

// Call begins the span of a call of a tool, and ends it with the result.
func Call(ctx context.Context, t tools.Tool, c tools.Call) (context.Context, func(tools.Result)) {
	if !otel.Traced(ctx) {
		return ctx, func(tools.Result) {}
	}
	ctx, span := otel.Start(ctx, named("execute_tool", c.Name), otel.Internal,
		otel.Str("gen_ai.operation.name", "execute_tool"), otel.Str("gen_ai.tool.name", c.Name), otel.Str("gen_ai.tool.type", "function"),
		otel.Str("gen_ai.tool.call.id", c.ID), otel.Str("jp.tool.source", t.Source))
	if span.Capturing() {
		span.Set(otel.Str("gen_ai.tool.call.arguments", shorten(string(c.Arguments))))
	}
	return ctx, func(r tools.Result) {
		if span.Capturing() {
			span.Set(otel.Str("gen_ai.tool.call.result", shorten(r.Text)))
		}
		came := "ok"
		if r.IsError {
			came = "error"
			span.Fail(wording.Either(r.Refused, "refused", "error"), shorten(r.Text))
		}
		state(span, came, "") // unless Follow has said more
		span.End()
	}
}

// CallOf is Call where no turn is around it: a client calls on behalf of a conversation.
func CallOf(id convstore.ID) func(context.Context, tools.Tool, tools.Call) (context.Context, func(tools.Result)) {
	return func(ctx context.Context, t tools.Tool, c tools.Call) (context.Context, func(tools.Result)) {
		ctx, told := Call(ctx, t, c)
		otel.Current(ctx).Share(conversation(id))
		return ctx, told
	}
}

// Follow says on the span of a call where its delegations are, and how it was answered. Of a sub-agent that was killed nothing else
// says so.
func Follow(ctx context.Context, s delegate.Step) {
	span := otel.Current(ctx)
	switch {
	case span == nil:
	case s.Refusal != nil:
		span.Fail("refused", s.Refusal.Text)
		span.Set(otel.Str("jp.refused", string(s.Refusal.Code)))
	case s.Phase == delegate.Answered:
		if !handedIn(s.State) {
			span.Fail(string(s.State), s.Reason)
		}
		state(span, string(s.State), s.Reason)
	default:
		attrs := []otel.Attr{
			otel.Str("jp.delegation.conversation.id", s.Child.String()), otel.Str("jp.delegation.profile", s.Profile), otel.Str("jp.delegation.model", s.Model),
		}
		if s.PID != 0 {
			attrs = append(attrs, otel.Int("process.pid", int64(s.PID)))
		}
		if s.Phase == stream.Ended {
			attrs = append(attrs, otel.Str(keyState, string(s.State)), otel.Int("jp.tokens", s.Total.Tokens()))
			if span.Capturing() {
				attrs = append(attrs, otel.Str("jp.reason", shorten(s.Reason)))
			}
			if nano := s.Total.Cost(); nano != nil {
				attrs = append(attrs, cost(*nano))
			}
		}
		span.Event("jp.delegation."+s.Phase, attrs...)
	}
}

// Environ is the environment of a sub-agent whose spans are below that of the call.
func Environ(ctx context.Context, env []string) []string {
	span := otel.Current(ctx)
	if span == nil {
		return env
	}
	return proc.Environ(env, append([]string{"*"}, span.Environ()...)...)
}

// state is how a span ended, in jp's words. The reason may be somebody else's words, and is content. Of several calls the first
// counts.
func state(span *otel.Span, state, reason string) {
	span.Add(otel.Str(keyState, state))
	if span.Capturing() {
		span.Add(otel.Str("jp.reason", shorten(reason)))
	}
}

func handedIn(s convstore.State) bool { return s == convstore.StateOK || s == convstore.StatePartial }

func conversation(id convstore.ID) otel.Attr { return otel.Str("gen_ai.conversation.id", id.String()) }

// cost is one in nano-dollars.
func cost(nano int64) otel.Attr { return otel.Float("jp.cost_usd", float64(nano)/1e9) }

// status is that of the HTTP response that span failed with; 0 = none.
func status(span *otel.Span, code int) {
	if code != 0 {
		span.Set(otel.Int("http.response.status_code", int64(code)))
	}
}

// used says what span has used. The conventions count all input as input.
func used(span *otel.Span, u convstore.Usage) {
	span.Set(otel.Int("gen_ai.usage.input_tokens", u.Input+u.CacheRead+u.CacheWrite), otel.Int("gen_ai.usage.output_tokens", u.Output))
	if u.CacheRead > 0 {
		span.Set(otel.Int("gen_ai.usage.cache_read.input_tokens", u.CacheRead))
	}
	if u.CacheWrite > 0 {
		span.Set(otel.Int("gen_ai.usage.cache_write.input_tokens", u.CacheWrite))
	}
}

// named is the name of a span: the operation and what it is of.
func named(operation, of string) string {
	if of == "" {
		return operation
	}
	return operation + " " + of
}

// provider is the conventions' name of a provider, its own where they have none.
func provider(name string) string {
	switch name {
	case "gemini":
		return "gcp.gemini"
	case "mistral":
		return "mistral_ai"
	case "xai":
		return "x_ai"
	case "moonshot":
		return "moonshot_ai"
	}
	return name
}

// Package spans reports to a collector what a run does. It watches the run from outside and builds
// spans of package otel. The packages that it watches do not know it.
//
//	Turn             around a turn of an agent.Loop      invoke_agent
//	Model            around a model.Stream               chat
//	Retries          in model.RetryOptions               events of chat: waits
//	Call, CallOf     as tools.Executor.Around            execute_tool
//	Follow           as delegate.Options.Follow          events of execute_tool: sub-agents
//	Environ          in delegate.Options.Environ         puts the spans of a sub-agent below the call
//	Batch            around jp batch                     invoke_workflow
//
// The process of a sub-agent makes its own spans. A span finds its parent in its context. In a
// context without a trace, these functions make no spans.
//
// The names are those of the semantic conventions for generative AI as they stood in 2026
// (github.com/open-telemetry/semantic-conventions-genai, status: development). Names that the
// conventions do not have begin with "jp." and use the words of `jp trace`. Texts of people, models
// and tools are content, which is recorded only if the environment asks for it.
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

// Turn runs a turn of l in a span and returns the ended span, so that later work for the turn can
// go below it. All spans below it name its conversation and its agent. If there is nothing to
// resume, no span is sent.
func Turn(ctx context.Context, l *agent.Loop, run func(context.Context) (agent.Outcome, error)) (*otel.Span, agent.Outcome, error) {
	ctx, span := otel.Start(ctx, named("invoke_agent", l.Profile), otel.Internal,
		otel.Str("gen_ai.operation.name", "invoke_agent"), otel.Str("gen_ai.provider.name", provider(l.Models[0].Provider)), otel.Str("gen_ai.request.model", l.Models[0].Name))
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

// ended records how a turn has ended.
func ended(span *otel.Span, out agent.Outcome) {
	span.Set(otel.Int("jp.turn", int64(out.Turn)))
	used(span, out.Usage)
	if out.Cost != nil {
		span.Set(cost(*out.Cost))
	}
	kind := string(out.State)
	if e, ok := errors.AsType[*model.Error](out.Err); ok {
		kind = string(e.Kind)
		status(span, e.Status)
	}
	if !handedIn(out.State) {
		span.Fail(kind, out.Reason)
	}
	state(span, string(out.State), out.Reason)
}

// Batch begins the span of a batch from a shell; caller is the conversation of the batch. Call end
// with the way in which it ended.
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
		state(span, came, "") // unless Follow has recorded more
		span.End()
	}
}

// CallOf is Call without a turn around it: a client calls on behalf of a conversation.
func CallOf(id convstore.ID) func(context.Context, tools.Tool, tools.Call) (context.Context, func(tools.Result)) {
	return func(ctx context.Context, t tools.Tool, c tools.Call) (context.Context, func(tools.Result)) {
		ctx, end := Call(ctx, t, c)
		otel.Current(ctx).Share(conversation(id))
		return ctx, end
	}
}

// Follow records on the span of a call which conversations it delegated, and how it was answered.
// For a sub-agent that was killed this is the only record.
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
		if s.Host != "" {
			attrs = append(attrs, otel.Str("host.name", s.Host))
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

// Trace returns the variables that put the spans of another process below the call of ctx, nil
// where nothing is traced.
func Trace(ctx context.Context) []string { return otel.Current(ctx).Environ() }

// Environ returns the environment of a sub-agent whose spans are below that of the call.
func Environ(ctx context.Context, env []string) []string {
	span := otel.Current(ctx)
	if span == nil {
		return env
	}
	return proc.Environ(env, append([]string{"*"}, span.Environ()...)...)
}

// state records how a span ended, in jp's words. The reason may be a text of a model or tool, so it
// is content. If it is called several times, the first call counts.
func state(span *otel.Span, state, reason string) {
	span.Add(otel.Str(keyState, state))
	if span.Capturing() {
		span.Add(otel.Str("jp.reason", shorten(reason)))
	}
}

// handedIn reports whether a run with this end handed in a result.
func handedIn(s convstore.State) bool { return s == convstore.StateOK || s == convstore.StatePartial }

func conversation(id convstore.ID) otel.Attr { return otel.Str("gen_ai.conversation.id", id.String()) }

// cost returns a cost in nano-dollars.
func cost(nano int64) otel.Attr { return otel.Float("jp.cost_usd", float64(nano)/1e9) }

// status returns the status of the HTTP response that the span failed with; 0 = none.
func status(span *otel.Span, code int) {
	if code != 0 {
		span.Set(otel.Int("http.response.status_code", int64(code)))
	}
}

// used records the usage of span. The conventions count cached input as input too.
func used(span *otel.Span, u convstore.Usage) {
	span.Set(otel.Int("gen_ai.usage.input_tokens", u.Input+u.CacheRead+u.CacheWrite), otel.Int("gen_ai.usage.output_tokens", u.Output))
	if u.CacheRead > 0 {
		span.Set(otel.Int("gen_ai.usage.cache_read.input_tokens", u.CacheRead))
	}
	if u.CacheWrite > 0 {
		span.Set(otel.Int("gen_ai.usage.cache_write.input_tokens", u.CacheWrite))
	}
}

// named returns the name of a span: the operation and its object.
func named(operation, of string) string {
	if of == "" {
		return operation
	}
	return operation + " " + of
}

// provider returns the conventions' name of a provider, or its own name if they have none.
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

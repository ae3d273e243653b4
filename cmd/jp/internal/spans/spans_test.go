package spans

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
	"testing"

	"jp/cmd/jp/internal/delegate"
	"jp/cmd/jp/internal/model"
	"jp/cmd/jp/internal/otel"
	"jp/cmd/jp/internal/stream"
	"jp/cmd/jp/internal/test/otlp"
	"jp/convstore"
	"jp/tools"
)

// TestUntraced: without a trace no span is made and no memory is allocated.
func TestUntraced(t *testing.T) {
	asked := 0
	s := Model(func(_ context.Context, r model.Request) iter.Seq2[model.Part, error] {
		if asked++; r.Named != nil || r.Waits != nil {
			t.Error("the request is not the one that was made")
		}
		return func(yield func(model.Part, error) bool) { yield(model.Part{Stop: model.StopEnd}, nil) }
	}, model.Info{})
	for p, err := range s(t.Context(), model.Request{}) {
		if p.Stop != model.StopEnd || err != nil {
			t.Errorf("part = %+v, %v", p, err)
		}
	}
	ctx, end := Call(t.Context(), tools.Tool{}, tools.Call{ID: "1", Arguments: json.RawMessage(strings.Repeat("x", 100))})
	end(tools.Result{})
	Follow(ctx, delegate.Step{Phase: delegate.Answered})
	if n := testing.AllocsPerRun(100, func() { Call(ctx, tools.Tool{}, tools.Call{ID: "1", Name: "t"}) }); n != 0 {
		t.Errorf("a call allocates %v times", n)
	}
	env := []string{"A=b"}
	if asked != 1 || otel.Current(ctx) != nil || !slices.Equal(Environ(ctx, env), env) {
		t.Errorf("asked %d times, span %v, environment %q", asked, otel.Current(ctx), Environ(ctx, env))
	}
}

// TestFollowBatch: the span of a call says of all tasks of a batch how they ended.
func TestFollowBatch(t *testing.T) {
	c := otlp.New(nil)
	defer c.Close()
	vars := map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": c.URL}
	tracer := &otel.Tracer{Env: func(name string) string { return vars[name] }, Warn: func(text string) { t.Error(text) }}
	ctx, end := Call(tracer.Into(t.Context()), tools.Tool{}, tools.Call{ID: "1", Name: "jp_batch_query"})
	const tasks = 100 // see tools/jp_batch_query.toml
	for _, phase := range []string{stream.Queued, stream.Started, stream.Ended} {
		for i := range tasks {
			Follow(ctx, delegate.Step{Phase: phase, Delegation: convstore.Delegation{Child: convstore.ID(i + 1)}})
		}
	}
	end(tools.Result{})
	if err := tracer.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	n := map[string]int{}
	for _, e := range c.Spans()[0].Events {
		n[e.Name]++
	}
	if want := (map[string]int{"jp.delegation.queued": tasks, "jp.delegation.started": tasks, "jp.delegation.ended": tasks}); !maps.Equal(n, want) {
		t.Errorf("events = %v, want %v", n, want)
	}
}

// TestContentBounds: long texts are cut, the oldest messages of a thread and the last parts of a
// message are left out, and what is left is JSON.
func TestContentBounds(t *testing.T) {
	c := otlp.New(nil)
	defer c.Close()
	vars := map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": c.URL, "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT": "true"}
	tracer := &otel.Tracer{Env: func(name string) string { return vars[name] }, Warn: func(text string) { t.Error(text) }}
	s := Model(func(_ context.Context, r model.Request) iter.Seq2[model.Part, error] {
		return func(yield func(model.Part, error) bool) {
			for i := range 10 {
				call := model.Call{ID: fmt.Sprint(i), Name: "t", Arguments: json.RawMessage("{" + strings.Repeat("é", 6000))}
				if !yield(model.Part{Call: &call}, nil) {
					return
				}
			}
			yield(model.Part{Stop: model.StopToolUse}, nil)
		}
	}, model.Info{})
	thread := []model.Message{{Role: model.User, Content: []model.Content{{Text: "first"}}}}
	for range 9 {
		thread = append(thread, model.Message{Role: model.ToolRole, Content: []model.Content{{Result: &model.CallResult{ID: "a", Text: strings.Repeat("y", 10_000)}}}})
	}
	for _, err := range s(tracer.Into(t.Context()), model.Request{Messages: thread, System: []model.Section{{Text: "be brief"}}}) {
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := tracer.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	attrs := c.Spans()[0].Attrs
	messages := func(key string) (list []message) {
		text := fmt.Sprint(attrs[key])
		if err := json.Unmarshal([]byte(text), &list); err != nil || len(text) > maxContent {
			t.Errorf("%s: %d bytes, %v", key, len(text), err)
		}
		return list
	}
	in, out := messages("gen_ai.input.messages"), messages("gen_ai.output.messages")
	if left := attrs["jp.left_out_messages"]; left != int64(10-len(in)) || len(in) != 5 {
		t.Errorf("%d messages of 10, and %v left out, want 5 and 5", len(in), left)
	}
	if got, want := in[len(in)-1].Parts[0].Response, strings.Repeat("y", maxPiece)+"\n[cut: 10000 bytes]"; got != want {
		t.Errorf("a result ends with %q", got[len(got)-40:])
	}
	parts := out[0].Parts
	last := parts[len(parts)-1].Content
	if last != fmt.Sprintf("[left out: %d parts]", 10-len(parts)+1) || len(parts) < 3 {
		t.Errorf("%d parts, the last is %q", len(parts), last)
	}
	if got, _ := parts[0].Arguments.(string); !strings.HasSuffix(got, "é\n[cut: 12001 bytes]") {
		t.Errorf("arguments that are not JSON end with %q", got[max(0, len(got)-40):])
	}
	if got := attrs["gen_ai.system_instructions"]; got != `[{"type":"text","content":"be brief"}]` {
		t.Errorf("instructions = %v", got)
	}
}

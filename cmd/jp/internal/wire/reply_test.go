package wire

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"jp/cmd/jp/internal/call"
	"jp/cmd/jp/internal/model"
	"jp/convstore"
	"jp/tools"
)

// ones is a list with about so many values.
func ones(n int) json.RawMessage { return json.RawMessage("[1" + strings.Repeat(",1", n-1) + "]") }

// TestWholeReply: what a model may reply, a sub-agent can store and carry out.
func TestWholeReply(t *testing.T) {
	large := json.RawMessage(`"` + strings.Repeat("x", 1<<20-100) + `"`)
	for name, parts := range map[string][]model.Part{
		"values":    {{Call: &model.Call{Arguments: ones(model.MaxValues - 64)}}},
		"thought":   {{Reasoning: &model.Reasoning{Opaque: ones(model.MaxValues - 64)}}, {Call: &model.Call{Arguments: ones(1)}}},
		"arguments": slices.Repeat([]model.Part{{Call: &model.Call{Arguments: large}}}, MaxReply>>20),
		"calls":     slices.Repeat([]model.Part{{Call: &model.Call{Arguments: ones(1)}}}, model.MaxCalls),
	} {
		t.Run(name, func(t *testing.T) {
			bodies, calls := []convstore.Body{convstore.TurnStart{}}, 0
			for p, err := range model.Limit(says(nil, append(parts, model.Part{Stop: model.StopToolUse})...), model.LimitOptions{MaxBytes: MaxReply})(t.Context(), model.Request{}) {
				no(t, err)
				switch {
				case p.Reasoning != nil:
					bodies = append(bodies, convstore.Reasoning{Opaque: p.Reasoning.Opaque})
				case p.Call != nil:
					bodies = append(bodies, convstore.ToolCall{ID: fmt.Sprint("c", calls), Name: "echo", Arguments: p.Call.Arguments})
					calls++
				}
			}
			f := newFamily(t, convstore.Budget{})
			var began atomic.Int64
			all := make(chan struct{})
			l := serve(t, f.serving(func(ctx context.Context, _ tools.Call) tools.Result {
				if began.Add(1) == int64(calls) {
					close(all)
				}
				<-ctx.Done()
				return tools.Result{IsError: true}
			}))
			c := l.join()
			no(t, c.Append(t.Context(), at("e", bodies...)...))
			ctx, cancel := context.WithCancelCause(t.Context())
			stopped := errors.New("stopped")
			var running sync.WaitGroup
			for i := range calls {
				running.Go(func() {
					if _, err := c.Serve(ctx, tools.Call{ID: fmt.Sprint("c", i), Name: "echo"}); err != stopped {
						t.Errorf("call %d: %v", i, err)
					}
				})
			}
			select {
			case <-all: // and more can be asked beside them
				no(t, c.Append(t.Context(), at("n", convstore.Note{Kind: "n", Text: "n"})...))
			case err := <-l.ended:
				t.Error(err)
			}
			cancel(stopped)
			running.Wait()
		})
	}
}

// TestLongThoughts continues a sub-agent whose replies before had long thoughts: its first request
// has them all.
func TestLongThoughts(t *testing.T) {
	f := newFamily(t, convstore.Budget{})
	var got model.Request
	c := serve(t, f.modelled(func(ctx context.Context, r model.Request) iter.Seq2[model.Part, error] {
		got = r
		return says(nil, model.Part{Text: "a"}, model.Part{Stop: model.StopEnd})(ctx, r)
	}, nil)).join()
	no(t, c.Begin(t.Context(), func(convstore.Account) *convstore.Call {
		return &convstore.Call{Model: "m/child", Usage: convstore.Usage{Input: 1 << 30, Output: 32 << 10}}
	}, at("e", convstore.TurnStart{})...))
	thought := model.Message{Role: model.Assistant, Content: []model.Content{{Reasoning: &model.Reasoning{Opaque: ones(150_000)}}, {Text: "a"}}}
	thread := append(slices.Repeat([]model.Message{thought}, 8), model.Message{Role: model.User, Content: []model.Content{{Text: "q"}}})
	if text, _, err := hear(c.Ask(t.Context(), model.Request{Messages: thread})); err != nil || text != "a" {
		t.Fatalf("Ask = %q, %v", text, err)
	}
	if len(got.Messages) != len(thread) || string(got.Messages[7].Content[0].Reasoning.Opaque) != string(ones(150_000)) {
		t.Errorf("the model got %d messages", len(got.Messages))
	}
}

// TestManyCommands: more commands of tools than the owner carries out at the same time wait in the
// sub-agent.
func TestManyCommands(t *testing.T) {
	f := newFamily(t, convstore.Budget{})
	var began atomic.Int64
	all := make(chan struct{})
	c := serve(t, f.owner(&fake{command: func(context.Context, Command, call.Request) (int, error) {
		if began.Add(1) == call.Lines {
			close(all)
		}
		<-all
		return 0, nil
	}})).join()
	no(t, c.Append(t.Context(), at("e", convstore.TurnStart{}, convstore.ToolCall{ID: "c1", Name: "tool"})...))
	var running sync.WaitGroup
	for range 2 * maxOpen {
		running.Go(func() {
			_, err := c.Command(t.Context(), Command{Tool: "tool", Call: "c1"}, call.Request{Stdout: &strings.Builder{}, Stderr: &strings.Builder{}})
			no(t, err)
		})
	}
	running.Wait()
	ctx, cancel := context.WithCancelCause(t.Context())
	stopped := errors.New("stopped")
	cancel(stopped)
	for range call.Lines {
		c.commands <- struct{}{}
	}
	if _, err := c.Command(ctx, Command{Tool: "tool", Call: "c1"}, call.Request{}); err != stopped {
		t.Errorf("a command that is stopped while it waits = %v", err)
	}
}

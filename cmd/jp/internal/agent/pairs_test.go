package agent

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"strings"
	"testing"

	"jp/cmd/jp/internal/model"
	"jp/convstore"
)

// TestPairs: calls of one id are sent under ids of their own, each with its result.
func TestPairs(t *testing.T) {
	call := func(id string) convstore.Body {
		return convstore.ToolCall{ID: id, Name: "echo", Arguments: json.RawMessage("{}")}
	}
	result := func(id, text string) convstore.Body { return convstore.ToolResult{ID: id, Text: text} }
	ask := []convstore.Body{convstore.TurnStart{}, convstore.UserMessage{Text: "q"}}
	for _, test := range []struct {
		name   string
		bodies []convstore.Body
		want   string
	}{
		{"one each", []convstore.Body{call("a"), call("b"), result("b", "B"), result("a", "A")}, "a=A b=B"},
		{"none", []convstore.Body{call("a")}, "a=error"},
		{"a result before its call", []convstore.Body{result("a", "A"), call("a")}, "a=A"},
		{"in one reply", []convstore.Body{call("a"), call("a"), call("b"), result("a", "1"), result("b", "B"), result("a", "2")}, "a=1 a-2=2 b=B"},
		{"in each reply", []convstore.Body{call("0"), result("0", "1"), call("0"), result("0", "2"), call("0"), result("0", "3")}, "0=1 0-2=2 0-3=3"},
		{"the first without a result", append([]convstore.Body{call("0"), convstore.AssistantMessage{}, convstore.TurnEnd{}}, append(ask, call("0"), result("0", "2"))...), "0=error 0-2=2"},
		{"no id", []convstore.Body{call(""), call(""), result("", "1"), result("", "2")}, "-2=1 -3=2"},
		{"an id that is taken", []convstore.Body{call("a"), call("a"), call("a-2"), call("a-2"), result("a", "1"), result("a", "2"), result("a-2", "3"), result("a-2", "4")}, "a=1 a-3=2 a-2=3 a-2-2=4"},
	} {
		var events []convstore.Event
		for _, b := range append(append([]convstore.Body{}, ask...), test.bodies...) {
			events = append(events, convstore.Event{Turn: 1, Body: b})
		}
		msgs := Thread(append(events, convstore.Event{Body: convstore.UserMessage{Text: "and?"}}), "")
		if err := (model.Request{Model: "m", Messages: msgs}).Check(); err != nil {
			t.Errorf("%s: %v", test.name, err)
		}
		var got []string
		for _, m := range msgs {
			for _, c := range m.Content {
				if c.Result != nil {
					text, _, _ := strings.Cut(c.Result.Text, ":")
					got = append(got, c.Result.ID+"="+text)
				}
			}
		}
		if s := strings.Join(got, " "); s != test.want {
			t.Errorf("%s: %s, want %s", test.name, s, test.want)
		}
	}
}

// TestSharedIDsStay: a compaction names results by the ids of their calls, so of calls that share one,
// as an import may bring them, no result is left out: a turn that stays whole would lose its own.
func TestSharedIDsStay(t *testing.T) {
	r := newRun(t, "[[rule]]\ntext = \"x\"\n")
	k := r.loop.newTurn(&history{log: r.loop.Log}, nil).compactor
	add := func(turn int, bodies ...convstore.Body) {
		for _, b := range bodies {
			k.history.events = append(k.history.events, convstore.Event{Turn: turn, Body: b})
		}
	}
	for turn := range 3 {
		add(turn+1, convstore.TurnStart{}, convstore.UserMessage{Text: "q"})
		for _, id := range []string{"0", fmt.Sprint("own", turn)} {
			add(turn+1, convstore.ToolCall{ID: id, Name: "echo", Arguments: json.RawMessage("{}")}, convstore.ToolResult{ID: id, Text: strings.Repeat("x", stubLeast)})
		}
		add(turn+1, convstore.AssistantMessage{Text: "a"}, convstore.TurnEnd{State: convstore.StateOK})
	}
	if got, want := fmt.Sprint(k.old(window(k.history.events, 1))), "[own0]"; got != want { // but for the last two turns
		t.Errorf("old() = %s, want %s", got, want)
	}
	add(3, convstore.Compaction{Results: []string{"0", "own0"}})
	var left []string
	for _, m := range Thread(k.history.events, "") {
		for _, c := range m.Content {
			if c.Result != nil && len(c.Result.Text) < stubLeast {
				left = append(left, c.Result.ID)
			}
		}
	}
	if got := fmt.Sprint(left); got != "[own0]" {
		t.Errorf("left out: %s, want only own0", got)
	}
}

// TestCallIDsOfAllTurns: a server that counts the ids of calls anew gets another id for one that a
// turn has which it is not sent.
func TestCallIDsOfAllTurns(t *testing.T) {
	r := newRun(t, `[[rule]]
text = "done"
`)
	r.loop.Window = 1
	end := r.loop.Models[0].Ask
	r.loop.Models[0].Ask = func(ctx context.Context, req model.Request) iter.Seq2[model.Part, error] {
		if req.Round > 1 {
			return end(ctx, req)
		}
		return func(yield func(model.Part, error) bool) {
			calls := model.NewCalls(req)
			calls.Add("call_0", "echo", []byte(`{"say":"x"}`))
			list, stop := calls.Finish(model.StopToolUse)
			_ = yield(model.Part{Call: list[0]}, nil) && yield(model.Part{Stop: stop}, nil)
		}
	}
	for i := range 3 {
		r.send(t.Context(), fmt.Sprint("turn ", i))
	}
	ids := map[string]bool{}
	for ev, err := range r.store.Events(t.Context(), r.id, convstore.Range{}) {
		if err != nil {
			t.Fatal(err)
		}
		if c, ok := ev.Body.(convstore.ToolCall); ok {
			ids[c.ID] = true
		}
	}
	if len(ids) != 3 || !ids["call_0"] {
		t.Errorf("ids of the calls of three turns: %v", ids)
	}
}

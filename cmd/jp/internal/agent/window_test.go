package agent

import (
	"context"
	"fmt"
	"iter"
	"strings"
	"testing"

	"jp/cmd/jp/internal/model"
	"jp/convstore"
)

func TestWindow(t *testing.T) {
	var events []convstore.Event
	add := func(bodies ...convstore.Body) {
		for _, b := range bodies {
			events = append(events, convstore.Event{Body: b})
		}
	}
	add(convstore.Note{Kind: "x"})
	for i := 1; i <= 4; i++ {
		id := fmt.Sprint("c", i)
		add(convstore.TurnStart{}, convstore.UserMessage{Text: fmt.Sprint("q", i)}, convstore.ToolCall{ID: id, Name: "echo", Arguments: []byte(`{}`)},
			convstore.ModelCall{}, convstore.ToolResult{ID: id, Text: fmt.Sprint("r", i)}, convstore.AssistantMessage{Text: fmt.Sprint("a", i)})
		if i < 4 {
			add(convstore.TurnEnd{State: convstore.StateOK})
		}
	}
	for n, want := range map[int]string{
		0: "q1 r1 a1 q2 r2 a2 q3 r3 a3 q4 r4 a4", -1: "q1 r1 a1 q2 r2 a2 q3 r3 a3 q4 r4 a4",
		1: "q3 r3 a3 q4 r4 a4", 2: "q2 r2 a2 q3 r3 a3 q4 r4 a4", 3: "q1 r1 a1 q2 r2 a2 q3 r3 a3 q4 r4 a4", 9: "q1 r1 a1 q2 r2 a2 q3 r3 a3 q4 r4 a4",
	} {
		var got []string
		for _, m := range choose(events, n).thread("p") {
			for _, c := range m.Content {
				switch {
				case c.Result != nil:
					got = append(got, c.Result.Text)
				case c.Text != "":
					got = append(got, c.Text)
				}
			}
		}
		if got := strings.Join(got, " "); got != want {
			t.Errorf("window %d sends %q, want %q", n, got, want)
		}
	}
	if got := window(nil, 1); got != 0 {
		t.Errorf("window of nothing begins at %v", got)
	}
}

// TestLoopWindow: what is left out of the thread is not lost, and the present turn is always sent
// whole.
func TestLoopWindow(t *testing.T) {
	r := newRun(t, `
[[rule]]
query = "tool"
round = 1
tool_calls = [{ name = "echo", arguments = { say = "x" } }]
[[rule]]
text = "sees {{n}}"
captures = { n = { pattern = 'turn [0-9]', match = 1 } }
`)
	var sent []int
	ask := r.loop.Models[0].Ask
	r.loop.Models[0].Ask = func(ctx context.Context, req model.Request) iter.Seq2[model.Part, error] {
		sent = append(sent, len(req.Messages))
		return ask(ctx, req)
	}
	r.loop.Window = 1
	for i := 1; i <= 3; i++ {
		out := r.send(t.Context(), fmt.Sprintf("turn %d", i))
		if want := fmt.Sprintf("sees turn %d", max(1, i-1)); out.Text != want {
			t.Errorf("turn %d: %q, want %q", i, out.Text, want)
		}
	}
	r.send(t.Context(), "turn 4 with a tool")
	if got, want := fmt.Sprint(sent), "[1 3 3 3 5]"; got != want {
		t.Errorf("messages sent = %s, want %s", got, want)
	}
}

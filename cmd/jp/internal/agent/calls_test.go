package agent

import (
	"context"
	"slices"
	"testing"

	"jp/convstore"
)

// steps is a Log that remembers what was stored together, and how.
type steps struct {
	Log
	seen []string
}

func (s *steps) add(how string, events []convstore.Event) {
	for _, ev := range events {
		if _, ok := ev.Body.(convstore.ToolResult); ok {
			how += " result"
		}
	}
	s.seen = append(s.seen, how)
}

func (s *steps) Append(ctx context.Context, events ...convstore.Event) error {
	s.add("append", events)
	return s.Log.Append(ctx, events...)
}

func (s *steps) Begin(ctx context.Context, bound func(convstore.Account) *convstore.Call, events ...convstore.Event) error {
	s.add("begin", events)
	return s.Log.Begin(ctx, bound, events...)
}

// TestLastResultsComeWithTheNextCall: the results that the model waits for are stored in the
// transaction that begins its next call, and there is none for them alone.
func TestLastResultsComeWithTheNextCall(t *testing.T) {
	r := newRun(t, `
[[rule]]
round = 1
tool_calls = [{ name = "echo", arguments = { say = "a" } }]
[[rule]]
round = 2
text = "It says a."
`)
	log := &steps{Log: r.log}
	r.loop.Log = log
	r.send(t.Context(), "what does it say?")
	if want := []string{"begin", "append", "begin result", "append"}; !slices.Equal(log.seen, want) {
		t.Errorf("stored %q, want %q", log.seen, want)
	}
}

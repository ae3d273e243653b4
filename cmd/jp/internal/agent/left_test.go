package agent

import (
	"context"
	"fmt"
	"iter"
	"reflect"
	"slices"
	"strings"
	"testing"

	"jp/cmd/jp/internal/model"
	"jp/convstore"
)

func TestTeller(t *testing.T) {
	amount := func(tokens, cost int64) (b convstore.Budget) { // negative = unlimited
		if tokens >= 0 {
			b.Tokens = &tokens
		}
		if cost >= 0 {
			b.CostNano = &cost
		}
		return b
	}
	none := amount(-1, -1)
	for _, test := range []struct {
		name            string
		left, of        convstore.Budget
		free, subs      convstore.Budget
		told            convstore.Budget
		delegates, want string
	}{
		{name: "no limit"},
		{name: "tokens", left: amount(900, -1), of: amount(1000, -1), want: "[budget left: 900 of 1000 tokens]"},
		{name: "not yet half", left: amount(451, -1), of: amount(1000, -1), told: amount(900, -1)},
		{name: "half", left: amount(450, -1), of: amount(1000, -1), told: amount(900, -1), want: "[budget left: 450 of 1000 tokens]"},
		{name: "one token", left: amount(0, -1), of: amount(1, -1), told: amount(1, -1), want: "[budget left: 0 of 1 tokens]"},
		{name: "less than nothing", left: convstore.Budget{Tokens: new(int64(-7))}, of: amount(9, -1), want: "[budget left: 0 of 9 tokens]"},
		{name: "money", left: amount(-1, 6e8), of: amount(-1, 1e9)},
		{name: "half of the money", left: amount(-1, 5e8), of: amount(-1, 1e9), want: "[budget left: 0.5 of 1 USD]"},
		{name: "exact money", left: amount(-1, 12_345_600), of: amount(-1, 123_456_789_000), want: "[budget left: 0.0123456 of 123.456789 USD]"},
		{name: "both", left: amount(90, 9e8), of: amount(100, 1e9), want: "[budget left: 90 of 100 tokens, 0.9 of 1 USD]"},
		{name: "of sub-agents", left: none, of: none, free: amount(90, -1), subs: amount(100, -1), delegates: "yes", want: "[budget left for sub-agents: 90 of 100 tokens]"},
		{name: "of sub-agents, without any", left: none, of: none, free: amount(90, -1), subs: amount(100, -1)},
	} {
		tell := teller{on: true, subs: test.delegates != "", told: test.told}
		if got, told := tell.due(convstore.Account{Left: test.left, Limit: test.of, Free: test.free, Subs: test.subs}); got != test.want || got != "" && told == (convstore.Budget{}) {
			t.Errorf("%s: %q, want %q", test.name, got, test.want)
		}
	}
}

// TestLeftKeepsThePrefix: what the model is told is beside the latest results, and each request
// begins with the whole one before it, also where a turn is resumed and in the next turn.
func TestLeftKeepsThePrefix(t *testing.T) {
	r := newRun(t, `
[[rule]]
round = [1, 2, 3, 4]
tool_calls = [{ name = "echo", arguments = { say = "a" } }]
usage = { input = 1500, output = 10 }
[[rule]]
text = "done"
`)
	tokens := int64(10_000)
	r.loop.Limits = &convstore.Limits{Run: convstore.Budget{Tokens: &tokens}}
	ask := r.loop.Models[0].Ask
	var told []string
	var last []model.Message
	r.loop.Models[0].Ask = func(ctx context.Context, req model.Request) iter.Seq2[model.Part, error] {
		if n := len(last); n > 0 && (n > len(req.Messages) || !reflect.DeepEqual(last, req.Messages[:n])) {
			t.Errorf("the request begins otherwise than the one before:\n%+v\n%+v", last, req.Messages)
		}
		last = slices.Clone(req.Messages)
		text := ""
		for _, c := range req.Messages[len(req.Messages)-1].Content {
			text += c.Text + "|"
			if c.Result != nil {
				text += c.Result.Text
			}
		}
		told = append(told, strings.ReplaceAll(text, "\n", "/"))
		return ask(ctx, req)
	}
	r.send(t.Context(), "what?")
	r.send(t.Context(), "and?")
	want := []string{
		"[budget left: 10000 of 10000 tokens]|what?|", "|echo a", "|echo a", "|echo a", "|echo a//[budget left: 3960 of 10000 tokens]",
		"[budget left: 10000 of 10000 tokens]|and?|", "|echo a", "|echo a", "|echo a", "|echo a//[budget left: 3960 of 10000 tokens]",
	}
	if fmt.Sprint(told) != fmt.Sprint(want) {
		t.Errorf("told %q, want %q", told, want)
	}
	notes := 0
	for ev, err := range r.store.Events(t.Context(), r.id, convstore.Range{}) {
		if n, ok := ev.Body.(convstore.Note); err == nil && ok && n.Kind == NoteLeft {
			notes++
		}
	}
	if notes != 4 {
		t.Errorf("%d notes are stored, want 4", notes)
	}
}

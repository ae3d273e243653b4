package agent

import (
	"fmt"
	"slices"
	"strings"

	"jp/cmd/jp/internal/model"
	"jp/convstore"
	"jp/convstore/amount"
)

// The model of an agent under a budget is told what is left of it: with the first call of a turn,
// of money only once half of it is used, and then each time half of what it was told last is used.
// So it is told a few times in a turn. What it is told stays where it was said, beside the latest
// results or in front of the user's words, and is stored as a note: no later request changes what a
// provider has cached of an earlier one.

// NoteLeft is the kind of the note that tells the model what is left.
const NoteLeft = "left"

// teller decides when the model is told what is left. The zero value tells nothing.
type teller struct {
	on   bool // whether the model is told at all
	subs bool // whether it is told what is left for sub-agents
	told convstore.Budget
}

// due returns the notice that is due with an account, and what it tells; "" = none is due.
func (t teller) due(acc convstore.Account) (notice string, told convstore.Budget) {
	if !t.on {
		return "", told
	}
	left, of, whose := acc.Left, acc.Limit, ""
	if t.subs && left.Tokens == nil && left.CostNano == nil {
		left, of, whose = acc.Free, acc.Subs, " for sub-agents"
	}
	was := t.told
	if was.CostNano == nil {
		was.CostNano = of.CostNano
	}
	var parts []string
	halved := func(left, was *int64) bool { return left != nil && was != nil && *left <= *was/2 }
	due := left.Tokens != nil && was.Tokens == nil || halved(left.Tokens, was.Tokens) || halved(left.CostNano, was.CostNano)
	if n := left.Tokens; n != nil && of.Tokens != nil {
		parts = append(parts, fmt.Sprintf("%d of %d tokens", max(*n, 0), *of.Tokens))
	}
	if n := left.CostNano; n != nil && of.CostNano != nil {
		parts = append(parts, amount.Dollars(max(*n, 0))+" of "+amount.Dollars(*of.CostNano)+" USD")
	}
	if !due || len(parts) == 0 {
		return "", told
	}
	return "[budget left" + whose + ": " + strings.Join(parts, ", ") + "]", left
}

// beside returns messages with a notice in the last one, as note puts it there. They are not changed.
func beside(messages []model.Message, notice string) []model.Message {
	n := len(messages) - 1
	if n < 0 || notice == "" {
		return messages
	}
	last := messages[n]
	last.Content = slices.Clone(last.Content)
	note(&last, notice)
	return append(messages[:n:n], last)
}

// note puts notices into a message: behind its last result, or in front of the last words of the
// user.
func note(m *model.Message, notices ...string) {
	for i, c := range slices.Backward(m.Content) {
		if c.Result != nil {
			r := *c.Result
			r.Text += "\n\n" + strings.Join(notices, "\n\n")
			m.Content[i].Result = &r
			return
		}
		if m.Role == model.User && c.Text != "" {
			list := make([]model.Content, len(notices))
			for j, text := range notices {
				list[j] = model.Content{Text: text, Notice: true}
			}
			m.Content = slices.Insert(m.Content, i, list...)
			return
		}
	}
}

package batch

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"jp/cmd/jp/internal/delegate"
	"jp/cmd/jp/internal/exit"
	"jp/cmd/jp/internal/run"
	"jp/convstore"
)

// reduction returns what --reduce and --reduce-query ask for; nil = nothing.
func (o *options) reduction() (*delegate.Reduction, error) {
	switch {
	case o.reduce.Set != o.reduceQuery.Set:
		return nil, exit.Usagef("--reduce and --reduce-query: each needs the other").
			WithHint(`--reduce agent/writer --reduce-query "Write a summary."`)
	case !o.reduce.Set:
		return nil, nil
	case strings.TrimSpace(o.reduceQuery.Value) == "":
		return nil, exit.Usagef("--reduce-query: is empty")
	}
	query, err := run.Clean(o.reduceQuery.Value)
	return &delegate.Reduction{Config: o.reduce.Value, Query: query}, err
}

// lessReduction leaves a tenth of the limits of a batch to its reduction.
func (b *batch) lessReduction(all convstore.Budget) convstore.Budget {
	if b.what == nil {
		return all
	}
	for _, limit := range []**int64{&all.Tokens, &all.CostNano} {
		if *limit != nil {
			n := delegate.ForTasks(**limit)
			*limit = &n
		}
	}
	return all
}

// keep notes where the answer to a query is, for the reduction.
func (b *batch) keep(it delegate.Item, r delegate.Row) {
	if r.Reused && r.ConversationID != nil {
		b.reused = append(b.reused, *r.ConversationID)
	}
	if b.what == nil {
		return
	}
	in := delegate.Input{Number: it.Number, Status: r.Status, Size: r.Size}
	state := convstore.State(r.Status)
	if r.ConversationID != nil && (state == convstore.StateOK || state == convstore.StatePartial) {
		in.ID = *r.ConversationID
		turn := r.Turn
		in.Text = func(ctx context.Context) (string, error) { return b.answer(ctx, in.ID, turn, in.Size) }
	}
	b.inputs = append(b.inputs, in)
}

// answer returns the text of a row from the store again.
func (b *batch) answer(ctx context.Context, id string, turn, size int) (string, error) {
	conv, err := convstore.ParseID(id)
	if err != nil {
		return "", err
	}
	return delegate.AnswerOf(ctx, b.view, conv, turn, size)
}

// keepEarlier does that for a row of the file of an earlier run, which was ok.
func (b *batch) keepEarlier(it delegate.Item, at earlierRow, raw json.RawMessage) error {
	if b.what == nil {
		return nil
	}
	text := func(raw json.RawMessage) (string, error) {
		var row struct {
			Text string `json:"text"`
		}
		err := json.Unmarshal(raw, &row)
		return row.Text, err
	}
	has, err := text(raw)
	b.inputs = append(b.inputs, delegate.Input{
		Number: it.Number, ID: at.id.String(), Status: string(convstore.StateOK), Size: len(has), Cut: len(has) > maxRow,
		Text: func(context.Context) (string, error) {
			raw, err := b.earlier.raw(at)
			if err != nil {
				return "", err
			}
			return text(raw)
		},
	})
	return err
}

// unreduced reports whether a reduction was to be and came to nothing.
func (b *batch) unreduced() bool {
	return b.reduced != "" && b.reduced != convstore.StateOK && !b.cut
}

// last writes the last row: the answer that was made of those of all queries.
func (b *batch) last(row delegate.Row, err error) error {
	b.reduced, b.cut = convstore.State(row.Status), limited(row)
	if row.Reused {
		b.reused = append(b.reused, *row.ConversationID)
	}
	put := func() { err = errors.Join(err, b.rows.Add(row), b.out.Flush()) }
	if !b.env.Con.IO.OutTTY {
		put()
		return err
	}
	b.tree.Around(put)
	return err
}

// maxNamed is the most conversations that the last word of a batch names.
const maxNamed = 1000

// said is the last word in the conversation of a batch: the summary, and the conversations whose
// answers were used again, which are not below it.
func (b *batch) said() string {
	if len(b.reused) == 0 {
		return b.summary()
	}
	list := b.reused[:min(len(b.reused), maxNamed)]
	text := b.summary() + "\n\nanswered before: " + strings.Join(list, " ")
	if more := len(b.reused) - len(list); more > 0 {
		text += fmt.Sprintf(" and %d others", more)
	}
	return text
}

package batch

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"jp/cmd/jp/internal/console"
	"jp/cmd/jp/internal/delegate"
	"jp/cmd/jp/internal/exit"
	"jp/cmd/jp/internal/rule"
	"jp/cmd/jp/internal/term"
	"jp/convstore"
)

// maxRow bounds the text of an answer in a row, in bytes.
const maxRow = 1 << 20

// output begins the document of the rows.
func (b *batch) output() {
	b.out = bufio.NewWriter(b.env.Con.IO.Out)
	b.rows = console.List{W: b.out, Format: console.FormatStream}
	if f := b.env.Con.Format(); f == console.FormatJSON || f == console.FormatJSONPretty {
		b.rows.Format = f
	}
}

// finish writes the end of the document, unless stdout has failed.
func (b *batch) finish(failed error) error {
	if errors.Is(failed, term.ErrClosed) || errors.As(failed, new(*term.OutError)) {
		return failed
	}
	if b.earlier != nil && b.in.total < 0 {
		b.env.Con.Note("%d of %d queries were answered before", b.earlier.done, b.in.read)
	}
	if failed == nil && b.earlier != nil {
		failed = b.surplus()
	}
	return errors.Join(failed, b.rows.Close(), b.out.Flush())
}

// row writes the row of a line. On a terminal the tree of sub-agents makes room for it.
func (b *batch) row(it delegate.Item, r delegate.Row) (err error) {
	if !b.env.Con.IO.OutTTY {
		return b.write(it, r)
	}
	b.tree.Around(func() { err = b.write(it, r) })
	return err
}

func (b *batch) write(it delegate.Item, r delegate.Row) error {
	defer b.earlier.forget(it)
	if it.Done {
		if err := b.repeat(it); err != nil {
			return err
		}
		return b.out.Flush()
	}
	var err error
	if it.Resume != 0 && r.Text == "" && limited(r) {
		r, err = b.kept(it, r)
	}
	if err = cmp.Or(err, b.add(it, r)); err != nil {
		return err
	}
	return b.out.Flush()
}

// add writes and counts a row.
func (b *batch) add(it delegate.Item, r delegate.Row) error {
	b.keep(it, r)
	switch s := convstore.State(r.Status); {
	case s == convstore.StateOK:
		b.ok++
	case limited(r):
		b.limited++
	case s == convstore.StateCancelled:
		b.stopped++
	case r.Code == rule.CodeProvider:
		b.queued++
	case r.Code != "":
		b.refused++
	default:
		b.failed++
	}
	return b.rows.Add(r)
}

// limited reports whether a row ended at a limit.
func limited(r delegate.Row) bool {
	return slices.Contains([]convstore.State{convstore.StatePartial, convstore.StateBudget, convstore.StateTimeout}, convstore.State(r.Status)) ||
		slices.Contains([]rule.Code{rule.CodeCalls, rule.CodeChildren, rule.CodeTokens, rule.CodeCost}, r.Code)
}

// cameTo returns the end of the turn that follows from the ends of all lines.
func (b *batch) cameTo() convstore.TurnEnd {
	end := convstore.TurnEnd{State: convstore.StateOK}
	switch {
	case b.failed+b.refused+b.queued+b.stopped > 0, b.unreduced():
		end.State, end.Reason = convstore.StateError, b.summary()
	case b.limited > 0, b.cut:
		end.State, end.Reason = convstore.StatePartial, b.summary()
	}
	return end
}

// summary returns the number of rows for each kind of end.
func (b *batch) summary() string {
	parts := []string{fmt.Sprintf("%d of %d ok", b.ok, b.in.read)}
	for _, p := range []struct {
		n    int
		text string
	}{{b.limited, "stopped at a limit"}, {b.refused, "refused"}, {b.failed, "failed"}, {b.stopped, "cancelled"}, {b.queued, "queued"}} {
		if p.n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", p.n, p.text))
		}
	}
	if len(b.reused) > 0 {
		parts = append(parts, fmt.Sprintf("%d reused", len(b.reused)))
	}
	if b.reduced != "" {
		parts = append(parts, "reduced: "+string(b.reduced))
	}
	return strings.Join(parts, ", ")
}

// verdict returns the error, and so the exit status, of the command.
func (b *batch) verdict(caller convstore.ID) error {
	f := &exit.Error{Msg: fmt.Sprintf("conversation %s: %s", caller, b.summary())}
	switch {
	case b.ok == b.in.read && (b.reduced == "" || b.reduced == convstore.StateOK):
		return nil
	case b.queued > 0:
		f.Code, f.Status = "provider", exit.Provider
	case b.refused == b.in.read:
		f.Code, f.Status = "refused", exit.Refused
	case b.failed+b.refused+b.stopped > 0 || b.unreduced():
		f.Code, f.Status = "failed", exit.Failed
	default:
		f.Code, f.Status = "partial", exit.Limit
	}
	return f
}

package batch

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"jp/cmd/jp/internal/delegate"
	"jp/convstore"
)

// inPart stands before the mark of what was asked in a part that ran apart.
const inPart = "apart "

// answer is the answer to the query that had an index in an earlier run.
type answer struct {
	index int
	id    convstore.ID
	row   *earlierRow            // nil = it is in no row
	runs  []convstore.Delegation // for the query; one of them came to the answer
}

// move gives a query the answer to the same one that ran under another number, because lines were
// put in or taken out, or in a part that ran apart, if no other query has it. Then the query is
// done. With cut, the runs that were cut off under its own number, it does not get the answer to
// an equal line, which ran beside one of these.
func (b *batch) move(ctx context.Context, it delegate.Item, cut []convstore.Delegation) (delegate.Item, error) {
	e := b.earlier
	if it.ID != "" || it.Mark == "" {
		return it, nil
	}
	if e.others == nil {
		e.others = e.untaken()
	}
	for _, key := range []string{it.Mark, inPart + it.Mark} {
		for {
			list := e.others[key]
			i := slices.IndexFunc(list, func(a answer) bool { return !together(a.runs, cut) })
			if i < 0 {
				break
			}
			a := list[i]
			copy(list[1:], list[:i])
			e.others[key] = list[1:]
			if !e.free(a.id, a.row) {
				continue
			}
			if a.row != nil {
				it.Done, e.taken[a.id], e.rows[it.Number-1] = true, true, *a.row
				return it, nil
			}
			with, err := b.planRun(ctx, it, a.runs)
			if err != nil || with.Done {
				e.taken[a.id] = with.Done
				return with, err
			}
		}
	}
	return it, nil
}

// together reports whether one jp ran some of both for equal queries: the rest of a call is their
// numbers.
func together(some, others []convstore.Delegation) bool {
	query := func(del convstore.Delegation) string {
		call, _, _ := strings.Cut(del.Call, "#")
		return call
	}
	return slices.ContainsFunc(some, func(del convstore.Delegation) bool {
		return slices.ContainsFunc(others, func(other convstore.Delegation) bool { return query(del) == query(other) })
	})
}

// free reports whether a query can have the answer of a conversation, which is in this row; nil =
// in none. Another query may have it already.
func (e *earlier) free(id convstore.ID, row *earlierRow) bool {
	return !e.taken[id] || row != nil && row.reused
}

// asked returns those of runs that were asked what has this mark.
func asked(runs []convstore.Delegation, mark string) []convstore.Delegation {
	return slices.DeleteFunc(slices.Clone(runs), func(del convstore.Delegation) bool { return delegate.MarkOf(del) != mark })
}

// untaken returns the answers that no query has, by what was asked, in the order of their queries.
func (e *earlier) untaken() map[string][]answer {
	all := map[string][]answer{}
	add := func(mark string, a answer) {
		if mark != "" && e.free(a.id, a.row) {
			all[mark] = append(all[mark], a)
		}
	}
	in := map[convstore.ID][]convstore.Delegation{}
	for _, runs := range e.runs {
		for _, del := range runs {
			in[del.Child] = append(in[del.Child], del)
		}
	}
	answers := func(del convstore.Delegation) bool { // a person may have come to the answer
		return del.State == convstore.StateOK || slices.ContainsFunc(e.byHand[del.Child], func(by convstore.Delegation) bool { return by.State == convstore.StateOK })
	}
	inRow := map[convstore.ID]bool{}
	for index, row := range e.rows {
		inRow[row.id] = true
		if marks := e.marks[row.id]; len(marks) == 1 { // else it was asked more than this
			add(marks[0], answer{index: index, id: row.id, row: &row, runs: in[row.id]})
		}
	}
	for index, runs := range e.runs {
		for _, del := range slices.Backward(runs) {
			if row := e.rows[index]; answers(del) && row.id != del.Child {
				mark := delegate.MarkOf(del)
				add(mark, answer{index: index, id: del.Child, runs: asked(in[del.Child], mark)})
			}
		}
	}
	for mark, runs := range e.beside {
		in := map[convstore.ID][]convstore.Delegation{}
		for _, del := range runs {
			in[del.Child] = append(in[del.Child], del)
		}
		for _, del := range runs {
			if answers(del) && !inRow[del.Child] && in[del.Child] != nil {
				add(inPart+mark, answer{id: del.Child, runs: in[del.Child]})
				in[del.Child] = nil
			}
		}
	}
	for _, list := range all {
		slices.SortStableFunc(list, func(a, b answer) int { return cmp.Compare(a.index, b.index) })
	}
	return all
}

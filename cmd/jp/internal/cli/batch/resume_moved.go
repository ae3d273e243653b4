package batch

import (
	"cmp"
	"context"
	"slices"

	"jp/cmd/jp/internal/delegate"
	"jp/convstore"
)

// inPart stands before the mark of what was asked in a part that ran apart.
const inPart = "apart "

// answer is the answer to the query that had an index in an earlier run: a row, or the
// runs, one of which came to it.
type answer struct {
	index int
	id    convstore.ID
	row   *earlierRow // nil = it is in no row
	runs  []convstore.Delegation
}

// move gives a query the answer to the same one that ran under another number, because lines were
// put in or taken out, or in a part that ran apart, if no other query has it. Then the query is
// done. With apart it looks in those parts only.
func (b *batch) move(ctx context.Context, it delegate.Item, apart bool) (delegate.Item, error) {
	e := b.earlier
	if it.ID != "" || it.Mark == "" {
		return it, nil
	}
	if e.others == nil {
		e.others = e.untaken()
	}
	from := []string{it.Mark, inPart + it.Mark}
	if apart {
		from = from[1:]
	}
	for _, key := range from {
		for list := e.others[key]; len(list) > 0; {
			a := list[0]
			list = list[1:]
			e.others[key] = list
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
	inRow := map[convstore.ID]bool{}
	for index, row := range e.rows {
		inRow[row.id] = true
		if marks := e.marks[row.id]; len(marks) == 1 { // else it was asked more than this
			add(marks[0], answer{index: index, id: row.id, row: &row})
		}
	}
	for index, runs := range e.runs {
		for _, del := range slices.Backward(runs) {
			if row := e.rows[index]; del.State == convstore.StateOK && row.id != del.Child {
				mark := delegate.MarkOf(del)
				add(mark, answer{index: index, id: del.Child, runs: asked(runs, mark)})
			}
		}
	}
	for mark, runs := range e.beside {
		in := map[convstore.ID][]convstore.Delegation{}
		for _, del := range runs {
			in[del.Child] = append(in[del.Child], del)
		}
		for _, del := range runs {
			if del.State == convstore.StateOK && !del.Imported && !inRow[del.Child] && in[del.Child] != nil { // whoever wrote an import could name any part in it
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

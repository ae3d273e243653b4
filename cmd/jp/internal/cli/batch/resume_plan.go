package batch

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"jp/cmd/jp/internal/agent"
	"jp/cmd/jp/internal/delegate"
	"jp/cmd/jp/internal/model"
	"jp/convstore"
)

// asking returns what plan has decided about a query, with what of asks.
func asking(decided, of delegate.Item) delegate.Item {
	decided.Config, decided.Query, decided.Label, decided.Context, decided.Schema = of.Config, of.Query, of.Label, of.Context, of.Schema
	decided.Overrides, decided.Timeout, decided.Attach = of.Overrides, of.Timeout, of.Attach
	return decided
}

// forget forgets what is to be done about a query, when its row is written.
func (e *earlier) forget(it delegate.Item) {
	if e == nil {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	index := it.Number - 1
	delete(e.planned, index)
	delete(e.answers, index)
	delete(e.parts, index)
}

// plan returns a query with what is to be done: nothing where it has an answer, else to continue
// the sub-conversation that was cut off, or to begin one. If other queries ran under the numbers of
// all, that is an error.
func (b *batch) plan(ctx context.Context, it delegate.Item) (delegate.Item, error) {
	e, index := b.earlier, it.Number-1
	if e == nil {
		return it, nil
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if decided, ok := e.planned[index]; ok {
		return asking(decided, it), nil
	}
	it, ran, why, err := b.findQuery(ctx, it)
	if err != nil {
		return it, err
	}
	e.planned[index] = asking(it, delegate.Item{}) // stdin has what it asks, and that may be long
	if it.Done {
		e.done++
	}
	switch {
	case ran:
		e.same++
		return it, nil
	case why == nil: // none ran under its number
		return it, nil
	}
	e.changed, e.why = append(e.changed, it.Number), cmp.Or(e.why, why)
	if b.in.total >= 0 {
		return it, nil
	}
	if err := e.another(); err != nil {
		return it, err
	}
	b.env.Con.Note("query %d is not as it was, and runs again", it.Number)
	return it, nil
}

// findQuery returns a query with what earlier runs have left of it, under whatever number. ran
// reports whether there was one; else why says which query was run under its number, nil = none.
func (b *batch) findQuery(ctx context.Context, it delegate.Item) (_ delegate.Item, ran bool, why, err error) {
	e, index := b.earlier, it.Number-1
	row, ok := e.rows[index]
	it.Mark = e.ownMark(it, row)
	if ok {
		why, err = b.differs(ctx, row, it)
		ran = why == nil
		n := len(e.marks[row.id]) // more than one: the row may be that of another query
		if it.Done = ran && (n == 1 || n == 0 && !row.reused); it.Done || err != nil {
			return it, ran, nil, err
		}
		it.Reuse = it.Reuse || ran && row.reused // only the store can say whether all else is the same
	}
	runs := slices.Clone(e.runs[it.Mark])
	if it.ID != "" { // what the conversation had been asked before is part of an answer
		runs = slices.DeleteFunc(runs, func(del convstore.Delegation) bool { return delegate.NumberOf(del, model.CallOfBatch) != it.Number })
	}
	goesOn := it
	if len(runs) > 0 {
		if goesOn, err = b.planRun(ctx, it, runs); err != nil || goesOn.Done {
			return goesOn, true, nil, err
		}
	}
	if it.ID == "" {
		for _, apart := range e.answeredApart(it.Mark) {
			if it, err := b.planRun(ctx, it, apart); err != nil || it.Done {
				return it, true, nil, err
			}
		}
		// What ran itself had no answer that was there before.
		if row, ok := e.reusedFor(it.Mark); ok && (it.Reuse || len(runs)+len(e.beside[it.Mark]) == 0) {
			it.Done, e.rows[index] = true, row
			return it, true, nil, nil
		}
	}
	if ran = ran || len(runs)+len(e.beside[it.Mark]) > 0; ran {
		return goesOn, true, nil, nil
	}
	if id, under := e.under[index]; under && !ok {
		why, err = b.differs(ctx, earlierRow{id: id}, it)
		ran = why == nil
	}
	return it, ran, why, err
}

// ownMark returns the mark of the equal query whose runs a query has. These are its own, unless
// they have no answer and what stands under its number has one that no query before it has: then
// this stays there, and the equal query of which it was has the others.
func (e *earlier) ownMark(it delegate.Item, row earlierRow) string {
	own := it.Mark
	for e.instead[own] != "" {
		own = e.instead[own]
	}
	marks := e.marks[cmp.Or(row.id, e.under[it.Number-1])]
	if it.ID == "" && !row.reused && len(marks) == 1 && first(marks[0]) == first(own) && !e.has[marks[0]] && !e.hasAnswer(own) && e.hasAnswer(marks[0]) {
		e.instead[marks[0]], own = own, marks[0]
	}
	e.has[own] = true
	return own
}

// hasAnswer reports whether a run for what has this mark came to an answer, or a person after it.
func (e *earlier) hasAnswer(mark string) bool {
	return slices.ContainsFunc(slices.Concat(e.runs[mark], e.beside[mark]), func(del convstore.Delegation) bool {
		return isOK(del) || slices.ContainsFunc(e.byHand[del.Child], isOK)
	})
}

// isOK reports whether a delegation came to an answer. A compaction by hand begins no turn.
func isOK(del convstore.Delegation) bool {
	return del.State == convstore.StateOK && del.ChildTurn > 0
}

// answeredApart returns the runs for a query in each conversation with its answer in a part that
// ran apart. A person may have come to that.
func (e *earlier) answeredApart(mark string) (all [][]convstore.Delegation) {
	in := map[convstore.ID][]convstore.Delegation{}
	for _, del := range e.beside[mark] {
		in[del.Child] = append(in[del.Child], del)
	}
	for _, id := range slices.Sorted(maps.Keys(in)) {
		if slices.ContainsFunc(in[id], isOK) || slices.ContainsFunc(e.byHand[id], isOK) {
			all = append(all, in[id])
		}
	}
	return all
}

// isOf reports whether the answer in a row is that of a query with this mark. All equal queries have
// the same answer if it was reused.
func (e *earlier) isOf(row earlierRow, mark string) bool {
	return slices.ContainsFunc(e.marks[row.id], func(m string) bool { return m == mark || row.reused && first(m) == first(mark) })
}

// reusedFor returns a row with an answer that was there before, for a query with this mark.
func (e *earlier) reusedFor(mark string) (earlierRow, bool) {
	if e.reused == nil {
		e.reused = map[string]earlierRow{}
		for _, index := range slices.Backward(slices.Sorted(maps.Keys(e.rows))) {
			row := e.rows[index]
			if marks := e.marks[row.id]; row.reused && len(marks) == 1 { // else it was asked more than this
				e.reused[first(marks[0])] = row
			}
		}
	}
	row, ok := e.reused[first(mark)]
	return row, ok
}

// differs returns why a query is not the one with the answer in a row; nil = it is.
func (b *batch) differs(ctx context.Context, row earlierRow, it delegate.Item) (why, err error) {
	id := row.id
	if b.earlier.isOf(row, it.Mark) {
		return nil, nil
	}
	conv, was, err := b.asked(ctx, b.session.Store.View, id, it)
	switch {
	case errors.As(err, new(*convstore.NotFoundError)):
		why = err
	case err != nil:
		return nil, err
	case it.ID == "" && conv.Profile != it.Config:
		why = fmt.Errorf("%s ran under the profile %s, not %s", id, conv.Profile, it.Config)
	case was == nil:
		why = fmt.Errorf("%s was not asked query %d", id, it.Number)
	case len(b.earlier.marks[id]) > 0:
		why = fmt.Errorf("%s was asked query %d with another model, reasoning or context_query", id, it.Number)
	}
	return why, nil
}

// planRun is plan for a query without a row that is ok, of the runs that were asked it.
func (b *batch) planRun(ctx context.Context, it delegate.Item, runs []convstore.Delegation) (delegate.Item, error) {
	index := it.Number - 1
	if n := len(runs); n > 0 && runs[n-1].Unstarted && runs[n-1].Fresh {
		it.Call = runs[n-1].Call // nothing has happened: the same call runs, in the conversation made for it
	}
	below, err := b.session.Store.Below(ctx, runs[0].Caller)
	if err != nil {
		return it, err
	}
	var conv convstore.Conversation          // of the latest run
	var imported bool                        // whether it was
	turns := map[convstore.ID]map[int]bool{} // as asked returns them
	runs = slices.DeleteFunc(runs, func(del convstore.Delegation) bool {
		var c convstore.Conversation
		var was map[int]bool
		again, failed := b.imported(ctx, below, del)
		if failed == nil {
			c, was, failed = b.asked(ctx, b.view, del.Child, it)
		}
		if !delegate.Gone(failed) {
			err = cmp.Or(err, failed)
		}
		if del.Unstarted || failed != nil || was == nil && c.Turns > 0 {
			return true // nothing has happened; it was removed or moved since; it goes on with something else
		}
		conv, imported, turns[c.ID] = c, again, was
		return false
	})
	if len(runs) == 0 || err != nil {
		return it, err
	}
	last := runs[len(runs)-1]
	if it.ID == "" {
		runs = append(runs, b.earlier.byHand[last.Child]...)
	}
	for _, del := range slices.Backward(runs) {
		if !turns[del.Child][del.ChildTurn] {
			continue
		}
		if isOK(del) {
			if it.Done, err = b.endedOK(ctx, del); err != nil {
				return it, err
			}
		}
		if it.Done {
			b.earlier.answers[index] = del
			break
		}
		if _, later := b.earlier.parts[index]; !later && del.State == convstore.StatePartial {
			b.earlier.parts[index] = del
		}
	}
	it.Earlier, err = b.used(ctx, runs, b.earlier.answers[index])
	it.MaxTokens = convstore.Budget{Tokens: it.MaxTokens}.Minus(it.Earlier.Spend.Budget()).Tokens
	if err != nil || it.Done || it.Call != "" {
		return it, err
	}
	if it.ID != "" { // others may have asked it more since
		ours := slices.ContainsFunc(runs, func(del convstore.Delegation) bool { return del.Child == conv.ID && del.ChildTurn == conv.Turns })
		if ours && turns[conv.ID][conv.Turns] {
			it.Resume = conv.Turns
		}
		return it, nil
	}
	if imported { // it has no grant: another one begins
		return it, nil
	}
	if b.changed(ctx, conv) {
		if silent, err := b.silent(ctx, conv.ID); silent || err != nil {
			return it, err
		}
	}
	if it.ID = conv.ID.String(); turns[conv.ID][conv.Turns] {
		it.Resume = conv.Turns
	}
	return it, nil
}

// changed reports whether the profile of a conversation is another one now.
func (b *batch) changed(ctx context.Context, conv convstore.Conversation) bool {
	now, ok := b.earlier.hashes[conv.Profile]
	if !ok {
		if p, err := b.env.Profile(ctx, conv.Profile, nil); err == nil { // else the run of the query says it
			now = p.Hash
		}
		b.earlier.hashes[conv.Profile] = now
	}
	return now != conv.ProfileHash
}

// used returns what runs have used, but for one of them.
func (b *batch) used(ctx context.Context, runs []convstore.Delegation, but convstore.Delegation) (used delegate.Used, err error) {
	for _, del := range runs {
		if del.Number == but.Number {
			continue
		}
		more, err := delegate.UsedBy(ctx, b.view, del)
		if err != nil {
			return used, err
		}
		used = used.Add(more)
	}
	return used, nil
}

// imported reports whether the sub-conversation of a run was imported, and is in no scope. If it is
// not below its caller, and was not where it came from, the error says that it is gone.
func (b *batch) imported(ctx context.Context, below convstore.Scope, del convstore.Delegation) (bool, error) {
	_, failed := below.Get(ctx, del.Child)
	if !delegate.Gone(failed) {
		return false, failed
	}
	im, err := b.view.Imported(ctx, del.Child)
	if err == nil && (im == nil || im.Link != convstore.DelegationLink || im.Parent != del.Caller) {
		err = failed
	}
	return err == nil, err
}

// endedOK reports whether the turn of a run that came to an answer did so too. Where an older export
// was imported again, a later turn may have its number.
func (b *batch) endedOK(ctx context.Context, del convstore.Delegation) (ok bool, err error) {
	for ev, err := range b.view.Events(ctx, del.Child, convstore.Turn(del.ChildTurn)) {
		if err != nil {
			return false, err
		}
		if end, is := ev.Body.(convstore.TurnEnd); is {
			ok = end.State == convstore.StateOK
		}
	}
	return ok, nil
}

// asked returns a conversation in view, and whether each of its turns was asked a query in these
// words, with this schema and these attachments, or went on with it. Where none was, turns is nil.
func (b *batch) asked(ctx context.Context, v convstore.View, id convstore.ID, it delegate.Item) (conv convstore.Conversation, turns map[int]bool, err error) {
	if conv, err = v.Get(ctx, id); err != nil {
		return conv, nil, err
	}
	all, on, words := map[int]bool{}, false, agent.Stored(it.Query)
	for ev, err := range v.Events(ctx, id, convstore.Range{}) {
		if err != nil {
			return conv, nil, err
		}
		if u, ok := ev.Body.(convstore.UserMessage); ok {
			if u.Text == words && bytes.Equal(u.Schema, it.Schema) && it.Attach.Made(u.Attachments) {
				on, turns = true, all
			} else if u.Text != agent.Continue {
				on = false // a person has asked something else
			}
			if all[ev.Turn] = on; ev.Turn == conv.Turns {
				break
			}
		}
	}
	return conv, turns, nil
}

// silent reports whether the model of a conversation has said nothing.
func (b *batch) silent(ctx context.Context, id convstore.ID) (bool, error) {
	for ev, err := range b.session.Store.Events(ctx, id, convstore.Range{}) {
		if err != nil {
			return false, err
		}
		switch ev.Body.(type) {
		case convstore.Said, convstore.ToolCall:
			return false, nil
		}
	}
	return true, nil
}

package batch

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"jp/cmd/jp/internal/delegate"
	"jp/cmd/jp/internal/model"
	"jp/cmd/jp/internal/run"
	"jp/convstore"
	"jp/convstore/archive"
)

// labelWith is the label of the conversation of a part of a batch that was resumed together with
// others, as the rows of several shards. Its value names the conversations that went on, with
// commas between them. With --root-id a sub-conversation of the part has it, and its value names
// the lines of calls of both.
const labelWith = archive.LabelHere

func (b *batch) labels() map[string]string { return map[string]string{convstore.LabelBatch: b.sum} }

// call returns the prefix of the ids of all calls of this batch, in every run.
func (b *batch) call() string { return model.CallOfBatch + b.sum + "-" }

// newCall returns the prefix of the ids of the calls of this run. It contains the prefix of the
// run that this one resumes.
func (b *batch) newCall() string {
	if b.earlier != nil && b.earlier.line != "" {
		return b.call() + b.earlier.line + "-" + convstore.NewEventID()
	}
	return b.call() + b.line
}

// lineOf returns the parts of a call id of a batch: its sum, and what a run shares with those that
// resume it. The sum is of the first query, and changes with it.
func lineOf(call string) (sum, line string) {
	call, _ = strings.CutPrefix(call, model.CallOfBatch)
	sum, line, _ = strings.Cut(call, "-")
	if i := strings.IndexAny(line, "-~#"); i >= 0 {
		line = line[:i]
	}
	return sum, line
}

// find finds the conversation of the batch: the latest one that has answers in the rows, else the
// latest one with the same sum. It takes the lock of that conversation, so that only one run goes
// on with it, and settles what a killed run left open.
func (b *batch) find(ctx context.Context, parents []convstore.ID) error {
	e := b.earlier
	for _, id := range parents {
		conv, err := b.session.Store.Get(ctx, id)
		if err != nil {
			return err
		}
		ran, err := b.ran(ctx, conv)
		if err != nil {
			return err
		}
		if _, ok := conv.Labels[convstore.LabelBatch]; ok && ran {
			e.below = max(e.below, id)
		}
	}
	if e.below == 0 {
		list, err := b.session.Store.List(ctx, convstore.Filter{Labels: b.labels(), Hidden: true, Archived: true})
		if err != nil {
			return err
		}
		for _, conv := range list {
			ran, err := b.ran(ctx, conv)
			if err != nil {
				return err
			}
			if ran {
				e.below = max(e.below, conv.ID)
			}
		}
	}
	if e.below == 0 {
		return b.claimApart(ctx, parents)
	}
	if err := b.session.Reopen(ctx, e.below); err != nil {
		return err
	}
	if err := b.claimBelow(ctx, e.below); err != nil {
		return err
	}
	if err := b.await(ctx, e.below); err != nil {
		return err
	}
	if err := b.session.Settle(ctx); err != nil {
		return err
	}
	if err := b.claimApart(ctx, parents); err != nil {
		return err
	}
	list, err := b.delegations(ctx, e.below)
	if err == nil {
		for _, del := range list {
			e.seen = max(e.seen, del.Number)
		}
		b.collect(list, e.below, func(del convstore.Delegation) (int, bool) { return delegate.NumberOf(del, model.CallOfBatch), true })
	}
	return err
}

// parts returns the conversations of the parts of the batch that ran apart, as with --shard: those
// of parents, and those that were resumed together with one of them or with the one that goes on.
func (b *batch) parts(ctx context.Context, parents []convstore.ID) (parts []convstore.ID, err error) {
	start := []string{b.earlier.below.String()}
	for _, id := range parents {
		start = append(start, id.String())
	}
	all, err := b.joined(ctx, start)
	for _, word := range slices.Sorted(maps.Keys(all)) {
		id, wrong := convstore.ParseID(word)
		if wrong != nil || id == b.earlier.below {
			continue
		}
		_, failed := b.session.Store.Get(ctx, id)
		switch {
		case failed == nil:
			parts = append(parts, id)
		case !errors.As(failed, new(*convstore.NotFoundError)):
			err = failed
		}
	}
	return parts, err
}

// joined returns start and the parts that were resumed together with one of these.
func (b *batch) joined(ctx context.Context, start []string) (map[string]bool, error) {
	list, err := b.session.Store.List(ctx, convstore.Filter{Labels: map[string]string{labelWith: ""}, Hidden: true, Archived: true})
	with := map[string][]string{}
	for _, conv := range list {
		one := conv.ID.String()
		for _, other := range names(conv) {
			with[one], with[other] = append(with[one], other), append(with[other], one)
		}
	}
	found := map[string]bool{}
	for todo := start; len(todo) > 0; todo = todo[1:] {
		if !found[todo[0]] {
			found[todo[0]] = true
			todo = append(todo, with[todo[0]]...)
		}
	}
	return found, err
}

// join notes that the parts of the batch that ran apart go on together with this one, so that
// whoever resumes it again finds all of it, whatever rows are given.
func (b *batch) join(ctx context.Context, this string) error {
	apart := b.earlier.apart
	return b.session.Store.EditAll(ctx, slices.Collect(maps.Keys(apart)), func(c *convstore.Conversation) error {
		with := names(*c)
		for _, other := range append(apart[c.ID], this) {
			if !slices.Contains(with, other) {
				with = append(with, other)
			}
		}
		label(c, labelWith, strings.Join(with, ","))
		return nil
	})
}

// joinFound is join for a batch of which nothing is left to run.
func (b *batch) joinFound(ctx context.Context) error {
	if b.earlier == nil || b.surplus() != nil {
		return nil
	}
	parts := append(slices.Sorted(maps.Keys(b.earlier.apart)), 0)
	return b.join(ctx, cmp.Or(b.earlier.line, b.earlier.below.String(), parts[0].String()))
}

// names returns what the value of labelWith names.
func names(conv convstore.Conversation) []string {
	return strings.FieldsFunc(conv.Labels[labelWith], func(r rune) bool { return r == ',' })
}

// label gives a conversation a label, beside those that it has.
func label(c *convstore.Conversation, name, value string) {
	if c.Labels == nil {
		c.Labels = map[string]string{}
	}
	c.Labels[name] = value
}

// claimApart claims the parts of the batch that ran apart, and notes what they were asked and have
// used. None of them may run until this one ends: it would use more. Before it was claimed, a part
// may have been resumed together with others.
func (b *batch) claimApart(ctx context.Context, parents []convstore.ID) error {
	apart := b.earlier.apart
	for more := true; more; {
		parts, err := b.parts(ctx, parents)
		if err != nil {
			return err
		}
		more = false
		for _, id := range parts {
			if _, claimed := apart[id]; claimed {
				continue
			}
			if err := b.claimBelow(ctx, id); err != nil {
				return err
			}
			apart[id], more = nil, true
		}
	}
	return b.spentApart(ctx, func(del convstore.Delegation) { b.earlier.noteRun(del, 0) })
}

// spentApart begins to count what was used, with what those parts have used, and calls note with
// each of their runs.
func (b *batch) spentApart(ctx context.Context, note func(convstore.Delegation)) error {
	b.earlier.spent = convstore.Spend{}.Budget()
	for _, id := range slices.Sorted(maps.Keys(b.earlier.apart)) {
		list, err := b.delegations(ctx, id)
		if err != nil {
			return err
		}
		b.earlier.spend(list, id, func(del convstore.Delegation) bool { return strings.HasPrefix(del.Call, model.CallOfBatch) }, note)
	}
	return nil
}

// recount counts again what was used before the turn that has just begun in the conversation of the
// batch, within the limits of session: a person may have reserved more since find. What is
// reserved from now on below it counts in that turn. Where an older export was imported again, an
// earlier turn had the same number.
func (b *batch) recount(ctx context.Context, session convstore.Limits) error {
	conv, err := b.session.Log.Get(ctx)
	if err != nil {
		return err
	}
	if err := b.spentApart(ctx, func(convstore.Delegation) {}); err != nil {
		return err
	}
	list, err := b.delegations(ctx, conv.ID)
	if err != nil {
		return err
	}
	list = slices.DeleteFunc(list, func(del convstore.Delegation) bool { return del.Session >= conv.Turns && del.Number > b.earlier.seen })
	b.earlier.spend(list, conv.ID, func(convstore.Delegation) bool { return true }, func(convstore.Delegation) {})
	b.lessSpent()
	session.Budget = session.Min(convstore.Budget{Tokens: b.o.tokens.Value, CostNano: b.o.cost.Value})
	return b.session.Log.Limit(ctx, session)
}

// ran reports whether lines of a batch ran below a conversation here. A fork has the label of the
// batch and none of its runs, and those of one that was imported are not those of this store.
func (b *batch) ran(ctx context.Context, conv convstore.Conversation) (bool, error) {
	list, err := b.session.Store.Delegations(ctx, conv.ID)
	return slices.ContainsFunc(list, func(del convstore.Delegation) bool { return delegate.RanFor(conv.ID, del) }), err
}

// findFor does the same for a batch on behalf of an existing conversation: the runs that the rows
// name, else the latest ones with the same sum.
func (b *batch) findFor(ctx context.Context) error {
	caller := b.root
	if err := b.claim(ctx, caller, "--resume of batch "+b.sum); err != nil {
		return err
	}
	all, err := b.ledger(ctx, caller)
	if err != nil {
		return err
	}
	// Other runs, which this one does not resume, may have asked the same queries on its behalf.
	var latest time.Time
	named, lines := false, map[convstore.ID]string{} // of the latest runs in conversations that rows name
	for _, del := range all {
		if !delegate.RanFor(caller, del) {
			continue
		}
		sum, line := lineOf(del.Call)
		inRow := b.earlier.named[del.Child]
		if inRow {
			lines[del.Child] = line
		}
		if inRow && !named || (inRow || !named && sum == b.sum) && del.Reserved.After(latest) {
			latest, b.earlier.line, named = del.Reserved, line, inRow
		}
	}
	if b.earlier.line == "" {
		b.earlier.mark(all)
		if b.earlier.file == nil {
			b.earlier.why = fmt.Errorf("no batch on behalf of %s begins with the first of them", caller)
			err = b.earlier.another()
		}
		return err
	}
	start := []string{b.earlier.line}
	for id, line := range lines {
		if !slices.Contains(start, line) {
			start, b.earlier.apart[id] = append(start, line), []string{line}
		}
	}
	parts, err := b.joined(ctx, start)
	if err != nil {
		return err
	}
	for _, line := range slices.Sorted(maps.Keys(parts)) {
		if err := b.claimLine(ctx, caller, line); err != nil {
			return err
		}
	}
	if err := b.await(ctx, caller); err != nil {
		return err
	}
	ours := func(del convstore.Delegation) bool {
		_, line := lineOf(del.Call)
		return strings.HasPrefix(del.Call, model.CallOfBatch) && parts[line]
	}
	if all, err = b.ledger(ctx, caller); err == nil {
		b.collect(all, caller, func(del convstore.Delegation) (int, bool) {
			if b.mine(del.Call) {
				return delegate.NumberOf(del, model.CallOfBatch), true
			}
			return 0, ours(del)
		})
	}
	b.earlier.again = func() error { // a person may reserve more until the batch goes on
		all, err := b.ledger(ctx, caller)
		b.earlier.spent = convstore.Spend{}.Budget()
		b.earlier.spend(all, caller, ours, func(convstore.Delegation) {})
		b.lessSpent()
		return err
	}
	return err
}

// delegations lists the ledger of a conversation. What nobody can settle any more it settles first,
// as what sub-agents used that have outlived a killed part of the batch, and end while it goes on:
// in a list they have ended without use before that.
func (b *batch) delegations(ctx context.Context, root convstore.ID) ([]convstore.Delegation, error) {
	list, err := b.session.Store.Delegations(ctx, root)
	if err != nil || !slices.ContainsFunc(list, func(del convstore.Delegation) bool { return del.State != "" && del.Ended.IsZero() }) {
		return list, err
	}
	if err := b.session.Store.Reconcile(ctx); err != nil {
		return nil, err
	}
	return b.session.Store.Delegations(ctx, root)
}

// ledger lists the delegations of the ledgers of a conversation and of those above it.
func (b *batch) ledger(ctx context.Context, at convstore.ID) (all []convstore.Delegation, err error) {
	for {
		list, err := b.delegations(ctx, at)
		if err != nil {
			return nil, err
		}
		all = append(all, list...)
		conv, err := b.session.Store.Get(ctx, at)
		if err != nil || conv.Link != convstore.DelegationLink {
			return all, err
		}
		at = conv.Parent
	}
}

// mark notes what the conversations below these were asked as lines of a batch.
func (b *batch) mark(ctx context.Context, callers []convstore.ID) error {
	for _, id := range callers {
		list, err := b.session.Store.Delegations(ctx, id)
		if err != nil {
			return err
		}
		b.earlier.mark(list)
	}
	return nil
}

// mark does that for delegations.
func (e *earlier) mark(list []convstore.Delegation) {
	for _, del := range list {
		if m := delegate.MarkOf(del); m != "" && strings.HasPrefix(del.Call, model.CallOfBatch) && !slices.Contains(e.marks[del.Child], m) {
			e.marks[del.Child] = append(e.marks[del.Child], m)
		}
	}
}

// claim takes a claim on a conversation, with the name what. No other batch can take it until this
// one ends.
func (b *batch) claim(ctx context.Context, of convstore.ID, what string) error {
	held, err := b.session.Store.Claim(ctx, of, what)
	if err == nil {
		b.claims = append(b.claims, held)
	}
	return err
}

// claimLine claims the prefix of the calls of a run with --root-id and of those that resume it.
// Such a run has no conversation, and so no run lock that shows that it still runs.
func (b *batch) claimLine(ctx context.Context, caller convstore.ID, line string) error {
	return b.claim(ctx, caller, "batch "+line)
}

// mine reports whether a call below the conversation that find or findFor has found is of this
// batch.
func (b *batch) mine(call string) bool {
	_, line := lineOf(call)
	return strings.HasPrefix(call, model.CallOfBatch) && (b.earlier.line == "" || line == b.earlier.line)
}

// claimBelow claims all that runs as lines below a conversation of a batch.
func (b *batch) claimBelow(ctx context.Context, id convstore.ID) error {
	return b.claim(ctx, id, "batch below it")
}

// await waits until the sub-agents that earlier runs of this batch started for a caller have ended.
// After that their answers may be in the store.
func (b *batch) await(ctx context.Context, caller convstore.ID) error {
	scope, err := b.session.Store.Below(ctx, caller)
	if err != nil {
		return err
	}
	return delegate.Await(ctx, scope, b.mine, func(del convstore.Delegation) { b.env.Con.Note("%s", delegate.Left(del)) })
}

// collect notes those of list that are runs for queries of this batch, and what they have used.
// number returns the number of the query, 0 for none, and whether the delegation is of this batch,
// as those of its reduction are.
func (b *batch) collect(list []convstore.Delegation, caller convstore.ID, number func(convstore.Delegation) (int, bool)) {
	e := b.earlier
	e.spend(list, caller, func(del convstore.Delegation) bool {
		_, mine := number(del)
		return mine
	}, func(del convstore.Delegation) {
		n, _ := number(del)
		e.noteRun(del, n)
	})
}

// noteRun notes a run for the query with this number; 0 = of a part that ran apart, of a reduction,
// or of a person.
func (e *earlier) noteRun(del convstore.Delegation, number int) {
	switch mark := delegate.MarkOf(del); {
	case number == 0 && delegate.NumberOf(del, model.CallOfBatch) > 0:
		e.beside[mark] = append(e.beside[mark], del)
	case del.State == "":
	case number > 0:
		e.runs[mark], e.under[number-1] = append(e.runs[mark], del), del.Child
	case run.ByHand(del):
		e.byHand[del.Child] = append(e.byHand[del.Child], del)
	}
}

// spend counts what those of list have used that a caller made for a batch, as mine says of them,
// or a person in a conversation of one of these. One that nobody has settled uses its whole grant,
// and so does one made in an ended one, which it outlives. spend calls note with each, but for the
// latter.
func (e *earlier) spend(list []convstore.Delegation, caller convstore.ID, mine func(convstore.Delegation) bool, note func(convstore.Delegation)) {
	ours := map[convstore.ID]bool{} // conversations
	of := map[uint64]bool{}         // numbers of those that are settled, and of what is settled in them
	e.mark(list)
	for _, del := range list {
		within := of[del.Within]
		if !within {
			if del.Caller != caller || !mine(del) && !(ours[del.Child] && run.ByHand(del)) {
				continue // of others, on behalf of the same conversation
			}
			ours[del.Child] = true
			note(del)
		}
		switch {
		case del.Ended.IsZero():
			e.spent = e.spent.Plus(del.Grant.Budget)
			continue
		case !within: // else it is in the total of the one above
			e.spent = e.spent.Plus(del.Total.Budget())
		}
		of[del.Number] = true
	}
}

package batch

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"jp/cmd/jp/internal/delegate"
	"jp/cmd/jp/internal/exit"
	"jp/cmd/jp/internal/run"
	"jp/convstore"
	"jp/tools/files"
)

// earlier is what the earlier runs of a batch have left: the rows that were ok, which stay in the
// file of --resume until their turn, and in the store the runs of all sub-agents. The store decides
// where a row does not say ok, since a killed run has answers there that it has not written.
type earlier struct {
	path  string             // value of --resume
	file  *os.File           // nil = it names a conversation
	last  int                // number of rows in file
	rows  map[int]earlierRow // those that are ok, by the index of their query
	below convstore.ID       // conversation of the batch, which goes on; 0 = none
	line  string             // with --root-id: prefix of the calls of the runs that it goes on with; "" = none was found

	runs   map[int][]convstore.Delegation          // runs for a query, oldest first, by its index
	byHand map[convstore.ID][]convstore.Delegation // runs that a person has added, by the sub-conversation
	spent  convstore.Spend                         // use of all of them

	planned map[int]delegate.Item        // queries with what is to be done, by their index
	answers map[int]convstore.Delegation // runs with the answers that are in no row, likewise
	hashes  map[string]string            // present hashes of profiles, by their names
}

// earlierRow is a row that is ok in the file of --resume.
type earlierRow struct {
	at, size int64
	id       convstore.ID
}

// answered returns the number of queries that are known to be answered.
func (e *earlier) answered() (n int) {
	for _, it := range e.planned {
		if it.Done {
			n++
		}
	}
	return n
}

func (e *earlier) close() {
	if e != nil && e.file != nil {
		_ = e.file.Close()
	}
}

// resume finds what earlier runs of the batch have left: those of the conversation that value names,
// or those whose output is the file of this name.
func (b *batch) resume(ctx context.Context, value string) error {
	b.earlier = &earlier{
		path: value, rows: map[int]earlierRow{}, runs: map[int][]convstore.Delegation{}, byHand: map[convstore.ID][]convstore.Delegation{},
		planned: map[int]delegate.Item{}, answers: map[int]convstore.Delegation{}, hashes: map[string]string{},
	}
	var parents []convstore.ID // of the conversations that rows name
	id, err := convstore.ParseID(value)
	if err == nil {
		err = b.choose(ctx, id)
	} else {
		parents, err = b.readRows(ctx, value)
	}
	switch {
	case err != nil:
	case b.o.rootID.Set:
		err = b.findFor(ctx)
	default:
		err = b.find(ctx, parents)
	}
	if err == nil {
		b.lessSpent()
	}
	return err
}

// choose checks the conversation that --resume names.
func (b *batch) choose(ctx context.Context, id convstore.ID) error {
	conv, err := b.session.Store.Get(ctx, id)
	if err != nil {
		return err
	}
	if b.o.rootID.Set {
		root, err := b.env.WS.Target(ctx, b.o.rootID.Value)
		if err == nil && root != id {
			err = exit.Usagef("--resume %s: is not %s, on whose behalf the batch runs", id, root)
		}
		return err
	}
	if _, ok := conv.Labels[labelBatch]; !ok {
		return exit.Usagef("--resume %s: is not the conversation of a batch", id).WithHint("`jp conversation ls --root --label %s` lists them", labelBatch)
	}
	b.earlier.below = id
	return nil
}

// readRows reads the output of an earlier run, and returns the parents of the conversations that its
// rows name.
func (b *batch) readRows(ctx context.Context, path string) (parents []convstore.ID, err error) {
	e := b.earlier
	file, info, err := files.OpenRegular(files.Disk{}, b.env.Con.Abs(path), os.O_RDONLY, 0)
	if err != nil {
		return nil, exit.Usagef("--resume %s: %v", path, files.Reason(err))
	}
	e.file = file
	if out, ok := b.env.Con.Env.Stdout.(*os.File); ok {
		if now, err := out.Stat(); err == nil && os.SameFile(info, now) {
			return nil, exit.Usagef("--resume %s: is the file that stdout goes to", path).WithHint("write to another file: the rows that are ok are repeated there")
		}
	}
	dec := json.NewDecoder(e.file)
	for index := 0; ; index++ {
		var raw json.RawMessage
		err := dec.Decode(&raw)
		if err != nil && endsInZeros(io.NewSectionReader(e.file, dec.InputOffset(), info.Size())) {
			b.env.Con.Note("--resume %s: ends in zeros, as after a power cut: row %d, where they begin, counts as cut off", path, index+1)
			err = io.ErrUnexpectedEOF
		}
		switch {
		case err == io.EOF, err == io.ErrUnexpectedEOF: // a row that was cut off counts as none
			return parents, nil
		case err != nil:
			return nil, exit.Usagef("--resume %s: row %d: %v", path, index+1, err).
				WithHint("`head -n %d` writes the rows before it to a file to resume from; those after it are asked again", index)
		}
		var row struct {
			ID     *string `json:"conversation_id"`
			Status string  `json:"status"`
			Reused bool    `json:"reused"`
			Made   any     `json:"reduced"`
		}
		if err := json.Unmarshal(raw, &row); err != nil || row.Status == "" {
			return nil, exit.Usagef("--resume %s: row %d: is not a row of a batch", path, index+1).WithHint("it reads JSON Lines, what `jp batch` writes without -F json")
		}
		if row.Made != nil { // it is made again of all rows
			index--
			continue
		}
		e.last = index + 1
		ok := convstore.State(row.Status) == convstore.StateOK
		conv, err := b.named(ctx, row.ID)
		if err != nil && ok {
			return nil, exit.Usagef("--resume %s: row %d: %v", path, index+1, err)
		}
		if err == nil && !row.Reused && !slices.Contains(parents, conv.Parent) {
			parents = append(parents, conv.Parent)
		}
		if ok {
			e.rows[index] = earlierRow{dec.InputOffset() - int64(len(raw)), int64(len(raw)), conv.ID}
		}
	}
}

// endsInZeros reports whether r has a zero byte, and only zero bytes after the first one.
func endsInZeros(r io.Reader) bool {
	zeros := false
	for in := bufio.NewReader(r); ; {
		c, err := in.ReadByte()
		switch {
		case err != nil:
			return zeros && err == io.EOF
		case c == 0:
			zeros = true
		case zeros:
			return false
		}
	}
}

// named returns the conversation that a row names.
func (b *batch) named(ctx context.Context, word *string) (convstore.Conversation, error) {
	if word == nil {
		return convstore.Conversation{}, errors.New("names no conversation")
	}
	id, err := convstore.ParseID(*word)
	if err != nil {
		return convstore.Conversation{}, err
	}
	return b.session.Store.Get(ctx, id)
}

// plan returns a query with what is to be done: nothing where it has an answer, else to continue the
// sub-conversation that was cut off, or to begin one. What the store has of another query does not
// count; a row of another one is an error.
func (b *batch) plan(ctx context.Context, it delegate.Item) (delegate.Item, error) {
	e, index := b.earlier, it.Number-1
	if e == nil {
		return it, nil
	}
	if it, ok := e.planned[index]; ok {
		return it, nil
	}
	var err error
	if row, ok := e.rows[index]; ok {
		_, was, err := b.asked(ctx, row.id, it)
		if err == nil && !was {
			err = fmt.Errorf("%s was not asked query %d", row.id, it.Number)
		}
		if err != nil {
			return it, exit.Usagef("--resume %s: row %d: %v", e.path, it.Number, err)
		}
		it.Done = true
	} else {
		it, err = b.planRun(ctx, it)
	}
	if err == nil && (it.Done || len(e.runs[index]) > 0) {
		e.planned[index] = it
		delete(e.runs, index)
	}
	return it, err
}

// planRun is plan for a query without a row that is ok.
func (b *batch) planRun(ctx context.Context, it delegate.Item) (delegate.Item, error) {
	index := it.Number - 1
	runs := b.earlier.runs[index]
	if n := len(runs); n > 0 && runs[n-1].Unstarted && runs[n-1].Fresh {
		it.Call = runs[n-1].Call // nothing has happened: the same call runs, in the conversation made for it
	}
	var conv convstore.Conversation // of the latest run
	var begun bool
	runs = slices.DeleteFunc(slices.Clone(runs), func(del convstore.Delegation) bool {
		c, was, err := b.asked(ctx, del.Child, it)
		if del.Unstarted || err != nil || c.Parent != del.Caller || !was && c.Turns > 0 {
			return true // nothing has happened; it was removed or moved since; it is of another batch
		}
		conv, begun = c, was
		return false
	})
	if len(runs) == 0 {
		return it, nil
	}
	last := runs[len(runs)-1]
	if it.ID == "" {
		runs = append(runs, b.earlier.byHand[last.Child]...)
	}
	for _, del := range slices.Backward(runs) {
		if del.State == convstore.StateOK {
			it.Done, b.earlier.answers[index] = true, del
			break
		}
	}
	var err error
	if it.Earlier, err = b.used(ctx, runs, b.earlier.answers[index]); err != nil || it.Done || it.Call != "" {
		return it, err
	}
	if it.ID != "" { // others may have asked it more since
		it.Resume = begun && conv.Turns == last.ChildTurn
		return it, nil
	}
	if b.changed(ctx, conv) {
		if silent, err := b.silent(ctx, conv.ID); silent || err != nil {
			return it, err
		}
	}
	it.ID, it.Resume = conv.ID.String(), begun
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
		more, err := b.ofRun(ctx, del)
		if err != nil {
			return used, err
		}
		used = used.Add(more)
	}
	return used, nil
}

// ofRun returns what a run has used.
func (b *batch) ofRun(ctx context.Context, del convstore.Delegation) (delegate.Used, error) {
	scope, err := b.session.Store.Below(ctx, del.Caller)
	if err != nil {
		return delegate.Used{}, err
	}
	return delegate.UsedBy(ctx, scope, del)
}

// asked returns a conversation that ran under the profile of a query, and whether it was asked that
// query.
func (b *batch) asked(ctx context.Context, id convstore.ID, it delegate.Item) (conv convstore.Conversation, was bool, err error) {
	if conv, err = b.session.Store.Get(ctx, id); err != nil {
		return conv, false, err
	}
	if it.ID == "" && conv.Profile != it.Config {
		return conv, false, fmt.Errorf("%s ran under the profile %s, not %s", id, conv.Profile, it.Config)
	}
	for ev, err := range b.session.Store.Events(ctx, id, convstore.Range{}) {
		if err != nil {
			return conv, false, err
		}
		if u, ok := ev.Body.(convstore.UserMessage); ok && u.Text == it.Query && bytes.Equal(u.Schema, it.Schema) && it.Attach.Made(u.Attachments) {
			return conv, true, nil
		}
	}
	return conv, false, nil
}

// silent reports whether the model of a conversation has said nothing.
func (b *batch) silent(ctx context.Context, id convstore.ID) (bool, error) {
	for ev, err := range b.session.Store.Events(ctx, id, convstore.Range{}) {
		if err != nil {
			return false, err
		}
		switch ev.Body.(type) {
		case convstore.AssistantMessage, convstore.ToolCall:
			return false, nil
		}
	}
	return true, nil
}

// surplus returns an error if the file has rows for more queries than there were.
func (b *batch) surplus() error {
	if total := max(b.in.total, b.in.read); b.earlier.last > total && (b.in.total >= 0 || b.in.err == io.EOF) {
		return exit.Usagef("--resume %s: has more rows than stdin has queries", b.earlier.path)
	}
	return nil
}

// labelBatch is the label of the conversation that a batch runs below. Its value is the sum of the
// batch.
const labelBatch = "batch"

func (b *batch) labels() map[string]string { return map[string]string{labelBatch: b.sum} }

// anyCall begins the ids of all calls of batches.
const anyCall = "batch-"

// call returns the prefix of the ids of all calls of this batch, in every run.
func (b *batch) call() string { return anyCall + b.sum + "-" }

// newCall returns the prefix of the ids of the calls of this run. It contains the prefix of the
// run that this one resumes.
func (b *batch) newCall() string {
	if b.earlier != nil && b.earlier.line != "" {
		return b.call() + b.earlier.line + "-" + convstore.NewEventID()
	}
	return b.call() + b.line
}

// lineOf returns the part of a call id after call() that a run shares with those that resume it.
func (b *batch) lineOf(call string) string {
	rest, _ := strings.CutPrefix(call, b.call())
	rest, _, _ = strings.Cut(rest, "#")
	line, _, _ := strings.Cut(rest, "-")
	return line
}

// find finds the conversation of the batch: the latest one that has answers in the rows, else the
// latest one with the same sum. It takes the lock of that conversation, so that only one run goes on
// with it, settles what a killed run left open, and ends its turn.
func (b *batch) find(ctx context.Context, parents []convstore.ID) error {
	e := b.earlier
	for _, id := range parents {
		conv, err := b.session.Store.Get(ctx, id)
		if err != nil {
			return err
		}
		if _, ok := conv.Labels[labelBatch]; ok {
			e.below = max(e.below, id)
		}
	}
	if e.below == 0 {
		list, err := b.session.Store.List(ctx, convstore.Filter{Labels: b.labels(), Hidden: true, Archived: true})
		if err != nil {
			return err
		}
		for _, c := range list {
			e.below = max(e.below, c.ID)
		}
	}
	if e.below == 0 {
		return nil
	}
	if err := b.session.Reopen(ctx, e.below); err != nil {
		return err
	}
	if err := b.await(ctx, e.below); err != nil {
		return err
	}
	if err := b.session.EndTurn(ctx, convstore.TurnEnd{State: convstore.StateCancelled, Reason: "killed; another run continues the batch"}); err != nil {
		return err
	}
	for _, id := range parents { // parts of the batch that ran apart, as with --shard
		if id == e.below {
			continue
		}
		list, err := b.session.Store.Delegations(ctx, id)
		if err != nil {
			return err
		}
		for _, del := range list {
			if strings.HasPrefix(del.Call, anyCall) && del.Caller == id {
				e.spent = e.spent.Add(del.Total)
			}
		}
	}
	list, err := b.session.Store.Delegations(ctx, e.below)
	if err == nil {
		b.collect(list, e.below, func(del convstore.Delegation) (int, bool) { return delegate.NumberOf(del, anyCall), true })
	}
	return err
}

// findFor does the same for a batch on behalf of an existing conversation.
func (b *batch) findFor(ctx context.Context) error {
	caller, err := b.env.WS.Target(ctx, b.o.rootID.Value)
	if err != nil {
		return err
	}
	if err := b.claim(ctx, caller, "--resume of batch "+b.sum); err != nil {
		return err
	}
	all, err := b.ledger(ctx, caller)
	if err != nil {
		return err
	}
	// Other runs, which this one does not resume, may have asked the same queries on its behalf.
	var latest time.Time
	for _, del := range all {
		if delegate.NumberOf(del, b.call()) > 0 && del.Caller == caller && del.Reserved.After(latest) {
			latest, b.earlier.line = del.Reserved, b.lineOf(del.Call)
		}
	}
	if b.earlier.line == "" {
		return nil
	}
	if err := b.claimLine(ctx, caller, b.earlier.line); err != nil {
		return err
	}
	if err := b.await(ctx, caller); err != nil {
		return err
	}
	if all, err = b.ledger(ctx, caller); err == nil {
		b.collect(all, caller, func(del convstore.Delegation) (int, bool) {
			return delegate.NumberOf(del, b.call()), strings.HasPrefix(del.Call, b.call()) && b.lineOf(del.Call) == b.earlier.line
		})
	}
	return err
}

// ledger lists the delegations of the ledgers of a conversation and of those above it.
func (b *batch) ledger(ctx context.Context, at convstore.ID) (all []convstore.Delegation, err error) {
	for {
		list, err := b.session.Store.Delegations(ctx, at)
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

// await waits until the sub-agents that earlier runs of this batch started for a caller have ended.
// After that their answers may be in the store.
func (b *batch) await(ctx context.Context, caller convstore.ID) error {
	scope, err := b.session.Store.Below(ctx, caller)
	if err != nil {
		return err
	}
	mine := func(call string) bool {
		return strings.HasPrefix(call, b.call()) && (b.earlier.line == "" || b.lineOf(call) == b.earlier.line)
	}
	return delegate.Await(ctx, scope, mine, func(del convstore.Delegation) { b.env.Con.Note("%s", delegate.Left(del)) })
}

// collect notes those of list that are runs for queries of this batch, and what they have used.
// number returns the number of the query, 0 for none, and whether the delegation is of this batch, as
// those of its reduction are.
func (b *batch) collect(list []convstore.Delegation, caller convstore.ID, number func(convstore.Delegation) (int, bool)) {
	e, ours := b.earlier, map[convstore.ID]bool{}
	for _, del := range list {
		if del.Caller != caller || del.State == "" {
			continue
		}
		n, mine := number(del)
		switch {
		case mine && n > 0:
			ours[del.Child] = true
			e.runs[n-1] = append(e.runs[n-1], del)
		case ours[del.Child] && run.ByHand(del):
			e.byHand[del.Child] = append(e.byHand[del.Child], del)
		case !mine: // of others, on behalf of the same conversation
			continue
		}
		e.spent = e.spent.Add(del.Total)
	}
}

// lessSpent takes what the earlier runs have used off the limits of the flags, which are those of the
// whole batch.
func (b *batch) lessSpent() {
	left := convstore.Budget{Tokens: b.o.tokens.Value, CostNano: b.o.cost.Value}.Minus(convstore.Budget{Tokens: new(b.earlier.spent.Tokens()), CostNano: &b.earlier.spent.CostNano})
	for flag, n := range map[**int64]*int64{&b.o.tokens.Value: left.Tokens, &b.o.cost.Value: left.CostNano} {
		if *flag != nil {
			*flag = new(max(*n, 0))
		}
	}
}

// repeat writes the row of a query that is answered.
func (b *batch) repeat(it delegate.Item) error {
	b.ok++
	if del, ok := b.earlier.answers[it.Number-1]; ok {
		ctx := context.Background() // it is read even when the batch is being stopped
		scope, err := b.session.Store.Below(ctx, del.Caller)
		if err != nil {
			return fmt.Errorf("--resume: %w", err)
		}
		row, err := delegate.Recorded(ctx, scope, del, it.Earlier, maxRow)
		if err != nil {
			return fmt.Errorf("--resume: %w", err)
		}
		b.keep(it, row)
		return b.rows.Add(row.For(it))
	}
	row := b.earlier.rows[it.Number-1]
	raw, err := b.earlier.raw(row)
	if err != nil {
		return err
	}
	if err := b.keepEarlier(it, row, raw); err != nil {
		return err
	}
	return b.rows.Add(json.RawMessage(raw))
}

// again returns the command line that continues this batch, which is that of conversation id.
func (b *batch) again(id convstore.ID) string {
	line, skip := "jp", false
	for _, arg := range b.env.Con.Env.Args[1:] {
		if skip {
			skip = false
			continue
		}
		switch name, _, whole := strings.Cut(arg, "="); name {
		case "--resume", "--record", "--replay":
			skip = !whole
		default:
			line += " " + shellWord(arg)
		}
	}
	return line + " --resume " + id.String()
}

// shellWord quotes a word for a shell where it needs that.
func shellWord(word string) string {
	plain := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("-_./:=,@%+", r)
	}
	if word != "" && !strings.ContainsFunc(word, func(r rune) bool { return !plain(r) }) {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}

// raw returns the JSON of a row of the file.
func (e *earlier) raw(row earlierRow) (json.RawMessage, error) {
	raw := make([]byte, row.size)
	if _, err := e.file.ReadAt(raw, row.at); err != nil {
		return nil, fmt.Errorf("--resume: %w", err)
	}
	return raw, nil
}

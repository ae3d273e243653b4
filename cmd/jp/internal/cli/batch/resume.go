package batch

import (
	"bufio"
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

// earlier has the rows of earlier runs of a batch that were ok. They stay in the file or in the
// store until their turn. A killed run may have answers in the store that are in no row, because
// they waited for the answer to a query before them.
type earlier struct {
	path   string // of file, as it was given
	last   int    // number of its rows
	file   *os.File
	rows   map[int]earlierRow             // rows in the file, by the index of their query
	stored map[int][]convstore.Delegation // what may be answers that are only in the store, likewise
	asked  map[int]bool                   // whether the conversation of a row was compared with its query
	read   func(convstore.Delegation) (delegate.Row, error)
	below  convstore.ID    // conversation of the latest earlier run; 0 = none was found
	spent  convstore.Spend // what the earlier runs have used
	line   string          // with --root-id: prefix of the latest run and those that it resumed; "" = none was found
}

// earlierRow is a row that is ok in the file of --resume.
type earlierRow struct {
	at, size int64
	id       convstore.ID
}

// count returns the number of queries that are answered.
func (e *earlier) count() int {
	if e == nil {
		return 0
	}
	return len(e.rows) + len(e.stored)
}

func (e *earlier) known(index int) bool {
	_, row := e.rows[index]
	_, stored := e.stored[index]
	return row || stored
}

func (e *earlier) close() {
	if e != nil {
		_ = e.file.Close()
	}
}

// resume reads the output of an earlier run of the same batch, and finds what that has stored and
// not written.
func (b *batch) resume(ctx context.Context, path string) (err error) {
	e := &earlier{path: path, rows: map[int]earlierRow{}, stored: map[int][]convstore.Delegation{}, asked: map[int]bool{}}
	var below []convstore.ID // parents of the conversations that the rows name
	file, info, err := files.OpenRegular(files.Disk{}, b.env.Con.Abs(path), os.O_RDONLY, 0)
	if err != nil {
		return exit.Usagef("--resume %s: %v", path, files.Reason(err))
	}
	e.file, b.earlier = file, e
	if out, ok := b.env.Con.Env.Stdout.(*os.File); ok {
		if now, err := out.Stat(); err == nil && os.SameFile(info, now) {
			return exit.Usagef("--resume %s: is the file that stdout goes to", path).WithHint("write to another file: the rows that are ok are repeated there")
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
		case err == io.EOF, err == io.ErrUnexpectedEOF: // a row that was cut off is run again
			if err := b.findStored(ctx, below); err != nil {
				return err
			}
			b.lessSpent()
			return nil
		case err != nil:
			return exit.Usagef("--resume %s: row %d: %v", path, index+1, err).
				WithHint("`head -n %d` writes the rows before it to a file to resume from; those after it are asked again", index)
		}
		var row struct {
			ID     *string `json:"conversation_id"`
			Status string  `json:"status"`
		}
		if err := json.Unmarshal(raw, &row); err != nil || row.Status == "" {
			return exit.Usagef("--resume %s: row %d: is not a row of a batch", path, index+1).WithHint("it reads JSON Lines, what `jp batch` writes without -F json")
		}
		if e.last = index + 1; convstore.State(row.Status) != convstore.StateOK {
			continue
		}
		conv, err := b.named(ctx, row.ID)
		if err != nil {
			return exit.Usagef("--resume %s: row %d: %v", path, index+1, err)
		}
		if !slices.Contains(below, conv.Parent) {
			below = append(below, conv.Parent)
		}
		e.rows[index] = earlierRow{dec.InputOffset() - int64(len(raw)), int64(len(raw)), conv.ID}
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

// isAnswered reports whether an earlier run has answered a query. An answer in the store that is to
// another query is forgotten; a row that is makes an error.
func (b *batch) isAnswered(ctx context.Context, it delegate.Item) (bool, error) {
	e, index := b.earlier, it.Number-1
	if e.asked[index] || !e.known(index) {
		return e.asked[index], nil
	}
	if row, ok := e.rows[index]; ok {
		if _, err := b.answers(ctx, row.id, it); err != nil {
			return false, exit.Usagef("--resume %s: row %d: %v", e.path, it.Number, err)
		}
		e.asked[index] = true
		return true, nil
	}
	for _, del := range e.stored[index] { // others were removed or moved since, or are those of another batch
		if parent, err := b.answers(ctx, del.Child, it); err == nil && parent == del.Caller {
			e.stored[index], e.asked[index] = []convstore.Delegation{del}, true
			return true, nil
		}
	}
	delete(e.stored, index)
	return false, nil
}

// surplus returns an error if the file has rows for more queries than there were.
func (b *batch) surplus() error {
	if total := max(b.in.total, b.in.read); b.earlier.last > total && (b.in.total >= 0 || b.in.err == io.EOF) {
		return exit.Usagef("--resume %s: has more rows than stdin has queries", b.earlier.path)
	}
	return nil
}

// answers checks that a conversation was asked a query, under its profile, and returns its parent.
func (b *batch) answers(ctx context.Context, id convstore.ID, it delegate.Item) (parent convstore.ID, err error) {
	conv, err := b.session.Store.Get(ctx, id)
	if err != nil {
		return 0, err
	}
	if it.ID == "" && conv.Profile != it.Config {
		return 0, fmt.Errorf("%s ran under the profile %s, not %s", id, conv.Profile, it.Config)
	}
	for ev, err := range b.session.Store.Events(ctx, id, convstore.Range{}) {
		if err != nil {
			return 0, err
		}
		if u, ok := ev.Body.(convstore.UserMessage); ok && u.Text == it.Query {
			return conv.Parent, nil
		}
	}
	return 0, fmt.Errorf("%s was not asked query %d", id, it.Number)
}

// The labels of the conversation that a batch runs below.
const (
	labelBatch   = "batch"         // sum of its queries
	labelResumes = "batch_resumes" // conversation of the run that it resumes
)

func (b *batch) labels() map[string]string {
	l := map[string]string{labelBatch: b.sum}
	if b.earlier != nil && b.earlier.below != 0 {
		l[labelResumes] = b.earlier.below.String()
	}
	return l
}

// call returns the prefix of the ids of all calls of this batch, in every run.
func (b *batch) call() string { return "batch-" + b.sum + "-" }

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

// findStored finds the answers that earlier runs of this batch have stored and not written. It
// looks below the latest run with the same sum, below the parents that the rows name, and below
// the runs that these resumed.
func (b *batch) findStored(ctx context.Context, below []convstore.ID) error {
	if b.o.rootID.Set {
		return b.findStoredFor(ctx)
	}
	list, err := b.session.Store.List(ctx, convstore.Filter{Labels: map[string]string{labelBatch: b.sum}, Hidden: true, Archived: true})
	if err != nil {
		return err
	}
	runs := make(map[convstore.ID]convstore.Conversation, len(list))
	for _, c := range list {
		runs[c.ID] = c
		b.earlier.below = max(b.earlier.below, c.ID)
	}
	if b.earlier.below != 0 {
		if err := b.claim(ctx, b.earlier.below, "--resume"); err != nil { // held until this run ends
			return err
		}
	}
	seen := map[convstore.ID]bool{}
	for _, id := range append([]convstore.ID{b.earlier.below}, below...) {
		for run, ok := runs[id]; ok && !seen[run.ID]; run, ok = runs[id] {
			seen[run.ID] = true
			if err := b.endKilled(ctx, run); err != nil {
				return err
			}
			if err := b.storedBelow(ctx, run.ID, run.ID); err != nil {
				return err
			}
			if id, err = convstore.ParseID(run.Labels[labelResumes]); err != nil {
				break // it resumed none
			}
		}
	}
	return nil
}

// findStoredFor does the same for a batch on behalf of an existing conversation.
func (b *batch) findStoredFor(ctx context.Context) error {
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
		b.stored(ctx, all, caller)
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

// endKilled settles what an earlier run that was killed left open, and ends its turn. It returns an
// error if that run has not ended.
func (b *batch) endKilled(ctx context.Context, conv convstore.Conversation) error {
	if conv.Status != convstore.StatusInterrupted && conv.Status != convstore.StatusRunning {
		return nil
	}
	log, err := b.session.Store.Lock(ctx, conv.ID)
	if err != nil {
		return err
	}
	if err = b.await(ctx, conv.ID); err == nil {
		_, err = log.Below().Reserve(ctx, func(convstore.Standing) ([]convstore.Child, error) { return nil, nil })
	}
	if err == nil {
		err = log.Append(ctx, run.At(convstore.TurnEnd{State: convstore.StateCancelled, Reason: "killed; another run continues the batch"}))
	}
	return errors.Join(err, log.Close())
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

// storedBelow adds the answers to queries of this batch in the ledger of root, for calls of caller.
func (b *batch) storedBelow(ctx context.Context, root, caller convstore.ID) error {
	list, err := b.session.Store.Delegations(ctx, root)
	if err == nil {
		b.stored(ctx, list, caller)
	}
	return err
}

// stored adds those of list that answer queries of this batch to the earlier answers.
func (b *batch) stored(ctx context.Context, list []convstore.Delegation, caller convstore.ID) {
	for _, del := range list {
		index := delegate.NumberOf(del, b.call()) - 1
		if line := b.earlier.line; line != "" && b.lineOf(del.Call) != line {
			continue
		}
		if index < 0 || del.Caller != caller {
			continue
		}
		b.earlier.spent = b.earlier.spent.Add(del.Total)
		if _, ok := b.earlier.rows[index]; !ok && del.State == convstore.StateOK {
			b.earlier.stored[index] = append(b.earlier.stored[index], del)
		}
	}
	b.earlier.read = func(del convstore.Delegation) (delegate.Row, error) {
		scope, err := b.session.Store.Below(context.WithoutCancel(ctx), del.Caller)
		if err != nil {
			return delegate.Row{}, err
		}
		return delegate.Recorded(context.WithoutCancel(ctx), scope, del, maxRow)
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

// repeat writes the earlier row of the query with an index.
func (b *batch) repeat(index int) error {
	b.ok++
	if list := b.earlier.stored[index]; len(list) > 0 {
		row, err := b.earlier.read(list[0])
		if err != nil {
			return fmt.Errorf("--resume: %w", err)
		}
		return b.rows.Add(row)
	}
	row := b.earlier.rows[index]
	raw := make([]byte, row.size)
	if _, err := b.earlier.file.ReadAt(raw, row.at); err != nil {
		return fmt.Errorf("--resume: %w", err)
	}
	return b.rows.Add(json.RawMessage(raw))
}

package batch

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"jp/cmd/jp/internal/delegate"
	"jp/cmd/jp/internal/exit"
	"jp/cmd/jp/internal/run"
	"jp/convstore"
	"jp/tools/files"
)

// earlier is what an earlier run of a batch has come to: the rows that were ok. They stay in the
// file, or in the store, until it is their turn. A run that was killed had answers that waited for
// the one of a query before them, and were in no row.
type earlier struct {
	file   *os.File
	rows   map[int]struct{ at, size int64 } // by the place of their query, from 0
	stored map[int]convstore.Delegation     // those that are in the store only
	read   func(convstore.Delegation) (delegate.Row, error)
	below  convstore.ID // what the latest of the earlier runs ran below; 0 = none was found
	line   string       // with --root-id: names the latest run and those that it went on with; "" = none was found
}

func (e *earlier) known(place int) bool {
	_, row := e.rows[place]
	_, stored := e.stored[place]
	return row || stored
}

func (e *earlier) close() {
	if e != nil {
		_ = e.file.Close()
	}
}

// resume reads what an earlier run of the same batch has written and leaves the queries that were
// answered there out of those to run. That they are the same is seen by the conversations that the
// rows name: each was asked that query.
func (b *batch) resume(ctx context.Context, path string) (err error) {
	e := &earlier{rows: map[int]struct{ at, size int64 }{}, stored: map[int]convstore.Delegation{}}
	var below []convstore.ID // what the runs that rows name ran below
	file, info, err := files.OpenRegular(files.Disk{}, b.env.Con.Abs(path), os.O_RDONLY, 0)
	if err != nil {
		return exit.Usagef("--resume %s: %v", path, files.Reason(err))
	}
	e.file, b.earlier = file, e
	if out, ok := b.env.Con.Env.Stdout.(*os.File); ok {
		if now, err := out.Stat(); err == nil && os.SameFile(info, now) {
			return exit.Usagef("--resume %s: is the file that stdout goes to", path).WithHint("write into another one: what is known is repeated there")
		}
	}
	dec := json.NewDecoder(e.file)
	for place := 0; ; place++ {
		var raw json.RawMessage
		err := dec.Decode(&raw)
		if err != nil && endsInZeros(io.NewSectionReader(e.file, dec.InputOffset(), info.Size())) {
			b.env.Con.Note("--resume %s: ends in zeros, as after a power cut: row %d, where they begin, counts as cut off", path, place+1)
			err = io.ErrUnexpectedEOF
		}
		switch {
		case err == io.EOF, err == io.ErrUnexpectedEOF: // what was cut off in a row is run again
			if err := b.findStored(ctx, below); err != nil {
				return err
			}
			return b.leaveOut()
		case err != nil:
			return exit.Usagef("--resume %s: row %d: %v", path, place+1, err).
				WithHint("`head -n %d` writes the rows before it to a file to resume from; those after it are asked again", place)
		}
		var row struct {
			ID     *string `json:"conversation_id"`
			Status string  `json:"status"`
		}
		if err := json.Unmarshal(raw, &row); err != nil || row.Status == "" {
			return exit.Usagef("--resume %s: row %d: is not a row of a batch", path, place+1).WithHint("it reads JSON Lines, what `jp batch` writes without -F json")
		}
		if place >= len(b.items) {
			return exit.Usagef("--resume %s: has more rows than stdin has queries", path)
		}
		if convstore.State(row.Status) != convstore.StateOK {
			continue
		}
		parent, err := b.answers(ctx, row.ID, place)
		if err != nil {
			return exit.Usagef("--resume %s: row %d: %v", path, place+1, err)
		}
		below = append(below, parent)
		e.rows[place] = struct{ at, size int64 }{dec.InputOffset() - int64(len(raw)), int64(len(raw))}
	}
}

// endsInZeros reports whether there are zero bytes, and nothing else behind the first of them.
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

// answers checks that a conversation was asked the query at a place, under its profile, and returns
// its parent.
func (b *batch) answers(ctx context.Context, word *string, place int) (parent convstore.ID, err error) {
	if word == nil {
		return 0, errors.New("names no conversation")
	}
	id, err := convstore.ParseID(*word)
	if err != nil {
		return 0, err
	}
	conv, err := b.session.Store.Get(ctx, id)
	if err != nil {
		return 0, err
	}
	it := b.items[place]
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
	return 0, fmt.Errorf("%s was not asked what query %d asks", id, place+1)
}

// The labels of the conversation that a batch runs below.
const (
	labelBatch   = "batch"         // the sum of its queries
	labelResumes = "batch_resumes" // the conversation of the run that it goes on with
)

func (b *batch) labels() map[string]string {
	l := map[string]string{labelBatch: b.sum}
	if b.earlier != nil && b.earlier.below != 0 {
		l[labelResumes] = b.earlier.below.String()
	}
	return l
}

// call begins the ids of all calls of this batch, whoever makes them.
func (b *batch) call() string { return "batch-" + b.sum + "-" }

// newCall begins the ids of the calls of this run: a run that resumes
// an earlier one uses the same ids.
func (b *batch) newCall() string {
	if b.earlier != nil && b.earlier.line != "" {
		return b.call() + b.earlier.line + "-" + convstore.NewEventID()
	}
	return b.call() + b.line
}

// lineOf is what the calls of a run, and of those that went on with it, begin with after call.
func (b *batch) lineOf(call string) string {
	rest, _ := strings.CutPrefix(call, b.call())
	rest, _, _ = strings.Cut(rest, "#")
	line, _, _ := strings.Cut(rest, "-")
	return line
}

// sumOf tells one batch from others: same queries, in the same order, under the same profiles.
func sumOf(items []delegate.Item) string {
	h := sha256.New()
	for _, it := range items {
		fmt.Fprintf(h, "%q %q %q %q\n", it.Config, it.Query, it.ID, it.Context)
	}
	return hex.EncodeToString(h.Sum(nil)[:8])
}

// findStored finds the answers that earlier runs of this batch have stored and not written: below
// what the rows name and the latest run that asked the same, and below those that these went on
// with.
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
		if err := b.claim(ctx, b.earlier.below, "--resume"); err != nil { // until this run ends, which comes after it
			return err
		}
	}
	seen := map[convstore.ID]bool{}
	for _, id := range append([]convstore.ID{b.earlier.below}, below...) {
		for run, ok := runs[id]; ok && !seen[run.ID]; run, ok = runs[id] {
			seen[run.ID] = true
			if err := b.leave(ctx, run); err != nil {
				return err
			}
			if err := b.storedBelow(ctx, run.ID, run.ID); err != nil {
				return err
			}
			if id, err = convstore.ParseID(run.Labels[labelResumes]); err != nil {
				break // it went on with none
			}
		}
	}
	return nil
}

// findStoredFor is findStored on behalf of an existing conversation.
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
	// The same queries may have been asked on behalf of it before, by runs that this one does not
	// go on with.
	var latest time.Time
	for _, del := range all {
		if delegate.PlaceOf(del, b.call()) > 0 && del.Caller == caller && del.Reserved.After(latest) {
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

// claim keeps other batches from something about a conversation until this one ends.
func (b *batch) claim(ctx context.Context, of convstore.ID, what string) error {
	held, err := b.session.Store.Claim(ctx, of, what)
	if err == nil {
		b.claims = append(b.claims, held)
	}
	return err
}

// claimLine claims what the calls of a run with --root-id, and of those that go on with it, begin
// with: such a run has no conversation of its own, whose run lock would say that it has not ended.
func (b *batch) claimLine(ctx context.Context, caller convstore.ID, line string) error {
	return b.claim(ctx, caller, "batch "+line)
}

// leave ends an earlier run that was killed: what it left open is settled. One that still runs is
// left alone, and so is its batch.
func (b *batch) leave(ctx context.Context, conv convstore.Conversation) error {
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

// await waits until the sub-agents of a caller have ended that earlier runs of this batch have left:
// their answers may be stored by now.
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

// storedBelow notes the answers to queries of this batch that a caller has in the ledger of a root.
func (b *batch) storedBelow(ctx context.Context, root, caller convstore.ID) error {
	list, err := b.session.Store.Delegations(ctx, root)
	if err == nil {
		b.stored(ctx, list, caller)
	}
	return err
}

func (b *batch) stored(ctx context.Context, list []convstore.Delegation, caller convstore.ID) {
	for _, del := range list {
		place := delegate.PlaceOf(del, b.call()) - 1
		if line := b.earlier.line; line != "" && b.lineOf(del.Call) != line {
			continue
		}
		if place < 0 || place >= b.total || del.Caller != caller || del.State != convstore.StateOK || b.earlier.known(place) {
			continue
		}
		word := del.Child.String()
		if parent, err := b.answers(ctx, &word, place); err == nil && parent == caller { // not where it was removed or moved since
			b.earlier.stored[place] = del
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

// leaveOut takes the answered queries out of those to run.
func (b *batch) leaveOut() error {
	rest := b.items[:0:0]
	for place, it := range b.items {
		if !b.earlier.known(place) {
			rest = append(rest, it)
			b.places = append(b.places, place)
		}
	}
	b.items = rest
	b.env.Con.Note("%d of %d queries were answered before", b.total-len(rest), b.total)
	return nil
}

// repeat writes the known rows that stand before a place.
func (b *batch) repeat(before int) error {
	for ; b.written < before && b.earlier != nil; b.written++ {
		if del, ok := b.earlier.stored[b.written]; ok {
			row, err := b.earlier.read(del)
			if err != nil {
				return fmt.Errorf("--resume: %w", err)
			}
			b.ok++
			if err := b.rows.Add(row); err != nil {
				return err
			}
			continue
		}
		row, ok := b.earlier.rows[b.written]
		if !ok {
			continue
		}
		raw := make([]byte, row.size)
		if _, err := b.earlier.file.ReadAt(raw, row.at); err != nil {
			return fmt.Errorf("--resume: %w", err)
		}
		b.ok++
		if err := b.rows.Add(json.RawMessage(raw)); err != nil {
			return err
		}
	}
	return nil
}

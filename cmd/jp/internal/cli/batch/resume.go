package batch

import (
	"context"
	"io"
	"os"
	"strings"
	"sync"

	"jp/cmd/jp/internal/delegate"
	"jp/cmd/jp/internal/exit"
	"jp/cmd/jp/internal/run"
	"jp/cmd/jp/internal/wording"
	"jp/convstore"
)

// earlier is what the earlier runs of a batch have left: the rows that were ok, which stay in the
// file of --resume until their turn, and in the store the runs of all sub-agents. The store decides
// where a row does not say ok, since a killed run has answers there that it has not written.
type earlier struct {
	path  string                // value of --resume
	file  *os.File              // nil = it names a conversation
	last  int                   // number of rows in file
	rows  map[int]earlierRow    // those that are ok, by the index of their query
	below convstore.ID          // conversation of the batch, which goes on; 0 = none
	line  string                // with --root-id: part of the calls of the runs that it goes on with; "" = none was found
	named map[convstore.ID]bool // conversations in rows, but for those whose answers were reused

	runs   map[string][]convstore.Delegation       // runs for a query, oldest first, by its delegate.Item.Mark
	under  map[int]convstore.ID                    // the latest of their conversations, by the index of the query
	byHand map[convstore.ID][]convstore.Delegation // runs that a person has added, by the sub-conversation
	spent  convstore.Budget                        // use of all of them, and what those may use yet that have not ended
	seen   uint64                                  // number of the latest delegation below, when they were found
	apart  map[convstore.ID][]string               // the conversation of each part that ran apart; with --root-id a sub-conversation and the line of its calls
	flags  convstore.Budget                        // limits of the flags, before spent was taken off
	again  func() error                            // counts spent again, with --root-id
	marks  map[convstore.ID][]string               // the marks of what conversations were asked
	beside map[string][]convstore.Delegation       // as runs, of the parts that ran apart

	mu      sync.Mutex                   // for the fields below: rows are repeated while further lines of a pipe are planned
	planned map[int]delegate.Item        // what is to be done about queries whose row is to come, by their index, without what they ask
	done    int                          // number of those, and of those before, that have an answer
	answers map[int]convstore.Delegation // runs with the answers that are in no row, likewise
	parts   map[int]convstore.Delegation // the latest runs that came to a part of an answer, likewise
	reused  map[string]earlierRow        // rows with an answer that was there before, by what all equal lines have in their marks; nil = not sought yet
	instead map[string]string            // marks of equal queries whose runs another one has, and the marks of the runs that they have instead
	has     map[string]bool              // marks of runs that a query has
	hashes  map[string]string            // present hashes of profiles, by their names

	same    int   // queries that were run before, under whatever number
	changed []int // numbers of those that are others now
	why     error // why the first of them is another one
}

func newEarlier() *earlier {
	return &earlier{
		spent: convstore.Spend{}.Budget(), rows: map[int]earlierRow{}, named: map[convstore.ID]bool{}, runs: map[string][]convstore.Delegation{},
		under: map[int]convstore.ID{}, byHand: map[convstore.ID][]convstore.Delegation{}, marks: map[convstore.ID][]string{},
		beside: map[string][]convstore.Delegation{}, planned: map[int]delegate.Item{}, apart: map[convstore.ID][]string{},
		answers: map[int]convstore.Delegation{}, parts: map[int]convstore.Delegation{}, hashes: map[string]string{},
		instead: map[string]string{}, has: map[string]bool{},
	}
}

func (e *earlier) close() {
	if e != nil && e.file != nil {
		_ = e.file.Close()
	}
}

// resume finds what earlier runs of the batch have left: those of the conversation that value
// names, or those whose output is the file of this name.
func (b *batch) resume(ctx context.Context, value string) error {
	b.earlier = newEarlier()
	b.earlier.path, b.earlier.flags = value, convstore.Budget{Tokens: b.o.tokens.Value, CostNano: b.o.cost.Value}
	var parents []convstore.ID // of the conversations that rows name, below which the batch ran
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
		if b.root != id {
			return exit.Usagef("--resume %s: is not %s, on whose behalf the batch runs", id, b.root)
		}
		return nil
	}
	ran, err := b.ran(ctx, conv)
	if err != nil {
		return err
	}
	imported, err := b.session.Store.Imported(ctx, id)
	if err != nil {
		return err
	}
	switch _, ok := conv.Labels[convstore.LabelBatch]; {
	case ok && !ran && conv.Link == convstore.NoLink && imported != nil:
		return exit.Usagef("--resume %s: is a batch that was imported, and does not go on here", id).WithHint("%s", run.BatchAgain)
	case !ok || !ran && conv.Link != convstore.NoLink:
		return exit.Usagef("--resume %s: is not the conversation of a batch", id).WithHint("`jp conversation ls --root --label %s` lists them", convstore.LabelBatch)
	}
	b.earlier.below = id
	return nil
}

// lessSpent takes what the earlier runs have used off the limits of the flags, which are those of
// the whole batch.
func (b *batch) lessSpent() {
	left := b.earlier.flags.Minus(b.earlier.spent)
	for flag, n := range map[**int64]*int64{&b.o.tokens.Value: left.Tokens, &b.o.cost.Value: left.CostNano} {
		if *flag != nil {
			*flag = new(max(*n, 0))
		}
	}
}

// another returns an error if queries were run before and none of them is the same now: it is
// another batch. Of a pipe the first of them decides.
func (e *earlier) another() error {
	if e.same > 0 || e.why == nil {
		return nil
	}
	return exit.Usagef("--resume %s: ran none of these queries: %v", e.path, e.why).
		WithHint("give the lines of the earlier batch; without --resume these begin a new one")
}

// surplus returns an error if the file has rows for more queries than there were.
func (b *batch) surplus() error {
	if total := max(b.in.total, b.in.read); b.earlier.last > total && (b.in.total >= 0 || b.in.err == io.EOF) {
		return exit.Usagef("--resume %s: has more rows than stdin has queries", b.earlier.path)
	}
	return nil
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
			line += " " + wording.ShellWord(arg)
		}
	}
	return line + " --resume " + id.String()
}

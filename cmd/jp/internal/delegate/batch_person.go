package delegate

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"golang.org/x/sync/semaphore"

	"jp/cmd/jp/internal/agent"
	"jp/cmd/jp/internal/attach"
	"jp/cmd/jp/internal/model"
	"jp/cmd/jp/internal/rule"
	"jp/cmd/jp/internal/stream"
	"jp/cmd/jp/internal/subprocess"
	"jp/convstore"
	"jp/tools/brief"
)

// Item is one task of a batch that a person gives.
type Item struct {
	Config, Query string
	Label         string          // word for its row; "" = none
	ID            string          // sub-conversation to continue; "" = a new one
	Context       string          // query for its context tool, before it begins; "" = none
	Schema        json.RawMessage // schema of the answer; nil = free text
	Overrides     []string        // values of its config: see OverrideModel
	MaxTokens     *int64          // most tokens that it shall be granted; nil = as the others
	Timeout       string          // see ParseTimeout
	Attach        attach.Refs     // what is attached to the query
	Reuse         bool            // whether an answer that is there from before will do
	Number        int             // number among all tasks of the batch, from 1
	Mark          string          // name for all that is asked: letters and digits, part of the call's id; "" = none
	Done          bool            // whether it has an answer already: it is reported in its turn, and not run
	// id of the call of an earlier batch that reserved it and ran nothing; "" = it gets one
	Call string
	// the turn of ID that was asked the query, and goes on where it stopped; 0 = none. If others have
	// asked more there when it runs, it is asked the query again.
	Resume  int
	Earlier Used // use of earlier runs for it, which its row counts too
}

// Used is what runs for a task have used.
type Used struct {
	Spend convstore.Spend
	Calls int // of models
}

// Add returns the sum of both.
func (u Used) Add(v Used) Used { return Used{u.Spend.Add(v.Spend), u.Calls + v.Calls} }

// UsedBy returns what a delegation that has ended has used.
func UsedBy(ctx context.Context, v convstore.View, del convstore.Delegation) (Used, error) {
	e, _, err := recorded(ctx, v, del)
	if Gone(err) {
		err = nil
	}
	return Used{e.Total, e.Calls}, err
}

// count adds what earlier runs have used.
func (e *ending) count(u Used) { e.Total, e.Calls = e.Total.Add(u.Spend), e.Calls+u.Calls }

// NumberOf returns the number of the task that a delegation carried out in the batch with this
// call, 0 if the delegation belongs to another call.
func NumberOf(del convstore.Delegation, call string) int {
	rest, ok := strings.CutPrefix(del.Call, call)
	if !ok {
		return 0
	}
	_, digits, _ := strings.Cut(rest, "#")
	digits, _, _ = strings.Cut(digits, ".") // what follows is the attempt
	number, err := strconv.Atoi(digits)
	if err != nil {
		return 0
	}
	return number
}

// RanFor reports whether a delegation is the run of a line of a batch for a caller here.
func RanFor(caller convstore.ID, del convstore.Delegation) bool {
	return del.Caller == caller && !del.Imported && NumberOf(del, model.CallOfBatch) > 0
}

// MarkOf returns the mark of the task that a delegation carried out; "" = it has none.
func MarkOf(del convstore.Delegation) string {
	call, _, _ := strings.Cut(del.Call, "#")
	_, mark, _ := strings.Cut(call, marked)
	return mark
}

// marked is between the id of a call and the mark of its task.
const marked = "~"

// personCall identifies a task of a person, see MarkOf and NumberOf. What is behind the # is the
// place of the task in a recording.
func personCall(call string, it Item) string {
	if it.Mark != "" {
		call += marked + it.Mark
	}
	return itemCall(call, it.Number)
}

// Recorded returns the row of a delegation that has ended, as the store has it, with at most limit
// bytes of its text. It counts what earlier runs for the same task have used.
func Recorded(ctx context.Context, v convstore.View, del convstore.Delegation, earlier Used, limit int) (Row, error) {
	e, _, err := recorded(ctx, v, del)
	if err != nil && !Gone(err) {
		return Row{}, err
	}
	e.count(earlier)
	o := outcome{child: del.Child, ending: e}
	if err != nil {
		o.denied = unreadable(err)
	}
	r := o.row(nil, limit)
	r.Detail = o.detail()
	return r, nil
}

// Work says how the tasks of a batch are carried out.
type Work struct {
	Parallel int              // number of tasks that run at the same time
	Most     convstore.Budget // most that a task is granted, in all its attempts
	Purse    *Purse           // what all of them may use together; nil = what the account has
	Retry    int              // how often a task is tried again that may succeed then
	Among    int              // least number of tasks that share what is free, where Most does not bound them
	Text     int              // most bytes of a text in a row; 0 = Options.InlineResult

	// Attach reads what a task attaches, when it begins. It reads what the person may read who gave
	// the task.
	Attach func(context.Context, attach.Refs) ([]convstore.Attachment, error)

	// Ended is told the end of each task that was run, without its text, at once; nil = nobody is.
	// It is called from the goroutine that calls report.
	Ended func(Row)

	tool string // tool whose call delegates; "" = that for batches
}

// For returns the row of a task as a person sees it: with the words of the task.
func (r Row) For(it Item) Row {
	r.Query, _ = brief.Cut(it.Query, maxEcho)
	r.Label = it.Label
	return r
}

// maxEcho is how many bytes of its query the row of a person's task has.
const maxEcho = 1 << 20

func (o *outcome) detail() *Detail {
	u := o.Total.Usage
	var failed *RowError
	if !o.useful() {
		failed = &RowError{o.code()}
	}
	return &Detail{
		Error: failed,
		Model: o.Model, DurationMS: o.Took.Milliseconds(),
		Usage: stream.Usage{InputTokens: u.Input, OutputTokens: u.Output, CacheReadTokens: u.CacheRead, CacheWriteTokens: u.CacheWrite},
	}
}

// AnswerOf returns at most limit bytes of the answer that a turn gave, as a row has it.
func AnswerOf(ctx context.Context, v convstore.View, id convstore.ID, turn, limit int) (string, error) {
	events, err := turnOf(ctx, v, id, turn)
	o := outcome{ending: answered(events)}
	return strings.TrimSuffix(o.text(id, limit), "\n"), err
}

// Bounds of the tasks of a batch that run, or wait for the report of an earlier one.
const (
	maxAhead      = 4096      // tasks
	maxAheadBytes = 128 << 20 // bytes of what they ask
)

// size returns how many bytes of memory a task takes, about.
func (it Item) size() int64 {
	return min(int64(len(it.Query)+len(it.Context)+len(it.Schema)+len(it.Label)), maxAheadBytes)
}

// Batch carries out the tasks of a person, some of them at a time. It calls next for a task when
// there is a slot for it, until next returns an error; io.EOF says that there are no more. It
// passes the end of each task to report, in the order of the tasks, as soon as the tasks before it
// have been reported. call identifies the batch among all calls of its caller.
//
// Unlike an item of a tool call, a task is reserved only when it is about to run, so that the
// ledger holds no more than what runs. An answer that has to wait for its turn is not held in
// memory: it is read from the store again.
//
// When ctx ends, or report or the store fails, the children that run are stopped and, unless report
// has failed, reported, and so are, as cancelled, the tasks that next still returns. After an error
// of next no other task begins, and those that run go on to their end. The error is the first one
// of report, or of the store, or the cause of ctx, or that of next.
func (d *Delegator) Batch(ctx context.Context, call string, next func(context.Context) (Item, error), w Work, report func(Item, Row) error) error {
	tool := toolBatch
	if _, ok := d.set.Get(tool); !ok {
		tool = toolQuery // for a conversation that holds no other
	}
	text := cmp.Or(w.Text, d.inline)
	run, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	type end struct {
		index int
		item  Item
		outcome
		tries int
		err   error
		held  int64 // of the item
	}
	ends := make(chan end)
	ahead := make(chan struct{}, maxAhead)
	room := semaphore.NewWeighted(maxAheadBytes)
	drawn := make(chan int, 1) // number of all tasks
	var unread error           // error of next; set before drawn is
	go func() {
		slots := make(chan struct{}, max(w.Parallel, 1))
		last := map[string]chan struct{}{}
		for index := 0; ; index++ {
			slots <- struct{}{}
			ahead <- struct{}{}
			it, err := next(run)
			if err != nil {
				if err != io.EOF && run.Err() == nil {
					unread = err
				}
				drawn <- index
				return
			}
			held := it.size()
			_ = room.Acquire(context.Background(), held) // tasks before it hold the rest, and come to an end
			var a admission
			put := func(convstore.Spend) {}
			if run.Err() == nil && !it.Done {
				args := arguments{
					Config: it.Config, Query: it.Query, ID: it.ID, Context: it.Context,
					Schema: it.Schema, Overrides: it.Overrides, MaxTokens: it.MaxTokens, Timeout: it.Timeout, Label: it.Label,
				}
				a.request, a.err = d.catalog.request(run, cmp.Or(it.Call, personCall(call, it)), tool, args)
				put = w.Purse.take(&a.Ask, w.Most.Min(a.Want))
				a.Batch, a.ofPerson, a.place = new(rule.Batch), w.tool == "", index+1 // rows are reported in this order
				a.Among, a.Tool = w.Among, cmp.Or(w.tool, a.Tool)
				if a.Refs = it.Attach; it.Reuse && it.Resume == 0 {
					a.Reuse = d.readable
				}
				a.line(last)
			}
			go func() {
				e := end{index: index, held: held, outcome: outcome{ending: unstarted()}}
				if it.Resume != 0 && a.Call != "" && a.err == nil {
					it.Resume = d.goesOn(run, &a, it.Resume)
				}
				if a.Call != "" && a.err == nil && len(it.Attach) > 0 && it.Resume == 0 {
					a.err = a.attach(run, it.Attach, w.Attach)
				}
				if a.Call != "" {
					e.outcome, e.tries, e.err = d.try(run, a, w.Retry)
				}
				put(e.Total)
				e.item = it
				if e.count(it.Earlier); e.child == 0 {
					e.child = a.ID // it is still the one to continue
				}
				<-slots
				ends <- e
			}()
		}
	}()

	var failed, broken error // of report, and of the store
	waiting := map[int]end{}
	all := -1 // number of all tasks; -1 = not known yet
	for next := 0; all < 0 || next < all; {
		var e end
		select {
		case all = <-drawn:
			continue
		case e = <-ends:
		}
		if e.err != nil && run.Err() == nil { // of the store: nothing more can be run
			broken = e.err
			stop(e.err)
		}
		if w.Ended != nil && !e.item.Done {
			head := e.outcome
			head.Text = ""
			w.Ended(head.row(e.err, 0))
		}
		e.item.Context, e.item.Schema = "", nil
		if e.index != next && e.err == nil {
			e.Text = "" // it is in the store, and so is the query
			if q := e.item.Query; e.Turn != 0 && e.item.Resume == 0 && len(q) > 1<<10 && q == agent.Stored(q) {
				e.item.Query = ""
			}
		}
		room.Release(e.held - e.item.size())
		e.held = e.item.size()
		waiting[e.index] = e
		for {
			e, ok := waiting[next]
			if !ok {
				break
			}
			delete(waiting, next)
			next++
			<-ahead
			room.Release(e.held)
			if e.child != 0 && (e.Text == "" || e.item.Query == "") {
				d.reread(ctx, &e.outcome, &e.item)
			}
			if failed == nil {
				row := e.row(e.err, text).For(e.item)
				row.Why, row.Detail = e.denied, e.detail()
				if e.tries > 1 {
					row.Attempts = e.tries
				}
				if no := (*rule.Refusal)(nil); errors.As(e.denied, &no) && no.Code == rule.CodeProvider { // nothing is wrong with the task
					row.Status, row.Reason = string(convstore.StatusQueued), no.Why
				}
				if failed = report(e.item, row); failed != nil {
					stop(failed)
				}
			}
		}
	}
	return cmp.Or(failed, broken, context.Cause(ctx), unread)
}

// goesOn makes a call go on with a turn of its child, unless others have asked more there since. It
// returns the turn; 0 = it does not go on.
func (d *Delegator) goesOn(ctx context.Context, a *admission, turn int) int {
	if a.wait(ctx) != nil {
		return turn // it does not run
	}
	if now, err := d.scope.Get(ctx, a.ID); err == nil && now.Turns > turn { // else the rule says what is wrong
		return 0
	}
	a.query, a.context, a.Asked, a.Turn = agent.Continue, "", rule.Asked{}, turn
	return turn
}

// maxTask bounds a task with attachments as JSON, in bytes, without the name of its context tool. A jp
// reads 16 MiB from stdin.
const maxTask = 16<<20 - 1<<10

// attach reads what a task attaches, in the time of the task.
func (r *request) attach(ctx context.Context, refs attach.Refs, read func(context.Context, attach.Refs) ([]convstore.Attachment, error)) error {
	if r.Timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, r.Timeout, subprocess.ErrDeadline)
		defer cancel()
	}
	list, err := read(ctx, refs)
	switch {
	case errors.Is(err, subprocess.ErrDeadline):
		return errors.New("attach: the deadline passed")
	case err != nil:
		return fmt.Errorf("attach: %w", err)
	}
	r.attached, r.Asked.Attachments = list, list
	if len(r.task("")) > maxTask {
		return errors.New("attach: with the query more than 16 MiB as JSON")
	}
	return nil
}

// try carries out a task, and again while it may succeed then, at most retry times more. The
// outcome is the last one, with what all of them have used.
func (d *Delegator) try(ctx context.Context, a admission, retry int) (o outcome, tries int, err error) {
	if a.done != nil {
		defer close(a.done)
		a.done = nil
	}
	call, want := a.Call, a.Want
	for {
		next, err := d.carryOut(ctx, a)
		if tries > 0 && next.Turn == 0 && (next.denied != nil || !next.retryable()) { // the tries before it say more
			return o, tries, err
		}
		next.Total, next.Calls, next.Took = o.Total.Add(next.Total), o.Calls+next.Calls, o.Took+next.Took
		o = next
		tries++
		left := want.Minus(convstore.Budget{Tokens: new(o.Total.Tokens()), CostNano: &o.Total.CostNano})
		if err != nil || tries > retry || !o.retryable() || ctx.Err() != nil || rule.Spent(left, left) != nil {
			return o, tries, err
		}
		a.Call, a.Want, a.after = fmt.Sprintf("%s.%d", call, tries+1), left, nil
		if a.Turn != 0 {
			a.Turn = max(a.Turn, o.Turn)
		}
	}
}

// unreadable is why a run that ended has no result. It is no refusal, whatever err is.
func unreadable(err error) error { return fmt.Errorf("its answer cannot be read: %v", err) }

// reread reads the answer and the query of a run from the store.
func (d *Delegator) reread(ctx context.Context, o *outcome, it *Item) {
	ctx, stop := convstore.Outlast(ctx)
	defer stop()
	events, err := turnOf(ctx, *d.readable, o.child, o.Turn)
	if err != nil && o.useful() { // a row without its text is not ok
		o.denied = unreadable(err)
	}
	if o.Text == "" {
		o.Text = agent.Answer(events)
	}
	for _, ev := range events {
		if u, ok := ev.Body.(convstore.UserMessage); ok && it.Query == "" {
			it.Query = u.Text
		}
	}
}

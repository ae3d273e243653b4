package delegate

import (
	"cmp"
	"context"
	"strconv"
	"strings"

	"jp/cmd/jp/internal/agent"
	"jp/convstore"
)

// Item is one task of a batch that a person gives.
type Item struct {
	Config, Query string
	ID            string // of a sub-conversation that goes on; "" = a new one
	Context       string // what its context tool is asked first; "" = nothing
	Place         int    // among all tasks of the batch, from 1; 0 = as it comes
}

// PlaceOf returns the place of the task that a delegation of a batch with this call carried out, 0 where it is of another call.
func PlaceOf(del convstore.Delegation, call string) int {
	rest, ok := strings.CutPrefix(del.Call, call)
	if !ok {
		return 0
	}
	_, number, _ := strings.Cut(rest, "#")
	place, err := strconv.Atoi(number)
	if err != nil {
		return 0
	}
	return place
}

// Recorded returns the row of a delegation that has ended, as the store has it, with at most limit bytes of its text. scope is below its
// caller.
func Recorded(ctx context.Context, scope convstore.Scope, del convstore.Delegation, limit int) (Row, error) {
	e, _, err := subtree{scope: scope}.recorded(ctx, del)
	if err != nil {
		return Row{}, err
	}
	o := outcome{child: del.Child, turn: del.ChildTurn, recalled: true, ending: e}
	return o.row(nil, limit), nil
}

// Batch carries out the tasks of a person, parallel of them at a time, and tells each end in the order of the tasks, as soon as
// those in front of it have been told. call identifies the batch among all calls of its caller. Unlike the items of a tool call
// each is reserved when its turn comes, so that no more is held than what runs; what can be read again is not kept either. No
// task is granted more than most.
//
// When ctx ends, or tell fails, what runs is stopped and told, and what has not begun is told as cancelled. The error is the
// first of tell, the store's, or the cause of ctx.
func (d *Delegator) Batch(ctx context.Context, call string, items []Item, parallel int, most convstore.Budget, tell func(Row) error) error {
	d.init()
	tool := toolBatch
	if _, ok := d.Set.Get(tool); !ok {
		tool = toolQuery // on behalf of a conversation that holds no other
	}
	run, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	type end struct {
		item int
		outcome
		err error
	}
	ends := make(chan end)
	go func() {
		slots := make(chan struct{}, max(parallel, 1))
		last := map[string]chan struct{}{}
		for i, it := range items {
			slots <- struct{}{}
			var a admission
			if run.Err() == nil {
				a.request, a.err = d.catalog.request(run, itemCall(call, cmp.Or(it.Place, i+1)), tool, arguments{
					Config: it.Config, Query: it.Query, ID: it.ID, Context: it.Context,
				})
				a.Want, a.Batch = most, new(Batch)
				a.line(last)
			}
			go func() {
				e := end{item: i, outcome: outcome{ending: unstarted()}}
				if a.Call != "" {
					e.outcome, e.err = d.carryOut(run, a)
				}
				<-slots
				ends <- e
			}()
		}
	}()

	var failed error
	waiting := map[int]end{}
	for next := 0; next < len(items); {
		e := <-ends
		if e.err != nil && run.Err() == nil { // the store's: nothing more can be run
			failed = e.err
			stop(e.err)
		}
		if e.item != next {
			e.Text = "" // it stands in the store
		}
		waiting[e.item] = e
		for {
			e, ok := waiting[next]
			if !ok {
				break
			}
			delete(waiting, next)
			next++
			if e.Text == "" && e.child != 0 && e.handedIn() {
				e.Text = d.reread(ctx, e.outcome)
			}
			if failed == nil {
				if failed = tell(e.row(e.err, d.InlineResult)); failed != nil {
					stop(failed)
				}
			}
		}
	}
	if failed == nil {
		failed = context.Cause(ctx)
	}
	return failed
}

// reread is the answer of a run as the store has it.
func (d *Delegator) reread(ctx context.Context, o outcome) string {
	events, err := d.subtree().turn(context.WithoutCancel(ctx), o.child, o.turn)
	if err != nil {
		d.ledger.warn("%s: its answer cannot be read: %v", o.child, err)
	}
	return agent.Answer(events)
}

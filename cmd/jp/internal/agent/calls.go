package agent

import (
	"context"
	"slices"
	"time"

	"jp/convstore"
	"jp/tools"
)

// call runs calls, and stores each result when its call ends. The last ones are stored by what
// comes next: a call of the model, or the end of the turn.
func (t *turn) call(ctx context.Context, calls []convstore.ToolCall) error {
	if len(calls) == 0 {
		return nil
	}
	list := make([]tools.Call, len(calls))
	byID := make(map[string]convstore.ToolCall, len(calls))
	for i, c := range calls {
		list[i] = tools.Call{ID: c.ID, Name: c.Name, Arguments: RawArguments(c.Arguments)}
		byID[c.ID] = c
		if t.loop.Watch.Call != nil {
			t.loop.Watch.Call(c)
		}
	}
	began := time.Now()
	if t.loop.Admit != nil {
		t.loop.Admit(ctx, slices.DeleteFunc(slices.Clone(list), func(c tools.Call) bool {
			_, held := t.tools.Set.Get(c.Name) // the turn may hold fewer tools than the agent
			return !held
		}))
	}
	if t.loop.Release != nil {
		defer t.loop.Release(ctx)
	}
	run, stop := context.WithCancel(ctx)
	defer stop()
	// with room for all, so that no call waits for the store
	ended := make(chan convstore.ToolResult, len(list))
	go func() {
		defer close(ended)
		for c, res := range t.tools.Run(run, list) {
			ended <- convstore.ToolResult{ID: c.ID, Text: res.Text, IsError: res.IsError}
		}
	}()
	open := len(list)
	for r := range ended {
		results := []convstore.ToolResult{r}
		for range len(ended) { // what has ended since goes into the same transaction
			results = append(results, <-ended)
		}
		bodies := make([]convstore.Body, len(results))
		for i, r := range results {
			bodies[i] = r
		}
		if t.loop.Watch.Result != nil {
			took := time.Since(began)
			t.history.then = append(t.history.then, func() {
				for _, r := range results {
					t.loop.Watch.Result(byID[r.ID], r, took)
				}
			})
		}
		if open -= len(results); open == 0 {
			t.history.add(bodies...)
		} else if err := t.history.save(ctx, bodies...); err != nil {
			stop()
			for range ended { // until none is running
			}
			return err
		}
	}
	return nil
}

// pending lists the calls without a result, in call order.
func pending(events []convstore.Event) []convstore.ToolCall {
	done := map[string]bool{}
	for _, ev := range events {
		if r, ok := ev.Body.(convstore.ToolResult); ok {
			done[r.ID] = true
		}
	}
	var calls []convstore.ToolCall
	for _, ev := range events {
		if c, ok := ev.Body.(convstore.ToolCall); ok && !done[c.ID] {
			calls = append(calls, c)
		}
	}
	return calls
}

// abandoned returns results for pending calls, which say that the calls were interrupted.
func abandoned(events []convstore.Event) []convstore.Body {
	var list []convstore.Body
	for _, c := range pending(events) {
		list = append(list, convstore.ToolResult{ID: c.ID, Text: interrupted, IsError: true})
	}
	return list
}

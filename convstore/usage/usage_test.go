package usage_test

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"jp/convstore"
	"jp/convstore/internal/test/storetest"
	"jp/convstore/usage"
)

// spend appends a turn with one model call.
func spend(t *testing.T, l *convstore.Log, model string, in int64, nano *int64) {
	t.Helper()
	storetest.Append(t, l, convstore.TurnStart{}, convstore.UserMessage{Text: "q"}, convstore.AssistantMessage{Text: "a"},
		convstore.ModelCall{Model: model, Usage: convstore.Usage{Input: in, Output: 1}, CostNano: nano, Duration: time.Second},
		convstore.TurnEnd{State: convstore.StateOK})
}

func chargeTexts(cs []usage.Charge) []string {
	var out []string
	for _, c := range cs {
		cost := "?"
		if c.CostNano != nil {
			cost = fmt.Sprint(*c.CostNano)
		}
		out = append(out, fmt.Sprintf("%s %s t%d s%d in=%d cost=%s took=%s recorded=%v", c.Profile, c.Model, c.Turn, c.Session, c.Usage.Input, cost, c.Took, c.Recorded))
	}
	return out
}

func TestSpent(t *testing.T) {
	s := storetest.Open(t)
	five, seven := int64(5), int64(7)
	root := storetest.Create(t, s, convstore.New{Title: "root"})
	other := storetest.Create(t, s, convstore.New{})
	l := storetest.Lock(t, s, root.ID)
	spend(t, l, "m/main", 100, &five)
	first := storetest.Delegate(t, l, "c1", 0, 10, &seven)
	gone := storetest.Delegate(t, l, "c2", 0, 20, nil)
	spend(t, l, "m/main", 200, nil)
	storetest.Delegate(t, l, "c3", first, 30, &seven)
	lo := storetest.Lock(t, s, other.ID)
	spend(t, lo, "m/main", 999, &five)

	got, err := usage.Spent(t.Context(), s.View, root.ID)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		" m/main t1 s1 in=100 cost=5 took=1s recorded=false",
		" m/main t2 s2 in=200 cost=? took=1s recorded=false",
		"agent/r m/child t1 s1 in=10 cost=7 took=1s recorded=false",
		"agent/r m/child t2 s2 in=30 cost=7 took=1s recorded=false",
		"agent/r m/child t1 s1 in=20 cost=? took=1s recorded=false",
	}
	if texts := chargeTexts(got.Charges); !reflect.DeepEqual(texts, want) {
		t.Errorf("Spent(root) charges\n%q, want\n%q", texts, want)
	}
	if got.Session != 2 || got.Ledger != root.ID || len(got.Runs) != 3 || len(got.Below) != 2 {
		t.Errorf("Spent(root) = session %d, ledger %s, %d delegations, %d below", got.Session, got.Ledger, len(got.Runs), len(got.Below))
	}
	if d := got.Differences(); d != nil {
		t.Errorf("Differences() = %v, want none", d)
	}

	// What is removed counts as its delegation recorded it.
	if _, err := s.Remove(t.Context(), gone, convstore.RemoveOptions{}); err != nil {
		t.Fatal(err)
	}
	if got, err = usage.Spent(t.Context(), s.View, root.ID); err != nil {
		t.Fatal(err)
	}
	want[4] = "agent/r m/child t1 s1 in=20 cost=? took=0s recorded=true"
	if texts := chargeTexts(got.Charges); !reflect.DeepEqual(texts, want) {
		t.Errorf("Spent(root) after a removal\n%q, want\n%q", texts, want)
	}
	if len(got.Runs) != 3 || len(got.Differences()) != 0 {
		t.Errorf("after a removal: %d delegations, differences %v", len(got.Runs), got.Differences())
	}

	// A child's own view has its ledger's session.
	below, err := usage.Spent(t.Context(), s.View, first)
	if err != nil {
		t.Fatal(err)
	}
	if texts := chargeTexts(below.Charges); !reflect.DeepEqual(texts, want[2:4]) || below.Ledger != root.ID || below.Session != 2 {
		t.Errorf("Spent(child) = %q, ledger %s, session %d", texts, below.Ledger, below.Session)
	}

	var all []usage.Charge
	for c, err := range usage.Charges(t.Context(), s, time.Time{}, nil) {
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, c)
	}
	if len(all) != 6 || !all[5].Recorded {
		t.Errorf("Charges() = %q", chargeTexts(all))
	}
	for c, err := range usage.Charges(t.Context(), s, time.Now().Add(time.Hour), nil) {
		t.Errorf("Charges(future) = %v, %v", c, err)
	}
	if _, err := usage.Spent(t.Context(), s.View, gone); err == nil {
		t.Error("Spent of a removed conversation: no error")
	}
}

// TestSpentMoved: what was spent before a tree was moved is in the ledger that it has left.
func TestSpentMoved(t *testing.T) {
	s := storetest.Open(t)
	five := int64(5)
	root := storetest.Create(t, s, convstore.New{})
	l := storetest.Lock(t, s, root.ID)
	spend(t, l, "m/main", 100, &five)
	rs, err := l.Below().Reserve(t.Context(), storetest.Admit(convstore.Child{Call: "c1", Kind: "sub_complete", Profile: "agent/r"}))
	if err != nil {
		t.Fatal(err)
	}
	mid := rs[0].Child.ID
	lm, err := l.Below().Log(t.Context(), rs[0])
	if err != nil {
		t.Fatal(err)
	}
	spend(t, lm, "m/mid", 30, &five)
	leaf := storetest.Delegate(t, lm, "c2", 0, 10, &five)
	if err := lm.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := l.Below().Settle(t.Context(), rs[0], convstore.Outcome{State: convstore.StateOK}); err != nil {
		t.Fatal(err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if err := s.Edit(t.Context(), mid, func(c *convstore.Conversation) error { c.Parent = 0; return nil }); err != nil {
		t.Fatal(err)
	}
	for _, call := range []string{"c3", "c4"} {
		for _, id := range []convstore.ID{root.ID, mid} {
			if got, err := usage.Spent(t.Context(), s.View, id); err != nil || got.Differences() != nil {
				t.Errorf("Spent(%s).Differences() = %+v, %v, want none", id, got.Differences(), err)
			}
		}
		lm = storetest.Lock(t, s, mid)
		storetest.Delegate(t, lm, call, leaf, 20, &five)
		if err := lm.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// TestDifferences: what a child used beyond what was settled for it is a difference.
func TestDifferences(t *testing.T) {
	s := storetest.Open(t)
	seven := int64(7)
	root := storetest.Create(t, s, convstore.New{})
	l := storetest.Lock(t, s, root.ID)
	spend(t, l, "m/main", 100, &seven)
	child := storetest.Delegate(t, l, "c1", 0, 10, &seven)
	lc, err := s.Lock(t.Context(), child)
	if err != nil {
		t.Fatal(err)
	}
	spend(t, lc, "m/child", 3, &seven)
	if err := lc.Close(); err != nil {
		t.Fatal(err)
	}
	got, err := usage.Spent(t.Context(), s.View, root.ID)
	if err != nil {
		t.Fatal(err)
	}
	d := got.Differences()
	if len(d) != 1 || d[0].Child != child || d[0].Events.Input != 13 || *d[0].Events.Cost() != 14 || d[0].Recorded.Input != 10 || *d[0].Recorded.Cost() != 7 {
		t.Errorf("Differences() = %+v", d)
	}
	var bad *convstore.DamagedError
	if err := s.Check(t.Context()); !errors.As(err, &bad) || !strings.Contains(err.Error(), "the delegations that ran it") {
		t.Errorf("Check = %v, want what the child used beyond its delegation", err)
	}
	if _, err := s.Remove(t.Context(), child, convstore.RemoveOptions{}); err != nil {
		t.Fatal(err)
	}
}

// TestLostCall: a call that was begun and not ended is charged in full, once, by the record of its
// conversation and then by an event.
func TestLostCall(t *testing.T) {
	s := storetest.Open(t)
	c := storetest.Create(t, s, convstore.New{})
	l := storetest.Lock(t, s, c.ID)
	cost := int64(900)
	call := convstore.Call{Model: "m", Usage: convstore.Usage{Input: 100, Output: 50}, CostNano: &cost}
	storetest.NoError(t, l.Begin(t.Context(), func(convstore.Account) *convstore.Call { return &call },
		convstore.Event{Body: convstore.TurnStart{}}, convstore.Event{Body: convstore.UserMessage{Text: "q"}}))
	storetest.Append(t, l, convstore.ToolResult{ID: "x"}) // of this process: it is still being made
	charged := func() (lost, calls int) {
		t.Helper()
		sp, err := usage.Spent(t.Context(), s.View, c.ID)
		storetest.NoError(t, err)
		list := sp.Charges
		for ch, err := range usage.Charges(t.Context(), s, time.Time{}, nil) {
			storetest.NoError(t, err)
			list = append(list, ch)
		}
		for _, ch := range list {
			if ch.Lost && ch.Usage == call.Usage && *ch.CostNano == cost && ch.Turn == 1 {
				lost++
			}
		}
		return lost, len(list)
	}
	// totals returns the use that the conversation and the events of a trace have.
	totals := func() (convstore.Usage, int64) {
		t.Helper()
		got, err := s.Get(t.Context(), c.ID)
		storetest.NoError(t, err)
		var u convstore.Usage
		var nano int64
		for e, err := range s.EventsOf(t.Context(), []convstore.ID{c.ID}) {
			storetest.NoError(t, err)
			if m, ok := e.Body.(convstore.ModelCall); ok && e.Turn == 1 && m.Stop == convstore.StopLost {
				u, nano = u.Add(m.Usage), nano+*m.CostNano
			}
		}
		if got.Usage != u || *got.CostNano != nano {
			t.Errorf("the conversation has %+v and %d, its events %+v and %d", got.Usage, *got.CostNano, u, nano)
		}
		return u, nano
	}
	if u, nano := totals(); u != (convstore.Usage{}) || nano != 0 {
		t.Errorf("while it is made: %+v, %d", u, nano)
	}
	if lost, calls := charged(); lost != 0 || calls != 0 {
		t.Errorf("while it is made: %d lost of %d charges", lost, calls)
	}
	_ = l.Close()
	if lost, calls := charged(); lost != 2 || calls != 2 {
		t.Errorf("once nobody makes it: %d lost of %d charges, want it in the tree and in the store", lost, calls)
	}
	if u, nano := totals(); u != call.Usage || nano != cost {
		t.Errorf("once nobody makes it: the conversation has used %+v, %d, want %+v, %d", u, nano, call.Usage, cost)
	}
	l = storetest.Lock(t, s, c.ID)
	storetest.Append(t, l, convstore.Note{Text: "went on"})
	if lost, calls := charged(); lost != 2 || calls != 2 {
		t.Errorf("once an event says so: %d lost of %d charges", lost, calls)
	}
	if u, nano := totals(); u != call.Usage || nano != cost {
		t.Errorf("once an event says so: the conversation has used %+v, %d, want %+v, %d", u, nano, call.Usage, cost)
	}
}

// TestTotals: a listing has the sum of what Spent charges, also while a sub-agent runs, after its
// process died, after a removal and after a move.
func TestTotals(t *testing.T) {
	s := storetest.Open(t)
	five, seven := int64(5), int64(7)
	root := storetest.Create(t, s, convstore.New{})
	l := storetest.Lock(t, s, root.ID)
	spend(t, l, "m/main", 100, &five)
	first := storetest.Delegate(t, l, "c1", 0, 10, &seven)
	second := storetest.Delegate(t, l, "c2", 0, 20, &seven)
	rs, err := l.Below().Reserve(t.Context(), storetest.Admit(convstore.Child{Call: "c3", Kind: "sub_complete", Profile: "agent/r"}))
	storetest.NoError(t, err)
	mid := rs[0].Child.ID
	lm, err := l.Below().Log(t.Context(), rs[0])
	storetest.NoError(t, err)
	storetest.Append(t, lm, convstore.TurnStart{}, convstore.UserMessage{Text: "q"},
		convstore.ModelCall{Model: "m/mid", Usage: convstore.Usage{Input: 30}, CostNano: &five})
	leaf := storetest.Delegate(t, lm, "c4", 0, 10, &five)
	other := storetest.Create(t, s, convstore.New{})
	compare := func(when string, want int64) {
		t.Helper()
		list, err := s.List(t.Context(), convstore.Filter{Hidden: true})
		storetest.NoError(t, err)
		totals, err := usage.Totals(t.Context(), s.View, list)
		storetest.NoError(t, err)
		for i, c := range list {
			got, err := usage.Spent(t.Context(), s.View, c.ID)
			storetest.NoError(t, err)
			sum := int64(0)
			for _, charge := range got.Charges {
				if charge.CostNano == nil {
					sum = -1
					break
				}
				sum += *charge.CostNano
			}
			total := int64(-1)
			if totals[i] != nil {
				total = *totals[i]
			}
			if total != sum || c.ID == root.ID && total != want {
				t.Errorf("%s: total of %s is %d, charges come to %d; that of the root shall be %d", when, c.ID, total, sum, want)
			}
		}
	}
	compare("a sub-agent runs", 5+7+7+5+5)
	cost := int64(900)
	call := convstore.Call{Model: "m", Usage: convstore.Usage{Input: 100}, CostNano: &cost}
	storetest.NoError(t, lm.Begin(t.Context(), func(convstore.Account) *convstore.Call { return &call }))
	storetest.NoError(t, lm.Close())
	storetest.NoError(t, rs[0].Release())
	compare("its process died", 29+900)
	_, err = l.Below().Settle(t.Context(), rs[0], convstore.Outcome{State: convstore.StateLost})
	storetest.NoError(t, err)
	compare("it was settled", 29+900)
	_, err = s.Remove(t.Context(), leaf, convstore.RemoveOptions{})
	storetest.NoError(t, err)
	compare("the lowest was removed", 29+900)
	storetest.NoError(t, l.Close())
	_, err = s.Remove(t.Context(), mid, convstore.RemoveOptions{})
	storetest.NoError(t, err)
	compare("the one above it was removed", 29+900)
	storetest.NoError(t, s.Edit(t.Context(), second, func(c *convstore.Conversation) error { c.Parent = 0; return nil }))
	compare("one was moved out", 29+900)
	storetest.NoError(t, s.Edit(t.Context(), first, func(c *convstore.Conversation) error { c.Parent = other.ID; return nil }))
	compare("one was moved elsewhere", 29+900)
	lo := storetest.Lock(t, s, other.ID)
	storetest.Delegate(t, lo, "c5", 0, 10, nil)
	compare("a price is not known", 29+900)
}

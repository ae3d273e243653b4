package convstore

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
)

// TestFlushTogether: what goroutines of a process store while one transaction is open is flushed
// together. Each keeps its own order. How many are is counted by TestGroup of package db.
func TestFlushTogether(t *testing.T) {
	s := openStore(t)
	const writers, each = 64, 8
	var logs []*Log
	for range writers {
		logs = append(logs, mustLock(t, s, mustCreate(t, s, New{}).ID))
	}
	root := mustLock(t, s, mustCreate(t, s, New{}).ID)
	mustAppend(t, root, TurnStart{})
	before := committed(t, s)
	open, all := make(chan struct{}), make(chan struct{})
	var opened sync.Once
	var arrived atomic.Int64
	no := errors.New("no")
	together(writers+1, func(i int) {
		if i == writers {
			_, err := root.Below().Reserve(t.Context(), func(Standing) ([]Child, error) {
				opened.Do(func() { close(open) })
				<-all
				return nil, no
			})
			if !errors.Is(err, no) {
				t.Error(err)
			}
			return
		}
		<-open
		if arrived.Add(1) == writers {
			close(all)
		}
		if err := logs[i].Append(t.Context(), Event{Body: Note{Text: "0"}}); err != nil {
			t.Error(err)
		}
	})
	if got := committed(t, s) - before; got >= writers { // on a busy machine some come late
		t.Errorf("%d flushes for %d appends", got, writers)
	}
	together(writers, func(i int) {
		for n := 1; n < each; n++ {
			if err := logs[i].Append(t.Context(), Event{Body: Note{Text: fmt.Sprint(n)}}); err != nil {
				t.Error(err)
			}
		}
	})
	for _, l := range logs {
		var said string
		for _, e := range mustEvents(t, s.View, l.ID(), Range{}) {
			said += e.Body.(Note).Text
		}
		if said != "01234567" {
			t.Errorf("%v: %s", l.ID(), said)
		}
	}
}

// TestTreeAtOnce runs a whole tree in one process: many delegations of one caller, each reserved,
// begun, ended and settled by a goroutine of its own, beside others that fail.
func TestTreeAtOnce(t *testing.T) {
	s := openStore(t)
	root := mustLock(t, s, mustCreate(t, s, New{}).ID)
	mustAppend(t, root, TurnStart{Limits: &Limits{Budget: Budget{Tokens: ptr(64 * 100)}, Children: 64}})
	const children = 64
	busy := mustLock(t, s, mustCreate(t, s, New{}).ID)
	together(2*children, func(i int) {
		if i >= children { // these fail
			if _, err := root.Below().Reserve(t.Context(), admit(Child{Call: fmt.Sprint("x", i)}, Child{Call: "busy", ID: busy.ID()})); err == nil {
				t.Error("a conversation that is not below was reserved")
			}
			return
		}
		rs, err := root.Below().Reserve(t.Context(), admit(Child{Call: fmt.Sprint(i), Grant: Grant{Budget: Budget{Tokens: ptr(100)}}}))
		if err != nil {
			t.Error(err)
			return
		}
		l, err := root.Below().Log(t.Context(), rs[0])
		if err != nil {
			t.Error(err)
			return
		}
		bound := func(Account) *Call { return &Call{Model: "m", Usage: Usage{Input: 100}} }
		err = l.Begin(t.Context(), bound, Event{Body: TurnStart{}})
		if err == nil {
			err = l.Append(t.Context(), Event{Body: ModelCall{Model: "m", Usage: Usage{Input: 70}}}, Event{Body: TurnEnd{State: StateOK}})
		}
		if err != nil {
			t.Error(err)
		}
		_ = l.Close()
		d, err := root.Below().Settle(t.Context(), rs[0], Outcome{State: StateOK})
		if err != nil || d.Total.Usage.Input != 70 {
			t.Errorf("settled with %+v: %v", d.Total, err)
		}
	})
	a, err := s.Account(context.Background(), root.ID())
	if err != nil || a.Below.Usage.Input != 70*children || *a.Free.Tokens != 30*children {
		t.Errorf("account %+v: %v", a, err)
	}
	if c := mustGet(t, s.View, root.ID()); c.Children != children {
		t.Errorf("%d children, want %d", c.Children, children)
	}
}

// together calls fn with 0 to n-1 at the same time.
func together(n int, fn func(i int)) {
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() { fn(i) })
	}
	wg.Wait()
}

// committed returns how many transactions the store has committed.
func committed(t testing.TB, s *Store) (n int) {
	t.Helper()
	if err := s.f.read(t.Context(), func(t *tx) error { n = t.Bolt.ID(); return nil }); err != nil {
		t.Fatal(err)
	}
	return n
}

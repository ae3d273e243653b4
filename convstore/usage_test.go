package convstore

import (
	"errors"
	"fmt"
	"math"
	"os"
	"reflect"
	"strings"
	"syscall"
	"testing"
	"time"
)

// spend appends a turn with one model call.
func spend(t *testing.T, l *Log, model string, in int64, nano *int64) {
	t.Helper()
	mustAppend(t, l, TurnStart{}, UserMessage{Text: "q"}, AssistantMessage{Text: "a"},
		ModelCall{Model: model, Usage: Usage{Input: in, Output: 1}, CostNano: nano, Duration: time.Second}, TurnEnd{State: StateOK})
}

// delegate runs one child of caller to its end; id 0 makes a new one.
func delegate(t *testing.T, s *Store, caller *Log, call string, id ID, in int64, nano *int64) ID {
	t.Helper()
	rs, err := caller.Below().Reserve(t.Context(), admit(Child{Call: call, ID: id, Kind: "sub_complete", Profile: "agent/r", Model: "m/child"}))
	if err != nil {
		t.Fatal(err)
	}
	fd, err := syscall.Dup(int(rs[0].LockFile().Fd()))
	if err != nil {
		t.Fatal(err)
	}
	l, err := s.Adopt(t.Context(), rs[0].Child.ID, os.NewFile(uintptr(fd), "lock"))
	if err != nil {
		t.Fatal(err)
	}
	spend(t, l, "m/child", in, nano)
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := caller.Below().Settle(t.Context(), rs[0], Outcome{State: StateOK}); err != nil {
		t.Fatal(err)
	}
	return rs[0].Child.ID
}

func chargeTexts(cs []Charge) []string {
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
	s := openStore(t)
	five, seven := int64(5), int64(7)
	root := mustCreate(t, s, New{Title: "root"})
	other := mustCreate(t, s, New{})
	l := mustLock(t, s, root.ID)
	spend(t, l, "m/main", 100, &five)
	first := delegate(t, s, l, "c1", 0, 10, &seven)
	gone := delegate(t, s, l, "c2", 0, 20, nil)
	spend(t, l, "m/main", 200, nil)
	delegate(t, s, l, "c3", first, 30, &seven)
	lo := mustLock(t, s, other.ID)
	spend(t, lo, "m/main", 999, &five)

	got, err := s.Spent(t.Context(), root.ID)
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
	if _, err := s.Remove(t.Context(), gone, RemoveOptions{}); err != nil {
		t.Fatal(err)
	}
	if got, err = s.Spent(t.Context(), root.ID); err != nil {
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
	below, err := s.Spent(t.Context(), first)
	if err != nil {
		t.Fatal(err)
	}
	if texts := chargeTexts(below.Charges); !reflect.DeepEqual(texts, want[2:4]) || below.Ledger != root.ID || below.Session != 2 {
		t.Errorf("Spent(child) = %q, ledger %s, session %d", texts, below.Ledger, below.Session)
	}

	var all []Charge
	for c, err := range s.Charges(t.Context(), time.Time{}) {
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, c)
	}
	if len(all) != 6 || !all[5].Recorded {
		t.Errorf("Charges() = %q", chargeTexts(all))
	}
	for c, err := range s.Charges(t.Context(), time.Now().Add(time.Hour)) {
		t.Errorf("Charges(future) = %v, %v", c, err)
	}
	if _, err := s.Spent(t.Context(), gone); err == nil {
		t.Error("Spent of a removed conversation: no error")
	}
}

// What a child used beyond what was settled for it is told. TestSpentMoved: what was spent before a
// tree was moved is in the ledger that it has left.
func TestSpentMoved(t *testing.T) {
	s := openStore(t)
	five := int64(5)
	root := mustCreate(t, s, New{})
	l := mustLock(t, s, root.ID)
	spend(t, l, "m/main", 100, &five)
	rs, err := l.Below().Reserve(t.Context(), admit(Child{Call: "c1", Kind: "sub_complete", Profile: "agent/r"}))
	if err != nil {
		t.Fatal(err)
	}
	mid := rs[0].Child.ID
	fd, err := syscall.Dup(int(rs[0].LockFile().Fd()))
	if err != nil {
		t.Fatal(err)
	}
	lm, err := s.Adopt(t.Context(), mid, os.NewFile(uintptr(fd), "lock"))
	if err != nil {
		t.Fatal(err)
	}
	spend(t, lm, "m/mid", 30, &five)
	leaf := delegate(t, s, lm, "c2", 0, 10, &five)
	if err := lm.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := l.Below().Settle(t.Context(), rs[0], Outcome{State: StateOK}); err != nil {
		t.Fatal(err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if err := s.Edit(t.Context(), mid, func(c *Conversation) error { c.Parent = 0; return nil }); err != nil {
		t.Fatal(err)
	}
	for _, call := range []string{"c3", "c4"} {
		for _, id := range []ID{root.ID, mid} {
			if got, err := s.Spent(t.Context(), id); err != nil || got.Differences() != nil {
				t.Errorf("Spent(%s).Differences() = %+v, %v, want none", id, got.Differences(), err)
			}
		}
		lm = mustLock(t, s, mid)
		delegate(t, s, lm, call, leaf, 20, &five)
		if err := lm.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

func TestSpentDifferences(t *testing.T) {
	s := openStore(t)
	seven := int64(7)
	root := mustCreate(t, s, New{})
	l := mustLock(t, s, root.ID)
	spend(t, l, "m/main", 100, &seven)
	child := delegate(t, s, l, "c1", 0, 10, &seven)
	lc, err := s.Lock(t.Context(), child)
	if err != nil {
		t.Fatal(err)
	}
	spend(t, lc, "m/child", 3, &seven)
	if err := lc.Close(); err != nil {
		t.Fatal(err)
	}
	got, err := s.Spent(t.Context(), root.ID)
	if err != nil {
		t.Fatal(err)
	}
	d := got.Differences()
	if len(d) != 1 || d[0].Child != child || d[0].Events.Input != 13 || *d[0].EventsNano != 14 || d[0].Recorded.Input != 10 || *d[0].RecordedNano != 7 {
		t.Errorf("Differences() = %+v", d)
	}
	var bad *DamagedError
	if err := s.Check(t.Context()); !errors.As(err, &bad) || !strings.Contains(err.Error(), "the delegations that ran it") {
		t.Errorf("Check = %v, want what the child used beyond its delegation", err)
	}
	if _, err := s.Remove(t.Context(), child, RemoveOptions{}); err != nil {
		t.Fatal(err)
	}
}

// A conversation with a grant asks no model but in a delegation: it would be on nobody's account.
func TestBeginOutsideDelegation(t *testing.T) {
	s := openStore(t)
	root := mustCreate(t, s, New{})
	l := mustLock(t, s, root.ID)
	mustAppend(t, l, TurnStart{})
	child := mustLock(t, s, delegate(t, s, l, "c1", 0, 10, nil))
	call := func(Account) *Call { return &Call{Model: "m", Usage: Usage{Input: 1}} }
	if err := child.Begin(t.Context(), call, Event{Body: TurnStart{}}); err == nil {
		t.Error("Begin = nil in a child that no delegation runs")
	}
	if got := mustGet(t, s.View, child.ID()); got.Turns != 1 {
		t.Errorf("%d turns, want none of the one that was refused", got.Turns)
	}
	if err := l.Begin(t.Context(), call); err != nil {
		t.Errorf("Begin in the root: %v", err)
	}
}

// TestTakeOverCharges: a person takes a child whose processes are gone while its caller runs: what
// it had used is charged all the same.
func TestTakeOverCharges(t *testing.T) {
	for name, take := range map[string]func(s *Store, root *Log, child ID) error{
		"its lock": func(s *Store, _ *Log, child ID) error {
			l, err := s.Lock(t.Context(), child)
			if err != nil {
				return err
			}
			return errors.Join(l.Append(t.Context(), Event{Body: Note{Text: "n"}}), l.Close())
		},
		"a delegation by hand": func(s *Store, root *Log, child ID) error {
			sc, err := s.Below(t.Context(), root.ID())
			if err != nil {
				return err
			}
			rs, err := sc.Reserve(t.Context(), admit(Child{Call: "hand", ID: child}))
			if err != nil {
				return err
			}
			_, err = sc.Settle(t.Context(), rs[0], Outcome{State: StateEmpty})
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := openStore(t)
			l := mustLock(t, s, mustCreate(t, s, New{}).ID)
			mustAppend(t, l, TurnStart{})
			rs, err := l.Below().Reserve(t.Context(), admit(Child{Call: "c"}))
			if err != nil {
				t.Fatal(err)
			}
			child, err := s.Adopt(t.Context(), rs[0].Child.ID, dupLock(t, rs[0]))
			if err != nil {
				t.Fatal(err)
			}
			mustAppend(t, child, TurnStart{}, ModelCall{Model: "m", Usage: Usage{Input: 70}})
			_ = child.Close()
			_ = rs[0].Release()
			if err := take(s, l, child.ID()); err != nil {
				t.Fatal(err)
			}
			a, err := s.Account(t.Context(), l.ID())
			if err != nil || a.Below.Tokens() != 70 {
				t.Errorf("settled %d, %v, want the 70 that it had used", a.Below.Tokens(), err)
			}
		})
	}
}

// TestSpentBeyondCounting: what a conversation has spent in all may come to the largest number,
// where a provider or an import told amounts that make no sense. What it spends from then on counts
// against a limit nevertheless.
func TestSpentBeyondCounting(t *testing.T) {
	s := openStore(t)
	root := mustCreate(t, s, New{})
	l := mustLock(t, s, root.ID)
	huge, limit := int64(math.MaxInt64), int64(100)
	for range 2 {
		spend(t, l, "m/root", huge, &huge)
	}
	mustAppend(t, l, TurnStart{Limits: &Limits{Run: Budget{Tokens: &limit, CostNano: &limit}}})
	left := func(want int64) {
		t.Helper()
		a, err := s.Account(t.Context(), root.ID)
		if err != nil {
			t.Fatal(err)
		}
		if *a.Left.Tokens != want || *a.Left.CostNano != want {
			t.Errorf("%d tokens and %d nano-dollars are left, want %d", *a.Left.Tokens, *a.Left.CostNano, want)
		}
	}
	left(100)
	thirty := int64(30)
	mustAppend(t, l, ModelCall{Model: "m/root", Usage: Usage{Input: 30}, CostNano: &thirty})
	left(70)

	child := delegate(t, s, l, "c1", 0, huge, &huge)
	mustAppend(t, l, TurnEnd{State: StateOK}, TurnStart{Limits: &Limits{Run: Budget{Tokens: &limit, CostNano: &limit}}})
	left(100)
	delegate(t, s, l, "c2", child, 29, &thirty) // and one of output
	left(70)
	if err := s.Check(t.Context()); err != nil {
		t.Errorf("Check = %v", err)
	}
	got, err := s.Spent(t.Context(), root.ID)
	if err != nil {
		t.Fatal(err)
	}
	if d := got.Differences(); len(d) > 0 {
		t.Errorf("Differences() = %+v", d)
	}
}

package convstore

import (
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"jp/convstore/amount"
	"jp/convstore/internal/db"
)

// ledgerTree is a tree whose agents ask models and delegate as jp does, in one process: it grants
// half of what is free, and a call's bound fits in what is left.
type ledgerTree struct {
	t     *testing.T
	s     *Store
	id    ID   // of the root
	root  *Log // nil = nobody runs it: a person delegates on its behalf
	limit Limits
	runs  []*ledgerRun // live ones, parents before their children
	calls int
	over  int64 // what calls have used beyond their bound
}

type ledgerRun struct {
	parent *ledgerRun // nil = the root
	res    *Reservation
	log    *Log // nil = its process has not begun
	bound  int64
}

var errNoBudget = errors.New("nothing to grant")

func (lt *ledgerTree) scope(parent *ledgerRun) Scope {
	switch {
	case parent != nil:
		return parent.log.Below()
	case lt.root != nil:
		return lt.root.Below()
	}
	sc, err := lt.s.Below(lt.t.Context(), lt.id)
	if err != nil {
		lt.t.Fatal(err)
	}
	return sc
}

// leave lets go of the root, or takes it again: what a person started goes on.
func (lt *ledgerTree) leave(rt *rapid.T) {
	if lt.root == nil {
		var err error
		lt.root, err = lt.s.Lock(lt.t.Context(), lt.id)
		must(rt, err)
		return
	}
	must(rt, lt.root.Close())
	lt.root = nil
}

// pick returns a live agent that runs; nil is the root.
func (lt *ledgerTree) pick(rt *rapid.T) *ledgerRun {
	agents := []*ledgerRun{nil}
	for _, r := range lt.runs {
		if r.log != nil {
			agents = append(agents, r)
		}
	}
	return rapid.SampledFrom(agents).Draw(rt, "agent")
}

func (lt *ledgerTree) delegate(rt *rapid.T) {
	parent := lt.pick(rt)
	n := rapid.IntRange(1, 3).Draw(rt, "n")
	want := rapid.Int64Range(1, 5000).Draw(rt, "want")
	rs, err := lt.scope(parent).Reserve(lt.t.Context(), func(st Standing) ([]Child, error) {
		each := amount.Portion(amount.Pool(st.Account.Free.Tokens, 0.5), n, &want)
		if *each <= 0 {
			return nil, errNoBudget
		}
		var list []Child
		for range n {
			lt.calls++
			list = append(list, Child{Call: fmt.Sprint("c", lt.calls), Hidden: true, Grant: Grant{Budget: Budget{Tokens: each}}})
		}
		return list, nil
	})
	if err == errNoBudget {
		return
	}
	must(rt, err)
	for _, r := range rs {
		lt.runs = append(lt.runs, &ledgerRun{parent: parent, res: r})
	}
}

func (lt *ledgerTree) live(rt *rapid.T, what string, ok func(*ledgerRun) bool) *ledgerRun {
	var list []*ledgerRun
	for _, r := range lt.runs {
		if ok(r) {
			list = append(list, r)
		}
	}
	if len(list) == 0 {
		rt.Skip("no run to", what)
	}
	return rapid.SampledFrom(list).Draw(rt, what)
}

// start lets the process of a reserved child begin its turn.
func (lt *ledgerTree) start(rt *rapid.T) {
	r := lt.live(rt, "start", func(r *ledgerRun) bool { return r.log == nil })
	var err error
	r.log, err = lt.scope(r.parent).Log(lt.t.Context(), r.res)
	must(rt, err)
	must(rt, r.log.Append(lt.t.Context(), Event{Body: TurnStart{}}, Event{Body: UserMessage{Text: "q"}}))
}

// begin records the bound of a call; end what it has used, now and then more.
func (lt *ledgerTree) begin(rt *rapid.T) {
	r := lt.pick(rt)
	if r == nil || r.bound > 0 {
		rt.Skip("the root's calls are not limited")
	}
	want := rapid.Int64Range(1, 3000).Draw(rt, "bound")
	must(rt, r.log.Begin(lt.t.Context(), func(a Account) *Call {
		if want > *a.Left.Tokens {
			return nil
		}
		r.bound = want
		return &Call{Model: "m", Usage: Usage{Input: want}}
	}))
}

func (lt *ledgerTree) end(rt *rapid.T) {
	r := lt.live(rt, "end", func(r *ledgerRun) bool { return r.bound > 0 })
	used := rapid.Int64Range(0, r.bound+100).Draw(rt, "used")
	lt.over += max(0, used-r.bound)
	cost := used * 3
	must(rt, r.log.Append(lt.t.Context(), Event{Body: ModelCall{Model: "m", Usage: Usage{Input: used, CacheRead: 7}, CostNano: &cost}}))
	r.bound = 0
}

// drop forgets a run and all below it, whose processes have ended.
func (lt *ledgerTree) drop(r *ledgerRun) {
	gone := map[*ledgerRun]bool{r: true}
	var rest []*ledgerRun
	for _, x := range lt.runs {
		if gone[x] || x.parent != nil && gone[x.parent] {
			gone[x] = true
			if x.log != nil {
				_ = x.log.Close()
			}
			if x != r {
				_ = x.res.Release()
			}
			continue
		}
		rest = append(rest, x)
	}
	lt.runs = rest
}

// settle ends a run in order, or after it was killed with all below it.
func (lt *ledgerTree) settle(rt *rapid.T) {
	r := lt.live(rt, "settle", func(r *ledgerRun) bool { return true })
	lt.drop(r)
	d, err := lt.scope(r.parent).Settle(lt.t.Context(), r.res, Outcome{State: StateKilled})
	must(rt, err)
	if d.Total.Tokens() < d.Own.Tokens() {
		rt.Fatalf("own %d, total %d", d.Own.Tokens(), d.Total.Tokens())
	}
}

// lose lets a run die together with whoever could settle it: the next to look finds it lost.
func (lt *ledgerTree) lose(rt *rapid.T) {
	r := lt.live(rt, "lose", func(r *ledgerRun) bool { return r.parent == nil })
	lt.drop(r)
	must(rt, r.res.Release())
	_, err := lt.scope(nil).Reserve(lt.t.Context(), admit())
	must(rt, err)
}

// check holds the store to the invariant of every account.
func (lt *ledgerTree) check(rt *rapid.T) {
	ds, err := lt.s.Delegations(lt.t.Context(), lt.id)
	must(rt, err)
	var below, open int64
	for _, d := range ds {
		if d.Within == 0 {
			if d.State == "" {
				open += *d.Grant.Tokens
			} else {
				below += d.Total.Tokens()
			}
		}
	}
	a, err := lt.s.Account(lt.t.Context(), lt.id)
	must(rt, err)
	if a.Below.Tokens() != below || *a.Open.Tokens != open {
		rt.Fatalf("account: settled %d, open %d; by its delegations %d and %d", a.Below.Tokens(), *a.Open.Tokens, below, open)
	}
	if limit := *lt.limit.Tokens; below+open > limit+lt.over {
		rt.Fatalf("settled %d + open %d > limit %d + overshoot %d", below, open, limit, lt.over)
	}
	for _, r := range lt.runs {
		if r.log == nil {
			continue
		}
		a, err := lt.s.Account(lt.t.Context(), r.log.ID())
		must(rt, err)
		if used := a.Own.Tokens() + a.Below.Tokens() + *a.Open.Tokens + r.bound; used > *r.res.Delegation.Grant.Tokens+lt.over {
			rt.Fatalf("%s: %d used, open or bound of a grant of %d, overshoot %d", r.log.ID(), used, *r.res.Delegation.Grant.Tokens, lt.over)
		}
	}
	d, err := Rooms.Differences(lt.t.Context(), lt.s.View, lt.id)
	must(rt, err)
	if d != "" {
		rt.Fatalf("the events say something else: %s", d)
	}
}

// TestLedger runs agents of a tree in any order, some of which are killed, and holds every account
// to what was granted.
func TestLedger(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		dir := memoryDir(t)
		defer func() { _ = os.RemoveAll(dir) }()
		s, err := Open(filepath.Join(dir, "store"), Options{})
		must(rt, err)
		c, err := s.Create(t.Context(), New{})
		must(rt, err)
		l, err := s.Lock(t.Context(), c.ID)
		must(rt, err)
		tokens := rapid.Int64Range(0, 20_000).Draw(rt, "limit")
		lt := &ledgerTree{t: t, s: s, id: c.ID, root: l, limit: Limits{Budget: Budget{Tokens: &tokens}, Children: 64}}
		must(rt, l.Append(t.Context(), Event{Body: TurnStart{Limits: &lt.limit}}))
		defer func() {
			for len(lt.runs) > 0 {
				r := lt.runs[0]
				lt.drop(r)
				_ = r.res.Release()
			}
			if lt.root != nil {
				_ = lt.root.Close()
			}
		}()
		rt.Repeat(map[string]func(*rapid.T){
			"delegate": lt.delegate, "start": lt.start, "begin": lt.begin, "end": lt.end, "settle": lt.settle, "lose": lt.lose, "leave": lt.leave, "": lt.check,
		})
		if err := s.Check(t.Context()); err != nil {
			rt.Fatal(err)
		}
	})
}

// TestLostCall: a call that was begun and not ended is charged in full, once, by an event.
func TestLostCall(t *testing.T) {
	s := openStore(t)
	c := mustCreate(t, s, New{})
	l := mustLock(t, s, c.ID)
	cost := int64(900)
	call := Call{Model: "m", Usage: Usage{Input: 100, Output: 50}, CostNano: &cost}
	begin := func(l *Log, events ...Event) {
		t.Helper()
		if err := l.Begin(t.Context(), func(Account) *Call { return &call }, events...); err != nil {
			t.Fatal(err)
		}
	}
	begin(l, Event{Body: TurnStart{}}, Event{Body: UserMessage{Text: "q"}})
	if got := mustGet(t, s.View, c.ID); got.Usage != (Usage{}) || got.Turns != 1 {
		t.Errorf("a call that is made: %+v", got)
	}
	mustAppend(t, l, ToolResult{ID: "x"}) // of this process: it is still being made
	_ = l.Close()
	l = mustLock(t, s, c.ID)
	mustAppend(t, l, Note{Text: "went on"})
	want := []Body{TurnStart{}, UserMessage{Text: "q"}, ToolResult{ID: "x"},
		ModelCall{Model: "m", Usage: call.Usage, CostNano: &cost, Stop: "lost", Estimated: true}, Note{Text: "went on"}}
	var got []Body
	for ev, err := range l.Events(t.Context(), Range{}) {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, ev.Body)
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("events %+v, want %+v", got, want)
	}
	begin(l)
	mustAppend(t, l, ModelCall{Model: "m", Usage: Usage{Input: 1}, CostNano: new(int64)})
	_ = l.Close()
	l = mustLock(t, s, c.ID)
	mustAppend(t, l, TurnEnd{State: StateOK})
	if got := mustGet(t, s.View, c.ID); got.Usage != (Usage{Input: 101, Output: 50}) || *got.CostNano != 900 {
		t.Errorf("used %+v, %d, want the lost call and the one that ended", got.Usage, *got.CostNano)
	}
	begin(l, Event{Body: TurnStart{}})
	_ = l.Close()
	l = mustLock(t, s, c.ID)
	begin(l) // the first that the next process does
	mustAppend(t, l, ModelCall{Model: "m", Usage: Usage{Input: 1}, CostNano: new(int64)})
	if got := mustGet(t, s.View, c.ID); got.Usage != (Usage{Input: 202, Output: 100}) || *got.CostNano != 1800 {
		t.Errorf("used %+v, %d, want another lost call and one that ended", got.Usage, *got.CostNano)
	}
}

// TestLateSettlement: what outlives the run it belongs to is charged on, up to the session in which
// it was reserved; while it is open its grant is counted.
func TestLateSettlement(t *testing.T) {
	s := openStore(t)
	root := mustCreate(t, s, New{})
	l := mustLock(t, s, root.ID)
	tokens := int64(8000)
	mustAppend(t, l, TurnStart{Limits: &Limits{Budget: Budget{Tokens: &tokens}}})
	grant := func(n int64) Grant { return Grant{Budget: Budget{Tokens: &n}} }
	reserve := func(sc Scope, c Child) *Reservation {
		t.Helper()
		rs, err := sc.Reserve(t.Context(), admit(c))
		if err != nil {
			t.Fatal(err)
		}
		return rs[0]
	}
	run := func(r *Reservation) *Log {
		t.Helper()
		log, err := l.Below().Log(t.Context(), r)
		if err != nil {
			t.Fatal(err)
		}
		mustAppend(t, log, TurnStart{})
		return log
	}
	account := func() [3]int64 {
		t.Helper()
		a, err := s.Account(t.Context(), root.ID)
		if err != nil {
			t.Fatal(err)
		}
		return [3]int64{a.Below.Tokens(), *a.Open.Tokens, *a.Free.Tokens}
	}
	a := reserve(l.Below(), Child{Call: "a", Grant: grant(4000)})
	la := run(a)
	mustAppend(t, la, ModelCall{Usage: Usage{Input: 10}})
	b := reserve(la.Below(), Child{Call: "b", Grant: grant(1000)})
	lb := run(b)
	mustAppend(t, lb, ModelCall{Usage: Usage{Input: 300}})
	if got := account(); got != [3]int64{0, 4000, 4000} {
		t.Errorf("while a runs: %v", got)
	}
	_ = la.Close()
	da, err := l.Below().Settle(t.Context(), a, Outcome{State: StateKilled})
	if err != nil || da.Own.Tokens() != 10 || da.Total.Tokens() != 10 {
		t.Errorf("a settled before b: %+v, %v", da, err)
	}
	if got := account(); got != [3]int64{10, 1000, 6990} {
		t.Errorf("while b outlives a: %v", got)
	}
	_ = lb.Close()
	if _, err := la.Below().Settle(t.Context(), b, Outcome{State: StateLost}); err != nil {
		t.Fatal(err)
	}
	if got := account(); got != [3]int64{310, 0, 7690} {
		t.Errorf("after b: %v", got)
	}
	// Continued by hand in the next session, it is paid there.
	mustAppend(t, l, TurnEnd{State: StateOK}, TurnStart{Limits: &Limits{Budget: Budget{Tokens: &tokens}}})
	hand, err := s.Below(t.Context(), a.Child.ID)
	if err != nil {
		t.Fatal(err)
	}
	b2 := reserve(hand, Child{Call: "hand", ID: b.Child.ID, Grant: grant(500)})
	if got := account(); got != [3]int64{0, 500, 7500} {
		t.Errorf("by hand: %v", got)
	}
	lb = run(b2)
	mustAppend(t, lb, ModelCall{Usage: Usage{Input: 40}})
	_ = lb.Close()
	if _, err := hand.Settle(t.Context(), b2, Outcome{State: StateOK}); err != nil {
		t.Fatal(err)
	}
	if got := account(); got != [3]int64{40, 0, 7960} {
		t.Errorf("after the hand: %v", got)
	}
	if err := s.Check(t.Context()); err != nil {
		t.Error(err)
	}
}

// TestLostCallWithAKnownID: an event that somebody brought along under the ID of a loss hides none.
func TestLostCallWithAKnownID(t *testing.T) {
	s := openStore(t)
	c := mustCreate(t, s, New{})
	l := mustLock(t, s, c.ID)
	call := Call{Model: "m", Usage: Usage{Input: 100, Output: 50}}
	start := []Event{{Body: TurnStart{}}, {ID: "lost-4", Body: UserMessage{Text: "q"}}, {ID: "lost-4-2", Body: Note{Text: "n"}}}
	if err := l.Begin(t.Context(), func(Account) *Call { return &call }, start...); err != nil {
		t.Fatal(err)
	}
	_ = l.Close()
	killed := mustExport(t, s, c.ID)
	l = mustLock(t, s, c.ID)
	mustAppend(t, l, Note{Text: "went on"})
	if got := mustGet(t, s.View, c.ID); got.Usage != call.Usage {
		t.Errorf("used %+v, want the lost call, %+v", got.Usage, call.Usage)
	}
	for what, lines := range map[string]string{"before": killed, "after": mustExport(t, s, c.ID)} {
		if !strings.Contains(lines, `"lost-4-3"`) {
			t.Errorf("the export %s the loss is stored has no event lost-4-3: %s", what, lines)
		}
	}
}

// spend appends a turn with one model call.
func spend(t *testing.T, l *Log, model string, in int64, nano *int64) {
	t.Helper()
	mustAppend(t, l, TurnStart{}, UserMessage{Text: "q"}, AssistantMessage{Text: "a"},
		ModelCall{Model: model, Usage: Usage{Input: in, Output: 1}, CostNano: nano, Duration: time.Second}, TurnEnd{State: StateOK})
}

// delegate runs one child of caller to its end; id 0 makes a new one.
func delegate(t *testing.T, caller *Log, call string, id ID, in int64, nano *int64) ID {
	t.Helper()
	rs, err := caller.Below().Reserve(t.Context(), admit(Child{Call: call, ID: id, Kind: "sub_complete", Profile: "agent/r", Model: "m/child"}))
	if err != nil {
		t.Fatal(err)
	}
	l, err := caller.Below().Log(t.Context(), rs[0])
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

// TestBeforeTurn: what is delegated below a conversation whose next run is reserved and has not begun
// is not of that run. It is bounded by what the root has left, and counts there.
func TestBeforeTurn(t *testing.T) {
	for _, begins := range []bool{true, false} {
		s := openStore(t)
		l := mustLock(t, s, mustCreate(t, s, New{}).ID)
		mustAppend(t, l, TurnStart{Limits: &Limits{Budget: Budget{Tokens: new(int64(1000))}}})
		mid := delegate(t, l, "a", 0, 9, nil) // a call has an output of one token
		next := Child{Call: "b", ID: mid}
		next.Grant.Budget.Tokens = new(int64(900))
		rs, err := l.Below().Reserve(t.Context(), admit(next))
		if err != nil {
			t.Fatal(err)
		}
		below, err := s.Below(t.Context(), mid)
		if err != nil {
			t.Fatal(err)
		}
		var leaf Child
		leaf.Call, leaf.Grant.Budget.Tokens = "leaf", new(int64(90))
		made, err := below.Reserve(t.Context(), func(st Standing) ([]Child, error) {
			if free := st.Account.Free.Tokens; free == nil || *free != 90 {
				t.Error("free below it is not 90 tokens")
			}
			return []Child{leaf}, nil
		})
		if err != nil {
			t.Fatal(err)
		}
		if begins {
			log, err := l.Below().Log(t.Context(), rs[0])
			if err != nil {
				t.Fatal(err)
			}
			spend(t, log, "m/child", 99, nil)
			if err := log.Close(); err != nil {
				t.Fatal(err)
			}
		}
		log, err := below.Log(t.Context(), made[0])
		if err != nil {
			t.Fatal(err)
		}
		spend(t, log, "m/child", 49, nil)
		if err := log.Close(); err != nil {
			t.Fatal(err)
		}
		for _, settle := range []func() (Delegation, error){
			func() (Delegation, error) { return below.Settle(t.Context(), made[0], Outcome{State: StateOK}) },
			func() (Delegation, error) { return l.Below().Settle(t.Context(), rs[0], Outcome{State: StateOK}) },
		} {
			if _, err := settle(); err != nil {
				t.Fatal(err)
			}
		}
		want := int64(1000 - 10 - 50)
		if begins {
			want -= 100
		}
		if a, err := s.Account(t.Context(), l.ID()); err != nil || *a.Free.Tokens != want {
			t.Errorf("begins %t: %d are free for sub-agents, want %d, %v", begins, *a.Free.Tokens, want, err)
		}
		if err := s.Check(t.Context()); err != nil {
			t.Error(err)
		}
	}
}

// TestAccountWithoutTurn: a run that begins no turn, as one that writes a summary, has its whole grant,
// whatever the turn before it has used below it, or uses yet.
func TestAccountWithoutTurn(t *testing.T) {
	s := openStore(t)
	l := mustLock(t, s, mustCreate(t, s, New{}).ID)
	mustAppend(t, l, TurnStart{Limits: &Limits{Budget: Budget{Tokens: new(int64(1000))}}})
	reserve := func(sc Scope, call string, id ID, tokens int64) *Reservation {
		t.Helper()
		c := Child{Call: call, ID: id}
		c.Grant.Budget.Tokens = &tokens
		rs, err := sc.Reserve(t.Context(), admit(c))
		if err != nil {
			t.Fatal(err)
		}
		return rs[0]
	}
	settle := func(sc Scope, r *Reservation) Delegation {
		t.Helper()
		d, err := sc.Settle(t.Context(), r, Outcome{State: StateOK})
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	first := reserve(l.Below(), "mid", 0, 500)
	mid, err := l.Below().Log(t.Context(), first)
	if err != nil {
		t.Fatal(err)
	}
	mustAppend(t, mid, TurnStart{})
	delegate(t, mid, "settled", 0, 199, nil) // a call has an output of one token
	late := reserve(mid.Below(), "late", 0, 70)
	mustAppend(t, mid, TurnEnd{State: StateOK})
	mustNot(t, mid.Close())
	settle(l.Below(), first)

	summary := reserve(l.Below(), "summary", first.Child.ID, 150)
	if mid, err = l.Below().Log(t.Context(), summary); err != nil {
		t.Fatal(err)
	}
	var at Account
	if err := mid.Begin(t.Context(), func(a Account) *Call { at = a; return &Call{Model: "m", Usage: Usage{Input: 150}} }); err != nil {
		t.Fatal(err)
	}
	if left := at.Left.Tokens; left == nil || *left != 150 || *mid.Account().Left.Tokens != 150 || at.Below != (Spend{}) || *at.Open.Tokens != 0 {
		t.Errorf("account of the run: %+v, want 150 tokens left", at)
	}
	mustAppend(t, mid, ModelCall{Model: "m", Usage: Usage{Input: 140}})
	mustNot(t, mid.Close())
	if d := settle(l.Below(), summary); d.Total.Tokens() != 140 || d.ChildTurn != 0 {
		t.Errorf("settled %d tokens of turn %d, want the 140 of the summary and no turn", d.Total.Tokens(), d.ChildTurn)
	}
	settle(mid.Below(), late)
	if err := s.Check(t.Context()); err != nil {
		t.Error(err)
	}
}

// TestSummaryIsNoEnd: a sub-agent that has answered stays so, however a run went that only asked for a
// summary, also while nobody has settled that. One that did nothing at all is the end of it.
func TestSummaryIsNoEnd(t *testing.T) {
	call := func(Account) *Call { return &Call{Model: "m", Usage: Usage{Input: 7}} }
	for name, tt := range map[string]struct {
		run          func(child *Log) error
		left, settle Status // of what nobody settles, and of what is settled
	}{
		"summary": {func(child *Log) error {
			if err := child.Begin(t.Context(), call); err != nil {
				return err
			}
			return child.Append(t.Context(), Event{Body: ModelCall{Model: "m", Usage: Usage{Input: 7}}})
		}, Status(StateOK), Status(StateOK)},
		"killed":  {func(child *Log) error { return child.Begin(t.Context(), call) }, Status(StateOK), Status(StateOK)},
		"nothing": {func(*Log) error { return nil }, StatusLost, Status(StateError)},
	} {
		for _, settles := range []bool{true, false} {
			s := openStore(t)
			l := mustLock(t, s, mustCreate(t, s, New{}).ID)
			mustAppend(t, l, TurnStart{})
			id := delegate(t, l, "first", 0, 9, nil)
			rs, err := l.Below().Reserve(t.Context(), admit(Child{Call: "again", ID: id}))
			if err != nil {
				t.Fatal(err)
			}
			child, err := l.Below().Log(t.Context(), rs[0])
			if err != nil {
				t.Fatal(err)
			}
			mustNot(t, tt.run(child))
			mustNot(t, child.Close())
			want := tt.settle
			if settles {
				_, err = l.Below().Settle(t.Context(), rs[0], Outcome{State: StateError})
			} else {
				want, err = tt.left, rs[0].Release()
			}
			mustNot(t, err)
			for range 2 {
				if got := mustGet(t, s.View, id); got.Status != want || got.Turns != 1 {
					t.Errorf("%s, settled %t: %s after %d turns, want %s", name, settles, got.Status, got.Turns, want)
				}
				mustNot(t, l.Close())
				mustNot(t, s.Reconcile(t.Context()))
			}
			mustNot(t, s.Check(t.Context()))
		}
	}
}

// TestNoTurnLeavesTheLast: a run that begins no turn leaves the account of the turn before it as it was,
// and what is made below the conversation from then on is within the run of that turn.
func TestNoTurnLeavesTheLast(t *testing.T) {
	for name, end := range map[string]func(t *testing.T, sc Scope, r *Reservation) error{
		"withdrawn": func(t *testing.T, sc Scope, r *Reservation) error {
			return sc.Withdraw(t.Context(), r, Outcome{State: StateCancelled})
		},
		"cancelled": func(t *testing.T, sc Scope, r *Reservation) error {
			_, err := sc.Settle(t.Context(), r, Outcome{State: StateCancelled})
			return err
		},
		"lost": func(t *testing.T, sc Scope, r *Reservation) error {
			return errors.Join(r.Release(), sc.f.write(t.Context(), func(tx *tx) error { return tx.reconcile(sc.root, sc.as) }))
		},
		"a summary": func(t *testing.T, sc Scope, r *Reservation) error {
			log, err := sc.Log(t.Context(), r)
			if err != nil {
				return err
			}
			mustAppend(t, log, ModelCall{Model: "m", Usage: Usage{Input: 7}})
			_ = log.Close()
			_, err = sc.Settle(t.Context(), r, Outcome{State: StateOK})
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := openStore(t)
			root := mustLock(t, s, mustCreate(t, s, New{}).ID)
			mustAppend(t, root, TurnStart{Limits: &Limits{Budget: Budget{Tokens: new(int64(1000))}}})
			reserve := func(sc Scope, c Child) *Reservation {
				t.Helper()
				rs, err := sc.Reserve(t.Context(), admit(c))
				if err != nil {
					t.Fatal(err)
				}
				return rs[0]
			}
			first := reserve(root.Below(), Child{Call: "first", Grant: Grant{Tools: []string{"x"}, Budget: Budget{Tokens: ptr(500)}}})
			mid, err := root.Below().Log(t.Context(), first)
			if err != nil {
				t.Fatal(err)
			}
			mustAppend(t, mid, TurnStart{}, ModelCall{Model: "m", Usage: Usage{Input: 20}})
			delegate(t, mid, "settled", 0, 199, nil) // a call has an output of one token
			mustAppend(t, mid, TurnEnd{State: StateOK})
			_ = mid.Close()
			if _, err := root.Below().Settle(t.Context(), first, Outcome{State: StateOK}); err != nil {
				t.Fatal(err)
			}
			was := mustGet(t, s.View, mid.ID()).Grant
			before, err := s.Account(t.Context(), mid.ID())
			if err != nil || *before.Left.Tokens != 280 {
				t.Fatalf("left %+v, %v, want 280 tokens", before.Left, err)
			}
			for _, call := range []string{"again", "and again"} {
				r := reserve(root.Below(), Child{Call: call, ID: mid.ID(), Grant: Grant{Strict: true, Budget: Budget{Tokens: ptr(10)}}})
				if err := end(t, root.Below(), r); err != nil {
					t.Fatal(err)
				}
				if after, err := s.Account(t.Context(), mid.ID()); err != nil || !reflect.DeepEqual(after, before) {
					t.Errorf("after it the account is %+v, %v, want %+v", after, err, before)
				}
				if is := mustGet(t, s.View, mid.ID()).Grant; !reflect.DeepEqual(is, was) {
					t.Errorf("after it the grant is %+v, want %+v", is, was)
				}
			}
			scope := mustBelow(t, s, mid.ID())
			by := reserve(scope, Child{Call: "by a person"})
			if by.Delegation.Within != first.Delegation.Number {
				t.Errorf("within %d, want %d", by.Delegation.Within, first.Delegation.Number)
			}
			if _, err := scope.Settle(t.Context(), by, Outcome{State: StateOK}); err != nil {
				t.Fatal(err)
			}
			if err := s.Check(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
}

// A conversation with a grant asks no model but in a delegation: it would be on nobody's account.
func TestBeginOutsideDelegation(t *testing.T) {
	s := openStore(t)
	root := mustCreate(t, s, New{})
	l := mustLock(t, s, root.ID)
	mustAppend(t, l, TurnStart{})
	child := mustLock(t, s, delegate(t, l, "c1", 0, 10, nil))
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
			child, err := l.Below().Log(t.Context(), rs[0])
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

	child := delegate(t, l, "c1", 0, huge, &huge)
	mustAppend(t, l, TurnEnd{State: StateOK}, TurnStart{Limits: &Limits{Run: Budget{Tokens: &limit, CostNano: &limit}}})
	left(100)
	delegate(t, l, "c2", child, 29, &thirty) // and one of output
	left(70)
	if err := s.Check(t.Context()); err != nil {
		t.Errorf("Check = %v", err)
	}
	if d, err := Rooms.Differences(t.Context(), s.View, root.ID); d != "" || err != nil {
		t.Errorf("Differences() = %s, %v", d, err)
	}
}

// TestOpenOfEarlierVersion: where a store has only the ids of an open delegation, the account reads
// the rest from its record.
func TestOpenOfEarlierVersion(t *testing.T) {
	f := newFamily(t)
	scope, err := f.s.Below(t.Context(), f.child)
	if err != nil {
		t.Fatal(err)
	}
	tokens := int64(70)
	rs, err := scope.Reserve(t.Context(), admit(Child{Call: "a", Grant: Grant{Budget: Budget{Tokens: &tokens}}}))
	if err != nil {
		t.Fatal(err)
	}
	account := func() Account {
		t.Helper()
		v, err := f.s.Under(t.Context(), f.root)
		if err != nil {
			t.Fatal(err)
		}
		a, err := v.Account(t.Context(), f.child)
		if err != nil {
			t.Fatal(err)
		}
		return a
	}
	want := account()
	if want.Open.Tokens == nil || *want.Open.Tokens != tokens || want.Open.CostNano != nil {
		t.Errorf("open = %+v, want %d tokens and no limit of the cost", want.Open, tokens)
	}
	d := rs[0].Delegation
	if err := f.s.f.write(t.Context(), func(t *tx) error {
		return t.Put(db.OpenDelegations, db.PairKey(d.Root, d.Number), d.openEntry()[:16])
	}); err != nil {
		t.Fatal(err)
	}
	if got := account(); !reflect.DeepEqual(got, want) {
		t.Errorf("account = %+v, want %+v", got, want)
	}
	if err := f.s.Check(t.Context()); err != nil {
		t.Error(err)
	}
	if _, err := scope.Settle(t.Context(), rs[0], Outcome{State: StateOK}); err != nil {
		t.Fatal(err)
	}
}

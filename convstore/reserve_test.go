package convstore

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"sync"
	"testing"
	"time"
)

// family is a small tree:
//
//	root ─ child ─ grandchild
//	     ├ sibling
//	     └ fork (by a person) ─ below
//	other (another root)
type family struct {
	s                                             *Store
	root, child, grandchild, sibling, fork, below ID
	other                                         ID
}

func newFamily(t testing.TB) family {
	t.Helper()
	s := openStore(t)
	f := family{s: s, root: mustCreate(t, s, New{Title: "root"}).ID, other: mustCreate(t, s, New{Title: "other"}).ID}
	delegate := func(from ID, call string) ID {
		t.Helper()
		scope, err := s.Below(t.Context(), from)
		if err != nil {
			t.Fatal(err)
		}
		rs, err := scope.Reserve(t.Context(), admit(Child{Call: call, Title: call, Grant: Grant{Tools: []string{"fs_read_file"}, MaxDepth: 1}}))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := scope.Settle(t.Context(), rs[0], Outcome{State: StateOK}); err != nil {
			t.Fatal(err)
		}
		return rs[0].Child.ID
	}
	f.child = delegate(f.root, "child")
	f.grandchild = delegate(f.child, "grandchild")
	f.sibling = delegate(f.root, "sibling")
	fork, err := s.Fork(t.Context(), f.root, Fork{Title: "fork"})
	if err != nil {
		t.Fatal(err)
	}
	f.fork = fork.ID
	f.below = delegate(f.fork, "below")
	return f
}

// TestScope tries every conversation through every way that a view has to one.
func TestScope(t *testing.T) {
	f := newFamily(t)
	names := map[ID]string{
		f.root: "root", f.child: "child", f.grandchild: "grandchild", f.sibling: "sibling",
		f.fork: "fork", f.below: "below", f.other: "other", 1: "unknown", 0: "zero", -5: "negative",
	}
	scope := func(id ID) View {
		s, err := f.s.Below(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		return s.View
	}
	under := func(id ID) View {
		v, err := f.s.Under(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	for _, test := range []struct {
		name string
		v    View
		want []ID
	}{
		{"agent at root", scope(f.root), []ID{f.child, f.grandchild, f.sibling}},
		{"agent at child", scope(f.child), []ID{f.grandchild}},
		{"agent at grandchild", scope(f.grandchild), nil},
		{"agent at fork", scope(f.fork), []ID{f.below}},
		{"agent at other", scope(f.other), nil},
		{"person at root", under(f.root), []ID{f.child, f.grandchild, f.sibling, f.fork, f.below}},
		{"person at child", under(f.child), []ID{f.grandchild}},
		{"person at fork", under(f.fork), []ID{f.below}},
		{"person", f.s.View, []ID{f.root, f.child, f.grandchild, f.sibling, f.fork, f.below, f.other}},
	} {
		ctx := t.Context()
		if got := mustList(t, test.v, Filter{Hidden: true}); !slices.Equal(got, test.want) {
			t.Errorf("%s: List = %v, want %v", test.name, got, test.want)
		}
		for id, name := range names {
			_, get := test.v.Get(ctx, id)
			_, config := test.v.Config(ctx, id)
			var events error
			for _, err := range test.v.Events(ctx, id, Range{}) {
				events = err
			}
			_, search := Rooms.Search(ctx, test.v, "e", id)
			errs := map[string]error{"Get": get, "Config": config, "Events": events, "Search": search}
			if id != test.v.root {
				_, errs["List"] = test.v.List(ctx, Filter{Children: id})
				if id == 0 {
					delete(errs, "List") // no filter
				}
			}
			for what, err := range errs {
				what = fmt.Sprintf("%s: %s of %s", test.name, what, name)
				switch {
				case slices.Contains(test.want, id):
					if err != nil {
						t.Errorf("%s: %v", what, err)
					}
				case id <= 1 && !test.v.delegated:
					checkError(t, what, err, &NotFoundError{ID: id})
				default:
					checkError(t, what, err, &ScopeError{id, test.v.root})
				}
			}
		}
	}
}

// TestReserveExpires: a child expires after its last run, and not later than what is above it.
func TestReserveExpires(t *testing.T) {
	now := storeEpoch
	s := openStoreIn(t, memoryDir(t)+"/store", Options{Now: func() time.Time { return now }})
	run := func(caller ID, c Child) Conversation {
		t.Helper()
		scope, err := s.Below(t.Context(), caller)
		if err != nil {
			t.Fatal(err)
		}
		rs, err := scope.Reserve(t.Context(), admit(c))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := scope.Settle(t.Context(), rs[0], Outcome{State: StateOK}); err != nil {
			t.Fatal(err)
		}
		return mustGet(t, s.View, rs[0].Child.ID)
	}
	const day = 24 * time.Hour
	root, short := mustCreate(t, s, New{}).ID, mustCreate(t, s, New{ExpiresAt: now.Add(day)}).ID
	a, never := run(root, Child{Call: "a", Expire: 2 * day}), run(root, Child{Call: "never"})
	if want := now.Add(2 * day); !a.ExpiresAt.Equal(want) || !never.ExpiresAt.IsZero() {
		t.Errorf("expire %v and %v, want %v and never", a.ExpiresAt, never.ExpiresAt, want)
	}
	if below := run(short, Child{Call: "a", Expire: 2 * day}); !below.ExpiresAt.IsZero() {
		t.Errorf("expires %v, after what it is below", below.ExpiresAt)
	}
	if below := run(run(short, Child{Call: "b"}).ID, Child{Call: "a", Expire: time.Hour}); !below.ExpiresAt.Equal(now.Add(time.Hour)) {
		t.Errorf("expires %v, want an hour later", below.ExpiresAt)
	}
	now = now.Add(day)
	for _, c := range []Child{{Call: "b", ID: a.ID, Expire: 2 * day}, {Call: "c", ID: a.ID, Expire: day}, {Call: "d", ID: a.ID}} {
		if got := run(root, c); !got.ExpiresAt.Equal(now.Add(2 * day)) {
			t.Errorf("%s: expires %v", c.Call, got.ExpiresAt)
		}
	}
	if got := run(root, Child{Call: "e", ID: never.ID, Expire: day}); !got.ExpiresAt.IsZero() {
		t.Errorf("expires %v, and never did", got.ExpiresAt)
	}
	now = now.Add(2*day + time.Second)
	gone, err := s.Expire(t.Context())
	if err != nil || !slices.Contains(gone, a.ID) || slices.Contains(gone, never.ID) || !slices.Contains(gone, short) {
		t.Errorf("Expire = %v, %v", gone, err)
	}
}

// TestExpireAfterTheTurn: a child expires so long after the end of its run, and stays while the
// turn is open that started it, also when nobody runs that.
func TestExpireAfterTheTurn(t *testing.T) {
	now := storeEpoch
	s := openStoreIn(t, memoryDir(t)+"/store", Options{Now: func() time.Time { return now }})
	root := mustCreate(t, s, New{})
	l := mustLock(t, s, root.ID)
	mustAppend(t, l, TurnStart{}, UserMessage{Text: "q"})
	rs, err := l.Below().Reserve(t.Context(), admit(Child{Call: "a", Expire: time.Minute}))
	if err != nil {
		t.Fatal(err)
	}
	child := rs[0].Child.ID
	now = now.Add(time.Hour)
	if _, err := l.Below().Settle(t.Context(), rs[0], Outcome{State: StateOK}); err != nil {
		t.Fatal(err)
	}
	if got, want := mustGet(t, s.View, child).ExpiresAt, now.Add(time.Minute); !got.Equal(want) {
		t.Errorf("expires %v, want %v", got, want)
	}
	mustNot(t, l.Close())
	now = now.Add(time.Hour)
	if gone, err := s.Expire(t.Context()); len(gone) > 0 || err != nil {
		t.Errorf("Expire = %v, %v while the turn is open", gone, err)
	}
	l = mustLock(t, s, root.ID)
	mustAppend(t, l, TurnEnd{State: StateOK})
	if gone, err := s.Expire(t.Context()); !slices.Equal(gone, []ID{child}) || err != nil {
		t.Errorf("Expire = %v, %v, want %v", gone, err, child)
	}
	mustNot(t, l.Close())
	if err := s.Check(t.Context()); err != nil {
		t.Error(err)
	}
}

// TestReserveScope asks for children that the caller must not have.
func TestReserveScope(t *testing.T) {
	f := newFamily(t)
	l := mustLock(t, f.s, f.child)
	before := mustList(t, f.s.View, Filter{Hidden: true})
	for id, want := range map[ID]error{
		f.root: &ScopeError{f.root, f.child}, f.child: &ScopeError{f.child, f.child}, f.sibling: &ScopeError{f.sibling, f.child},
		f.fork: &ScopeError{f.fork, f.child}, f.below: &ScopeError{f.below, f.child}, f.other: &ScopeError{f.other, f.child},
		1: &ScopeError{1, f.child}, -1: &ScopeError{-1, f.child}, // as what there is outside
	} {
		var lookup error
		rs, err := l.Below().Reserve(t.Context(), func(st Standing) ([]Child, error) {
			_, lookup = st.Lookup(id)
			return []Child{{Call: "new"}, {Call: "resume", ID: id}}, nil
		})
		if rs != nil || !reflect.DeepEqual(err, want) || !reflect.DeepEqual(lookup, want) {
			t.Errorf("Reserve(%v) = %v, %v; Lookup: %v; want %v", id, rs, err, lookup, want)
		}
	}
	// Each time a conversation was forked first, and undone.
	if got := mustList(t, f.s.View, Filter{Hidden: true}); !slices.Equal(got, before) {
		t.Errorf("after refusals: %v, want %v", got, before)
	}
}

func TestReserve(t *testing.T) {
	now := storeEpoch
	s := openStoreIn(t, memoryDir(t)+"/store", Options{Now: func() time.Time { return now }})
	root := mustCreate(t, s, New{Role: "main", ExpiresAt: now.Add(time.Hour)})
	l := mustLock(t, s, root.ID)
	mustAppend(t, l, TurnStart{})
	tokens := int64(100)
	a := Child{
		Call: "a", Kind: "sub_complete", Title: "A", Hidden: true, Profile: "p", ProfileArg: "/p.toml", ProfileHash: "h", Model: "m", Role: "subagent",
		Grant:  Grant{Tools: []string{"x", "y"}, MaxDepth: 2, Deadline: now.Add(time.Minute), Budget: Budget{Tokens: &tokens}},
		Config: Config{JSON: []byte("{}"), Tools: []string{"x", "y"}}, ToolsTotal: 3, ToolsDenied: 1,
	}
	var standing Standing
	rs, err := l.Below().Reserve(t.Context(), func(st Standing) ([]Child, error) {
		standing = st
		return []Child{a}, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if standing.Caller.ID != root.ID || standing.Caller.Turns != 1 || len(standing.Ancestors)+standing.Calls+standing.Children != 0 {
		t.Errorf("first standing: %+v", standing)
	}
	child := rs[0].Child
	wantChild := Conversation{
		ID: child.ID, Parent: root.ID, Root: root.ID, Link: DelegationLink, Depth: 1, Title: "A", Hidden: true,
		CreatedAt: now, UpdatedAt: now, Profile: "p", ProfileArg: "/p.toml", ProfileHash: "h", Model: "m", Role: "subagent", Grant: &a.Grant,
		CostNano: new(int64), Status: StatusQueued,
	}
	if !reflect.DeepEqual(child, wantChild) {
		t.Errorf("child %+v, want %+v", child, wantChild)
	}
	if got := mustGet(t, s.View, child.ID); !reflect.DeepEqual(got, wantChild) {
		t.Errorf("child read again %+v, want %+v", got, wantChild)
	}
	d := rs[0].Delegation
	want := Delegation{
		ID: d.ID, Number: d.Number, Root: root.ID, Caller: root.ID, Child: child.ID, Call: "a", Kind: "sub_complete",
		Profile: "p", ProfileHash: "h", Model: "m", Depth: 1, Grant: a.Grant, Turn: 1, Session: 1, ChildTurn: 1, Fresh: true,
		Reserved: now, ToolsAllowed: 2, ToolsTotal: 3, ToolsDenied: 1,
	}
	if !reflect.DeepEqual(d, want) {
		t.Errorf("delegation %+v, want %+v", d, want)
	}
	// A call that was made is not made again, however it is asked for.
	again, err := l.Below().Reserve(t.Context(), admit(Child{Call: "a", Title: "other"}))
	if err != nil || !again[0].Existed || !reflect.DeepEqual(again[0].Delegation, d) || hasLock(again[0]) {
		t.Errorf("again: %+v, %v", again[0], err)
	}
	// The running child cannot be given another run, and nothing else happens then.
	_, err = l.Below().Reserve(t.Context(), admit(Child{Call: "b", Title: "B"}, Child{Call: "c", ID: child.ID}))
	if busyID(err) != child.ID {
		t.Errorf("a second run of a child: %v", err)
	}
	if got := mustGet(t, s.View, root.ID).Children; got != 1 {
		t.Errorf("%d children after a refused batch, want 1", got)
	}
	now = now.Add(time.Second)
	settled, err := l.Below().Settle(t.Context(), rs[0], Outcome{State: StatePartial, Reason: "tokens", PID: 7, Started: now})
	want.State, want.Reason, want.PID, want.Started, want.Ended, want.ChildTurn = StatePartial, "tokens", 7, now, now, 0
	if err != nil || !reflect.DeepEqual(settled, want) {
		t.Errorf("settled %+v, %v, want %+v", settled, err, want)
	}
	// It goes on, with a new grant.
	more, err := l.Below().Reserve(t.Context(), func(st Standing) ([]Child, error) {
		if d, ok := st.Existing("a"); st.Calls != 1 || st.Children != 1 || !ok || !reflect.DeepEqual(d, want) {
			t.Errorf("second standing: %+v, the first call %+v", st, d)
		}
		if c, err := st.Lookup(child.ID); err != nil || c.Title != "A" {
			t.Errorf("Lookup = %+v, %v", c, err)
		}
		return []Child{{Call: "d", ID: child.ID, Title: "ignored", Role: "main", Grant: Grant{MaxDepth: 0}}}, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if c := more[0].Child; c.ID != child.ID || c.Title != "A" || c.Role != "subagent" || c.Grant.Tools != nil || c.Profile != "p" {
		t.Errorf("resumed child: %+v", c)
	}
	if d := more[0].Delegation; d.Fresh || d.ChildTurn != 1 || d.Profile != "p" || d.Model != "m" {
		t.Errorf("second delegation: %+v", d)
	}
	if cfg, err := s.Config(t.Context(), child.ID); err != nil || !reflect.DeepEqual(cfg, a.Config) {
		t.Errorf("config of a resumed child: %+v, %v", cfg, err)
	}
	if _, err := l.Below().Settle(t.Context(), more[0], Outcome{State: StateOK}); err != nil {
		t.Fatal(err)
	}
	// A child that goes on is a call, and no new conversation.
	if _, err := l.Below().Reserve(t.Context(), func(st Standing) ([]Child, error) {
		if st.Calls != 2 || st.Children != 1 {
			t.Errorf("%d calls and %d children, want 2 and 1", st.Calls, st.Children)
		}
		return nil, nil
	}); err != nil {
		t.Fatal(err)
	}
	// A new turn has a standing of its own.
	mustAppend(t, l, TurnEnd{State: StateOK}, TurnStart{})
	boom := errors.New("refused")
	if _, err := l.Below().Reserve(t.Context(), func(st Standing) ([]Child, error) {
		if st.Calls != 0 || st.Children != 0 {
			t.Errorf("standing in the next turn: %+v", st)
		}
		return []Child{a}, boom
	}); err != boom {
		t.Errorf("Reserve = %v, want the error of admit itself", err)
	}
	for _, bad := range []Child{{}, {Call: string(make([]byte, MaxCall+1))}} {
		if _, err := l.Below().Reserve(t.Context(), admit(bad)); err == nil {
			t.Errorf("a call with an id of %d bytes was taken", len(bad.Call))
		}
	}
	if _, err := l.Below().Reserve(t.Context(), admit(Child{Call: "e"}, Child{Call: "e"})); err != nil {
		t.Errorf("one call twice in a batch: %v", err)
	}
}

// TestStandingOfNested reads the standing two levels down.
func TestStandingOfNested(t *testing.T) {
	f := newFamily(t)
	for _, test := range []struct {
		at        ID
		ancestors []ID
		children  int
	}{
		{f.grandchild, []ID{f.child, f.root}, 3},
		{f.child, []ID{f.root}, 3},
		{f.root, nil, 3},
		{f.below, []ID{f.fork}, 1}, // the ledger ends at the fork
	} {
		scope, err := f.s.Below(t.Context(), test.at)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := scope.Reserve(t.Context(), func(st Standing) ([]Child, error) {
			if got := ids(st.Ancestors); !slices.Equal(got, test.ancestors) || st.Children != test.children {
				t.Errorf("at %v: ancestors %v, %d children, want %v and %d", test.at, got, st.Children, test.ancestors, test.children)
			}
			return nil, nil
		}); err != nil {
			t.Fatal(err)
		}
	}
	if c := mustGet(t, f.s.View, f.grandchild); c.Depth != 2 || c.Root != f.root {
		t.Errorf("grandchild: %+v", c)
	}
	if c := mustGet(t, f.s.View, f.below); c.Depth != 1 || c.Root != f.root {
		t.Errorf("below the fork: %+v", c)
	}
}

// TestDelegationsOutliveConversations removes everything, and reads the ledger.
func TestDelegationsOutliveConversations(t *testing.T) {
	f := newFamily(t)
	ctx := t.Context()
	before, err := f.s.Delegations(ctx, f.root)
	if err != nil || len(before) != 3 {
		t.Fatalf("Delegations = %+v, %v", before, err)
	}
	scope, err := f.s.Below(ctx, f.child)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := scope.Delegations(ctx, f.root); err != nil || len(got) != 1 || got[0].Caller != f.child {
		t.Errorf("Delegations in the scope of child = %+v, %v", got, err)
	}
	removed, err := f.s.Remove(ctx, f.root, RemoveOptions{Cascade: true})
	if want := []ID{f.root, f.child, f.grandchild, f.sibling, f.fork, f.below}; err != nil || !slices.Equal(removed, want) {
		t.Fatalf("Remove = %v, %v, want %v", removed, err, want)
	}
	after, err := f.s.Delegations(ctx, f.root)
	if err != nil || !reflect.DeepEqual(after, before) {
		t.Errorf("Delegations after removal = %+v, %v, want %+v", after, err, before)
	}
	_, err = scope.Reserve(ctx, admit(Child{Call: "late"}))
	checkError(t, "Reserve for a removed caller", err, &NotFoundError{ID: f.child})
	_, err = f.s.Delegations(ctx, f.sibling)
	checkError(t, "Delegations of nobody", err, &NotFoundError{ID: f.sibling})
}

// TestRemoveSettlesOpen removes a caller whose delegation nobody will settle.
func TestRemoveSettlesOpen(t *testing.T) {
	s := openStore(t)
	root := mustCreate(t, s, New{})
	l := mustLock(t, s, root.ID)
	rs, err := l.Below().Reserve(t.Context(), admit(Child{Call: "a"}))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Remove(t.Context(), root.ID, RemoveOptions{Cascade: true}); busyID(err) == 0 {
		t.Errorf("Remove while it runs: %v", err)
	}
	_ = l.Close()
	if _, err := s.Remove(t.Context(), root.ID, RemoveOptions{Cascade: true}); busyID(err) != rs[0].Child.ID {
		t.Errorf("Remove while its child runs: %v", err)
	}
	_ = rs[0].Release()
	if _, err := s.Remove(t.Context(), root.ID, RemoveOptions{Cascade: true}); err != nil {
		t.Fatal(err)
	}
	ds, err := s.Delegations(t.Context(), root.ID)
	if err != nil || len(ds) != 1 || ds[0].State != StateLost || ds[0].Reason != reasonUnstarted || !ds[0].Unstarted || ds[0].Ended.IsZero() {
		t.Errorf("Delegations = %+v, %v", ds, err)
	}
	// The caller, should it come back after all, learns how it ended.
	d, err := l.Below().Settle(t.Context(), rs[0], Outcome{State: StateOK})
	if err != nil || d.State != StateLost {
		t.Errorf("Settle = %+v, %v, want the settlement that stands", d, err)
	}
}

// TestConcurrentReserve lets many goroutines delegate from one caller at once, each under the same
// limit, and never more than the limit come through.
func TestConcurrentReserve(t *testing.T) {
	s := openStore(t)
	root := mustCreate(t, s, New{})
	l := mustLock(t, s, root.ID)
	mustAppend(t, l, TurnStart{})
	const limit = 5
	full := errors.New("full")
	var wg sync.WaitGroup
	var mu sync.Mutex
	admitted, refused := 0, 0
	for i := range 16 {
		wg.Go(func() {
			rs, err := l.Below().Reserve(t.Context(), func(st Standing) ([]Child, error) {
				if st.Children >= limit {
					return nil, full
				}
				return []Child{{Call: fmt.Sprint(i)}}, nil
			})
			if err == nil {
				err = l.Append(t.Context(), Event{Body: ToolResult{ID: fmt.Sprint(i)}})
				if _, settled := l.Below().Settle(t.Context(), rs[0], Outcome{State: StateOK}); err == nil {
					err = settled
				}
			}
			mu.Lock()
			defer mu.Unlock()
			switch {
			case err == nil:
				admitted++
			case err == full:
				refused++
			default:
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if admitted != limit || refused != 16-limit {
		t.Errorf("%d admitted, %d refused, want %d and %d", admitted, refused, limit, 16-limit)
	}
}

// TestUsed: calls with a prefix have used what those used that have ended, also if their conversation
// is gone, and what is granted to those that are open, or were made in an ended one.
func TestUsed(t *testing.T) {
	s := openStore(t)
	l := mustLock(t, s, mustCreate(t, s, New{}).ID)
	mustAppend(t, l, TurnStart{})
	gone := delegate(t, l, "a#1", 0, 10, nil)
	delegate(t, l, "a", 0, 100, nil)
	delegate(t, l, "a1#1", 0, 100, nil)
	late := delegate(t, l, "a#r1.1", 0, 20, nil)
	delegate(t, l, "b#1", delegate(t, l, "b#2", 0, 10, nil), 100, nil)
	if _, err := s.Remove(t.Context(), gone, RemoveOptions{}); err != nil {
		t.Fatal(err)
	}
	var open Child
	open.Call, open.Grant.Budget.Tokens = "a#2", new(int64(4))
	rs, err := l.Below().Reserve(t.Context(), admit(open))
	if err != nil {
		t.Fatal(err)
	}
	check := func(want int64) {
		t.Helper()
		if _, err := l.Below().Reserve(t.Context(), func(st Standing) ([]Child, error) {
			if got, err := st.Used("a#"); err != nil || got != want {
				t.Errorf("used %d, %v, want %d", got, err, want)
			}
			return nil, nil
		}); err != nil {
			t.Fatal(err)
		}
	}
	check(36) // a call has an output of one token
	if _, err := l.Below().Settle(t.Context(), rs[0], Outcome{State: StateCancelled}); err != nil {
		t.Fatal(err)
	}
	check(32)
	below, err := s.Below(t.Context(), late)
	if err != nil {
		t.Fatal(err)
	}
	open.Call, open.Grant.Budget.Tokens = "x", new(int64(7))
	if rs, err = below.Reserve(t.Context(), admit(open)); err != nil {
		t.Fatal(err)
	}
	check(39) // it counts in the total of the one that made it
	if _, err := below.Settle(t.Context(), rs[0], Outcome{State: StateCancelled}); err != nil {
		t.Fatal(err)
	}
	check(32)
}

// TestWithdraw: of a reservation that nothing came of nothing is left; one that began is settled.
func TestWithdraw(t *testing.T) {
	s := openStore(t)
	l := mustLock(t, s, mustCreate(t, s, New{}).ID)
	mustAppend(t, l, TurnStart{})
	old := delegate(t, l, "c1", 0, 10, nil)
	before, ds := mustGet(t, s.View, old), mustDelegations(t, s, l.ID())
	withdraw := func(c Child, begin func(*Log)) {
		t.Helper()
		rs, err := l.Below().Reserve(t.Context(), admit(c))
		if err != nil {
			t.Fatal(err)
		}
		if begin != nil {
			child, err := l.Below().Log(t.Context(), rs[0])
			if err != nil {
				t.Fatal(err)
			}
			begin(child)
			_ = child.Close()
		}
		if err := l.Below().Withdraw(t.Context(), rs[0], Outcome{State: StateError, Reason: "why"}); err != nil {
			t.Fatal(err)
		}
	}
	standing := func() (st Standing) {
		t.Helper()
		if _, err := l.Below().Reserve(t.Context(), func(now Standing) ([]Child, error) { st = now; return nil, nil }); err != nil {
			t.Fatal(err)
		}
		return st
	}
	withdraw(Child{Call: "new"}, nil)
	withdraw(Child{Call: "again", ID: old}, nil)
	if got := mustDelegations(t, s, l.ID()); !reflect.DeepEqual(got, ds) {
		t.Errorf("delegations %+v, want %+v", got, ds)
	}
	if got := mustGet(t, s.View, old); got.Status != before.Status || got.Reason != before.Reason {
		t.Errorf("the child is %s %q, want %s", got.Status, got.Reason, before.Status)
	}
	if got := mustList(t, s.View, Filter{Hidden: true}); len(got) != 2 {
		t.Errorf("conversations %v, want the root and its child", got)
	}
	if st := standing(); st.Calls != 1 || st.Children != 1 || *st.Account.Open.Tokens != 0 {
		t.Errorf("standing: %d calls, %d children, %d open, want 1, 1 and none", st.Calls, st.Children, *st.Account.Open.Tokens)
	}
	withdraw(Child{Call: "again", ID: old}, func(child *Log) { mustAppend(t, child, TurnStart{}) })
	if got := mustGet(t, s.View, old); got.Status != Status(StateError) || got.Reason != "why" {
		t.Errorf("begun, the child is %s %q, want what it was settled as", got.Status, got.Reason)
	}
	if st := standing(); st.Calls != 2 {
		t.Errorf("begun: %d calls, want 2", st.Calls)
	}
}

// TestWithdrawAbove: a child that is withdrawn stays where somebody has made a conversation below it.
func TestWithdrawAbove(t *testing.T) {
	s := openStore(t)
	l := mustLock(t, s, mustCreate(t, s, New{}).ID)
	mustAppend(t, l, TurnStart{})
	rs, err := l.Below().Reserve(t.Context(), admit(Child{Call: "c"}))
	if err != nil {
		t.Fatal(err)
	}
	child := rs[0].Child.ID
	fork, err := s.Fork(t.Context(), child, Fork{})
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Below().Withdraw(t.Context(), rs[0], Outcome{}); err != nil {
		t.Fatal(err)
	}
	mustAppend(t, mustLock(t, s, fork.ID), TurnStart{})
	if got := mustGet(t, s.View, fork.ID); got.Parent != child {
		t.Errorf("the parent of the fork is %s, want %s", got.Parent, child)
	}
	if ds := mustDelegations(t, s, l.ID()); len(ds) > 0 {
		t.Errorf("delegations %+v, want none", ds)
	}
	if err := s.Check(t.Context()); err != nil {
		t.Error(err)
	}
}

// TestReservedAgainLater: a delegation that is reserved again comes behind the run that its caller
// has begun meanwhile.
func TestReservedAgainLater(t *testing.T) {
	s := openStore(t)
	l := mustLock(t, s, mustCreate(t, s, New{}).ID)
	mustAppend(t, l, TurnStart{})
	mid := delegate(t, l, "mid", 0, 10, nil)
	below, err := s.Below(t.Context(), mid)
	if err != nil {
		t.Fatal(err)
	}
	part := Child{Call: "part", Person: true}
	rs, err := below.Reserve(t.Context(), admit(part))
	if err != nil {
		t.Fatal(err)
	}
	if err := rs[0].Release(); err != nil { // as when its process dies
		t.Fatal(err)
	}
	if _, err := below.Reserve(t.Context(), admit()); err != nil {
		t.Fatal(err)
	}
	delegate(t, l, "mid again", mid, 10, nil)
	if rs, err = below.Reserve(t.Context(), admit(part)); err != nil {
		t.Fatal(err)
	}
	if _, err := below.Settle(t.Context(), rs[0], Outcome{State: StateOK}); err != nil {
		t.Fatal(err)
	}
	if ds := mustDelegations(t, s, l.ID()); len(ds) != 3 || ds[2].Call != "part" || ds[2].Within != ds[1].Number {
		t.Errorf("delegations %+v, want that within the second run at the end", ds)
	}
	if err := s.Check(t.Context()); err != nil {
		t.Error(err)
	}
}

// TestReservedAgainBeside: a call whose child had not begun before a crash never runs in a turn of a
// person. Where that one uses a child that was made for the call, it gets another; a child that was
// there before is busy.
func TestReservedAgainBeside(t *testing.T) {
	for name, test := range map[string]struct{ fresh, ended bool }{
		"made for it":           {true, false},
		"made for it, and free": {true, true},
		"there before":          {false, false},
		"there before and free": {false, true},
	} {
		t.Run(name, func(t *testing.T) {
			s := openStore(t)
			l := mustLock(t, s, mustCreate(t, s, New{}).ID)
			mustAppend(t, l, TurnStart{})
			c := Child{Call: "again"}
			if !test.fresh {
				c.ID = delegate(t, l, "before", 0, 10, nil)
			}
			rs, err := l.Below().Reserve(t.Context(), admit(c))
			if err != nil {
				t.Fatal(err)
			}
			child := rs[0].Child
			if err := rs[0].Release(); err != nil { // as when its process dies
				t.Fatal(err)
			}
			person := mustLock(t, s, child.ID)
			mustAppend(t, person, TurnStart{}, TurnEnd{State: StateOK})
			if test.ended {
				mustNot(t, person.Close())
			}
			rs, err = l.Below().Reserve(t.Context(), admit(c))
			switch {
			case !test.fresh && !test.ended:
				if busyID(err) != child.ID {
					t.Errorf("Reserve = %v, want that %s is busy", err, child.ID)
				}
				return
			case err != nil:
				t.Fatal(err)
			}
			if got := rs[0].Child; got.ID == child.ID == test.fresh || rs[0].Existed || rs[0].Delegation.Fresh != test.fresh || rs[0].Delegation.ChildTurn != got.Turns+1 {
				t.Errorf("reserved %+v, existed %t, in %s", rs[0].Delegation, rs[0].Existed, got.ID)
			}
			if ds := mustDelegations(t, s, l.ID()); ds[len(ds)-1].Call != "again" || len(ds) > 2 {
				t.Errorf("delegations %+v, want one of the call", ds)
			}
			if _, err := l.Below().Settle(t.Context(), rs[0], Outcome{State: StateKilled}); err != nil {
				t.Fatal(err)
			}
			if err := s.Check(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
}

func mustDelegations(t *testing.T, s *Store, root ID) []Delegation {
	t.Helper()
	ds, err := s.Delegations(t.Context(), root)
	if err != nil {
		t.Fatal(err)
	}
	return ds
}

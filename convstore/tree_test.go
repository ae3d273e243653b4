package convstore

import (
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestRangeResolve(t *testing.T) {
	none := [2]int{1, 0}
	for _, test := range []struct {
		r    Range
		n    int
		want [2]int
	}{
		{Range{}, 3, [2]int{0, 3}},
		{Range{}, 0, [2]int{0, 0}},
		{Range{First: 2}, 3, [2]int{2, 3}},
		{Range{Last: 2}, 3, [2]int{0, 2}},
		{Range{First: 2, Last: 9}, 3, [2]int{2, 3}},
		{Range{First: -2}, 3, [2]int{2, 3}},
		{Range{First: -9}, 3, [2]int{1, 3}},
		{Range{Last: -1}, 3, [2]int{0, 3}},
		{Range{Last: -3}, 3, [2]int{0, 1}},
		{Range{Last: -4}, 3, none},
		{Range{First: 4}, 3, [2]int{4, 3}},
		{Range{First: 3, Last: 2}, 3, [2]int{3, 2}},
		{LastTurns(2), 3, [2]int{2, 3}},
		{LastTurns(9), 3, [2]int{1, 3}},
		{LastTurns(0), 3, none},
		{LastTurns(-1), 3, none},
		{FirstTurns(2), 3, [2]int{1, 2}},
		{FirstTurns(0), 3, none},
		{Turn(3), 3, [2]int{3, 3}},
		{Turn(-3), 3, [2]int{1, 1}},
		{Turn(0), 3, none},
	} {
		from, to, err := test.r.resolve(7, test.n)
		if got := [2]int{from, to}; err != nil || got != test.want {
			t.Errorf("%v of %d = %v, %v, want %v", test.r, test.n, got, err, test.want)
		}
	}
	for _, r := range []Range{Turn(4), Turn(-4), Turn(1 << 40)} {
		_, _, err := r.resolve(7, 3)
		checkError(t, r.String(), err, &RangeError{7, r, 3})
	}
	for r, want := range map[Range]string{
		{}: "all", Turn(2): "2", {First: 2}: "2..", {Last: -1}: "..-1", FirstTurns(3): "1..3", LastTurns(0): "none",
	} {
		if got := r.String(); got != want {
			t.Errorf("%#v.String() = %q, want %q", r, got, want)
		}
	}
}

func TestListFilters(t *testing.T) {
	now := storeEpoch
	s := openStoreIn(t, filepath.Join(memoryDir(t), "store"), Options{Now: func() time.Time { return now }})
	create := func(n New) ID { return mustCreate(t, s, n).ID }
	a := create(New{Title: "beta", Labels: map[string]string{"k": "1"}})
	b := create(New{Title: "Alpha", Labels: map[string]string{"k": "2", "l": ""}, Hidden: true})
	c := create(New{Title: "gamma"})
	fork, err := s.Fork(t.Context(), a, Fork{Title: "delta"})
	if err != nil {
		t.Fatal(err)
	}
	d := fork.ID
	now = now.Add(time.Minute)
	for id, cost := range map[ID]*int64{a: ptr(5), b: nil, c: ptr(9)} {
		l := mustLock(t, s, id)
		for range cost2turns(cost) {
			mustAppend(t, l, TurnStart{}, TurnEnd{State: StateOK})
		}
		now = now.Add(time.Duration(id-a) * time.Second)
		mustAppend(t, l, ModelCall{CostNano: cost})
	}
	if err := s.Edit(t.Context(), c, func(c *Conversation) error { c.ArchivedAt = now; return nil }); err != nil {
		t.Fatal(err)
	}
	all := Filter{Hidden: true, Archived: true}
	with := func(change func(*Filter)) Filter {
		f := all
		change(&f)
		return f
	}
	for _, test := range []struct {
		name string
		f    Filter
		want []ID
	}{
		{"plain", Filter{}, []ID{a, d}},
		{"everything", all, []ID{a, d, b, c}},
		{"hidden", Filter{Hidden: true}, []ID{a, d, b}},
		{"archived", Filter{Archived: true}, []ID{a, d, c}},
		{"roots", with(func(f *Filter) { f.Roots = true }), []ID{a, b, c}},
		{"children", with(func(f *Filter) { f.Children = a }), []ID{d}},
		{"children of a leaf", with(func(f *Filter) { f.Children = d }), nil},
		{"label", with(func(f *Filter) { f.Labels = map[string]string{"k": ""} }), []ID{a, d, b}},
		{"label with a value", with(func(f *Filter) { f.Labels = map[string]string{"k": "2"} }), []ID{b}},
		{"two labels", with(func(f *Filter) { f.Labels = map[string]string{"k": "", "l": ""} }), []ID{b}},
		{"no such label", with(func(f *Filter) { f.Labels = map[string]string{"x": ""} }), nil},
		{"limit", with(func(f *Filter) { f.Limit = 2 }), []ID{a, d}},
		{"created", with(func(f *Filter) { f.Sort = SortCreated }), []ID{a, b, c, d}},
		{"created, last first", with(func(f *Filter) { f.Sort, f.Descending, f.Limit = SortCreated, true, 2 }), []ID{d, c}},
		{"title", with(func(f *Filter) { f.Sort = SortTitle }), []ID{b, a, d, c}},
		{"turns", with(func(f *Filter) { f.Sort = SortTurns }), []ID{b, d, a, c}},
		{"cost", with(func(f *Filter) { f.Sort = SortCost }), []ID{d, a, c, b}},
		{"tree, last first", with(func(f *Filter) { f.Descending, f.Limit = true, 3 }), []ID{c, b, d}},
	} {
		if got := mustList(t, s.View, test.f); !slices.Equal(got, test.want) {
			t.Errorf("%s: List = %v, want %v", test.name, got, test.want)
		}
	}
	byActivity, err := s.List(t.Context(), with(func(f *Filter) { f.Sort = SortActivity }))
	if err != nil || !slices.IsSortedFunc(byActivity, func(a, b Conversation) int { return a.UpdatedAt.Compare(b.UpdatedAt) }) {
		t.Errorf("by activity: %v, %v", ids(byActivity), err)
	}
	_, err = s.List(t.Context(), Filter{Children: 1})
	checkError(t, "children of nobody", err, &NotFoundError{ID: 1})
}

func cost2turns(cost *int64) int {
	if cost == nil {
		return 0
	}
	return int(*cost)
}

func TestEdit(t *testing.T) {
	s := openStore(t)
	parent := mustCreate(t, s, New{Title: "parent"})
	fork, err := s.Fork(t.Context(), parent.ID, Fork{})
	if err != nil {
		t.Fatal(err)
	}
	id := fork.ID
	at := storeEpoch.In(time.FixedZone("x", 3600))
	if err := s.Edit(t.Context(), id, func(c *Conversation) error {
		c.Title, c.Hidden, c.Pinned, c.ArchivedAt, c.ExpiresAt = "new", true, true, at, at
		c.Labels = map[string]string{"a": "b"}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	got := mustGet(t, s.View, id)
	want := fork
	want.Title, want.Hidden, want.Pinned, want.ArchivedAt, want.ExpiresAt = "new", true, true, storeEpoch, storeEpoch
	want.Labels = map[string]string{"a": "b"}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("edited %+v, want %+v", got, want)
	}
	if p := mustGet(t, s.View, parent.ID); p.Children != 1 || p.HiddenChildren != 1 {
		t.Errorf("parent of a hidden one: %+v", p)
	}
	for field, change := range map[string]func(*Conversation){
		"Root":     func(c *Conversation) { c.Root++ },
		"Depth":    func(c *Conversation) { c.Depth = 0; c.Depth-- },
		"Role":     func(c *Conversation) { c.Role = "main" },
		"Grant":    func(c *Conversation) { c.Grant = &Grant{} },
		"CostNano": func(c *Conversation) { c.CostNano = nil },
		"ID":       func(c *Conversation) { c.ID++ },
	} {
		err := s.Edit(t.Context(), id, func(c *Conversation) error { change(c); c.Title = "sneaked in"; return nil })
		if want := fmt.Sprintf("conversation %s: %s cannot be edited", id, field); err == nil || err.Error() != want {
			t.Errorf("changing %s: error %v, want %s", field, err, want)
		}
	}
	mine := errors.New("mine")
	if err := s.Edit(t.Context(), id, func(c *Conversation) error { c.Title = "sneaked in"; return mine }); err != mine {
		t.Errorf("Edit = %v, want the callback's error", err)
	}
	if got := mustGet(t, s.View, id); got.Title != "new" {
		t.Errorf("title %q after refused edits", got.Title)
	}
	checkError(t, "Edit of nobody", s.Edit(t.Context(), 1, func(*Conversation) error { return nil }), &NotFoundError{ID: 1})
}

func TestFork(t *testing.T) {
	s := openStore(t)
	src := mustCreate(t, s, New{
		Title: "src", Pinned: true, Labels: map[string]string{"a": "b"}, ExpiresAt: time.Now().Add(time.Hour),
		Profile: "p", ProfileHash: "h", Model: "m", Role: "main", Config: Config{JSON: []byte("{}"), Tools: []string{"x"}},
	})
	l := mustLock(t, s, src.ID)
	mustAppend(t, l, Note{Text: "preamble"},
		TurnStart{}, UserMessage{Text: "1"}, ModelCall{Usage: Usage{Input: 5}, CostNano: ptr(5)}, TurnEnd{State: StateOK},
		TurnStart{}, UserMessage{Text: "2"}, TurnEnd{State: StateBudget, Reason: "tokens"},
		TurnStart{}, UserMessage{Text: "3"})
	says := func(id ID) string {
		var b strings.Builder
		for _, e := range mustEvents(t, s.View, id, Range{}) {
			fmt.Fprintf(&b, "%d:%s", e.Turn, TypeOf(e.Body))
			if m, ok := e.Body.(UserMessage); ok {
				b.WriteString("=" + m.Text)
			}
			b.WriteString(" ")
		}
		return strings.TrimSpace(b.String())
	}
	for _, test := range []struct {
		turns  Range
		want   string
		status Status
	}{
		{Range{}, "0:note 1:turn_start 1:chat_request=1 1:turn_end 2:turn_start 2:chat_request=2 2:turn_end 3:turn_start 3:chat_request=3", StatusInterrupted},
		{LastTurns(0), "", StatusNew},
		{FirstTurns(2), "1:turn_start 1:chat_request=1 1:turn_end 2:turn_start 2:chat_request=2 2:turn_end", Status(StateBudget)},
		{Turn(2), "1:turn_start 1:chat_request=2 1:turn_end", Status(StateBudget)},
		{LastTurns(1), "1:turn_start 1:chat_request=3", StatusInterrupted},
	} {
		c, err := s.Fork(t.Context(), src.ID, Fork{Turns: test.turns})
		if err != nil {
			t.Fatal(err)
		}
		if got := says(c.ID); got != test.want || c.Status != test.status {
			t.Errorf("fork of %v: %s (%s), want %s (%s)", test.turns, got, c.Status, test.want, test.status)
		}
		if c.Usage != (Usage{}) || *c.CostNano != 0 {
			t.Errorf("fork of %v has spent %+v", test.turns, c.Usage)
		}
		if c.Title != "src" || c.Pinned || c.Labels["a"] != "b" || !c.ExpiresAt.IsZero() || c.Profile != "p" || c.Role != "main" || c.Link != ForkLink || c.Grant != nil {
			t.Errorf("fork of %v: %+v", test.turns, c)
		}
		if cfg, err := s.Config(t.Context(), c.ID); err != nil || !slices.Equal(cfg.Tools, []string{"x"}) {
			t.Errorf("config of a fork: %+v, %v", cfg, err)
		}
	}
	c, err := s.Fork(t.Context(), src.ID, Fork{Turns: LastTurns(0), Title: "t", Hidden: true, Config: &Config{JSON: []byte("[]")}, Profile: "q"})
	if err != nil || c.Title != "t" || !c.Hidden || c.Profile != "q" || c.Model != "" {
		t.Errorf("fork with a config: %+v, %v", c, err)
	}
	_, err = s.Fork(t.Context(), src.ID, Fork{Turns: Turn(4)})
	checkError(t, "fork of a turn that is not", err, &RangeError{src.ID, Turn(4), 3})
	_, err = s.Fork(t.Context(), 1, Fork{})
	checkError(t, "fork of nobody", err, &NotFoundError{ID: 1})
}

func TestExpire(t *testing.T) {
	now := storeEpoch
	s := openStoreIn(t, filepath.Join(memoryDir(t), "store"), Options{Now: func() time.Time { return now }})
	soon := now.Add(time.Second)
	make := func(n New) ID { n.ExpiresAt = soon; return mustCreate(t, s, n).ID }
	plain, pinned, running, forked, delegated := make(New{}), make(New{Pinned: true}), make(New{}), make(New{}), make(New{})
	mustCreate(t, s, New{})
	l := mustLock(t, s, running)
	if _, err := s.Fork(t.Context(), forked, Fork{}); err != nil {
		t.Fatal(err)
	}
	scope, err := s.Below(t.Context(), delegated)
	if err != nil {
		t.Fatal(err)
	}
	rs, err := scope.Reserve(t.Context(), admit(Child{Call: "a"}))
	if err != nil {
		t.Fatal(err)
	}
	child := rs[0].Child.ID
	if removed, err := s.Expire(t.Context()); removed != nil || err != nil {
		t.Errorf("Expire before the time = %v, %v", removed, err)
	}
	now = now.Add(time.Minute)
	for _, step := range []struct {
		want []ID
		then func()
	}{
		{[]ID{plain}, func() { _ = rs[0].Release() }},
		{[]ID{delegated, child}, func() { _ = l.Close() }},
		{[]ID{running}, func() {
			_ = s.Edit(t.Context(), pinned, func(c *Conversation) error { c.Pinned = false; return nil })
		}},
		{[]ID{pinned}, func() {}},
		{nil, func() {}},
	} {
		removed, err := s.Expire(t.Context())
		if err != nil || !slices.Equal(removed, step.want) {
			t.Errorf("Expire = %v, %v, want %v", removed, err, step.want)
		}
		step.then()
	}
	mustGet(t, s.View, forked)
}

func TestConversationJSON(t *testing.T) {
	c := Conversation{
		ID: 2, Parent: 1, Root: 1, Link: ForkLink, Depth: 1, Title: "<t>", ArchivedAt: storeEpoch,
		CreatedAt: storeEpoch, UpdatedAt: storeEpoch.Add(time.Nanosecond), Turns: 3, Events: 4, Children: 5,
		Profile: "p", Model: "m", Usage: Usage{Input: 1, Output: 2, CacheRead: 3, CacheWrite: 4}, CostNano: ptr(14_200_000), Status: StatusNew,
	}
	got, err := c.MarshalJSON()
	const want = `{"id":"jp-c2","title":"<t>","parent_id":"jp-c1","root_id":"jp-c1","depth":1,"children":5,"hidden":false,"pinned":false,"archived":true,"profile":"p","model":"m","status":"new","turns":3,"events_count":4,"created_at":"2026-03-01T12:00:00Z","updated_at":"2026-03-01T12:00:00.000000001Z","expires_at":null,"labels":{},"usage":{"input_tokens":1,"output_tokens":2,"cache_read_tokens":3,"cache_write_tokens":4},"cost_usd":0.0142}`
	if err != nil || string(got) != want {
		t.Errorf("MarshalJSON = %s, %v, want %s", got, err, want)
	}
	for nano, want := range map[int64]string{0: "0", 1: "0.000000001", 1e9: "1", -1500000000: "-1.5", 123_450_000_000: "123.45", -1 << 63: "-9223372036.854775808"} {
		if got := dollars(&nano); string(got) != want || !json.Valid(got) {
			t.Errorf("dollars(%d) = %s, want %s", nano, got, want)
		}
	}
	if got := dollars(nil); string(got) != "null" {
		t.Errorf("dollars(nil) = %s", got)
	}
}

func TestIDsAreUnique(t *testing.T) {
	now := storeEpoch
	s := openStoreIn(t, filepath.Join(memoryDir(t), "store"), Options{Now: func() time.Time { return now }})
	a, b := mustCreate(t, s, New{}).ID, mustCreate(t, s, New{}).ID
	if b != a+1 {
		t.Errorf("%v follows %v within a tenth of a second", b, a)
	}
	if _, err := s.Remove(t.Context(), b, RemoveOptions{}); err != nil {
		t.Fatal(err)
	}
	now = now.Add(-time.Hour) // a clock that goes back
	if c := mustCreate(t, s, New{}).ID; c != b+1 {
		t.Errorf("%v follows %v, which was removed", c, b)
	}
	now = storeEpoch.Add(time.Hour)
	if c := mustCreate(t, s, New{}).ID; c != ID(now.UnixMilli()/100) {
		t.Errorf("%v at %v", c, now)
	}
}

func TestSessions(t *testing.T) {
	s := openStore(t)
	a, b := mustCreate(t, s, New{}).ID, mustCreate(t, s, New{}).ID
	active := func(session string, want ...ID) {
		t.Helper()
		active, previous, err := s.Active(t.Context(), session)
		if got := []ID{active, previous}; err != nil || !slices.Equal(got, want) {
			t.Errorf("Active(%s) = %v, %v, want %v", session, got, err, want)
		}
	}
	activate := func(session string, id ID) {
		t.Helper()
		if err := s.Activate(t.Context(), session, id); err != nil {
			t.Fatal(err)
		}
	}
	active("x", 0, 0)
	activate("x", a)
	active("x", a, 0)
	activate("x", b)
	activate("x", b)
	activate("y", a)
	active("x", b, a)
	active("y", a, 0)
	if _, err := s.Remove(t.Context(), a, RemoveOptions{}); err != nil {
		t.Fatal(err)
	}
	active("x", b, 0)
	active("y", 0, 0)
	checkError(t, "Activate", s.Activate(t.Context(), "x", a), &NotFoundError{ID: a})
	for _, name := range []string{"", strings.Repeat("x", maxSessionName+1)} {
		if err := s.Activate(t.Context(), name, b); err == nil {
			t.Errorf("a session name of %d bytes was taken", len(name))
		}
	}
}

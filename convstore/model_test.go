package convstore

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// TestModel runs random operations on a store and on a plain map, and compares what the two then
// say. Check runs after every sequence.
func TestModel(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		dir := memoryDir(t)
		defer func() { _ = os.RemoveAll(dir) }()
		m := &model{t: t, byID: map[ID]*modelConversation{}, active: map[string][2]ID{}, now: time.UnixMilli(1_000_000).UTC()}
		s, err := Open(filepath.Join(dir, "store"), Options{Now: func() time.Time { return m.now }})
		if err != nil {
			rt.Fatal(err)
		}
		m.s = s
		rt.Repeat(map[string]func(*rapid.T){
			"create":   m.create,
			"fork":     m.fork,
			"append":   m.append,
			"edit":     m.edit,
			"move":     m.move,
			"delegate": m.delegate,
			"remove":   m.remove,
			"expire":   m.expire,
			"activate": m.activate,
			"wait": func(rt *rapid.T) {
				m.now = m.now.Add(time.Duration(rapid.IntRange(0, 1500).Draw(rt, "ms")) * time.Millisecond)
			},
			"": m.compare,
		})
		if err := s.Check(t.Context()); err != nil {
			rt.Fatal(err)
		}
	})
}

type model struct {
	t      *testing.T
	s      *Store
	now    time.Time
	last   ID
	byID   map[ID]*modelConversation
	active map[string][2]ID
	calls  int
}

type modelConversation struct {
	id, parent ID
	link       Link
	depth      int
	title      string
	hidden     bool
	archived   bool
	expires    time.Time
	events     []modelEvent
	turns      int
	open       bool
	state      State
	run        State // of the last run, when it has not come to a turn
	usage      Usage
}

type modelEvent struct {
	id   string // "" = whatever the store gave it
	turn int
	body Body
}

func (m *model) allocate() ID {
	m.last = max(ID(m.now.UnixMilli()/100), m.last+1)
	return m.last
}

// children returns the children of a conversation, or the roots for 0, in order.
func (m *model) children(parent ID) []ID {
	var ids []ID
	for id, c := range m.byID {
		if c.parent == parent {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids
}

// preorder returns all below a conversation, or everything for 0.
func (m *model) preorder(parent ID, delegated bool) []ID {
	var ids []ID
	for _, id := range m.children(parent) {
		if delegated && m.byID[id].link != DelegationLink {
			continue
		}
		ids = append(append(ids, id), m.preorder(id, delegated)...)
	}
	return ids
}

func (m *model) pick(rt *rapid.T) *modelConversation {
	ids := slices.Sorted(maps.Keys(m.byID))
	if len(ids) == 0 {
		rt.Skip("no conversation yet")
	}
	return m.byID[rapid.SampledFrom(ids).Draw(rt, "id")]
}

func must(rt *rapid.T, err error) {
	if err != nil {
		rt.Helper()
		rt.Fatal(err)
	}
}

func (m *model) create(rt *rapid.T) {
	c := &modelConversation{id: m.allocate(), title: rapid.StringN(0, 5, -1).Draw(rt, "title"), hidden: rapid.Bool().Draw(rt, "hidden")}
	if rapid.IntRange(0, 3).Draw(rt, "expires") == 0 {
		c.expires = m.now.Add(200 * time.Millisecond)
	}
	got, err := m.s.Create(m.t.Context(), New{Title: c.title, Hidden: c.hidden, ExpiresAt: c.expires})
	must(rt, err)
	if got.ID != c.id {
		rt.Fatalf("Create().ID = %v, want %v", got.ID, c.id)
	}
	m.byID[c.id] = c
}

func (m *model) fork(rt *rapid.T) {
	src := m.pick(rt)
	n := rapid.IntRange(-1, 3).Draw(rt, "last")
	f := Fork{Hidden: rapid.Bool().Draw(rt, "hidden"), Turns: LastTurns(n)}
	first := max(src.turns-n, 0) + 1
	if n < 0 {
		f.Turns, first = Range{}, 0
	}
	c := &modelConversation{
		id: m.allocate(), parent: src.id, link: ForkLink, depth: src.depth, title: src.title, hidden: f.Hidden,
	}
	for _, e := range src.events {
		if _, spend := e.body.(ModelCall); !spend && e.turn >= first && n != 0 {
			c.add(modelEvent{body: e.body})
		}
	}
	got, err := m.s.Fork(m.t.Context(), src.id, f)
	must(rt, err)
	if got.ID != c.id {
		rt.Fatalf("Fork().ID = %v, want %v", got.ID, c.id)
	}
	m.byID[c.id] = c
}

func (c *modelConversation) add(e modelEvent) {
	switch b := e.body.(type) {
	case TurnStart:
		c.turns++
		c.open, c.run = true, ""
	case TurnEnd:
		c.open, c.state = false, b.State
	case ModelCall:
		c.usage = c.usage.Add(b.Usage)
	}
	e.turn = c.turns
	c.events = append(c.events, e)
}

func (m *model) append(rt *rapid.T) {
	c := m.pick(rt)
	bodies := rapid.SliceOfN(rapid.SampledFrom([]Body{
		TurnStart{}, UserMessage{Text: "hi"}, AssistantMessage{Text: "ok"}, TurnEnd{State: StateOK}, TurnEnd{State: StateBudget},
		ModelCall{Model: "m", Usage: Usage{Input: 3, Output: 5}}, Note{Text: "n"},
	}), 1, 5).Draw(rt, "bodies")
	var events []Event
	for i, b := range bodies {
		if _, spend := b.(ModelCall); spend && c.link == DelegationLink {
			b = Note{Text: "only its delegations pay for calls"}
		}
		events = append(events, Event{ID: fmt.Sprint(m.now.UnixNano(), "-", len(c.events), "-", i), Body: b})
		c.add(modelEvent{id: events[i].ID, body: b})
	}
	// Repeat one that is there already: it changes nothing.
	if i := rapid.IntRange(0, len(c.events)-1).Draw(rt, "again"); c.events[i].id != "" {
		events = append(events, Event{ID: c.events[i].id, Body: c.events[i].body})
	}
	l, err := m.s.Lock(m.t.Context(), c.id)
	must(rt, err)
	must(rt, l.Append(m.t.Context(), events...))
	must(rt, l.Close())
}

func (m *model) edit(rt *rapid.T) {
	c := m.pick(rt)
	c.title = rapid.StringN(0, 5, -1).Draw(rt, "title")
	c.hidden = rapid.Bool().Draw(rt, "hidden")
	c.archived = rapid.Bool().Draw(rt, "archived")
	c.expires = time.Time{}
	if rapid.Bool().Draw(rt, "expires") {
		c.expires = m.now.Add(time.Duration(rapid.IntRange(-100, 300).Draw(rt, "in")) * time.Millisecond)
	}
	must(rt, m.s.Edit(m.t.Context(), c.id, func(e *Conversation) error {
		e.Title, e.Hidden, e.ExpiresAt, e.ArchivedAt = c.title, c.hidden, c.expires, time.Time{}
		if c.archived {
			e.ArchivedAt = m.now
		}
		return nil
	}))
}

func (m *model) move(rt *rapid.T) {
	c := m.pick(rt)
	var parent ID
	if rapid.Bool().Draw(rt, "below") {
		parent = m.pick(rt).id
	}
	err := m.s.Edit(m.t.Context(), c.id, func(e *Conversation) error { e.Parent = parent; return nil })
	if parent == c.id || slices.Contains(m.preorder(c.id, false), parent) {
		if want := (&CycleError{c.id, parent}); !reflect.DeepEqual(err, want) {
			rt.Fatalf("moving %s below %s: error %v, want %v", c.id, parent, err, want)
		}
		return
	}
	must(rt, err)
	if c.parent == parent {
		return
	}
	if c.parent, c.link = parent, ForkLink; parent == 0 {
		c.link = NoLink
	}
}

func (m *model) delegate(rt *rapid.T) {
	caller := m.pick(rt)
	scope, err := m.s.Below(m.t.Context(), caller.id)
	must(rt, err)
	m.calls++
	child := Child{Call: fmt.Sprint("call", m.calls), Title: "child", Hidden: true, Grant: Grant{Tools: []string{"t"}}}
	var c *modelConversation
	if below := m.preorder(caller.id, true); len(below) > 0 && rapid.Bool().Draw(rt, "resume") {
		child.ID = rapid.SampledFrom(below).Draw(rt, "child")
		c = m.byID[child.ID]
	} else {
		c = &modelConversation{
			id: m.allocate(), parent: caller.id, link: DelegationLink, depth: caller.depth + 1, title: child.Title, hidden: true,
		}
		m.byID[c.id] = c
	}
	rs, err := scope.Reserve(m.t.Context(), func(st Standing) ([]Child, error) {
		if st.Caller.ID != caller.id || st.Caller.Turns != caller.turns {
			rt.Fatalf("standing of %+v, want %+v", st.Caller, caller)
		}
		return []Child{child}, nil
	})
	must(rt, err)
	if len(rs) != 1 || rs[0].Existed || rs[0].Child.ID != c.id || rs[0].Delegation.Root != m.ledger(caller) {
		rt.Fatalf("Reserve = %+v", rs)
	}
	if rapid.IntRange(0, 4).Draw(rt, "crash") == 0 {
		// The next to touch this ledger settles it; an open turn stays open until then, so do it at
		// once.
		must(rt, rs[0].Release())
		_, err := scope.Reserve(m.t.Context(), admit())
		must(rt, err)
		c.end(StateLost)
		return
	}
	_, err = scope.Settle(m.t.Context(), rs[0], Outcome{State: StatePartial})
	must(rt, err)
	c.end(StatePartial)
}

// end is what settling does to a child, which has begun no turn since it was reserved.
func (c *modelConversation) end(s State) {
	if !c.open {
		c.run = s
	} else {
		body := TurnEnd{State: s}
		if s == StateLost {
			body.Reason = reasonLost
		}
		c.add(modelEvent{body: body})
	}
}

func (m *model) ledger(c *modelConversation) ID {
	for c.link == DelegationLink {
		c = m.byID[c.parent]
	}
	return c.id
}

func (m *model) remove(rt *rapid.T) {
	c := m.pick(rt)
	o := rapid.SampledFrom([]RemoveOptions{{}, {Cascade: true}, {Promote: true}}).Draw(rt, "options")
	children := m.children(c.id)
	removed, err := m.s.Remove(m.t.Context(), c.id, o)
	if len(children) > 0 && o == (RemoveOptions{}) {
		if want := (&ChildrenError{c.id, len(children)}); !reflect.DeepEqual(err, want) {
			rt.Fatalf("Remove: error %v, want %v", err, want)
		}
		return
	}
	must(rt, err)
	want := []ID{c.id}
	if o.Promote {
		for _, id := range children {
			child := m.byID[id]
			if child.parent = c.parent; c.parent == 0 {
				child.link = NoLink
			} else if c.link != DelegationLink {
				child.link = ForkLink
			}
		}
	} else {
		want = append(want, m.preorder(c.id, false)...)
	}
	if !slices.Equal(removed, want) {
		rt.Fatalf("Remove = %v, want %v", removed, want)
	}
	for _, id := range want {
		delete(m.byID, id)
	}
}

func (m *model) expire(rt *rapid.T) {
	due := func(c *modelConversation) bool { return !c.expires.IsZero() && c.expires.Unix() < m.now.Unix() }
	lives := func(c *modelConversation, top bool) bool {
		if c.expires.IsZero() {
			return top || c.link != DelegationLink
		}
		return c.expires.After(m.now)
	}
	// whether a turn is open that may need the answer
	awaited := func(c *modelConversation) bool {
		for c.link == DelegationLink {
			if c = m.byID[c.parent]; c.open {
				return true
			}
		}
		return false
	}
	var want []ID
	gone := map[ID]bool{}
	for _, c := range slices.SortedFunc(maps.Values(m.byID), func(a, b *modelConversation) int {
		if a.expires.Unix() != b.expires.Unix() {
			return int(a.expires.Unix() - b.expires.Unix())
		}
		return int(a.id - b.id)
	}) {
		if gone[c.id] || !due(c) || awaited(c) {
			continue
		}
		all := append([]ID{c.id}, m.preorder(c.id, false)...)
		if slices.ContainsFunc(all, func(id ID) bool { return !gone[id] && lives(m.byID[id], id == c.id) }) {
			continue
		}
		for _, id := range all {
			if !gone[id] {
				gone[id] = true
				want = append(want, id)
			}
		}
	}
	removed, err := m.s.Expire(m.t.Context())
	must(rt, err)
	if !slices.Equal(removed, want) {
		rt.Fatalf("Expire = %v, want %v", removed, want)
	}
	for _, id := range want {
		delete(m.byID, id)
	}
}

func (m *model) activate(rt *rapid.T) {
	c := m.pick(rt)
	name := rapid.SampledFrom([]string{"a", "b"}).Draw(rt, "session")
	must(rt, m.s.Activate(m.t.Context(), name, c.id))
	if now := m.active[name]; now[0] != c.id {
		m.active[name] = [2]ID{c.id, now[0]}
	}
}

// compare holds everything that can be read against the model.
func (m *model) compare(rt *rapid.T) {
	ctx := m.t.Context()
	everything := Filter{Hidden: true, Archived: true}
	list, err := m.s.List(ctx, everything)
	must(rt, err)
	if got, want := ids(list), m.preorder(0, false); !slices.Equal(got, want) {
		rt.Fatalf("List = %v, want %v", got, want)
	}
	for _, got := range list {
		c := m.byID[got.ID]
		children, hidden := m.children(c.id), 0
		for _, id := range children {
			if m.byID[id].hidden {
				hidden++
			}
		}
		root := c
		for root.parent != 0 {
			root = m.byID[root.parent]
		}
		status := Status(c.state)
		switch {
		case c.open && c.link == DelegationLink:
			status = StatusLost
		case c.open:
			status = StatusInterrupted
		case c.run != "":
			status = Status(c.run)
		case c.turns == 0:
			status = StatusNew
		}
		is := []any{got.Parent, got.Root, got.Link, got.Depth, got.Title, got.Hidden, got.Archived(), got.Turns, got.Events, got.Children, got.HiddenChildren, got.Usage, got.Status}
		want := []any{c.parent, root.id, c.link, c.depth, c.title, c.hidden, c.archived, c.turns, len(c.events), len(children), hidden, c.usage, status}
		if !reflect.DeepEqual(is, want) || !got.ExpiresAt.Equal(c.expires) {
			rt.Fatalf("conversation %v: %v, want %v", c.id, is, want)
		}
	}
	if len(list) > 0 {
		m.compareOne(rt, m.pick(rt))
	}
	for name, want := range m.active {
		for i, id := range want {
			if m.byID[id] == nil {
				want[i] = 0
			}
		}
		active, previous, err := m.s.Active(ctx, name)
		must(rt, err)
		if got := [2]ID{active, previous}; got != want {
			rt.Fatalf("Active(%s) = %v, want %v", name, got, want)
		}
	}
}

// compareOne compares a conversation's events and what is in view below it.
func (m *model) compareOne(rt *rapid.T, c *modelConversation) {
	ctx := m.t.Context()
	turns := Range{First: rapid.IntRange(-3, 4).Draw(rt, "first"), Last: rapid.IntRange(-3, 4).Draw(rt, "last")}
	from, to, err := turns.resolve(c.id, c.turns)
	var want []modelEvent
	for _, e := range c.events {
		if err == nil && from <= e.turn && e.turn <= to {
			want = append(want, e)
		}
	}
	i := 0
	for e, got := range m.s.Events(ctx, c.id, turns) {
		if got != nil {
			if !reflect.DeepEqual(got, err) {
				rt.Fatalf("Events(%v, %v): error %v, want %v", c.id, turns, got, err)
			}
			break
		}
		if i >= len(want) || e.Turn != want[i].turn || !reflect.DeepEqual(e.Body, want[i].body) || want[i].id != "" && e.ID != want[i].id {
			rt.Fatalf("Events(%v, %v): event %d is %+v, want %+v", c.id, turns, i, e, want)
		}
		i++
	}
	if i != len(want) {
		rt.Fatalf("Events(%v, %v): %d events, want %d", c.id, turns, i, len(want))
	}
	scope, err := m.s.Below(ctx, c.id)
	must(rt, err)
	under, err := m.s.Under(ctx, c.id)
	must(rt, err)
	for _, v := range []View{scope.View, under} {
		in := m.preorder(c.id, v.delegated)
		list, err := v.List(ctx, Filter{Hidden: true, Archived: true})
		must(rt, err)
		if !slices.Equal(ids(list), in) {
			rt.Fatalf("List below %v = %v, want %v", c.id, ids(list), in)
		}
		for id := range m.byID {
			_, err := v.Get(ctx, id)
			var outside *ScopeError
			if slices.Contains(in, id) != (err == nil) || err != nil && !errors.As(err, &outside) {
				rt.Fatalf("Get(%v) below %v: error %v", id, c.id, err)
			}
		}
	}
}

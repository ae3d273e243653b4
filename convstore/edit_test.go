package convstore

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"testing"
)

// TestAllowed: what is allowed belongs to one conversation, is bounded, and only a run adds to it.
func TestAllowed(t *testing.T) {
	s := openStore(t)
	ctx := t.Context()
	c := mustCreate(t, s, New{})
	log, err := s.Lock(ctx, c.ID)
	if err != nil {
		t.Fatal(err)
	}
	allow := func(a Allowance) {
		t.Helper()
		if err := log.Allow(ctx, a); err != nil {
			t.Fatal(err)
		}
	}
	allow(Allowance{"run", "a", "1"})
	allow(Allowance{"deliver", "a", "1"})
	allow(Allowance{"run", "a", "2"})
	got, err := log.Get(ctx)
	if want := []Allowance{{"deliver", "a", "1"}, {"run", "a", "2"}}; err != nil || !slices.Equal(got.Allowed, want) {
		t.Errorf("%v, %v, want %v", got.Allowed, err, want)
	}
	for i := range maxAllowed {
		allow(Allowance{"run", fmt.Sprint(i), ""})
	}
	if got, err = log.Get(ctx); err != nil || len(got.Allowed) != maxAllowed || got.Allowed[0].Tool != "0" {
		t.Errorf("%d, %v, want the latest %d", len(got.Allowed), err, maxAllowed)
	}
	if err := log.Close(); err != nil {
		t.Fatal(err)
	}
	if fork, err := s.Fork(ctx, c.ID, Fork{}); err != nil || fork.Allowed != nil {
		t.Errorf("fork: %v, %v", fork.Allowed, err)
	}
	if err := s.Edit(ctx, c.ID, func(c *Conversation) error { c.Allowed = c.Allowed[1:]; return nil }); err != nil {
		t.Error(err)
	}
	if err := s.Edit(ctx, c.ID, func(c *Conversation) error { c.Allowed[0].Authority = "x"; return nil }); err == nil {
		t.Error("an edit has allowed something")
	}
	if got, err = s.Get(ctx, c.ID); err != nil || len(got.Allowed) != maxAllowed-1 || got.Allowed[0] != (Allowance{"run", "1", ""}) {
		t.Errorf("%d, %v, want %d", len(got.Allowed), err, maxAllowed-1)
	}
}

// TestMove: a conversation takes its descendants along and keeps what it may and what it has spent;
// links, counts and scopes follow.
func TestMove(t *testing.T) {
	s := openStore(t)
	ctx := t.Context()
	a, b := mustCreate(t, s, New{Title: "a"}).ID, mustCreate(t, s, New{Title: "b"}).ID
	la := mustLock(t, s, a)
	mustAppend(t, la, TurnStart{})
	rs, err := la.Below().Reserve(ctx, admit(Child{Call: "1", Hidden: true, Role: "subagent", Grant: Grant{Tools: []string{"x"}, MaxDepth: 1}}))
	if err != nil {
		t.Fatal(err)
	}
	child := rs[0].Child.ID
	grandchild, err := s.Fork(ctx, child, Fork{})
	if err != nil {
		t.Fatal(err)
	}
	move := func(id, parent ID) error {
		return s.Edit(ctx, id, func(c *Conversation) error { c.Parent = parent; return nil })
	}
	// While anything runs in either tree, nothing moves.
	if err := move(grandchild.ID, b); busyID(err) != a {
		t.Errorf("moved out of a tree that runs: %v", err)
	}
	if err := move(b, grandchild.ID); busyID(err) != a {
		t.Errorf("moved into a tree that runs: %v", err)
	}
	if err := rs[0].Release(); err != nil {
		t.Fatal(err)
	}
	if err := la.Close(); err != nil {
		t.Fatal(err)
	}
	for _, parent := range []ID{child, grandchild.ID} {
		var cycle *CycleError
		if err := move(child, parent); !errors.As(err, &cycle) || *cycle != (CycleError{child, parent}) {
			t.Errorf("moving %s below %s: %v", child, parent, err)
		}
	}
	checkError(t, "moving below nobody", move(child, 1), &NotFoundError{ID: 1})

	before := mustGet(t, s.View, child)
	if err := move(child, b); err != nil {
		t.Fatal(err)
	}
	got, want := mustGet(t, s.View, child), before
	want.Parent, want.Root, want.Link = b, b, ForkLink
	want.Status, want.Reason = StatusLost, reasonUnstarted // its open delegation was settled
	if !reflect.DeepEqual(got, want) {
		t.Errorf("moved %+v, want %+v", got, want)
	}
	if c := mustGet(t, s.View, grandchild.ID); c.Root != b || c.Parent != child {
		t.Errorf("below what was moved: %+v", c)
	}
	if c := mustGet(t, s.View, a); c.Children != 0 || c.HiddenChildren != 0 {
		t.Errorf("where it was: %+v", c)
	}
	if c := mustGet(t, s.View, b); c.Children != 1 || c.HiddenChildren != 1 {
		t.Errorf("where it is: %+v", c)
	}
	if ds, err := s.Delegations(ctx, a); err != nil || len(ds) != 1 || ds[0].Child != child || ds[0].State != StateLost {
		t.Errorf("the ledger it left: %+v, %v", ds, err)
	}
	for _, caller := range []ID{a, b} {
		scope, err := s.Below(ctx, caller)
		if err != nil {
			t.Fatal(err)
		}
		var outside *ScopeError
		if _, err := scope.Get(ctx, child); !errors.As(err, &outside) {
			t.Errorf("%s reaches what a person moved: %v", caller, err)
		}
	}
	// One mistake in many leaves all as they were.
	err = s.EditAll(ctx, []ID{a, child, b}, func(c *Conversation) error { c.Title, c.Parent = "moved", grandchild.ID; return nil })
	if _, ok := errors.AsType[*CycleError](err); !ok {
		t.Errorf("EditAll = %v, want a *CycleError", err)
	}
	if c := mustGet(t, s.View, a); c.Title != "a" || c.Parent != 0 {
		t.Errorf("after a failed EditAll: %+v", c)
	}
	if err := s.EditAll(ctx, []ID{grandchild.ID, child}, func(c *Conversation) error { c.Parent = a; return nil }); err != nil {
		t.Fatal(err)
	}
	if got := mustList(t, s.View, Filter{Hidden: true}); !slices.Equal(got, []ID{a, child, grandchild.ID, b}) {
		t.Errorf("after moving two: %v", got)
	}
	if err := s.Check(ctx); err != nil {
		t.Error(err)
	}
}

// TestTextsAreUTF8: whatever bytes a person types, the store says the same twice.
func TestTextsAreUTF8(t *testing.T) {
	s := openStore(t)
	given := map[string]string{"a\xff": "b\xfe\xfd", "ok": ""}
	id := mustCreate(t, s, New{Title: "x\xff\xfey", Labels: given}).ID
	c := mustGet(t, s.View, id)
	if c.Title != "x\uFFFDy" || !reflect.DeepEqual(c.Labels, map[string]string{"a\uFFFD": "b\uFFFD", "ok": ""}) {
		t.Errorf("title %q, labels %q", c.Title, c.Labels)
	}
	if len(given) != 2 || given["ok"] != "" || given["a\xff"] == "" {
		t.Errorf("the caller's map was changed: %q", given)
	}
	if err := s.Check(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestRemoveAll(t *testing.T) {
	s := openStore(t)
	ctx := t.Context()
	a, b := mustCreate(t, s, New{}).ID, mustCreate(t, s, New{}).ID
	c, err := s.Fork(ctx, a, Fork{})
	if err != nil {
		t.Fatal(err)
	}
	var children *ChildrenError
	if _, err := s.RemoveAll(ctx, []ID{b, a}, RemoveOptions{}); !errors.As(err, &children) || children.ID != a {
		t.Errorf("RemoveAll = %v, want a *ChildrenError of %s", err, a)
	}
	if got := mustList(t, s.View, Filter{}); !slices.Equal(got, []ID{a, c.ID, b}) {
		t.Errorf("a refused removal left %v", got)
	}
	d, err := s.Fork(ctx, c.ID, Fork{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.RemoveAll(ctx, []ID{a, c.ID}, RemoveOptions{}); !errors.As(err, &children) || children.ID != c.ID {
		t.Errorf("RemoveAll = %v, want a *ChildrenError of %s", err, c.ID)
	}
	removed, err := s.RemoveAll(ctx, []ID{d.ID, a, c.ID, a}, RemoveOptions{})
	if want := []ID{a, c.ID, d.ID}; err != nil || !slices.Equal(removed, want) {
		t.Errorf("RemoveAll of all that is below one another = %v, %v, want %v", removed, err, want)
	}
	a = mustCreate(t, s, New{}).ID
	if c, err = s.Fork(ctx, a, Fork{}); err != nil {
		t.Fatal(err)
	}
	removed, err = s.RemoveAll(ctx, []ID{b, a, c.ID}, RemoveOptions{Cascade: true})
	if want := []ID{b, a, c.ID}; err != nil || !slices.Equal(removed, want) {
		t.Errorf("RemoveAll = %v, %v, want %v", removed, err, want)
	}
	// The last one comes first, and is removed before the one that it is below.
	for _, o := range []RemoveOptions{{Cascade: true}, {Promote: true}} {
		a = mustCreate(t, s, New{}).ID
		if c, err = s.Fork(ctx, a, Fork{}); err == nil {
			d, err = s.Fork(ctx, c.ID, Fork{})
		}
		if err != nil {
			t.Fatal(err)
		}
		removed, err = s.RemoveAll(ctx, []ID{d.ID, a, d.ID}, o)
		want, left := []ID{d.ID, a, c.ID}, []ID{}
		if o.Promote {
			want, left = []ID{d.ID, a}, []ID{c.ID}
		}
		if got := mustList(t, s.View, Filter{}); err != nil || !slices.Equal(removed, want) || !slices.Equal(got, left) {
			t.Errorf("RemoveAll = %v, %v, and leaves %v, want %v and %v", removed, err, got, want, left)
		}
	}
	if err := s.Check(ctx); err != nil {
		t.Error(err)
	}
}

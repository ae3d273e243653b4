package convstore

import (
	"context"
	"errors"
	"reflect"
	"testing"

	"jp/convstore/amount"
)

// TestTerms: what a person says of the limits of a session is written with what they reserve, for
// the whole ledger, and not while anything works within the limits that are there.
func TestTerms(t *testing.T) {
	was := Limits{
		Budget: Budget{Tokens: ptr(100), CostNano: ptr(7)}, Run: Budget{Tokens: ptr(90)}, Strict: true, Children: 5, Parallel: 3,
	}
	changed := func(tokens int64) *Limits {
		l := was.With(Change{Tokens: Choice{Set: true, Value: &tokens}})
		return &l
	}
	no := errors.New("refused")
	for name, test := range map[string]struct {
		tokens int64 // what the flag says
		before func(t *testing.T, s *Store, root, child ID) *LimitsError
		refuse error
		want   *Limits
	}{
		"nobody works": {tokens: 200, want: changed(200)},
		"refused":      {tokens: 200, refuse: no, want: &was},
		"the root runs": {tokens: 50, want: &was, before: func(t *testing.T, s *Store, root, _ ID) *LimitsError {
			mustLock(t, s, root)
			return &LimitsError{ID: root, By: root}
		}},
		"nothing else": {tokens: 100, want: &was, before: func(t *testing.T, s *Store, root, _ ID) *LimitsError {
			mustLock(t, s, root)
			return nil
		}},
		"another child runs": {tokens: 50, want: &was, before: func(t *testing.T, s *Store, root, _ ID) *LimitsError {
			rs, err := mustBelow(t, s, root).Reserve(t.Context(), admit(Child{Call: "other"}))
			if err != nil {
				t.Fatal(err)
			}
			return &LimitsError{ID: root, By: rs[0].Child.ID}
		}},
		"a batch stands for a child": {tokens: 50, want: &was, before: func(t *testing.T, s *Store, root, child ID) *LimitsError {
			mustStand(t, s, child)
			return &LimitsError{ID: root, By: child}
		}},
		"a batch stands for another root": {tokens: 50, want: changed(50), before: func(t *testing.T, s *Store, _, _ ID) *LimitsError {
			mustStand(t, s, mustCreate(t, s, New{}).ID)
			return nil
		}},
		"a turn was cut off": {tokens: 101, want: &was, before: func(t *testing.T, s *Store, root, _ ID) *LimitsError {
			cutOff(t, s, root, was)
			return &LimitsError{ID: root}
		}},
		"a turn was cut off, lower": {tokens: 99, want: changed(99), before: func(t *testing.T, s *Store, root, _ ID) *LimitsError {
			cutOff(t, s, root, was)
			return nil
		}},
	} {
		t.Run(name, func(t *testing.T) {
			s := openStore(t)
			root := mustLock(t, s, mustCreate(t, s, New{}).ID)
			mustAppend(t, root, TurnStart{Limits: &was})
			rs, err := root.Below().Reserve(t.Context(), admit(Child{Call: "child"}))
			if err != nil {
				t.Fatal(err)
			}
			if _, err := root.Below().Settle(t.Context(), rs[0], Outcome{State: StateOK}); err != nil {
				t.Fatal(err)
			}
			mustAppend(t, root, TurnEnd{State: StateOK})
			_ = root.Close()
			child := rs[0].Child.ID
			var want error
			if test.before != nil {
				if no := test.before(t, s, root.ID(), child); no != nil {
					want = no
				}
			}
			if test.refuse != nil {
				want = test.refuse
			}
			scope := mustBelow(t, s, child).Under(Terms{Change: Change{Tokens: Choice{Set: true, Value: &test.tokens}}})
			if _, err = scope.Reserve(t.Context(), func(Standing) ([]Child, error) { return nil, test.refuse }); !reflect.DeepEqual(err, want) {
				t.Errorf("Reserve = %v, want %v", err, want)
			}
			if a, err := s.Account(context.Background(), root.ID()); err != nil || !reflect.DeepEqual(a.Limits, test.want) {
				t.Errorf("limits are %+v, %v, want %+v", a.Limits, err, test.want)
			}
		})
	}
}

// TestFirstTerms: a session without limits gets those of the person, before the rule asks for its
// account.
func TestFirstTerms(t *testing.T) {
	s := openStore(t)
	root := mustCreate(t, s, New{}).ID
	first := amount.Limits{Budget: Budget{Tokens: ptr(100), CostNano: ptr(7)}, Children: 5}
	scope := mustBelow(t, s, root).Under(Terms{Limits: first, Change: Change{CostNano: Choice{Set: true}}})
	first.CostNano = nil
	for range 2 {
		if _, err := scope.Reserve(t.Context(), func(st Standing) ([]Child, error) {
			if !reflect.DeepEqual(st.Account.Limits, &first) {
				t.Errorf("limits are %+v, want %+v", st.Account.Limits, first)
			}
			return nil, nil
		}); err != nil {
			t.Error(err)
		}
		mustStand(t, s, root)
	}
}

// TestForkLimits: a fork with turns has the limits that its source has now, and none that are only in
// events.
func TestForkLimits(t *testing.T) {
	s := openStore(t)
	limits := func(tokens int64) *Limits { return &Limits{Budget: Budget{Tokens: &tokens}} }
	root := mustLock(t, s, mustCreate(t, s, New{}).ID)
	mustAppend(t, root, TurnStart{Limits: limits(100)})
	child := mustLock(t, s, delegate(t, root, "child", 0, 10, nil))
	mustAppend(t, child, TurnStart{Limits: limits(1000)})
	_ = child.Close()
	mustAppend(t, root, TurnEnd{State: StateOK})
	_ = root.Close()
	by := Terms{Change: Change{Tokens: Choice{Set: true, Value: ptr(50)}}}
	if _, err := mustBelow(t, s, root.ID()).Under(by).Reserve(t.Context(), admit()); err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		of    ID
		turns Range
		want  *Limits
	}{
		"of the root":           {root.ID(), Range{}, limits(50)},
		"of its turn":           {root.ID(), LastTurns(1), limits(50)},
		"without turns":         {root.ID(), LastTurns(0), nil},
		"of what was delegated": {child.ID(), Range{}, nil},
	} {
		fork, err := s.Fork(t.Context(), test.of, Fork{Turns: test.turns})
		if err != nil {
			t.Fatal(err)
		}
		if a, err := s.Account(t.Context(), fork.ID); err != nil || !reflect.DeepEqual(a.Limits, test.want) {
			t.Errorf("%s: limits are %+v, %v, want %+v", name, a.Limits, err, test.want)
		}
	}
}

// cutOff begins a turn of a conversation that nobody ends.
func cutOff(t *testing.T, s *Store, id ID, limits Limits) {
	t.Helper()
	l := mustLock(t, s, id)
	mustAppend(t, l, TurnStart{Limits: &limits})
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
}

func mustBelow(t *testing.T, s *Store, id ID) Scope {
	t.Helper()
	scope, err := s.Below(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	return scope
}

func mustStand(t *testing.T, s *Store, id ID) {
	t.Helper()
	end, err := mustBelow(t, s, id).Stand(func() {})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := end(); err != nil {
			t.Error(err)
		}
	})
}

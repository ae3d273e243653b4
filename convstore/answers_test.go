package convstore

import (
	"errors"
	"path/filepath"
	"testing"
	"time"
)

// TestAnswer asks for the answer of turns that ended in different ways.
func TestAnswer(t *testing.T) {
	now := storeEpoch
	s := openStoreIn(t, filepath.Join(t.TempDir(), "store"), Options{Now: func() time.Time { return now }})
	d := Digest{7}
	ask := func(n New, end TurnEnd, first ...Body) Conversation {
		t.Helper()
		c := mustCreate(t, s, n)
		l := mustLock(t, s, c.ID)
		end.Asked = d
		mustAppend(t, l, append(first, TurnStart{}, UserMessage{Text: "q"}, AssistantMessage{Text: "a"}, end)...)
		mustNot(t, l.Close())
		return c
	}
	want := func(what string, d Digest, of ID, want Answer) {
		t.Helper()
		got, ok, err := s.Answer(t.Context(), d, of)
		if got != want || ok != (want != Answer{}) || err != nil {
			t.Errorf("%s: Answer = %v, %v, %v, want %v", what, got, ok, err, want)
		}
	}
	none := Answer{}
	want("an empty store", d, 0, none)
	for _, state := range []State{StatePartial, StateError, StateEmpty, StateRefused, StateCancelled, StateBudget} {
		ask(New{}, TurnEnd{State: state})
		want(string(state), d, 0, none)
	}
	ask(New{}, TurnEnd{State: StateOK, Personal: true})
	want("a person's decision", d, 0, none)

	first := ask(New{}, TurnEnd{State: StateOK})
	want("ok", d, 0, Answer{first.ID, 1})
	want("another digest", Digest{8}, 0, none)
	want("no digest", Digest{}, 0, none)
	want("of it", d, first.ID, Answer{first.ID, 1})

	later := ask(New{}, TurnEnd{State: StateOK}, TurnStart{}, TurnEnd{State: StateOK})
	want("a later turn answers no new conversation", d, 0, Answer{first.ID, 1})
	want("but its own", d, later.ID, Answer{later.ID, 2})

	short := ask(New{ExpiresAt: now.Add(time.Hour)}, TurnEnd{State: StateOK})
	want("the latest", d, 0, Answer{short.ID, 1})
	now = now.Add(2 * time.Hour)
	want("expired", d, 0, Answer{first.ID, 1})

	if _, err := s.Fork(t.Context(), first.ID, Fork{}); err != nil {
		t.Fatal(err)
	}
	want("a fork", d, 0, Answer{first.ID, 1})
	if err := s.Check(t.Context()); err != nil {
		t.Error(err)
	}
	lines := mustExport(t, s, first.ID)
	if _, err := s.Remove(t.Context(), first.ID, RemoveOptions{Cascade: true}); err != nil {
		t.Fatal(err)
	}
	want("removed", d, 0, none)
	mustImport(t, s, lines)
	want("imported", d, 0, none)
	if err := s.Check(t.Context()); err != nil {
		t.Error(err)
	}
}

// TestAnswerOfDelegation asks for answers of sub-agents, whose end is that of their delegation.
func TestAnswerOfDelegation(t *testing.T) {
	s := openStore(t)
	d := Digest{7}
	root := mustCreate(t, s, New{})
	l := mustLock(t, s, root.ID)
	run := func(call string, end, settled State) ID {
		t.Helper()
		rs, err := l.Below().Reserve(t.Context(), admit(Child{Call: call, Asked: d}))
		if err != nil {
			t.Fatal(err)
		}
		child, err := l.Below().Log(t.Context(), rs[0])
		if err != nil {
			t.Fatal(err)
		}
		mustAppend(t, child, TurnStart{}, TurnEnd{State: end, Asked: Digest{9}})
		if a, ok, err := s.Answer(t.Context(), d, rs[0].Child.ID); ok || err != nil {
			t.Errorf("before it is settled: %v, %v", a, err)
		}
		mustNot(t, child.Close())
		if _, err := l.Below().Settle(t.Context(), rs[0], Outcome{State: settled}); err != nil {
			t.Fatal(err)
		}
		return rs[0].Child.ID
	}
	run("c1", StateOK, StateError)
	run("c2", StateEmpty, StateOK)
	if a, ok, err := s.Answer(t.Context(), d, 0); ok || err != nil {
		t.Errorf("Answer = %v, %v, want none", a, err)
	}
	child := run("c3", StateOK, StateOK)
	if a, ok, err := s.Answer(t.Context(), d, 0); a != (Answer{child, 1}) || !ok || err != nil {
		t.Errorf("Answer = %v, %v, %v, want %v", a, ok, err, child)
	}
	if a, ok, err := s.Answer(t.Context(), Digest{9}, 0); ok || err != nil {
		t.Errorf("what the sub-agent says of itself: %v, %v", a, err)
	}

	// An agent finds what is below it, within the decision too, and nothing else.
	other := mustLock(t, s, mustCreate(t, s, New{}).ID)
	for _, c := range []struct {
		scope Scope
		want  Answer
	}{{l.Below(), Answer{child, 1}}, {other.Below(), Answer{}}} {
		if a, _, err := c.scope.Answer(t.Context(), d, 0); a != c.want || err != nil {
			t.Errorf("below %s: Answer = %v, %v, want %v", c.scope.Caller(), a, err, c.want)
		}
		enough := errors.New("enough")
		if _, err := c.scope.Reserve(t.Context(), func(st Standing) ([]Child, error) {
			if a, _, err := st.Answer(c.scope.View, d, 0); a != c.want || err != nil {
				t.Errorf("in admit below %s: Answer = %v, %v, want %v", c.scope.Caller(), a, err, c.want)
			}
			if a, _, err := st.Answer(s.View, d, 0); a.ID != child || err != nil {
				t.Errorf("in admit, for a person: Answer = %v, %v", a, err)
			}
			return nil, enough
		}); !errors.Is(err, enough) {
			t.Errorf("Reserve = %v", err)
		}
	}
	if err := s.Check(t.Context()); err != nil {
		t.Error(err)
	}
}

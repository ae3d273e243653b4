package convstore

import "testing"

// TestTallyOfOlderStores: where a record does not say what was made in its turn, it is counted, and
// kept from then on.
func TestTallyOfOlderStores(t *testing.T) {
	s := openStore(t)
	l := mustLock(t, s, mustCreate(t, s, New{}).ID)
	mustAppend(t, l, TurnStart{})
	delegate(t, l, "of an earlier turn", 0, 1, nil)
	mustAppend(t, l, TurnEnd{State: StateOK}, TurnStart{})
	child := delegate(t, l, "new", 0, 1, nil)
	delegate(t, l, "again", child, 1, nil)
	forget := func() {
		t.Helper()
		if err := s.f.write(t.Context(), func(tx *tx) error {
			r, err := tx.Load(l.ID())
			if err != nil {
				return err
			}
			r.Made = nil
			return tx.Save(l.ID(), r)
		}); err != nil {
			t.Fatal(err)
		}
	}
	for i, want := range []tallied{{Calls: 2, Forked: 1}, {Calls: 3, Forked: 2}, {Calls: 4, Forked: 3}} {
		if i < 2 {
			forget()
		}
		rs, err := l.Below().Reserve(t.Context(), func(st Standing) ([]Child, error) {
			if got := (tallied{st.Calls, st.Children}); got != want {
				t.Errorf("%d: standing of %+v, want %+v", i, got, want)
			}
			return []Child{{Call: string(rune('a' + i))}}, nil
		})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := l.Below().Settle(t.Context(), rs[0], Outcome{State: StateOK}); err != nil {
			t.Fatal(err)
		}
	}
}

// TestUnstartedInOpenTurn: a delegation that was to go on with an open turn, and was lost before it
// began, says so; the turn, which did begin, says that its run was lost.
func TestUnstartedInOpenTurn(t *testing.T) {
	s := openStore(t)
	l := mustLock(t, s, mustCreate(t, s, New{}).ID)
	mustAppend(t, l, TurnStart{})
	child := delegate(t, l, "first", 0, 1, nil)
	c := mustLock(t, s, child)
	mustAppend(t, c, TurnStart{}, UserMessage{Text: "by hand"})
	mustNot(t, c.Close())
	rs, err := l.Below().Reserve(t.Context(), func(Standing) ([]Child, error) { return []Child{{Call: "again", ID: child}}, nil })
	mustNot(t, err)
	mustNot(t, rs[0].Release())
	mustNot(t, s.f.write(t.Context(), func(tx *tx) error { return tx.reconcile(l.ID(), runner{id: l.ID()}) }))
	var end TurnEnd
	for e, err := range s.Events(t.Context(), child, Range{}) {
		mustNot(t, err)
		end, _ = e.Body.(TurnEnd)
	}
	if want := (TurnEnd{State: StateLost, Reason: reasonLost}); end != want {
		t.Errorf("the turn's end = %+v, want %+v", end, want)
	}
	ds, err := s.Delegations(t.Context(), l.ID())
	mustNot(t, err)
	if d := ds[len(ds)-1]; d.Reason != reasonUnstarted || !d.Unstarted {
		t.Errorf("the delegation = %+v, want unstarted", d)
	}
}

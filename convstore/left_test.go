package convstore

import (
	"reflect"
	"testing"
)

// TestSettleLeft: a delegation is left from the moment that nobody holds its child's run lock, also
// while the caller runs again, and then settled once, as its child has ended.
func TestSettleLeft(t *testing.T) {
	s := openStore(t)
	caller := mustCreate(t, s, New{}).ID
	by, err := s.Below(t.Context(), caller)
	if err != nil {
		t.Fatal(err)
	}
	rs, err := by.Reserve(t.Context(), admit(Child{Call: "a"}, Child{Call: "b"}, Child{Call: "c"}))
	if err != nil {
		t.Fatal(err)
	}
	end := func(r *Reservation, bodies ...Body) {
		t.Helper()
		child, err := by.Log(t.Context(), r)
		if err != nil {
			t.Fatal(err)
		}
		mustAppend(t, child, bodies...)
		_ = child.Close()
	}
	end(rs[0], TurnStart{}, ModelCall{Usage: Usage{Input: 3}}, TurnEnd{State: StateOK})
	end(rs[1], TurnStart{})
	again := mustLock(t, s, caller) // by another run
	other, err := s.Below(t.Context(), rs[0].Child.ID)
	if err != nil {
		t.Fatal(err)
	}

	open, err := by.Open(t.Context())
	if err != nil || len(open) != 3 {
		t.Fatalf("open: %+v, %v, want 3", open, err)
	}
	if ds, err := other.Open(t.Context()); err != nil || len(ds) != 0 {
		t.Errorf("open of another caller: %+v, %v, want none", ds, err)
	}
	_, err = other.SettleLeft(t.Context(), open[0])
	checkError[*ScopeError](t, "SettleLeft for another caller", err, &ScopeError{ID: rs[0].Child.ID, Root: rs[0].Child.ID})
	for i, want := range []struct {
		State     State
		Unstarted bool
		Input     int64
	}{{StateOK, false, 3}, {StateLost, false, 0}, {StateLost, true, 0}} {
		if _, err := again.Below().SettleLeft(t.Context(), open[i]); err == nil || err.(*BusyError).ID != open[i].Child {
			t.Errorf("SettleLeft(%s) while it runs: %v, want busy", open[i].Call, err)
		}
		if err := rs[i].Release(); err != nil {
			t.Fatal(err)
		}
		d, err := again.Below().SettleLeft(t.Context(), open[i])
		if err != nil || d.State != want.State || d.Unstarted != want.Unstarted || d.Own.Usage.Input != want.Input {
			t.Errorf("SettleLeft(%s) = %+v, %v, want %+v", open[i].Call, d, err, want)
		}
		if twice, err := by.SettleLeft(t.Context(), open[i]); err != nil || !reflect.DeepEqual(twice, mustDelegations(t, s, caller)[i]) {
			t.Errorf("SettleLeft(%s) again = %+v, %v, want what stands", open[i].Call, twice, err)
		}
	}
	if open, err = by.Open(t.Context()); err != nil || len(open) != 0 {
		t.Errorf("open: %+v, %v, want none", open, err)
	}
	if err := s.Check(t.Context()); err != nil {
		t.Error(err)
	}
}

package convstore

import "testing"

// TestClaim: one holder for each conversation and name, until it is closed; runs are something
// else.
func TestClaim(t *testing.T) {
	s := openStore(t)
	a, b := mustCreate(t, s, New{}).ID, mustCreate(t, s, New{}).ID
	mustLock(t, s, a)
	held, err := s.Claim(t.Context(), a, "work")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Claim(t.Context(), a, "work"); err == nil || err.(*ClaimError).ID != a || err.(*ClaimError).Name != "work" {
		t.Errorf("claimed twice: %v", err)
	}
	for _, other := range []struct {
		of   ID
		name string
	}{{a, "other work"}, {b, "work"}} {
		c, err := s.Claim(t.Context(), other.of, other.name)
		if err != nil {
			t.Fatalf("%s %s: %v", other.of, other.name, err)
		}
		_ = c.Close()
	}
	if got := mustList(t, s.View, Filter{}); len(got) != 2 {
		t.Errorf("conversations while a claim is held: %v", got)
	}
	if err := held.Close(); err != nil {
		t.Fatal(err)
	}
	if held, err = s.Claim(t.Context(), a, "work"); err != nil {
		t.Errorf("claimed again: %v", err)
	} else {
		_ = held.Close()
	}
	_, err = s.Claim(t.Context(), b+100, "work")
	checkError[*NotFoundError](t, "Claim", err, &NotFoundError{ID: b + 100})
}

package convstore

import (
	"fmt"
	"slices"
	"testing"
)

// TestReserveDecodesLittle: the state on which a decision about a delegation is based is read
// without the records of a caller's other children and of its open delegations. Otherwise the last
// of ten thousand would take much longer than the first.
func TestReserveDecodesLittle(t *testing.T) {
	s := openStore(t)
	c, err := s.Create(t.Context(), New{})
	if err != nil {
		t.Fatal(err)
	}
	l, err := s.Lock(t.Context(), c.ID)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	if err := l.Append(t.Context(), Event{Body: TurnStart{}}); err != nil {
		t.Fatal(err)
	}
	var children []Child
	for i := range 200 {
		children = append(children, Child{Call: fmt.Sprint(i), Labels: map[string]string{"k": fmt.Sprint(i)}})
	}
	rs, err := l.Below().Reserve(t.Context(), admit(children...))
	if err != nil {
		t.Fatal(err)
	}
	if err := s.f.read(t.Context(), func(tx *tx) error {
		allocated := testing.AllocsPerRun(10, func() {
			r, err := tx.Load(c.ID)
			if err != nil {
				t.Fatal(err)
			}
			st, _, err := l.Below().standing(tx, r, c.ID)
			if err != nil {
				t.Fatal(err)
			}
			if found, err := st.Labelled("k", "7"); len(found) != 1 || err != nil {
				t.Fatalf("%d labelled, %v", len(found), err)
			}
		})
		if most := 5.0 * 200; allocated > most {
			t.Errorf("a decision beside 200 open delegations allocates %v times, want at most %v", allocated, most)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	for _, r := range rs {
		if _, err := l.Below().Settle(t.Context(), r, Outcome{State: StateOK}); err != nil {
			t.Fatal(err)
		}
	}
}

// TestLabelled: a caller finds its own delegated children by label, and no others.
func TestLabelled(t *testing.T) {
	f := newFamily(t)
	reserve := func(from ID, call string, labels map[string]string) ID {
		t.Helper()
		scope, err := f.s.Below(t.Context(), from)
		if err != nil {
			t.Fatal(err)
		}
		rs, err := scope.Reserve(t.Context(), admit(Child{Call: call, Labels: labels, Grant: Grant{MaxDepth: 1}}))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := scope.Settle(t.Context(), rs[0], Outcome{State: StateOK}); err != nil {
			t.Fatal(err)
		}
		return rs[0].Child.ID
	}
	labels := map[string]string{"k": "v", "other": "x"}
	one := reserve(f.root, "one", labels)
	labels["k"] = "changed"
	two := reserve(f.root, "two", map[string]string{"k": "v"})
	reserve(f.root, "three", map[string]string{"k": "w"})
	reserve(f.child, "below", map[string]string{"k": "v"})
	reserve(f.other, "elsewhere", map[string]string{"k": "v"})
	if err := f.s.Edit(t.Context(), f.fork, func(c *Conversation) error {
		c.Labels = map[string]string{"k": "v"} // a person's fork is not delegated
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		key, value string
		want       []ID
	}{
		{"k", "v", []ID{one, two}},
		{"other", "x", []ID{one}},
		{"k", "", nil},
		{"none", "", nil},
	} {
		scope, err := f.s.Below(t.Context(), f.root)
		if err != nil {
			t.Fatal(err)
		}
		var got []ID
		if _, err := scope.Reserve(t.Context(), func(s Standing) ([]Child, error) {
			cs, err := s.Labelled(test.key, test.value)
			got = nil
			for _, c := range cs {
				got = append(got, c.ID)
			}
			return nil, err
		}); err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(got, test.want) {
			t.Errorf("Labelled(%q, %q) = %v, want %v", test.key, test.value, got, test.want)
		}
	}
	c, err := f.s.Get(t.Context(), one)
	if err != nil || fmt.Sprint(c.Labels) != "map[k:v other:x]" {
		t.Errorf("labels = %v, %v", c.Labels, err)
	}
}

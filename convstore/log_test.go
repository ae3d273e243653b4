package convstore

import (
	"errors"
	"reflect"
	"testing"
)

// TestTaken follows what a Log knows without looking at the store.
func TestTaken(t *testing.T) {
	s := openStore(t)
	cfg := Config{JSON: []byte(`{"a":1}`), Tools: []string{"x"}}
	c := mustCreate(t, s, New{Config: cfg})
	l := mustLock(t, s, c.ID)
	if !l.Blank() || !reflect.DeepEqual(l.Taken(), cfg) {
		t.Errorf("a new one: blank %v, config %+v", l.Blank(), l.Taken())
	}
	if err := l.Begin(t.Context(), func(Account) *Call { return &Call{Model: "m"} }); err != nil {
		t.Fatal(err)
	}
	if l.Blank() {
		t.Error("blank after a call was begun")
	}
	_ = l.Close()
	// What is owed for that call becomes an event with the next transaction.
	if l = mustLock(t, s, c.ID); l.Blank() {
		t.Error("blank with a lost call")
	}
	next := Config{JSON: []byte(`{"a":2}`)}
	mustAppend(t, l, ConfigDelta{Resolved: next})
	if got := l.Taken(); !reflect.DeepEqual(got, cfg) {
		t.Errorf("Taken = %+v, want what it was", got)
	}
	_ = l.Close()
	if l = mustLock(t, s, c.ID); l.Blank() || !reflect.DeepEqual(l.Taken(), next) {
		t.Errorf("with events: blank %v, config %+v", l.Blank(), l.Taken())
	}
	_ = l.Close()
	if _, err := s.Remove(t.Context(), c.ID, RemoveOptions{}); err != nil {
		t.Fatal(err)
	}
	var gone *NotFoundError
	if _, err := s.Lock(t.Context(), c.ID); !errors.As(err, &gone) {
		t.Errorf("Lock of one that is gone = %v", err)
	}
}

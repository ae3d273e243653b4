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

// TestRetitle: the title and the events that go with it change together, or neither does.
func TestRetitle(t *testing.T) {
	s := openStore(t)
	c := mustCreate(t, s, New{Title: "first"})
	l := mustLock(t, s, c.ID)
	for _, tt := range []struct {
		was, title string
		changed    bool
		now        string
		events     int
	}{
		{"first", "second", true, "second", 1},
		{"first", "third", false, "second", 1},
		{"second", "second", true, "second", 2},
	} {
		changed, err := l.Retitle(t.Context(), tt.was, tt.title, Event{Body: Note{Kind: "title", Text: tt.title}})
		if err != nil || changed != tt.changed {
			t.Errorf("Retitle(%q, %q) = %v, %v, want %v", tt.was, tt.title, changed, err, tt.changed)
		}
		if got, err := s.Get(t.Context(), c.ID); err != nil || got.Title != tt.now || got.Events != tt.events {
			t.Errorf("after it: %q with %d events, %v, want %q with %d", got.Title, got.Events, err, tt.now, tt.events)
		}
	}
	_ = l.Close()
	if _, err := l.Retitle(t.Context(), "second", "third"); !errors.Is(err, ErrClosed) {
		t.Errorf("closed: %v", err)
	}
}

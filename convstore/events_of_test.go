package convstore

import (
	"errors"
	"reflect"
	"strings"
	"testing"
)

// TestEventsOf compares it with Events of one after the other, with more than one opening reads
// ahead.
func TestEventsOf(t *testing.T) {
	s := openStore(t)
	large := strings.Repeat("x", 700<<10)
	var ids []ID
	for _, texts := range [][]string{{"a", "b"}, {}, {large, large, large}, {"c"}, {large}, {"d"}} {
		c := mustCreate(t, s, New{})
		ids = append(ids, c.ID)
		l := mustLock(t, s, c.ID)
		mustAppend(t, l, TurnStart{})
		for _, text := range texts {
			mustAppend(t, l, UserMessage{Text: text})
		}
		_ = l.Close()
	}
	ids = append(ids, mustCreate(t, s, New{}).ID) // without any
	many := mustCreate(t, s, New{}).ID
	ids = append(ids, many, ids[0])
	l := mustLock(t, s, many)
	bodies := make([]Body, 2*batchEvents+1)
	for i := range bodies {
		bodies[i] = Note{Text: "n"}
	}
	mustAppend(t, l, bodies...)
	_ = l.Close()

	var want, got []EventIn
	for _, id := range ids {
		for e, err := range s.Events(t.Context(), id, Range{}) {
			if err != nil {
				t.Fatal(err)
			}
			want = append(want, EventIn{id, e})
		}
	}
	for e, err := range s.EventsOf(t.Context(), ids) {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, e)
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%d events, want %d the same", len(got), len(want))
	}
	// It ends at the first that is not there, after those before it.
	n := 0
	var gone *NotFoundError
	for e, err := range s.EventsOf(t.Context(), []ID{ids[0], 7, ids[3]}) {
		if err == nil && e.Conversation == ids[0] {
			n++
		} else if !errors.As(err, &gone) || gone.ID != 7 || n != 3 {
			t.Errorf("after %d events: %+v, %v", n, e, err)
		}
	}
	if gone == nil {
		t.Error("one that is not there was passed over")
	}
}

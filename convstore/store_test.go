package convstore

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"testing"
	"time"
)

// openStore opens a store in a folder of its own. When the test ends, the store must be sound.
func openStore(t testing.TB) *Store {
	t.Helper()
	return openStoreIn(t, filepath.Join(memoryDir(t), "store"), Options{})
}

// memoryDir makes a folder that, where there is such a place, is kept in memory: a test whose disk
// is not what it is about need not wait for it.
func memoryDir(t testing.TB) string {
	t.Helper()
	if dir, err := os.MkdirTemp("/dev/shm", "convstore"); err == nil {
		t.Cleanup(func() { _ = os.RemoveAll(dir) })
		return dir
	}
	return t.TempDir()
}

func openStoreIn(t testing.TB, dir string, o Options) *Store {
	t.Helper()
	s, err := Open(dir, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		now, err := Open(dir, Options{}) // what is there now: the test may have moved the other away
		if err == nil {
			err = now.Check(context.Background())
		}
		if err != nil {
			t.Errorf("after the test: %v", err)
		}
	})
	return s
}

func mustCreate(t testing.TB, s *Store, n New) Conversation {
	t.Helper()
	c, err := s.Create(t.Context(), n)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func mustLock(t testing.TB, s *Store, id ID) *Log {
	t.Helper()
	l, err := s.Lock(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l
}

func mustAppend(t testing.TB, l *Log, bodies ...Body) []Event {
	t.Helper()
	events := make([]Event, len(bodies))
	for i, b := range bodies {
		events[i].Body = b
	}
	if err := l.Append(t.Context(), events...); err != nil {
		t.Fatal(err)
	}
	return events
}

func mustEvents(t testing.TB, v View, id ID, r Range) []Event {
	t.Helper()
	var events []Event
	for e, err := range v.Events(t.Context(), id, r) {
		if err != nil {
			t.Fatal(err)
		}
		events = append(events, e)
	}
	return events
}

func mustGet(t testing.TB, v View, id ID) Conversation {
	t.Helper()
	c, err := v.Get(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func ids(list []Conversation) []ID {
	var ids []ID
	for _, c := range list {
		ids = append(ids, c.ID)
	}
	return ids
}

func mustList(t testing.TB, v View, f Filter) []ID {
	t.Helper()
	list, err := v.List(t.Context(), f)
	if err != nil {
		t.Fatal(err)
	}
	return ids(list)
}

func TestAbsentStoreReadsAsEmpty(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state", "store")
	s := openStoreIn(t, dir, Options{})
	ctx := t.Context()
	if list := mustList(t, s.View, Filter{}); len(list) != 0 {
		t.Errorf("List() = %v, want none", list)
	}
	want := &NotFoundError{ID: 7}
	_, err := s.Get(ctx, 7)
	checkError(t, "Get", err, want)
	_, err = s.Config(ctx, 7)
	checkError(t, "Config", err, want)
	_, err = s.Lock(ctx, 7)
	checkError(t, "Lock", err, want)
	_, err = s.Under(ctx, 7)
	checkError(t, "Under", err, want)
	_, err = s.Delegations(ctx, 7)
	checkError(t, "Delegations", err, want)
	for _, err := range s.Events(ctx, 7, Range{}) {
		checkError(t, "Events", err, want)
	}
	if removed, err := s.Expire(ctx); removed != nil || err != nil {
		t.Errorf("Expire() = %v, %v, want nothing", removed, err)
	}
	if active, previous, err := s.Active(ctx, "tty"); active != 0 || previous != 0 || err != nil {
		t.Errorf("Active() = %v, %v, %v, want nothing", active, previous, err)
	}
	if names := filesIn(t, filepath.Dir(filepath.Dir(dir))); len(names) != 0 {
		t.Errorf("reading made %v", names)
	}
}

// checkError compares an error, by type and fields, with what errors.As finds.
func checkError[E error](t testing.TB, what string, err error, want E) {
	t.Helper()
	var got E
	if !errors.As(err, &got) || !reflect.DeepEqual(got, want) {
		t.Errorf("%s: error %#v (%v), want %#v", what, err, err, want)
	}
}

func TestAppendAndRead(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 123, time.UTC)
	s := openStoreIn(t, filepath.Join(t.TempDir(), "store"), Options{Now: func() time.Time { return now }})
	c := mustCreate(t, s, New{Title: "first", Config: Config{JSON: []byte(`{"a": 1}`), Tools: []string{"x"}}})
	if want := ID(now.UnixMilli() / 100); c.ID != want {
		t.Errorf("Create().ID = %v, want %v", c.ID, want)
	}
	l := mustLock(t, s, c.ID)
	mustAppend(t, l, Note{Kind: "before", Text: "any turn"})
	events := mustAppend(t, l, TurnStart{}, UserMessage{Text: "hi"}, AssistantMessage{Text: "yo"}, TurnEnd{State: StateOK})
	mustAppend(t, l, TurnStart{}, UserMessage{Text: "again"})
	for i, e := range events {
		if e.Seq != uint64(i+2) || e.Turn != 1 || e.ID == "" || !e.Time.Equal(now) {
			t.Errorf("event %d: %+v", i, e)
		}
	}
	got := mustGet(t, s.View, c.ID)
	if got.Turns != 2 || got.Events != 7 || got.Status != StatusRunning || got.Title != "first" {
		t.Errorf("Get() = %+v", got)
	}
	_ = l.Close()
	if got := mustGet(t, s.View, c.ID); got.Status != StatusInterrupted {
		t.Errorf("status %q after the log is closed in a turn, want interrupted", got.Status)
	}
	all := mustEvents(t, s.View, c.ID, Range{})
	if len(all) != 7 {
		t.Errorf("events: %+v", all)
	}
	last := mustEvents(t, s.View, c.ID, LastTurns(1))
	if len(last) != 2 || !reflect.DeepEqual(last[1].Body, UserMessage{Text: "again"}) {
		t.Errorf("last turn: %+v", last)
	}
	cfg, err := s.Config(t.Context(), c.ID)
	if err != nil || string(cfg.JSON) != `{"a": 1}` || !reflect.DeepEqual(cfg.Tools, []string{"x"}) {
		t.Errorf("Config() = %+v, %v", cfg, err)
	}
}

func filesIn(t testing.TB, dir string) []string {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil {
		t.Fatal(err)
	}
	return names
}

// storeEpoch is some time or other.
var storeEpoch = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

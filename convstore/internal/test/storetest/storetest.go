// Package storetest makes stores for the tests of packages that import convstore. Its functions end
// the test if they fail.
package storetest

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"testing"
	"time"

	"go.etcd.io/bbolt"

	"jp/convstore"
)

// Epoch is an arbitrary time.
var Epoch = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// Open opens a store in a folder of its own. At the end of the test it checks that the store is
// sound.
func Open(t testing.TB) *convstore.Store {
	t.Helper()
	return OpenIn(t, filepath.Join(MemoryDir(t), "store"), convstore.Options{})
}

// MemoryDir makes a folder that is in memory if the system has a place for that, so that a test
// does not wait for the disk.
func MemoryDir(t testing.TB) string {
	t.Helper()
	if dir, err := os.MkdirTemp("/dev/shm", "convstore"); err == nil {
		t.Cleanup(func() { _ = os.RemoveAll(dir) })
		return dir
	}
	return t.TempDir()
}

// OpenIn is Open in a folder.
func OpenIn(t testing.TB, dir string, o convstore.Options) *convstore.Store {
	t.Helper()
	s, err := convstore.Open(dir, o)
	NoError(t, err)
	t.Cleanup(func() {
		now, err := convstore.Open(dir, convstore.Options{}) // the store that is there now: the test may have moved the first one
		if err == nil {
			err = now.Check(context.Background())
		}
		if err != nil {
			t.Errorf("after the test: %v", err)
		}
	})
	return s
}

// Create makes a conversation.
func Create(t testing.TB, s *convstore.Store, n convstore.New) convstore.Conversation {
	t.Helper()
	c, err := s.Create(t.Context(), n)
	NoError(t, err)
	return c
}

// Lock takes a run lock until the test ends.
func Lock(t testing.TB, s *convstore.Store, id convstore.ID) *convstore.Log {
	t.Helper()
	l, err := s.Lock(t.Context(), id)
	NoError(t, err)
	t.Cleanup(func() { _ = l.Close() })
	return l
}

// Append appends an event for each body.
func Append(t testing.TB, l *convstore.Log, bodies ...convstore.Body) []convstore.Event {
	t.Helper()
	events := make([]convstore.Event, len(bodies))
	for i, b := range bodies {
		events[i].Body = b
	}
	NoError(t, l.Append(t.Context(), events...))
	return events
}

// Get returns a conversation.
func Get(t testing.TB, v convstore.View, id convstore.ID) convstore.Conversation {
	t.Helper()
	c, err := v.Get(t.Context(), id)
	NoError(t, err)
	return c
}

// Admit returns an admit function that admits these children.
func Admit(children ...convstore.Child) func(convstore.Standing) ([]convstore.Child, error) {
	return func(convstore.Standing) ([]convstore.Child, error) { return children, nil }
}

// Delegate runs one child of caller to its end, with one call of a model. The id 0 means a new
// child.
func Delegate(t testing.TB, caller *convstore.Log, call string, id convstore.ID, in int64, nano *int64) convstore.ID {
	t.Helper()
	rs, err := caller.Below().Reserve(t.Context(), Admit(convstore.Child{Call: call, ID: id, Kind: "sub_complete", Profile: "agent/r", Model: "m/child"}))
	NoError(t, err)
	l, err := caller.Below().Log(t.Context(), rs[0])
	NoError(t, err)
	Append(t, l, convstore.TurnStart{}, convstore.UserMessage{Text: "q"}, convstore.AssistantMessage{Text: "a"},
		convstore.ModelCall{Model: "m/child", Usage: convstore.Usage{Input: in, Output: 1}, CostNano: nano, Duration: time.Second},
		convstore.TurnEnd{State: convstore.StateOK})
	NoError(t, l.Close())
	_, err = caller.Below().Settle(t.Context(), rs[0], convstore.Outcome{State: convstore.StateOK})
	NoError(t, err)
	return rs[0].Child.ID
}

// RawOpen opens the file as another program would, without locks of the folder.
func RawOpen(t testing.TB, path string, readOnly bool) *bbolt.DB {
	t.Helper()
	bolt, err := bbolt.Open(path, 0o600, &bbolt.Options{ReadOnly: readOnly, Timeout: 10 * time.Second})
	NoError(t, err)
	return bolt
}

// Read returns the bytes of a file.
func Read(t testing.TB, path string) []byte {
	t.Helper()
	b, err := os.ReadFile(path)
	NoError(t, err)
	return b
}

// OnDisk opens a store on a real disk, in the folder of $TMPDIR.
func OnDisk(b *testing.B) *convstore.Store {
	b.Helper()
	s, err := convstore.Open(filepath.Join(b.TempDir(), "store"), convstore.Options{})
	NoError(b, err)
	return s
}

// Events returns events of a conversation.
func Events(t testing.TB, v convstore.View, id convstore.ID, r convstore.Range) (events []convstore.Event) {
	t.Helper()
	for e, err := range v.Events(t.Context(), id, r) {
		NoError(t, err)
		events = append(events, e)
	}
	return events
}

// Error fails the test, which continues, if errors.As does not find an error equal to want.
func Error[E error](t testing.TB, what string, err error, want E) {
	t.Helper()
	var got E
	if !errors.As(err, &got) || !reflect.DeepEqual(got, want) {
		t.Errorf("%s: error %#v (%v), want %#v", what, err, err, want)
	}
}

// NoError ends the test if there is an error.
func NoError(t interface {
	Helper()
	Fatal(...any)
}, err error) {
	if err != nil {
		t.Helper()
		t.Fatal(err)
	}
}

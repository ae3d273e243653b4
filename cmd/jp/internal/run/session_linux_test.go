package run

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"jp/convstore"
)

// TestSessionUnmakes: a session whose turn cannot begin leaves no conversation behind.
func TestSessionUnmakes(t *testing.T) {
	for name, tt := range map[string]struct {
		transaction func(n int, runs string) error // called as one begins
		event       convstore.Event
	}{
		"not locked": {func(n int, runs string) error {
			switch n {
			case 2: // the one after Create
				return os.Mkdir(runs, 0o700)
			case 3:
				return os.Remove(runs)
			}
			return nil
		}, At(convstore.TurnStart{})},
		"not stored": {func(int, string) error { return nil }, convstore.Event{ID: strings.Repeat("x", 1000), Body: convstore.TurnStart{}}},
	} {
		dir, n := filepath.Join(t.TempDir(), "store"), 0
		store, err := convstore.Open(dir, convstore.Options{Now: func() time.Time {
			n++
			if err := tt.transaction(n, filepath.Join(dir, "runs")); err != nil {
				t.Errorf("%s: %v", name, err)
			}
			return time.Now()
		}})
		if err != nil {
			t.Fatal(err)
		}
		s := &Session{site: site{Store: store}}
		began := s.begin(t.Context(), nil, convstore.New{}, tt.event)
		list, err := store.List(t.Context(), convstore.Filter{})
		if began == nil || s.Log != nil || s.Conv.ID != 0 || len(list) > 0 || err != nil {
			t.Errorf("%s: begin = %v, then log %v, conversation %s, and in the store %v, %v", name, began, s.Log, s.Conv.ID, list, err)
		}
	}
}

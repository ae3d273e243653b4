package convstore

import (
	"context"
	"testing"
)

// Rooms are functions of packages that import this one, for its own tests, which cannot. Those of
// package convstore_test can, and fill them in.
var Rooms struct {
	// Search looks for a text, in all conversations or some, and returns how many lines have it.
	Search func(ctx context.Context, v View, text string, ids ...ID) (int, error)

	// Differences returns what the events of a tree and its ledger disagree about, "" for nothing.
	Differences func(ctx context.Context, v View, id ID) (string, error)

	// Export returns the lines of conversations, Import stores such lines and returns how many
	// conversations it made, and Rescue returns the lines of what can be read, and how much it is.
	Export func(ctx context.Context, v View, ids []ID, cascade bool) (string, error)
	Import func(ctx context.Context, s *Store, lines string) (int, error)
	Rescue func(ctx context.Context, s *Store, lost func(error)) (lines string, conversations, events int, err error)
}

func mustImport(t testing.TB, s *Store, lines string) (made int) {
	t.Helper()
	made, err := Rooms.Import(t.Context(), s, lines)
	mustNot(t, err)
	return made
}

func mustExport(t testing.TB, s *Store, ids ...ID) string {
	t.Helper()
	lines, err := Rooms.Export(t.Context(), s.View, ids, true)
	mustNot(t, err)
	return lines
}

func mustNot(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

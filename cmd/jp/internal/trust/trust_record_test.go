package trust

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"
)

// TestUnfinishedRecords: what a jp that was killed left of a record goes with the next write, what
// another one is writing stays.
func TestUnfinishedRecords(t *testing.T) {
	dir := t.TempDir()
	old := time.Now().Add(-time.Hour)
	for _, name := range []string{".trust-a.json.1234567", ".trust-a.json.99", ".trust-b.json.1", ".trust-a.json.x", "trust-b.json", ".trust-a.json"} {
		file := filepath.Join(dir, name)
		if err := os.WriteFile(file, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(file, old, old); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, ".trust-a.json.7"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(dir, ".trust-a.json.8"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Chtimes(filepath.Join(dir, ".trust-a.json.8"), old, old); err != nil {
		t.Fatal(err)
	}
	if err := writeRecord(filepath.Join(dir, "trust-a.json"), Record{}); err != nil {
		t.Fatal(err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var left []string
	for _, e := range entries {
		left = append(left, e.Name())
	}
	want := []string{".trust-a.json", ".trust-a.json.7", ".trust-a.json.8", ".trust-a.json.x", ".trust-b.json.1", "trust-a.json", "trust-b.json"}
	if !slices.Equal(left, want) {
		t.Errorf("left %q, want %q", left, want)
	}
}

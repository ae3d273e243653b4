package query

import (
	"os"
	"path/filepath"
	"testing"
)

// TestDraftIsReplaced: the old draft stays complete until the new one is complete, so that neither
// a full disk nor a kill loses it.
func TestDraftIsReplaced(t *testing.T) {
	top := t.TempDir()
	d, err := lockDraft(filepath.Join(top, "1"), true)
	if err != nil {
		t.Fatal(err)
	}
	defer d.release()
	if err := d.write("what took an hour"); err != nil {
		t.Fatal(err)
	}
	before := filepath.Join(top, "before") // shows what becomes of the file that was there
	if err := os.Link(d.path, before); err != nil {
		t.Fatal(err)
	}
	if err := d.write("what took an hour, and more"); err != nil {
		t.Fatal(err)
	}
	for file, want := range map[string]string{before: "what took an hour", d.path: "what took an hour, and more"} {
		if got, err := os.ReadFile(file); err != nil || string(got) != want {
			t.Errorf("%s: %q, %v, want %q", file, got, err, want)
		}
	}
	if names, err := filepath.Glob(filepath.Join(top, "1", ".*")); err != nil || len(names) > 0 {
		t.Errorf("left beside it: %v, %v", names, err)
	}
}

package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestOneAsksAtATime: of two jps that a script runs at the same time, one shows its question, and
// the other one only after the answer. So a yes is for what is on the screen.
func TestOneAsksAtATime(t *testing.T) {
	s := newSite(t, map[string]string{
		".jp/config.toml": "[assistant]\nmodel = \"script/model.toml\"\n[conversation.tools.fs_create_file]\n",
		"model.toml": `
[[rule]]
query = "red"
round = 1
tool_calls = [{ name = "fs_create_file", arguments = { path = "red", content = "x" } }]
[[rule]]
query = "blue"
round = 1
tool_calls = [{ name = "fs_create_file", arguments = { path = "blue", content = "x" } }]
[[rule]]
text = "done"
`,
	})
	if out, code := s.jp("trust", "--yes"); code != 0 {
		t.Fatal(out)
	}
	const mark = "? for help] "
	for range 5 {
		screen, _, status := leader(t, s, []exchange{{mark, "y\n"}, {mark, "n\n"}}, "/bin/sh", "sh", "-c",
			"jp query --new --no-activate make red & jp query --new --no-activate make blue & wait")
		first, other := "red", "blue"
		if strings.Index(screen, `path = "blue"`) < strings.Index(screen, `path = "red"`) {
			first, other = other, first
		}
		_, did := os.Stat(filepath.Join(s.dir, first))
		_, not := os.Stat(filepath.Join(s.dir, other))
		if status != 0 || did != nil || not == nil || strings.Count(screen, mark) != 2 {
			t.Errorf("status %d, %s: %v, %s: %v, screen:\n%s", status, first, did, other, not, screen)
		}
		_ = os.Remove(filepath.Join(s.dir, "red"))
		_ = os.Remove(filepath.Join(s.dir, "blue"))
	}
}

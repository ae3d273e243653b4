package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestEditOnTerminal: where nothing is asked and nothing can be resumed, an editor starts, which
// has the terminal and its Ctrl-C.
func TestEditOnTerminal(t *testing.T) {
	s := newSite(t, map[string]string{
		".jp/config.toml": "[assistant]\nmodel = \"script/model.toml\"\n",
		"model.toml":      "[captures]\nasked = { pattern = '(?s).+', match = -1 }\n[[rule]]\ntext = \"said: {{asked}}\"\n",
		"editor.sh":       "test -t 0 && test -t 1 && test -t 2 || exit 8\nprintf 'EDIT: '\nread -r line || exit 7\nprintf %s \"$line\" >\"$1\"\n",
	})
	if _, _, status := onTerminal(t, s, "Trust this workspace? [y/N] ", "y\n", "trust"); status != 0 {
		t.Fatalf("jp trust: status %d", status)
	}
	config := filepath.Join(s.home, "config", "jp")
	if err := os.MkdirAll(config, 0o700); err != nil {
		t.Fatal(err)
	}
	noEditor, _, status := onTerminal(t, s, "", "", "query")
	if want := "jp: query: nothing to ask and nothing to resume\n"; status != 2 || !strings.HasPrefix(noEditor, want) || !strings.Contains(noEditor, "$EDITOR") {
		t.Errorf("without an editor: status %d, screen %q, want 2, %q", status, noEditor, want)
	}
	if err := os.WriteFile(filepath.Join(config, "config.toml"), []byte("[editor]\ncmd = \"sh '"+s.dir+"/editor.sh'\"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name, answer string
		args         []string
		stdout       string
		status       int
		screen       string // is on it
	}{
		{"nothing to ask", "a question\n", []string{"query"}, "said: a question\n", 0, "EDIT: "},
		{"nothing to resume", "another\n", []string{"query"}, "said: another\n", 0, "EDIT: "},
		{"Ctrl-C is the editor's", "\x03", []string{"query"}, "", 1, "signal: interrupt"},
		{"--no-edit", "", []string{"query", "--new", "-E"}, "", 2, "jp: query: nothing to ask and nothing to resume\n"},
		{"--non-interactive", "", []string{"query", "--new", "--non-interactive"}, "", 2, "jp: query: nothing to ask and nothing to resume\n"},
	} {
		screen, out, status := onTerminal(t, s, "EDIT: ", tt.answer, tt.args...)
		if out != tt.stdout || status != tt.status || !strings.Contains(unbroken(screen), strings.TrimSpace(tt.screen)) || tt.answer == "" && strings.Contains(screen, "EDIT: ") {
			t.Errorf("%s: status %d, stdout %q, want %d, %q, and %q on the screen:\n%s", tt.name, status, out, tt.status, tt.stdout, tt.screen, screen)
		}
	}
}

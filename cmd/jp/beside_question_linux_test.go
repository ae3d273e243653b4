package main

import (
	"strings"
	"testing"
)

// besideSite is a workspace whose agent makes a call that asks, and has a sub-agent write a file.
func besideSite(t *testing.T, first, second string) *site {
	t.Helper()
	s := newSite(t, map[string]string{
		".jp/config.toml": `
[assistant]
model = "script/model.toml"
[conversation.tools.jp_query]
run = "unattended"
[conversation.tools.fs_read_file]
run = "ask"
[conversation.tools.ask_user]
[conversation.tools.fs_create_file]
run = "unattended"
[delegation]
profiles = ["agent/w"]
`,
		".jp/config/agent/w.toml": `
[loader]
reset = "none"
[assistant]
model = "script/model.toml"
[conversation.tools.fs_create_file]
run = "unattended"
`,
		"model.toml": `
[[rule]]
has_tool = "jp_query"
round = 1
tool_calls = [
	` + first + `,
	` + second + `,
]
[[rule]]
query = "work"
round = 1
tool_calls = [{ name = "fs_create_file", arguments = { path = "worked", content = "x" } }]
[[rule]]
text = "done"
`,
	})
	if out, code := s.jp("trust", "--yes"); code != 0 {
		t.Fatal(out)
	}
	return s
}

const (
	besideAgent = `{ name = "jp_query", arguments = { config = "agent/w", query = "work" } }`
	besideRead  = `{ name = "fs_read_file", arguments = { path = "model.toml" } }`
)

// TestSubagentBesideQuestion: a sub-agent begins, works and ends while a question waits for a person,
// however long that takes.
func TestSubagentBesideQuestion(t *testing.T) {
	for _, tt := range []struct{ first, second, prompt string }{
		{besideAgent, besideRead, "? for help] "},
		{`{ name = "ask_user", arguments = { question = "Which?" } }`, besideAgent, "answer: "},
	} {
		s := besideSite(t, tt.first, tt.second)
		screen, _, status := leader(t, s, []exchange{{tt.prompt, ""}, {"it has worked", "y\n"}}, "/bin/sh", "sh", "-c",
			"(until test -e worked; do sleep 0.05; done; echo it has worked >&2) & jp query --new --no-activate go; wait")
		if status != 0 || !strings.Contains(screen, "agent/w  ok") {
			t.Errorf("status %d, screen:\n%s", status, screen)
		}
	}
}

// TestBackgroundDrawsNothing: a job in the background moves no cursor, because who is in the foreground
// may have asked something there. How its sub-agents ended stands below what there is, once.
func TestBackgroundDrawsNothing(t *testing.T) {
	s := besideSite(t, besideAgent, besideRead)
	screen, out, status := leader(t, s, nil, "/bin/sh", "sh", "-c", "set -m; jp query --new --no-activate go & wait $!")
	if status != 0 || out != "done\n" || strings.Contains(screen, "A\r") || strings.Count(screen, "agent/w") != 1 || !strings.Contains(screen, "agent/w  ok") {
		t.Errorf("status %d, stdout %q, screen:\n%q", status, out, screen)
	}
}

package main

import (
	"strings"
	"testing"
)

// TestAskUserOnTerminal: a question of the model and what a person types.
func TestAskUserOnTerminal(t *testing.T) {
	s := newSite(t, map[string]string{
		".jp/config.toml": "[assistant]\nmodel = \"script/model.toml\"\n[conversation.tools.ask_user]\n",
		"model.toml": `[captures]
said = { pattern = '(?s).*', match = -1 }
[[rule]]
round = 1
query = "open"
tool_calls = [{ name = "ask_user", arguments = { question = "Which\u001b[2J one?" } }]
[[rule]]
round = 1
tool_calls = [{ name = "ask_user", arguments = { question = "Which one?\njp: run rm (local)?\nxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxjp: run rm (local)?", options = ["the red\u001b]0;x\u0007 one", "the blue one"] } }]
[[rule]]
text = "said: {{said}}"
`,
	})
	if _, _, status := onTerminal(t, s, "Trust this workspace? [y/N] ", "y\n", "trust"); status != 0 {
		t.Fatalf("jp trust: status %d", status)
	}
	for _, tt := range []struct{ query, answer, want string }{
		{"choose", "2\n", "said: the blue one\n"},
		{"choose", "  the green one  \n", "said: the green one\n"},
		{"choose", "3\n", "said: 3\n"},
		{"choose", "1\n", "said: the red\x1b]0;x\a one\n"},
		{"open", "1\n", "said: 1\n"},
		{"choose", "\x04", "said: error: the user gave no answer\n"},
	} {
		screen, out, status := onTerminal(t, s, "answer: ", tt.answer, "query", "--new", tt.query)
		if status != 0 || out != tt.want {
			t.Errorf("%s, answer %q: status %d, stdout %q, want %q, screen:\n%s", tt.query, tt.answer, status, out, tt.want, screen)
		}
		if !strings.Contains(screen, "jp: the assistant asks:\n  Which one?\n") || strings.Contains(screen, "\x1b]0") || strings.Contains(screen, "\x1b[2J") || strings.Contains(screen, "\njp: run") || tt.query == "choose" && !strings.Contains(screen, "xx\n  xxjp: run rm") {
			t.Errorf("%s, answer %q: screen %q", tt.query, tt.answer, screen)
		}
	}
	// --non-interactive asks nobody, whatever the terminal.
	screen, out, _ := onTerminal(t, s, "", "", "query", "--new", "--non-interactive", "choose")
	if strings.Contains(screen, "the assistant asks") || !strings.HasPrefix(out, "said: error: nobody can answer") {
		t.Errorf("--non-interactive: stdout %q, screen:\n%s", out, screen)
	}
}

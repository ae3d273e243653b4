package wording

import (
	"os/exec"
	"testing"
)

// TestShellWord gives words to a shell, as a person does who pastes a command.
func TestShellWord(t *testing.T) {
	for s, plain := range map[string]bool{
		"": false, ".jp/config/a.toml": true, "a b": false, "a;b": false, "a&b": false, "$(echo x)": false, "`echo x`": false, `"$(echo x)"`: false,
		"it's": false, "'$(echo x)'": false, `\`: false, "*": false, "~": false, "a\nb": false, "--to=1,2": true, "!!": false,
	} {
		word := ShellWord(s)
		if got, err := exec.Command("sh", "-c", "printf %s "+word).Output(); err != nil || string(got) != s {
			t.Errorf("a shell reads %s as %q, %v, want %q", word, got, err, s)
		}
		if (word == s) != plain {
			t.Errorf("ShellWord(%q) = %s", s, word)
		}
	}
}

package wording

import (
	"os/exec"
	"strings"
	"testing"
	"unicode/utf8"

	"jp/tools/unseen"
)

// TestShellWord gives words to a shell, as a person does who pastes a command.
func TestShellWord(t *testing.T) {
	for s, plain := range map[string]bool{
		"": false, ".jp/config/a.toml": true, "a b": false, "a;b": false, "a&b": false, "$(echo x)": false, "`echo x`": false, `"$(echo x)"`: false,
		"it's": false, "'$(echo x)'": false, `\`: false, "*": false, "~": false, "a\nb": false, "--to=1,2": true, "!!": false,
		"é": false, "'a\x1b[": false, "b; rm -rf ~ #": false, "it's\t\\b\r": false, "a\u200bb": false, "\u202e1": false, "\xff2": false, "$'\x7f": false,
	} {
		word := ShellWord(s)
		if unseen.Spell(word) != word || !utf8.ValidString(word) {
			t.Errorf("ShellWord(%q) = %q does not show", s, word)
		}
		shell := "sh"
		if strings.HasPrefix(word, "$") {
			shell = "bash"
		}
		if got, err := exec.Command(shell, "-c", "printf %s "+word).Output(); err != nil || string(got) != s {
			t.Errorf("a shell reads %s as %q, %v, want %q", word, got, err, s)
		}
		if (word == s) != plain {
			t.Errorf("ShellWord(%q) = %s", s, word)
		}
	}
}

// TestDollars: no amount has an exponent, which people do not read as money.
func TestDollars(t *testing.T) {
	for nano, want := range map[int64]string{
		0: "$0", 1: "$0.000000001", 20_000: "$0.00002", 123_456: "$0.00012", 4_240_000: "$0.0042", 9_999_999: "$0.01", 1_500_000_000: "$1.50",
	} {
		if got := Dollars(&nano); got != want {
			t.Errorf("Dollars(%d) = %s, want %s", nano, got, want)
		}
	}
}

package shell

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"jp/tools/template"
)

// What a value may be depends on its place.
func TestShellValues(t *testing.T) {
	dashed := func(value, program string) string {
		return `argument "x" must not start with '-': "` + value + `" would be an option of ` + program + `, not a value`
	}
	echoed := func(value string) string {
		return `argument "x" must not be "` + value + `": that is an option of echo`
	}
	long := strings.Repeat("a", maxInline+1)
	tooLong := `argument "x" is too long for the arguments and variables of a program (100 KB; at most 100 KB)`
	for _, tt := range []struct {
		script string
		x      any
		want   string
	}{
		{`ls @`, "-l", dashed("-l", "ls")},
		{`ls "@"`, "-", dashed("-", "ls")},
		{`ls ''@`, "-l", dashed("-l", "ls")},
		{`ls "$y"@`, "-l", dashed("-l", "ls")},
		{`ls @.txt`, "-l", dashed("-l", "ls")},
		{`ls @@`, "-l", dashed("-l", "ls")},
		{`ls "$(ls @)"`, "-l", dashed("-l", "ls")},
		{`ls @ --`, "-l", dashed("-l", "ls")},
		{`ls "$y" @`, "-l", dashed("-l", "ls")},
		{`ls -- @`, "-l", ""},
		{`ls '--' @`, "-l", ""},
		{`ls a -- b @`, "-l", ""},
		{`ls --x=@`, "-l", ""},
		{`ls "a@"`, "-l", ""},
		{`ls {{tool.arguments.d}}`, "", ""},
		{`ls {{tool.options.flag}}`, "", ""},
		{`x=@; ls "$x"`, "-l", ""},
		{`printf %s @`, "-l", ""},
		{`[ @ = a ]`, "-l", ""},
		{`for f in @; do :; done`, "-l", ""},
		{`cat <<< @`, "-l", ""},
		{`{{#for e in tool.arguments.x}}ls {{e}}` + "\n{{/for}}", []any{"a", "-l"}, dashed("-l", "ls")},
		{`echo @`, "-n", echoed("-n")},
		{`echo "@"`, "-neE", echoed("-neE")},
		{`echo -e @`, "-n", echoed("-n")},
		{`echo @n`, "-", echoed("-")},
		{`echo @`, "-", ""},
		{`echo @`, "- a", ""},
		{`echo @`, "-x", ""},
		{`echo a @`, "-n", ""},
		{`echo "a @"`, "-n", ""},

		{`echo @`, "a\x00", `argument "x" holds a NUL byte`},
		{`ls @`, long, tooLong},
		{`y=@ ls`, long, tooLong},
		{`ls "a@"`, long, tooLong},
		{`echo @`, long, ""},
		{`y=@`, long, ""},
		{`{{#for e in tool.arguments.x}}echo {{e}}` + "\n{{/for}}", slices.Repeat([]any{"a"}, maxPlaceholders), ""},
		{`{{#for e in tool.arguments.x}}echo {{e}}` + "\n{{/for}}", slices.Repeat([]any{"a"}, maxPlaceholders+1),
			"with these arguments the shell text is refused: line 1, column 36: more than 2000 placeholders in one text"},
		{`{{#for e in tool.arguments.x}}# ` + strings.Repeat("a", 1000) + "\n{{/for}}", slices.Repeat([]any{"a"}, 200),
			"with these arguments the shell text is refused: line 1, column 1: comes to more than 120 KB"},
		{`{{#for e in tool.arguments.x}}echo {{e}}` + "\n{{/for}}", many(20, maxInline), `argument "x" and the others come to more than 1 MB`},
	} {
		s, err := Parse("", strings.ReplaceAll(tt.script, "@", "{{tool.arguments.x}}"), "bash")
		if err != nil {
			t.Fatal(err)
		}
		rules := Rules{Dash: map[string]bool{"d": true}}
		if err := s.Check(rules); err != nil {
			t.Errorf("%s: %v", tt.script, err)
			continue
		}
		c, err := s.Call(callData(map[string]any{"x": tt.x, "d": "-d"}), rules, t.TempDir())
		got := ""
		if err != nil {
			got = err.Error()
		}
		if got != tt.want {
			t.Errorf("%s with %.40s: %s\nwant %s", tt.script, fmt.Sprint(tt.x), got, tt.want)
		}
		if err == nil {
			if err := c.Close(); err != nil {
				t.Error(err)
			}
		}
	}
}

// many are n different values of this size.
func many(n, size int) (out []any) {
	for i := range n {
		out = append(out, strings.Repeat(string(rune('a'+i)), size))
	}
	return out
}

// A value that does not fit into the environment arrives whole all the same, at every place where
// no program needs it there.
func TestShellLarge(t *testing.T) {
	for _, shell := range []string{"bash", "dash"} {
		path, interpreter := lookShell(shell), map[string]string{"bash": "bash", "dash": "sh"}[shell]
		if path == "" {
			t.Logf("%s is not installed", shell)
			continue
		}
		sh, temp := newTestShell(t), t.TempDir()
		value := strings.Repeat("a'\"$(touch pwned)\\\n", 40_000) + "\n\n"
		for script, want := range map[string]string{
			`printf '%s' @`:                          value,
			"#!/bin/sh\nx='@'; printf '%s' \"$x\"":   value,
			"cat <<EOF\n<@>\nEOF":                    "<" + value + ">\n",
			"set -eu; [ \"@\" = '@' ] && printf yes": "yes",
		} {
			s, err := Parse("", strings.ReplaceAll(script, "@", "{{tool.arguments.x}}"), interpreter)
			if err != nil {
				t.Fatal(err)
			}
			c, err := s.Call(callData(map[string]any{"x": value}), Rules{}, temp)
			if err != nil {
				t.Fatal(err)
			}
			if len(c.Files) != 1 {
				t.Errorf("%s: %d files", script, len(c.Files))
			}
			if got, errs := sh.run(t, c, path); got != want || errs != "" {
				t.Errorf("%s: %s: %d bytes, want %d\n%s", shell, script, len(got), len(want), errs)
			}
			if err := c.Close(); err != nil {
				t.Error(err)
			}
		}
		// A text whose value is gone does not run.
		s, err := Parse("", "printf ran {{tool.arguments.x}}", interpreter)
		if err != nil {
			t.Fatal(err)
		}
		c, err := s.Call(callData(map[string]any{"x": value}), Rules{}, temp)
		if err != nil {
			t.Fatal(err)
		}
		if err := c.Close(); err != nil {
			t.Error(err)
		}
		if got, errs := sh.run(t, c, path); got != "" || errs == "" {
			t.Errorf("%s without the file: %q, %q", shell, got, errs)
		}
		if entries, err := os.ReadDir(temp); err != nil || len(entries) != 0 {
			t.Errorf("left behind: %v %v", entries, err)
		}
		if _, err := s.Call(callData(map[string]any{"x": value}), Rules{}, filepath.Join(temp, "none")); err == nil {
			t.Error("no error without a folder for files")
		}
	}
}

// callData has these arguments, where nil is one that was not given.
func callData(args map[string]any) map[string]any {
	all := map[string]any{}
	for k, v := range args {
		if all[k] = v; v == nil {
			all[k] = template.Omitted
		}
	}
	return map[string]any{
		"tool":    map[string]any{"name": "t", "arguments": all, "options": map[string]any{"flag": "-v"}},
		"context": map[string]any{"workspace": "/w"},
	}
}

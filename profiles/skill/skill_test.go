package skill

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"testing/fstest"
	"unicode"
	"unicode/utf8"

	"go.yaml.in/yaml/v4"

	"jp/profiles/fault"
)

// FuzzSkill: a SKILL.md is refused with a line of it, or says what it says to a reader of YAML: a
// name and a description of one line each, and a body that is in it.
func FuzzSkill(f *testing.F) {
	f.Add("---\nname: k\ndescription: Does it. # comment\n---\nBody.\n")
	f.Add("---\nlicense: MIT\nname: \"k\"\nmetadata:\n  name: other\ndescription: 'It''s k: #1'\n---\n\n# K\n---\nx")
	f.Add("\ufeff---\r\nname: >-\r\n  a\r\n\r\n  b\r\ndescription: \"a \\\"b\\\"\\n\\x41c\"\r\n---\r\nA\r\nB\r\n")
	f.Add("---\ndescription: Does it\n  and more\n\nname: |\n  k\n---\nB")
	f.Add("---\nname: [k]\ndescription: *d\n---\nB\x00\xff")
	f.Fuzz(func(t *testing.T, text string) {
		s, err := parse([]byte(text))
		if err != nil {
			var e *fault.Error
			if !errors.As(err, &e) || e.Line < 0 || e.Line > strings.Count(text, "\n")+strings.Count(text, "\r")+1 || !reflect.DeepEqual(s, Skill{}) {
				t.Fatalf("parse(%q) = %+v, %#v", text, s, err)
			}
			return
		}
		for _, line := range []string{s.Name, s.Description} {
			if line == "" && line != s.Name || utf8.RuneCountInString(line) > 1024 || strings.ContainsFunc(line, unicode.IsControl) || !utf8.ValidString(line) {
				t.Fatalf("parse(%q): %q", text, line)
			}
		}
		plain := strings.NewReplacer("\r\n", "\n", "\r", "\n").Replace(strings.TrimPrefix(text, "\ufeff"))
		if s.Body == "" || !strings.HasSuffix(strings.TrimSpace(plain), s.Body) {
			t.Fatalf("parse(%q): the body %q", text, s.Body)
		}
		_, head, _ := strings.Cut(plain[:len(strings.TrimRight(plain, " \t\n"))-len(s.Body)], "\n")
		var doc map[string]any
		if yaml.Unmarshal([]byte(head), &doc) != nil {
			return // more is read here than YAML takes
		}
		for key, got := range map[string]string{"name": s.Name, "description": s.Description} {
			if want, ok := doc[key].(string); ok && strings.Join(strings.Fields(want), " ") != strings.Join(strings.Fields(got), " ") && len(s.Notes) == 0 {
				t.Fatalf("parse(%q): %s is %q, to YAML %q", text, key, got, want)
			}
		}
	})
}

// TestPlaces: the workspace comes first, and only through its files; a home folder in it is part of
// it.
func TestPlaces(t *testing.T) {
	top := t.TempDir()
	text := func(s string) []byte { return []byte("---\ndescription: d\n---\n" + s) }
	for _, name := range []string{"ws/.jp/skills/a", "ws/home/.jp/skills/a", "home/.claude/skills/a", "home/.jp/skills/b"} {
		if err := os.MkdirAll(filepath.Join(top, name), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(top, name, "SKILL.md"), text("disk"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	ws := filepath.Join(top, "ws")
	files := fstest.MapFS{".agents/skills/a/SKILL.md": {Data: text("given")}, ".jp/skills/.x/SKILL.md": {}}
	for _, tt := range []struct {
		in   Places
		want string
	}{
		{Places{Workspace: ws, Files: files, Home: filepath.Join(top, "home")}, "ws/.agents/skills/a given, home/.jp/skills/b disk"},
		{Places{Workspace: ws, Home: filepath.Join(top, "home")}, "home/.claude/skills/a disk, home/.jp/skills/b disk"},
		{Places{Workspace: ws, Files: files, Home: filepath.Join(ws, "home")}, "ws/.agents/skills/a given"},
		{Places{Workspace: ws, Home: ws}, ""},
		{Places{Home: filepath.Join(ws, "home")}, "ws/home/.jp/skills/a disk"},
	} {
		found, problems := All(tt.in)
		var got []string
		for _, s := range found {
			got = append(got, strings.TrimPrefix(filepath.Dir(s.File), top+"/")+" "+s.Body)
		}
		if strings.Join(got, ", ") != tt.want || len(problems) > 0 {
			t.Errorf("All(%+v) = %q, %v, want %s", tt.in, got, problems, tt.want)
		}
	}
}

func TestParse(t *testing.T) {
	tests := []struct{ name, text, want string }{
		{"plain", "---\nname: k\ndescription: Does it. # comment\n---\nBody.\n", "k|Does it.|Body."},
		{"quotes and other keys", "---\nlicense: MIT\nname: \"k\"\nmetadata:\n  name: other\n  description: other\ndescription: 'It''s k: #1'\n---\n\n# K\n", "k|It's k: #1|# K"},
		{"folded", "---\nname: k\ndescription: >-\n  Does it,\n  and more.\n\nallowed-tools: x\n---\nB", "k|Does it, and more.|B"},
		{"literal", "---\ndescription: |\n  One\n  Two\nname: k\n---\nB", "k|One Two|B"},
		{"goes on", "---\nname: k\ndescription: Does it\n  and more\n---\nB", "k|Does it and more|B"},
		{"escapes", "---\nname: k\ndescription: \"a \\\"b\\\"\\nc\"\n---\nB", `k|a "b" c|B`},
		{"a character by its number", `---
name: k
description: "\xd1 \u00d1 \\xd1"
---
B`, `k|Ñ Ñ \xd1|B`},
		{"an escape of the terminal", "---\nname: k\ndescription: \"a\\x1b[31m\"\n---\nB", "3: description: must not hold control characters"},
		{"CRLF and byte order mark", "\ufeff---\r\nname: k\r\ndescription: d\r\n---\r\nA\r\nB\r\n", "k|d|A\nB"},
		{"body with ---", "---\nname: k\ndescription: d\n---\nA\n---\nB", "k|d|A\n---\nB"},
		{"empty", "", "1: must begin with a frontmatter between lines of ---"},
		{"no frontmatter", "# K\n", "1: must begin with a frontmatter between lines of ---"},
		{"no end", "---\nname: k\n", "1: the frontmatter has no end"},
		{"no name", "---\ndescription: d\n---\nB", "|d|B"},
		{"no description", "---\nname: k\n---\nB", "1: description: is missing"},
		{"empty description", "---\nname: k\ndescription:\n---\nB", "3: description: must not be empty"},
		{"long description", "---\nname: k\ndescription: " + strings.Repeat("é", 1025) + "\n---\nB", "k|" + strings.Repeat("é", 1023) + "…|B|its description is longer than 1024 characters, and cut"},
		{"characters, not bytes", "---\nname: k\ndescription: " + strings.Repeat("é", 1024) + "\n---\nB", "k|" + strings.Repeat("é", 1024) + "|B"},
		{"long name", "---\nname: " + strings.Repeat("x", 1025) + "\ndescription: d\n---\nB", "2: name: must be at most 1024 bytes"},
		{"no body", "---\nname: k\ndescription: d\n---\n\n", "4: says nothing below the frontmatter"},
		{"name twice", "---\nname: k\nname: l\ndescription: d\n---\nB", "3: name: is there twice"},
		{"open quotes", "---\nname: k\ndescription: \"d\n---\nB", "3: description: the quotes are not closed, or hold an escape that is not read here"},
		{"open single quotes", "---\nname: k\ndescription: 'd'x'\n---\nB", "3: description: the quotes are not closed"},
		{"list", "---\nname: [k]\ndescription: d\n---\nB", "2: name: is no text that can be read here"},
		{"anchor", "---\nname: k\ndescription: *d\n---\nB", "3: description: is no text that can be read here"},
		{"not UTF-8", "---\nname: k\ndescription: \xff\n---\nB", "not UTF-8 text"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s, err := parse([]byte(tt.text))
			got := strings.Join(append([]string{s.Name, s.Description, s.Body}, s.Notes...), "|")
			if err != nil {
				got = err.Error()
				if e := err.(*fault.Error); e.Line > 0 {
					got = fmt.Sprint(e.Line, ": ", got)
				}
			}
			if got != tt.want {
				t.Errorf("got  %s\nwant %s", got, tt.want)
			}
		})
	}
}

// TestByHand: an empty value of YAML is false, as no and off are.
func TestByHand(t *testing.T) {
	for value, want := range map[string]string{
		" true": "true <nil>", " 'True'": "true <nil>", " yes": "true <nil>", " ON": "true <nil>",
		" false": "false <nil>", " no": "false <nil>", " Off": "false <nil>", " null": "false <nil>", " ~": "false <nil>", "": "false <nil>",
		" maybe": "false disable-model-invocation: must be true or false", " 1": "false disable-model-invocation: must be true or false",
		" no\ndisable-model-invocation: true": "false disable-model-invocation: is there twice",
	} {
		s, err := parse([]byte("---\ndescription: d\ndisable-model-invocation:" + value + "\n---\nB"))
		if got := fmt.Sprint(s.ByHand, " ", err); got != want {
			t.Errorf("%q: %s, want %s", value, got, want)
		}
	}
}

package profiles

import (
	"errors"
	"reflect"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"go.yaml.in/yaml/v4"
)

// FuzzSkill: a SKILL.md is refused with a line of it, or says what it says to a reader of YAML: a name and a description of one line
// each, and a body that is in it.
func FuzzSkill(f *testing.F) {
	f.Add("---\nname: k\ndescription: Does it. # comment\n---\nBody.\n")
	f.Add("---\nlicense: MIT\nname: \"k\"\nmetadata:\n  name: other\ndescription: 'It''s k: #1'\n---\n\n# K\n---\nx")
	f.Add("\ufeff---\r\nname: >-\r\n  a\r\n\r\n  b\r\ndescription: \"a \\\"b\\\"\\n\\x41c\"\r\n---\r\nA\r\nB\r\n")
	f.Add("---\ndescription: Does it\n  and more\n\nname: |\n  k\n---\nB")
	f.Add("---\nname: [k]\ndescription: *d\n---\nB\x00\xff")
	f.Fuzz(func(t *testing.T, text string) {
		s, err := parseSkill([]byte(text))
		if err != nil {
			var e *Error
			if !errors.As(err, &e) || e.Line < 0 || e.Line > strings.Count(text, "\n")+strings.Count(text, "\r")+1 || !reflect.DeepEqual(s, Skill{}) {
				t.Fatalf("parseSkill(%q) = %+v, %#v", text, s, err)
			}
			return
		}
		for _, line := range []string{s.Name, s.Description} {
			if line == "" && line != s.Name || utf8.RuneCountInString(line) > 1024 || strings.ContainsFunc(line, unicode.IsControl) || !utf8.ValidString(line) {
				t.Fatalf("parseSkill(%q): %q", text, line)
			}
		}
		plain := strings.NewReplacer("\r\n", "\n", "\r", "\n").Replace(strings.TrimPrefix(text, "\ufeff"))
		if s.Body == "" || !strings.HasSuffix(strings.TrimSpace(plain), s.Body) {
			t.Fatalf("parseSkill(%q): the body %q", text, s.Body)
		}
		_, head, _ := strings.Cut(plain[:len(strings.TrimRight(plain, " \t\n"))-len(s.Body)], "\n")
		var doc map[string]any
		if yaml.Unmarshal([]byte(head), &doc) != nil {
			return // more is read here than YAML takes
		}
		for key, got := range map[string]string{"name": s.Name, "description": s.Description} {
			if want, ok := doc[key].(string); ok && strings.Join(strings.Fields(want), " ") != strings.Join(strings.Fields(got), " ") && len(s.Notes) == 0 {
				t.Fatalf("parseSkill(%q): %s is %q, to YAML %q", text, key, got, want)
			}
		}
	})
}

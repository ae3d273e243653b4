package profiles

import (
	"errors"
	"strconv"
	"strings"
	"testing"

	"jp/profiles/tomldoc"
)

func tomlSeeds() []string {
	var seeds []string
	for _, name := range Builtins() {
		data, _ := Builtin(name)
		seeds = append(seeds, string(data))
	}
	for _, f := range InitFiles("openai/gpt", "openai/gpt") {
		seeds = append(seeds, string(f.Data))
	}
	return append(seeds,
		"a=1", "a.b.c = {d=[1,2,{e=3}]}", "[[a]]\n[[a.b]]\n[a.b.c]\nd=1\n[[a]]", "a=[[],[{}],{}]",
		"a='''x'''''\nb=\"\"\"y\\\n  z\"\"\"\"\"", "\"a\\u00e9\".'b' = inf\n", "a = 2020-01-01 10:00:00\nb = 07:32:00",
		"a = {b=1}\n[a.c]\n", "[a]\n[a.b]\n[a]\n", "a=1\na=2", "[[a]]\n[a]", "a=[{b=1}]\n[[a]]", "a.b=1\n[a]\nc=2",
		"a=\"\"\"\"\"\"\n", "\ufeffa=1", "\xff\xfea=1", "a\x00=1", "a = [1,\n\n# c\n2]\n", "\"\"=1\n''.a=2", "a=-0x1F\nb=1_000",
		"[a.b]\nx.y=1\n[a.b.x]\n", "a = [ { b = 1, c.d = 2, }, \n]", "[ a . \"b\" ]\n'c' . d = true",
	)
}

// FuzzLocate holds the locator to the decoder: what the decoder accepts has marks for exactly its
// keys and items, each on a line that holds something of it.
func FuzzLocate(f *testing.F) {
	for _, s := range tomlSeeds() {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, src string) {
		tree, marks, err := parseTOML([]byte(src))
		if err != nil {
			var e *Error
			if !errors.As(err, &e) || e.Msg == "" || e.Line < 0 || e.Line > 1+strings.Count(src, "\n") || strings.Contains(e.Msg, "\n") {
				t.Fatalf("parseTOML(%q) error = %#v", src, err)
			}
			return
		}
		compare(t, src, strings.Split(src, "\n"), tree, marks, nil)
	})
}

func compare(t *testing.T, src string, lines []string, v any, m *tomldoc.Mark, parts []string) {
	if m == nil {
		t.Fatalf("%q: %v has no mark", src, parts)
	}
	if m.Line < 1 || m.Line > len(lines) {
		t.Fatalf("%q: %v is on line %d of %d", src, parts, m.Line, len(lines))
	}
	switch v := v.(type) {
	case map[string]any:
		if len(m.Keys) != len(v) || len(m.Items) != 0 {
			t.Fatalf("%q: %v has marks for %v and %d items, want %v", src, parts, sortedKeys(m.Keys), len(m.Items), sortedKeys(v))
		}
		for k, below := range v {
			if isPlainKey(k) && !strings.Contains(src, `\`) && m.Keys[k] != nil && m.Keys[k].Line <= len(lines) && !strings.Contains(lines[m.Keys[k].Line-1], k) {
				t.Fatalf("%q: %v.%s is not on line %d", src, parts, k, m.Keys[k].Line)
			}
			compare(t, src, lines, below, m.Keys[k], append(parts[:len(parts):len(parts)], k))
		}
	case []any:
		if len(m.Items) != len(v) || len(m.Keys) != 0 {
			t.Fatalf("%q: %v has %d items and marks for %v, want %d items", src, parts, len(m.Items), sortedKeys(m.Keys), len(v))
		}
		for i := range v {
			compare(t, src, lines, v[i], m.Items[i], append(parts[:len(parts):len(parts)], strconv.Itoa(i)))
		}
	default:
		if len(m.Keys) != 0 || len(m.Items) != 0 {
			t.Fatalf("%q: %v is a %T and has marks below it", src, parts, v)
		}
	}
}

// isPlainKey: a key that needs no quotes, in a text without escapes, is written as it is.
func isPlainKey(k string) bool { return k != "" && tomldoc.QuotePart(k) == k }

func TestTOMLErrors(t *testing.T) {
	tests := []struct{ name, src, want string }{
		{"syntax", "a = 1\nb =\n", "2: not valid TOML: expected value but found '\\n' instead"},
		{"twice", "a = 1\na = 2\n", "2: not valid TOML: Key 'a' has already been defined."},
		{"open string", "a = \"x", `1: not valid TOML: unexpected EOF; expected '"'`},
		{"bytes", "a = 1\nb = '\xff'\n", "2: not UTF-8 text"},
		{"NUL", "a = 1\nb = \x00", "2: not valid TOML: TOML files cannot contain control characters: '0x00'"},
		{"empty key", "a = 1\nb.'' = 2\n", "2: a key must not be empty"},
		{"empty key of an inline table", "a = [1,\n{\"\" = 1}]\n", "2: a key must not be empty"},
		{"date", "a = 1\n[b]\nc = 1979-05-27\n", "3: b.c: must not be a date: no setting takes one; write it in quotes"},
		{"date in a list", "a = [\n1,\n1979-05-27]\n", "3: a.1: must not be a date: no setting takes one; write it in quotes"},
		{"infinity", "a = inf\n", "1: a: must be a finite number"},
		{"no number", "\na = nan\n", "2: a: must be a finite number"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, _, err := parseTOML([]byte(tt.src))
			e := (*Error)(nil)
			if !errors.As(err, &e) {
				t.Fatalf("parseTOML(%q) = %v", tt.src, err)
			}
			if got := strconv.Itoa(e.Line) + ": " + (&Error{Key: e.Key, Msg: e.Msg}).Error(); got != tt.want {
				t.Errorf("parseTOML(%q) = %s, want %s", tt.src, got, tt.want)
			}
		})
	}
}

package profiles

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/BurntSushi/toml"
)

func TestLocate(t *testing.T) {
	tests := []struct {
		name, src string
		want      map[string]int // key -> line
	}{
		{"pairs", "a = 1\n\n# b = 2\nc.d = 3 # e = 4\n\"f.g\" = 5\n'h' = 6", map[string]int{"a": 1, "c": 4, "c.d": 4, `"f.g"`: 5, "h": 6}},
		{"tables", "[a.b]\nc = 1\n[a]\nd = 2\n", map[string]int{"a": 3, "a.b": 1, "a.b.c": 2, "a.d": 4}},
		{"list of tables", "[[a]]\nb = 1\n[[a]]\nb = 2\n[a.c]\nd = 3\n", map[string]int{
			"a": 1, "a.0": 1, "a.0.b": 2, "a.1": 3, "a.1.b": 4, "a.1.c": 5, "a.1.c.d": 6}},
		{"long strings", "a = \"\"\"\n[x]\ny = 1 \\\"\"\" \\\n\"\"\"\"\"\nb = '''\n'' [z]\n'''''\nc = 1", map[string]int{"a": 1, "b": 5, "c": 8}},
		{"brackets in strings", "a = \"]}#\"\nb = [\n  '[', # ]\n  \"\\\"]\",\n]\nc = { d = '}', e = [{ f = 1 }] }\ng = 1", map[string]int{
			"a": 1, "b": 2, "b.0": 3, "b.1": 4, "c": 6, "c.d": 6, "c.e": 6, "c.e.0": 6, "c.e.0.f": 6, "g": 7}},
		{"inline over lines", "a = {\n  b = 1, # one\n  c.d = 2,\n}\ne = 1", map[string]int{"a": 1, "a.b": 2, "a.c": 3, "a.c.d": 3, "e": 5}},
		{"escaped key", `"a\tb\u00e9" = 1`, map[string]int{`"a\tbé"`: 1}},
		{"windows", "a = 1\r\n[b]\r\nc = \"\"\"\r\nx\r\n\"\"\"\r\nd = 2\r\n", map[string]int{"a": 1, "b": 2, "b.c": 3, "b.d": 6}},
		{"mark of byte order", "\ufeffa = 1", map[string]int{"a": 1}},
		{"date with a space", "a = 1979-05-27 07:32:00 # x\nb = 1", map[string]int{"a": 1, "b": 2}},
		{"no end", "a = 1", map[string]int{"a": 1}},
		{"nothing", "", map[string]int{}},
		{"only a comment", "# x", map[string]int{}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if _, err := toml.Decode(tt.src, new(map[string]any)); err != nil {
				t.Fatalf("the test is not TOML: %v", err)
			}
			marks, err := locate(tt.src)
			if err != nil {
				t.Fatal(err)
			}
			got := map[string]int{}
			flatten(got, marks, nil)
			if !reflect.DeepEqual(got, tt.want) {
				t.Errorf("locate(%q) = %v, want %v", tt.src, got, tt.want)
			}
		})
	}
}

func flatten(into map[string]int, m *mark, parts []string) {
	if parts != nil {
		into[joinKey(parts)] = m.line
	}
	for k, below := range m.keys {
		flatten(into, below, append(slices.Clone(parts), k))
	}
	for i, below := range m.items {
		flatten(into, below, append(slices.Clone(parts), strconv.Itoa(i)))
	}
}

// Each of these would cost the decoder its stack or the square of its size.
func TestLocateNesting(t *testing.T) {
	const n = 200_000
	tests := []struct{ name, src string }{
		{"lists", "a = " + strings.Repeat("[", n)},
		{"tables", "a = " + strings.Repeat("{a=", n)},
		{"both", "a = " + strings.Repeat("[{a=", n)},
		{"key", strings.Repeat("a.", n) + "a = 1"},
		{"header", "[" + strings.Repeat("a.", n) + "a]"},
		{"key of an inline table", "a = {" + strings.Repeat("a.", n) + "a = 1}"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, _, err := parseTOML([]byte("\n" + tt.src))
			if got, want := fmt.Sprint(err), "nested deeper than 24 levels"; got != want {
				t.Errorf("parseTOML = %v, want %v", got, want)
			}
			if e := (*Error)(nil); !errors.As(err, &e) || e.Line != 2 {
				t.Errorf("parseTOML error = %#v, want line 2", err)
			}
		})
	}
}

func tomlSeeds() []string {
	var seeds []string
	for _, name := range Builtins() {
		data, _ := Builtin(name)
		seeds = append(seeds, string(data))
	}
	for _, f := range InitFiles("openai/gpt") {
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

// FuzzLocate holds the locator to the decoder: what the decoder accepts has marks for exactly its keys and
// items, each on a line that holds something of it.
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

func compare(t *testing.T, src string, lines []string, v any, m *mark, parts []string) {
	if m == nil {
		t.Fatalf("%q: %v has no mark", src, parts)
	}
	if m.line < 1 || m.line > len(lines) {
		t.Fatalf("%q: %v is on line %d of %d", src, parts, m.line, len(lines))
	}
	switch v := v.(type) {
	case map[string]any:
		if len(m.keys) != len(v) || len(m.items) != 0 {
			t.Fatalf("%q: %v has marks for %v and %d items, want %v", src, parts, sortedKeys(m.keys), len(m.items), sortedKeys(v))
		}
		for k, below := range v {
			if isPlainKey(k) && !strings.Contains(src, `\`) && m.keys[k] != nil && m.keys[k].line <= len(lines) && !strings.Contains(lines[m.keys[k].line-1], k) {
				t.Fatalf("%q: %v.%s is not on line %d", src, parts, k, m.keys[k].line)
			}
			compare(t, src, lines, below, m.keys[k], append(parts[:len(parts):len(parts)], k))
		}
	case []any:
		if len(m.items) != len(v) || len(m.keys) != 0 {
			t.Fatalf("%q: %v has %d items and marks for %v, want %d items", src, parts, len(m.items), sortedKeys(m.keys), len(v))
		}
		for i := range v {
			compare(t, src, lines, v[i], m.items[i], append(parts[:len(parts):len(parts)], strconv.Itoa(i)))
		}
	default:
		if len(m.keys) != 0 || len(m.items) != 0 {
			t.Fatalf("%q: %v is a %T and has marks below it", src, parts, v)
		}
	}
}

// isPlainKey: a key that needs no quotes, in a text without escapes, stands there as it is.
func isPlainKey(k string) bool { return k != "" && quotePart(k) == k }

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

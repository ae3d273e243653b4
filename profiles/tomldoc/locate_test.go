package tomldoc

import (
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// key is a path as the tests write it: parts that hold a dot or an escape are quoted.
func key(parts []string) string {
	quoted := make([]string, len(parts))
	for i, p := range parts {
		if quoted[i] = p; strings.ContainsAny(p, ".\t") {
			quoted[i] = strconv.Quote(p)
		}
	}
	return strings.Join(quoted, ".")
}

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
			_, marks, err := Decode([]byte(tt.src), new(map[string]any))
			if err != nil {
				t.Fatal(err)
			}
			got := map[string]int{}
			flatten(got, marks, nil)
			if !reflect.DeepEqual(got, tt.want) {
				t.Errorf("Decode(%q) = %v, want %v", tt.src, got, tt.want)
			}
		})
	}
}

func flatten(into map[string]int, m *Mark, parts []string) {
	if parts != nil {
		into[key(parts)] = m.Line
	}
	for k, below := range m.Keys {
		flatten(into, below, append(slices.Clone(parts), k))
	}
	for i, below := range m.Items {
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
			_, _, err := Decode([]byte("\n"+tt.src), new(map[string]any))
			if got, want := fmt.Sprint(err), "line 2: nested deeper than 24 levels"; got != want {
				t.Errorf("Decode = %v, want %v", got, want)
			}
		})
	}
}

// TestDecodeErrors: each error is on one line and names its line.
func TestDecodeErrors(t *testing.T) {
	for src, want := range map[string]string{
		"a = 1\nb =\n":        "line 2: b: expected value but found '\\n' instead",
		"a = 1\nb = '\xff'\n": "line 2: not UTF-8 text",
		"a = 1\nb.'' = 2\n":   "line 2: a key must not be empty",
		"a = 'x'\n":           "line 1: a: incompatible types: TOML value has type string; destination has type integer",
	} {
		var v struct{ A int }
		if _, _, err := Decode([]byte(src), &v); fmt.Sprint(err) != want {
			t.Errorf("Decode(%q) = %v, want %v", src, err, want)
		}
	}
}

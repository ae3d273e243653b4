package tomldoc

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
)

func TestLines(t *testing.T) {
	src := `# a comment with a = 1
a = 1
"b c" = 2 # and another d = 1
d.e = """
x = 1
"""
f = '''
y = 1'''
g = { h = 1, i = { j = [1,
  { k = 2 }] } }
[t]
u = [
  "]", # ]
  { v = 1 },
]
[t.w."x.y"]
z = "\"#"
[[m]]
n = 1
[[m]]
n = 2
[m.o]
p = 3
[ q . r ]
s=1
`
	_, marks, err := Decode([]byte(src), new(map[string]any))
	if err != nil {
		t.Fatal(err)
	}
	got := marks.Lines()
	for key, want := range map[string]int{
		"a": 2, "b c": 3, "d": 4, "d.e": 4, "f": 7, "g": 9, "g.h": 9, "g.i": 9, "g.i.j": 9, "g.i.j[0]": 9, "g.i.j[1]": 10, "g.i.j[1].k": 10,
		"t": 11, "t.u": 12, "t.u[0]": 13, "t.u[1]": 14, "t.u[1].v": 14, "t.w": 16, "t.w.x.y": 16, "t.w.x.y.z": 17,
		"m": 18, "m[0]": 18, "m[0].n": 19, "m[1]": 20, "m[1].n": 21, "m[1].o": 22, "m[1].o.p": 23, "q": 24, "q.r": 24, "q.r.s": 25,
		"x": 0, "y": 0, "d.e.x": 0,
	} {
		if got[key] != want {
			t.Errorf("line of %s = %d, want %d", key, got[key], want)
		}
	}
}

// FuzzLines: each key that the decoder sees has a line, and no other.
func FuzzLines(f *testing.F) {
	for _, s := range []string{
		"a = 1", "a.b = 1\na.c = 2", "[a]\nb = 1", "[[a]]\nb = 1\n[[a]]\nc = 2", "a = [1, {b = 2}]", "a = \"\"\"x\n\"\"\"\"\"\nb = 1", "a = '''\n'''''\nb=1",
		"a = \"\\\"\" # x = 1", "[ a . \"b\" ]\nc = 2020-01-01T00:00:00Z", "a = { b = [ 1, ], c = true }", "\"\" = 1", "a = [\n# ]\n1]\r\nb = 2", "[a]\n[a.b]\n[[a.b.c]]\nd=1", "a=1e5\nb=inf\nc=0x1F", "'a.b'.c=1", "\"\\u0041\"=1", `'\n'=1`,
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, src string) {
		var v map[string]any
		_, marks, err := Decode([]byte(src), &v) // never panics, whatever it is
		if err != nil {
			return
		}
		got := marks.Lines()
		want := map[string]bool{}
		paths("", v, want)
		for p := range want {
			if got[p] < 1 || got[p] > 1+strings.Count(src, "\n") {
				t.Errorf("%q: key %q has line %d", src, p, got[p])
			}
		}
		for p := range got {
			if !want[p] {
				t.Errorf("%q: %q is no key", src, p)
			}
		}
	})
}

// paths collects the dotted paths in v as Lines writes them.
func paths(prefix string, v any, out map[string]bool) {
	if prefix != "" {
		out[prefix] = true
	}
	if m, ok := v.(map[string]any); ok {
		for k, e := range m {
			p := k
			if prefix != "" {
				p = prefix + "." + k
			}
			paths(p, e, out)
		}
	}
	if list := reflect.ValueOf(v); list.Kind() == reflect.Slice {
		for i := range list.Len() {
			paths(fmt.Sprintf("%s[%d]", prefix, i), list.Index(i).Interface(), out)
		}
	}
}

package tools

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/BurntSushi/toml"
)

// write writes files below dir; a name that ends in "/" is a folder.
func write(t testing.TB, dir string, files map[string]string) {
	t.Helper()
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if strings.HasSuffix(name, "/") {
			if err := os.MkdirAll(path, 0o755); err != nil {
				t.Fatal(err)
			}
			continue
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

func TestLoadFile(t *testing.T) {
	dir := t.TempDir()
	const minimal = "name = \"a\"\nsource = \"local\"\ncommand = \"ls\"\n"
	write(t, dir, map[string]string{
		"good.toml":    wordCount,
		"syntax.toml":  "name = \"a\"\n\nsource = local\n",
		"unknown.toml": minimal + "\n[parameters.x]\ntype = \"string\"\nrequird = true\n",
		"noname.toml":  "source = \"local\"\ncommand = \"ls\"\n",
		"numname.toml": "\nname = 1\n",
		"enable.toml":  minimal + "enable = true\n",
		"large.toml":   minimal + "# " + strings.Repeat("x", maxDefinition),
		"folder.toml/": "",
		"dup.toml":     "name = \"a\"\nname = \"b\"\n",
		"utf8.toml":    "name = \"a\xff\"\n",
	})
	if err := syscall.Mkfifo(filepath.Join(dir, "fifo.toml"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("good.toml", filepath.Join(dir, "link.toml")); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct{ name, want string }{
		{"good.toml", ""},
		{"link.toml", ""},
		{"syntax.toml", "D/syntax.toml:3: expected value but found \"local\" instead"},
		{"unknown.toml", "D/unknown.toml:7: tool a: parameters.x.requird: unknown key"},
		{"noname.toml", "D/noname.toml: tool noname: name: want the name of the tool, not null"},
		{"numname.toml", "D/numname.toml:2: tool numname: name: want the name of the tool, not an integer"},
		{"enable.toml", "D/enable.toml:4: tool a: enable: belongs into a config file: a file of its own only defines a tool"},
		{"large.toml", "D/large.toml: is larger than 1 MB"},
		{"folder.toml", "D/folder.toml: is a folder, not a file"},
		{"fifo.toml", "D/fifo.toml: is a FIFO, not a file"},
		{"none.toml", "D/none.toml: no such file or directory"},
		{"dup.toml", "D/dup.toml:2: Key 'name' has already been defined."},
		{"utf8.toml", "D/utf8.toml:1: invalid UTF-8 byte: 0xff"},
	} {
		def, err := LoadFile(filepath.Join(dir, tt.name))
		got := ""
		if err != nil {
			got = strings.ReplaceAll(err.Error(), dir, "D")
		} else if def.Name != "word_count" {
			t.Errorf("LoadFile(%s).Name = %s", tt.name, def.Name)
		}
		if got != tt.want {
			t.Errorf("LoadFile(%s): %s, want %s", tt.name, got, tt.want)
		}
	}
	if _, err := LoadFile(filepath.Join(dir, "none.toml")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("LoadFile of what is not there: %v, want fs.ErrNotExist", err)
	}
}

func TestLoadDir(t *testing.T) {
	dir, outside := t.TempDir(), t.TempDir()
	write(t, outside, map[string]string{"secret.toml": wordCount})
	write(t, dir, map[string]string{
		"a.toml":    wordCount,
		"b.toml":    strings.Replace(wordCount, `"word_count"`, `"other"`, 1),
		"c.toml":    wordCount,
		"bad.toml":  "name = 1",
		".hid.toml": "nonsense",
		"read.me":   "nonsense",
	})
	if err := os.Symlink(filepath.Join(outside, "secret.toml"), filepath.Join(dir, "out.toml")); err != nil {
		t.Fatal(err)
	}
	defs, err := LoadDir(dir)
	if len(defs) != 2 || defs["word_count"].Name != "word_count" || defs["other"].Name != "other" {
		t.Errorf("LoadDir = %v", defs)
	}
	want := `D/bad.toml:1: tool bad: name: want the name of the tool, not an integer
D/c.toml: tool word_count: is defined already, in D/a.toml
D/out.toml: path escapes from parent`
	if err == nil || strings.ReplaceAll(err.Error(), dir, "D") != want {
		t.Errorf("LoadDir: %v\nwant %s", err, want)
	}
	if defs, err := LoadDir(filepath.Join(dir, "none")); defs != nil || err != nil {
		t.Errorf("LoadDir of no folder = %v, %v", defs, err)
	}
	if _, err := LoadDir(filepath.Join(dir, "a.toml")); err == nil {
		t.Error("LoadDir of a file = nil")
	}
}

func TestKeyLines(t *testing.T) {
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
	var v map[string]any
	if err := toml.Unmarshal([]byte(src), &v); err != nil {
		t.Fatal(err)
	}
	got := keyLines([]byte(src))
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

// FuzzKeyLines: each key that the decoder sees has a line, and no other.
func FuzzKeyLines(f *testing.F) {
	for _, s := range []string{
		"a = 1", "a.b = 1\na.c = 2", "[a]\nb = 1", "[[a]]\nb = 1\n[[a]]\nc = 2", "a = [1, {b = 2}]", "a = \"\"\"x\n\"\"\"\"\"\nb = 1", "a = '''\n'''''\nb=1",
		"a = \"\\\"\" # x = 1", "[ a . \"b\" ]\nc = 2020-01-01T00:00:00Z", "a = { b = [ 1, ], c = true }", "\"\" = 1", "a = [\n# ]\n1]\r\nb = 2", wordCount,
		"[a]\n[a.b]\n[[a.b.c]]\nd=1", "a=1e5\nb=inf\nc=0x1F", "'a.b'.c=1", "\"\\u0041\"=1", `'\n'=1`,
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, src string) {
		got := keyLines([]byte(src)) // never panics, whatever it is
		var v map[string]any
		if err := toml.Unmarshal([]byte(src), &v); err != nil {
			return
		}
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

// paths collects the dotted paths in v as keyLines writes them.
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
	if list, ok := listOf(v); ok {
		for i, e := range list {
			paths(fmt.Sprintf("%s[%d]", prefix, i), e, out)
		}
	}
}

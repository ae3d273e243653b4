package tools

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
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

// filesOf returns the files of a folder as DecodeFiles takes them.
func filesOf(t testing.TB, dir string) map[string][]byte {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string][]byte{}
	for _, e := range entries {
		if !e.Type().IsRegular() {
			continue
		}
		if out[e.Name()], err = os.ReadFile(filepath.Join(dir, e.Name())); err != nil {
			t.Fatal(err)
		}
	}
	return out
}

func TestDecodeFiles(t *testing.T) {
	const minimal = "name = \"a\"\nsource = \"local\"\ncommand = \"ls\"\n"
	for _, tt := range []struct{ name, text, want string }{
		{"good.toml", wordCount, ""},
		{"syntax.toml", "name = \"a\"\n\nsource = local\n", "D/syntax.toml:3: expected value but found \"local\" instead"},
		{"unknown.toml", minimal + "\n[parameters.x]\ntype = \"string\"\nrequird = true\n", "D/unknown.toml:7: tool a: parameters.x.requird: unknown key"},
		{"noname.toml", "source = \"local\"\ncommand = \"ls\"\n", "D/noname.toml: tool noname: name: want the name of the tool, not null"},
		{"numname.toml", "\nname = 1\n", "D/numname.toml:2: tool numname: name: want the name of the tool, not an integer"},
		{"enable.toml", minimal + "enable = true\n", "D/enable.toml:4: tool a: enable: belongs into a config file: a file of its own only defines a tool"},
		{"large.toml", minimal + "# " + strings.Repeat("x", maxDefinition), "D/large.toml: is larger than 1 MB"},
		{"dup.toml", "name = \"a\"\nname = \"b\"\n", "D/dup.toml:2: Key 'name' has already been defined."},
		{"utf8.toml", "name = \"a\xff\"\n", "D/utf8.toml:1: not UTF-8 text"},
	} {
		defs, _, err := DecodeFiles("D", map[string][]byte{tt.name: []byte(tt.text)})
		got := ""
		if err != nil {
			got = err.Error()
		} else if defs["word_count"].Name != "word_count" {
			t.Errorf("DecodeFiles(%s) = %v", tt.name, defs)
		}
		if got != tt.want {
			t.Errorf("DecodeFiles(%s): %s, want %s", tt.name, got, tt.want)
		}
	}
	defs, _, err := DecodeFiles("D", map[string][]byte{
		"a.toml":    []byte(wordCount),
		"b.toml":    []byte(strings.Replace(wordCount, `"word_count"`, `"other"`, 1)),
		"c.toml":    []byte(wordCount),
		"bad.toml":  []byte("name = 1"),
		".hid.toml": []byte("nonsense"),
		"read.me":   []byte("nonsense"),
	})
	if len(defs) != 2 || defs["word_count"].Name != "word_count" || defs["other"].Name != "other" {
		t.Errorf("DecodeFiles = %v", defs)
	}
	want := `D/bad.toml:1: tool bad: name: want the name of the tool, not an integer
D/c.toml: tool word_count: is defined already, in D/a.toml`
	if err == nil || err.Error() != want {
		t.Errorf("DecodeFiles: %v\nwant %s", err, want)
	}
}

// TestDecodeFilesNesting: each of these files cost the decoder minutes, or all memory, before
// anybody had trusted the workspace that it lies in.
func TestDecodeFilesNesting(t *testing.T) {
	for name, src := range map[string]string{
		"key.toml":    strings.Repeat("a.", 30_000) + "a = 1",
		"lists.toml":  "a = " + strings.Repeat("[", 250_000),
		"tables.toml": "a = " + strings.Repeat("{a=", 80_000),
	} {
		_, _, err := DecodeFiles("D", map[string][]byte{name: []byte(src)})
		if want := "D/" + name + ":1: nested deeper than 24 levels"; err == nil || err.Error() != want {
			t.Errorf("DecodeFiles = %.200v, want %s", err, want)
		}
	}
}

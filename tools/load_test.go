package tools

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
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
		{"utf8.toml", "D/utf8.toml:1: not UTF-8 text"},
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

// TestDecodeFilesNesting: each of these files cost the decoder minutes, or all memory, before anybody
// had trusted the workspace that it lies in.
func TestDecodeFilesNesting(t *testing.T) {
	for name, src := range map[string]string{
		"key.toml":    strings.Repeat("a.", 30_000) + "a = 1",
		"lists.toml":  "a = " + strings.Repeat("[", 250_000),
		"tables.toml": "a = " + strings.Repeat("{a=", 80_000),
	} {
		_, err := DecodeFiles("D", map[string][]byte{name: []byte(src)})
		if want := "D/" + name + ":1: nested deeper than 24 levels"; err == nil || err.Error() != want {
			t.Errorf("DecodeFiles = %.200v, want %s", err, want)
		}
	}
}

package fs

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"jp/tools/proc"
	"jp/tools/regex"
)

// TestReadEndless: a line that is longer than what lines are counted in is shown like any long one.
func TestReadEndless(t *testing.T) {
	f := newTree(t, map[string]string{"a.txt": strings.Repeat("x", binaryProbe)})
	if err := os.Truncate(f.at("a.txt"), maxScan+1<<20); err != nil {
		t.Fatal(err)
	}
	files, err := Open(Env{Workspace: f.dir}, []Rule{{Path: ".", Mode: ReadOnly}})
	if err != nil {
		t.Fatal(err)
	}
	text, err := readFile(t.Context(), files, 50_000, []byte(`{"path":"a.txt"}`))
	want := strings.Repeat("x", maxLine) + " [cut: the line has at least 268435456 bytes]\n[lines 1-1 of more than 1]\n[1 long line cut]"
	if text != want || err != nil {
		t.Errorf("read %d bytes, ending in %q, %v", len(text), text[max(len(text)-100, 0):], err)
	}
}

// A folder that is swapped for a link out while it is walked is not followed: each step is taken by
// hand here, at the worst moment.
func TestFSSwapped(t *testing.T) {
	f := newTree(t, map[string]string{"d/a.txt": "inside\n", "a.txt": "inside\n"})
	out := newTree(t, map[string]string{"a.txt": "secret\n"})
	root, err := os.OpenRoot(f.dir)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	files := &Files{workspace: f.dir}
	dir, err1 := root.Lstat("d")
	file, err2 := root.Lstat("a.txt")
	if err := errors.Join(err1, err2, os.Rename(f.at("d"), f.at("old")), os.Rename(f.at("a.txt"), f.at("b.txt"))); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		what string
		swap func() error
	}{
		{"a link out", func() error {
			return errors.Join(os.Symlink(out.dir, f.at("d")), os.Symlink(out.at("a.txt"), f.at("a.txt")))
		}},
		{"a link inside", func() error {
			return errors.Join(os.Symlink("other", f.at("d")), os.Symlink("other/x", f.at("a.txt")))
		}},
		{"another of its kind", func() error {
			return errors.Join(os.Mkdir(f.at("d"), 0o777), os.WriteFile(f.at("a.txt"), nil, 0o666))
		}},
		{"a FIFO", func() error {
			return errors.Join(syscall.Mkfifo(f.at("d"), 0o666), syscall.Mkfifo(f.at("a.txt"), 0o666))
		}},
	} {
		writeTree(t, f.dir, map[string]string{"other/x": "other\n"})
		if err := tt.swap(); err != nil {
			t.Fatal(err)
		}
		if sub, err := files.enter(root, "d", dir); err == nil {
			sub.Close()
			t.Errorf("a folder that became %s was entered", tt.what)
		}
		if file, err := openRegular(root, "a.txt", file); err == nil {
			file.Close()
			t.Errorf("a file that became %s was opened", tt.what)
		}
		if err := errors.Join(os.Remove(f.at("d")), os.Remove(f.at("a.txt"))); err != nil {
			t.Fatal(err)
		}
	}
}

// A file that another changed since it was read stays as it is.
func TestReplaceChanged(t *testing.T) {
	f := newTree(t, map[string]string{"a": "1\n", "b": "1\n", "c": "1\n"})
	root, err := os.OpenRoot(f.dir)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	for name, change := range map[string]func() error{
		"a": func() error { return os.WriteFile(f.at("a"), []byte("longer\n"), 0o666) },
		"b": func() error { return os.Rename(f.at("c"), f.at("b")) },
	} {
		info, err := root.Lstat(name)
		if err != nil {
			t.Fatal(err)
		}
		if err := change(); err != nil {
			t.Fatal(err)
		}
		if err := replace(root, name, info, []byte("mine\n")); err == nil || err.Error() != "was changed by someone else meanwhile: read it again" {
			t.Errorf("replace %s: %v", name, err)
		}
	}
	if got := f.content("a") + f.content("b"); got != "longer\n1\n" {
		t.Errorf("the files hold %q", got)
	}
	if err := create(root, "a", []byte("mine\n")); err == nil || err.Error() != "exists already" {
		t.Errorf("create over a file: %v", err)
	}
	names, err := os.ReadDir(f.dir)
	if len(names) != 2 || err != nil {
		t.Errorf("left are %v, %v", names, err)
	}
}

// FuzzMatcher checks that the fast search finds the lines that the expression itself finds.
func FuzzMatcher(f *testing.F) {
	for _, s := range []struct {
		pattern, data string
		literal, fold bool
	}{
		{"find", "a find\nfind\n", false, false}, {"FIND|x+y", "Find\nxxy", false, true}, {"^a$", "a\r\na\n\r", false, false},
		{`\bk`, "\u212A k\n", false, true}, {"a.c", "a.c\nabc", true, false}, {`(?i)s`, "\u017F\n", false, false}, {`\x{fffd}`, "\xff\n", false, false},
		{`a\nb`, "a\nb", false, false}, {`$`, "\n\n", false, false}, {`$`, "a", false, false}, {`x*`, "a\n", false, false}, {`\z`, "a\r\n", false, false}, {`\Ba`, "ba\n", false, false}, {`(?s).`, "a\n\nb", false, false},
		{`[^a]`, "a\n\n", false, false}, {`(ab|cd){2,3}`, "abcd\nab\n", false, false}, {`é`, "É\n", false, true}, {`(?-i:A)b`, "aB\nAB", false, true},
	} {
		f.Add(s.pattern, []byte(s.data), s.literal, s.fold)
	}
	f.Fuzz(func(t *testing.T, pattern string, data []byte, literal, fold bool) {
		if len(pattern) > 100 {
			return
		}
		m, err := newMatcher(pattern, literal, fold)
		if err != nil {
			return
		}
		type found struct{ line, start, end, at int }
		var got, want []found
		m.each(t.Context(), data, func(line, start, end, at int) bool { got = append(got, found{line, start, end, at}); return true })
		start := 0
		for i, line := range strings.SplitAfter(string(data), "\n") {
			if line != "" {
				bare := strings.TrimSuffix(line, "\n")
				if loc, _ := regex.Find(t.Context(), m.re, strings.TrimSuffix(bare, "\r")); loc != nil {
					want = append(want, found{i + 1, start, start + len(bare), start + loc[0]})
				}
			}
			start += len(line)
		}
		if !slices.Equal(got, want) {
			t.Errorf("%q (literal %v, fold %v) in %q: lines %v, want %v", pattern, literal, fold, data, got, want)
		}
	})
}

// tree is a folder with files.
type tree struct {
	t   testing.TB
	dir string
}

func newTree(t testing.TB, files map[string]string) tree {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	writeTree(t, dir, files)
	return tree{t, dir}
}

func (f tree) at(path string) string { return filepath.Join(f.dir, path) }

func (f tree) content(path string) string {
	f.t.Helper()
	b, err := os.ReadFile(f.at(path))
	if err != nil {
		f.t.Fatal(err)
	}
	return string(b)
}

// writeTree writes files below dir; a name that ends in "/" is a folder.
func writeTree(t testing.TB, dir string, files map[string]string) {
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

// TestKeptSent: what a machine is told to keep from tools holds also where a link of this one is
// missing. Links around it were made by nobody knows whom there, and so were those around what only
// the other machine keeps.
func TestKeptSent(t *testing.T) {
	f := newTree(t, map[string]string{"data/conf/config.toml": "", "data/more/a.toml": "", "home/x": "", "both/x": "", "other/x": "", "ws/x": ""})
	if err := errors.Join(
		os.Symlink(f.at("data/conf"), f.at("home/conf")), os.Symlink(f.at("data/more"), f.at("home/more")), os.Symlink(f.at("other"), f.at("data/out")), os.Symlink(f.at("other"), f.at("both/out")),
	); err != nil {
		t.Fatal(err)
	}
	sent := Kept{Deny: []string{f.at("home/conf"), f.at("both/state")}, Growing: []Growing{{f.at("home/more"), "*.toml"}}}.Sent(f.at("ws"), true)
	if err := os.RemoveAll(f.at("home")); err != nil {
		t.Fatal(err)
	}
	work, own := newTree(t, map[string]string{"x": ""}), Kept{Deny: []string{f.at("data/own"), f.at("both/state")}}
	for _, tt := range []struct {
		rule Rule
		want string
	}{
		{Rule{f.at("data"), ReadOnly}, "no tool reaches"},
		{Rule{f.at("data/more"), ReadWrite}, "no tool writes"},
		{Rule{f.at("ws"), ReadWrite}, ".jp, which no tool writes"},
		{Rule{f.at("data/out"), ReadOnly}, "symbolic link"},
		{Rule{f.at("both/out"), ReadWrite}, ""},
		{Rule{f.at("other"), ReadWrite}, ""},
	} {
		files, err := Open(Env{Workspace: work.dir, Kept: own.With(sent)}, []Rule{tt.rule})
		if err != nil {
			t.Fatal(err)
		}
		err = files.Confine(&proc.Confine{}, "")
		if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%v: %v, want %q", tt.rule, err, tt.want)
		}
	}
}

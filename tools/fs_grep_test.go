package tools

import (
	"context"
	"errors"
	"fmt"
	iofs "io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"jp/tools/fs"
)

func TestGrepFiles(t *testing.T) {
	f := newFS(t, map[string]string{
		"a.go": "package a\n\nfunc Find() {}\n// find\n", "b/b.go": "package b\r\nfunc find() {}\r\n", "b/c.txt": "find\nx\nx\nx\nx\nfind\nx\nfind",
		"bin": "find\x00find", "long": strings.Repeat("x", 1000) + "find" + strings.Repeat("y", 1000) + "\n", "bytes": "\xfffind\n",
		".gitignore": "skip/\n", "skip/x": "find\n", ".jp/x": "find\n", ".git/x": "find\n", "we\nird": "find\n", "Kelvin": "\u212Aelvin\n",
	})
	long := "long:1:..." + strings.Repeat("x", 100) + "find" + strings.Repeat("y", 296) + "... [cut: the line has 2004 bytes]\n"
	for _, tt := range []struct {
		args map[string]any
		want Result
	}{
		{map[string]any{"pattern": "find"}, text("a.go:4:// find\nb/b.go:2:func find() {}\nb/c.txt:1:find\nb/c.txt:6:find\nb/c.txt:8:find\nbin: binary file matches\nbytes:1:\uFFFDfind\n" + long + "\"we\\nird\":1:find\n")},
		{map[string]any{"pattern": "FIND", "ignore_case": true, "glob": "*.go"}, text("a.go:3:func Find() {}\na.go:4:// find\nb/b.go:2:func find() {}\n")},
		{map[string]any{"pattern": `\{\}$`}, text("a.go:3:func Find() {}\nb/b.go:2:func find() {}\n")},
		{map[string]any{"pattern": `{}`, "literal": true}, text("a.go:3:func Find() {}\nb/b.go:2:func find() {}\n")},
		{map[string]any{"pattern": `^package (a|b)$`}, text("a.go:1:package a\nb/b.go:1:package b\n")},
		{map[string]any{"pattern": "find", "path": "b/c.txt", "context": 1}, text("--\nb/c.txt:1:find\nb/c.txt-2-x\n--\nb/c.txt-5-x\nb/c.txt:6:find\nb/c.txt-7-x\nb/c.txt:8:find\n"[3:])},
		{map[string]any{"pattern": "find", "path": "b", "max_matches": 2}, text("b/b.go:2:func find() {}\nb/c.txt:1:find\n[stopped at max_matches = 2: there are more; narrow pattern, path or glob]\n")},
		{map[string]any{"pattern": "find", "path": "b/c.txt", "max_matches": 2}, text("b/c.txt:1:find\nb/c.txt:6:find\n[stopped at max_matches = 2: there are more; narrow pattern, path or glob]\n")},
		{map[string]any{"pattern": "find", "path": "b", "max_matches": 4}, text("b/b.go:2:func find() {}\nb/c.txt:1:find\nb/c.txt:6:find\nb/c.txt:8:find\n")},
		{map[string]any{"pattern": "find", "path": "skip"}, text("skip/x:1:find\n")},
		{map[string]any{"pattern": "kelvin", "ignore_case": true}, text("Kelvin:1:\u212Aelvin\n")},
		{map[string]any{"pattern": "^$", "path": "a.go"}, text("a.go:2:\n")},
		{map[string]any{"pattern": "nowhere"}, text("[no match]\n")},
		{map[string]any{"pattern": "("}, failed(`pattern: missing closing ): "(" (regular expressions as RE2 has them; literal = true takes the pattern as it is)`)},
		{map[string]any{"pattern": strings.Repeat("a", 5000)}, failed("pattern: is longer than 4096 bytes")},
		{map[string]any{"pattern": strings.Repeat("(?:a?){1000}", 330) + "[xy]"}, failed("pattern: is too large: it compiles to more than 4000 states")},
		{map[string]any{"pattern": "x", "path": "gone"}, failed("gone: no such file or directory")},
	} {
		expect(t, fmt.Sprintf("%.100v", tt.args), f.call("fs_grep_files", tt.args), tt.want)
	}

	if err := os.Truncate(f.at("long"), 32<<20+1); err != nil {
		t.Fatal(err)
	}
	expect(t, "a large file", f.grep("find", "long"), text("[no match]\n[not searched: long (larger than 33.5 MB)]\n"))
}

// Matches that do not fit are said to be left out, within the bound.
func TestGrepBound(t *testing.T) {
	f := newFS(t, map[string]string{"a": strings.Repeat(strings.Repeat("x", 390)+"\n", 2000)})
	got := f.call("fs_grep_files", map[string]any{"pattern": "x", "max_matches": 2000})
	lines := strings.Split(got.Text, "\n")
	if want := "[stopped at 255 KB: there are more; narrow pattern, path or glob]"; len(got.Text) > DefaultSizeThreshold || got.IsError || lines[len(lines)-2] != want {
		t.Errorf("%d bytes that end in %q, want %q", len(got.Text), lines[len(lines)-2], want)
	}
}

// A match that would take hours ends with the call, with a text that every match holds and without
// one.
func TestGrepEndsInLine(t *testing.T) {
	f := newFS(t, map[string]string{"a": strings.Repeat("a", 30<<20)})
	def, _ := Embedded("fs_grep_files")
	tools, err := Builtin(fs.Env{Workspace: f.dir}, def)
	if err != nil {
		t.Fatal(err)
	}
	for _, pattern := range []string{"(?:a?){990}[xy]", "(?:a?){990}aa[xy]"} {
		gone := errors.New("enough")
		ctx, cancel := context.WithTimeoutCause(t.Context(), 100*time.Millisecond, gone)
		r, err := tools[0].Func(ctx, Call{Arguments: fmt.Appendf(nil, `{"pattern":%q,"path":".","max_matches":1}`, pattern)})
		if err != gone {
			t.Errorf("grep %s = %+v, %v, want %v", pattern, r, err, gone)
		}
		cancel()
	}
}

func TestGrepCancelled(t *testing.T) {
	f := newFS(t, map[string]string{"a": "x\n"})
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("enough"))
	def, _ := Embedded("fs_grep_files")
	tools, err := Builtin(fs.Env{Workspace: f.dir}, def)
	if err != nil {
		t.Fatal(err)
	}
	if r, err := tools[0].Func(ctx, Call{Arguments: []byte(`{"pattern":"x","path":".","max_matches":1}`)}); err == nil || err.Error() != "enough" {
		t.Errorf("grep = %+v, %v", r, err)
	}
}

// A search that runs on several processors finds what a plain one finds, in the same order,
// whatever the bound.
func TestGrepLikePlain(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(8))
	r := rand.New(rand.NewPCG(1, 2))
	files := map[string]string{}
	for range 400 {
		path := ""
		for range r.IntN(4) {
			path += string(rune('a'+r.IntN(3))) + "/"
		}
		var b strings.Builder
		for range r.IntN(12) {
			b.WriteString([]string{"needle\n", "hay\n", "a needle here\n", "\n"}[r.IntN(4)])
		}
		files[path+fmt.Sprintf("f%d", r.IntN(1000))] = b.String()
	}
	f := newFS(t, files)
	var all []string
	err := iofs.WalkDir(os.DirFS(f.dir), ".", func(path string, d iofs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		for i, line := range strings.Split(f.content(path), "\n") {
			if strings.Contains(line, "needle") {
				all = append(all, fmt.Sprintf("%s:%06d:%s", path, i+1, line))
			}
		}
		return nil
	})
	if err != nil || len(all) < 1000 {
		t.Fatal(len(all), err)
	}
	slices.SortStableFunc(all, func(a, b string) int {
		pathA, _, _ := strings.Cut(a, ":")
		pathB, _, _ := strings.Cut(b, ":")
		return strings.Compare(pathA, pathB)
	})
	zeros := regexp.MustCompile(`:0+`)
	for i := range all {
		all[i] = zeros.ReplaceAllString(all[i], ":") + "\n"
	}
	for _, most := range []int{1, 2, 10, 99, 100, 101, len(all) - 1, len(all), 2000} {
		want := strings.Join(all[:min(most, len(all))], "")
		if most < len(all) {
			want += fmt.Sprintf("[stopped at max_matches = %d: there are more; narrow pattern, path or glob]\n", most)
		}
		for range 3 {
			if got := f.call("fs_grep_files", map[string]any{"pattern": "needle", "max_matches": most}); got.Text != want {
				t.Fatalf("%d matches = %s\nwant %s", most, got.Text, want)
			}
		}
	}
}

// BenchmarkGrep searches a tree of 2000 files, 24 MB of source code.
func BenchmarkGrep(b *testing.B) {
	src, err := os.ReadFile("decode.go")
	if err != nil {
		b.Fatal(err)
	}
	src = []byte(strings.Repeat(string(src), 2))
	dir := b.TempDir()
	for i := range 2000 {
		path := filepath.Join(dir, fmt.Sprintf("d%d/d%d/f%d.go", i%10, i%100, i))
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o777), os.WriteFile(path, src, 0o666)); err != nil {
			b.Fatal(err)
		}
	}
	def, _ := Embedded("fs_grep_files")
	tools, err := Builtin(fs.Env{Workspace: dir}, def)
	if err != nil {
		b.Fatal(err)
	}
	for name, args := range map[string]string{
		"literal": `"pattern":"no such text"`, "fold": `"pattern":"no such text","ignore_case":true`, "either": `"pattern":"nothing|nobody|nowhere"`,
		"class": `"pattern":"[0-9]{5}x"`, "first": `"pattern":"func"`,
	} {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(2000 * len(src)))
			b.ReportAllocs()
			for b.Loop() {
				r, err := tools[0].Func(b.Context(), Call{Arguments: []byte(`{"path":".","max_matches":100,` + args + `}`)})
				if err != nil || r.Text == "" {
					b.Fatal(r, err)
				}
			}
		})
	}
}

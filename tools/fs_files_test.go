package tools

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"jp/tools/fs"
)

func TestReadFile(t *testing.T) {
	f := newFS(t, map[string]string{
		"three": "a\nb\nc\n", "open": "a\nb", "empty": "", "one\nline": "x\n", "crlf": "a\r\nb\r\n",
		"binary": "a\x00b", "bytes": "a\xff\nb\n", "long": strings.Repeat("é", 3000) + "\nend\n",
		"big": strings.Repeat("0123456789\n", 50_000), "dir/x": "",
	})
	for _, tt := range []struct {
		path       string
		start, end int
		want       Result
	}{
		{"three", 0, 0, text("a\nb\nc\n")},
		{"three", 2, 0, text("b\nc\n[lines 2-3 of 3]")},
		{"three", 2, 2, text("b\n[lines 2-2 of 3]")},
		{"three", 1, 99, text("a\nb\nc\n")},
		{"three", 3, 2, failed("end_line 2 is before start_line 3")},
		{"three", 4, 0, failed("three: start_line 4 is behind the last line, 3")},
		{"open", 0, 0, text("a\nb")},
		{"open", 2, 0, text("b\n[lines 2-2 of 2]")},
		{"empty", 0, 0, text("[empty file]")},
		{"empty", 5, 0, text("[empty file]")},
		{"crlf", 0, 1, text("a\r\n[lines 1-1 of 2]")},
		{"one\nline", 0, 0, text("x\n")},
		{"binary", 0, 0, failed("binary: is a binary file of 3 B, not shown")},
		{"bytes", 0, 0, text("a\uFFFD\nb\n[bytes that are no UTF-8 are shown as \uFFFD]")},
		{"long", 0, 0, text(strings.Repeat("é", 2000) + " [cut: the line has 6001 bytes]\nend\n[1 long line cut]")},
		{"big", 0, 0, text(strings.Repeat("0123456789\n", 23_226) + "[lines 1-23226 of 50000: go on with start_line = 23227]")},
		{"big", 49_999, 0, text("0123456789\n0123456789\n[lines 49999-50000 of 50000]")},
		{"dir", 0, 0, failed("dir: is a folder: fs_list_files lists it")},
		{"gone", 0, 0, failed("gone: no such file or directory")},
		{"three/x", 0, 0, failed("three/x: three is a file, not a folder")},
		{"no\nfile", 0, 0, failed(`"no\nfile": no such file or directory`)},
	} {
		args := map[string]any{"path": tt.path}
		if tt.start != 0 {
			args["start_line"] = tt.start
		}
		if tt.end != 0 {
			args["end_line"] = tt.end
		}
		if got := f.call("fs_read_file", args); got != tt.want {
			t.Errorf("%s %d-%d = %.200q (%d bytes), %v\nwant %.200q (%d)", tt.path, tt.start, tt.end, got.Text, len(got.Text), got.IsError, tt.want.Text, len(tt.want.Text))
		}
	}
	// A size that no definition file can have.
	def, _ := Embedded("fs_read_file")
	def.SizeThreshold, def.Run = 10, RunUnattended
	tools, err := Builtin(fs.Env{Workspace: f.dir}, def)
	if err != nil {
		t.Fatal(err)
	}
	got := runAll(t, Executor{Set: setOf(t, tools...)}, t.Context(), Call{ID: "1", Name: def.Name, Arguments: []byte(`{"path":"long"}`)})["1"]
	expect(t, "with 10 bytes", got, text("[truncated"))
}

func TestListFiles(t *testing.T) {
	f := newFS(t, map[string]string{
		"b.go": "", "a/x.go": "", "a/y.txt": "", "a-b": "", "a.go": "", "a/deep/z.go": "", "empty/": "", "out/x.go": "", "é.go": "",
		".git/config": "", ".jp/config.toml": "", ".hidden": "", ".gitignore": "out/\n*.tmp\n", "x.tmp": "", "a/.gitignore": "!keep.tmp\ny.txt\n", "a/keep.tmp": "", "a/other.tmp": "",
	})
	for _, tt := range []struct {
		args map[string]any
		want Result
	}{
		{map[string]any{}, text(".gitignore\n.hidden\na-b\na.go\na/.gitignore\na/deep/z.go\na/keep.tmp\na/x.go\nb.go\né.go\n")},
		{map[string]any{"path": "a"}, text("a/.gitignore\na/deep/z.go\na/keep.tmp\na/x.go\n")},
		{map[string]any{"path": "out"}, text("out/x.go\n")}, // who names it means it
		{map[string]any{"depth": 1}, text(".gitignore\n.hidden\na-b\na.go\na/\nb.go\nempty/\né.go\n")},
		{map[string]any{"path": "a", "depth": 2}, text("a/.gitignore\na/deep/z.go\na/keep.tmp\na/x.go\n")},
		{map[string]any{"glob": "*.go"}, text("a.go\na/deep/z.go\na/x.go\nb.go\né.go\n")},
		{map[string]any{"glob": "a/*.go"}, text("a/x.go\n")},
		{map[string]any{"glob": "a/**/*.go"}, text("a/deep/z.go\na/x.go\n")},
		{map[string]any{"glob": "{b,é}.*"}, text("b.go\né.go\n")},
		{map[string]any{"path": "a", "glob": "deep/*"}, text("a/deep/z.go\n")},
		{map[string]any{"glob": "*.rs"}, text("[no file matches the glob]\n")},
		{map[string]any{"glob": "/"}, failed(`glob "/": matches nothing`)},
		{map[string]any{"glob": "{a,{b,c}}"}, failed(`glob "{a,{b,c}}": braces in braces`)},
		{map[string]any{"glob": strings.Repeat("?", 1025)}, failed(`glob "` + strings.Repeat("?", 60) + `...": is longer than 1024 bytes`)},
		{map[string]any{"glob": strings.Repeat("{a,b}", 10)}, failed(fmt.Sprintf("glob %q: makes more than 64 globs", strings.Repeat("{a,b}", 10)))},
		{map[string]any{"path": "empty"}, text("[no files]\n")},
		{map[string]any{"path": "a.go"}, failed("a.go: is a file, not a folder")},
		{map[string]any{"path": "gone"}, failed("gone: no such file or directory")},
		{map[string]any{"limit": 2}, text(".gitignore\n.hidden\n[stopped at 2 entries: there are more; narrow path, glob or depth]\n")},
	} {
		expect(t, fmt.Sprint(tt.args), f.call("fs_list_files", tt.args), tt.want)
	}
}

func TestCreateFile(t *testing.T) {
	f := newFS(t, map[string]string{"a": "old\n", "dir/": ""})
	if err := os.Chmod(f.at("a"), 0o640); err != nil {
		t.Fatal(err)
	}
	create := func(path string, overwrite bool) Result {
		return f.call("fs_create_file", map[string]any{"path": path, "content": "new\n", "overwrite": overwrite})
	}
	expect(t, "there", create("a", false), failed("a: exists already: fs_modify_file edits it, overwrite = true replaces it"))
	expect(t, "replaced", create("a", true), text("a: replaced, 4 B"))
	expect(t, "new", create("x/y/z", false), text("x/y/z: created, 4 B"))
	expect(t, "a folder", create("dir", true), failed("dir: is a folder already"))
	expect(t, "below a file", create("a/b", true), failed("a/b: a is a file, not a folder"))
	if info, err := os.Stat(f.at("a")); err != nil || info.Mode() != 0o640 {
		t.Errorf("mode = %v, %v", info.Mode(), err)
	}
	if got := f.content("a") + f.content("x/y/z"); got != "new\nnew\n" {
		t.Errorf("content = %q", got)
	}
	if err := os.Chmod(f.at("a"), 0o444); err != nil {
		t.Fatal(err)
	}
	expect(t, "read-only", create("a", true), failed("a: is read-only by its mode"))
	// What was made for a file that could not be made is gone again.
	name := strings.Repeat("n", 300)
	expect(t, "a long name", create("p/q/"+name, false), failed("p/q/"+name+": file name too long"))
	expect(t, "nothing is left", f.list("."), text("a\nx/y/z\n"))
}

func TestModifyFile(t *testing.T) {
	type edits = []any
	edit := func(old, new string, all ...bool) any {
		m := map[string]any{"old": old, "new": new}
		if len(all) > 0 {
			m["all"] = all[0]
		}
		return m
	}
	const before = "one\ntwo two\n  three\n"
	for _, tt := range []struct {
		content string
		edits   edits
		want    Result
		after   string
	}{
		{before, edits{edit("one", "1")}, text("f: 1 edit made: line 1"), "1\ntwo two\n  three\n"},
		{before, edits{edit("one\ntwo", "1"), edit("1 two", "2")}, text("f: 2 edits made: line 1; line 1"), "2\n  three\n"},
		{before, edits{edit("two", "2", true)}, text("f: 1 edit made: 2 times, in lines 2, 2"), "one\n2 2\n  three\n"},
		{before, edits{edit("  three\n", "")}, text("f: 1 edit made: line 3"), "one\ntwo two\n"},
		{before, edits{edit("two", "2")}, failed("f: edit 1: old occurs 2 times, in lines 2, 2: give more of what is around it, or all = true; nothing was written"), before},
		{before, edits{edit("one", "1"), edit("one", "1")}, failed("f: edit 2: old does not occur; nothing was written"), before},
		{before, edits{edit("one", "one")}, failed("f: edit 1: old and new are the same; nothing was written"), before},
		{before, edits{edit("two two\nthree", "x")}, failed("f: edit 1: old does not occur: something alike with other spaces is in line 2; nothing was written"), before},
		{"a\r\nb\r\n", edits{edit("a\nb", "x")}, failed(`f: edit 1: old does not occur: the lines of this file end in \r\n; nothing was written`), "a\r\nb\r\n"},
		{"a\x00b", edits{edit("a", "x")}, failed("f: is a binary file"), "a\x00b"},
		{before, edits{}, refusal(`arguments of fs_modify_file: "edits" must have at least 1 element, not 0`), before},
		{strings.Repeat("x", 10_000), edits{edit("x", strings.Repeat("y", 10_000), true)}, failed("f: edit 1: would make it larger than 16 MB; nothing was written"), strings.Repeat("x", 10_000)},
	} {
		f := newFS(t, map[string]string{"f": tt.content})
		expect(t, fmt.Sprintf("%.100v", tt.edits), f.call("fs_modify_file", map[string]any{"path": "f", "edits": tt.edits}), tt.want)
		if got := f.content("f"); got != tt.after {
			t.Errorf("after %.100v the file holds %.100q, want %.100q", tt.edits, got, tt.after)
		}
		if got := f.list("."); got != text("f\n") {
			t.Errorf("after %.100v there is %q", tt.edits, got.Text)
		}
	}
	expect(t, "no file", newFS(t, nil).modify("f", "a", "b"), failed("f: does not exist: fs_create_file makes it"))
}

// Builtin refuses what it cannot run.
func TestBuiltin(t *testing.T) {
	all, err := Builtin(fs.Env{Workspace: t.TempDir()})
	var names []string
	for _, tl := range all {
		names = append(names, tl.Name)
	}
	if want := []string{"fs_create_file", "fs_grep_files", "fs_list_files", "fs_modify_file", "fs_read_file"}; err != nil || !slices.Equal(names, want) {
		t.Errorf("Builtin = %v, %v, want %v", names, err, want)
	}
	for _, name := range []string{"jp_query", "nothing"} {
		def, _ := Embedded(name)
		def.Name = name
		if _, err := Builtin(fs.Env{}, def); err == nil || err.Error() != "tool "+name+": is no built-in tool" {
			t.Errorf("Builtin(%s): %v", name, err)
		}
	}
	gone := newFS(t, nil)
	gone.dir += "/gone"
	expect(t, "no workspace", gone.read("x"), failed("workspace "+gone.dir+": no such file or directory"))
}

package tools

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"unicode"

	"jp/tools/brief"
)

// A question shows the whole call where there is room, and says what it leaves out where there is
// none.
func TestQuestionPage(t *testing.T) {
	long := func(n int) string { return strings.Repeat("x", n) }
	for _, tt := range []struct {
		tool, args  string
		width, rows int
		page, left  string
	}{
		{"t", `{}`, 80, 10, "", ""},
		{"t", `{"b":"x","a":1}`, 80, 10, "a = 1\nb = \"x\"", ""},
		// Nothing hides what is behind it.
		{"t", `{"a":"` + long(130) + `","b":"` + long(130) + `","z":"rm -rf ~"}`, 80, 48,
			"a = \"" + long(75) + "\n      " + long(55) + "\"\nb = \"" + long(75) + "\n      " + long(55) + "\"\nz = \"rm -rf ~\"", ""},
		{"t", `{"a":"` + long(900) + `","z":"rm -rf ~"}`, 80, 3,
			"a = \"" + long(75) + "\n      " + long(74) + "\nz = \"rm -rf ~\"", "752 bytes of a"},
		{"t", `{"a":1,"b":2,"c":3,"d":4}`, 80, 2, "a = 1\nb = 2", "5 bytes of c, 5 bytes of d"},
		{"t", `{"a":"ls` + strings.Repeat(" ", 120) + `; rm -rf ~","b":["` + strings.Repeat(" ", 24) + `"]}`, 80, 10,
			`a = "ls" +120 spaces+ "; rm -rf ~"` + "\n" + `b = ["" +24 spaces+ ""]`, ""},
		{"t", `{"a":"` + strings.Repeat(`\n`, 300) + `rm"}`, 80, 10, "a =\n  \"\\n\"\n    (and 299 more lines like this one)\n  \"rm\"", ""},
		// No name looks like an argument with its value.
		{"t", `{"path = \"a\"` + strings.Repeat(" ", 60) + `all":1,"path=a":1,"path":"b"}`, 80, 10,
			`path = "b"` + "\n" + `"path = \"a\"" +60 spaces+ "all" = 1` + "\n" + `"path=a" = 1`, ""},
		// No text begins a row of its own.
		{"t", `{"a":"` + long(9) + `jp: run other (builtin)?"}`, 14, 10, "a = \"" + long(9) + "\n      jp: run \n      other \n      (builtin\n      )?\"", ""},
		// Changes of files are read as such.
		{"fs_create_file", `{"content":"a\n\tb\u200b\n+ c","overwrite":true,"path":"x"}`, 80, 10,
			"path = \"x\"\noverwrite = true\n  + a\n  + \"\\tb\\u200b\\n\"\n  + + c\n  (no line break at the end)", ""},
		{"fs_create_file", `{"content":"\"a\"\n","path":"x"}`, 80, 10, "path = \"x\"\n  + \"\\\"a\\\"\\n\"", ""},
		{"fs_modify_file", `{"edits":[{"all":true,"new":"def f(a, b):\n\tgo()\n\treturn 1\n","old":"def f(a):\n\treturn 1\n"}],"path":"x"}`, 80, 20,
			"path = \"x\"\nedit 1 of 1, all = true\n  - def f(a):\n  + def f(a, b):\n  +     go()\n        return 1", ""},
		// Two lines that differ do not look the same.
		{"fs_modify_file", `{"edits":[{"new":"    x ","old":"\tx"},{"new":"b","old":"a"}],"path":"x"}`, 80, 20,
			"path = \"x\"\nedit 1 of 2\n  - \"\\tx\"\n  + \"    x \"\nedit 2 of 2\n  - a\n  + b", ""},
		{"fs_modify_file", `{"edits":[{"new":"b","old":"a","why":1}],"path":"x"}`, 80, 20, "edits = [{\"new\":\"b\",\"old\":\"a\",\"why\":1}]\npath = \"x\"", ""},
	} {
		q := NewQuestion(KindRun, Definition{Name: tt.tool, Source: SourceBuiltin}, Call{Name: tt.tool, Arguments: json.RawMessage(tt.args)}, "")
		rows, left := q.Page(tt.width, tt.rows)
		if page := joined(rows); page != tt.page || left != tt.left {
			t.Errorf("%s(%s) = %q\nleft %q\nwant %q\nleft %q", tt.tool, brief.Shorten(tt.args, 200), joined(rows), left, tt.page, tt.left)
		}
	}
}

func joined(page []Row) string {
	var lines []string
	for _, r := range page {
		lines = append(lines, r.Text)
	}
	return strings.Join(lines, "\n")
}

// TestQuestionPageMarks: only what is removed or added is marked, with all its rows.
func TestQuestionPageMarks(t *testing.T) {
	args := `{"edits":[{"old":"if x:\n  a\n      b\n","new":"if x:\n  a, which is longer than a row\n      b\n"}],"path":"  - x"}`
	marks := func(k Kind, tool string) (got string) {
		q := NewQuestion(k, Definition{Name: tool, Source: SourceBuiltin}, Call{Name: tool, Arguments: json.RawMessage(args)}, "  - a\n")
		page, _ := q.Page(26, 100)
		for _, r := range page {
			got += string(max(r.Mark, ' '))
		}
		return got
	}
	if got, want := marks(KindRun, "fs_modify_file"), "   -++ "; got != want {
		t.Errorf("marks %q, want %q", got, want)
	}
	for _, got := range []string{marks(KindRun, "t"), marks(KindDeliver, "fs_modify_file")} {
		if strings.Trim(got, " ") != "" {
			t.Errorf("marks %q of what is no change", got)
		}
	}
}

func TestQuestionPageDeliver(t *testing.T) {
	q := NewQuestion(KindDeliver, Definition{}, Call{Name: "t", Arguments: json.RawMessage(`{"a":1}`)}, "one\n"+strings.Repeat("two\u202e\n", 2))
	rows, left := q.Page(80, 3)
	page := joined(rows)
	if want := "t(a=1)\n\"one\\n\"\n\"two\\u202e\\n\""; page != want || left != "13 bytes of the result" {
		t.Errorf("page %q, left %q; want %q", page, left, want)
	}
}

// FuzzQuestionPage: a page is no longer than asked for, holds nothing that does not print, and all
// of it where nothing is left out.
func FuzzQuestionPage(f *testing.F) {
	f.Add([]byte(`{"path":"x","edits":[{"old":"a\nb","new":"a\nc\u202e"}]}`), 80, 10)
	f.Add([]byte(`{"path":"x","content":"\u200b\n\"a"}`), 20, 3)
	f.Add([]byte(`{"a":"`+strings.Repeat(" ", 200)+`z","b":[{"c":1}],"\u202e":null}`), 40, 4)
	f.Fuzz(func(t *testing.T, args []byte, width, rows int) {
		width, rows = 20+max(0, width%200), 4+max(0, rows%100)
		for _, tool := range []string{"t", "fs_create_file", "fs_modify_file"} {
			q := NewQuestion(KindRun, Definition{Name: tool, Source: SourceBuiltin}, Call{Name: tool, Arguments: args}, "")
			page, left := q.Page(width, rows)
			if len(page) > rows {
				t.Errorf("%q: %d rows, more than %d", args, len(page), rows)
			}
			for _, row := range page {
				line := row.Text
				if strings.IndexFunc(line, func(r rune) bool { return !unicode.IsPrint(r) }) >= 0 || len([]rune(line)) > width {
					t.Errorf("%q: the row %q", args, line)
				}
			}
			all, none := q.Page(width, 1<<30)
			if none != "" || (left == "") != slices.Equal(all, page) {
				t.Errorf("%q: page %q, left %q; all %q, left %q", args, page, left, all, none)
			}
		}
	})
}

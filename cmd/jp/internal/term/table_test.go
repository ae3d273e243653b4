package term

import (
	"strings"
	"testing"
)

func TestTableFits(t *testing.T) {
	table := Table{
		Columns: []Column{{Title: "id"}, {Title: "title", Flex: true}, {Title: "turns", Right: true, Drop: 1}, {Title: "model", Drop: 2}},
		Rows: [][]string{
			{"jp-c1", "A short one", "3", "anthropic/claude"},
			{"jp-c12", "Ein Titel in 日本語 der recht lang ist", "12", "x"},
			{"jp-c3", "evil\x1b[31m\ttitle\n", "0", ""},
		},
	}
	for _, c := range []struct {
		width int
		utf8  bool
		want  string
	}{
		{0, true, "" +
			"ID      TITLE                                   TURNS  MODEL\n" +
			"jp-c1   A short one                                 3  anthropic/claude\n" +
			"jp-c12  Ein Titel in 日本語 der recht lang ist     12  x\n" +
			"jp-c3   evil title                                  0\n"},
		{50, true, "" +
			"ID      TITLE              TURNS  MODEL\n" +
			"jp-c1   A short one            3  anthropic/claude\n" +
			"jp-c12  Ein Titel in 日…      12  x\n" +
			"jp-c3   evil title             0\n"},
		{30, true, "" +
			"ID      TITLE            TURNS\n" +
			"jp-c1   A short one          3\n" +
			"jp-c12  Ein Titel in …      12\n" +
			"jp-c3   evil title           0\n"},
		{16, false, "" +
			"ID      TITLE\n" +
			"jp-c1   A sho...\n" +
			"jp-c12  Ein T...\n" +
			"jp-c3   evil ...\n"},
	} {
		var b strings.Builder
		if err := table.Write(&b, &IO{Width: c.width, UTF8: c.utf8}); err != nil {
			t.Fatal(err)
		}
		for _, line := range strings.Split(b.String(), "\n") {
			if c.width > 0 && Width(line) > c.width {
				t.Errorf("width %d: line %q is %d wide", c.width, line, Width(line))
			}
		}
		if b.String() != c.want {
			t.Errorf("width %d:\n%s\nwant:\n%s", c.width, b.String(), c.want)
		}
	}
}

// TestTableLeast: a column that is worth more than others is cut after they are left out.
func TestTableLeast(t *testing.T) {
	table := Table{
		Columns: []Column{{Title: "title", Flex: true, Least: 20}, {Title: "model", Drop: 1}},
		Rows:    [][]string{{"How does the gate judge?", "anthropic/claude"}},
	}
	var b strings.Builder
	if err := table.Write(&b, &IO{Width: 37}); err != nil {
		t.Fatal(err)
	}
	if want := "TITLE\nHow does the gate judge?\n"; b.String() != want {
		t.Errorf("%q, want %q", b.String(), want)
	}
}

func TestTableLeavesEmptyColumnsOut(t *testing.T) {
	table := Table{Columns: []Column{{Title: "id"}, {Title: "profile", Drop: 1}, {Title: "reason"}}, Rows: [][]string{{"a", "", ""}}}
	var b strings.Builder
	if err := table.Write(&b, &IO{}); err != nil {
		t.Fatal(err)
	}
	if want := "ID  REASON\na\n"; b.String() != want {
		t.Errorf("%q, want %q", b.String(), want)
	}
}

func TestCut(t *testing.T) {
	for _, c := range []struct {
		in    string
		width int
		utf8  bool
		want  string
	}{
		{"abc", 3, true, "abc"},
		{"abcd", 3, true, "ab…"},
		{"abcdef", 5, false, "ab..."},
		{"abcd", 2, false, "ab"},
		{"日本語", 4, true, "日…"},
		{"日本語", 1, true, ""},
		{"e\u0301e\u0301e\u0301", 2, true, "e\u0301…"},
		{"abc", 0, true, ""},
	} {
		if got := Cut(c.in, c.width, c.utf8); got != c.want {
			t.Errorf("Cut(%q, %d, %t) = %q, want %q", c.in, c.width, c.utf8, got, c.want)
		}
	}
}

package markdown

import (
	"strings"
	"testing"

	"github.com/yuin/goldmark/ast"
	"pgregory.net/rapid"
)

// checkWork holds what the parser has read against its bounds: the time that it takes is quadratic
// in both.
func checkWork(t interface{ Fatalf(string, ...any) }, text string) {
	src := []byte(text)
	cells := 0
	var walk func(n ast.Node, depth int)
	walk = func(n ast.Node, depth int) {
		if n.Type() != ast.TypeBlock && n.Type() != ast.TypeDocument {
			return
		}
		if depth > openMax+2 { // an item is in a list, and a paragraph in the item
			t.Fatalf("%.60q... (%d bytes): blocks are %d deep, want at most %d", text, len(text), depth, openMax+2)
		}
		if lines := n.Lines(); lines != nil && !n.IsRaw() && size(lines) > runMax {
			t.Fatalf("%.60q... (%d bytes): a %v of %d bytes was parsed, want at most %d", text, len(text), n.Kind(), size(lines), runMax)
		}
		if _, ok := n.(*tableCell); ok {
			if cells++; cells > len(text) {
				t.Fatalf("%.60q... (%d bytes): more than %d cells", text, len(text), cells)
			}
		}
		for c := n.FirstChild(); c != nil; c = c.NextSibling() {
			walk(c, depth+1)
		}
	}
	walk(parse(src), 0)
}

// A text cannot make the parser work long by what it hides a long run of text behind: lines that
// begin no code block of the parser, but look so, and others that end a block.
func TestParseIsBounded(t *testing.T) {
	run := strings.Repeat("a*_", 20000)
	for _, before := range []string{
		"", "# ", "> ", "- ", "1. ", "<!--\n```\n-->\n\n", "<div>\n```\n</div>\n\n", "    ```\n\n", "```a`b\n\n", "- a\n\n  ```\n\nb\n\n", "> ```\n\n",
		"~~~a~b`\n~~~\n", "1. ```\n\nb\n\n", "- ```\n\nb\n\n", "[a]:\n```\n```\n\n", "<script>\n```\n</script>\n\n", "> a\n```\n```\n", "<p>\n```\n\n", "> ~~~\n> a\n\n",
		"-\t```\n\nb\n\n", "<?\n```\n?>\n\n", "<![CDATA[\n```\n]]>\n\n", ">```\nb\n\n", "```\n    ```\nx\n```\n", "````\n```\n````\n", "- a\n   ```\n\nb\n\n", "|a|b|\n|-|-|\n",
		strings.Repeat("> ", 100000), strings.Repeat("- ", 100000), strings.Repeat("> - ", 50000), strings.Repeat("1. ", 60000),
	} {
		for _, after := range []string{"", "\n===\n", "\n---\n", "\n|-|\n", "\n|-|-|\n|a|b|\n"} {
			text := before + run + after
			checkWork(t, text)
			if got := Render(text, Style{Width: 80}); !strings.Contains(got, run[:len(run)/4]) {
				t.Errorf("Render(%q and a long run and %q) = %.60q..., want the run as it is written", before[:min(40, len(before))], after, got)
			}
		}
	}
}

// A short row of a table has as many cells as a long one, and is as wide.
func TestTablesAreBounded(t *testing.T) {
	small := strings.Repeat("|a", 64) + "|\n" + strings.Repeat("|-", 64) + "|\n" + strings.Repeat("|\n", 250) + "\n"
	for name, text := range map[string]string{
		"cells": strings.Repeat("|a", 64) + "|\n" + strings.Repeat("|-", 64) + "|\n" + strings.Repeat("|\n", 100000),
		"small": strings.Repeat(small, 300),
		"width": "|a|b|\n|-:|-:|\n|" + strings.Repeat("x", 8000) + "|c|\n" + strings.Repeat("|\n", 7000),
		"head":  "|" + strings.Repeat("x", 4000) + "|b\n|-|-\n" + strings.Repeat("|\n", 390),
		"marks": "|a" + strings.Repeat("\u0301", 4000) + "|b\n|-|-\n" + strings.Repeat("|\n", 390),
	} {
		checkWork(t, text)
		for _, width := range []int{0, 20, 80} {
			if got := Render(text, Style{Width: width}); got != whole(text) {
				t.Errorf("%s, width %d: %d bytes of output, %.40q..., want the text as it is written", name, width, len(got), got)
			}
		}
	}
	rows := strings.Repeat("| name | 12 | a description of some length |\n", 500)
	if got := Render("| a | b | c |\n|---|---|---|\n"+rows, Style{}); !strings.HasPrefix(got, "a    | b  | c\n-----+----+-") {
		t.Errorf("a table of 500 rows = %.60q...", got)
	}
}

// One paragraph that is too long leaves the others as they are.
func TestLongParagraphAmongOthers(t *testing.T) {
	run := strings.Repeat("*a **b ", 2000)
	want := "one two\n\n" + strings.TrimSuffix(run, " ") + "\n\n- x\n- *y*\n"
	if got := Render("one\ntwo\n\n"+run+"\n\n* x\n* *y*\n", Style{Width: 80}); strings.ReplaceAll(got, " \n", "\n") != want {
		t.Errorf("Render = %.40q...%q", got, got[len(got)-40:])
	}
}

func TestParseIsBoundedWhateverTheText(t *testing.T) {
	parts := rapid.SampledFrom([]string{
		"\n", "\n\n", "- ", "> ", "1. ", "# ", "```", "~~~", "    ", "\t", "<!--", "-->", "<div>", "</div>", "<script>", "|", "|-|\n", "===\n", "---\n", "word ",
		strings.Repeat("a*_", 3000), strings.Repeat("[a](", 2500), strings.Repeat("> ", 40), strings.Repeat("- ", 40), strings.Repeat("a\n", 5000), strings.Repeat("|a", 70),
	})
	rapid.Check(t, func(t *rapid.T) {
		checkWork(t, strings.Join(rapid.SliceOfN(parts, 0, 30).Draw(t, "parts"), ""))
	})
}

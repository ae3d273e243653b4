package show

import (
	"io"
	"strings"

	"jp/cmd/jp/internal/term"
	"jp/cmd/jp/internal/wording"
)

// thoughts shows the reasoning of a model on stderr, in whole marked lines. Nothing else is written
// on such a line.
type thoughts struct {
	Show  *Show
	clean term.Cleaner
	line  strings.Builder // line that has not ended yet
}

// add adds more reasoning.
func (t *thoughts) add(delta string) { t.lines(t.clean.Clean(delta)) }

// end ends the line that is open, before anything else is shown.
func (t *thoughts) end() {
	if t == nil {
		return
	}
	t.lines(t.clean.Flush())
	if t.line.Len() > 0 {
		t.lines("\n")
	}
}

func (t *thoughts) lines(text string) {
	whole, rest, ended := cutLast(text)
	t.line.WriteString(whole)
	if !ended {
		return
	}
	mark, after := wording.Either(t.Show.con.IO.UTF8, "┊ ", "| "), ""
	if t.Show.con.IO.ErrColor {
		mark, after = "\x1b[2m"+mark, "\x1b[0m"
	}
	var b strings.Builder
	for l := range strings.SplitSeq(t.line.String(), "\n") {
		b.WriteString(strings.TrimRight(mark+l, " \t") + after + "\n")
	}
	t.line.Reset()
	t.line.WriteString(rest)
	t.Show.tree.Around(func() { _, _ = io.WriteString(t.Show.con.IO.Err, b.String()) })
}

// cutLast cuts text at its last newline; without a newline everything is before it.
func cutLast(text string) (before, after string, found bool) {
	i := strings.LastIndexByte(text, '\n')
	if i < 0 {
		return text, "", false
	}
	return text[:i], text[i+1:], true
}

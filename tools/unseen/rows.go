package unseen

import (
	"fmt"
	"regexp"
	"strings"
	"sync"
)

// Rows breaks a line, in which every character shows, into the rows that it takes on a screen of
// width columns. All but the first begin with indent, so that a text that runs to the edge of the
// screen cannot look like a line of its own. A row ends at a space if there is one in its second
// half; nothing is left out. Wide characters count as two columns, combining ones as one.
func Rows(line string, width int, indent string) []string {
	if width < len(indent)+8 {
		width = len(indent) + 8
	}
	var rows []string
	row, at := make([]rune, 0, width), 0
	for _, r := range line {
		if at+columns(r) > width {
			n := breakAt(row, width/2)
			rest := row[n:]
			rows = append(rows, string(row[:n]))
			row, at = []rune(indent+string(rest)), len(indent)
			for _, r := range rest {
				at += columns(r)
			}
		}
		row = append(row, r)
		at += columns(r)
	}
	return append(rows, string(row))
}

// Margin begins all rows of a line but the first in LaidOut.
const Margin = "      "

// LaidOut returns a text in which every character but tabs shows, as it is written on a screen of
// width columns: each line in its Rows, and each tab as four spaces, because only the screen knows
// how far a tab goes. Width 0 changes nothing.
func LaidOut(text string, width int) string {
	if width == 0 {
		return text
	}
	var b strings.Builder
	for line := range strings.Lines(strings.ReplaceAll(text, "\t", "    ")) {
		rest, ended := strings.CutSuffix(line, "\n")
		b.WriteString(strings.Join(Rows(rest, width, Margin), "\n"))
		if ended {
			b.WriteByte('\n')
		}
	}
	return b.String()
}

// breakAt is where a row ends: behind its last space, if that is not before least.
func breakAt(row []rune, least int) int {
	for i := len(row) - 1; i >= least; i-- {
		if row[i] == ' ' {
			return i + 1
		}
	}
	return len(row)
}

// columns is how many columns r takes at most.
func columns(r rune) int {
	if r >= 0x1100 {
		return 2
	}
	return 1
}

// spaces is a run that pushes the text behind it out of sight.
var spaces = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(` {24,}`) })

// Fold replaces each long run of spaces by their number, in a text of quoted strings as [Quote] and
// JSON write them: the text behind is then near. Nothing inside a string can look like it, for a
// quote there has a backslash before it.
func Fold(quoted string) string {
	return spaces().ReplaceAllStringFunc(quoted, func(run string) string { return fmt.Sprintf(`" +%d spaces+ "`, len(run)) })
}

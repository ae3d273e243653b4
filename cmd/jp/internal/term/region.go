package term

import (
	"fmt"
	"strings"
)

// region is the last lines on a terminal, which are drawn again and again. The zero value has none.
type region struct {
	lines []drawn // lines on the screen
	above int     // number of lines before them, for which the screen has no room
}

// drawn is a line on the screen, with the number of its columns.
type drawn struct {
	text  string
	width int
}

// replace returns what turns the lines of the region into settled, which then belong to it no more,
// and open, of which the last rows-1 are shown. No line of open is wider than the screen. The
// screen has so many columns and rows now; 0 = unknown.
//
// The terminal cuts lines of open to which it gives more columns than we do. Settled lines come whole.
//
// It erases line by line: some terminals put what is erased from the top of the screen into their
// history.
func (r *region) replace(settled, open []drawn, width, rows int) string {
	was, above := r.lines, r.above
	r.above = 0
	if most := max(rows-1, 1); rows > 0 && len(open) > most {
		open, r.above = open[len(open)-most:], len(open)-most
	}
	r.lines = open
	if wrapped := rowsOf(was, width); wrapped > len(was) {
		// Rows that the terminal has wrapped would stay joined.
		return fmt.Sprintf("\x1b[%dA\r\x1b[J", wrapped) + written(settled, width) + cut(written(open, width))
	}
	if above == 0 && (r.above == 0 || len(settled) > 0) {
		for len(was) > 0 && len(settled) > 0 && was[0] == settled[0] && !was[0].mayBeCut(width) {
			was, settled = was[1:], settled[1:]
		}
		for len(was) > 0 && len(settled) == 0 && len(open) > 0 && was[0] == open[0] {
			was, open = was[1:], open[1:]
		}
	}
	var b strings.Builder
	if len(was) > 0 {
		fmt.Fprintf(&b, "\x1b[%dA\r", len(was))
	}
	b.WriteString(written(settled, width) + cut(written(open, width)))
	if more := len(was) - len(settled) - len(open); more > 0 { // below them stands what a key has echoed, such as ^C
		b.WriteString(strings.Repeat("\x1b[2K\n", more) + "\x1b[2K")
		fmt.Fprintf(&b, "\x1b[%dA", more)
	}
	return b.String()
}

// written returns lines one below the other, each over what was there.
func written(lines []drawn, width int) string {
	var b strings.Builder
	clean := forTerminal(true)
	for _, l := range lines {
		l.text = clean.Clean(l.text) + clean.Flush()
		switch {
		case l.mayBeCut(width): // it may take more rows than one
			b.WriteString("\x1b[J" + l.text + "\n")
		case width > 0 && l.width == width: // the cursor is still on the last column, which would be erased
			b.WriteString(l.text + "\n")
		default:
			b.WriteString(l.text + "\x1b[K\n")
		}
	}
	return b.String()
}

// cut returns lines that are drawn again, so that the terminal cuts them at the edge of the screen
// where it gives a character more columns than we do, as some do with an emoji that has a colour of
// skin: a line that it wraps could not be found again.
func cut(lines string) string {
	if lines == "" {
		return ""
	}
	return "\x1b[?7l" + lines + "\x1b[?7h"
}

// mayBeCut reports whether the line is wider than a screen of so many columns, if only where each part
// of an emoji is shown by itself.
func (l drawn) mayBeCut(width int) bool {
	columns := 0
	for _, part := range plain(l.text) {
		columns += Width(string(part))
	}
	return width > 0 && max(l.width, columns) > width
}

// rowsOf returns how many rows lines take on a screen that may have become narrower since they were
// drawn: the terminal has wrapped them then.
func rowsOf(lines []drawn, width int) int {
	n := len(lines)
	for _, l := range lines {
		if width > 0 && l.width > width {
			n += (l.width - 1) / width
		}
	}
	return n
}

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
// It erases line by line: some terminals put what is erased from the top of the screen into their
// history.
func (r *region) replace(settled, open []drawn, width, rows int) string {
	was, above := r.lines, r.above
	r.lines, r.above = open, 0
	if most := max(rows-1, 1); rows > 0 && len(open) > most {
		r.lines, r.above = open[len(open)-most:], len(open)-most
	}
	next := append(settled[:len(settled):len(settled)], r.lines...)
	if wrapped := rowsOf(was, width); wrapped > len(was) {
		// Rows that the terminal has wrapped would stay joined.
		return fmt.Sprintf("\x1b[%dA\r\x1b[J", wrapped) + written(next, width)
	}
	same := 0
	if above == 0 && (r.above == 0 || len(settled) > 0) {
		for same < min(len(was), len(next)) && was[same] == next[same] {
			same++
		}
	}
	was, next = was[same:], next[same:]
	var b strings.Builder
	if len(was) > 0 {
		fmt.Fprintf(&b, "\x1b[%dA\r", len(was))
	}
	b.WriteString(written(next, width))
	if more := len(was) - len(next); more > 0 { // below them stands what a key has echoed, such as ^C
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
		case width == 0 || l.width < width:
			b.WriteString(l.text + "\x1b[K\n")
		case l.width == width: // the cursor is still on the last column, which would be erased
			b.WriteString(l.text + "\n")
		default:
			b.WriteString("\x1b[J" + l.text + "\n")
		}
	}
	return b.String()
}

// cut returns text that is drawn again, so that the terminal cuts its lines at the edge of the screen
// where it gives a character more columns than we do, as some do with an emoji that has a colour of
// skin: a line that it wraps could not be found again.
func cut(text string) string { return "\x1b[?7l" + text + "\x1b[?7h" }

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

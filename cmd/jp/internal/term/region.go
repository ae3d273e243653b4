package term

import (
	"fmt"
	"slices"
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
		return fmt.Sprintf("\x1b[%dA\r\x1b[J", wrapped) + written(settled, width, false) + written(open, width, true)
	}
	if above == 0 && (r.above == 0 || len(settled) > 0) {
		for len(was) > 0 && len(settled) > 0 && was[0] == settled[0] && !was[0].mayWrap(width) {
			was, settled = was[1:], settled[1:]
		}
		for len(was) > 0 && len(settled) == 0 && len(open) > 0 && was[0] == open[0] {
			was, open = was[1:], open[1:]
		}
	}
	var b strings.Builder
	up := func(lines int) {
		if lines > 0 {
			fmt.Fprintf(&b, "\x1b[%dA", lines)
		}
	}
	// Below the last line stands what a key has echoed, such as ^C.
	erase := func(lines int) {
		b.WriteString(strings.Repeat("\x1b[2K\n", lines) + "\x1b[2K")
		up(lines)
	}
	if up(len(was)); len(was) > 0 {
		b.WriteByte('\r')
	}
	if slices.ContainsFunc(settled, func(l drawn) bool { return l.mayWrap(width) }) {
		erase(len(was)) // nobody knows on which rows they end
	}
	b.WriteString(written(settled, width, false) + written(open, width, true))
	if more := len(was) - len(settled) - len(open); more > 0 {
		erase(more)
	}
	return b.String()
}

// written returns lines one below the other, each over what was there. With cut the terminal wraps
// none of them: a line that is drawn again and takes more rows than we know could not be found.
func written(lines []drawn, width int, cut bool) string {
	var b strings.Builder
	clean := forTerminal(true)
	for _, l := range lines {
		l.text = clean.Clean(l.text) + clean.Flush()
		switch wraps := l.mayWrap(width); {
		case wraps && cut:
			b.WriteString("\x1b[?7l\x1b[2K" + l.text + "\x1b[?7h\n")
		case wraps, width > 0 && l.width == width: // the cursor may be on the last column still, which would be erased
			b.WriteString(l.text + "\n")
		default:
			b.WriteString(l.text + "\x1b[K\n")
		}
	}
	return b.String()
}

// mayWrap reports whether the line is wider than a screen of so many columns on some terminal: one shows
// each part of an emoji by itself, another one has two columns for a sign that has one here.
func (l drawn) mayWrap(width int) bool {
	columns := 0
	for _, part := range plain(l.text) {
		n := Width(string(part))
		if n == 1 && part >= 0x80 {
			n = 2
		}
		columns += n
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

package term

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"

	"jp/tools/unseen"
)

// Clean returns text that cannot control a terminal or hide its order. It removes:
//
//   - whole control sequences: ESC, and CSI, OSC, DCS, APC, PM and SOS in both spellings, with
//     their texts
//   - every other control character but newline and tab, and text that a carriage return would
//     overwrite
//   - characters that are invisible or reorder others, except joiners where they join: see package
//     unseen
//
// A sign that is blank, or breaks the line in its own way, becomes a space.
// Of a control string without an end only the introducer is removed, so that it cannot swallow the
// text behind it. Bytes that are not UTF-8 become U+FFFD: a terminal in an 8-bit mode would read
// some of them as C1. The result is valid UTF-8, and Clean does not change it.
func Clean(s string) string {
	i := firstUnclean(s)
	if i < 0 {
		return s
	}
	var b strings.Builder
	b.Grow(len(s))
	b.WriteString(s[:i])
	var c Cleaner
	c.plain(s[:i])
	cleanTo(&b, s[i:], &c.joins)
	return b.String()
}

// Line is Clean for a text that must stay on one line: newlines and tabs become spaces.
func Line(s string) string {
	s = Clean(s)
	if !strings.ContainsAny(s, "\n\t") {
		return s
	}
	return strings.TrimSpace(strings.NewReplacer("\n", " ", "\t", " ").Replace(s))
}

// Escape escapes what would break a line of tab-separated text or reach a terminal through a pipe:
// \t, \n, \r, \\ and, for all other characters that are not visible, \xNN or \u{NNNN}. The text can
// be restored from it.
func Escape(s string) string {
	plain := func(r rune) bool {
		return r != '\\' && r != utf8.RuneError && (r == ' ' || unicode.IsGraphic(r) && !unseen.Blank(r) && !unseen.Is(r))
	}
	if strings.IndexFunc(s, func(r rune) bool { return !plain(r) }) < 0 {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); {
		r, n := utf8.DecodeRuneInString(s[i:])
		switch {
		case r == '\t':
			b.WriteString(`\t`)
		case r == '\n':
			b.WriteString(`\n`)
		case r == '\r':
			b.WriteString(`\r`)
		case r == '\\':
			b.WriteString(`\\`)
		case r == utf8.RuneError && n == 1, r < 0x80 && !plain(r):
			fmt.Fprintf(&b, `\x%02x`, s[i])
		case r != utf8.RuneError && !plain(r):
			fmt.Fprintf(&b, `\u{%x}`, r)
		default:
			b.WriteString(s[i : i+n])
		}
		i += n
	}
	return b.String()
}

// EscapeJSON writes what Clean would not leave in the strings of a JSON text as \u escapes, and
// bytes that are not UTF-8 as \ufffd. Every reader gets the same text, and a terminal nothing to
// act on. Control characters below U+0020 are escaped in JSON already.
func EscapeJSON(b []byte) []byte {
	unsafe := func(r rune) bool {
		return r == 0x7f || r == utf8.RuneError || (r >= 0x80 && r < 0xa0) || unseen.Blank(r) || unseen.Is(r)
	}
	i := bytes.IndexFunc(b, unsafe)
	if i < 0 {
		return b
	}
	out := append(make([]byte, 0, len(b)+64), b[:i]...)
	for i < len(b) {
		r, n := utf8.DecodeRune(b[i:])
		switch {
		case !unsafe(r):
			out = append(out, b[i:i+n]...)
		case r > 0xffff:
			high, low := utf16.EncodeRune(r)
			out = fmt.Appendf(out, `\u%04x\u%04x`, high, low)
		default:
			out = fmt.Appendf(out, `\u%04x`, r)
		}
		i += n
	}
	return out
}

// Cleaner is Clean for a text that comes in pieces. A sequence or a rune that is cut in two is held
// back until the rest comes. The zero value is ready to use. Not safe for concurrent use.
type Cleaner struct {
	held    string
	joins   unseen.Filter
	colours bool // those that jp itself uses are kept
}

// holdMax is the most bytes that a Cleaner holds back while it waits for the end of a control
// string.
const holdMax = 4096

// Clean returns what can be shown of the text so far and was not returned before.
func (c *Cleaner) Clean(piece string) string {
	s := c.held + piece
	c.held = ""
	i := firstUnclean(s)
	if i < 0 {
		c.plain(s)
		return s
	}
	c.plain(s[:i])
	var b strings.Builder
	b.WriteString(s[:i])
	for s = s[i:]; s != ""; {
		joins := c.joins
		n, text, more := step(s, &c.joins)
		if c.colours && colour(s[:n]) {
			text = s[:n]
		}
		if more && len(s) <= holdMax {
			c.held, c.joins = s, joins
			break
		}
		b.WriteString(text)
		s = s[n:]
	}
	return b.String()
}

// plain notes text that is plain ASCII.
func (c *Cleaner) plain(s string) {
	if s != "" {
		c.joins.Keeps(rune(s[len(s)-1]), 0)
	}
}

// Flush returns what was held back, as Clean would at the end of a text. The next piece begins
// another text.
func (c *Cleaner) Flush() string {
	var b strings.Builder
	cleanTo(&b, c.held, &c.joins)
	*c = Cleaner{colours: c.colours}
	return b.String()
}

// firstUnclean returns the index of the first byte that is not plain ASCII text, -1 for none.
func firstUnclean(s string) int {
	for i := 0; i < len(s); i++ {
		if c := s[i]; (c < ' ' && c != '\n' && c != '\t') || c >= 0x7f {
			return i
		}
	}
	return -1
}

func cleanTo(b *strings.Builder, s string, joins *unseen.Filter) {
	for s != "" {
		n, text, _ := step(s, joins)
		b.WriteString(text)
		s = s[n:]
	}
}

const (
	esc = 0x1b
	bel = 0x07
	can = 0x18
	sub = 0x1a
)

// step takes the next piece of s. It returns how many bytes that is (at least one), what is shown
// of it, and whether more text could change that. If so, n and text are right where no more comes.
func step(s string, joins *unseen.Filter) (n int, text string, more bool) {
	switch c := s[0]; {
	case c == esc:
		n, more = escape(s)
		return n, "", more
	case c == '\n' || c == '\t' || (c >= ' ' && c < 0x7f):
		joins.Keeps(rune(c), 0)
		return 1, s[:1], false
	case c < 0x80:
		return 1, "", false
	}
	r, n := utf8.DecodeRuneInString(s)
	switch {
	case r == utf8.RuneError && n == 1:
		joins.Keeps(r, 0)
		return 1, "\uFFFD", !utf8.FullRuneInString(s)
	case r == 0x9b:
		n, more = csi(s, n)
		return n, "", more
	case r == 0x90 || r == 0x98 || r == 0x9d || r == 0x9e || r == 0x9f:
		n, more = controlString(s, n)
		return n, "", more
	case r < 0xa0:
		return n, "", false
	case unseen.Blank(r):
		joins.Keeps(' ', 0)
		return n, " ", false
	}
	more = unseen.Is(r) && joins.Undecided(r) && !utf8.FullRuneInString(s[n:])
	next, _ := utf8.DecodeRuneInString(s[n:])
	if !joins.Keeps(r, next) {
		return n, "", more
	}
	return n, s[:n], more
}

// escape measures the sequence that starts with ESC (ECMA-35, ECMA-48).
func escape(s string) (n int, more bool) {
	if len(s) == 1 {
		return 1, true
	}
	switch s[1] {
	case '[':
		return csi(s, 2)
	case ']', 'P', 'X', '^', '_':
		return controlString(s, 2)
	}
	for i := 1; i < len(s); i++ {
		switch c := s[i]; {
		case c >= 0x20 && c <= 0x2f: // intermediate bytes, as in ESC ( B
		case c >= 0x30 && c <= 0x7e:
			return i + 1, false
		default:
			return i, false
		}
	}
	return len(s), true
}

// colour reports whether a sequence sets colours or styles that jp uses. None of them hides text.
func colour(sequence string) bool {
	codes, ok := strings.CutPrefix(sequence, "\x1b[")
	codes, end := strings.CutSuffix(codes, "m")
	for code := range strings.SplitSeq(codes, ";") {
		ok = ok && slices.Contains([]string{"0", "1", "2", "3", "4", "7", "31", "32", "33", "34", "36"}, code)
	}
	return ok && end
}

// csi measures a control sequence whose parameters start at i.
func csi(s string, i int) (n int, more bool) {
	for ; i < len(s); i++ {
		switch c := s[i]; {
		case c >= 0x20 && c <= 0x3f: // parameters and intermediates
		case c >= 0x40 && c <= 0x7e:
			return i + 1, false
		default:
			return i, false
		}
	}
	return len(s), true
}

// controlString measures OSC, DCS, APC, PM or SOS with its text, which starts at start. Another
// introducer ends the search: a terminal would give up too, and to search further would take
// quadratic time on hostile text.
func controlString(s string, start int) (n int, more bool) {
	for i := start; i < len(s); i++ {
		switch c := s[i]; {
		case c == bel || c == can || c == sub:
			return i + 1, false
		case c == esc:
			if i+1 == len(s) {
				return start, true
			}
			if s[i+1] == '\\' {
				return i + 2, false
			}
			return start, false
		case c == 0xc2 && i+1 < len(s) && s[i+1] == 0x9c:
			return i + 2, false
		case c == 0xc2 && i+1 < len(s) && s[i+1] >= 0x80 && s[i+1] < 0xa0:
			return start, false
		}
	}
	return start, true
}

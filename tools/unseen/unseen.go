// Package unseen knows which characters of a text are not seen. A screen shows them as nothing and
// a model reads them all the same, or they change the order in which others are shown. There is one
// list for three uses: what is shown to a person, what a server or a sub-agent says to a model, and
// what may be hidden behind such characters.
//
// [Is] is the list, and [Blank] that of characters which look like a space or nothing at all and are a
// sign. [Strip] and [Filter] leave such characters out, except the few that belong to
// the spelling of the text around them. [Spell] and [Quote] write them so that they show: where a
// person decides about a text, nothing may be left out.
package unseen

import (
	"fmt"
	"iter"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Is reports whether r is not seen or changes the order of others: the code points with Unicode's
// Default_Ignorable_Code_Point (zero width, variation selectors, tags, fillers of Hangul) and those
// of category Cf (bidirectional controls among them) that are no sign of their own. Control
// characters and spaces are not among them.
func Is(r rune) bool {
	if r < 0x80 {
		return false
	}
	const fillerOfKhitan = 0x16fe4 // a mark without a shape
	return (r == fillerOfKhitan || unicode.In(r, unicode.Cf, unicode.Other_Default_Ignorable_Code_Point, unicode.Variation_Selector)) &&
		!unicode.Is(unicode.Prepended_Concatenation_Mark, r)
}

// Blank reports whether r takes up room, or breaks the line, and shows nothing: the line and the
// paragraph separator, the pattern of Braille without dots, the full and the half blank of Egyptian
// hieroglyphs, the note without a head. Spaces are not among them.
func Blank(r rune) bool {
	switch r {
	case 0x2028, 0x2029, 0x2800, 0x13441, 0x13442, 0x1d159:
		return true
	}
	return false
}

// The characters that may belong to the spelling of the text around them.
const (
	nonJoiner = 0x200c // ZWNJ
	joiner    = 0x200d // ZWJ
	asEmoji   = 0xfe0f // variation selector 16
	keycap    = 0x20e3
)

// Filter decides, from one character of a text to the next, which of those that are not seen stay:
//
//   - a joiner between two emojis
//   - a joiner or non-joiner between two letters of a script whose letters change their shapes by
//     it, as in Persian and Hindi
//   - a selector that makes an emoji of the sign before it
//
// The zero value is at the beginning of a text.
type Filter struct{ before rune } // character that stayed last

// Undecided reports whether the character behind r decides whether r stays. [Is] holds for r.
func (f *Filter) Undecided(r rune) bool {
	return r == joiner || r == nonJoiner || r == asEmoji && isKey(f.before)
}

// Keeps reports whether r stays; next is the character behind it, 0 at the end.
func (f *Filter) Keeps(r, next rune) bool {
	if Is(r) && !f.spells(r, next) {
		return false
	}
	f.before = r
	return true
}

func (f *Filter) spells(r, next rune) bool {
	switch r {
	case asEmoji:
		return isPicture(f.before) || isKey(f.before) && next == keycap
	case joiner:
		return (isPicture(f.before) || f.before == asEmoji) && isPicture(next) || isShaping(f.before) && isShaping(next)
	case nonJoiner:
		return isShaping(f.before) && isShaping(next)
	}
	return false
}

func isKey(r rune) bool { return r >= '0' && r <= '9' || r == '#' || r == '*' }

// isPicture reports whether r is a sign that is shown as an emoji or can be made one, or the colour
// of a skin.
func isPicture(r rune) bool {
	switch {
	case r < 0x80:
		return false
	case r == 0x203c, r == 0x2049, r == 0x3030, r == 0x303d, r >= 0x1f3fb && r <= 0x1f3ff:
		return true
	case r >= 0x2190 && r <= 0x2bff:
		return unicode.In(r, unicode.So, unicode.Sm)
	}
	return unicode.Is(unicode.So, r)
}

// shaping are the scripts whose letters change their shapes by what they are joined to.
var shaping = []*unicode.RangeTable{
	unicode.Arabic, unicode.Syriac, unicode.Nko, unicode.Mandaic, unicode.Mongolian, unicode.Devanagari, unicode.Bengali,
	unicode.Gurmukhi, unicode.Gujarati, unicode.Oriya, unicode.Tamil, unicode.Telugu, unicode.Kannada, unicode.Malayalam,
	unicode.Sinhala, unicode.Tibetan, unicode.Myanmar, unicode.Khmer,
}

func isShaping(r rune) bool {
	return r >= 0x600 && unicode.In(r, unicode.L, unicode.M) && unicode.In(r, shaping...)
}

// Strip leaves out characters that are not seen, and control characters other than tab and line
// break. Bytes that are not UTF-8 become U+FFFD.
func Strip(s string) string {
	var b strings.Builder
	b.Grow(len(s))
	var f Filter
	for i := 0; i < len(s); {
		r, n := utf8.DecodeRuneInString(s[i:])
		i += n
		if r != '\n' && r != '\t' && unicode.IsControl(r) {
			continue
		}
		next := rune(0)
		if i < len(s) {
			next, _ = utf8.DecodeRuneInString(s[i:])
		}
		if f.Keeps(r, next) {
			b.WriteRune(r)
		}
	}
	return b.String()
}

// Shows reports whether a person sees what r is. A space is seen; other white space, and signs that
// are blank, are not.
func Shows(r rune) bool { return unicode.IsPrint(r) && !Blank(r) && !Is(r) }

// Each yields the characters of s, and for each whether it shows or belongs to the spelling of its
// neighbours, as [Filter] decides.
func Each(s string) iter.Seq2[rune, bool] {
	return func(yield func(rune, bool) bool) {
		var f Filter
		for i, r := range s {
			_, n := utf8.DecodeRuneInString(s[i:])
			next := rune(0)
			if i+n < len(s) {
				next, _ = utf8.DecodeRuneInString(s[i+n:])
			}
			kept := f.Keeps(r, next)
			if !yield(r, Shows(r) || Is(r) && kept) {
				return
			}
		}
	}
}

// Hides returns the characters of s that do not show, tab and line break apart, each as U+NNNN.
func Hides(s string) []string {
	var list []string
	for _, r := range s {
		if r != '\n' && r != '\t' && !Shows(r) {
			list = append(list, fmt.Sprintf("%U", r))
		}
	}
	return list
}

// Spell writes s with Go's escapes for the characters that do not show.
func Spell(s string) string {
	if strings.IndexFunc(s, func(r rune) bool { return !Shows(r) }) < 0 {
		return s
	}
	var b strings.Builder
	for _, r := range s {
		if Shows(r) {
			b.WriteRune(r)
			continue
		}
		q := strconv.QuoteRuneToASCII(r)
		b.WriteString(q[1 : len(q)-1])
	}
	return b.String()
}

// Quote is a Go string literal of s in which every character shows.
func Quote(s string) string { return Spell(strconv.Quote(s)) }

// Word is s as one word of a line that a person reads, and no shell: unchanged if it is plain, else
// as [Quote] writes it.
func Word(s string) string {
	plain := func(r rune) bool { return r != ' ' && Shows(r) && !strings.ContainsRune("'\"\\;", r) }
	if s == "" || strings.ContainsFunc(s, func(r rune) bool { return !plain(r) }) {
		return Quote(s)
	}
	return s
}

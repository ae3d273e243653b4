package unseen

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Neutralize makes text of others harmless where jp puts it between tags of its own: see Defang.
func Neutralize(s string) string { return Defang(s, "response", "tool_result", "system") }

// Defang returns s with `&lt;` for each `<` that begins something which a reader could take for a
// tag of one of these names: opening or closing, whatever its case and width, and whatever space
// and unseen characters are in it. Names are in lower case. What is no UTF-8, or NUL, becomes
// U+FFFD.
func Defang(s string, names ...string) string {
	s = strings.ReplaceAll(strings.ToValidUTF8(s, "\uFFFD"), "\x00", "\uFFFD")
	if strings.IndexFunc(s, opens) < 0 {
		return s
	}
	var b strings.Builder
	for s != "" {
		i := strings.IndexFunc(s, opens)
		if i < 0 {
			break
		}
		_, n := utf8.DecodeRuneInString(s[i:])
		b.WriteString(s[:i])
		if rest := s[i+n:]; isTag(rest, names) {
			b.WriteString("&lt;")
		} else {
			b.WriteString(s[i : i+n])
		}
		s = s[i+n:]
	}
	b.WriteString(s)
	return b.String()
}

// opens reports whether r begins a tag: `<` in all its widths.
func opens(r rune) bool { return r == '<' || r == 0xfe64 || r == 0xff1c }

// isTag reports whether s, the text behind a `<`, begins with one of the names. It looks no further
// than to the next `<`.
func isTag(s string, names []string) bool {
	var word []rune
	longest := 0
	for _, name := range names {
		longest = max(longest, len(name))
	}
	for _, r := range s {
		r = narrow(r)
		switch {
		case blank(r), len(word) == 0 && (r == '/' || r == '\\'):
			if slices.Contains(names, string(word)) {
				return true
			}
			continue
		case r == '<':
			return slices.Contains(names, string(word))
		case r != '_' && !unicode.IsLetter(r) && !unicode.IsDigit(r):
			return slices.Contains(names, string(word))
		}
		if word = append(word, unicode.ToLower(unicode.ToUpper(r))); len(word) > longest {
			return false
		}
	}
	return slices.Contains(names, string(word))
}

// narrow is the plain form of a wide character.
func narrow(r rune) rune {
	switch {
	case opens(r):
		return '<'
	case r >= 0xff01 && r <= 0xff5e:
		return r - 0xff01 + '!'
	}
	return r
}

// blank reports whether a reader does not notice r.
func blank(r rune) bool {
	return unicode.IsSpace(r) || unicode.IsControl(r) || Blank(r) || Is(r)
}

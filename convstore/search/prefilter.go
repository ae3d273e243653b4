package search

import (
	"regexp/syntax"
	"strings"
	"unicode"
	"unicode/utf8"

	"jp/tools/jsondoc"
	"jp/tools/regex"
)

// prefilter tells from the stored bytes of an event that no line of it can match, without decoding
// it. It may let through what does not match in the end, but never keeps out what does.
//
// That rests on two things. The encoder writes every character of a string in exactly one way, so
// that a text which occurs in a string occurs, escaped, in the bytes; and what was not written that
// way, or folds to ASCII from outside of ASCII, is marked in the record as loose and always
// decoded.
//
// An empty prefilter lets everything through.
type prefilter []regex.Needle // whatever matches holds one of these

func newPrefilter(tree *syntax.Regexp) prefilter { return regex.Needles(tree, storedPieces) }

// passes reports whether the bytes of a body may hold a match.
func (p prefilter) passes(body []byte) bool {
	for i := range p {
		if p[i].Index(body) >= 0 {
			return true
		}
	}
	return len(p) == 0
}

// storedPieces cuts a text of a line into parts that must each occur in the stored bytes.
func storedPieces(text string, fold bool) []string {
	// Lines of JSON values have a ": " between name and value that the bytes do not have, and a
	// match may begin or end in the middle of it.
	cut := strings.Split(text, ": ")
	cut[0] = strings.TrimPrefix(cut[0], " ")
	cut[len(cut)-1] = strings.TrimSuffix(cut[len(cut)-1], ":")
	var pieces []string
	for _, part := range cut {
		if !fold {
			pieces = append(pieces, escapeJSON(part))
			continue
		}
		// Letters outside of ASCII have other forms of other lengths.
		for _, ascii := range strings.FieldsFunc(part, func(c rune) bool { return c >= utf8.RuneSelf && unicode.SimpleFold(c) != c }) {
			pieces = append(pieces, escapeJSON(ascii))
		}
	}
	return pieces
}

// escapeJSON returns a text as it is inside of an encoded string.
func escapeJSON(text string) string {
	b, err := jsondoc.Encode(text)
	if err != nil { // cannot be: strings always encode
		return ""
	}
	return string(b[1 : len(b)-1])
}

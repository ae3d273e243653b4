package search

import (
	"regexp/syntax"
	"strings"
	"unicode"
	"unicode/utf8"

	"jp/tools/jsondoc"
	"jp/tools/regex"
)

// prefilter rejects events by their stored bytes, without decoding them, if no line can match. It
// may let through an event that does not match, but never rejects one that does.
//
// This is correct for two reasons. The encoder writes every character of a string in exactly one
// way, so that a text of the string occurs, escaped, in the bytes. And an event is marked as loose,
// and always decoded, if its body was written in another way or has a character outside of ASCII
// that folds to ASCII.
//
// An empty prefilter lets everything through.
type prefilter []regex.Needle // every match contains one of these

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

// storedPieces splits a text of a line into parts that must each occur in the stored bytes.
func storedPieces(text string, fold bool) []string {
	// A line of a JSON value has ": " between name and value. The bytes do not have it, and a match
	// may begin or end in the middle of it.
	cut := strings.Split(text, ": ")
	cut[0] = strings.TrimPrefix(cut[0], " ")
	cut[len(cut)-1] = strings.TrimSuffix(cut[len(cut)-1], ":")
	var pieces []string
	for _, part := range cut {
		if !fold {
			pieces = append(pieces, escapeJSON(part))
			continue
		}
		// Letters outside of ASCII may have other cases with another length.
		for _, ascii := range strings.FieldsFunc(part, func(c rune) bool { return c >= utf8.RuneSelf && unicode.SimpleFold(c) != c }) {
			pieces = append(pieces, escapeJSON(ascii))
		}
	}
	return pieces
}

// escapeJSON returns a text as it is inside of an encoded string.
func escapeJSON(text string) string {
	b, err := jsondoc.Encode(text)
	if err != nil { // never happens: strings always encode
		return ""
	}
	return string(b[1 : len(b)-1])
}

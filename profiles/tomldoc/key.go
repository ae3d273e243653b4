package tomldoc

import (
	"strings"
	"unicode/utf8"
)

// JoinKey returns the text of a key for messages and the command line: its parts joined by dots,
// quoted where TOML quotes them.
func JoinKey(parts []string) string {
	var b strings.Builder
	for i, p := range parts {
		if i > 0 {
			b.WriteByte('.')
		}
		b.WriteString(QuotePart(p))
	}
	return b.String()
}

// QuotePart is the text of one part of a key. It leaves '*' bare, unlike TOML: it only means the
// defaults of tools.
func QuotePart(p string) string {
	if p == "*" || IsBareKey(p) {
		return p
	}
	return String(p)
}

// SplitKey reads a key as the command line has it: bare parts as in TOML, a bare *, and quoted
// parts. It reports false for a text that is no key.
func SplitKey(s string) ([]string, bool) {
	if !utf8.ValidString(s) {
		return nil, false
	}
	var parts []string
	for {
		part, rest := "*", strings.TrimPrefix(s, "*")
		if len(rest) == len(s) {
			var err error
			if part, rest, err = Part(s); err != nil {
				return nil, false
			}
		}
		if parts = append(parts, part); len(parts) > MaxNesting {
			return nil, false
		}
		if rest == "" {
			return parts, true
		}
		var more bool
		if s, more = strings.CutPrefix(rest, "."); !more {
			return nil, false
		}
	}
}

package profiles

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"jp/profiles/tomldoc"
)

// A key is its parts; its text form is TOML's: parts joined by dots, quoted where TOML quotes them.

func joinKey(parts []string) string {
	var b strings.Builder
	for i, p := range parts {
		if i > 0 {
			b.WriteByte('.')
		}
		b.WriteString(quotePart(p))
	}
	return b.String()
}

// quotePart leaves '*' bare, unlike TOML: it stands only for the defaults of tools.
func quotePart(p string) string {
	if p == "*" {
		return p
	}
	bare := p != ""
	for i := range len(p) {
		bare = bare && tomldoc.IsBare(p[i])
	}
	if bare {
		return p
	}
	return tomlString(p)
}

// tomlString writes a basic string. strconv.Quote has escapes that TOML has not.
func tomlString(p string) string {
	var b strings.Builder
	b.WriteByte('"')
	for _, r := range p {
		switch {
		case r == '"' || r == '\\':
			b.WriteByte('\\')
			b.WriteRune(r)
		case r == '\n':
			b.WriteString(`\n`)
		case r == '\t':
			b.WriteString(`\t`)
		case !strconv.IsPrint(r):
			fmt.Fprintf(&b, `\U%08X`, r)
		default:
			b.WriteRune(r)
		}
	}
	b.WriteByte('"')
	return b.String()
}

// splitKey reads a key as the command line has it: bare parts as in TOML, a bare *, and quoted parts. It
// reports false for what is no key.
func splitKey(s string) ([]string, bool) {
	if !utf8.ValidString(s) {
		return nil, false
	}
	var parts []string
	for {
		part, rest := "*", strings.TrimPrefix(s, "*")
		if len(rest) == len(s) {
			var err error
			if part, rest, err = tomldoc.Part(s); err != nil {
				return nil, false
			}
		}
		if parts = append(parts, part); len(parts) > tomldoc.MaxNesting {
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

// printable is a name from outside, fit for a message.
func printable(s string) string {
	if isName(s) {
		return s
	}
	return strconv.QuoteToGraphic(tomldoc.OneLine(s))
}

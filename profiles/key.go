package profiles

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
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
		bare = bare && isBare(p[i])
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
	l := locator{src: s}
	var parts []string
	for {
		if !l.take('*') {
			part, err := l.part()
			if err != nil {
				return nil, false
			}
			parts = append(parts, part)
		} else {
			parts = append(parts, "*")
		}
		switch {
		case len(parts) > maxNesting:
			return nil, false
		case l.at == len(s):
			return parts, true
		case !l.take('.'):
			return nil, false
		}
	}
}

// unescape reads the inside of a basic string, the escapes of TOML 1.1 included.
func unescape(s string) (string, error) {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] != '\\' {
			b.WriteByte(s[i])
			continue
		}
		if i++; i == len(s) {
			return "", errSyntax
		}
		if j := strings.IndexByte(`btnfre"\`, s[i]); j >= 0 {
			b.WriteByte("\b\t\n\f\r\x1b\"\\"[j])
			continue
		}
		digits := map[byte]int{'x': 2, 'u': 4, 'U': 8}[s[i]]
		if digits == 0 || i+digits >= len(s) {
			return "", errSyntax
		}
		n, err := strconv.ParseUint(s[i+1:i+1+digits], 16, 32)
		if err != nil || !utf8.ValidRune(rune(n)) {
			return "", errSyntax
		}
		b.WriteRune(rune(n))
		i += digits
	}
	return b.String(), nil
}

// printable is a name from outside, fit for a message.
func printable(s string) string {
	if isName(s) {
		return s
	}
	return strconv.QuoteToGraphic(oneLine(s))
}

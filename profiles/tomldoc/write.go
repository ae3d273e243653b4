package tomldoc

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"jp/tools/jsondoc"
	"jp/tools/unseen"
)

// String writes a basic string. strconv.Quote has escapes that TOML does not have.
func String(p string) string {
	var b strings.Builder
	b.WriteByte('"')
	for r, seen := range unseen.Each(p) {
		switch {
		case r == '"' || r == '\\':
			b.WriteByte('\\')
			b.WriteRune(r)
		case r == '\n':
			b.WriteString(`\n`)
		case r == '\t':
			b.WriteString(`\t`)
		case !seen:
			escape(&b, r)
		default:
			b.WriteRune(r)
		}
	}
	b.WriteByte('"')
	return b.String()
}

// escape writes a character that a reader of the text would not see, or not for what it is.
func escape(b *strings.Builder, r rune) {
	if r > 0xffff {
		fmt.Fprintf(b, `\U%08X`, r)
	} else {
		fmt.Fprintf(b, `\u%04X`, r)
	}
}

// Lines writes a text as a multi-line string: what a person can read and change.
func Lines(s string) string {
	var b strings.Builder
	b.WriteString("\"\"\"\n")
	last := rune(0)
	body, quote := strings.CutSuffix(s, `"`)
	for r, seen := range unseen.Each(body) {
		switch {
		case r == '\\' || r == '"' && last == '"':
			b.WriteByte('\\')
			b.WriteRune(r)
		case r == '\n' || r == '\t':
			b.WriteRune(r)
		case !seen:
			escape(&b, r)
		default:
			b.WriteRune(r)
		}
		last = r
	}
	if quote {
		b.WriteString(`\"`)
	}
	b.WriteString("\n\"\"\"")
	return b.String()
}

// Float writes a number as TOML has floats.
func Float(x float64) string {
	s := strconv.FormatFloat(x, 'f', -1, 64)
	if !strings.Contains(s, ".") {
		s += ".0"
	}
	return s
}

// Key writes a key for a TOML text; unlike JoinKey it quotes '*' too.
func Key(parts []string) string {
	text := make([]string, len(parts))
	for i, p := range parts {
		if text[i] = QuotePart(p); p == "*" {
			text[i] = "'*'"
		}
	}
	return strings.Join(text, ".")
}

// Inline writes a value on one line.
func Inline(v any) string {
	switch v := v.(type) {
	case string:
		return String(v)
	case int64:
		return strconv.FormatInt(v, 10)
	case []any:
		items := make([]string, len(v))
		for i := range v {
			items[i] = Inline(v[i])
		}
		return "[" + strings.Join(items, ", ") + "]"
	case map[string]any:
		if len(v) == 0 {
			return "{}"
		}
		pairs := make([]string, 0, len(v))
		for _, k := range slices.Sorted(maps.Keys(v)) {
			pairs = append(pairs, Key([]string{k})+" = "+Inline(v[k]))
		}
		return "{ " + strings.Join(pairs, ", ") + " }"
	}
	return string(Canonical(v)) // a bool or a float, which JSON writes as TOML does
}

// Canonical writes a tree as JSON with sorted keys. A float keeps a point or an exponent, so that
// it is read back as a float.
func Canonical(v any) []byte { return appendCanonical(nil, v) }

func appendCanonical(b []byte, v any) []byte {
	switch v := v.(type) {
	case nil:
		return append(b, "null"...)
	case bool:
		return strconv.AppendBool(b, v)
	case int64:
		return strconv.AppendInt(b, v, 10)
	case float64:
		s := strconv.FormatFloat(v, 'g', -1, 64)
		if !strings.ContainsAny(s, ".e") {
			s += ".0"
		}
		return append(b, s...)
	case []any:
		b = append(b, '[')
		for i, item := range v {
			if i > 0 {
				b = append(b, ',')
			}
			b = appendCanonical(b, item)
		}
		return append(b, ']')
	case map[string]any:
		b = append(b, '{')
		for i, k := range slices.Sorted(maps.Keys(v)) {
			if i > 0 {
				b = append(b, ',')
			}
			b = appendCanonical(b, k)
			b = append(b, ':')
			b = appendCanonical(b, v[k])
		}
		return append(b, '}')
	}
	text, _ := jsondoc.Encode(v) // a string, which cannot fail
	return append(b, text...)
}

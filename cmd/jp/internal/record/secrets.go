package record

import (
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"

	"jp/cmd/jp/internal/console"
	"jp/cmd/jp/internal/model"
	"jp/cmd/jp/internal/otel"
	"jp/cmd/jp/internal/workspace"
	"jp/tools/environ"
)

// cover replaces secrets by their names.
type cover struct {
	secrets map[string]string // name of the variable, by value
	seen    map[string]bool   // names of the secrets that were found
}

// leastSecret is the shortest value of a variable, in bytes, that counts as a secret and not as a
// word.
const leastSecret = 8

// secretName matches the names of variables that usually hold secrets. Names that begin with JP_
// are settings.
var secretName = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`(?i)PASSWORD|PASSWD|PASSPHRASE|SECRET|CREDENTIAL|COOKIE|APIKEY|TOKEN($|_)|(^|_)(KEYS?|PAT)($|_)|._PWD$`)
})

// IsSecret reports whether the name of a variable says that its value is a secret.
func IsSecret(name string) bool {
	return secretName().MatchString(name) && !strings.HasPrefix(name, "JP_") || environ.IsCollectorKey(name)
}

// SecretNames returns the names of the variables that hold secrets.
func SecretNames(con *console.Console, ws *workspace.Workspace) (names []string, err error) {
	secret, err := secrets(ws)
	if err != nil {
		return nil, err
	}
	for _, kv := range con.Env.Environ {
		if name, _, _ := strings.Cut(kv, "="); secret(name) {
			names = append(names, name)
		}
	}
	return names, nil
}

// secrets returns what says of a variable whether it holds a secret: the keys of all providers do,
// the headers for a collector of traces, and variables with the name of a secret.
func secrets(ws *workspace.Workspace) (secret func(name string) bool, err error) {
	names := map[string]bool{}
	for _, b := range model.Builtins() {
		for _, name := range b.Keys {
			names[name] = true
		}
	}
	m, err := ws.Machine()
	if err != nil {
		return nil, err
	}
	for _, p := range m.Providers.LLM {
		names[p.APIKeyEnv] = true
	}
	return func(name string) bool { return names[name] || IsSecret(name) }, nil
}

// covers returns a cover for the secrets of this environment.
func covers(con *console.Console, ws *workspace.Workspace) (*cover, error) {
	secret, err := secrets(ws)
	if err != nil {
		return nil, err
	}
	c := &cover{secrets: map[string]string{}, seen: map[string]bool{}}
	for _, kv := range con.Env.Environ {
		name, value, _ := strings.Cut(kv, "=")
		if !secret(name) {
			continue
		}
		values := []string{strings.TrimSpace(value)}
		if environ.IsCollectorKey(name) {
			values = append(values, otel.HeaderSecrets(value)...)
		}
		for _, v := range values {
			if len(v) >= leastSecret {
				c.secrets[v] = name
			}
		}
	}
	return c, nil
}

// clean replaces each secret in text by [NAME], the longest first, because one may hold another. It
// also finds secrets that are escaped in JSON strings, at any depth of JSON in JSON, and with more
// escapes than needed.
func (c *cover) clean(text string) string {
	plain := unescaped(text)
	for _, value := range slices.SortedFunc(maps.Keys(c.secrets), func(a, b string) int { return len(b) - len(a) }) {
		want := unescaped(value).text
		if want == "" || !strings.Contains(plain.text, want) {
			continue
		}
		name := c.secrets[value]
		c.seen[name] = true
		var b strings.Builder
		from, n := 0, 0
		for part := range strings.SplitSeq(plain.text, want) {
			if n > 0 { // part comes after a secret
				start, end := plain.span(n-len(want), n)
				b.WriteString(text[from:start] + "[" + name + "]")
				from = end
			}
			n += len(part) + len(want)
		}
		text = b.String() + text[from:]
		plain = unescaped(text)
	}
	return text
}

// plainText is a text without the escapes of JSON. starts and ends have the position of each byte
// in the escaped text; nil if there are no escapes.
type plainText struct {
	text         string
	starts, ends []int32
}

// span returns the position of the bytes from i to j, at least one, in the escaped text.
func (p plainText) span(i, j int) (start, end int) {
	if p.starts == nil {
		return i, j
	}
	return int(p.starts[i]), int(p.ends[j-1])
}

// unescaped replaces escapes by their characters, at every level of escaping. It drops all other
// backslashes: in a row of them, the number of levels decides which one escapes which.
func unescaped(text string) plainText {
	if strings.IndexByte(text, '\\') < 0 {
		return plainText{text: text}
	}
	var b []byte
	var p plainText
	for i := 0; i < len(text); {
		start := i
		for i < len(text) && text[i] == '\\' {
			i++
		}
		if i == len(text) {
			break
		}
		if i == start {
			b = append(b, text[i])
			i++
		} else if r, used := escapedRune(text[i:]); used > 0 {
			if r != '\\' {
				b = utf8.AppendRune(b, r)
			}
			i += used
		}
		for len(p.starts) < len(b) {
			p.starts, p.ends = append(p.starts, int32(start)), append(p.ends, int32(i))
		}
	}
	p.text = string(b)
	return p
}

// escapedRune returns the character of the text after the backslash of an escape; 0 = not an
// escape.
func escapedRune(s string) (r rune, used int) {
	if k := strings.IndexByte(`"/bfnrt`, s[0]); k >= 0 {
		return rune("\"/\b\f\n\r\t"[k]), 1
	}
	if r, used = hexRune(s); !utf16.IsSurrogate(r) {
		return r, used
	}
	rest := strings.TrimLeft(s[used:], `\`)
	low, more := hexRune(rest)
	if both := utf16.DecodeRune(r, low); both != unicode.ReplacementChar && len(rest) < len(s)-used {
		return both, len(s) - len(rest) + more
	}
	return r, used
}

// hexRune reads the letter u and four digits.
func hexRune(s string) (r rune, used int) {
	if len(s) < 5 || s[0] != 'u' {
		return 0, 0
	}
	n, err := strconv.ParseUint(s[1:5], 16, 16)
	if err != nil {
		return 0, 0
	}
	return rune(n), 5
}

// found lists the names of the secrets that were found so far.
func (c *cover) found() []string { return slices.Sorted(maps.Keys(c.seen)) }

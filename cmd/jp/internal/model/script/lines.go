package script

import (
	"bytes"
	"strings"

	"github.com/BurntSushi/toml"
)

// lines knows where the tables and keys of a TOML file stand. The decoder does not tell, so
// the file is read once more, line by line, with an eye on strings that go over several. It is
// only for messages about files that are valid TOML.
type lines struct {
	rules []int // of the [[rule]] headers
	keys  []keyLine
}

type keyLine struct {
	line int
	key  string // dotted, without quotes and spaces, with its table
}

// rule returns the line of the rule with the given index, 0 = unknown.
func (l lines) rule(i int) int {
	if i < len(l.rules) {
		return l.rules[i]
	}
	return 0
}

// in returns the line of a key in the rule with the given index, or else of the rule.
func (l lines) in(i int, key string) int {
	from, to := l.rule(i), l.rule(i+1)
	for _, e := range l.keys {
		if e.line > from && (to == 0 || e.line < to) && (e.key == key || strings.HasPrefix(key, e.key+".")) {
			return e.line
		}
	}
	return from
}

// of returns the first line where a key or a table of this name stands, 0 = unknown.
func (l lines) of(k toml.Key) int {
	name := strings.Join(k, ".")
	for _, e := range l.keys {
		if e.key == name || strings.HasPrefix(e.key, name+".") {
			return e.line
		}
	}
	// A key of an inline table stands where the table does.
	for n := len(k) - 1; n > 0; n-- {
		if line := l.of(k[:n]); line > 0 && n > 1 {
			return line
		}
	}
	return 0
}

func scan(data []byte) lines {
	var (
		out   lines
		table string
		open  string // the quotes of a string that began on an earlier line
		depth int    // of brackets in values
	)
	n := 0
	for line := range bytes.Lines(data) {
		n++
		text := string(line)
		if open == "" && depth == 0 {
			trimmed := strings.TrimSpace(text)
			switch {
			case strings.HasPrefix(trimmed, "["):
				name, _, _ := strings.Cut(strings.TrimLeft(trimmed, "["), "]")
				table = bare(name)
				if table == "rule" {
					out.rules = append(out.rules, n)
				}
				out.keys = append(out.keys, keyLine{n, table})
				continue // a header holds no strings over several lines
			case trimmed != "" && trimmed[0] != '#':
				if name, _, ok := strings.Cut(trimmed, "="); ok {
					key := bare(name)
					if table != "" {
						key = table + "." + key
					}
					out.keys = append(out.keys, keyLine{n, key})
				}
			}
		}
		open, depth = follow(text, open, depth)
	}
	return out
}

// bare removes quotes and spaces from a key.
func bare(key string) string {
	return strings.NewReplacer(`"`, "", "'", "", " ", "", "\t", "").Replace(key)
}

// follow goes through a line and returns which string and how many brackets are open at its end.
func follow(text, open string, depth int) (string, int) {
	for i := 0; i < len(text); {
		rest := text[i:]
		if open != "" {
			switch {
			case rest[0] == '\\' && open[0] == '"':
				i += 2
			case strings.HasPrefix(rest, open):
				i += len(open)
				// Up to two quotes may stand before the closing three.
				for len(open) == 3 && i < len(text) && text[i] == open[0] {
					i++
				}
				open = ""
			default:
				i++
			}
			continue
		}
		switch rest[0] {
		case '#':
			return "", depth
		case '"', '\'':
			open = rest[:1]
			if triple := strings.Repeat(open, 3); strings.HasPrefix(rest, triple) {
				open = triple
			}
			i += len(open)
			continue
		case '[', '{':
			depth++
		case ']', '}':
			depth--
		}
		i++
	}
	if len(open) == 1 { // cannot go over a line
		open = ""
	}
	return open, max(depth, 0)
}

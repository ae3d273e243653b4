package tools

import (
	"fmt"
	"strings"

	"github.com/BurntSushi/toml"
)

// keyLines finds the line of each key in a TOML text that a decoder has
// accepted: by dotted path, with [n] for the elements of lists. A table that
// only its keys make has the line of the first of them. Decoders do not tell
// positions; this reads just enough of TOML to find them.
func keyLines(src []byte) map[string]int {
	s := keyScanner{src: string(src), line: 1, lines: map[string]int{}, tables: map[string]int{}}
	prefix := ""
	for s.skip(" \t\r\n"); s.src != ""; s.skip(" \t\r\n") {
		if s.src[0] != '[' {
			if !s.pair(prefix) {
				break
			}
			continue
		}
		array := strings.HasPrefix(s.src, "[[")
		s.next(1)
		if array {
			s.next(1)
		}
		parts, ok := s.key()
		if !ok {
			break
		}
		prefix = s.header(parts, array)
		s.until("\n")
	}
	return s.lines
}

type keyScanner struct {
	src    string // what is left
	line   int
	lines  map[string]int
	tables map[string]int // elements so far of each [[array]]
}

func (s *keyScanner) next(n int) {
	n = min(n, len(s.src))
	s.line += strings.Count(s.src[:n], "\n")
	s.src = s.src[n:]
}

// skip passes over the characters in set, and over comments.
func (s *keyScanner) skip(set string) {
	for s.src != "" {
		switch {
		case s.src[0] == '#':
			s.until("\n")
		case strings.IndexByte(set, s.src[0]) >= 0:
			s.next(1)
		default:
			return
		}
	}
}

// until passes over what stands before the next of the characters in set.
func (s *keyScanner) until(set string) {
	n := strings.IndexAny(s.src, set)
	if n < 0 {
		n = len(s.src)
	}
	s.next(n)
}

// mark records the line of a path, once.
func (s *keyScanner) mark(path string) {
	if path != "" && s.lines[path] == 0 {
		s.lines[path] = s.line
	}
}

// header is the path of the table that a header begins. The tables around it
// may be elements of arrays: [[a]] [a.b] is a[0].b.
func (s *keyScanner) header(parts []string, array bool) string {
	path := ""
	for i, part := range parts {
		path = dotted(path, part)
		s.mark(path)
		n := s.tables[path]
		if array && i == len(parts)-1 {
			s.tables[path]++
			n++
		}
		if n > 0 {
			path = fmt.Sprintf("%s[%d]", path, n-1)
			s.mark(path)
		}
	}
	return path
}

func dotted(path, part string) string {
	if path == "" {
		return part
	}
	return path + "." + part
}

// key reads a dotted key.
func (s *keyScanner) key() (parts []string, ok bool) {
	for {
		s.skip(" \t")
		var part string
		switch {
		case s.src == "":
			return nil, false
		case s.src[0] == '"' || s.src[0] == '\'':
			raw := s.str()
			part = strings.Trim(raw, raw[:1])
			var pair map[string]bool // by the decoder, whose escapes are not those of Go
			if toml.Unmarshal([]byte(raw+"=true"), &pair) == nil {
				for part = range pair {
				}
			}
		default:
			n := strings.IndexAny(s.src, " \t.=]\r\n")
			if n <= 0 {
				return nil, false
			}
			part = s.src[:n]
			s.next(n)
		}
		parts = append(parts, part)
		s.skip(" \t")
		if s.src == "" || s.src[0] != '.' {
			return parts, true
		}
		s.next(1)
	}
}

// pair reads key = value.
func (s *keyScanner) pair(prefix string) bool {
	parts, ok := s.key()
	if !ok || s.src == "" || s.src[0] != '=' {
		return false
	}
	path := prefix
	for _, part := range parts {
		path = dotted(path, part)
		s.mark(path)
	}
	s.next(1)
	s.skip(" \t")
	s.value(path)
	return true
}

// value passes over the value of path and records the keys in it.
func (s *keyScanner) value(path string) {
	if s.src == "" {
		return
	}
	switch s.src[0] {
	case '"', '\'':
		s.str()
	case '[':
		s.next(1)
		for i := 0; ; i++ {
			s.skip(" \t\r\n,")
			if s.src == "" || s.src[0] == ']' {
				s.next(1)
				return
			}
			at := fmt.Sprintf("%s[%d]", path, i)
			s.mark(at)
			before := len(s.src)
			if s.value(at); len(s.src) == before {
				return
			}
		}
	case '{':
		s.next(1)
		for {
			s.skip(" \t\r\n,")
			if s.src == "" || s.src[0] == '}' || !s.pair(path) {
				s.next(1)
				return
			}
		}
	default:
		s.until(",]}\n#")
	}
}

// str passes over a string of any kind and returns it with its quotes.
func (s *keyScanner) str() string {
	quote := s.src[:1]
	open := 1
	if strings.HasPrefix(s.src, strings.Repeat(quote, 3)) {
		open = 3
	}
	end := strings.Repeat(quote, open)
	for i := open; i < len(s.src); i++ {
		switch {
		case quote == `"` && s.src[i] == '\\':
			i++
		case strings.HasPrefix(s.src[i:], end):
			i += open
			for n := 0; open == 3 && n < 2 && strings.HasPrefix(s.src[i:], quote); n++ {
				i++ // up to two quotes may stand before the closing three
			}
			raw := s.src[:i]
			s.next(i)
			return raw
		}
	}
	raw := s.src
	s.next(len(s.src))
	return raw
}

package profiles

import "strings"

// statement is one table header or one pair of a TOML text, by byte offsets in the text.
type statement struct {
	header bool
	list   bool     // of a header: [[...]]
	path   []string // from the root: of the table, or of the key
	raw    string   // the key as written, without the space around its dots
	start  int      // of its first byte
	value  int      // of a pair: where the value begins
	end    int      // behind its last byte
	inList bool     // it is, or lies in, an item of a list of tables: path names no single place
}

// statements reads a text that the decoder has accepted, without a byte order mark.
func statements(src string) ([]statement, error) {
	l := locator{src: src, line: 1}
	var found []statement
	var table []string
	inList, lists := false, map[string]bool{}
	for {
		l.blank(true)
		if l.at == len(src) {
			return found, nil
		}
		s := statement{start: l.at}
		if src[l.at] == '[' {
			s.header, s.list = true, strings.HasPrefix(src[l.at:], "[[")
			l.at++
			if s.list {
				l.at++
			}
			var err error
			if s.path, s.raw, err = l.key(']'); err != nil || s.list && !l.take(']') {
				return nil, errSyntax
			}
			if s.list {
				lists[joinKey(s.path)] = true
			}
			inList = false
			for n := range s.path {
				inList = inList || lists[joinKey(s.path[:n+1])]
			}
			table = s.path
		} else {
			parts, raw, err := l.key('=')
			if err != nil {
				return nil, err
			}
			s.path, s.raw = append(table[:len(table):len(table)], parts...), raw
			if s.value, err = l.skip(); err != nil {
				return nil, err
			}
		}
		s.inList = inList
		s.end = s.start + len(strings.TrimRight(src[s.start:l.at], " \t\r"))
		found = append(found, s)
	}
}

// key reads a dotted key and the end that follows it.
func (l *locator) key(end byte) (parts []string, raw string, err error) {
	for {
		l.blank(false)
		start := l.at
		part, err := l.part()
		if err != nil {
			return nil, "", err
		}
		if parts, raw = append(parts, part), raw+l.src[start:l.at]; len(parts) > maxNesting {
			return nil, "", errNesting
		}
		l.blank(false)
		switch {
		case l.take(end):
			return parts, raw, nil
		case !l.take('.'):
			return nil, "", errSyntax
		}
		raw += "."
	}
}

// skip goes over a value and returns where it begins.
func (l *locator) skip() (start int, err error) {
	l.blank(false)
	start = l.at
	return start, l.value(&mark{}, 0)
}

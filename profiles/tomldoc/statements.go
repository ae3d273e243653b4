package tomldoc

import (
	"fmt"
	"strings"
)

// Statement is one table header or one pair of a TOML text, by byte offsets in the text.
type Statement struct {
	Header bool
	List   bool     // of a header: [[...]]
	Path   []string // from the root: of the table, or of the key
	Raw    string   // the key as written, without the space around its dots
	Start  int      // of its first byte
	Value  int      // of a pair: where the value begins
	End    int      // behind its last byte
	InList bool     // it is an item of a list of tables, or in one: Path names no single place
}

// Statements reads a text that Decode has accepted, without a byte order mark.
func Statements(src string) ([]Statement, error) {
	l := locator{src: src, line: 1}
	var found []Statement
	var table []string
	inList, lists := false, map[string]bool{}
	for {
		l.blank(true)
		if l.at == len(src) {
			return found, nil
		}
		s := Statement{Start: l.at}
		if src[l.at] == '[' {
			s.Header, s.List = true, strings.HasPrefix(src[l.at:], "[[")
			l.at++
			if s.List {
				l.at++
			}
			var err error
			if s.Path, s.Raw, err = l.key(']'); err != nil || s.List && !l.take(']') {
				return nil, errSyntax
			}
			if s.List {
				lists[path(s.Path)] = true
			}
			inList = false
			for n := range s.Path {
				inList = inList || lists[path(s.Path[:n+1])]
			}
			table = s.Path
		} else {
			parts, raw, err := l.key('=')
			if err != nil {
				return nil, err
			}
			s.Path, s.Raw = append(table[:len(table):len(table)], parts...), raw
			if s.Value, err = l.skip(); err != nil {
				return nil, err
			}
		}
		s.InList = inList
		s.End = s.Start + len(strings.TrimRight(src[s.Start:l.at], " \t\r"))
		found = append(found, s)
	}
}

// path is a key as one text, different for every key.
func path(parts []string) string { return fmt.Sprintf("%q", parts) }

// InlinePairs reads the inline table that opens at the offset open of a text that Decode has
// accepted. The paths of its pairs begin in the table. end is the offset of the closing brace.
func InlinePairs(src string, open int) (pairs []Statement, end int, err error) {
	l := locator{src: src, at: open + 1}
	for {
		l.blank(true)
		if l.take('}') {
			return pairs, l.at - 1, nil
		}
		s := Statement{Start: l.at}
		if s.Path, s.Raw, err = l.key('='); err != nil {
			return nil, 0, err
		}
		if s.Value, err = l.skip(); err != nil {
			return nil, 0, err
		}
		s.End = s.Value + len(strings.TrimRight(src[s.Value:l.at], " \t\r"))
		pairs = append(pairs, s)
		l.blank(true)
		if !l.take(',') && (l.at == len(src) || src[l.at] != '}') {
			return nil, 0, errSyntax
		}
	}
}

// Part reads one part of a key, bare or quoted, at the beginning of s.
func Part(s string) (part, rest string, err error) {
	l := locator{src: s}
	if part, err = l.part(); err != nil {
		return "", "", err
	}
	return part, s[l.at:], nil
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
		if parts, raw = append(parts, part), raw+l.src[start:l.at]; len(parts) > MaxNesting {
			return nil, "", ErrNesting
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
	return start, l.value(&Mark{}, 0)
}

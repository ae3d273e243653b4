package tomldoc

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// MaxNesting is the most levels that a key can have: its parts, and the lists and inline tables
// around it. The decoder recurses into them, and for each key it walks them from the top for every
// part. Without a bound, a file of 1 MiB can take it minutes, or all memory.
const MaxNesting = 24

// Faults that no document may have, in whichever format it is written.
var (
	ErrNesting = errors.New("nested deeper than 24 levels")
	// ErrEmptyKey: the decoder loses values below an empty key, and nothing here needs one.
	ErrEmptyKey = errors.New("a key must not be empty")
)

// Mark is the position of a key or list item, and of what is below it.
type Mark struct {
	Line  int // from 1
	Keys  map[string]*Mark
	Items []*Mark
}

// Key returns the mark of a key below m. It makes one for a new key.
func (m *Mark) Key(name string, line int) *Mark {
	k := m.Keys[name]
	if k == nil {
		if m.Keys == nil {
			m.Keys = map[string]*Mark{}
		}
		k = &Mark{Line: line}
		m.Keys[name] = k
	}
	return k
}

// Lines returns the line of each key below m: by dotted path without quotes, with [n] for the items
// of lists. If two keys have the same path in this form, the line is that of one of them. A nil
// Mark has none.
func (m *Mark) Lines() map[string]int {
	lines := map[string]int{}
	if m != nil {
		m.lines(lines, "")
	}
	return lines
}

// At returns the line of the value at parts below m, or of the nearest table or list around it; a
// number is an item of a list. A nil Mark has line 0.
func (m *Mark) At(parts []string) (line int) {
	for m != nil {
		line = m.Line
		if len(parts) == 0 {
			break
		}
		next := m.Keys[parts[0]]
		if i, err := strconv.Atoi(parts[0]); next == nil && err == nil && i >= 0 && i < len(m.Items) {
			next = m.Items[i]
		}
		m, parts = next, parts[1:]
	}
	return line
}

// Nearest returns the line of the key at path below m, or of the nearest table around it. In a list
// of tables it is the first item that has the key.
func (m *Mark) Nearest(path ...string) int {
	for n := len(path); n > 0; n-- {
		if k := m.find(path[:n]); k != nil {
			return k.Line
		}
	}
	return m.Line
}

func (m *Mark) find(path []string) *Mark {
	if len(path) == 0 {
		return m
	}
	if k := m.Keys[path[0]]; k != nil {
		return k.find(path[1:])
	}
	for _, item := range m.Items {
		if k := item.find(path); k != nil {
			return k
		}
	}
	return nil
}

func (m *Mark) lines(into map[string]int, path string) {
	for name, k := range m.Keys {
		at := name
		if path != "" {
			at = path + "." + name
		}
		into[at] = k.Line
		k.lines(into, at)
	}
	for i, k := range m.Items {
		at := fmt.Sprintf("%s[%d]", path, i)
		into[at] = k.Line
		k.lines(into, at)
	}
}

// open is where keys below m go: the last item when m is a list of tables.
func (m *Mark) open() *Mark {
	if n := len(m.Items); n > 0 {
		return m.Items[n-1]
	}
	return m
}

// locate returns the marks of a TOML document. If the document is not valid TOML, it returns the
// marks up to about the mistake, which the decoder reports. The error, an *Error, is for text that
// the decoder must not get.
func locate(src string) (*Mark, error) {
	l := locator{src: strings.TrimPrefix(src, "\ufeff"), line: 1}
	root := &Mark{Line: 1}
	if err := l.document(root); err == ErrNesting || err == ErrEmptyKey {
		return nil, &Error{Line: l.line, Msg: err.Error()}
	}
	return root, nil
}

// errSyntax ends the scan; the decoder returns the error itself.
var errSyntax = errors.New("not valid TOML")

type locator struct {
	src  string
	at   int
	line int
}

func (l *locator) document(root *Mark) error {
	table, depth := root, 0
	for {
		l.blank(true)
		if l.at == len(l.src) {
			return nil
		}
		var err error
		if l.src[l.at] == '[' {
			table, depth, err = l.header(root)
		} else {
			err = l.pair(table, depth)
		}
		if err != nil {
			return err
		}
	}
}

// header reads [a.b] or [[a.b]] and returns the table it opens and the levels down to it.
func (l *locator) header(root *Mark) (*Mark, int, error) {
	line := l.line
	list := strings.HasPrefix(l.src[l.at:], "[[")
	l.at++
	if list {
		l.at++
	}
	parts, err := l.parts(']', 0)
	if err != nil {
		return nil, 0, err
	}
	if list && !l.take(']') {
		return nil, 0, errSyntax
	}
	at := root
	for _, p := range parts[:len(parts)-1] {
		at = at.Key(p, line).open()
	}
	k := at.Key(parts[len(parts)-1], line)
	if !list {
		k.Line = line // the table may have been implied by an earlier header
		return k, len(parts), nil
	}
	item := &Mark{Line: line}
	k.Items = append(k.Items, item)
	return item, len(parts), nil
}

// pair reads `key = value` into table.
func (l *locator) pair(table *Mark, depth int) error {
	line := l.line
	parts, err := l.parts('=', depth)
	if err != nil {
		return err
	}
	for _, p := range parts {
		table = table.Key(p, line)
	}
	return l.value(table, depth+len(parts))
}

// parts reads a dotted key, depth levels down, and the end that follows it.
func (l *locator) parts(end byte, depth int) ([]string, error) {
	var parts []string
	for {
		l.blank(false)
		part, err := l.part()
		if err != nil {
			return nil, err
		}
		if parts = append(parts, part); depth+len(parts) > MaxNesting {
			return nil, ErrNesting
		}
		l.blank(false)
		switch {
		case l.take(end):
			return parts, nil
		case !l.take('.'):
			return nil, errSyntax
		}
	}
}

func (l *locator) part() (string, error) {
	start := l.at
	if l.at < len(l.src) && (l.src[l.at] == '"' || l.src[l.at] == '\'') {
		quote := l.src[l.at]
		if err := l.single(); err != nil {
			return "", err
		}
		raw := l.src[start+1 : l.at-1]
		if raw == "" {
			return "", ErrEmptyKey
		}
		if quote == '"' {
			return unescape(raw)
		}
		return raw, nil
	}
	for l.at < len(l.src) && IsBare(l.src[l.at]) {
		l.at++
	}
	if l.at == start {
		return "", errSyntax
	}
	return l.src[start:l.at], nil
}

func (l *locator) value(m *Mark, depth int) error {
	l.blank(false)
	if l.at == len(l.src) {
		return errSyntax
	}
	switch l.src[l.at] {
	case '"', '\'':
		return l.quoted()
	case '[':
		return l.list(m, depth+1)
	case '{':
		return l.inline(m, depth)
	}
	// A number, date or boolean goes up to what can follow a value.
	for l.at < len(l.src) && !strings.ContainsRune(",]}#\n", rune(l.src[l.at])) {
		l.at++
	}
	return nil
}

func (l *locator) list(m *Mark, depth int) error {
	if depth > MaxNesting {
		return ErrNesting
	}
	l.at++
	for {
		l.blank(true)
		if l.take(']') {
			return nil
		}
		item := &Mark{Line: l.line}
		m.Items = append(m.Items, item)
		if err := l.value(item, depth); err != nil {
			return err
		}
		l.blank(true)
		if !l.take(',') {
			if l.take(']') {
				return nil
			}
			return errSyntax
		}
	}
}

func (l *locator) inline(m *Mark, depth int) error {
	l.at++
	for {
		l.blank(true)
		if l.take('}') {
			return nil
		}
		if err := l.pair(m, depth); err != nil {
			return err
		}
		l.blank(true)
		if !l.take(',') {
			if l.take('}') {
				return nil
			}
			return errSyntax
		}
	}
}

// quoted skips a string of any of the four kinds.
func (l *locator) quoted() error {
	if end := strings.Repeat(l.src[l.at:l.at+1], 3); strings.HasPrefix(l.src[l.at:], end) {
		return l.multiline(end)
	}
	return l.single()
}

// single skips a string on one line. All strings in keys are such: three quotes there begin no long
// string.
func (l *locator) single() error {
	quote := l.src[l.at]
	for l.at++; l.at < len(l.src); l.at++ {
		switch c := l.src[l.at]; {
		case c == quote:
			l.at++
			return nil
		case c == '\n':
			return errSyntax
		case c == '\\' && quote == '"':
			l.at++
		}
	}
	return errSyntax
}

func (l *locator) multiline(end string) error {
	for l.at += 3; l.at < len(l.src); l.at++ {
		switch {
		case strings.HasPrefix(l.src[l.at:], end):
			l.at += 3
			// The last three of a run of quotes close the string. TOML has at most five of them;
			// the decoder can be made to take six.
			for l.take(end[0]) {
			}
			return nil
		case l.src[l.at] == '\n':
			l.line++
		case l.src[l.at] == '\\' && end[0] == '"':
			if l.at++; l.at < len(l.src) && l.src[l.at] == '\n' {
				l.line++
			}
		}
	}
	return errSyntax
}

// blank skips spaces, and with lines also line ends and comments.
func (l *locator) blank(lines bool) {
	for ; l.at < len(l.src); l.at++ {
		switch c := l.src[l.at]; {
		case c == ' ' || c == '\t':
		case lines && c == '\r':
		case lines && c == '\n':
			l.line++
		case lines && c == '#':
			if n := strings.IndexByte(l.src[l.at:], '\n'); n >= 0 {
				l.at += n - 1 // the line end is counted above
			} else {
				l.at = len(l.src) - 1
			}
		default:
			return
		}
	}
}

func (l *locator) take(c byte) bool {
	if l.at < len(l.src) && l.src[l.at] == c {
		l.at++
		return true
	}
	return false
}

// IsBareKey reports whether a part of a key needs no quotes.
func IsBareKey(s string) bool {
	for i := range len(s) {
		if !IsBare(s[i]) {
			return false
		}
	}
	return s != ""
}

// IsBare reports whether a byte can be in a key without quotes.
func IsBare(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '_' || c == '-'
}

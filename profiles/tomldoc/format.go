package tomldoc

import (
	"bytes"
	"strings"
)

// Format returns the TOML text data in the one form: a key per line from its first column, one
// space around =, at least one before a comment, one empty line before a table and never two, a
// line end at the end. Comments and the order stay, and keys and values stay as they are written. A
// text in this form is returned unchanged. Every error is an *Error.
func Format(data []byte) ([]byte, error) {
	tree, _, err := Tree(data)
	if err != nil {
		return nil, err
	}
	src := strings.TrimPrefix(string(data), "\ufeff")
	list, err := Statements(src)
	if err != nil {
		return nil, &Error{Msg: "cannot be formatted"}
	}
	var f formatter
	at := 0
	for _, s := range list {
		f.gap(src[at:s.Start], s.Header)
		switch {
		case s.List:
			f.b.WriteString("[[" + s.Raw + "]]")
		case s.Header:
			f.b.WriteString("[" + s.Raw + "]")
		default:
			f.b.WriteString(s.Raw + " = " + src[s.Value:s.End])
		}
		f.open = true
		at = s.End
	}
	f.gap(src[at:], false)
	out := []byte(strings.TrimRight(f.b.String(), "\n"))
	if len(out) > 0 {
		out = append(out, '\n')
	}
	if now, _, err := Tree(out); err != nil || !bytes.Equal(Canonical(now), Canonical(tree)) {
		return nil, &Error{Msg: "cannot be formatted without changing what it says"}
	}
	return out, nil
}

// formatter writes a text statement by statement.
type formatter struct {
	b    strings.Builder
	open bool // a statement has been written on the present line
}

// gap writes the text between two statements: the comment behind the first, empty lines and lines
// of comments. The last line of it, up to the next statement, is space.
func (f *formatter) gap(text string, header bool) {
	lines := strings.Split(text, "\n")
	if f.open {
		if comment := strings.TrimSpace(lines[0]); comment != "" {
			space := lines[0][:len(lines[0])-len(strings.TrimLeft(lines[0], " \t"))]
			if space == "" {
				space = " "
			}
			f.b.WriteString(space + comment)
		}
		f.b.WriteByte('\n')
		lines = lines[1:]
		f.open = false
	}
	for i := range lines {
		lines[i] = strings.TrimSpace(lines[i])
	}
	if n := len(lines); n > 0 && lines[n-1] == "" {
		lines = lines[:n-1]
	}
	if header { // an empty line before the comments that go with it
		i := len(lines)
		for i > 0 && lines[i-1] != "" {
			i--
		}
		if i == 0 || lines[i-1] != "" {
			lines = append(lines[:i:i], append([]string{""}, lines[i:]...)...)
		}
	}
	for _, line := range lines {
		if line == "" && (f.b.Len() == 0 || strings.HasSuffix(f.b.String(), "\n\n")) {
			continue
		}
		f.b.WriteString(line + "\n")
	}
}

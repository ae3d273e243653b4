// Package interpreter knows programs that take code from their arguments. It refuses placeholders
// where a value would be code or would name what runs. It is a lint for honest authors and refuses
// rather too much: the sandbox is the boundary.
package interpreter

import (
	"path/filepath"
	"strings"

	"jp/tools/template"
)

// Argument is one argument of a program, of text that is written out and of values.
type Argument []template.Node

// Literal returns the text of an argument without tags.
func (a Argument) Literal() (string, bool) {
	var b strings.Builder
	for _, n := range a {
		t, ok := n.(template.Text)
		if !ok {
			return "", false
		}
		b.WriteString(t.Text)
	}
	return b.String(), true
}

// prefix is the literal text that an argument surely begins with.
func (a Argument) prefix() string {
	if len(a) > 0 {
		if t, ok := a[0].(template.Text); ok {
			return t.Text
		}
	}
	return ""
}

// mayDash reports whether a value in a may start with '-' by its parameter.
func (a Argument) mayDash(dash map[string]bool) bool {
	found := false
	_ = template.EachPath(a, nil, func(p *template.Path, _ []string) error {
		found = found || template.ArgumentOf(p) != "" && dash[template.ArgumentOf(p)]
		return nil
	})
	return found
}

// programName is the name of a program in the table of interpreters: without folder and version.
func programName(program string) string {
	return strings.ToLower(strings.TrimRight(filepath.Base(program), "0123456789."))
}

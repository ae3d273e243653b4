// Package template is the {{ }} language in which a tool's command says where its arguments go.
//
// [Parse] makes a [Template], a tree of nodes; [SplitWords] does so for each word of a command
// line. A [Renderer] looks up the values and says to its caller where each piece of text comes
// from, so that the caller can judge what a value may do there: this package escapes nothing. Paths
// begin with "tool" or "context"; what a call gave is tool.arguments.NAME.
package template

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"
)

// Template is a text with tags:
//
//	{{a.b}} {{a["key"]}}              a value
//	{{#if a.b}}...{{else}}...{{/if}}  either text
//	{{#for x in a.b}}...{{/for}}      once per element of a list
//	{{"{{"}}                          literal text
//
// It has no filters, no includes and no escaping: what a value may contain is for the place that it
// is put in. A Template is immutable.
//
// Strings are written as they are, numbers and booleans as in JSON, lists and objects as JSON. In
// #if, false, null, 0, "" and what is empty or omitted are false. A key that is missing from the
// data, and a null outside #if, is a *Error.
type Template struct{ Nodes []Node }

// Error is a template that cannot be parsed or rendered. Line and Column are 1-based; columns count
// runes.
type Error struct {
	Line, Column int
	Msg          string
}

func (e *Error) Error() string {
	return fmt.Sprintf("line %d, column %d: %s", e.Line, e.Column, e.Msg)
}

// Parse parses text. The error is a *Error.
func Parse(text string) (*Template, error) {
	tokens, err := lexTemplate(text)
	if err != nil {
		return nil, err
	}
	return parse(tokens)
}

// A token is literal text or the inside of a tag.
type token struct {
	text string
	tag  bool
	at   Position
}

// Position is a place in the text of a template, 1-based. Columns count runes.
type Position struct{ Line, Column int }

// Errorf returns an error at p.
func (p Position) Errorf(format string, args ...any) *Error {
	return &Error{p.Line, p.Column, fmt.Sprintf(format, args...)}
}

// After is the position behind s, which starts at p.
func (p Position) After(s string) Position {
	if n := strings.Count(s, "\n"); n > 0 {
		p.Line += n
		p.Column = 1
		s = s[strings.LastIndexByte(s, '\n')+1:]
	}
	p.Column += utf8.RuneCountInString(s)
	return p
}

// lexTemplate cuts text into literal text and tags.
func lexTemplate(text string) ([]token, error) {
	var out []token
	at := Position{1, 1}
	for text != "" {
		i := strings.Index(text, "{{")
		if i < 0 {
			i = len(text)
		}
		if i > 0 {
			out = append(out, token{text: text[:i], at: at})
			at = at.After(text[:i])
			text = text[i:]
			continue
		}
		n, ok := tagLen(text)
		if !ok {
			return nil, at.Errorf("{{ is never closed")
		}
		out = append(out, token{text: text[2 : n-2], tag: true, at: at})
		at = at.After(text[:n])
		text = text[n:]
	}
	return out, nil
}

// tagLen is the length of the tag that s begins with, braces included. A }} inside a quoted string
// does not end a tag.
func tagLen(s string) (n int, ok bool) {
	quoted := false
	for i := 2; i < len(s); i++ {
		switch {
		case quoted && s[i] == '\\':
			i++
		case s[i] == '"':
			quoted = !quoted
		case !quoted && strings.HasPrefix(s[i:], "{{"):
			return 0, false
		case !quoted && strings.HasPrefix(s[i:], "}}"):
			return i + 2, true
		}
	}
	return 0, false
}

// Path is a.b["c"]: the place of a value in the data. At is its place in the template.
type Path struct {
	Keys []string
	At   Position
}

func (p *Path) String() string {
	var b strings.Builder
	for i, k := range p.Keys {
		switch {
		case i == 0:
			b.WriteString(k)
		case IsName(k):
			b.WriteString("." + k)
		default:
			fmt.Fprintf(&b, "[%q]", k)
		}
	}
	return b.String()
}

// The nodes of a parsed template. A Node is one of the others. A {{"..."}} is a Text too.
type (
	Node interface{}
	Text struct {
		Text string
		At   Position
	}
	Value struct{ Path *Path }
	If    struct {
		Path       *Path
		Then, Else []Node
	}
	For struct {
		Name string
		Path *Path
		Body []Node
	}
)

// parse parses tokens; they may come from one text or one word of it.
func parse(tokens []token) (*Template, error) {
	p := &parser{tokens: tokens}
	nodes, end, err := p.block(0)
	if err != nil {
		return nil, err
	}
	if end != nil {
		return nil, end.at.Errorf("{{%s}} has no beginning", strings.TrimSpace(end.text))
	}
	return &Template{nodes}, nil
}

type parser struct {
	tokens []token
	names  []string // of the #for loops around
}

// block parses up to a tag that ends or divides the block, and returns that tag; nil at the end of
// the tokens.
func (p *parser) block(depth int) (nodes []Node, end *token, err error) {
	for len(p.tokens) > 0 {
		t := p.tokens[0]
		p.tokens = p.tokens[1:]
		if !t.tag {
			nodes = append(nodes, Text{t.text, t.at})
			continue
		}
		inner := strings.TrimSpace(t.text)
		word, rest := inner, ""
		if i := strings.IndexAny(inner, " \t\r\n"); i >= 0 {
			word, rest = inner[:i], strings.TrimSpace(inner[i:])
		}
		var n Node
		switch {
		case inner == "else" || strings.HasPrefix(inner, "/"):
			return nodes, &t, nil
		case word == "#if":
			n, err = p.ifBlock(t, rest, depth+1)
		case word == "#for":
			n, err = p.forBlock(t, rest, depth+1)
		case strings.HasPrefix(inner, "#"):
			err = t.at.Errorf("{{%s}}: unknown block; there are #if and #for", word)
		case strings.HasPrefix(inner, `"`):
			var text string
			if text, rest, err = p.quoted(t, inner); err == nil && rest != "" {
				err = t.at.Errorf("{{%s}}: unexpected %q after the string", inner, rest)
			}
			n = Text{text, t.at}
		default:
			var at *Path
			at, err = p.path(t, inner)
			n = Value{at}
		}
		if err != nil {
			return nil, nil, err
		}
		nodes = append(nodes, n)
	}
	return nodes, nil, nil
}

func (p *parser) ifBlock(t token, cond string, depth int) (Node, error) {
	if depth > maxBlocks {
		return nil, t.at.Errorf("more than %d nested blocks", maxBlocks)
	}
	at, err := p.path(t, cond)
	if err != nil {
		return nil, err
	}
	n := If{Path: at}
	body, end, err := p.block(depth)
	if err != nil {
		return nil, err
	}
	n.Then = body
	if end != nil && strings.TrimSpace(end.text) == "else" {
		if n.Else, end, err = p.block(depth); err != nil {
			return nil, err
		}
	}
	return n, p.closed(t, end, "/if")
}

func (p *parser) forBlock(t token, head string, depth int) (Node, error) {
	if depth > maxBlocks {
		return nil, t.at.Errorf("more than %d nested blocks", maxBlocks)
	}
	f := strings.Fields(head)
	if len(f) < 3 || f[1] != "in" {
		return nil, t.at.Errorf("want {{#for NAME in LIST}}")
	}
	name := f[0]
	switch {
	case !IsName(name) || name == "else" || name == "in":
		return nil, t.at.Errorf("%q is not a name", name)
	case name == "tool" || name == "context" || slices.Contains(p.names, name):
		return nil, t.at.Errorf("%q is taken; choose another name for the loop", name)
	}
	list := strings.TrimSpace(strings.TrimSpace(head)[len(name):])
	at, err := p.path(t, strings.TrimSpace(list[len("in"):]))
	if err != nil {
		return nil, err
	}
	p.names = append(p.names, name)
	body, end, err := p.block(depth)
	p.names = p.names[:len(p.names)-1]
	if err != nil {
		return nil, err
	}
	return For{name, at, body}, p.closed(t, end, "/for")
}

// closed checks that the block that t opened ends with the tag want.
func (p *parser) closed(t token, end *token, want string) error {
	if end == nil {
		return t.at.Errorf("{{%s}} is never closed: {{%s}} is missing", strings.TrimSpace(t.text), want)
	}
	if got := strings.TrimSpace(end.text); got != want {
		return end.at.Errorf("{{%s}} where {{%s}} should be, for the {{%s}} of line %d", got, want, strings.TrimSpace(t.text), t.at.Line)
	}
	return nil
}

// path parses s as a path.
func (p *parser) path(t token, s string) (*Path, error) {
	bad := func() (*Path, error) {
		return nil, t.at.Errorf("{{%s}}: want a path such as tool.arguments.name", strings.TrimSpace(t.text))
	}
	n := identLen(s)
	if n == 0 {
		return bad()
	}
	out := &Path{Keys: []string{s[:n]}, At: t.at}
	for s = s[n:]; s != ""; {
		switch {
		case s[0] == '.':
			n := identLen(s[1:])
			if n == 0 {
				return bad()
			}
			out.Keys = append(out.Keys, s[1:1+n])
			s = s[1+n:]
		case strings.HasPrefix(s, `["`):
			key, rest, err := p.quoted(t, s[1:])
			if err != nil {
				return nil, err
			}
			if rest == "" || rest[0] != ']' {
				return bad()
			}
			out.Keys = append(out.Keys, key)
			s = rest[1:]
		default:
			return bad()
		}
	}
	return out, nil
}

// quoted reads the quoted string that s begins with. The escapes are \" and \\.
func (p *parser) quoted(t token, s string) (text, rest string, err error) {
	var b strings.Builder
	for i := 1; i < len(s); i++ {
		switch c := s[i]; {
		case c == '"':
			return b.String(), s[i+1:], nil
		case c == '\\' && i+1 < len(s) && (s[i+1] == '"' || s[i+1] == '\\'):
			i++
			b.WriteByte(s[i])
		case c == '\\':
			return "", "", t.at.Errorf(`unknown escape in %s: there are \" and \\`, s)
		default:
			b.WriteByte(c)
		}
	}
	return "", "", t.at.Errorf("string %s is never closed", s)
}

// IsName reports whether s is a letter or '_' and then letters, digits, '_' or '-'.
func IsName(s string) bool { return s != "" && identLen(s) == len(s) }

// identLen is the length of the name that s begins with.
func identLen(s string) int {
	i := 0
	for i < len(s) {
		c := s[i]
		if c == '_' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || i > 0 && (c == '-' || '0' <= c && c <= '9') {
			i++
			continue
		}
		break
	}
	return i
}

// EachPath calls f with every path in nodes and the names of the loops around it.
func EachPath(nodes []Node, names []string, f func(p *Path, names []string) error) error {
	for _, n := range nodes {
		var err error
		switch n := n.(type) {
		case Value:
			err = f(n.Path, names)
		case If:
			if err = f(n.Path, names); err == nil {
				if err = EachPath(n.Then, names, f); err == nil {
					err = EachPath(n.Else, names, f)
				}
			}
		case For:
			if err = f(n.Path, names); err == nil {
				err = EachPath(n.Body, append(slices.Clip(names), n.Name), f)
			}
		}
		if err != nil {
			return err
		}
	}
	return nil
}

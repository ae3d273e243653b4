package tools

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
// It has no filters, no includes and no escaping: what a value may contain is
// for the place that it is put in. A Template is immutable.
type Template struct{ nodes []node }

// TemplateError is a template that cannot be parsed or rendered. Line and
// Column are 1-based; columns count runes.
type TemplateError struct {
	Line, Column int
	Msg          string
}

func (e *TemplateError) Error() string {
	return fmt.Sprintf("line %d, column %d: %s", e.Line, e.Column, e.Msg)
}

// ParseTemplate parses text. The error is a *TemplateError.
func ParseTemplate(text string) (*Template, error) {
	tokens, err := lexTemplate(text)
	if err != nil {
		return nil, err
	}
	return parseTemplate(tokens)
}

// A token is literal text or the inside of a tag.
type token struct {
	text string
	tag  bool
	at   position
}

type position struct{ line, column int }

func (p position) errorf(format string, args ...any) *TemplateError {
	return &TemplateError{p.line, p.column, fmt.Sprintf(format, args...)}
}

// after is the position behind s, which starts at p.
func (p position) after(s string) position {
	if n := strings.Count(s, "\n"); n > 0 {
		p.line += n
		p.column = 1
		s = s[strings.LastIndexByte(s, '\n')+1:]
	}
	p.column += utf8.RuneCountInString(s)
	return p
}

// lexTemplate cuts text into literal text and tags.
func lexTemplate(text string) ([]token, error) {
	var out []token
	at := position{1, 1}
	for text != "" {
		i := strings.Index(text, "{{")
		if i < 0 {
			i = len(text)
		}
		if i > 0 {
			out = append(out, token{text: text[:i], at: at})
			at = at.after(text[:i])
			text = text[i:]
			continue
		}
		n, ok := tagLen(text)
		if !ok {
			return nil, at.errorf("{{ is never closed")
		}
		out = append(out, token{text: text[2 : n-2], tag: true, at: at})
		at = at.after(text[:n])
		text = text[n:]
	}
	return out, nil
}

// tagLen is the length of the tag that s begins with, braces included. A }}
// inside a quoted string does not end a tag.
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

// path is a.b["c"]: where a value is found.
type path struct {
	keys []string
	at   position
}

func (p *path) String() string {
	var b strings.Builder
	for i, k := range p.keys {
		switch {
		case i == 0:
			b.WriteString(k)
		case isIdent(k):
			b.WriteString("." + k)
		default:
			fmt.Fprintf(&b, "[%q]", k)
		}
	}
	return b.String()
}

// The nodes of a parsed template.
type (
	node     interface{}
	textNode struct {
		text string
		at   position
	}
	valNode struct{ path *path }
	ifNode  struct {
		path      *path
		then, alt []node
	}
	forNode struct {
		name string
		path *path
		body []node
	}
)

// parseTemplate parses tokens; they may come from one text or one word of it.
func parseTemplate(tokens []token) (*Template, error) {
	p := &parser{tokens: tokens}
	nodes, end, err := p.block(0)
	if err != nil {
		return nil, err
	}
	if end != nil {
		return nil, end.at.errorf("{{%s}} stands without its beginning", strings.TrimSpace(end.text))
	}
	return &Template{nodes}, nil
}

type parser struct {
	tokens []token
	names  []string // of the #for loops around
}

// block parses up to a tag that ends or divides the block, and returns that
// tag; nil at the end of the tokens.
func (p *parser) block(depth int) (nodes []node, end *token, err error) {
	for len(p.tokens) > 0 {
		t := p.tokens[0]
		p.tokens = p.tokens[1:]
		if !t.tag {
			nodes = append(nodes, textNode{t.text, t.at})
			continue
		}
		inner := strings.TrimSpace(t.text)
		word, rest := inner, ""
		if i := strings.IndexAny(inner, " \t\r\n"); i >= 0 {
			word, rest = inner[:i], strings.TrimSpace(inner[i:])
		}
		var n node
		switch {
		case inner == "else" || strings.HasPrefix(inner, "/"):
			return nodes, &t, nil
		case word == "#if":
			n, err = p.ifBlock(t, rest, depth+1)
		case word == "#for":
			n, err = p.forBlock(t, rest, depth+1)
		case strings.HasPrefix(inner, "#"):
			err = t.at.errorf("{{%s}}: unknown block; there are #if and #for", word)
		case strings.HasPrefix(inner, `"`):
			var text string
			if text, rest, err = p.quoted(t, inner); err == nil && rest != "" {
				err = t.at.errorf("{{%s}}: unexpected %q after the string", inner, rest)
			}
			n = textNode{text, t.at}
		default:
			var at *path
			at, err = p.path(t, inner)
			n = valNode{at}
		}
		if err != nil {
			return nil, nil, err
		}
		nodes = append(nodes, n)
	}
	return nodes, nil, nil
}

func (p *parser) ifBlock(t token, cond string, depth int) (node, error) {
	if depth > maxBlocks {
		return nil, t.at.errorf("more than %d nested blocks", maxBlocks)
	}
	at, err := p.path(t, cond)
	if err != nil {
		return nil, err
	}
	n := ifNode{path: at}
	body, end, err := p.block(depth)
	if err != nil {
		return nil, err
	}
	n.then = body
	if end != nil && strings.TrimSpace(end.text) == "else" {
		if n.alt, end, err = p.block(depth); err != nil {
			return nil, err
		}
	}
	return n, p.closed(t, end, "/if")
}

func (p *parser) forBlock(t token, head string, depth int) (node, error) {
	if depth > maxBlocks {
		return nil, t.at.errorf("more than %d nested blocks", maxBlocks)
	}
	f := strings.Fields(head)
	if len(f) < 3 || f[1] != "in" {
		return nil, t.at.errorf("want {{#for NAME in LIST}}")
	}
	name := f[0]
	switch {
	case !isIdent(name) || name == "else" || name == "in":
		return nil, t.at.errorf("%q is not a name", name)
	case name == "tool" || name == "context" || slices.Contains(p.names, name):
		return nil, t.at.errorf("%q is taken; choose another name for the loop", name)
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
	return forNode{name, at, body}, p.closed(t, end, "/for")
}

// closed checks that the block that t opened ends with the tag want.
func (p *parser) closed(t token, end *token, want string) error {
	if end == nil {
		return t.at.errorf("{{%s}} is never closed: {{%s}} is missing", strings.TrimSpace(t.text), want)
	}
	if got := strings.TrimSpace(end.text); got != want {
		return end.at.errorf("{{%s}} where {{%s}} should stand, for the {{%s}} of line %d", got, want, strings.TrimSpace(t.text), t.at.line)
	}
	return nil
}

// path parses the path that s is.
func (p *parser) path(t token, s string) (*path, error) {
	bad := func() (*path, error) {
		return nil, t.at.errorf("{{%s}}: want a path such as tool.arguments.name", strings.TrimSpace(t.text))
	}
	n := identLen(s)
	if n == 0 {
		return bad()
	}
	out := &path{keys: []string{s[:n]}, at: t.at}
	for s = s[n:]; s != ""; {
		switch {
		case s[0] == '.':
			n := identLen(s[1:])
			if n == 0 {
				return bad()
			}
			out.keys = append(out.keys, s[1:1+n])
			s = s[1+n:]
		case strings.HasPrefix(s, `["`):
			key, rest, err := p.quoted(t, s[1:])
			if err != nil {
				return nil, err
			}
			if rest == "" || rest[0] != ']' {
				return bad()
			}
			out.keys = append(out.keys, key)
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
			return "", "", t.at.errorf(`unknown escape in %s: there are \" and \\`, s)
		default:
			b.WriteByte(c)
		}
	}
	return "", "", t.at.errorf("string %s is never closed", s)
}

func isIdent(s string) bool { return s != "" && identLen(s) == len(s) }

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

// eachPath calls f with every path in nodes and the loop names that hold there.
func eachPath(nodes []node, names []string, f func(p *path, names []string) error) error {
	for _, n := range nodes {
		var err error
		switch n := n.(type) {
		case valNode:
			err = f(n.path, names)
		case ifNode:
			if err = f(n.path, names); err == nil {
				if err = eachPath(n.then, names, f); err == nil {
					err = eachPath(n.alt, names, f)
				}
			}
		case forNode:
			if err = f(n.path, names); err == nil {
				err = eachPath(n.body, append(slices.Clip(names), n.name), f)
			}
		}
		if err != nil {
			return err
		}
	}
	return nil
}

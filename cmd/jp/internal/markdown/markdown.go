// Package markdown lays Markdown out for a terminal: CommonMark with tables, wrapped to a width. It
// measures the columns that wide characters and combining marks really take.
//
// Render is for a whole text, Stream for one that comes in pieces. Both return lines whose only
// control characters are newlines and the colours of this package, whatever is in the text: it is
// cleaned before it is parsed, and again where character references (&#27;) were resolved.
//
// Traps:
//
//   - Nothing is dropped: HTML is shown as it is written, and a link with its target. Definitions
//     of links ([1]: http://...) and references to them are shown as they are written, because in a
//     text that comes in pieces a reference is shown before its definition has come.
//   - Only goldmark's parser is imported, and neither goldmark itself nor its extensions: they
//     would double the start-up time of every jp process. So tables are parsed here (table.go).
package markdown

import (
	"strings"

	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/text"

	"jp/cmd/jp/internal/term"
)

// Style is what the terminal can show. The zero value is unlimited width, no colours and ASCII.
type Style struct {
	Width int // columns; 0 = unlimited
	// whether there are colours; without them emphasis, code and headings keep their marks
	Color bool
	UTF8  bool // whether bullets and lines may be other than ASCII
}

const (
	// textMax is the most bytes of a text that is laid out. A longer one is shown as it is written.
	textMax = 256 << 10
	// depthMax is how deep blocks are indented. What is nested deeper has the same indent.
	depthMax = 12
	// widthMin is the least width that indenting leaves for text.
	widthMin = 16
)

// Render lays a whole text out. The result ends with a newline, unless it is empty.
func Render(source string, s Style) string {
	source = term.Clean(source)
	if len(source) > textMax {
		return whole(source)
	}
	src := []byte(source)
	l := layout{src: src, Style: s}
	return whole(strings.Join(l.blocks(parse(src), s.Width, false), "\n"))
}

// whole returns a text with one newline at its end, unless it is empty.
func whole(s string) string {
	if s = strings.TrimRight(s, "\n"); s == "" {
		return ""
	}
	return s + "\n"
}

// layout turns blocks into lines.
type layout struct {
	Style
	src   []byte
	depth int
}

// blocks lays out the children of a block, with a blank line between them unless tight.
func (l *layout) blocks(parent ast.Node, width int, tight bool) []string {
	var out []string
	for n := parent.FirstChild(); n != nil; n = n.NextSibling() {
		lines := l.block(n, width)
		if len(lines) == 0 {
			continue
		}
		if len(out) > 0 && !tight {
			out = append(out, "")
		}
		out = append(out, lines...)
	}
	return out
}

func (l *layout) block(n ast.Node, width int) []string {
	switch n := n.(type) {
	case *ast.Heading:
		if l.Color {
			return wrap(l.inline(n, pickStyle(n.Level == 1, bold|underline, bold)), width)
		}
		mark := strings.Repeat("#", n.Level) + " "
		return prefixed(wrap(l.inline(n, 0), l.inner(width, len(mark))), mark, strings.Repeat(" ", len(mark)))
	case *ast.ThematicBreak:
		dash := "-"
		if l.UTF8 {
			dash = "─"
		}
		columns := 40
		if width > 0 {
			columns = min(columns, width)
		}
		return []string{l.paint(strings.Repeat(dash, columns), dim)}
	case *ast.CodeBlock:
		return l.code(n.Lines())
	case *ast.FencedCodeBlock:
		return l.code(n.Lines())
	case *asWritten:
		return l.painted(l.lines(n.Lines()), 0)
	case *ast.HTMLBlock:
		lines := l.lines(n.Lines())
		if n.HasClosure() {
			lines = append(lines, strings.TrimRight(string(n.ClosureLine.Value(l.src)), "\n"))
		}
		return l.painted(lines, dim)
	case *ast.Blockquote:
		bar := "> "
		if l.UTF8 {
			bar = "│ "
		}
		return l.nested(func(deep bool) []string {
			if deep {
				return l.blocks(n, width, false)
			}
			bar := l.paint(bar, dim)
			return prefixed(l.blocks(n, l.inner(width, 2), false), bar, bar)
		})
	case *ast.List:
		return l.nested(func(deep bool) []string { return l.list(n, width, deep) })
	case *table:
		return l.table(n, width)
	}
	if n.Type() == ast.TypeBlock && n.HasChildren() && n.FirstChild().Type() == ast.TypeBlock {
		return l.blocks(n, width, false)
	}
	return wrap(l.inline(n, 0), width)
}

// nested runs f one level deeper. deep says that there is no more indenting.
func (l *layout) nested(f func(deep bool) []string) []string {
	l.depth++
	defer func() { l.depth-- }()
	return f(l.depth > depthMax)
}

func (l *layout) list(n *ast.List, width int, deep bool) []string {
	var out []string
	number := n.Start
	for item := n.FirstChild(); item != nil; item = item.NextSibling() {
		mark := "- "
		if l.UTF8 {
			mark = "• "
		}
		if n.IsOrdered() {
			mark = itoa(number) + string(n.Marker) + " "
			number++
		}
		indent := term.Width(mark)
		if deep {
			indent = 0
		}
		lines := l.blocks(item, l.inner(width, indent), n.IsTight)
		if len(lines) == 0 {
			lines = []string{""}
		}
		if len(out) > 0 && !n.IsTight {
			out = append(out, "")
		}
		out = append(out, prefixed(lines, mark, strings.Repeat(" ", indent))...)
	}
	return out
}

// inner returns the width that is left after an indent.
func (l *layout) inner(width, indent int) int {
	if width == 0 {
		return 0
	}
	return max(width-indent, min(width, widthMin))
}

// lines returns the source lines of a block, without their newlines.
func (l *layout) lines(segments *text.Segments) []string {
	var out []string
	for i := range segments.Len() {
		s := segments.At(i)
		out = append(out, strings.TrimSuffix(string(s.Value(l.src)), "\n"))
	}
	return out
}

func (l *layout) code(segments *text.Segments) []string {
	var out []string
	for _, line := range l.lines(segments) {
		out = append(out, l.codeLine(line))
	}
	for len(out) > 0 && out[len(out)-1] == "" {
		out = out[:len(out)-1]
	}
	return out
}

// codeLine returns a line of a code block: indented, never wrapped.
func (l *layout) codeLine(line string) string {
	line = strings.TrimRight(expandTabs(line), " ")
	if line == "" {
		return ""
	}
	return "  " + l.paint(line, code)
}

func (l *layout) painted(lines []string, s style) []string {
	for i, line := range lines {
		lines[i] = l.paint(expandTabs(line), s)
	}
	return lines
}

func (l *layout) paint(s string, st style) string {
	if !l.Color || s == "" || st == 0 {
		return s
	}
	return st.sgr() + s + reset
}

// prefixed puts first before the first line and rest before the others.
func prefixed(lines []string, first, rest string) []string {
	for i, line := range lines {
		if i == 0 {
			lines[i] = first + line
		} else {
			lines[i] = strings.TrimRight(rest+line, " ")
		}
	}
	return lines
}

// expandTabs replaces tabs by spaces. Tab stops are eight columns apart.
func expandTabs(line string) string {
	if !strings.Contains(line, "\t") {
		return line
	}
	var b strings.Builder
	column := 0
	for i, part := range strings.Split(line, "\t") {
		if i > 0 {
			n := 8 - column%8
			b.WriteString(strings.Repeat(" ", n))
			column += n
		}
		b.WriteString(part)
		column += term.Width(part)
	}
	return b.String()
}

package markdown

import (
	"strconv"
	"strings"

	"github.com/clipperhouse/uax29/v2/graphemes"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/util"

	"jp/cmd/jp/internal/term"
)

// style is how text looks; 0 is plain.
type style uint8

const (
	bold style = 1 << iota
	dim
	italic
	underline
	code
)

const reset = "\x1b[0m"

// sgr returns the sequence that turns on a style when no style is on.
func (s style) sgr() string {
	var codes []string
	for _, c := range []struct {
		bit  style
		code string
	}{{bold, "1"}, {dim, "2"}, {italic, "3"}, {underline, "4"}, {code, "36"}} {
		if s&c.bit != 0 {
			codes = append(codes, c.code)
		}
	}
	if codes == nil {
		return ""
	}
	return "\x1b[" + strings.Join(codes, ";") + "m"
}

func pickStyle(yes bool, a, b style) style {
	if yes {
		return a
	}
	return b
}

func itoa(n int) string { return strconv.Itoa(n) }

// piece is text in one style. Newlines in it are hard line breaks.
type piece struct {
	text  string
	style style
}

// inline returns the content of a block as pieces.
func (l *layout) inline(n ast.Node, s style) []piece {
	var out []piece
	l.flatten(&out, n, s)
	return out
}

// definition reports whether the line after the one that ends at at defines a link. Lines of
// definitions are not joined.
func (l *layout) definition(at int) bool {
	_, line, _ := strings.Cut(string(l.src[at:min(len(l.src), at+definitionMax)]), "\n")
	line, _, _ = strings.Cut(line, "\n")
	label, opened := strings.CutPrefix(strings.TrimLeft(line, "> "), "[")
	label, _, closed := strings.Cut(label, "]:")
	return opened && closed && !strings.ContainsAny(label, "[]")
}

// definitionMax is the most bytes up to the end of the label of a definition.
const definitionMax = 256

func (l *layout) flatten(out *[]piece, parent ast.Node, s style) {
	add := func(text string, s style) {
		if !l.Color {
			s = 0
		}
		if text != "" {
			*out = append(*out, piece{text, s})
		}
	}
	// marked puts marks around text whose style is not shown by a colour.
	marked := func(mark string, with style, inside func(style)) {
		if l.Color {
			inside(s | with)
			return
		}
		add(mark, 0)
		inside(s)
		add(mark, 0)
	}
	for n := parent.FirstChild(); n != nil; n = n.NextSibling() {
		switch n := n.(type) {
		case *ast.Text:
			value := n.Value(l.src)
			if n.IsRaw() {
				add(oneLine(string(value)), s)
			} else {
				add(plain(value), s)
			}
			switch {
			case n.HardLineBreak(), n.SoftLineBreak() && l.definition(n.Segment.Stop):
				add("\n", 0)
			case n.SoftLineBreak():
				add(" ", s)
			}
		case *ast.String:
			add(plain(n.Value), s)
		case *ast.CodeSpan:
			var b strings.Builder
			for c := n.FirstChild(); c != nil; c = c.NextSibling() {
				if t, ok := c.(*ast.Text); ok {
					b.Write(t.Value(l.src))
				}
			}
			span := oneLine(b.String())
			if _, cell := parent.(*tableCell); cell {
				span = strings.ReplaceAll(span, `\|`, "|")
			}
			mark := "`"
			for strings.Contains(span, mark) {
				mark += "`"
			}
			marked(mark, code, func(s style) { add(span, s) })
		case *ast.Emphasis:
			with := pickStyle(n.Level == 2, bold, italic)
			marked(strings.Repeat("*", n.Level), with, func(s style) { l.flatten(out, n, s) })
		case *ast.Link:
			before := len(*out)
			l.flatten(out, n, s|underline)
			l.target(out, before, n.Destination, n.Title, s)
		case *ast.Image:
			before := len(*out)
			add("[image: ", s)
			l.flatten(out, n, s)
			add("]", s)
			l.target(out, before, n.Destination, n.Title, s)
		case *ast.AutoLink:
			add(oneLine(string(n.Label(l.src))), s|underline)
		case *ast.RawHTML:
			for i := range n.Segments.Len() {
				seg := n.Segments.At(i)
				add(oneLine(string(seg.Value(l.src))), s)
			}
		default:
			l.flatten(out, n, s)
		}
	}
}

// target writes the target of a link behind its text, unless the text is the target. It is never
// hidden, because a text can lie about it.
func (l *layout) target(out *[]piece, before int, destination, title []byte, s style) {
	to := plain(destination)
	if len(title) > 0 {
		to = strings.TrimSpace(to + ` "` + plain(title) + `"`)
	}
	var shown strings.Builder
	for _, p := range (*out)[before:] {
		shown.WriteString(p.text)
	}
	if to == "" || shown.String() == to || "mailto:"+shown.String() == to {
		return
	}
	if !l.Color {
		s = 0
	} else {
		s |= dim
	}
	*out = append(*out, piece{" (" + to + ")", s})
}

// plain resolves escapes and character references, and cleans the result.
func plain(value []byte) string {
	return oneLine(string(util.UnescapePunctuations(util.ResolveEntityNames(util.ResolveNumericReferences(value)))))
}

// oneLine returns text without anything that could move the cursor.
func oneLine(s string) string {
	return strings.NewReplacer("\n", " ", "\t", " ").Replace(term.Clean(s))
}

// cell is what a terminal draws at one place: a character with its combining marks.
type cell struct {
	text  string
	width int
	style style
}

// wrapper fills lines.
type wrapper struct {
	limit int // columns; 0 = unlimited
	lines []string

	line      []cell
	lineWidth int
	space     []cell // space between the line and the word, which is dropped at a break
	word      []cell // word, which cannot be broken
	wordWidth int
	wide      bool // whether the word ends in a wide character, after which a break may follow
}

// wrap breaks text at spaces, between wide characters, and inside words that are longer than a
// line. Empty text gives no line.
func wrap(pieces []piece, limit int) []string {
	w := wrapper{limit: limit}
	for _, p := range pieces {
		for g := graphemes.FromString(p.text); g.Next(); {
			w.add(cell{g.Value(), term.Width(g.Value()), p.style})
		}
	}
	w.endWord()
	if len(w.line) > 0 {
		w.endLine()
	}
	return w.lines
}

// Plain lays out text that is not Markdown: it cleans each line, and wraps it unless it is
// indented.
func Plain(source string, width int) string {
	var out []string
	for line := range strings.SplitSeq(term.Clean(source), "\n") {
		line = expandTabs(line)
		if width == 0 || term.Width(line) <= width || strings.HasPrefix(line, " ") {
			out = append(out, line)
			continue
		}
		out = append(out, wrap([]piece{{text: line}}, width)...)
	}
	return strings.Join(out, "\n")
}

// Hanging lays out a line that is not Markdown behind a mark. What it is wrapped to begins below the
// first character of the line.
func Hanging(mark, line string, width int) []string {
	if line = oneLine(line); width == 0 || term.Width(mark+line) <= width {
		return []string{mark + line}
	}
	return prefixed(wrap([]piece{{text: line}}, max(width-term.Width(mark), 1)), mark, strings.Repeat(" ", term.Width(mark)))
}

func (w *wrapper) add(c cell) {
	switch {
	case c.text == "\n":
		w.endWord()
		w.endLine()
		return
	case c.text == " ":
		w.endWord()
		if len(w.line) > 0 && len(w.space) == 0 {
			w.space = append(w.space, c)
		}
		return
	case (c.width > 1 || w.wide) && !strings.Contains(closing, c.text):
		w.endWord()
	}
	w.word = append(w.word, c)
	w.wordWidth += c.width
	w.wide = c.width > 1
}

// closing are wide punctuation marks that may not begin a line.
const closing = "、。，．！？：；」』）】》〉〕”’…,.!?:;)]}\"'"

// endWord puts the word on the line, or on the next one.
func (w *wrapper) endWord() {
	if len(w.word) == 0 {
		return
	}
	if w.limit > 0 && len(w.line) > 0 && w.lineWidth+len(w.space)+w.wordWidth > w.limit {
		w.endLine()
	}
	w.line = append(w.line, w.space...)
	w.lineWidth += len(w.space)
	for _, c := range w.word {
		if w.limit > 0 && w.lineWidth > 0 && w.lineWidth+c.width > w.limit {
			w.endLine()
		}
		w.line = append(w.line, c)
		w.lineWidth += c.width
	}
	w.space, w.word, w.wordWidth, w.wide = nil, w.word[:0], 0, false
}

func (w *wrapper) endLine() {
	w.lines = append(w.lines, drawn(w.line))
	w.line, w.lineWidth, w.space = w.line[:0], 0, nil
}

// drawn writes cells with their colours. At the end no style is on.
func drawn(cells []cell) string {
	var b strings.Builder
	now := style(0)
	for _, c := range cells {
		if c.style != now {
			if now != 0 {
				b.WriteString(reset)
			}
			b.WriteString(c.style.sgr())
			now = c.style
		}
		b.WriteString(c.text)
	}
	if now != 0 {
		b.WriteString(reset)
	}
	return b.String()
}

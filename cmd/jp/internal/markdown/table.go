package markdown

import (
	"slices"
	"strings"

	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/parser"
	"github.com/yuin/goldmark/text"

	"jp/cmd/jp/internal/term"
)

// tables makes tables of paragraphs that have a delimiter row (GitHub Flavored Markdown 4.10).
// Lines above the header stay a paragraph.
type tables struct{}

var (
	kindTable = ast.NewNodeKind("Table")
	kindCell  = ast.NewNodeKind("TableCell")
)

// table is a table: its children are the cells, row by row, the header first.
type table struct {
	ast.BaseBlock
	right  []bool         // whether a column is aligned to the right
	source *text.Segments // source lines
}

func (*table) Kind() ast.NodeKind              { return kindTable }
func (t *table) Dump(source []byte, level int) { ast.DumpHelper(t, source, level, nil, nil) }

// tableCell is a block, so that the parser parses its content.
type tableCell struct{ ast.BaseBlock }

func (*tableCell) Kind() ast.NodeKind              { return kindCell }
func (c *tableCell) Dump(source []byte, level int) { ast.DumpHelper(c, source, level, nil, nil) }

// columnsMax is the most columns of a table.
const columnsMax = 64

// Transform implements parser.ParagraphTransformer.
func (tables) Transform(p *ast.Paragraph, r text.Reader, _ parser.Context) {
	lines := p.Lines()
	for i := 1; i < lines.Len(); i++ {
		delimiter := lines.At(i)
		right, ok := delimiters(string(delimiter.Value(r.Source())))
		if !ok {
			continue
		}
		header := cells(lines.At(i-1), r.Source())
		if len(header) != len(right) {
			continue
		}
		t := &table{right: right, source: text.NewSegments()}
		t.source.AppendAll(lines.Sliced(i-1, lines.Len()))
		if t.fits() {
			t.row(header)
			for k := i + 1; k < lines.Len(); k++ {
				t.row(cells(lines.At(k), r.Source()))
			}
			p.Parent().InsertAfter(p.Parent(), p, t)
		} else {
			p.Parent().InsertAfter(p.Parent(), p, newAsWritten(t.source))
		}
		if i == 1 {
			p.Parent().RemoveChild(p.Parent(), p)
		} else {
			lines.SetSliced(0, i-1)
		}
		return
	}
}

// fits reports whether the table can be parsed within bounds: a short row makes as many cells as a
// long one.
func (t *table) fits() bool {
	for i := range t.source.Len() {
		if s := t.source.At(i); s.Len() > runMax {
			return false
		}
	}
	return t.source.Len()*len(t.right) <= size(t.source)
}

// drawable reports whether rows can be drawn within bounds. Each row is as wide as the widest one,
// and a list of rows repeats the header for each.
func (t *table) drawable(rows [][][]piece, widths []int) bool {
	row, header := 0, 0
	for i, w := range widths {
		row += w
		for _, p := range rows[0][i] {
			header += len(p.text)
		}
	}
	return len(rows)*max(row, header) <= areaMax+areaTimes*size(t.source)
}

// row adds a row, with as many cells as the table has columns.
func (t *table) row(segments []text.Segment) {
	for i := range t.right {
		c := &tableCell{}
		if i < len(segments) && !segments[i].IsEmpty() {
			c.Lines().Append(segments[i])
		}
		t.AppendChild(t, c)
	}
}

// delimiters parses a row such as |---|:-:|--:|.
func delimiters(line string) (right []bool, ok bool) {
	line = strings.TrimSpace(line)
	if !strings.Contains(line, "|") {
		return nil, false
	}
	line = strings.TrimSuffix(strings.TrimPrefix(line, "|"), "|")
	for c := range strings.SplitSeq(line, "|") {
		c = strings.TrimSpace(c)
		left := strings.HasPrefix(c, ":")
		dashes := strings.TrimSuffix(strings.TrimPrefix(c, ":"), ":")
		if dashes == "" || strings.Trim(dashes, "-") != "" || len(right) == columnsMax {
			return nil, false
		}
		right = append(right, strings.HasSuffix(c, ":") && !left)
	}
	return right, true
}

// cells cuts a line at its pipes, except escaped ones.
func cells(line text.Segment, source []byte) []text.Segment {
	line = line.TrimLeftSpace(source)
	line = line.TrimRightSpace(source)
	start, stop := line.Start, line.Stop
	if start < stop && source[start] == '|' {
		start++
	}
	var out []text.Segment
	add := func(to int) {
		s := text.NewSegment(start, to)
		s = s.TrimLeftSpace(source)
		out = append(out, s.TrimRightSpace(source))
		start = to + 1
	}
	for i := start; i < stop; i++ {
		switch source[i] {
		case '\\':
			i++
		case '|':
			add(i)
		}
	}
	if start < stop {
		add(stop)
	}
	return out
}

// columnMin is the least width of a column. A table that needs narrower ones is shown as a list of
// its rows.
const columnMin = 6

// table lays out a table in columns with wrapped cells, or as a list of rows where the width is too
// small for that.
func (l *layout) table(t *table, width int) []string {
	columns := len(t.right)
	var rows [][][]piece // cells by row and column
	for n := t.FirstChild(); n != nil; {
		row := make([][]piece, columns)
		for i := 0; i < columns && n != nil; i++ {
			row[i] = l.inline(n, pickStyle(len(rows) == 0, bold, 0))
			n = n.NextSibling()
		}
		rows = append(rows, row)
	}
	widths := make([]int, columns)
	for _, row := range rows {
		for i, c := range row {
			widths[i] = max(widths[i], measure(c))
		}
	}
	const gap = 3
	if !t.drawable(rows, widths) {
		return l.painted(l.lines(t.source), 0)
	}
	if width > 0 {
		room := width - gap*(columns-1)
		if !shrink(widths, room) {
			return l.records(rows, width)
		}
	}
	bar, rule, cross := " | ", "-", "-+-"
	if l.UTF8 {
		bar, rule, cross = " │ ", "─", "─┼─"
	}
	var out []string
	for n, row := range rows {
		wrapped := make([][]string, columns)
		height := 1
		for i, c := range row {
			wrapped[i] = wrap(c, widths[i])
			height = max(height, len(wrapped[i]))
		}
		for k := range height {
			var b strings.Builder
			for i := range columns {
				text, taken := "", 0
				if k < len(wrapped[i]) {
					text = wrapped[i][k]
					taken = term.Width(term.Clean(text))
				}
				pad := strings.Repeat(" ", max(widths[i]-taken, 0))
				if i > 0 {
					b.WriteString(l.paint(bar, dim))
				}
				if t.right[i] {
					b.WriteString(pad + text)
				} else {
					b.WriteString(text + pad)
				}
			}
			out = append(out, strings.TrimRight(b.String(), " "))
		}
		if n == 0 {
			rules := make([]string, columns)
			for i, w := range widths {
				rules[i] = strings.Repeat(rule, w)
			}
			out = append(out, l.paint(strings.Join(rules, cross), dim))
		}
	}
	return out
}

// measure returns the width of a cell on one line.
func measure(c []piece) int {
	n := 0
	for _, p := range c {
		n += term.Width(p.text)
	}
	return n
}

// shrink narrows the widest columns until all fit into room, and reports whether they do.
func shrink(widths []int, room int) bool {
	sum := 0
	for _, w := range widths {
		sum += w
	}
	for sum > room {
		widest := slices.Max(widths)
		if widest <= columnMin {
			return false
		}
		widths[slices.Index(widths, widest)]--
		sum--
	}
	return true
}

// records lays out each row as a list of its cells under their headers.
func (l *layout) records(rows [][][]piece, width int) []string {
	var out []string
	for n, row := range rows[1:] {
		if n > 0 {
			out = append(out, "")
		}
		for i, c := range row {
			line := slices.Concat(rows[0][i], []piece{{text: ": "}}, c)
			out = append(out, prefixed(wrap(line, l.inner(width, 2)), "", "  ")...)
		}
	}
	if len(rows) == 1 {
		for _, c := range rows[0] {
			out = append(out, wrap(c, width)...)
		}
	}
	return out
}

package markdown

import (
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/parser"
	"github.com/yuin/goldmark/text"
	"github.com/yuin/goldmark/util"

	"jp/tools/later"
)

// Bounds of what the parser reads. Its time is quadratic in the length of one block of text, and
// each line takes as long as blocks are nested deep. The bounds count the blocks that the parser
// itself has found, so that they cannot be evaded.
const (
	// runMax is the most bytes of a paragraph, a heading and a row of a table. A longer one is
	// shown as it is written.
	runMax = 8 << 10
	// openMax is how many blocks may be open inside one another. Marks of deeper ones are text.
	openMax = 32
	// areaMax and areaTimes bound the area of a table, in columns times rows: areaMax, and
	// areaTimes the number of its bytes. A table has at most as many cells as bytes. A larger one
	// is shown as it is written.
	areaMax   = 64 << 10
	areaTimes = 16
)

// parse parses blocks and their content.
func parse(src []byte) ast.Node {
	later.Markdown.Need()
	return parser.NewParser(
		parser.WithBlockParsers(
			util.Prioritized(parser.NewSetextHeadingParser(), 100),
			util.Prioritized(parser.NewThematicBreakParser(), 200),
			util.Prioritized(lists{parser.NewListParser()}, 300),
			util.Prioritized(parser.NewListItemParser(), 400),
			util.Prioritized(parser.NewCodeBlockParser(), 500),
			util.Prioritized(headings{parser.NewATXHeadingParser()}, 600),
			util.Prioritized(parser.NewFencedCodeBlockParser(), 700),
			util.Prioritized(quotes{parser.NewBlockquoteParser()}, 800),
			util.Prioritized(parser.NewHTMLBlockParser(), 900),
			util.Prioritized(parser.NewParagraphParser(), 1000),
		),
		parser.WithInlineParsers(parser.DefaultInlineParsers()...),
		parser.WithParagraphTransformers(util.Prioritized(tables{}, 200), util.Prioritized(long{}, 300)),
	).Parse(text.NewReader(src))
}

// lists parses lists, but none deeper than openMax.
type lists struct{ parser.BlockParser }

func (l lists) Open(parent ast.Node, r text.Reader, pc parser.Context) (ast.Node, parser.State) {
	// reads nothing of the line, but notes that it was called
	n, state := l.BlockParser.Open(parent, r, pc)
	if n != nil && len(pc.OpenedBlocks()) >= openMax {
		return nil, parser.NoChildren
	}
	return n, state
}

// quotes parses quotes, but none deeper than openMax.
type quotes struct{ parser.BlockParser }

func (q quotes) Open(parent ast.Node, r text.Reader, pc parser.Context) (ast.Node, parser.State) {
	if len(pc.OpenedBlocks()) >= openMax {
		return nil, parser.NoChildren
	}
	return q.BlockParser.Open(parent, r, pc)
}

// headings parses headings. One that is longer than runMax is a paragraph.
type headings struct{ parser.BlockParser }

func (h headings) Open(parent ast.Node, r text.Reader, pc parser.Context) (ast.Node, parser.State) {
	if line, _ := r.PeekLine(); len(line) > runMax {
		return nil, parser.NoChildren
	}
	return h.BlockParser.Open(parent, r, pc)
}

// long excludes paragraphs that are longer than runMax from parsing.
type long struct{}

// Transform implements parser.ParagraphTransformer.
func (long) Transform(p *ast.Paragraph, _ text.Reader, _ parser.Context) {
	if size(p.Lines()) <= runMax {
		return
	}
	n := newAsWritten(p.Lines())
	n.SetBlankPreviousLines(p.HasBlankPreviousLines())
	p.Parent().ReplaceChild(p.Parent(), p, n)
}

// asWritten is a paragraph or a table that is too large to be parsed.
type asWritten struct{ ast.BaseBlock }

func newAsWritten(lines *text.Segments) *asWritten {
	n := &asWritten{}
	n.SetLines(lines)
	return n
}

var kindAsWritten = ast.NewNodeKind("AsWritten")

func (*asWritten) Kind() ast.NodeKind              { return kindAsWritten }
func (*asWritten) IsRaw() bool                     { return true }
func (n *asWritten) Dump(source []byte, level int) { ast.DumpHelper(n, source, level, nil, nil) }

// size returns how many bytes the lines of a block have.
func size(lines *text.Segments) (n int) {
	for i := range lines.Len() {
		s := lines.At(i)
		n += s.Len()
	}
	return n
}

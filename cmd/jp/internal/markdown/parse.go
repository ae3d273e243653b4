package markdown

import (
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/parser"
	"github.com/yuin/goldmark/text"
	"github.com/yuin/goldmark/util"
)

// Bounds of what the parser reads. It takes quadratic time inside of one block of text, and for each line as long as blocks are
// nested deep. Both are counted on the blocks that the parser itself has found: no other reading of the text can disagree.
const (
	// runMax bounds a paragraph, a heading and a row of a table, in bytes. What is longer is shown as it is written.
	runMax = 8 << 10
	// openMax bounds how many blocks are open inside one another. Marks of deeper ones are text.
	openMax = 32
	// areaMax and areaTimes bound what is drawn of a table, in columns times rows: so much, and so often the bytes that it has. A
	// table has at most as many cells as bytes. What is larger is shown as it is written.
	areaMax   = 64 << 10
	areaTimes = 16
)

// parse reads blocks and what is inside of them.
func parse(src []byte) ast.Node {
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

// lists opens no list beyond openMax.
type lists struct{ parser.BlockParser }

func (l lists) Open(parent ast.Node, r text.Reader, pc parser.Context) (ast.Node, parser.State) {
	n, state := l.BlockParser.Open(parent, r, pc) // takes nothing of the line, but notes that it was asked
	if n != nil && len(pc.OpenedBlocks()) >= openMax {
		return nil, parser.NoChildren
	}
	return n, state
}

// quotes opens no quote beyond openMax.
type quotes struct{ parser.BlockParser }

func (q quotes) Open(parent ast.Node, r text.Reader, pc parser.Context) (ast.Node, parser.State) {
	if len(pc.OpenedBlocks()) >= openMax {
		return nil, parser.NoChildren
	}
	return q.BlockParser.Open(parent, r, pc)
}

// headings opens no heading beyond runMax: it is a paragraph.
type headings struct{ parser.BlockParser }

func (h headings) Open(parent ast.Node, r text.Reader, pc parser.Context) (ast.Node, parser.State) {
	if line, _ := r.PeekLine(); len(line) > runMax {
		return nil, parser.NoChildren
	}
	return h.BlockParser.Open(parent, r, pc)
}

// long takes paragraphs beyond runMax out of what is parsed.
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

// size is how many bytes the lines of a block have.
func size(lines *text.Segments) (n int) {
	for i := range lines.Len() {
		s := lines.At(i)
		n += s.Len()
	}
	return n
}

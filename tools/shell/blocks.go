package shell

import (
	"strings"

	"mvdan.cc/sh/v3/syntax"

	"jp/tools/template"
)

// flattener makes the text of one way through the blocks of a shell text: by default the first
// branch of each #if and each #for body once.
type flattener struct {
	// pick has the other choices, by the path of the block: 1 for the second branch of an #if, the
	// number of repetitions for the body of a #for.
	pick  map[*template.Path]int
	focus *template.Path // block that is looked at
	marks [2]string      // marks before and behind each of its branches
	bare  bool           // the first mark replaces all of it
	out   []chunk
}

func (f *flattener) nodes(nodes []template.Node) {
	for _, n := range nodes {
		switch n := n.(type) {
		case template.Text:
			f.out = append(f.out, chunk{text: n.Text, at: n.At})
		case template.Value:
			f.out = append(f.out, chunk{at: n.Path.At, leaf: &leaf{path: n.Path, from: n.Path}})
		case template.If:
			branch := n.Then
			if f.pick[n.Path] == 1 {
				branch = n.Else
			}
			f.block(n.Path, branch, 1)
		case template.For:
			times, ok := f.pick[n.Path]
			if !ok {
				times = 1
			}
			f.block(n.Path, n.Body, times)
		}
	}
}

func (f *flattener) block(p *template.Path, body []template.Node, times int) {
	if f.focus != p {
		for range times {
			f.nodes(body)
		}
		return
	}
	f.out = append(f.out, chunk{text: f.marks[0], at: p.At})
	if f.bare {
		return
	}
	for range times {
		f.nodes(body)
	}
	f.out = append(f.out, chunk{text: f.marks[1], at: p.At})
}

// block is a block and the way to it.
type block struct {
	path *template.Path
	loop bool
	way  map[*template.Path]int // choices that the blocks around need for it to be there
}

func (b block) at() template.Position { return b.path.At }

// picks are all choices that the block has.
func (b block) picks() []int {
	if b.loop {
		return []int{0, 1, 2}
	}
	return []int{0, 1}
}

// pick is the way to the block with the choice n for itself.
func (b block) pick(n int) map[*template.Path]int {
	out := map[*template.Path]int{b.path: n}
	for p, n := range b.way {
		out[p] = n
	}
	return out
}

// blocks lists the blocks in nodes, those inside others too.
func (s *Text) blocks(nodes []template.Node, way map[*template.Path]int) []block {
	var out []block
	for _, n := range nodes {
		switch n := n.(type) {
		case template.If:
			b := block{path: n.Path, way: way}
			out = append(out, b)
			out = append(out, s.blocks(n.Then, b.pick(0))...)
			out = append(out, s.blocks(n.Else, b.pick(1))...)
		case template.For:
			b := block{path: n.Path, loop: true, way: way}
			out = append(out, b)
			out = append(out, s.blocks(n.Body, b.pick(1))...)
		}
	}
	return out
}

// marked is the place in which a mark was found in a text.
type marked struct {
	in    syntax.Node // node that the literal is in
	word  syntax.Node // word that is the mark and nothing else; nil = the mark is a part of something
	list  syntax.Node // list of words, elements or items that the word is in
	stmt  bool        // the word is a whole statement
	outer syntax.Node // node that the statement is in
}

// checkBlock checks that each branch of a block parses alone in its place: as whole statements
// where the block is one, as whole words where it is one, and within the same quotes otherwise.
func (s *Text) checkBlock(b block) error {
	one, two := s.mark+"Az", s.mark+"Bz"
	for _, lang := range s.variants() {
		find := func(n int, bare bool, marks ...string) (first, second *marked) {
			f := flattener{pick: b.pick(n), focus: b.path, marks: [2]string{marks[0], marks[len(marks)-1]}, bare: bare}
			f.nodes(s.Nodes)
			src, err := s.source(f.out)
			if err != nil {
				return nil, nil
			}
			file, err := parseSyntax(lang, src.text)
			if err != nil {
				return nil, nil
			}
			return findMark(file, one), findMark(file, two)
		}
		place, _ := find(b.picks()[0], true, one)
		if place == nil {
			return b.at().Errorf("the block {{#... %s}} is where no block can: whole statements, whole words or text between the same quotes", b.path)
		}
		for _, n := range b.picks() {
			var first, second *marked
			ok := false
			switch {
			case place.stmt:
				first, second = find(n, false, one+"\n", "\n"+two)
				ok = first != nil && second != nil && first.stmt && second.stmt && first.outer == second.outer
			case place.list != nil:
				first, second = find(n, false, one+" ", " "+two)
				ok = first != nil && second != nil && first.word != nil && second.word != nil && first.list == second.list
			default:
				first, second = find(n, false, one, two)
				ok = first != nil && second != nil && first.in == second.in
			}
			if !ok {
				return b.at().Errorf("a branch of the block on %s does not parse alone where it is: a block holds whole statements, whole words, or text between the same quotes", b.path)
			}
		}
	}
	return nil
}

// findMark finds the one literal with mark in it; nil when there is none, or when it is in a
// comment.
func findMark(file *syntax.File, mark string) *marked {
	var (
		stack []syntax.Node
		found *marked
	)
	syntax.Walk(file, func(n syntax.Node) bool {
		if n == nil {
			stack = stack[:len(stack)-1]
			return true
		}
		stack = append(stack, n)
		top := len(stack) - 1
		switch n := n.(type) {
		case *syntax.SglQuoted:
			if strings.Contains(n.Value, mark) {
				found = &marked{in: n}
			}
		case *syntax.Lit:
			if !strings.Contains(n.Value, mark) || top == 0 {
				break
			}
			found = &marked{in: stack[top-1]}
			w, ok := stack[top-1].(*syntax.Word)
			if !ok || len(w.Parts) != 1 || n.Value != mark || top < 2 {
				break
			}
			switch in := stack[top-2].(type) {
			case *syntax.CallExpr:
				found.word, found.list = w, in
				if stmt, ok := stack[top-3].(*syntax.Stmt); ok && len(in.Args) == 1 && len(in.Assigns) == 0 &&
					len(stmt.Redirs) == 0 && !stmt.Negated && !stmt.Background && !isBinary(stack[top-4]) {
					found.stmt, found.outer = true, stack[top-4]
				}
			case *syntax.WordIter:
				found.word, found.list = w, in
			case *syntax.ArrayElem:
				found.word, found.list = w, stack[top-3]
			}
		}
		return true
	})
	return found
}

func isBinary(n syntax.Node) bool {
	_, ok := n.(*syntax.BinaryCmd)
	return ok
}

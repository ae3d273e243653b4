package tools

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"regexp"
	"regexp/syntax"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"jp/tools/brief"
	"jp/tools/regex"
)

// matcher finds the lines that a pattern matches. Most of a file is passed
// over by a search for texts one of which every match must hold, which is many
// times faster than the expression itself. It is immutable.
type matcher struct {
	re    *regex.Regexp
	needs []needle // every match holds one of these; empty = not known
	ends  bool     // the expression looks at the ends of lines
}

// newMatcher compiles an expression, which is matched against single lines.
func newMatcher(pattern string, literal, fold bool) (*matcher, error) {
	if literal {
		pattern = regexp.QuoteMeta(pattern)
	}
	// Without OneLine, ^ and $ are the ends of lines.
	flags := syntax.Perl &^ syntax.OneLine
	if fold {
		flags |= syntax.FoldCase
	}
	tree, err := regex.Parse(pattern, flags)
	var syntactic *syntax.Error
	if errors.As(err, &syntactic) {
		return nil, fmt.Errorf("pattern: %s: %s (regular expressions as RE2 has them; literal = true takes the pattern as it is)", syntactic.Code, brief.Quote(syntactic.Expr))
	}
	if err != nil {
		return nil, fmt.Errorf("pattern: %w", err)
	}
	m := &matcher{}
	m.lineEnds(tree)
	if m.re, err = regex.Compile(tree); err != nil {
		return nil, fmt.Errorf("pattern: %w", err)
	}
	m.needs = needles(tree.Simplify())
	return m, nil
}

// lineEnds makes the ends of the text ends of a line.
func (m *matcher) lineEnds(re *syntax.Regexp) {
	switch re.Op {
	case syntax.OpBeginText:
		re.Op = syntax.OpBeginLine
	case syntax.OpEndText:
		re.Op = syntax.OpEndLine
		re.Flags &^= syntax.WasDollar
	}
	m.ends = m.ends || re.Op == syntax.OpEndLine || re.Op == syntax.OpWordBoundary || re.Op == syntax.OpNoWordBoundary
	for _, sub := range re.Sub {
		m.lineEnds(sub)
	}
}

// each calls yield for each line of data that matches, with its number, its
// bytes data[start:end] and where the match begins, until yield returns false
// or ctx ends.
func (m *matcher) each(ctx context.Context, data []byte, yield func(line, start, end, at int) bool) {
	s := m.search(data)
	line, counted := 1, 0
	for pos := 0; pos < len(data); {
		at := s.next(ctx, pos)
		if at < 0 {
			return
		}
		start := pos + bytes.LastIndexByte(data[pos:at], '\n') + 1
		end := start + lineLen(data[start:])
		loc, err := regex.Find(ctx, m.re, bytes.TrimSuffix(data[start:end], []byte("\r")))
		if err != nil {
			return
		}
		if loc != nil {
			line += bytes.Count(data[counted:start], []byte("\n"))
			counted = start
			if !yield(line, start, end, start+loc[0]) {
				return
			}
		}
		pos = end + 1
	}
}

// search looks for places where a match may be.
type search struct {
	m    *matcher
	data []byte
	at   []int // of each needle: its next place; len(data) = none
	each bool  // line by line: the expression would see a \r
}

func (m *matcher) search(data []byte) *search {
	s := &search{m: m, data: data, at: make([]int, len(m.needs))}
	s.each = len(m.needs) == 0 && m.ends && bytes.IndexByte(data, '\r') >= 0
	for i := range s.at {
		s.at[i] = -1
	}
	return s
}

// next is a place at or behind pos, which begins a line, on the first line
// that may match; or -1 when there is none, or ctx has ended.
func (s *search) next(ctx context.Context, pos int) int {
	switch {
	case s.each:
		return pos
	case len(s.m.needs) == 0:
		return s.nextInPieces(ctx, pos)
	}
	first := len(s.data)
	for i := range s.at {
		if s.at[i] < pos {
			s.at[i] = len(s.data)
			if at := s.m.needs[i].index(s.data[pos:]); at >= 0 {
				s.at[i] = pos + at
			}
		}
		first = min(first, s.at[i])
	}
	if first == len(s.data) {
		return -1
	}
	return first
}

// nextInPieces is next by the expression alone. What it looks at at once are
// whole lines, as many as it searches in a moment.
func (s *search) nextInPieces(ctx context.Context, pos int) int {
	for pos < len(s.data) {
		end := min(pos+s.m.re.Piece(), len(s.data))
		if i := bytes.LastIndexByte(s.data[pos:end], '\n'); i >= 0 {
			end = pos + i + 1
		} else if end = pos + lineLen(s.data[pos:]); end < len(s.data) {
			end++
		}
		loc, err := regex.Find(ctx, s.m.re, s.data[pos:end])
		switch {
		case err != nil:
			return -1
		case loc != nil && (pos+loc[0] < end || s.data[end-1] != '\n'):
			return pos + loc[0]
		}
		pos = end // behind the last line break there is no line
	}
	return -1
}

// needle is a text to look for.
type needle struct {
	text []byte // lower case if fold
	fold bool   // ASCII letters in either case
	rare int    // the byte in text that is looked for when fold
}

func newNeedle(text string, fold bool) needle {
	n := needle{text: []byte(text), fold: fold && strings.ContainsFunc(text, unicode.IsLetter)}
	for i, c := range n.text {
		if frequency(c) < frequency(n.text[n.rare]) {
			n.rare = i
		}
	}
	return n
}

// index is the first place of n in data, or -1.
func (n needle) index(data []byte) int {
	if !n.fold {
		return bytes.Index(data, n.text)
	}
	low := n.text[n.rare]
	up := upper(low)
	lowAt, upAt := -1, -1 // the next places of either case
	for from := n.rare; from < len(data); {
		if lowAt < from {
			lowAt = indexFrom(data, from, low)
		}
		if upAt < from {
			upAt = indexFrom(data, from, up)
		}
		at := min(lowAt, upAt)
		if at == len(data) {
			return -1
		}
		start := at - n.rare
		if end := start + len(n.text); end <= len(data) && equalFold(data[start:end], n.text) {
			return start
		}
		from = at + 1
	}
	return -1
}

// indexFrom is the first place of c in data at or behind from; len(data) = none.
func indexFrom(data []byte, from int, c byte) int {
	if i := bytes.IndexByte(data[from:], c); i >= 0 {
		return from + i
	}
	return len(data)
}

func upper(c byte) byte {
	if 'a' <= c && c <= 'z' {
		return c - 'a' + 'A'
	}
	return c
}

// equalFold compares a with text, which is in lower case.
func equalFold(a, text []byte) bool {
	for i, c := range a {
		if 'A' <= c && c <= 'Z' {
			c += 'a' - 'A'
		}
		if c != text[i] {
			return false
		}
	}
	return true
}

// frequency ranks bytes by how often they occur in source code and prose.
func frequency(c byte) int {
	const common = "zqjxkvbywgpfmuhdlcsranoite "
	if i := strings.IndexByte(common, c); i >= 0 {
		return 10 * (i + 1)
	}
	switch {
	case c == '\t':
		return 200
	case 'A' <= c && c <= 'Z', '0' <= c && c <= '9':
		return 60
	case c >= utf8.RuneSelf:
		return 20
	}
	return 70
}

// needles are texts of which every match of re holds one; nil if none are known.
func needles(re *syntax.Regexp) []needle {
	const most = 8
	switch re.Op {
	case syntax.OpLiteral:
		return literalNeedle(re)
	case syntax.OpCapture, syntax.OpPlus:
		return needles(re.Sub[0])
	case syntax.OpRepeat:
		if re.Min > 0 {
			return needles(re.Sub[0])
		}
	case syntax.OpConcat:
		var best []needle
		for _, sub := range re.Sub {
			if n := needles(sub); worth(n) > worth(best) {
				best = n
			}
		}
		return best
	case syntax.OpAlternate:
		var all []needle
		for _, sub := range re.Sub {
			n := needles(sub)
			if n == nil {
				return nil
			}
			all = append(all, n...)
		}
		if len(all) <= most {
			return all
		}
	}
	return nil
}

// worth is the length of the shortest of alternatives: what they spare.
func worth(n []needle) int {
	if len(n) == 0 {
		return 0
	}
	return len(slices.MinFunc(n, func(a, b needle) int { return len(a.text) - len(b.text) }).text)
}

// maxNeedle bounds a needle in bytes: it is compared at every place where its
// rarest byte is.
const maxNeedle = 32

// literalNeedle is the longest part of a literal that can be looked for byte by
// byte, up to maxNeedle. With folding those are ASCII letters but k and s, which stand for
// letters beyond ASCII too.
func literalNeedle(re *syntax.Regexp) []needle {
	fold := re.Flags&syntax.FoldCase != 0
	best, part := "", ""
	for _, r := range re.Rune {
		if fold {
			r = unicode.ToLower(r)
		}
		if r == utf8.RuneError || fold && (r >= utf8.RuneSelf || r == 'k' || r == 's') {
			part = ""
			continue
		}
		if part += string(r); len(part) > len(best) {
			best = part
		}
		if len(best) >= maxNeedle {
			break
		}
	}
	if best == "" || strings.Contains(best, "\n") {
		return nil
	}
	return []needle{newNeedle(best, fold)}
}

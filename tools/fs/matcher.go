package fs

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"regexp"
	"regexp/syntax"
	"strings"
	"unicode"
	"unicode/utf8"

	"jp/tools/brief"
	"jp/tools/regex"
)

// matcher finds the lines that a pattern matches. It looks for texts one of which every match must
// hold, and so passes over most of a file, many times faster than the expression itself could. It
// is immutable.
type matcher struct {
	re    *regex.Regexp
	needs []regex.Needle // every match holds one of these; empty = not known
	ends  bool           // the expression looks at the ends of lines
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
	if syntactic, ok := errors.AsType[*syntax.Error](err); ok {
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
	m.needs = regex.Needles(tree.Simplify(), bytewise)
	return m, nil
}

// lineEnds makes the ends of the text count as ends of a line.
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

// each calls yield for each line of data that matches, until yield returns false or ctx ends. It
// passes the number of the line, its bytes data[start:end] and where the match begins.
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

// search looks for places where a match is possible.
type search struct {
	m    *matcher
	data []byte
	at   []int // next place of each needle; len(data) = none
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

// next returns the first place, from pos on, on a line that may match, or -1 when there is none or
// ctx has ended. pos begins a line.
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
			if at := s.m.needs[i].Index(s.data[pos:]); at >= 0 {
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

// nextInPieces is next by the expression alone. It searches whole lines, as many at once as take a
// moment.
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

// bytewise returns the longest part of a text that is in a file, byte for byte, wherever the text
// matches. With folding it has ASCII letters but not k and s, which match letters beyond ASCII too.
func bytewise(text string, fold bool) []string {
	best, part := "", ""
	for _, r := range text {
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
	}
	if strings.Contains(best, "\n") {
		return nil
	}
	return []string{best}
}

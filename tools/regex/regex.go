// Package regex matches regular expressions that come from a model, a tool or a server. An
// expression of RE2 takes time in proportion to its size times the size of the text. That can be
// hours if both were chosen to be slow, and package regexp cannot be interrupted.
//
// Two rules bound that. [Parse] refuses expressions of more than MaxStates steps, and Find and All
// look at their context between short pieces of work, whatever the expression and the text are.
//
// [Needles] are texts one of which is in the data wherever an expression matches. A search through
// much data looks for those first.
package regex

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"regexp"
	"regexp/syntax"
	"strings"
	"unicode/utf8"
)

// Bounds of an expression that a stranger wrote.
const (
	MaxStates = 4000 // as States counts them
	MaxLength = 4096 // bytes
)

// piece is how many steps are taken before the context is looked at: some 20 ms at most.
const piece = 1 << 22

// States is about how many steps an expression compiles to. It stops counting a little above
// MaxStates: repetitions multiply. It is known before anything is compiled.
func States(tree *syntax.Regexp) int {
	n := 1 + len(tree.Rune)/64
	if tree.Op == syntax.OpLiteral {
		n = len(tree.Rune)
	}
	for _, sub := range tree.Sub {
		n = min(n+States(sub), MaxStates+1)
	}
	if tree.Op == syntax.OpRepeat {
		n *= max(tree.Min, tree.Max, 1)
	}
	return min(n, MaxStates+1)
}

// Parse reads an expression of a stranger and refuses one that is beyond the bounds. A plain text
// may be as long as MaxLength.
func Parse(expr string, flags syntax.Flags) (*syntax.Regexp, error) {
	if len(expr) > MaxLength {
		return nil, fmt.Errorf("is longer than %d bytes", MaxLength)
	}
	tree, err := syntax.Parse(expr, flags)
	if err != nil {
		return nil, err
	}
	if !isText(tree) && States(tree) > MaxStates {
		return nil, fmt.Errorf("is too large: it compiles to more than %d states", MaxStates)
	}
	return tree, nil
}

// isText reports whether an expression is a plain text.
func isText(tree *syntax.Regexp) bool {
	return tree.Op == syntax.OpLiteral && tree.Flags&syntax.FoldCase == 0
}

// Regexp is a compiled expression. It is safe for concurrent use.
type Regexp struct {
	re     *regexp.Regexp
	again  *regexp.Regexp // finds, as its group 1, what re finds behind the first character
	prefix string         // every match begins with it
	text   bool           // prefix is all of it
	states int
}

// Compile compiles an expression of any size: one of a person, or one that Parse has checked.
func Compile(tree *syntax.Regexp) (*Regexp, error) {
	expr := tree.String()
	re, err := regexp.Compile(expr)
	if err != nil {
		return nil, err
	}
	again, err := regexp.Compile(`\A(?s:.)(?s:.*?)(` + expr + `)`)
	if err != nil {
		return nil, err
	}
	r := &Regexp{re: re, again: again, states: States(tree)}
	// A prefix never holds U+FFFD, which also matches bytes that are not UTF-8.
	prefix, all := re.LiteralPrefix()
	r.prefix, r.text = prefix, all && isText(tree)
	return r, nil
}

// Piece is how many bytes of text can be searched at once before the context is looked at.
func (r *Regexp) Piece() int {
	if r.states > MaxStates {
		return 0 // the number of steps is not known
	}
	return piece / max(r.states, 1)
}

// Find returns where the leftmost match in s begins and ends, nil for none. The error is the cause
// of the end of ctx.
func Find[T string | []byte](ctx context.Context, r *Regexp, s T) ([]int, error) {
	if !r.text && ctx.Err() == nil && len(s) <= r.Piece() {
		switch s := any(s).(type) {
		case string:
			return r.re.FindStringIndex(s), nil
		case []byte:
			return r.re.FindIndex(s), nil
		}
	}
	return find(ctx, r, s, 0)
}

// All returns where the matches in s begin and end, as regexp.FindAllStringIndex does: at most most
// of them. The error is the cause of the end of ctx.
func (r *Regexp) All(ctx context.Context, s string, most int) ([][]int, error) {
	// A match may have looked at everything behind it: each match of a.*b|a does if there is no b.
	looks := min(len(s)+1, most)
	if r.text {
		looks = 1
	}
	if ctx.Err() == nil && len(s)*looks <= r.Piece() {
		return r.re.FindAllStringIndex(s, most), nil
	}
	return r.each(ctx, s, most)
}

// each is All, match by match.
func (r *Regexp) each(ctx context.Context, s string, most int) ([][]int, error) {
	var all [][]int
	for at, last := 0, -1; len(all) < most && at <= len(s); {
		loc, err := find(ctx, r, s, at)
		if err != nil {
			return nil, err
		}
		if loc == nil {
			break
		}
		if loc[1] > at {
			at = loc[1]
		} else {
			_, n := utf8.DecodeRuneInString(s[at:])
			at += max(n, 1)
		}
		if loc[1] > loc[0] || loc[0] != last { // no empty match right behind another
			all = append(all, loc)
		}
		last = loc[1]
	}
	return all, nil
}

// find returns where the leftmost match begins and ends that begins at or behind from.
func find[T string | []byte](ctx context.Context, r *Regexp, s T, from int) ([]int, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	at := index(s[from:], r.prefix)
	if at < 0 {
		return nil, nil
	}
	if at += from; r.text {
		return []int{at, at + len(r.prefix)}, nil
	}
	if at == 0 {
		in := &reader[T]{ctx: ctx, text: s}
		loc := r.re.FindReaderIndex(in)
		return loc, context.Cause(ctx)
	}
	// The character before says whether a line or a word begins here.
	begin := at - lastRune(s[:at])
	var loc []int
	if rest, ok := any(s[begin:]).(string); ok && len(rest) <= r.Piece() {
		loc = r.again.FindStringSubmatchIndex(rest) // much faster
	} else {
		loc = r.again.FindReaderSubmatchIndex(&reader[T]{ctx: ctx, text: s[begin:]})
	}
	if loc == nil {
		return nil, context.Cause(ctx)
	}
	return []int{begin + loc[2], begin + loc[3]}, context.Cause(ctx)
}

func index[T string | []byte](s T, prefix string) int {
	switch s := any(s).(type) {
	case string:
		return strings.Index(s, prefix)
	case []byte:
		return bytes.Index(s, []byte(prefix))
	}
	return -1
}

// lastRune is how many bytes the last character of s has.
func lastRune[T string | []byte](s T) int {
	_, n := utf8.DecodeLastRuneInString(string(s[max(0, len(s)-utf8.UTFMax):]))
	return n
}

// reader reads a text that ends early when ctx does.
type reader[T string | []byte] struct {
	ctx  context.Context
	text T
	at   int
	read int // characters
}

func (r *reader[T]) ReadRune() (rune, int, error) {
	const look = 64 // characters between two looks at the context
	if r.read++; r.read%look == 0 && r.ctx.Err() != nil || r.at == len(r.text) {
		return 0, 0, io.EOF
	}
	c, n := rune(r.text[r.at]), 1
	if c >= utf8.RuneSelf {
		c, n = utf8.DecodeRuneInString(string(r.text[r.at:min(len(r.text), r.at+utf8.UTFMax)]))
	}
	r.at += n
	return c, n, nil
}

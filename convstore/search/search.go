// Package search looks for lines in the conversations of a store. Run reads the pages of events
// without bbolt, skips events whose bytes cannot match, and decodes the rest.
package search

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"regexp/syntax"
	"slices"
	"strings"
	"unicode"

	"jp/convstore"
	"jp/tools/regex"
)

// Run yields the lines that match: conversation by conversation in the order of List, in each the
// title first and then the events in their order. It ends with a *PatternError if the pattern
// cannot be used, and with the errors of Get for Query.IDs.
//
// It has no index and scans the events. It may miss events that are stored meanwhile. It ends soon
// after ctx, whatever the pattern is. Lines that take long to match are matched while the store is
// closed.
func Run(ctx context.Context, v convstore.View, q Query) iter.Seq2[Match, error] {
	return func(yield func(Match, error) bool) {
		s, err := newSearch(v, q)
		if err == nil {
			err = s.choose(ctx)
		}
		if err == nil {
			err = s.run(ctx, yield)
		}
		if err != nil {
			yield(Match{}, err)
		}
	}
}

// search is one running search.
type search struct {
	view  convstore.View
	query Query
	re    *regex.Regexp // applied to lines
	pre   prefilter
	title bool
	kinds [256]Scope // scope of each kind that is searched; "" = not searched
	read  bool       // some kind is searched
	todo  []convstore.Head
}

func newSearch(v convstore.View, q Query) (*search, error) {
	s := &search{view: v, query: q}
	flags := syntax.Perl
	switch {
	case q.Pattern == "":
		return nil, &PatternError{q.Pattern, errors.New("is empty")}
	case q.Regexp:
	case strings.ContainsAny(q.Pattern, "\r\n"):
		return nil, &PatternError{q.Pattern, errors.New("has a line break, and a search matches single lines")}
	default:
		flags |= syntax.Literal
	}
	if q.Case == IgnoreCase || q.Case == SmartCase && !hasUpper(q) {
		flags |= syntax.FoldCase
	}
	parse := regex.Parse
	if q.AnySize {
		parse = syntax.Parse
	}
	parsed, err := parse(strings.ToValidUTF8(q.Pattern, "\uFFFD"), flags)
	if err == nil {
		s.re, err = regex.Compile(parsed)
	}
	if err != nil {
		return nil, &PatternError{q.Pattern, err}
	}
	s.pre = newPrefilter(parsed.Simplify())

	scopes := q.Scopes
	if len(scopes) == 0 {
		scopes = []Scope{ScopeAll}
	}
	var wanted []Scope
	for _, scope := range scopes {
		concrete := scope.expand()
		if concrete == nil {
			return nil, fmt.Errorf("search: unknown scope %q", scope)
		}
		wanted = append(wanted, concrete...)
	}
	s.title = slices.Contains(wanted, ScopeTitle)
	for k, scope := range kindScopes {
		if scope != "" && slices.Contains(wanted, scope) {
			s.kinds[k], s.read = scope, true
		}
	}
	return s, nil
}

// hasUpper reports whether a pattern has an upper-case letter. In a regular expression, letters of
// escapes and classes such as \S and \pL do not count.
func hasUpper(q Query) bool {
	if !q.Regexp {
		return strings.ContainsFunc(q.Pattern, unicode.IsUpper)
	}
	re, err := syntax.Parse(q.Pattern, syntax.Perl)
	return err == nil && upperIn(re)
}

func upperIn(re *syntax.Regexp) bool {
	if re.Op == syntax.OpLiteral && slices.ContainsFunc(re.Rune, unicode.IsUpper) {
		return true
	}
	return slices.ContainsFunc(re.Sub, upperIn)
}

// choose finds the conversations to search.
func (s *search) choose(ctx context.Context) (err error) {
	f := convstore.Filter{Hidden: s.query.Hidden, Archived: s.query.Archived, Labels: s.query.Labels}
	s.todo, err = s.view.Heads(ctx, f, s.query.IDs)
	return err
}

package convstore

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"regexp/syntax"
	"slices"
	"strings"
	"time"
	"unicode"

	"jp/convstore/internal/file"
	"jp/tools/regex"
)

// Search yields the lines that match: conversation by conversation in the order
// of List, in each the title first and then the events in their order. It ends
// with a *PatternError when the pattern is of no use, and with the errors of Get
// for Query.IDs.
//
// It scans, without an index. Events that are stored while it does may be missed.
// It ends soon after ctx, whatever the pattern, and matches what takes longer
// than a moment while the store is closed.
func (v View) Search(ctx context.Context, q Query) iter.Seq2[Match, error] {
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

// search is one search under way.
type search struct {
	view  View
	query Query
	re    *regex.Regexp // applied to lines
	pre   prefilter
	title bool
	kinds [256]SearchScope // of each kind, where it is to be searched
	read  bool             // some kind is
	todo  []candidate
}

// candidate is a conversation to search.
type candidate struct {
	id      ID
	title   string
	updated time.Time
	empty   bool // no events
}

func newSearch(v View, q Query) (*search, error) {
	s := &search{view: v, query: q}
	flags := syntax.Perl
	switch {
	case q.Pattern == "":
		return nil, &PatternError{q.Pattern, errors.New("is empty")}
	case q.Regexp:
	case strings.ContainsAny(q.Pattern, "\r\n"):
		return nil, &PatternError{q.Pattern, errors.New("holds a line break, and no line does")}
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
		scopes = []SearchScope{ScopeAll}
	}
	var wanted []SearchScope
	for _, scope := range scopes {
		concrete := scope.expand()
		if concrete == nil {
			return nil, fmt.Errorf("search: unknown scope %q", scope)
		}
		wanted = append(wanted, concrete...)
	}
	s.title = slices.Contains(wanted, ScopeTitle)
	for k := range kinds {
		if scope := kinds[k].scope; scope != "" && slices.Contains(wanted, scope) {
			s.kinds[k], s.read = scope, true
		}
	}
	return s, nil
}

// hasUpper reports whether a pattern has an upper-case letter. In a regular
// expression those of escapes and classes such as \S and \pL do not count.
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
func (s *search) choose(ctx context.Context) error {
	f := Filter{Hidden: s.query.Hidden, Archived: s.query.Archived, Labels: s.query.Labels}
	add := func(id ID, e entry) error {
		s.todo = append(s.todo, candidate{id, string(e.title), time.Unix(0, e.updated).UTC(), !e.is(entryEvents)})
		return nil
	}
	err := s.view.f.read(ctx, func(t *tx) error {
		s.todo = nil
		if len(s.query.IDs) == 0 {
			return s.view.walk(t, f, add)
		}
		at := t.entries()
		for _, id := range s.query.IDs {
			if _, err := s.view.within(t, id); err != nil {
				return err
			}
			e, err := at.at(id)
			if err != nil {
				return err
			}
			if err := add(id, e); err != nil {
				return err
			}
		}
		return nil
	})
	if err == file.ErrAbsent && len(s.query.IDs) > 0 {
		return &NotFoundError{ID: s.query.IDs[0]}
	}
	if err == file.ErrAbsent {
		return nil
	}
	return err
}

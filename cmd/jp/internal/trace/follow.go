package trace

import (
	"bufio"
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"jp/cmd/jp/internal/term"
)

// Follower finds what is new in a trace that is built again and again while its conversation runs.
// The zero value has seen nothing.
type Follower struct {
	told map[string]bool // by id of a span: whether its end was told, not only its begin
}

// Next returns the spans that have ended since the last call, and those turns and delegations that
// have begun and not ended, in the order of these times.
func (f *Follower) Next(t *Trace) []*Span {
	if f.told == nil {
		f.told = map[string]bool{}
	}
	var news []*Span
	for _, s := range t.Spans {
		over, known := f.told[s.ID]
		begun := s.End == nil && (s.Kind == Turn || s.Kind == Delegation)
		if over || known && s.End == nil || s.End == nil && !begun {
			continue
		}
		f.told[s.ID] = s.End != nil
		news = append(news, s)
	}
	slices.SortStableFunc(news, func(a, b *Span) int {
		return cmp.Or(a.news().Compare(b.news()), cmp.Compare(b.depth, a.depth)) // what is in a span ends before it
	})
	return news
}

// news returns when a span ended or, if it has not, when it began.
func (s *Span) news() time.Time {
	if s.End != nil {
		return *s.End
	}
	return s.Start
}

// Lines writes a line for each of these spans, fitted to the width of io: time since the trace
// began, state, tokens, duration, and what it is, indented by its depth.
func (t *Trace) Lines(w *bufio.Writer, io *term.IO, news []*Span) {
	for _, s := range news {
		took, tokens := "", ""
		if s.End != nil {
			took = elapsed(s.until.Sub(s.Start))
		}
		if s.End != nil && s.Tokens > 0 {
			tokens = term.Count(s.Tokens)
		}
		head := padLeft("+"+elapsed(s.news().Sub(t.Start)), timeWidth+1) + "  "
		state := pad(term.Cut(term.Line(s.State), stateWidth, io.UTF8), stateWidth)
		why := ""
		if s.Reason != "" && s.State != "ok" {
			why = ": " + term.Line(s.Reason)
		}
		middle := padLeft(tokens, tokensWidth) + padLeft(took, timeWidth+gap) + "  "
		room := io.Width - timeWidth - 1 - 2 - stateWidth - gap
		if io.Width > 0 && room < term.Width(middle)+labelLeast {
			middle = ""
		}
		text := middle + strings.Repeat("  ", min(s.depth, maxIndent))
		rest := text + term.Line(s.label(io.UTF8, false)) + why
		if io.Width > 0 && term.Width(rest) > room {
			rest = term.Cut(text+term.Line(s.label(io.UTF8, true))+why, max(room, 1), io.UTF8)
		}
		fmt.Fprintln(w, strings.TrimRight(head+paint(state, color(s), io.Color)+"  "+rest, " "))
	}
}

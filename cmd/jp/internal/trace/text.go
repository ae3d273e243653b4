package trace

import (
	"bufio"
	"fmt"
	"strconv"
	"strings"
	"time"

	"jp/cmd/jp/internal/stream"
	"jp/cmd/jp/internal/term"
	"jp/cmd/jp/internal/wording"
)

// layout is how wide the columns of Text are.
type layout struct {
	label, bar          int
	state, tokens, time bool // whether there is room for them
}

// The widths of the columns of Text, without the gap before each.
const (
	stateWidth  = 11
	tokensWidth = 9
	timeWidth   = 6
	gap         = 2
	barLeast    = 12
	barMost     = 60
	labelLeast  = 18
	barDefault  = 40 // where the width is unlimited
)

// fit chooses the columns. Labels that are longer than their column are cut where the width is
// limited.
func fit(width, longest int) layout {
	if width <= 0 {
		return layout{label: longest, bar: barDefault, state: true, tokens: true, time: true}
	}
	l := layout{state: true, tokens: true, time: true}
	for {
		rest := width - timeWidth - gap
		if l.state {
			rest -= stateWidth + gap
		}
		if l.tokens {
			rest -= tokensWidth + gap
		}
		l.bar = min(barMost, max(rest*2/5, barLeast), rest-gap-labelLeast)
		switch {
		case l.bar >= barLeast:
			l.label = min(longest, rest-gap-l.bar)
			l.bar = min(barMost, rest-gap-l.label)
			return l
		case l.tokens:
			l.tokens = false
		case l.state:
			l.state = false
		case rest >= barLeast:
			l.bar, l.label = 0, min(longest, rest)
			return l
		default:
			return layout{label: min(longest, width)}
		}
	}
}

// Text writes the trace as a tree with a bar for each span, fitted to the width of s.
func (t *Trace) Text(w *bufio.Writer, s *term.IO) {
	line := func(text string) {
		if s.Width > 0 {
			text = term.Cut(text, s.Width, s.UTF8)
		}
		fmt.Fprintln(w, text)
	}
	line(term.Line(strings.TrimSpace(t.ID.String() + "  " + t.Title)))
	line(t.Sum())
	labels, short := t.labels(s.UTF8, false), t.labels(s.UTF8, true)
	longest := labelLeast
	for _, l := range labels {
		longest = max(longest, term.Width(l))
	}
	l := fit(s.Width, longest)
	var head strings.Builder
	total := elapsed(t.until.Sub(t.Start))
	head.WriteString(strings.Repeat(" ", l.label))
	if l.state {
		head.WriteString(pad("  state", stateWidth+gap))
	}
	if l.tokens {
		head.WriteString(padLeft("tokens", tokensWidth+gap))
	}
	if l.time {
		head.WriteString(padLeft("time", timeWidth+gap))
	}
	if l.bar > 0 {
		head.WriteString("  0s" + padLeft(total, l.bar-2))
	}
	fmt.Fprintln(w)
	line(head.String())
	for i, span := range t.Spans {
		label := labels[i]
		if s.Width > 0 {
			if term.Width(label) > l.label {
				label = short[i]
			}
			label = term.Cut(label, l.label, s.UTF8)
		}
		var b strings.Builder
		b.WriteString(pad(label, l.label))
		if l.state {
			b.WriteString("  " + paint(pad(term.Cut(term.Line(span.State), stateWidth, s.UTF8), stateWidth), color(span), s.Color))
		}
		if l.tokens {
			tokens := ""
			if span.Tokens > 0 {
				tokens = term.Count(span.Tokens)
			}
			b.WriteString(padLeft(tokens, tokensWidth+gap))
		}
		if l.time {
			b.WriteString(padLeft(elapsed(span.until.Sub(span.Start)), timeWidth+gap))
		}
		if l.bar > 0 {
			b.WriteString("  " + paint(t.bar(span, l.bar, s.UTF8), color(span), s.Color))
		}
		fmt.Fprintln(w, strings.TrimRight(b.String(), " "))
		if span.Reason != "" && span.State != "ok" {
			line(strings.Repeat(" ", min(4+3*span.depth, l.label)) + term.Line(span.Reason))
		}
	}
}

// Sum is a line about all of the trace.
func (t *Trace) Sum() string {
	return fmt.Sprintf("%s  %s  %s tokens  %s  %s  %s  %s", term.Line(t.Status), elapsed(t.until.Sub(t.Start)), term.Count(t.Tokens), dollars(t.CostUSD),
		wording.Plural(t.Delegations, "delegation"), wording.Plural(t.ModelCalls, "model call"), wording.Plural(t.ToolCalls, "tool call"))
}

// maxIndent is the deepest level at which a span is drawn. One below it is drawn there with its level,
// because a chain of imported delegations would take more memory than there is.
const maxIndent = 30

// labels draws the tree: branch, name, and what it is about. In short labels sub-agents have no id
// and the last word of their profile: what they are about differs.
func (t *Trace) labels(utf8, short bool) []string {
	out := make([]string, 0, len(t.Spans))
	indents := map[*Span]string{nil: ""}
	last := map[*Span]*Span{}
	for _, s := range t.Spans {
		last[s.parent] = s
	}
	for _, s := range t.Spans {
		branch, deeper := "", ""
		if s.parent != nil {
			branch, deeper = term.Branch(last[s.parent] == s, utf8)
		}
		if s.depth > maxIndent {
			branch, deeper = fmt.Sprintf("%s[%d] ", branch, s.depth), ""
		}
		indents[s] = indents[s.parent] + deeper
		out = append(out, indents[s.parent]+branch+term.Line(s.label(utf8, short)))
	}
	return out
}

// label is a span in a few words, from a model or a tool in part.
func (s *Span) label(utf8, short bool) string {
	switch s.Kind {
	case Turn:
		return s.Name + " " + firstLine(s.Input, utf8)
	case ToolCall:
		return s.Name + " " + firstLine(s.Input, utf8)
	case Delegation:
		if short {
			return s.Name[strings.LastIndexByte(s.Name, '/')+1:] + " " + firstLine(s.Input, utf8)
		}
		text := s.Name + " " + s.Conversation.String()
		if s.Run.Host != "" {
			text += " on " + term.Line(s.Run.Host)
		}
		if s.Run.Removed {
			text += " (removed)"
		}
		return text + " " + firstLine(s.Input, utf8)
	}
	return s.Name
}

// firstLine is the start of a text, short enough for a label.
func firstLine(text string, utf8 bool) string {
	text, _, _ = strings.Cut(strings.TrimSpace(text), "\n")
	return term.Cut(term.Line(text), 48, utf8)
}

// bar draws when a span ran: at least one cell, full ones where it took most of the cell's time.
func (t *Trace) bar(s *Span, width int, utf8 bool) string {
	full, some := "#", "|"
	if utf8 {
		full, some = "█", "▏"
	}
	total := t.until.Sub(t.Start)
	if total <= 0 {
		return some
	}
	cell := func(d time.Duration) float64 { return float64(d) / float64(total) * float64(width) }
	from, to := cell(s.Start.Sub(t.Start)), cell(s.until.Sub(t.Start))
	at := min(int(from), width-1)
	n := int(to+0.5) - at
	if n < 1 || to-from < 0.5 {
		return strings.Repeat(" ", at) + some
	}
	return strings.Repeat(" ", at) + strings.Repeat(full, min(n, width-at))
}

// color returns the color of a span: good and bad, models and tools differ.
func color(s *Span) string {
	switch s.State {
	case "ok":
	case "partial", "running", "queued", "new":
		return "33"
	default:
		return "31"
	}
	switch s.Kind {
	case ModelCall:
		return "34"
	case ToolCall:
		return "36"
	}
	return "32"
}

func paint(text, color string, on bool) string {
	if !on || text == "" {
		return text
	}
	return "\x1b[" + color + "m" + text + "\x1b[0m"
}

func pad(text string, width int) string {
	return text + strings.Repeat(" ", max(0, width-term.Width(text)))
}

func padLeft(text string, width int) string {
	return strings.Repeat(" ", max(0, width-term.Width(text))) + text
}

// elapsed writes a duration in at most timeWidth columns; what is short in milliseconds.
func elapsed(d time.Duration) string {
	if d < time.Second {
		return strconv.FormatInt(d.Milliseconds(), 10) + "ms"
	}
	return term.Elapsed(d)
}

func dollars(u *stream.USD) string {
	if u == nil {
		return "cost unknown"
	}
	b, _ := u.MarshalJSON() // never fails
	return "$" + string(b)
}

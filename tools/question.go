package tools

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"jp/tools/brief"
	"jp/tools/jsondoc"
	"jp/tools/unseen"
)

// Question is what a person is asked. Text, Detail and pages hold what a model wrote so that every
// character shows: no control, bidi or other invisible ones.
type Question struct {
	Kind   Kind
	Tool   Definition
	Call   Call
	Text   string // one line, shortened
	Detail string // all of it, in lines
	Always bool   // whether AllowAlways is an answer

	parts   []part
	changes bool // whether the parts are those of a change of a file; see changedLines
}

// Row is one row of a page. Mark says what happens to the line of a file that it shows: '-' is
// removed, '+' is added, 0 neither.
type Row struct {
	Mark byte
	Text string
}

// part is one argument of a call, or another thing that the question is about.
type part struct {
	name  string
	lines []string
}

// NewQuestion returns the question whether c may run or, of KindDeliver, whether the model may see
// result.
func NewQuestion(k Kind, d Definition, c Call, result string) Question {
	q := Question{Kind: k, Tool: d, Call: c, Text: callText(c)}
	q.parts, q.changes = callParts(d, c)
	if k == KindDeliver {
		q.changes = false
		q.parts = []part{{"the call", []string{q.Text}}, {"the result", visibleLines(result)}}
		q.Detail = strings.Join(q.parts[1].lines, "\n")
		return q
	}
	var lines []string
	for _, p := range q.parts {
		lines = append(lines, p.lines...)
	}
	q.Detail = strings.Join(lines, "\n")
	return q
}

// Page lays the question out for a screen: at most rows rows, of width columns. What does not fit
// is left out at the end of each of the longest arguments, so that none hides another. left says
// what was left out; "" = nothing.
func (q Question) Page(width, rows int) (page []Row, left string) {
	all := make([][]Row, len(q.parts))
	total := 0
	for i, p := range q.parts {
		all[i] = p.rows(width, q.changes)
		total += len(all[i])
	}
	each := total // rows of one part
	if total > rows {
		each = share(all, rows)
	}
	var cut []string
	more := 0
	for i, p := range q.parts {
		n := min(len(all[i]), each)
		if len(page)+n > rows && total > rows {
			n = max(0, rows-len(page))
		}
		page = append(page, all[i][:n]...)
		if n == len(all[i]) {
			continue
		}
		bytes := 0
		for _, row := range all[i][n:] {
			bytes += len(strings.TrimLeft(row.Text, " "))
		}
		if more++; more <= 5 {
			cut = append(cut, fmt.Sprintf("%s of %s", brief.Count(bytes, "byte"), brief.Shorten(visible(p.name), 40)))
		}
	}
	if more > 5 {
		cut = append(cut, fmt.Sprintf("%d more", more-5))
	}
	return page, strings.Join(cut, ", ")
}

// share is the most rows that a part may take so that all parts fit, and at least one.
func share(all [][]Row, rows int) int {
	sizes := make([]int, len(all))
	for i := range all {
		sizes[i] = len(all[i])
	}
	slices.Sort(sizes)
	for i, size := range sizes {
		fair := rows / (len(sizes) - i)
		if size > fair {
			return max(1, fair)
		}
		rows -= size
	}
	return max(1, rows)
}

// rows are the rows of a part on a screen of that width. Of more than three equal lines in a row
// only one is shown, with their number. changes says that the part is one of a change of a file.
func (p part) rows(width int, changes bool) []Row {
	var out []Row
	for i := 0; i < len(p.lines); {
		line, same := p.lines[i], 1
		for i+same < len(p.lines) && p.lines[i+same] == line {
			same++
		}
		var mark byte
		if changes && (strings.HasPrefix(line, "  - ") || strings.HasPrefix(line, "  + ")) {
			mark = line[2]
		}
		shown := same
		if same > 3 {
			shown = 1
		}
		for range shown {
			for _, row := range unseen.Rows(line, width, "      ") {
				out = append(out, Row{mark, row})
			}
		}
		if same > shown {
			out = append(out, Row{mark, fmt.Sprintf("    (and %d more lines like this one)", same-shown)})
		}
		i += same
	}
	return out
}

// callText is a call on one line, shortened.
func callText(c Call) string {
	const most, each = 400, 120
	args, ok := callArguments(c)
	if !ok {
		return c.Name + "(" + brief.Shorten(quoted(brief.UTF8(string(c.Arguments))), most) + ")"
	}
	var short []string
	for _, name := range slices.Sorted(maps.Keys(args)) {
		if s, ok := args[name].(string); ok {
			short = append(short, argument(name)+"="+quoted(brief.Shorten(s, each)))
		} else {
			short = append(short, argument(name)+"="+brief.Shorten(visibleJSON(args[name]), each))
		}
	}
	return c.Name + "(" + brief.Shorten(strings.Join(short, ", "), most) + ")"
}

// callArguments are the arguments of a call; ok says whether they are an object.
func callArguments(c Call) (args map[string]any, ok bool) {
	v, err := jsondoc.Decode(c.Arguments)
	args, ok = v.(map[string]any)
	return args, ok && err == nil
}

// callParts shows all arguments of a call; changes says whether as a change of a file.
func callParts(d Definition, c Call) (parts []part, changes bool) {
	args, ok := callArguments(c)
	if !ok {
		return []part{{"the arguments", []string{unseen.Fold(quoted(brief.UTF8(string(c.Arguments))))}}}, false
	}
	if d.Source == SourceBuiltin {
		if parts := changeParts(d.Name, args); parts != nil {
			return parts, true
		}
	}
	for _, name := range slices.Sorted(maps.Keys(args)) {
		parts = append(parts, shownArgument(name, args[name]))
	}
	return parts, false
}

// shownArgument shows one argument: a text in quotes, line by line, anything else as JSON.
func shownArgument(name string, v any) part {
	p := part{name: name}
	s, ok := v.(string)
	if !ok {
		p.lines = []string{argument(name) + " = " + unseen.Fold(visibleJSON(v))}
		return p
	}
	in := visibleLines(s)
	if len(in) <= 1 {
		p.lines = []string{argument(name) + " = " + unseen.Fold(quoted(s))}
		return p
	}
	p.lines = append(p.lines, argument(name)+" =")
	for _, line := range in {
		p.lines = append(p.lines, "  "+line)
	}
	return p
}

// argument is the name of an argument, which a model may have made up: quoted where it could look like
// one with its value.
func argument(name string) string {
	if strings.Contains(name, "=") {
		return unseen.Fold(quoted(name))
	}
	return unseen.Fold(unseen.Word(name))
}

// visibleJSON is v as JSON in which every character shows.
func visibleJSON(v any) string {
	j, err := jsondoc.Encode(v)
	if err != nil {
		j = []byte("?")
	}
	return visible(string(j))
}

// visibleLines quotes each line of s.
func visibleLines(s string) []string {
	var out []string
	for line := range strings.Lines(s) {
		out = append(out, unseen.Fold(quoted(line)))
	}
	return out
}

// quoted is a Go string literal of s in which every character shows.
func quoted(s string) string { return unseen.Quote(s) }

// visible escapes the characters of s that do not show.
func visible(s string) string { return unseen.Spell(s) }

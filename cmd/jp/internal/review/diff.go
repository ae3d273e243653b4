package review

import (
	"bytes"
	"strings"
	"unicode/utf8"

	"github.com/rogpeppe/go-internal/diff"

	"jp/cmd/jp/internal/trust"
	"jp/tools"
	"jp/tools/unseen"
)

// FileDiff is what changed in a file since it was trusted.
type FileDiff struct {
	trust.Change
	// Lines of a unified diff, in which every character shows: those of the file begin with "-",
	// "+" or a space, "@@" begins a part, "(" a note in place of what cannot be shown.
	Lines []string `json:"lines"`
}

// AddDiffs adds what changed in the files to the page of j, and the lines that differ.
func (s *Page) AddDiffs(j trust.Judgement) {
	s.Differs, s.Diffs = []string{}, []FileDiff{}
	if s.compared() {
		s.Differs = s.differences()
	}
	sides := j.Sides()
	for _, c := range j.Changes {
		s.Diffs = append(s.Diffs, FileDiff{c, diffLines(sides[c.Path])})
	}
}

// DiffRows is the page with the diffs that AddDiffs has added: first what differs in the lines, or
// all of the page where that is not known, then what differs in the files. Width 0 breaks no line.
func (s Page) DiffRows(width int) (rows []tools.Row) {
	add := func(mark byte, line, indent string) {
		if width == 0 {
			rows = append(rows, tools.Row{Mark: mark, Text: line})
			return
		}
		for _, row := range unseen.Rows(line, width, indent) {
			rows = append(rows, tools.Row{Mark: mark, Text: row})
		}
	}
	lines := s.whole()
	if s.compared() {
		lines = append([]string{s.heading()}, s.Differs...)
	}
	for _, line := range lines {
		add(0, unseen.Fold(line), unseen.Margin)
	}
	for _, d := range s.Diffs {
		add(0, "", "")
		add(0, fileLine(d.Change), unseen.Margin)
		for _, line := range d.Lines {
			mark := line[0]
			if mark != '+' && mark != '-' {
				mark = 0
			}
			add(mark, line, line[:1]+"   | ") // neither another line nor one of the other side
		}
	}
	return rows
}

// diffLines compares both sides of a file.
func diffLines(sides [2]trust.Side) (lines []string) {
	note := func(text string) { lines = append(lines, "("+text+")") }
	was, is := sides[0], sides[1]
	if a, b := was.Kind(), is.Kind(); a != b && was.Stamp != "" && is.Stamp != "" || a != "" || b != "" {
		note("was " + described(was) + ", is " + described(is))
	}
	if was.Regular() && !was.Known {
		note("what it was is not known: files are kept up to 256 KiB, and 3 MiB in all; this is all that it is now")
	}
	if is.Regular() && !is.Known {
		note("larger than 1 MiB: not shown")
		return lines
	}
	if binary(was.Data) || binary(is.Data) {
		note("is no text: not shown")
		return lines
	}
	var body []string
	var removed, added []string
	if all := diff.Diff("a", was.Data, "b", is.Data); all != nil {
		body = strings.Split(strings.TrimSuffix(string(all), "\n"), "\n")[3:]
	}
	for _, line := range body {
		switch line[0] {
		case '-':
			removed = append(removed, line[1:])
		case '+':
			added = append(added, line[1:])
		}
	}
	show := unseen.ShowLines(removed, added)
	for _, line := range body {
		switch line[0] {
		case '-', '+', ' ':
			line = line[:1] + show(line[1:])
		case '\\':
			line = "(no line break at the end)"
		}
		lines = append(lines, line)
	}
	return lines
}

// described is what a side is, for a person.
func described(s trust.Side) string {
	switch kind := s.Kind(); {
	case s.Stamp == "":
		return "not there"
	case kind == "":
		return "a file"
	default:
		return unseen.Spell(kind)
	}
}

func binary(data []byte) bool { return bytes.IndexByte(data, 0) >= 0 || !utf8.Valid(data) }

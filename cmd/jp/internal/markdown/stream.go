package markdown

import (
	"slices"
	"strings"

	"jp/cmd/jp/internal/term"
)

// Stream lays out a text that comes in pieces. It returns a block when the block is complete: a
// paragraph, table or quote at the blank line after it, a list when something else begins, a code
// block line by line. Open returns what the rest looks like so far. How the text is cut into pieces
// makes no difference. A reference link is shown as it is written. Not safe for concurrent use.
type Stream struct {
	style Style
	clean term.Cleaner
	line  []byte // beginning of a line that has not ended
	block []byte
	state state
	blank bool // whether the block ends in a blank line
	fence fence
	said  bool // whether something was returned, so that a blank line comes before the next block
	gap   int  // number of blank lines of code that are held back, because no block ends in any
	first bool // whether the next line of code is the first one of its block
}

// state is the kind of block that the current line is inside.
type state int

const (
	inNothing state = iota
	inText          // paragraph, table, quote, heading
	inList
	inRaw // HTML or indented code: blank lines do not end it
)

// NewStream returns a Stream at the start of a text.
func NewStream(s Style) *Stream { return &Stream{style: s} }

// Write takes the next piece and returns the lines that can be shown now; "" when none can.
func (s *Stream) Write(piece string) string {
	var out strings.Builder
	text := s.clean.Clean(piece)
	for {
		line, rest, ok := strings.Cut(text, "\n")
		s.line = append(s.line, line...)
		if !ok {
			return out.String()
		}
		line, text = string(s.line), rest
		s.line = s.line[:0]
		s.take(&out, line)
	}
}

// Flush ends the text and returns the rest of it. The next piece begins another text.
func (s *Stream) Flush() string {
	var out strings.Builder
	if s.line = append(s.line, s.clean.Flush()...); len(s.line) > 0 {
		s.take(&out, string(s.line))
	}
	s.end(&out)
	*s = Stream{style: s.style}
	return out.String()
}

// Open returns what Flush would return if the text ended here, and changes nothing.
func (s *Stream) Open() string {
	end := *s
	end.line, end.block = slices.Clone(s.line), slices.Clone(s.block)
	return end.Flush()
}

// take takes one line.
func (s *Stream) take(out *strings.Builder, line string) {
	if s.fence.mark != "" {
		if s.fence.inside(line); s.fence.mark == "" {
			s.state, s.gap = inNothing, 0
			return
		}
		s.codeLine(out, line)
		return
	}
	indent := len(line) - len(strings.TrimLeft(line, " "))
	switch {
	case strings.TrimSpace(line) == "":
		if s.state == inText {
			s.end(out)
			return
		}
		s.blank = true
	case s.begins(line, indent):
		s.end(out)
		if s.fence.inside(line) {
			s.first = true
			return
		}
		s.state = kind(line)
		s.blank = false
	default:
		s.blank = false
	}
	if s.state == inNothing {
		return // a blank line between blocks
	}
	s.block = append(append(s.block, line...), '\n')
	if len(s.block) > textMax || (s.state == inText && atxHeading(line) && len(s.block) == len(line)+1) {
		s.end(out)
	}
}

// begins reports whether a line that is not blank is the first one of a block.
func (s *Stream) begins(line string, indent int) bool {
	switch s.state {
	case inNothing:
		return true
	case inText:
		return indent < 4 && (opens(line[indent:]) != "" || atxHeading(line) || bullet(line) || strings.HasPrefix(strings.TrimLeft(line, " "), "1. "))
	case inList:
		if indent > 0 {
			return false
		}
		return opens(line) != "" || atxHeading(line) || (s.blank && kind(line) != inList)
	}
	return s.blank && indent == 0 && line[0] != '\t'
}

// end shows the block that is complete.
func (s *Stream) end(out *strings.Builder) {
	if len(s.block) == 0 { // the parser is made when it is first needed
		s.state, s.blank = inNothing, false
		return
	}
	text := Render(string(s.block), s.style)
	s.block = s.block[:0]
	s.state, s.blank = inNothing, false
	if text == "" {
		return
	}
	if s.said {
		out.WriteByte('\n')
	}
	s.said = true
	out.WriteString(text)
}

// codeLine shows a line of a code block.
func (s *Stream) codeLine(out *strings.Builder, line string) {
	line = line[min(s.fence.indent, len(line)-len(strings.TrimLeft(line, " "))):]
	l := layout{Style: s.style}
	if line = l.codeLine(line); line == "" {
		s.gap++
		return
	}
	if s.first && s.said {
		out.WriteByte('\n')
	}
	out.WriteString(strings.Repeat("\n", s.gap) + line + "\n")
	s.said, s.first, s.gap = true, false, 0
}

// kind returns the kind of block that a line begins, if it begins one.
func kind(line string) state {
	trimmed := strings.TrimLeft(line, " ")
	switch {
	case strings.HasPrefix(line, "    "), strings.HasPrefix(line, "\t"), strings.HasPrefix(trimmed, "<"):
		return inRaw
	case bullet(line), numbered(trimmed):
		return inList
	}
	return inText
}

// bullet reports whether a line begins an item of a list, and is not a rule.
func bullet(line string) bool {
	t := strings.TrimLeft(line, " ")
	if len(t) < 2 || !strings.Contains("-*+", t[:1]) || (t[1] != ' ' && t[1] != '\t') {
		return false
	}
	return strings.Trim(t, t[:1]+" \t") != ""
}

func numbered(t string) bool {
	digits := len(t) - len(strings.TrimLeft(t, "0123456789"))
	rest := t[digits:]
	return digits > 0 && digits < 10 && (strings.HasPrefix(rest, ". ") || strings.HasPrefix(rest, ") "))
}

func atxHeading(line string) bool {
	t := strings.TrimLeft(line, " ")
	rest := strings.TrimLeft(t, "#")
	n := len(t) - len(rest)
	return len(line)-len(t) < 4 && n > 0 && n < 7 && (rest == "" || rest[0] == ' ')
}

// fence is the fenced code block that the current line is inside; the zero value is none.
type fence struct {
	mark   string // mark that closes it; "" = there is no block
	indent int    // indent of the line that opened it, which is removed from every line
}

// inside takes a line and reports whether it is part of a fenced code block, first and last line
// included.
func (f *fence) inside(line string) bool {
	t := strings.TrimLeft(line, " ")
	indent := len(line) - len(t)
	if f.mark == "" {
		if mark := opens(t); mark != "" && indent < 4 {
			*f = fence{mark, indent}
		}
		return f.mark != ""
	}
	if t = strings.TrimRight(t, " \t"); indent < 4 && strings.HasPrefix(t, f.mark) && strings.Trim(t, f.mark[:1]) == "" {
		*f = fence{}
	}
	return true
}

// opens returns the fence with which a line, without its indent, opens a code block; "" = it opens
// none.
func opens(t string) string {
	for _, mark := range []string{"`", "~"} {
		rest := strings.TrimLeft(t, mark)
		if n := len(t) - len(rest); n >= 3 && (mark == "~" || !strings.Contains(rest, "`")) {
			return t[:n]
		}
	}
	return ""
}

package term

import "strings"

// Message returns a line of clean text as stderr shows it, with its newline. If it is too long for
// a terminal, it becomes several lines, which end between words. A command is what is between
// backquotes, or what follows ": jp" until the end. The latter gets lines of its own, which a shell
// reads as one.
func (s *IO) Message(text string) string {
	limit := s.Width - 1
	if !s.ErrTTY || limit <= 0 || Width(text) <= limit {
		return text + "\n"
	}
	prose, command := text, ""
	if i := strings.Index(text, ": jp "); i > 0 {
		prose, command = text[:i+1], text[i+2:]
	}
	lines := fill(nil, units(prose, limit), limit, "")
	if command != "" {
		lines = fill(lines, shellWords(command), limit-2, ` \`)
	}
	return strings.Join(lines, "\n") + "\n"
}

// Hang breaks a line at its words into rows of at most width columns. The first begins with head,
// the others with indent spaces. A word that is too wide for a row ends it beside a wide character
// only.
func Hang(head, text string, width, indent int) []string {
	if line := head + text; Width(line) <= width {
		return []string{line}
	}
	rows := []string{head}
	blank := ""
	for _, word := range strings.Fields(text) {
		for _, part := range parts(word, width-indent) {
			last := &rows[len(rows)-1]
			if len(rows) == 1 && *last == head || Width(*last)+len(blank)+Width(part) <= width {
				*last += blank + part
			} else {
				rows = append(rows, strings.Repeat(" ", indent)+part)
			}
			blank = ""
		}
		blank = " "
	}
	return rows
}

// parts returns a word in parts of at most so many columns. A part ends only beside a wide character,
// as scripts without blanks do; where it has none, it can be wider.
func parts(word string, limit int) (list []string) {
	from, end, before := 0, 0, 0 // the part may end before the byte end
	for i, r := range word + "\n" {
		if end > from && Width(word[from:i]) > limit {
			list, from = append(list, word[from:end]), end
		}
		now := Width(string(r))
		if now+before > 2 && now > 0 && before > 0 {
			end = i
		}
		before = now
	}
	return append(list, word[from:])
}

// units returns the words of a text. What is between two backquotes is one, with its spaces, unless
// it is wider than limit.
func units(text string, limit int) (list []string) {
	add := func(unit string) {
		if Width(unit) > limit || strings.Count(unit, "`")%2 == 1 {
			list = append(list, strings.Fields(unit)...)
		} else if unit != "" {
			list = append(list, unit)
		}
	}
	quoted, from := false, 0
	for i, r := range text {
		switch {
		case r == '`':
			quoted = !quoted
		case r == ' ' && !quoted:
			add(text[from:i])
			from = i + 1
		}
	}
	add(text[from:])
	return list
}

// shellWords returns the words of a command as a shell parts them, with their quotes. Spaces inside
// of quotes stay as they are.
func shellWords(command string) (list []string) {
	quote, escaped, from := rune(0), false, 0
	for i, r := range command {
		switch {
		case escaped:
			escaped = false
		case r == '\\' && quote != '\'':
			escaped = true
		case quote != 0:
			if r == quote {
				quote = 0
			}
		case r == '\'', r == '"':
			quote = r
		case r == ' ':
			if i > from {
				list = append(list, command[from:i])
			}
			from = i + 1
		}
	}
	if from < len(command) {
		list = append(list, command[from:])
	}
	return list
}

// fill adds lines of at most limit columns, where words allow it. Each but the last ends with more.
func fill(lines, words []string, limit int, more string) []string {
	line := words[0]
	for _, word := range words[1:] {
		if Width(line)+1+Width(word) > limit {
			lines, line = append(lines, line+more), word
			continue
		}
		line += " " + word
	}
	return append(lines, line)
}

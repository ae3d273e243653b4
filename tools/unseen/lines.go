package unseen

import (
	"slices"
	"strings"
)

// ShowLines returns how the lines of two texts are shown to a person who compares them: removed and
// added are those in which the texts differ. A line is as a file has it, with a tab as four spaces,
// or quoted where that would not show all of it. All are quoted if a removed line would look like
// another one that is added.
func ShowLines(removed, added []string) func(line string) string {
	if looksSame(removed, added) {
		return func(s string) string { return Fold(Quote(s)) }
	}
	return plainLine
}

// plainLine is a line as a file has it, or quoted.
func plainLine(s string) string {
	text := strings.ReplaceAll(strings.TrimSuffix(s, "\n"), "\t", "    ")
	if Spell(text) != text || Fold(text) != text || strings.HasPrefix(strings.TrimSpace(text), `"`) {
		return Fold(Quote(s))
	}
	return text
}

// looksSame reports whether a line of one list looks like another line of the other list.
func looksSame(a, b []string) bool {
	shown := func(line string) string { return strings.TrimRight(plainLine(line), " ") }
	by := map[string]string{}
	for _, line := range a {
		by[shown(line)] = line
	}
	return slices.ContainsFunc(b, func(line string) bool {
		other, ok := by[shown(line)]
		return ok && other != line
	})
}

// breaks has every end of a line that some reader takes for one, longest first.
var breaks = strings.NewReplacer("\r\n", "\n", "\r", "\n", "\v", "\n", "\f", "\n",
	"\x1c", "\n", "\x1d", "\n", "\x1e", "\n", "\u0085", "\n", "\u2028", "\n", "\u2029", "\n")

// Barred returns s with a bar in front of each line, so that none can pass for what stands around s:
// a heading, another text.
func Barred(s string) string {
	var b strings.Builder
	for line := range strings.Lines(strings.TrimRight(breaks.Replace(s), "\n")) {
		b.WriteString("| " + strings.TrimSuffix(line, "\n") + "\n")
	}
	return b.String()
}

// OneLine returns s with a space for each end of a line.
func OneLine(s string) string { return strings.ReplaceAll(breaks.Replace(s), "\n", " ") }

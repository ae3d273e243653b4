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

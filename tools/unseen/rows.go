package unseen

import (
	"fmt"
	"regexp"
	"strings"
	"sync"
)

// Rows breaks a line in which all shows into the rows that it takes on a screen of width columns. All but the first begin with
// indent, so that no text can be made to look like a line of its own by letting it run to the edge of the screen. Wide
// characters count as two columns, those that join others as one.
func Rows(line string, width int, indent string) []string {
	if width < len(indent)+8 {
		width = len(indent) + 8
	}
	var rows []string
	var b strings.Builder
	at := 0
	for _, r := range line {
		if at+columns(r) > width {
			rows = append(rows, b.String())
			b.Reset()
			b.WriteString(indent)
			at = len(indent)
		}
		b.WriteRune(r)
		at += columns(r)
	}
	return append(rows, b.String())
}

// columns is how many columns r takes at most.
func columns(r rune) int {
	if r >= 0x1100 {
		return 2
	}
	return 1
}

// spaces is a run that pushes what is behind it out of sight.
var spaces = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(` {24,}`) })

// Fold writes each long run of spaces in a text of quoted strings, as [Quote] and JSON write them, as their number: what stands
// behind it is near then. Inside of a string nothing can look like it, for a quote there has a backslash before it.
func Fold(quoted string) string {
	return spaces().ReplaceAllStringFunc(quoted, func(run string) string { return fmt.Sprintf(`" +%d spaces+ "`, len(run)) })
}

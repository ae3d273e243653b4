package term

import (
	"cmp"
	"io"
	"slices"
	"strings"

	"github.com/mattn/go-runewidth"

	"jp/tools/later"
)

// Column is one column of a Table.
type Column struct {
	Title string
	Right bool // whether it is aligned to the right, for numbers
	Flex  bool // whether its cells may be cut to make the table fit
	Least int  // width below which other columns are left out before a Flex column is cut; 0 = flexMin
	// above 0: the column may be left out to make the table fit, the highest number first
	Drop int
}

// Table lays text out in columns that fit a terminal. Cells are cleaned; wide characters count as
// two columns.
type Table struct {
	Columns []Column
	Rows    [][]string // as many cells as columns
}

// gap is the space between two columns.
const gap = 2

// flexMin is the least width of most Flex columns; then other columns are left out.
const flexMin = 12

// Write lays the table out for s. Columns with Drop that are empty are left out. Only Flex columns
// are cut, with an ellipsis. Where that is not enough, columns with Drop are left out. Where that
// is not enough, every line is cut at the width.
func (t *Table) Write(w io.Writer, s *IO) error {
	rows := make([][]string, 0, len(t.Rows)+1)
	head := make([]string, len(t.Columns))
	for i, c := range t.Columns {
		head[i] = strings.ToUpper(c.Title)
	}
	rows = append(rows, head)
	for _, r := range t.Rows {
		cells := make([]string, len(t.Columns))
		for i := range cells {
			if i < len(r) {
				cells[i] = Line(r[i])
			}
		}
		rows = append(rows, cells)
	}
	widths := make([]int, len(t.Columns))
	for _, r := range rows {
		for i, c := range r {
			widths[i] = max(widths[i], Width(c))
		}
	}
	shown := t.fit(widths, s.Width, t.filled())

	var b strings.Builder
	for n, r := range rows {
		var line strings.Builder
		for k, i := range shown {
			cell := Cut(r[i], widths[i], s.UTF8)
			pad := strings.Repeat(" ", widths[i]-Width(cell))
			if k > 0 {
				line.WriteString(strings.Repeat(" ", gap))
			}
			if t.Columns[i].Right {
				line.WriteString(pad + cell)
			} else {
				line.WriteString(cell + pad)
			}
		}
		text := strings.TrimRight(line.String(), " ")
		if s.Width > 0 {
			text = Cut(text, s.Width, s.UTF8)
		}
		if n == 0 && s.Color {
			text = "\x1b[1m" + text + "\x1b[0m"
		}
		b.WriteString(text)
		b.WriteByte('\n')
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// filled returns the columns that are shown: those without Drop, and those that are not empty.
func (t *Table) filled() []int {
	var out []int
	for i, c := range t.Columns {
		if c.Drop == 0 || slices.ContainsFunc(t.Rows, func(r []string) bool { return i < len(r) && r[i] != "" }) {
			out = append(out, i)
		}
	}
	return out
}

// fit narrows widths to the limit. It returns the columns that are still shown.
func (t *Table) fit(widths []int, limit int, shown []int) []int {
	natural := slices.Clone(widths)
	over := func() int {
		sum := gap * (len(shown) - 1)
		for _, i := range shown {
			sum += widths[i]
		}
		return sum - limit
	}
	for limit > 0 && over() > 0 {
		if t.narrow(widths, shown, over(), func(c Column) int { return cmp.Or(c.Least, flexMin) }) {
			continue
		}
		drop := -1
		for k, i := range shown {
			if t.Columns[i].Drop > 0 && (drop < 0 || t.Columns[i].Drop > t.Columns[shown[drop]].Drop) {
				drop = k
			}
		}
		if drop >= 0 {
			shown = slices.Delete(shown, drop, drop+1)
			copy(widths, natural) // there may be more room now
			continue
		}
		if !t.narrow(widths, shown, over(), func(Column) int { return 1 }) {
			break
		}
	}
	return shown
}

// narrow makes the widest Flex column that is wider than its least narrower, by at most n.
func (t *Table) narrow(widths, shown []int, n int, least func(Column) int) bool {
	widest := -1
	for _, i := range shown {
		if t.Columns[i].Flex && widths[i] > least(t.Columns[i]) && (widest < 0 || widths[i] > widths[widest]) {
			widest = i
		}
	}
	if widest < 0 {
		return false
	}
	widths[widest] -= min(n, widths[widest]-least(t.Columns[widest]))
	return true
}

// cells measures text as most terminals do: ambiguous characters are narrow.
func cells() *runewidth.Condition {
	later.Width.Need()
	return &runewidth.Condition{StrictEmojiNeutral: true}
}

// Width returns how many columns a line of clean text takes.
func Width(s string) int {
	for i := 0; i < len(s); i++ {
		if s[i] >= 0x80 {
			return cells().StringWidth(s)
		}
	}
	return len(s)
}

// Cut shortens a line of clean text to width columns, with an ellipsis at its end if it is cut. It
// never cuts a character.
func Cut(s string, width int, utf8 bool) string {
	if width <= 0 {
		return ""
	}
	if Width(s) <= width {
		return s
	}
	tail := "..."
	if utf8 {
		tail = "…"
	}
	if Width(tail) >= width {
		tail = ""
	}
	return cells().Truncate(s, width, tail)
}

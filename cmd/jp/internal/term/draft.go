package term

import (
	"io"
	"os"
	"strings"
	"sync"

	"golang.org/x/term"
)

// Draft shows the end of a text that is still being written, on a terminal's stdout: its last lines
// can change until they are settled. It disappears while something else is written. Safe for
// concurrent use.
type Draft struct {
	io  *IO
	out io.Writer

	mu     sync.Mutex
	region region
	open   []drawn // lines that are not settled, also while they are not on the screen
}

// Draft begins a Draft, and returns s in the form to use from now on. The Draft is nil where
// nothing can be drawn on stdout again.
func (s *IO) Draft() (*IO, *Draft) {
	if !s.OutTTY || s.Dumb {
		return s, nil
	}
	d := &Draft{io: s, out: s.Out}
	with := *s
	with.Out, with.Err = behind{s.Out, d.hide}, behind{s.Err, d.hide}
	return &with, d
}

// Write shows more of the text: settled, which never changes again, and after it open instead of
// what was open before. Both are lines whose only control characters are newlines and colours. A
// line of open that is wider than the screen is cut; it comes whole when it is settled.
func (d *Draft) Write(settled, open string) (err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	width, height := d.io.size(d.io.outFile)
	d.open = nil
	for _, l := range linesOf(open) {
		if width > 0 && l.width > width {
			l.text = Cut(plain(l.text), width, d.io.UTF8)
			l.width = Width(l.text)
		}
		d.open = append(d.open, l)
	}
	drawn := d.io.unasked(func() { err = d.put(d.region.replace(linesOf(settled), d.open, width, height)) })
	if !drawn { // another process asks: open lines are drawn when it has its answer
		d.region, d.open = region{}, nil
		err = d.put(d.region.replace(linesOf(settled), nil, width, height))
	}
	return err
}

// hide removes the open lines until the next Write.
func (d *Draft) hide() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.region.lines) == 0 {
		return
	}
	width, height := d.io.size(d.io.outFile)
	hidden := d.io.unasked(func() { _ = d.put(d.region.replace(nil, nil, width, height)) }) // the stream keeps its first error
	if !hidden {
		d.region = region{}
	}
}

func (d *Draft) put(text string) error {
	if text == "" {
		return nil
	}
	return draw(d.out, text)
}

// linesOf returns the lines of a text that ends with a newline, or is empty.
func linesOf(text string) (list []drawn) {
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		list = append(list, drawn{line, Width(plain(line))})
	}
	return list
}

// plain returns a line without its colours.
func plain(line string) string {
	before, after, coloured := strings.Cut(line, "\x1b[")
	for coloured {
		_, rest, _ := strings.Cut(after, "m")
		part, next, more := strings.Cut(rest, "\x1b[")
		before, after, coloured = before+part, next, more
	}
	return before
}

// size asks a terminal for its size now, 0 for unknown. Lines are never wider than that, whatever
// --width says: one that the terminal wraps could not be found again.
func (s *IO) size(f *os.File) (width, height int) {
	width, height = s.Width, s.Height
	if f != nil {
		if w, h, err := term.GetSize(int(f.Fd())); err == nil && w > 0 {
			width, height = w, h
			if s.asked > 0 {
				width = min(w, s.asked)
			}
		}
	}
	return width, height
}

package term

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"
	"unicode/utf8"

	"golang.org/x/sys/unix"
	"golang.org/x/term"
)

// ErrLeft is returned by Pick if the person left it without a choice.
var ErrLeft = errors.New("terminal: left without a choice")

// List is what a person picks from.
type List struct {
	Choices []Choice
	// Preview returns a text of lines for a choice, laid out for so many columns; nil = none. It is
	// called while the list is on the screen.
	Preview func(choice, width int) string
	Color   bool
	UTF8    bool
}

// Choice is one line of a List. Its texts are cleaned when they are shown.
type Choice struct {
	Name  string // shown whole, before the title
	Title string // cut where there is no room
}

const (
	pickRows      = 15                    // most choices on the screen
	pickPreview   = 80                    // columns from which on there is a preview
	pickTick      = 50 * time.Millisecond // how often it looks for a signal, and how long half of a key may be
	pickDivision  = 3                     // columns between the choices and the preview
	pickNameAfter = 2                     // columns before and after a name
)

// Pick shows a list of which one line is marked, and returns the index of the choice. Arrows,
// Ctrl-N, Ctrl-P, PgUp, PgDn, Home and End move the mark. What is typed filters: each word must be
// in the name or the title. Enter picks; Esc, Ctrl-C and Ctrl-G leave (ErrLeft). When ctx ends the
// error is its cause. At every end the list is erased and the terminal is as before.
//
// The terminal sends no signals for keys meanwhile. The caller must catch those of other processes
// and end ctx with them, because otherwise they would leave the terminal as it is here.
func (person *Person) Pick(ctx context.Context, list List) (picked int, err error) {
	t := person.tty
	if !t.Foreground() {
		return 0, ErrNobody
	}
	polled, over := t.bound(ctx)
	defer over()
	var before *term.State
	if err := t.control(func(fd int) (err error) {
		if before, err = term.MakeRaw(fd); err == nil && !polled {
			err = returnEarly(fd)
		}
		return err
	}); err != nil {
		if before != nil {
			_ = t.control(func(fd int) error { return term.Restore(fd, before) })
		}
		return 0, fmt.Errorf("terminal: %w", err)
	}
	p := picker{List: list}
	p.filter()
	defer func() {
		_ = t.draw(p.region.replace(nil, nil, t.Width(), t.Height()))
		if restored := t.control(func(fd int) error { return term.Restore(fd, before) }); err == nil && restored != nil {
			err = fmt.Errorf("terminal: %w", restored)
		}
	}()
	resized := make(chan os.Signal, 1)
	signal.Notify(resized, unix.SIGWINCH)
	defer signal.Stop(resized)

	buf := make([]byte, 256)
	for dirty := true; ; {
		if dirty {
			width, height := t.size()
			if err := t.draw(p.region.replace(nil, p.lines(width, height), width, height)); err != nil {
				return 0, cmp.Or(context.Cause(ctx), fmt.Errorf("terminal: %w", err))
			}
		}
		if polled {
			_ = t.f.SetReadDeadline(time.Now().Add(pickTick))
		}
		n, err := t.f.Read(buf)
		if ctx.Err() != nil {
			return 0, context.Cause(ctx)
		}
		late := errors.Is(err, os.ErrDeadlineExceeded) || errors.Is(err, io.EOF) && !polled
		switch {
		case errors.Is(err, syscall.EIO), errors.Is(err, io.EOF) && polled: // the terminal has hung up
			return 0, ErrNobody
		case err != nil && !late:
			return 0, fmt.Errorf("terminal: %w", err)
		}
		switch p.typed(buf[:n], late) {
		case pickLeave:
			return 0, ErrLeft
		case pickTake:
			return p.found[p.at], nil
		}
		dirty = n > 0
		select {
		case <-resized:
			dirty = true
		default:
		}
	}
}

func setReturnEarly(fd int, get, set uint) error {
	state, err := unix.IoctlGetTermios(fd, get)
	if err != nil {
		return err
	}
	state.Cc[unix.VMIN], state.Cc[unix.VTIME] = 0, 1
	return unix.IoctlSetTermios(fd, set, state)
}

// draw writes to a terminal that does not turn newlines into line ends.
func (t *TTY) draw(text string) error {
	_, err := io.WriteString(t.f, strings.ReplaceAll(text, "\n", "\r\n"))
	return err
}

// picker is a list on the screen.
type picker struct {
	List
	query  string
	found  []int // choices that the query admits
	at     int   // the marked one among found
	top    int   // the first one among found that is shown
	page   int   // number of them that have room
	held   []byte
	region region
}

// filter finds the choices that the query admits, and marks the first one.
func (p *picker) filter() {
	words := strings.Fields(strings.ToLower(p.query))
	p.found, p.at, p.top = nil, 0, 0
	for i, c := range p.Choices {
		text := strings.ToLower(c.Name + " " + Line(c.Title))
		if !slices.ContainsFunc(words, func(w string) bool { return !strings.Contains(text, w) }) {
			p.found = append(p.found, i)
		}
	}
}

// pickEnd says whether keys have ended a Pick.
type pickEnd int

const (
	pickGoesOn pickEnd = iota
	pickLeave
	pickTake
)

// typed follows keys up to the one that ends the Pick. The bytes of half a key are held back until
// the rest comes. late says that it did not come in time.
func (p *picker) typed(keys []byte, late bool) pickEnd {
	keys = append(p.held, keys...)
	p.held = nil
	for len(keys) > 0 {
		n := keySize(keys)
		if n == 0 && !late {
			p.held = slices.Clone(keys)
			return pickGoesOn
		}
		n = max(n, 1)
		if end := p.key(string(keys[:n])); end != pickGoesOn {
			return end
		}
		keys = keys[n:]
	}
	return pickGoesOn
}

// keySize returns how many bytes the first key has; 0 = its end has not come.
func keySize(b []byte) int {
	switch {
	case b[0] != esc && utf8.FullRune(b):
		_, n := utf8.DecodeRune(b)
		return n
	case b[0] != esc || len(b) == 1:
		return 0
	case b[1] == 'O':
		return min(len(b), 3) / 3 * 3
	case b[1] == esc:
		return 1
	case b[1] != '[': // Alt and a key
		if !utf8.FullRune(b[1:]) {
			return 0
		}
		_, n := utf8.DecodeRune(b[1:])
		return 1 + n
	}
	for i, c := range b[2:] {
		if c >= 0x40 && c <= 0x7e {
			return i + 3
		}
	}
	return 0
}

func (p *picker) key(key string) pickEnd {
	switch key {
	case "\x1b", "\x03", "\x07":
		return pickLeave
	case "\r", "\n":
		if len(p.found) > 0 {
			return pickTake
		}
	case "\x10", "\x1b[A", "\x1bOA":
		p.at--
	case "\x0e", "\x1b[B", "\x1bOB":
		p.at++
	case "\x1b[5~":
		p.at -= p.page
	case "\x1b[6~":
		p.at += p.page
	case "\x1b[H", "\x1bOH", "\x1b[1~":
		p.at = 0
	case "\x1b[F", "\x1bOF", "\x1b[4~":
		p.at = len(p.found) - 1
	case "\x7f", "\b":
		_, n := utf8.DecodeLastRuneInString(p.query)
		p.query = p.query[:len(p.query)-n]
		p.filter()
	case "\x15":
		p.query = ""
		p.filter()
	case "\x17":
		words := strings.TrimRight(p.query, " ")
		p.query = words[:strings.LastIndexByte(words, ' ')+1]
		p.filter()
	default:
		if key >= " " && utf8.ValidString(key) && Clean(key) == key {
			p.query += key
			p.filter()
		}
	}
	p.at = max(min(p.at, len(p.found)-1), 0)
	return pickGoesOn
}

// lines returns what is on a screen of so many columns and rows.
func (p *picker) lines(width, height int) []drawn {
	p.page = max(min(len(p.Choices), pickRows, height-3), 1)
	p.top = min(max(p.top, p.at-p.page+1), p.at)
	rows, left := p.page, width
	var preview []string
	if p.Preview != nil && width >= pickPreview {
		rows = max(min(pickRows, height-3), 1)
		left = (width - pickDivision) / 2
		if len(p.found) > 0 {
			text := Clean(p.Preview(p.found[p.at], width-left-pickDivision))
			preview = strings.Split(strings.TrimRight(text, "\n"), "\n")
		}
	}
	head := fmt.Sprintf("> %s_  %d of %d, Enter picks, Esc leaves", p.query, len(p.found), len(p.Choices))
	list := []drawn{p.drawn(head, width, "\x1b[1m")}
	for i := range rows {
		text, style := "", ""
		if n := p.top + i; i < p.page && n < len(p.found) {
			c := p.Choices[p.found[n]]
			gap := strings.Repeat(" ", pickNameAfter)
			mark := gap
			if n == p.at {
				mark, style = "> ", "\x1b[7m"
			}
			text = mark + Line(c.Name) + gap + Line(c.Title)
		}
		if left == width {
			list = append(list, p.drawn(text, width, style))
			continue
		}
		line := p.drawn(text, left, style)
		beside := ""
		if i < len(preview) {
			beside = strings.ReplaceAll(preview[i], "\t", " ")
		}
		bar := map[bool]string{true: " │ ", false: " | "}[p.UTF8]
		line.text += strings.Repeat(" ", left-line.width) + bar + Cut(beside, width-left-pickDivision, p.UTF8)
		line.text = strings.TrimRight(line.text, " ")
		line.width = Width(plain(line.text))
		list = append(list, line)
	}
	return list
}

// drawn returns a line that fits, in a style where there are colours.
func (p *picker) drawn(text string, width int, style string) drawn {
	text = Cut(text, width, p.UTF8)
	d := drawn{text, Width(text)}
	if p.Color && style != "" {
		d.text = style + text + "\x1b[0m"
	}
	return d
}

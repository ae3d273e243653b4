// Package term writes for people: it knows which channel a text goes to, how wide it may be,
// whether it may have colours, and what must never reach a terminal.
//
// There are four channels. stdout is for the answer, stderr for everything around it, /dev/tty for
// prompts alone (TTY, Prompter). The log file belongs to another package. IO is stdout and stderr
// with what New found out about them.
//
// Traps:
//
//   - Text of a model or a tool goes through Clean (or a Cleaner, when it comes in pieces) before a
//     terminal sees it: where it may be cut or wrapped, its width must be known. What was forgotten
//     is cleaned when it is written.
//   - Writes to a stdout whose reader has gone return ErrClosed. That is so only if that
//     does not end the process, as it does for os.Stdout.
//   - A Tree redraws lines of stderr. Other writes to the same terminal have to be inside
//     Tree.Around.
package term

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/term"
)

// ErrClosed is returned by writes to a stdout whose reader has gone.
var ErrClosed = errors.New("stdout: closed by its reader")

// OutError says that a write to stdout failed, for another reason than a closed reader. Earlier
// writes have succeeded.
type OutError struct{ Err error }

func (e *OutError) Error() string { return "stdout: " + e.Err.Error() }

// Unwrap returns the system's error.
func (e *OutError) Unwrap() error { return e.Err }

// ErrUnread is returned, after Bound, by writes to a stdout that is not read.
var ErrUnread = errors.New("stdout: nobody reads it")

// IO is a process's standard streams and what they can show. Its fields are read-only after New.
type IO struct {
	In io.Reader // never nil
	// for the answer; after a failed write each returns ErrClosed or an error that names stdout
	Out io.Writer
	Err io.Writer // for everything else; never fails, because there is nobody left to report to

	InTTY, OutTTY, ErrTTY bool
	// whether TERM is dumb: no cursor to move; such a terminal gets the lines of a pipe
	Dumb    bool
	OutFile bool // whether stdout is a regular file, which nobody watches
	// columns of stdout's terminal, or of stderr's where stdout is none; 0 = unlimited
	Width    int
	Height   int  // lines of stderr's terminal; 0 = unknown
	Color    bool // whether stdout may have colours
	ErrColor bool // whether stderr may have colours
	UTF8     bool // whether the locale has box characters and ellipses

	turns string // file of the locks of who asks, see OpenTTY; "" = none
	asked int    // columns that Options.Width asked for; 0 = none
	// terminals of stdout and stderr, whose sizes a Draft and a Tree ask for again and again; nil =
	// none
	outFile, errFile *os.File
}

// Options are what New uses. The zero value is a process without streams or environment.
type Options struct {
	In       io.Reader
	Out, Err io.Writer
	Environ  []string
	Width    int    // columns; 0 = those of the terminal, below 0 = unlimited
	Turns    string // as for OpenTTY
}

// New examines the streams. A stream counts as a terminal only if it is an *os.File of one.
func New(o Options) *IO {
	if o.In == nil {
		o.In = strings.NewReader("")
	}
	if o.Out == nil {
		o.Out = io.Discard
	}
	if o.Err == nil {
		o.Err = io.Discard
	}
	s := &IO{
		In:    o.In,
		InTTY: isTerminal(o.In), OutTTY: isTerminal(o.Out), ErrTTY: isTerminal(o.Err),
	}
	s.Out, s.Err = &output{w: o.Out, clean: forTerminal(s.OutTTY)}, &output{w: o.Err, mute: true, clean: forTerminal(s.ErrTTY)}
	if f, ok := o.Out.(*os.File); ok {
		info, err := f.Stat()
		s.OutFile = err == nil && info.Mode().IsRegular()
	}
	if s.OutTTY {
		s.outFile = o.Out.(*os.File)
	}
	if s.ErrTTY {
		s.errFile = o.Err.(*os.File)
	}
	s.Width, s.Height = size(o, s)
	s.turns, s.asked = o.Turns, max(o.Width, 0)
	s.Color, s.ErrColor = colors(o.Environ, s.OutTTY), colors(o.Environ, s.ErrTTY)
	s.UTF8 = utf8Locale(o.Environ)
	s.Dumb = dumb(o.Environ)
	return s
}

// Text returns text of a model or a tool for stdout: cleaned for a terminal, unchanged for anything
// else.
func (s *IO) Text(text string) string {
	if s.OutTTY {
		return Clean(text)
	}
	return text
}

// Bound makes writes to Out and Err fail if they are not read within some time after ctx ended, so
// that a reader that does not read cannot delay a deadline or a signal. Before that, a write takes
// as long as its reader. Unless the bound that there is then has ended, back sets that of before
// again.
func (s *IO) Bound(ctx context.Context) (back func()) {
	list := s.outputs()
	before := make([]context.Context, len(list))
	for i, o := range list {
		before[i] = o.within(ctx, true)
	}
	return func() {
		for i, o := range list {
			o.within(before[i], false)
		}
	}
}

func (s *IO) outputs() (list []*output) {
	for _, w := range []io.Writer{s.Out, s.Err} {
		for b, ok := w.(behind); ok; b, ok = w.(behind) {
			w = b.Writer
		}
		if o, ok := w.(*output); ok {
			list = append(list, o)
		}
	}
	return list
}

// unreadWait is how long a write may take after its context has ended. It is shorter than the time
// that a jp has to stop.
const unreadWait = time.Second

// output is a stream on which no write succeeds after a failed one, so that nothing is missing in
// the middle.
type output struct {
	mu    sync.Mutex
	w     io.Writer
	mute  bool
	clean *Cleaner // of a terminal: nothing but text and colours is written, see draw; nil = everything is
	err   error
	bound context.Context // see IO.Bound; nil = none
}

// forTerminal returns the Cleaner of a stream that leads to a terminal, and nil for another one.
func forTerminal(is bool) *Cleaner {
	if is {
		return &Cleaner{colours: true}
	}
	return nil
}

// drawer is a stream that also takes text which moves the cursor.
type drawer interface{ draw(p []byte) (int, error) }

// draw writes text that moves the cursor, and whose parts from elsewhere are clean.
func draw(w io.Writer, text string) error {
	write := w.Write
	if d, ok := w.(drawer); ok {
		write = d.draw
	}
	_, err := write([]byte(text))
	return err
}

// within sets the bound, also in place of one that has ended if it is to, and returns the one of
// before.
func (o *output) within(bound context.Context, ended bool) (before context.Context) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if before = o.bound; ended || before == nil || before.Err() == nil {
		o.bound = bound
	}
	return before
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.clean == nil {
		return o.put(p)
	}
	if _, err := o.put([]byte(o.clean.Clean(string(p)))); err != nil {
		return 0, err
	}
	return len(p), nil
}

func (o *output) draw(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.put(p)
}

// put writes what a terminal may get; o.mu is held.
func (o *output) put(p []byte) (int, error) {
	if o.err == nil {
		n, err := o.write(p)
		switch {
		case err == nil:
			return n, nil
		case err == ErrUnread:
			o.err = err
		case errors.Is(err, syscall.EPIPE), errors.Is(err, io.ErrClosedPipe):
			o.err = ErrClosed
		default:
			// The path in an *os.PathError is "/dev/stdout" or a descriptor's number: say the
			// channel's name.
			if path, ok := errors.AsType[*os.PathError](err); ok {
				err = path.Err
			}
			o.err = &OutError{err}
		}
	}
	if o.mute {
		return len(p), nil
	}
	return 0, o.err
}

// write writes within the bound. If it gives up, its goroutine stays in the write: nothing can
// interrupt a write to a pipe.
func (o *output) write(p []byte) (int, error) {
	if o.bound == nil {
		return o.w.Write(p)
	}
	type outcome struct {
		n   int
		err error
	}
	done := make(chan outcome, 1)
	own := bytes.Clone(p) // p belongs to the caller again when we return
	go func() {
		n, err := o.w.Write(own)
		done <- outcome{n, err}
	}()
	select {
	case r := <-done:
		return r.n, r.err
	case <-o.bound.Done():
	}
	late := time.NewTimer(unreadWait)
	defer late.Stop()
	select {
	case r := <-done:
		return r.n, r.err
	case <-late.C:
		return 0, ErrUnread
	}
}

// isTerminal reports whether an *os.File, or anything else with a descriptor, is a terminal.
func isTerminal(stream any) bool {
	f, ok := stream.(*os.File)
	return ok && f != nil && term.IsTerminal(int(f.Fd()))
}

// size finds the columns and lines to draw for: the width that was asked for, that of the kernel,
// $COLUMNS, or 80.
func size(o Options, s *IO) (width, height int) {
	terminal := s.OutTTY || s.ErrTTY
	for _, stream := range []io.Writer{o.Err, o.Out} { // stdout last: its width counts
		if f, ok := stream.(*os.File); ok && isTerminal(f) {
			if w, h, err := term.GetSize(int(f.Fd())); err == nil && w > 0 {
				width, height = w, h
			}
		}
	}
	if width == 0 && terminal {
		width = 80
		if n, err := strconv.Atoi(lookup(o.Environ, "COLUMNS")); err == nil && n > 0 {
			width = n
		}
	}
	switch {
	case o.Width > 0:
		width = o.Width
	case o.Width < 0:
		width = 0
	}
	return width, height
}

// colors follows no-color.org, then bixense.com/clicolors.
func colors(environ []string, terminal bool) bool {
	if lookup(environ, "NO_COLOR") != "" {
		return false
	}
	if v := lookup(environ, "CLICOLOR_FORCE"); v != "" && v != "0" {
		return true
	}
	return terminal && lookup(environ, "CLICOLOR") != "0" && !dumb(environ)
}

func dumb(environ []string) bool { return lookup(environ, "TERM") == "dumb" }

// draws reports whether stderr is a terminal on which lines can be drawn again.
func (s *IO) draws() bool { return s.ErrTTY && !s.Dumb }

// utf8Locale reads the variable that decides LC_CTYPE. Without any the locale is C, which is not
// UTF-8.
func utf8Locale(environ []string) bool {
	for _, name := range []string{"LC_ALL", "LC_CTYPE", "LANG"} {
		if v := lookup(environ, name); v != "" {
			v = strings.ToLower(v)
			return strings.Contains(v, "utf-8") || strings.Contains(v, "utf8")
		}
	}
	return false
}

// lookup returns the last value of a variable, as exec would pass it on; "" where it is not set.
func lookup(environ []string, name string) string {
	for i := len(environ) - 1; i >= 0; i-- {
		if k, v, ok := strings.Cut(environ[i], "="); ok && k == name {
			return v
		}
	}
	return ""
}

// Package term is how jp speaks to people: which channel a text goes to, how wide and how colourful it may be, and what
// must never reach a terminal.
//
// There are four channels. stdout is the answer; stderr is chrome; /dev/tty is for prompts and only these (TTY, Prompter);
// the log file is someone else's. IO is the first two with what is known about them, found out once by New.
//
// Traps:
//
//   - Text of a model or a tool goes through Clean (or a Cleaner, when it comes in pieces) before a terminal sees it.
//   - Writes to a stdout whose reader has gone return ErrClosed. That holds only while the process does not die of SIGPIPE:
//     whoever runs main asks for that signal and drops it.
//   - A Tree redraws lines of stderr. Whatever else writes to the same terminal meanwhile does so inside Tree.Around.
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

// ErrClosed is returned by writes to a stdout whose reader has gone away.
var ErrClosed = errors.New("stdout: closed by its reader")

// OutError says that stdout could not be written to, for another reason than that nobody reads it. What was
// written to it before is there.
type OutError struct{ Err error }

func (e *OutError) Error() string { return "stdout: " + e.Err.Error() }

// Unwrap returns the system's error.
func (e *OutError) Unwrap() error { return e.Err }

// ErrUnread is returned by writes to a stdout that nobody reads, after Bound.
var ErrUnread = errors.New("stdout: nobody reads it")

// IO is a process's standard streams and what they can show. Its fields are read-only after New.
type IO struct {
	In  io.Reader // never nil
	Out io.Writer // the answer; failing writes return ErrClosed or an error that names stdout, from then on always
	Err io.Writer // chrome; never fails: there is nobody left to tell

	InTTY, OutTTY, ErrTTY bool
	Dumb                  bool // TERM=dumb: a terminal without a cursor to move; it gets the lines of a pipe
	OutFile               bool // stdout is a regular file: nobody watches it
	Width                 int  // columns of stdout's terminal (of stderr's, when stdout is none); 0 = unlimited
	Height                int  // lines of stderr's terminal; 0 = unknown
	Color                 bool // stdout may carry colours
	ErrColor              bool // stderr may carry colours
	UTF8                  bool // the locale can show box characters and ellipses

	asked   int      // columns that Options.Width asked for; 0 = none
	errFile *os.File // of ErrTTY: a Tree asks it again, windows change
}

// Options say what New starts from. The zero value is a process without streams or environment.
type Options struct {
	In       io.Reader
	Out, Err io.Writer
	Environ  []string
	Width    int // columns to assume; 0 = ask the terminal, below 0 = unlimited
}

// New looks at the streams once. A stream counts as a terminal only when it is an *os.File that is one.
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
		In: o.In, Out: &output{w: o.Out}, Err: &output{w: o.Err, mute: true},
		InTTY: isTerminal(o.In), OutTTY: isTerminal(o.Out), ErrTTY: isTerminal(o.Err),
	}
	if f, ok := o.Out.(*os.File); ok {
		info, err := f.Stat()
		s.OutFile = err == nil && info.Mode().IsRegular()
	}
	if s.ErrTTY {
		s.errFile = o.Err.(*os.File)
	}
	s.Width, s.Height = size(o, s)
	s.asked = max(o.Width, 0)
	s.Color, s.ErrColor = colors(o.Environ, s.OutTTY), colors(o.Environ, s.ErrTTY)
	s.UTF8 = utf8Locale(o.Environ)
	s.Dumb = dumb(o.Environ)
	return s
}

// Text prepares text of a model or a tool for stdout: cleaned for a terminal, as it is for anything else.
func (s *IO) Text(text string) string {
	if s.OutTTY {
		return Clean(text)
	}
	return text
}

// Bound has writes to Out and Err given up that nobody has taken some time after ctx ended: a reader that stands still
// shall not outlast a deadline or a signal. Until then a write takes as long as its reader does.
func (s *IO) Bound(ctx context.Context) {
	for _, o := range s.outputs() {
		o.mu.Lock()
		o.bound = ctx
		o.mu.Unlock()
	}
}

// Unbound lifts the bound, unless its context has ended.
func (s *IO) Unbound() {
	for _, o := range s.outputs() {
		o.mu.Lock()
		if o.bound != nil && o.bound.Err() == nil {
			o.bound = nil
		}
		o.mu.Unlock()
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

// unreadWait is how long after the end of its context a write may still take. It is shorter than what a jp that is told to
// stop has for that.
const unreadWait = time.Second

// output is a stream whose first failure is its last: what was cut is not continued somewhere in the middle.
type output struct {
	mu    sync.Mutex
	w     io.Writer
	mute  bool
	err   error
	bound context.Context // see IO.Bound; nil = none
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
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
			// The path in an *os.PathError is "/dev/stdout" or a descriptor's number: say the channel's name.
			var path *os.PathError
			if errors.As(err, &path) {
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

// write writes within the bound. A write that is given up stays behind with its goroutine: nothing wakes one that is stuck in a
// pipe.
func (o *output) write(p []byte) (int, error) {
	if o.bound == nil {
		return o.w.Write(p)
	}
	type outcome struct {
		n   int
		err error
	}
	done := make(chan outcome, 1)
	own := bytes.Clone(p) // the caller's again once we return
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

// isTerminal asks the descriptor of an *os.File, or of anything else that has one.
func isTerminal(stream any) bool {
	f, ok := stream.(*os.File)
	return ok && f != nil && term.IsTerminal(int(f.Fd()))
}

// size finds the columns and lines to draw for: what was asked, what the kernel says, $COLUMNS, the 80 of old.
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

// colors follows no-color.org and bixense.com/clicolors; the first has the last word.
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

// utf8Locale reads the variable that decides LC_CTYPE. Without any the locale is C, which is not UTF-8.
func utf8Locale(environ []string) bool {
	for _, name := range []string{"LC_ALL", "LC_CTYPE", "LANG"} {
		if v := lookup(environ, name); v != "" {
			v = strings.ToLower(v)
			return strings.Contains(v, "utf-8") || strings.Contains(v, "utf8")
		}
	}
	return false
}

// lookup returns the last value of a variable, as exec would hand it on; "" when unset.
func lookup(environ []string, name string) string {
	for i := len(environ) - 1; i >= 0; i-- {
		if k, v, ok := strings.Cut(environ[i], "="); ok && k == name {
			return v
		}
	}
	return ""
}

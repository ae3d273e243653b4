// Package console is what a command of jp is attached to: its streams, the global flags, the forms of output, the log, the pager,
// the terminal where somebody may be asked, and signals. What goes wrong is said here, in one way.
package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"jp/cmd/jp/internal/command"
	"jp/cmd/jp/internal/exit"
	"jp/cmd/jp/internal/term"
)

// Env is everything that jp takes from its process.
type Env struct {
	Args           []string // with the program's name first
	Stdin          io.Reader
	Stdout, Stderr io.Writer
	Environ        []string
	Dir            string // working directory; "" when there is none any more

	// Exit ends the process. It is called when a run that is to end does not; nil leaves it waiting.
	Exit func(status int)

	Checkpoint func(point string) // see delegate.Delegator; nil outside of tests of crashes
	EndWithin  time.Duration      // how long a run whose time is up may take to end; 0 = endWithin
}

// console is where one command line of jp is carried out. Not for concurrent use, but for the log and what is written to stderr.
type console struct {
	env      Env
	io       *term.IO
	globals  globals
	log      logFile
	progress *term.Progress // of the command; nil = none
	inTool   bool           // the command line came from a jp inside a tool: nobody is asked, nothing is paged

	logDefault string // path of the log in the user's config, once that was read; "" = none
	last       func() // what a process that is ended by force does at its end; nil = nothing
}

// newConsole looks at the streams of env.
func newConsole(env Env) *console {
	c := &console{env: env}
	c.globals.format = formatAuto
	c.io = c.openIO()
	return c
}

// globals are the flags that every command takes.
type globals struct {
	format         string
	quiet          bool
	verbose        int
	logFile        command.Maybe[string]
	workspace      command.Maybe[string]
	noPersist      bool
	width          command.Maybe[int]
	nonInteractive bool
	noPager        bool
}

// The values of --format.
const (
	formatAuto       = "auto"
	formatText       = "text"
	formatTextPretty = "text-pretty"
	formatJSON       = "json"
	formatJSONPretty = "json-pretty"
	formatStream     = "stream-json"
)

func formats() []string {
	return []string{formatAuto, formatText, formatTextPretty, formatJSON, formatJSONPretty, formatStream}
}

func (a *console) globalFlags() []*command.Option {
	g := &a.globals
	return []*command.Option{
		command.Choice(&g.format, "format", "FORMAT", formats(), "form of stdout: "+strings.Join(formats(), ", ")).Alias("F", "output-format"),
		command.Bool(&g.quiet, "quiet", "nothing on stderr but errors").Alias("q"),
		command.Count(&g.verbose, "verbose", "say more on stderr; repeat for even more").Alias("v"),
		command.String(&g.logFile, "log-file", "PATH", "append the log to PATH; - is stderr (default: $JP_LOG_FILE, then below XDG state)"),
		command.String(&g.workspace, "workspace", "PATH", "use the workspace at or above PATH").Alias("w"),
		command.Bool(&g.noPersist, "no-persist", "write nothing to the store").Alias("no-session-persistence"),
		command.Int(&g.width, "width", "N", 0, "columns to lay text out for; 0 = unlimited"),
		command.Bool(&g.noPager, "no-pager", "do not page what is longer than the terminal (otherwise $JP_PAGER, $PAGER or less does; cat is none)"),
		command.Bool(&g.nonInteractive, "non-interactive", "never ask anything (also JP_NONINTERACTIVE=1)"),
	}
}

// patiently runs f, with a line of progress on the terminal when it takes long and may.
func (a *console) patiently(s command.Spec, name string, f func() error) error {
	if !s.Paged && !s.Slow || a.globals.quiet || a.inTool {
		return f()
	}
	a.io, a.progress = a.io.Progress(name, term.ProgressOptions{})
	defer a.progress.End()
	return f()
}

// openIO looks at the streams; again when --width is known.
func (a *console) openIO() *term.IO {
	o := term.Options{In: a.env.Stdin, Out: a.env.Stdout, Err: a.env.Stderr, Environ: a.env.Environ}
	if w := a.globals.width; w.Set {
		o.Width = w.Value
		if w.Value == 0 {
			o.Width = -1
		}
	}
	return term.New(o)
}

// getenv returns the last value of a variable, "" when it is unset.
func (a *console) getenv(name string) string {
	for _, kv := range slices.Backward(a.env.Environ) {
		if k, v, ok := strings.Cut(kv, "="); ok && k == name {
			return v
		}
	}
	return ""
}

// interactive reports whether jp may ask someone at all; whether somebody is there tells term.OpenTTY.
func (a *console) interactive() bool {
	set := a.getenv("JP_NONINTERACTIVE")
	return !a.globals.nonInteractive && (set == "" || set == "0")
}

// stdinMax bounds what is read from stdin, in bytes.
const stdinMax = 16 << 20

// stdin returns what is piped in; "" when stdin is a terminal. It is content, never an answer to a question.
func (a *console) stdin(ctx context.Context) (string, error) {
	if a.io.InTTY {
		return "", nil
	}
	type input struct {
		b   []byte
		err error
	}
	// A pipe that nobody writes to and nobody closes must not outlast a signal or a deadline. The reader is left behind then.
	read := make(chan input, 1)
	go func() {
		b, err := io.ReadAll(io.LimitReader(a.io.In, stdinMax+1))
		read <- input{b, err}
	}()
	var in input
	select {
	case in = <-read:
	case <-ctx.Done():
		return "", context.Cause(ctx)
	}
	b, err := in.b, in.err
	switch {
	case errors.Is(err, os.ErrClosed):
		return "", nil
	case err != nil:
		return "", fmt.Errorf("stdin: %w", err)
	case len(b) > stdinMax:
		return "", exit.Usagef("stdin: more than %d MiB", stdinMax>>20)
	case !utf8.Valid(b):
		return "", exit.Usagef("stdin: not UTF-8 text").WithHint("attach or convert it; a model reads text only")
	}
	return string(b), nil
}

// terminal opens the terminal for a question. The error for nobody there, or --non-interactive, is term.ErrNobody.
func (a *console) terminal() (*term.TTY, error) {
	if a.inTool || !a.interactive() {
		return nil, term.ErrNobody
	}
	a.progress.End() // it would be drawn over the question
	return term.OpenTTY()
}

// nobody reports whether a question failed for want of someone to answer it.
func nobody(err error) bool { return errors.Is(err, term.ErrNobody) }

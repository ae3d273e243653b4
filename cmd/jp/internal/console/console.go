// Package console is what a command of jp is attached to: its streams, the global flags, the forms
// of output, the log, the pager, the terminal where somebody may be asked, and signals. Errors
// become messages here, in one way.
package console

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
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
	Dir            string // working directory; "" when it is gone

	// Exit ends the process. It is called when a run that is to end does not; without it, jp waits
	// on.
	Exit func(status int)

	Checkpoint func(point string) // see delegate.Options; nil outside of tests of crashes
	EndWithin  time.Duration      // time that a run whose deadline passed may take to end; 0 = endWithin
}

// Console is where one command line of jp is carried out. It is not for concurrent use, except the
// log and what is written to stderr.
type Console struct {
	Env      Env
	IO       *term.IO
	Globals  Globals
	Log      logFile
	Progress *term.Progress // of the command; nil = none
	Tree     *term.Tree     // drawn on stderr: notes appear above it, from any goroutine; nil = none
	quit     chan os.Signal // receives SIGQUIT while nobody else does; nil = EndAtQuit was not called
	InTool   bool           // the command line came from a jp inside a tool: nobody is asked, nothing is paged
	Called   bool           // another jp started this one, and asks it with SIGINT to end

	LogDefault   string // path of the log in the user's config, once that was read; "" = none
	PagerDefault string // its pager, the same
	Settings     func() // reads that config, if it can be read and was not; nil = there is none
	Last         func() // called at the end of a process that is ended by force; nil = nothing
}

// New finds out what the streams of env are.
func New(env Env) *Console {
	c := &Console{Env: env}
	c.Globals.Format = FormatAuto
	c.IO = c.OpenIO()
	return c
}

// Globals are the flags that every command takes.
type Globals struct {
	Format         string
	Elsewhere      bool // --output-format: JSON has the words of other agent programs too
	Quiet          bool
	Verbose        int
	logFile        command.Maybe[string]
	Workspace      command.Maybe[string]
	NoPersist      bool
	width          command.Maybe[int]
	NonInteractive bool
	noPager        bool
}

// The values of --format.
const (
	FormatAuto       = "auto"
	formatText       = "text"
	formatTextPretty = "text-pretty"
	FormatJSON       = "json"
	FormatJSONPretty = "json-pretty"
	FormatStream     = "stream-json"
)

func Formats() []string {
	return []string{FormatAuto, formatText, formatTextPretty, FormatJSON, FormatJSONPretty, FormatStream}
}

func (c *Console) GlobalFlags() []*command.Option {
	g := &c.Globals
	elsewhere := command.Choice(&g.Format, "output-format", "FORMAT", Formats(), "the same; in json and stream-json results have the keys of other agent programs too")
	take := elsewhere.Take
	elsewhere.Take = func(s string, given bool) error {
		g.Elsewhere = true
		return take(s, given)
	}
	logFile := command.String(&g.logFile, "log-file", "PATH", "append the log to PATH; - is stderr (default: $JP_LOG_FILE, else a file below $XDG_STATE_HOME)")
	named := logFile.Take
	logFile.Take = func(s string, given bool) error {
		if s == "" {
			return errors.New("names no file")
		}
		return named(s, given)
	}
	return []*command.Option{
		command.Choice(&g.Format, "format", "FORMAT", Formats(), "form of stdout: "+strings.Join(Formats(), ", ")).Alias("F"),
		elsewhere,
		command.Bool(&g.Quiet, "quiet", "print only errors on stderr").Alias("q"),
		command.Count(&g.Verbose, "verbose", "print more on stderr, and write more to the log").Alias("v"),
		logFile,
		command.String(&g.Workspace, "workspace", "PATH", "use the workspace at or above PATH").Alias("w"),
		command.Bool(&g.NoPersist, "no-persist", "write nothing to the store").Alias("no-session-persistence"),
		command.Int(&g.width, "width", "N", 0, "width of text in columns; 0 = unlimited"),
		command.Bool(&g.noPager, "no-pager", "do not start a pager for long output (default: $JP_PAGER, pager.cmd, $PAGER or less; cat turns it off)"),
		command.Bool(&g.NonInteractive, "non-interactive", "never ask anything (also JP_NONINTERACTIVE=1)"),
	}
}

// Patiently runs f. If that takes long, and the terminal is for it, a line there shows the
// progress.
func (c *Console) Patiently(s command.Spec, name string, f func() error) error {
	if !s.Paged && !s.Slow || c.Globals.Quiet || c.InTool {
		return f()
	}
	c.IO, c.Progress = c.IO.Progress(name, term.ProgressOptions{})
	defer c.Progress.End()
	return f()
}

// OpenIO finds out what the streams are; it does so again when --width is known.
func (c *Console) OpenIO() *term.IO {
	o := term.Options{In: c.Env.Stdin, Out: c.Env.Stdout, Err: c.Env.Stderr, Environ: c.Env.Environ, Turns: c.turns()}
	if w := c.Globals.width; w.Set {
		o.Width = w.Value
		if w.Value == 0 {
			o.Width = -1
		}
	}
	return term.New(o)
}

// Getenv returns the last value of a variable, "" when it is unset.
func (c *Console) Getenv(name string) string {
	for _, kv := range slices.Backward(c.Env.Environ) {
		if k, v, ok := strings.Cut(kv, "="); ok && k == name {
			return v
		}
	}
	return ""
}

// Interactive reports whether jp may ask someone at all; term.OpenTTY knows whether somebody is
// there.
func (c *Console) Interactive() bool {
	set := c.Getenv("JP_NONINTERACTIVE")
	return !c.Globals.NonInteractive && (set == "" || set == "0")
}

// StdinMax bounds what is read from stdin, in bytes.
const StdinMax = 16 << 20

// slowStdin is how long stdin may stay open until a note says that it is read.
const slowStdin = 2 * time.Second

// Stdin returns what is piped in; "" when stdin is a terminal. It is content, never an answer to a
// question.
func (c *Console) Stdin(ctx context.Context) (string, error) {
	if c.IO.InTTY {
		return "", nil
	}
	type input struct {
		b   []byte
		err error
	}
	// A pipe that nobody writes to or closes must not outlast a signal or a deadline. Then the
	// goroutine that reads is abandoned.
	read := make(chan input, 1)
	go func() {
		b, err := io.ReadAll(io.LimitReader(c.IO.In, StdinMax+1))
		read <- input{b, err}
	}()
	var in input
	for ended, slow := false, time.After(slowStdin); !ended; {
		select {
		case in = <-read:
			ended = true
		case <-slow:
			c.Note("reading stdin until it ends (</dev/null if nothing comes)")
		case <-ctx.Done():
			return "", context.Cause(ctx)
		}
	}
	b, err := in.b, in.err
	switch {
	case errors.Is(err, os.ErrClosed):
		return "", nil
	case err != nil:
		return "", fmt.Errorf("stdin: %w", err)
	case len(b) > StdinMax:
		return "", exit.Usagef("stdin: more than %d MiB", StdinMax>>20).WithHint("pipe less; `jp batch` reads any length, a query in each line")
	case !utf8.Valid(b):
		return "", exit.Usagef("stdin: not UTF-8 text").WithHint("attach or convert it; a model reads text only")
	}
	return string(b), nil
}

// Terminal opens the terminal for a question. If nobody is there, or with --non-interactive, the
// error is term.ErrNobody.
func (c *Console) Terminal() (*term.TTY, error) {
	if c.InTool || !c.Interactive() {
		return nil, term.ErrNobody
	}
	c.Progress.End() // it would be drawn over the question
	return term.OpenTTY(c.turns())
}

// turns is the file of the locks of who asks; "" without a home.
func (c *Console) turns() string {
	if dir := c.StateDir(); dir != "" {
		return filepath.Join(dir, "asking.lock")
	}
	return ""
}

// Nobody reports whether a question failed because nobody was there to answer it.
func Nobody(err error) bool { return errors.Is(err, term.ErrNobody) }

// Package cli is the command line of jp: its commands, flags, formats and exit statuses, and the only place where the other
// packages are wired together.
//
// Main is the entrance. It puts the arguments in order (arrange), lets cli/v2 parse and dispatch them, and turns whatever
// error comes back into words and an exit status (explain). A command is a spec: an options struct filled by its flags, and a
// run function that takes the context and the positional arguments. What a command needs beside its options (streams, config,
// workspace, store) it gets from app, which opens nothing before it is asked: `jp version`, help and completion read no file.
//
// A new command adds a constructor to commands, tells in its spec which statuses it ends with and an example, and extends
// docs/cli.md by `go generate`.
package cli

import (
	"context"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"jp/cmd/jp/internal/command"
	"jp/cmd/jp/internal/exit"
	"jp/cmd/jp/internal/term"
	"jp/tools"
)

//go:generate go test -run TestReference -update .

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

// app is one run of jp.
type app struct {
	env      Env
	io       *term.IO
	globals  globals
	tree     *command.Tree
	places   places
	log      logFile
	plain    int            // how many positional arguments stood before --, see invocation; 0 for a guest, whose words are a tool's
	progress *term.Progress // of the command; nil = none
	patience time.Duration  // for the store's lock; 0 = the store's own
	subagent bool           // this process is one: it waits for the store as long as it lives
	guest    *guest         // this command line came from a jp inside a tool; nil for all others
	mcp      mcpUse

	takesNone bool  // the command can be told --cfg NONE
	tape      *tape // that records or replays this run; nil = none does
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

// Main runs one command line and returns its exit status. Only env.Exit ends the process, see forceEnd. Signals are left alone but for SIGPIPE and,
// while a command runs that has something to settle, SIGINT, SIGTERM and SIGHUP.
func Main(ctx context.Context, env Env) int {
	defer keepBrokenPipe()()
	a := newApp(env)
	defer a.libraries()()
	if fd := a.getenv(tools.CallVariable); fd != "" {
		return a.insideTool(fd)
	}
	defer func() { _ = a.log.Close() }()
	ctx, lastTraces := a.traced(ctx)
	defer lastTraces()
	err := a.run(ctx, env.Args)
	a.closeServers()
	if err == nil {
		return int(exit.OK)
	}
	return int(a.fail(err))
}

// newApp builds the command tree. Nothing is opened.
func newApp(env Env) *app {
	a := &app{env: env}
	a.globals.format = formatAuto
	a.io = a.openIO()
	a.tree = command.New("jp", "a command-line assistant whose sub-agents are processes")
	a.tree.Around, a.tree.Hint = a.around, foreignHint
	a.tree.Add(a.globalFlags(), a.commands()...)
	return a
}

// commands is the table of contents.
func (a *app) commands() []*cli.Command {
	return []*cli.Command{
		newInitCommand(a),
		newTrustCommand(a),
		newQueryCommand(a),
		newBatchCommand(a),
		newConversationCommand(a),
		newProfileCommand(a),
		newModelCommand(a),
		newToolCommand(a),
		newMCPCommand(a),
		newACPCommand(a),
		newConfigCommand(a),
		newUsageCommand(a),
		newTraceCommand(a),
		newStoreCommand(a),
		newCheckCommand(a),
		newDoctorCommand(a),
		newVersionCommand(a),
		newCompletionCommand(a),
		newManCommand(a),
		newHelpCommand(a),
	}
}

func (a *app) globalFlags() []*command.Option {
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

// run reads one command line and runs its command.
func (a *app) run(ctx context.Context, args []string) error {
	if len(args) > 0 {
		args = args[1:]
	}
	if len(args) > 0 && args[0] == command.CompleteCommand {
		return a.complete(args[1:])
	}
	inv, err := a.tree.Arrange(args)
	if err != nil {
		if f := command.FormatIn(args); slices.Contains(formats(), f) {
			a.globals.format = f
		}
		return err
	}
	switch {
	case inv.Help:
		a.takeGlobals(inv)
		return a.paged(func() error { return a.tree.Help(a.io.Out, a.io.Width, inv.Path) })
	case inv.Version:
		inv.Path = []*cli.Command{a.tree.Root.Command("version")}
		inv.Flags, inv.Positionals = nil, nil
	case inv.Command() == nil || len(inv.Command().Subcommands) > 0:
		a.takeGlobals(inv)
		return a.incomplete(inv.Path)
	}
	a.plain = inv.Plain
	return a.tree.Run(ctx, inv)
}

// command.SetGlobals applies the global flags of a command line that is not run, as far as they are sound: its help fits --width.
func (a *app) takeGlobals(inv *command.Line) {
	a.tree.SetGlobals(inv)
	a.io = a.openIO()
}

// around is what a command runs in: streams as the flags say, a pager, a line of progress on the terminal when it takes long.
func (a *app) around(s command.Spec, path string, run func() error) error {
	a.io = a.openIO()
	a.takesNone = slices.ContainsFunc(s.Flags, func(o *command.Option) bool { return o.Name == "no-cfg" })
	patient := func() error { return a.patiently(s, path, run) }
	if s.Paged {
		return a.paged(patient)
	}
	return patient()
}

// patiently runs f, with a line of progress on the terminal when it takes long and may.
func (a *app) patiently(s command.Spec, name string, f func() error) error {
	if !s.Paged && !s.Slow || a.globals.quiet || a.guest != nil {
		return f()
	}
	a.io, a.progress = a.io.Progress(name, term.ProgressOptions{})
	defer a.progress.End()
	return f()
}

// incomplete answers a command line that names a group only: what could follow goes to stderr, since nothing was done.
func (a *app) incomplete(path []*cli.Command) error {
	if !a.json() {
		if err := a.tree.Help(a.io.Err, a.io.Width, path); err != nil {
			return err
		}
		return exit.Quiet(exit.Usage)
	}
	return exit.Usagef("%sa command is missing", command.Subject(path)).WithHint("see `%s --help`", command.Name(path))
}

// openIO looks at the streams; again when --width is known.
func (a *app) openIO() *term.IO {
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
func (a *app) getenv(name string) string {
	for _, kv := range slices.Backward(a.env.Environ) {
		if k, v, ok := strings.Cut(kv, "="); ok && k == name {
			return v
		}
	}
	return ""
}

// interactive reports whether jp may ask someone at all; whether somebody is there tells term.OpenTTY.
func (a *app) interactive() bool {
	set := a.getenv("JP_NONINTERACTIVE")
	return !a.globals.nonInteractive && (set == "" || set == "0")
}

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
	tree     *Tree
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
	logFile        maybe[string]
	workspace      maybe[string]
	noPersist      bool
	width          maybe[int]
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
	a.tree = newTree("jp", "a command-line assistant whose sub-agents are processes")
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

func (a *app) globalFlags() []*option {
	g := &a.globals
	return []*option{
		choiceFlag(&g.format, "format", "FORMAT", formats(), "form of stdout: "+strings.Join(formats(), ", ")).alias("F", "output-format"),
		boolFlag(&g.quiet, "quiet", "nothing on stderr but errors").alias("q"),
		countFlag(&g.verbose, "verbose", "say more on stderr; repeat for even more").alias("v"),
		stringFlag(&g.logFile, "log-file", "PATH", "append the log to PATH; - is stderr (default: $JP_LOG_FILE, then below XDG state)"),
		stringFlag(&g.workspace, "workspace", "PATH", "use the workspace at or above PATH").alias("w"),
		boolFlag(&g.noPersist, "no-persist", "write nothing to the store").alias("no-session-persistence"),
		intFlag(&g.width, "width", "N", 0, "columns to lay text out for; 0 = unlimited"),
		boolFlag(&g.noPager, "no-pager", "do not page what is longer than the terminal (otherwise $JP_PAGER, $PAGER or less does; cat is none)"),
		boolFlag(&g.nonInteractive, "non-interactive", "never ask anything (also JP_NONINTERACTIVE=1)"),
	}
}

// run reads one command line and runs its command.
func (a *app) run(ctx context.Context, args []string) error {
	if len(args) > 0 {
		args = args[1:]
	}
	if len(args) > 0 && args[0] == completeCommand {
		return a.complete(args[1:])
	}
	inv, err := a.tree.arrange(args)
	if err != nil {
		if f := formatIn(args); slices.Contains(formats(), f) {
			a.globals.format = f
		}
		return err
	}
	switch {
	case inv.help:
		a.takeGlobals(inv)
		return a.paged(func() error { return a.tree.help(a.io.Out, a.io.Width, inv.path) })
	case inv.version:
		inv.path = []*cli.Command{a.tree.Root.Command("version")}
		inv.flags, inv.positionals = nil, nil
	case inv.command() == nil || len(inv.command().Subcommands) > 0:
		a.takeGlobals(inv)
		return a.incomplete(inv.path)
	}
	a.plain = inv.plain
	return a.tree.Run(ctx, inv)
}

// takeGlobals applies the global flags of a command line that is not run, as far as they are sound: its help fits --width.
func (a *app) takeGlobals(inv *invocation) {
	a.tree.takeGlobals(inv)
	a.io = a.openIO()
}

// around is what a command runs in: streams as the flags say, a pager, a line of progress on the terminal when it takes long.
func (a *app) around(s spec, path string, run func() error) error {
	a.io = a.openIO()
	a.takesNone = slices.ContainsFunc(s.Flags, func(o *option) bool { return o.name == "no-cfg" })
	patient := func() error { return a.patiently(s, path, run) }
	if s.Paged {
		return a.paged(patient)
	}
	return patient()
}

// patiently runs f, with a line of progress on the terminal when it takes long and may.
func (a *app) patiently(s spec, name string, f func() error) error {
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
		if err := a.tree.help(a.io.Err, a.io.Width, path); err != nil {
			return err
		}
		return exit.Quiet(exit.Usage)
	}
	return exit.Usagef("%sa command is missing", subject(path)).WithHint("see `%s --help`", commandName(path))
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

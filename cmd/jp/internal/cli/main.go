// Package cli is the command line of jp: its commands. Only this package joins the other packages.
//
// Main runs a command line. Package command puts the arguments in order, cli/v2 parses and
// dispatches them, and package console prints errors and returns the exit status. A command is a
// command.Spec: an options struct that its flags fill, and a run function that takes the context
// and the positional arguments. It gets everything else from app: a console, and a workspace that
// opens nothing before it has to. `jp version`, help and completion read no file.
//
// To add a command, add its name and its constructor to commands, list its exit statuses and an
// example in its Spec, and update docs/cli.md with `go generate`.
package cli

import (
	"context"
	"slices"

	"github.com/urfave/cli/v2"

	"jp/cmd/jp/internal/call"
	"jp/cmd/jp/internal/cli/batch"
	"jp/cmd/jp/internal/cli/care"
	"jp/cmd/jp/internal/cli/config"
	"jp/cmd/jp/internal/cli/conversation"
	"jp/cmd/jp/internal/cli/mcp"
	"jp/cmd/jp/internal/cli/query"
	"jp/cmd/jp/internal/cli/running"
	"jp/cmd/jp/internal/command"
	"jp/cmd/jp/internal/console"
	"jp/cmd/jp/internal/editor"
	"jp/cmd/jp/internal/exit"
	"jp/cmd/jp/internal/review"
	"jp/cmd/jp/internal/run"
	"jp/cmd/jp/internal/term"
	"jp/cmd/jp/internal/trust"
	"jp/cmd/jp/internal/workspace"
	"jp/tools"
)

//go:generate go test -run TestReference -update .

// app is one run of jp.
type app struct {
	con   *console.Console
	tree  *command.Tree
	ws    *workspace.Workspace
	guest *run.Guest // guest that this command line is of; nil outside of a tool
	env   *run.Env

	review *review.Reviewer
}

// Env is everything that jp takes from its process.
type Env = console.Env

// Main runs one command line and returns its exit status. Only env.Exit ends the process, see
// forceEnd. Main handles SIGQUIT and, while a command runs that has something to settle, SIGINT,
// SIGTERM and SIGHUP. Other signals keep their default.
func Main(ctx context.Context, env console.Env) int {
	a := newApp(env)
	a.con.EndAtQuit()
	a.con.Libraries()
	if fd := a.con.Getenv(tools.CallVariable); fd != "" {
		return a.insideTool(fd)
	}
	defer func() { _ = a.con.Log.Close() }()
	ctx, lastTraces := a.traced(ctx)
	defer lastTraces()
	err := a.run(ctx, env.Args)
	a.env.Servers.Close()
	if err == nil {
		return int(exit.OK)
	}
	return int(a.con.Fail(err))
}

// newApp builds the command tree. It opens nothing.
func newApp(env console.Env) *app { return newAppFor(env, nil) }

// newAppFor does the same. g is set for a jp inside a tool, otherwise nil.
func newAppFor(env console.Env, g *run.Guest) *app {
	a := newAppAt(console.New(env))
	a.guest = g
	a.tree = command.New("jp", "a command-line assistant whose sub-agents are processes")
	a.tree.Around, a.tree.Hint = a.around, query.ForeignHint
	a.tree.Add(a.con.GlobalFlags(), named(a.commands(), env.Args)...)
	return a
}

// verb is a command that is not built yet.
type verb struct {
	name  string
	build func() *cli.Command
}

// named builds the command that is the first word of a command line, and that of --version. It
// builds all where the first word is none, or one whose command looks at the others.
func named(verbs []verb, args []string) (list []*cli.Command) {
	word := ""
	if len(args) > 1 && !slices.Contains([]string{"completion", "man", "help"}, args[1]) {
		word = args[1]
	}
	alone := slices.ContainsFunc(verbs, func(v verb) bool { return v.name == word })
	for _, v := range verbs {
		if !alone || v.name == word || v.name == "version" {
			list = append(list, v.build())
		}
	}
	return list
}

// newAppAt returns jp at a console, without commands.
func newAppAt(con *console.Console) *app {
	a := &app{con: con, ws: workspace.New(con)}
	a.env = run.New(con, a.ws)
	a.env.Serve = func(ctx context.Context, g run.Guest, r call.Request) int { return serve(ctx, &g, r, a.env.Reads) }
	a.review = review.New(con, a.ws, a.env.Servers)
	a.ws.Gate.Page = func(ctx context.Context, j trust.Judgement, width int) (string, trust.Shown, error) {
		p, err := a.review.Page(ctx, j)
		return p.Text(width), p.Shown, err
	}
	a.ws.Gate.Diff = func(ctx context.Context, j trust.Judgement, width int) (string, error) {
		p, err := a.review.Page(ctx, j)
		p.AddDiffs(j)
		return term.Rows(p.DiffRows(width), con.IO.ErrColor), err
	}
	return a
}

// care returns what the commands of package care share.
func (a *app) care() *care.Group {
	return &care.Group{Con: a.con, WS: a.ws, Env: a.env, Tree: a.tree, Review: a.review}
}

// commands returns all commands, in the order of the help.
func (a *app) commands() []verb {
	cares := a.care()
	configs := &config.Group{Con: a.con, WS: a.ws, Env: a.env, Tree: a.tree, Review: a.review}
	runs := &running.Group{Con: a.con, WS: a.ws, Tree: a.tree}
	ofCare := func(name string, build func(*care.Group) *cli.Command) verb {
		return verb{name, func() *cli.Command { return build(cares) }}
	}
	ofConfig := func(name string, build func(*config.Group) *cli.Command) verb {
		return verb{name, func() *cli.Command { return build(configs) }}
	}
	ofRunning := func(name string, build func(*running.Group) *cli.Command) verb {
		return verb{name, func() *cli.Command { return build(runs) }}
	}
	return []verb{
		ofCare("init", care.NewInit),
		ofCare("trust", care.NewTrust),
		{"query", func() *cli.Command { return query.New(&query.Group{Env: a.env, Tree: a.tree, Guest: a.guest}) }},
		{"batch", func() *cli.Command { return batch.New(a.env, a.tree, a.guest) }},
		{"conversation", func() *cli.Command {
			return conversation.New(&conversation.Group{Con: a.con, WS: a.ws, Env: a.env, Tree: a.tree, Guest: a.guest})
		}},
		ofConfig("profile", config.NewProfile),
		ofConfig("model", config.NewModel),
		ofConfig("tool", config.NewTool),
		{"mcp", func() *cli.Command { return mcp.New(&mcp.Group{Env: a.env, Tree: a.tree}) }},
		{"acp", func() *cli.Command {
			return editor.New(a.env, a.tree, func(con *console.Console) *run.Env { return newAppAt(con).env })
		}},
		ofConfig("config", config.New),
		ofCare("usage", care.NewUsage),
		ofCare("trace", care.NewTrace),
		ofRunning("ps", running.NewPs),
		ofRunning("stop", running.NewStop),
		ofRunning("wait", running.NewWait),
		ofCare("store", care.NewStore),
		ofConfig("check", config.NewCheck),
		ofCare("doctor", care.NewDoctor),
		ofCare("worker", care.NewWorker),
		ofCare("version", care.NewVersion),
		ofCare("completion", care.NewCompletion),
		ofCare("man", care.NewMan),
		ofCare("help", care.NewHelp),
	}
}

// run reads one command line and runs its command.
func (a *app) run(ctx context.Context, args []string) error {
	if len(args) > 0 {
		args = args[1:]
	}
	if len(args) > 0 && args[0] == command.CompleteCommand {
		return a.care().Complete(args[1:])
	}
	inv, err := a.tree.Arrange(args)
	if err != nil {
		if f := command.FormatIn(args); slices.Contains(console.Formats(), f) {
			a.con.Globals.Format = f
		}
		return err
	}
	switch {
	case inv.Help:
		a.takeGlobals(inv)
		return a.con.Paged(func() error { return a.tree.Help(a.con.IO.Out, a.con.IO.Width, inv.Path) })
	case inv.Version:
		inv.Path = []*cli.Command{a.tree.Root.Command("version")}
		inv.Flags, inv.Positionals = nil, nil
	case inv.Command() == nil || len(inv.Command().Subcommands) > 0:
		a.takeGlobals(inv)
		return a.incomplete(inv.Path)
	}
	a.tree.Plain = inv.Plain
	return a.tree.Run(ctx, inv)
}

// command.SetGlobals applies the valid global flags of a command line that is not run, so that its
// help fits --width.
func (a *app) takeGlobals(inv *command.Line) {
	a.tree.SetGlobals(inv)
	a.con.IO = a.con.OpenIO()
}

// around runs a command with the streams that the flags name, a pager, and a line of progress on
// the terminal if it takes long.
func (a *app) around(s command.Spec, path string, run func() error) error {
	a.con.IO = a.con.OpenIO()
	a.ws.Gate.TakesNone = slices.ContainsFunc(s.Flags, func(o *command.Option) bool { return o.Name == "no-cfg" })
	patient := func() error { return a.con.Patiently(s, path, run) }
	if s.Paged && (s.Follows == nil || !*s.Follows) {
		return a.con.Paged(patient)
	}
	return patient()
}

// incomplete answers a command line that names only a group: it prints the commands of the group to
// stderr, because nothing was done.
func (a *app) incomplete(path []*cli.Command) error {
	if !a.con.JSON() {
		if err := a.tree.Help(a.con.IO.Err, a.con.IO.Width, path); err != nil {
			return err
		}
		return exit.Quiet(exit.Usage)
	}
	return exit.Usagef("%sa command is missing", command.Subject(path)).WithHint("see `%s --help`", command.Name(path))
}

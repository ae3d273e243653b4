package cli

import (
	"context"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"jp/cmd/jp/internal/exit"
	"jp/cmd/jp/internal/term"
)

// spec is a command as its author writes it down.
type spec struct {
	Name    string
	Aliases []string
	Summary string // one line, lowercase, no full stop
	Args    string // positional arguments as the usage line shows them; "" = none
	About   string // paragraphs of help
	Flags   []*option

	Min, Max int // how many positional arguments; Max < 0 = any number

	Exits    []exit.Status // beside 0, 1, 2 and 141, which every command can end with
	Examples []string      // command lines that start with jp; a test reads them

	Paged bool // what it prints on a terminal is led through the pager
	Slow  bool // may take longer than a second without a word: a line on the terminal says so. So does Paged

	Run  func(ctx context.Context, args []string) error // nil in a group
	Subs []*cli.Command                                 // of a group
}

// command makes the cli/v2 command of s.
func (a *app) command(s spec) *cli.Command {
	c := &cli.Command{
		Name: s.Name, Aliases: s.Aliases, Usage: s.Summary, ArgsUsage: s.Args, Description: s.About,
		Flags: flags(s.Flags...), Subcommands: s.Subs,
		HideHelp: true, HideHelpCommand: true,
		OnUsageError: a.onUsageError,
	}
	if s.Run != nil {
		c.Action = func(cc *cli.Context) error {
			a.io = a.openIO()
			a.takesNone = slices.ContainsFunc(s.Flags, func(o *option) bool { return o.name == "no-cfg" })
			args, name := cc.Args().Slice(), strings.TrimPrefix(cc.Command.HelpName, "jp ")
			switch {
			case len(args) < s.Min:
				return exit.Usagef("%s: %s is missing", name, s.Args).WithHint("see `jp %s --help`", name)
			case s.Max >= 0 && len(args) > s.Max:
				return exit.Usagef("%s: unexpected argument %q", name, args[s.Max]).WithHint("see `jp %s --help`", name)
			}
			run := func() error { return a.patiently(s, name, func() error { return s.Run(cc.Context, args) }) }
			if s.Paged {
				return a.paged(run)
			}
			return run()
		}
	}
	a.specs[c] = s
	return c
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

// flags makes cli/v2 flags of options.
func flags(os ...*option) []cli.Flag {
	out := make([]cli.Flag, len(os))
	for i, o := range os {
		out[i] = o
	}
	return out
}

// onUsageError returns the error that a flag's own check gave; package flag hands over only its text.
func (a *app) onUsageError(c *cli.Context, err error, _ bool) error {
	for _, o := range append(options(c.Command), flagsOf(a.root.Flags)...) {
		if o.err != nil {
			return o.err
		}
	}
	return exit.Usagef("%v", err)
}

// incomplete answers a command line that names a group only: what could follow goes to stderr, since nothing was done.
func (a *app) incomplete(path []*cli.Command) error {
	if !a.json() {
		if err := a.help(a.io.Err, path); err != nil {
			return err
		}
		return exit.Quiet(exit.Usage)
	}
	return exit.Usagef("%sa command is missing", subject(path)).WithHint("see `%s --help`", commandName(path))
}

// errMixed is for two flags that exclude one another.
func errMixed(a, b string) error { return exit.Usagef("%s and %s: give only one", a, b) }

// onlyOne returns an error when more than one of the named flags was given.
func onlyOne(given map[string]bool, order ...string) error {
	var found []string
	for _, name := range order {
		if given[name] {
			found = append(found, name)
		}
	}
	if len(found) > 1 {
		return errMixed(found[0], found[1])
	}
	return nil
}

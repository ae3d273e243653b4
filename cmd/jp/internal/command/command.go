// Package command puts a command line in order: the kinds of flags, the arrangement of what was
// typed, dispatch by cli/v2, help, manual pages and completion. It knows nothing of what the
// commands do.
//
// A program is a Tree. A command is a Spec: what help says, an options struct that its flags fill,
// and a function that takes the context and the positional arguments. Arrange puts the arguments in
// order, so that flags may be anywhere; Run lets cli/v2 parse and dispatch them.
package command

import (
	"context"
	"io"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"jp/cmd/jp/internal/exit"
)

// Spec is a command as its author writes it down.
type Spec struct {
	Name    string
	Aliases []string
	Summary string // one line, lowercase, no full stop
	Args    string // positional arguments as the usage line shows them; "" = none
	About   string // paragraphs of help
	Terms   []Terms
	Flags   []*Option

	Min, Max int // how many positional arguments; Max < 0 = any number

	Exits    []exit.Status // beside 0, 1, 2 and 141, which every command can end with
	Examples []string      // command lines that start with jp; a test reads them

	Paged bool // its output on a terminal goes through the pager, unless Follows is set
	// Follows is a flag with which the output goes on while something runs, or somebody is asked
	// before it; nil = there is none.
	Follows *bool
	Slow    bool // whether it may be silent for longer than a second: a line on the terminal says so. Paged implies it

	Run  func(ctx context.Context, args []string) error // nil in a group
	Subs []*cli.Command                                 // of a group
}

// Terms are words of a command that are no flags, each with its meaning, below a heading.
type Terms struct {
	Heading string
	Of      []Term
}

// Term is a word and its meaning.
type Term struct{ Word, Means string }

// Tree is the commands of a program. Its fields are set before the first command is run.
type Tree struct {
	Root *cli.App

	// Around calls run, which does what a command does, and prepares what it needs. path is the
	// command's words.
	Around func(s Spec, path string, run func() error) error

	// Hint returns what to say about a flag that the command c does not have; "" = nothing special.
	// It may be nil.
	Hint func(c *cli.Command, flag string) string

	// Plain is the number of positional arguments before --; the others are literal. The caller
	// sets it for each command line.
	Plain int

	specs map[*cli.Command]Spec
}

// New returns a program without commands, which Add gives it.
func New(name, usage string) *Tree {
	t := &Tree{specs: map[*cli.Command]Spec{}}
	t.Root = &cli.App{
		Name: name, Usage: usage,
		Writer: io.Discard, ErrWriter: io.Discard, // the errors of cli/v2 are printed by fail
		HideHelp: true, HideVersion: true, HideHelpCommand: true,
		Compiled:       time.Unix(0, 0), // or cli/v2 asks the file system for it
		Action:         func(*cli.Context) error { return exit.Usagef("a command is missing") },
		OnUsageError:   t.onUsageError,
		ExitErrHandler: func(*cli.Context, error) {}, // or cli/v2 calls os.Exit, past every defer
	}
	return t
}

// Add adds the global flags and the commands, in the order of the help.
func (t *Tree) Add(global []*Option, commands ...*cli.Command) {
	t.Root.Flags, t.Root.Commands = flags(global...), commands
}

// Spec returns the Spec that c was made of.
func (t *Tree) Spec(c *cli.Command) Spec { return t.specs[c] }

// Run runs the command line inv.
func (t *Tree) Run(ctx context.Context, inv *Line) error {
	return t.Root.RunContext(ctx, append([]string{t.Root.Name}, inv.Argv()...))
}

// Command makes the cli/v2 command of s.
func (t *Tree) Command(s Spec) *cli.Command {
	c := &cli.Command{
		Name: s.Name, Aliases: s.Aliases, Usage: s.Summary, ArgsUsage: s.Args, Description: s.About,
		Flags: flags(s.Flags...), Subcommands: s.Subs,
		HideHelp: true, HideHelpCommand: true,
		OnUsageError: t.onUsageError,
	}
	if s.Run != nil {
		c.Action = func(cc *cli.Context) error {
			args, name := cc.Args().Slice(), strings.TrimPrefix(cc.Command.HelpName, t.Root.Name+" ")
			return t.Around(s, name, func() error {
				switch {
				case len(args) < s.Min:
					return exit.Usagef("%s: %s is missing", name, s.Args).WithHint("see `jp %s --help`", name)
				case s.Max >= 0 && len(args) > s.Max:
					return exit.Usagef("%s: unexpected argument %q", name, args[s.Max]).WithHint("see `jp %s --help`", name)
				}
				return s.Run(cc.Context, args)
			})
		}
	}
	t.specs[c] = s
	return c
}

// flags makes cli/v2 flags of options.
func flags(os ...*Option) []cli.Flag {
	out := make([]cli.Flag, len(os))
	for i, o := range os {
		out[i] = o
	}
	return out
}

// onUsageError returns the error of a flag's own check; package flag has only its text.
func (t *Tree) onUsageError(c *cli.Context, err error, _ bool) error {
	for _, o := range append(OptionsOf(c.Command), Options(t.Root.Flags)...) {
		if o.err != nil {
			return o.err
		}
	}
	return exit.Usagef("%v", err)
}

// ErrMixed returns the error for two flags that exclude one another.
func ErrMixed(a, b string) error { return exit.Usagef("%s and %s: give only one", a, b) }

// OnlyOne returns an error when more than one of the named flags was given.
func OnlyOne(given map[string]bool, order ...string) error {
	var found []string
	for _, name := range order {
		if given[name] {
			found = append(found, name)
		}
	}
	if len(found) > 1 {
		return ErrMixed(found[0], found[1])
	}
	return nil
}

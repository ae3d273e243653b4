package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"jp/cmd/jp/internal/call"
	"jp/cmd/jp/internal/command"
	"jp/cmd/jp/internal/console"
	"jp/cmd/jp/internal/exit"
	"jp/cmd/jp/internal/run"
	"jp/cmd/jp/internal/term"
	"jp/cmd/jp/internal/wording"
	"jp/tools"
)

// insideTool runs a jp inside a tool: it sends its command line to the jp that made the call.
func (a *app) insideTool(fd string) int {
	args := a.con.Env.Args[min(1, len(a.con.Env.Args)):]
	if f := command.FormatIn(args); slices.Contains(console.Formats(), f) {
		a.con.Globals.Format = f
	}
	if fd == tools.CallNone {
		return int(a.con.Fail(exit.Refusedf("this tool does not run jp").
			WithHint("access.jp in its definition lets it: any of fork, query, ls, print and grep, for the calling conversation only")))
	}
	status, err := call.Ask(fd, args, a.con.Env.Stdin, a.con.IO.Out, a.con.IO.Err)
	switch {
	case errors.Is(err, call.ErrEnded), errors.Is(err, term.ErrClosed), errors.As(err, new(*term.OutError)):
		return int(a.con.Fail(err))
	case err != nil:
		return int(a.con.Fail(exit.Refusedf("inside a tool: %v", err)))
	}
	return status
}

// serve runs one command line of a jp inside a tool and returns its status. It makes an app with
// the same commands and flags as any other. The app has only the guest: no workspace, no store, no
// config, no terminal, and only the language and time zone of the environment.
func serve(ctx context.Context, g *run.Guest, r call.Request, places call.Readers) (status int) {
	a := newAppFor(console.Env{Stdin: r.Stdin, Stdout: r.Stdout, Stderr: r.Stderr, Environ: g.Environ}, g)
	a.con.InTool, a.ws.Within = true, &g.Scope
	defer func() {
		if p := recover(); p != nil { // a tool's words must not end the run that it works for
			status = int(a.con.Fail(fmt.Errorf("panic: %v", p)))
		}
	}()
	if err := a.runGuest(ctx, r.Args, places); err != nil {
		return int(a.con.Fail(err))
	}
	return int(exit.OK)
}

// runGuest runs a command line that a tool wrote.
func (a *app) runGuest(ctx context.Context, args []string, places call.Readers) error {
	if f := command.FormatIn(args); slices.Contains(console.Formats(), f) {
		a.con.Globals.Format = f // of errors before the flags are read
	}
	inv, err := a.tree.Arrange(args)
	if err != nil {
		return err
	}
	name := strings.TrimPrefix(command.Name(inv.Path), "jp ")
	verb, ok := guestVerb(inv.Path)
	switch {
	case !ok || inv.Version:
		return exit.Refusedf("%s: not for a jp inside a tool", wording.Either(name == "jp", "no command", name)).
			WithHint("it runs query, batch and conversation fork, ls, print and grep, as far as the tool's access.jp names them")
	case !slices.Contains(a.guest.Tool.Access.JP, verb):
		return exit.Refusedf("%s: the tool %s does not have it", name, a.guest.Tool.Name).
			WithHint("access.jp in its definition would have to name %q", verb)
	case inv.Help:
		return a.tree.Help(a.con.IO.Out, a.con.IO.Width, inv.Path)
	}
	for _, part := range []struct{ given, allowed []string }{{inv.Globals, guestGlobals()}, {inv.Flags, guestFlags(name, verb)}} {
		for _, text := range part.given {
			flag, _, _ := strings.Cut(strings.TrimPrefix(text, "--"), "=")
			if !slices.Contains(part.allowed, flag) {
				return exit.Refusedf("%s: --%s is not for a jp inside a tool", name, flag)
			}
		}
	}
	if verb == tools.VerbQuery || verb == tools.VerbFork {
		return a.tree.Run(ctx, inv)
	}
	return places.Run(ctx, a.con.Env.Stdin, func(stdin io.Reader) error {
		a.con.Env.Stdin = stdin
		return a.tree.Run(ctx, inv)
	})
}

// guestVerb returns the verb of access.jp that allows a command.
func guestVerb(path []*cli.Command) (tools.Verb, bool) {
	switch {
	case len(path) == 1 && (path[0].Name == "query" || path[0].Name == "batch"): // many queries are no other right than one
		return tools.VerbQuery, true
	case len(path) == 2 && path[0].Name == "conversation":
		verb := tools.Verb(path[1].Name)
		return verb, slices.Contains([]tools.Verb{tools.VerbFork, tools.VerbLs, tools.VerbPrint, tools.VerbGrep}, verb)
	}
	return "", false
}

// guestGlobals and guestFlags list the flags that a jp inside a tool may use. All others are
// refused.
func guestGlobals() []string {
	return []string{"format", "quiet", "verbose", "width", "non-interactive"}
}

func guestFlags(command string, v tools.Verb) []string {
	if command == "batch" {
		return []string{"cfg", "root-id", "parallel", "lines", "schema", "retry", "reuse", "reduce", "reduce-query"}
	}
	switch v {
	case tools.VerbQuery:
		return []string{"id", "new", "root-id", "cfg", "no-cfg", "model", "no-activate", "hidden", "title", "print", "reuse", "schema", "tmp"}
	case tools.VerbFork:
		return []string{"last", "first", "no-turns", "cfg", "no-cfg", "hidden", "title"}
	case tools.VerbLs:
		return []string{"root", "tree", "hidden", "archived", "sort", "descending", "limit", "label"}
	case tools.VerbPrint:
		return []string{"root-id", "last", "first", "turn", "style"}
	case tools.VerbGrep:
		return []string{
			"id", "root", "root-id", "hidden", "archived", "ignore-case", "case-sensitive", "regex", "scope", "context", "max-matches",
			"limit", "output", "heading", "no-heading", "label",
		}
	}
	return nil
}

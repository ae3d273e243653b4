package cli

import (
	"context"

	"github.com/urfave/cli/v2"

	"jp/cmd/jp/internal/command"
	"jp/cmd/jp/internal/exit"
	"jp/cmd/jp/internal/lint"
	"jp/tools/proc"
)

func newCheckCommand(a *app) *cli.Command {
	return a.tree.Command(command.Spec{
		Name: "check", Summary: "find out whether a query would start here, and what is wrong with config, profiles and tools",
		About: "Everything that `jp profile check` and `jp tool check` look at, and then a query, as far as its first request to the " +
			"model: the config of all layers, the model and its key, every tool, the profiles that it may name. A line for each " +
			"finding: file:line: key: reason. No finding, status 0: `jp query` would start. Status 2 says that there are findings.\n\n" +
			"Nothing is asked, changed or sent, and no program of a tool or server is run: of an MCP server that was never used, the " +
			"check says that its tools are not known yet.",
		Exits:    []exit.Status{exit.NotFound, exit.Refused},
		Examples: []string{"jp check", "jp check -F json"},
		Run: func(ctx context.Context, _ []string) error {
			l, err := lint.New(ctx, a.ws, a.env, a.review)
			if err != nil {
				return err
			}
			l.Agents()
			l.AllTools()
			for _, err := range a.startable(ctx) {
				l.AddStart(err)
			}
			return l.Report(a.con)
		},
	})
}

// startable does all that a new query does before its first request, but makes no conversation, and returns what it stops at,
// nil when a query would start. It asks nobody and starts no program.
func (a *app) startable(ctx context.Context) (problems []error) {
	root, err := a.ws.Root()
	if err != nil {
		return []error{err}
	}
	j, err := a.ws.Gate.Judge(ctx, root)
	if err != nil {
		return []error{err}
	}
	if !j.OK() {
		return []error{j.Refusal()}
	}
	st, err := a.ws.Store(ctx)
	if err != nil {
		return []error{err}
	}
	if !a.con.Globals.NoPersist {
		if err := st.Writable(); err != nil {
			return []error{err}
		}
	}
	asks, look := a.con.Globals.NonInteractive, a.env.Servers.Look
	a.con.Globals.NonInteractive, a.env.Servers.Look = true, true
	defer func() { a.con.Globals.NonInteractive, a.env.Servers.Look = asks, look }()
	host := proc.NewHost(proc.Options{})
	defer func() { _ = host.Close() }() // it starts nothing
	return a.env.Startable(ctx, host)
}

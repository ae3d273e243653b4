package mcp

import (
	"context"
	"fmt"

	"github.com/urfave/cli/v2"

	"jp/cmd/jp/internal/command"
	"jp/cmd/jp/internal/console"
	"jp/cmd/jp/internal/exit"
	"jp/cmd/jp/internal/servers"
	"jp/cmd/jp/internal/wording"
	"jp/tools/unseen"
)

func newApprove(g *Group) *cli.Command {
	var yes bool
	return g.Tree.Command(command.Spec{
		Name: "approve", Summary: "show what an MCP server is, and let agents use it", Args: "SERVER", Min: 1, Max: 1,
		About: "Shows the command or address of the server, its variables and its sandbox, and asks. " +
			"Then it starts the server, shows its tools, asks again, and records them. Agents " +
			"have only recorded tools, exactly as recorded. If the entry, or the description or " +
			"schema of a tool, changes, this command shows the difference and asks again. A " +
			"server in your own config.toml is recorded at its first use without a question.",
		Flags:    []*command.Option{command.Bool(&yes, "yes", "approve without a question")},
		Exits:    []exit.Status{exit.NotFound, exit.Refused, exit.Hangup, exit.Interrupted, exit.Quit, exit.Terminated},
		Examples: []string{"jp mcp approve files", "jp mcp approve files --yes"},
		Run: func(ctx context.Context, args []string) error {
			if err := g.Env.WS.Persist("mcp approve"); err != nil {
				return err
			}
			ctx, stop := g.Env.Con.WithSignals(ctx, func() {})
			defer stop()
			return runApprove(ctx, g, args[0], yes)
		},
	})
}

func runApprove(ctx context.Context, g *Group, name string, yes bool) error {
	if _, err := g.Env.WS.Gate.Pass(ctx); err != nil {
		return err
	}
	s, err := g.Env.Servers.Find(ctx, name)
	if err != nil {
		return err
	}
	before, err := g.Env.Servers.Record(ctx, name)
	if err != nil {
		return err
	}
	shown, err := g.Env.Servers.Show(ctx, name, s)
	if err != nil {
		return err
	}
	same := before != nil && before.Server.Digest() == s.Server.Digest()
	if !same && !s.Own && !yes {
		text := shown.Text()
		if before != nil {
			text += "It was approved with another entry: " + unseen.Spell(before.Server.Address()) +
				wording.Either(before.Server.Command != "", " ("+servers.ReachOfServer(before.Server).Text()+")", "") + "\n"
		}
		if err := g.askApproval(ctx, name, text, "Start it and look at its tools?"); err != nil {
			return err
		}
	}
	list, left, err := g.Env.Servers.Client(s).List(ctx)
	if err != nil {
		if cause := context.Cause(ctx); cause != nil {
			return cause
		}
		return err
	}
	switch {
	case yes:
	case before == nil && !s.Own:
		err = g.askApproval(ctx, name, servers.ToolsText(list)+"\n", "Let agents use these tools?")
	case before != nil:
		if changes := before.Changes(list); len(changes) > 0 {
			err = g.askApproval(ctx, name, servers.ChangesText(name, *before, list, changes), "Let agents use these tools as they are now?")
		}
	}
	if err != nil {
		return err
	}
	if _, err := g.Env.Servers.WriteRecord(ctx, s, list, left, false); err != nil {
		return err
	}
	return g.write(ctx, name, s)
}

// askApproval shows text and asks. It returns a refusal if nobody can answer, or if the answer is
// no.
func (g *Group) askApproval(ctx context.Context, name, text, question string) error {
	refusal := (&exit.Error{Code: "untrusted", Status: exit.Refused, Msg: fmt.Sprintf("MCP server %s: not approved", name)}).
		WithHint("`jp mcp approve %[1]s` asks on a terminal; elsewhere read `jp mcp show %[1]s`, then run `jp mcp approve %[1]s --yes`", name)
	tty, err := g.Env.Con.Terminal()
	if console.Nobody(err) {
		return refusal
	}
	if err != nil {
		return err
	}
	defer func() { _ = tty.Close() }()
	yes, err := console.Confirm(ctx, tty, unseen.LaidOut(unseen.Fold(text), tty.Width()), question, nil)
	if err == nil && !yes {
		err = refusal
	}
	return err
}

package cli

import (
	"bufio"
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"jp/cmd/jp/internal/command"
	"jp/cmd/jp/internal/console"
	"jp/cmd/jp/internal/exit"
	"jp/cmd/jp/internal/servers"
	"jp/cmd/jp/internal/term"
	"jp/cmd/jp/internal/trust"
	"jp/cmd/jp/internal/wording"
	"jp/tools/unseen"
)

func newMCPCommand(a *app) *cli.Command {
	return a.tree.Command(command.Spec{
		Name: "mcp", Summary: "use tools of MCP servers, and be one",
		About: "Servers stand in your config.toml below [providers.mcp.<name>], or in a workspace's .mcp.json. An agent holds a tool of " +
			"one when its config enables it: a table [conversation.tools.<name>] with source = \"mcp.<server>\".",
		Subs: []*cli.Command{newMCPListCommand(a), newMCPShowCommand(a), newMCPApproveCommand(a), newMCPServeCommand(a)},
	})
}

func newMCPListCommand(a *app) *cli.Command {
	return a.tree.Command(command.Spec{
		Name: "ls", Summary: "list the MCP servers that tools may name",
		About: "A pipe gets tab-separated lines: name, status, number of approved tools, where it is named, how it is reached, its sandbox " +
			"(off: the program can do what you can do).",
		Exits:    []exit.Status{exit.NotFound, exit.Refused},
		Examples: []string{"jp mcp ls", "jp mcp ls -F json"},
		Run: func(ctx context.Context, _ []string) error {
			if _, err := a.ws.Gate.Pass(ctx); err != nil {
				return err
			}
			all, err := a.env.Servers.All(ctx)
			if err != nil {
				return err
			}
			if a.env.Servers.FileErr != nil {
				a.con.Warn("%s: %v", trust.MCPFile, a.env.Servers.FileErr)
			}
			list := []servers.Shown{}
			rows := [][]string{}
			for _, name := range slices.Sorted(maps.Keys(all)) {
				v, err := a.env.Servers.Show(ctx, name, all[name])
				if err != nil {
					return err
				}
				list = append(list, v)
				rows = append(rows, []string{v.Name, v.Status, fmt.Sprint(len(v.Tools)), v.Origin, cmp.Or(v.Problem, v.Address), cmp.Or(v.Sandbox, "-")})
			}
			if a.con.JSON() {
				return a.con.Document(list)
			}
			return a.con.Table([]term.Column{{Title: "name"}, {Title: "status"}, {Title: "tools", Right: true}, {Title: "named in"}, {Title: "reached by", Flex: true, Drop: 1}, {Title: "sandbox"}}, rows)
		},
	})
}

func newMCPShowCommand(a *app) *cli.Command {
	return a.tree.Command(command.Spec{
		Name: "show", Summary: "show an MCP server and its approved tools", Args: "SERVER", Min: 1, Max: 1,
		About:    "How it is reached, what it is given, and its tools as they were approved. Starts nothing.",
		Exits:    []exit.Status{exit.NotFound, exit.Refused},
		Examples: []string{"jp mcp show files", "jp mcp show files -F json | jq '.tools[].name'"},
		Run: func(ctx context.Context, args []string) error {
			if _, err := a.ws.Gate.Pass(ctx); err != nil {
				return err
			}
			all, err := a.env.Servers.All(ctx)
			if err != nil {
				return err
			}
			s, ok := all[args[0]]
			if !ok {
				_, err := a.env.Servers.Find(ctx, args[0])
				return err
			}
			return a.writeMCPServer(ctx, args[0], s)
		},
	})
}

// writeMCPServer writes one server to stdout.
func (a *app) writeMCPServer(ctx context.Context, name string, s servers.Server) error {
	v, err := a.env.Servers.Show(ctx, name, s)
	if err != nil {
		return err
	}
	if a.con.JSON() {
		return a.con.Document(v)
	}
	return a.con.Text(func(w *bufio.Writer) error {
		_, _ = w.WriteString(v.Text())
		for _, t := range v.Tools {
			fmt.Fprintf(w, "\n%s\n%s", unseen.Spell(t.Name), servers.Marked("  ", t.Description))
		}
		if len(v.Tools) > 0 {
			t := v.Tools[0]
			fmt.Fprintf(w, "\nAn agent holds one with:\n  [conversation.tools.%s]\n  source = \"mcp.%s.%s\"\n", toolNameFor(name, t.Name), name, unseen.Spell(t.Name))
		}
		return nil
	})
}

// toolNameFor is a name under which providers take a tool of a server.
func toolNameFor(server, tool string) string {
	name := strings.Map(func(r rune) rune {
		if r < 128 && (r == '_' || r == '-' || r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z') {
			return r
		}
		return '_'
	}, server+"_"+tool)
	return name[:min(len(name), 64)]
}

func newMCPApproveCommand(a *app) *cli.Command {
	var yes bool
	return a.tree.Command(command.Spec{
		Name: "approve", Summary: "look at an MCP server and let agents use it", Args: "SERVER", Min: 1, Max: 1,
		About: "Shows how the server is reached, which variables it gets and how it is confined, asks, starts it, shows its tools, asks again, and records them. Agents " +
			"hold only tools that are recorded, as they are: when the entry changes, or a tool its description or schema, this command " +
			"shows what is different and asks again. A server in your own config.toml is recorded at first use without a question.",
		Flags:    []*command.Option{command.Bool(&yes, "yes", "approve without a question")},
		Exits:    []exit.Status{exit.NotFound, exit.Refused, exit.Hangup, exit.Interrupted, exit.Terminated},
		Examples: []string{"jp mcp approve files", "jp mcp approve files --yes"},
		Run: func(ctx context.Context, args []string) error {
			if err := a.ws.Persist("mcp approve"); err != nil {
				return err
			}
			ctx, stop := a.con.WithSignals(ctx, func() {})
			defer stop()
			return approveServer(ctx, a, args[0], yes)
		},
	})
}

func approveServer(ctx context.Context, a *app, name string, yes bool) error {
	if _, err := a.ws.Gate.Pass(ctx); err != nil {
		return err
	}
	s, err := a.env.Servers.Find(ctx, name)
	if err != nil {
		return err
	}
	before, err := a.env.Servers.Record(ctx, name)
	if err != nil {
		return err
	}
	shown, err := a.env.Servers.Show(ctx, name, s)
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
		if err := a.askApproval(ctx, name, text, "Start it and look at its tools? [y/N] "); err != nil {
			return err
		}
	}
	list, left, err := a.env.Servers.Client(s).List(ctx)
	if err != nil {
		if cause := context.Cause(ctx); cause != nil {
			return cause
		}
		return err
	}
	switch {
	case yes:
	case before == nil && !s.Own:
		err = a.askApproval(ctx, name, servers.ToolsText(list)+"\n", "Let agents use these tools? [y/N] ")
	case before != nil:
		if changes := before.Changes(list); len(changes) > 0 {
			err = a.askApproval(ctx, name, servers.ChangesText(name, *before, list, changes), "Let agents use these tools as they are now? [y/N] ")
		}
	}
	if err != nil {
		return err
	}
	if _, err := a.env.Servers.WriteRecord(ctx, s.Server, list, left, false); err != nil {
		return err
	}
	return a.writeMCPServer(ctx, name, s)
}

// laidOut is a text in which all shows on a screen of width columns: no line can pass for two.
func laidOut(text string, width int) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		b.WriteString(strings.Join(unseen.Rows(unseen.Fold(strings.TrimSuffix(line, "\n")), width, "      "), "\n") + "\n")
	}
	return b.String()
}

// askApproval shows text and asks. The error is a refusal where nobody can answer, and for a no.
func (a *app) askApproval(ctx context.Context, name, text, question string) error {
	refusal := (&exit.Error{Code: "untrusted", Status: exit.Refused, Msg: fmt.Sprintf("MCP server %s: not approved", name)}).
		WithHint("on a terminal it asks; `jp mcp approve %s --yes` needs nobody, after `jp mcp show %s`", name, name)
	tty, err := a.con.Terminal()
	if console.Nobody(err) {
		return refusal
	}
	if err != nil {
		return err
	}
	defer func() { _ = tty.Close() }()
	if err := tty.Show(laidOut(text, tty.Width())); err != nil {
		return err
	}
	answer, err := console.AskLine(ctx, tty, question)
	if err != nil {
		return err
	}
	if answer = strings.ToLower(answer); answer != "y" && answer != "yes" {
		return refusal
	}
	return nil
}

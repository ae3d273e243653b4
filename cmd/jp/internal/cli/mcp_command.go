package cli

import (
	"bufio"
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"jp/cmd/jp/internal/command"
	"jp/cmd/jp/internal/console"
	"jp/cmd/jp/internal/exit"
	"jp/cmd/jp/internal/mcp"
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

// mcpShown is a server as it is published.
type mcpShown struct {
	Name       string            `json:"name"`
	Origin     string            `json:"origin"`    // config.toml or .mcp.json
	Transport  string            `json:"transport"` // stdio or http
	Address    string            `json:"address"`   // the command line, or the URL
	Env        map[string]string `json:"env"`       // as it is written
	Headers    map[string]string `json:"headers"`
	Variables  []string          `json:"variables"`   // that it takes from the environment
	Reaches    []string          `json:"reaches"`     // of a program: "ro PATH" or "rw PATH"
	Network    string            `json:"network"`     // none or any; "" of an unusable one
	Sandbox    string            `json:"sandbox"`     // of a program: off, auto or require; "" behind an address, and unusable
	Unenforced []string          `json:"unenforced"`  // what of its sandbox this system cannot enforce
	Status     string            `json:"status"`      // approved, changed, unapproved, unusable
	Problem    string            `json:"problem"`     // of an unusable one
	ApprovedAt *time.Time        `json:"approved_at"` // null: not yet
	Tools      []mcp.Tool        `json:"tools"`       // as they were approved
	Left       []string          `json:"left"`        // what it has and cannot be used
}

func (a *app) mcpShown(ctx context.Context, name string, s servers.Server) (mcpShown, error) {
	v := mcpShown{
		Name: name, Origin: s.Origin, Transport: s.Server.Transport(), Address: s.Server.Address(), Env: map[string]string{}, Headers: map[string]string{},
		Variables: append([]string{}, s.Server.Variables()...), Status: "unapproved", Tools: []mcp.Tool{}, Left: []string{},
		Reaches: []string{}, Unenforced: []string{},
	}
	maps.Copy(v.Env, s.Server.Env)
	maps.Copy(v.Headers, s.Server.Headers)
	if s.Err != nil {
		v.Status, v.Problem = "unusable", s.Err.Error()
		return v, nil
	}
	reach := servers.ReachOfServer(s.Server)
	v.Reaches, v.Network, v.Sandbox, v.Unenforced = reach.Access, reach.Network, reach.Sandbox, reach.Unenforced
	switch r, err := a.env.Servers.Approved(ctx, s); {
	case err != nil:
		return v, err
	case r != nil:
		v.Status, v.ApprovedAt = "approved", &r.Approved
		v.Tools, v.Left = append(v.Tools, r.Tools...), append(v.Left, r.Left...)
		return v, nil
	}
	r, err := a.env.Servers.Record(ctx, name)
	if r != nil {
		v.Status = "changed"
	}
	return v, err
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
			list := []mcpShown{}
			rows := [][]string{}
			for _, name := range slices.Sorted(maps.Keys(all)) {
				v, err := a.mcpShown(ctx, name, all[name])
				if err != nil {
					return err
				}
				list = append(list, v)
				rows = append(rows, []string{v.Name, v.Status, fmt.Sprint(len(v.Tools)), v.Origin, cmp.Or(v.Problem, v.Address), cmp.Or(v.Sandbox, "-")})
			}
			if a.con.JSON() {
				return a.con.Document(list)
			}
			return a.table([]term.Column{{Title: "name"}, {Title: "status"}, {Title: "tools", Right: true}, {Title: "named in"}, {Title: "reached by", Flex: true, Drop: 1}, {Title: "sandbox"}}, rows)
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
	v, err := a.mcpShown(ctx, name, s)
	if err != nil {
		return err
	}
	if a.con.JSON() {
		return a.con.Document(v)
	}
	return a.con.Text(func(w *bufio.Writer) error {
		_, _ = w.WriteString(mcpText(v))
		for _, t := range v.Tools {
			fmt.Fprintf(w, "\n%s\n%s", unseen.Spell(t.Name), marked("  ", t.Description))
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

// mcpText is how a server is reached and what it is given.
func mcpText(v mcpShown) string {
	var b strings.Builder
	row := func(name, text string) { fmt.Fprintf(&b, "%-9s  %s\n", name, unseen.Spell(text)) }
	row("server", v.Name+", named in "+v.Origin)
	row("status", v.Status+wording.Either(v.Problem == "", "", ": "+v.Problem))
	row(wording.Either(v.Transport == "http", "url", "runs"), v.Address)
	for _, part := range []struct {
		name string
		list map[string]string
	}{{"env", v.Env}, {"header", v.Headers}} {
		for _, k := range slices.Sorted(maps.Keys(part.list)) {
			row(part.name, k+": "+part.list[k])
		}
	}
	if len(v.Variables) > 0 {
		row("variables", strings.Join(v.Variables, " "))
	}
	if v.Sandbox != "" {
		reach := servers.Reach{Sandbox: v.Sandbox, Unenforced: v.Unenforced}
		for _, rule := range v.Reaches {
			row("access", rule)
		}
		if len(v.Reaches) == 0 {
			row("access", servers.NoFiles)
		}
		row("network", v.Network)
		row("sandbox", reach.SandboxText())
	}
	for _, left := range v.Left {
		row("left out", left)
	}
	return b.String()
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
	shown, err := a.mcpShown(ctx, name, s)
	if err != nil {
		return err
	}
	same := before != nil && before.Server.Digest() == s.Server.Digest()
	if !same && !s.Own && !yes {
		text := mcpText(shown)
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
		err = a.askApproval(ctx, name, toolsText(list)+"\n", "Let agents use these tools? [y/N] ")
	case before != nil:
		if changes := before.Changes(list); len(changes) > 0 {
			err = a.askApproval(ctx, name, changedTools(name, *before, list, changes), "Let agents use these tools as they are now? [y/N] ")
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

// toolsText is what a person reads of the tools of a server: all that a model will.
func toolsText(list []mcp.Tool) string {
	var b strings.Builder
	for _, t := range list {
		fmt.Fprintf(&b, "\n%s\n%s%s", unseen.Spell(t.Name), marked("  ", t.Description), marked("  ", string(t.Schema)))
	}
	if len(list) == 0 {
		b.WriteString("it has no tools\n")
	}
	return b.String()
}

// marked is a text with mark before each line. A line stands in quotes where it holds what does not show, so that two that differ
// do not look the same.
func marked(mark, text string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		if q := unseen.Quote(line); q != `"`+line+`"` && (unseen.Spell(line) != line || strings.HasPrefix(line, `"`)) || strings.TrimSpace(line) != line {
			line = unseen.Fold(q)
		}
		b.WriteString(mark + line + "\n")
	}
	return b.String()
}

// changedTools is what a person reads of tools that are not as they were approved: what is different of each.
func changedTools(name string, before mcp.Record, now []mcp.Tool, changes []mcp.Change) string {
	var b strings.Builder
	fmt.Fprintf(&b, "MCP server %s: its tools are not as they were approved\n", unseen.Spell(name))
	listed := mcp.Record{Tools: now}
	for _, c := range changes {
		fmt.Fprintf(&b, "\n%s: %s\n", unseen.Spell(c.Tool), c.State)
		was, _ := before.Tool(c.Tool)
		is, _ := listed.Tool(c.Tool)
		for _, text := range [][2]string{{was.Description, is.Description}, {string(was.Schema), string(is.Schema)}} {
			if text[0] != text[1] {
				b.WriteString(marked("  - ", text[0]) + marked("  + ", text[1]))
			}
		}
	}
	return b.String()
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

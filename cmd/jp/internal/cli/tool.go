package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/urfave/cli/v2"

	"jp/cmd/jp/internal/command"
	"jp/cmd/jp/internal/console"
	"jp/cmd/jp/internal/exit"
	"jp/cmd/jp/internal/run"
	"jp/cmd/jp/internal/term"
	"jp/cmd/jp/internal/workspace"
	"jp/profiles"
	"jp/tools"
	"jp/tools/fs"
	"jp/tools/proc"
)

func newToolCommand(a *app) *cli.Command {
	return a.tree.Command(command.Spec{
		Name: "tool", Summary: "list, show, check and run tools",
		About: "The tools that an agent of this workspace holds: those that the config enables.",
		Subs:  []*cli.Command{newToolListCommand(a), newToolShowCommand(a), newToolCheckCommand(a), newToolRunCommand(a)},
	})
}

// toolOptions say whose tools are meant.
type toolOptions struct {
	id         command.Maybe[string]
	directives []profiles.Directive
}

func (o *toolOptions) options() []*command.Option {
	return append([]*command.Option{
		command.String(&o.id, "id", "TARGET", "the tools of this conversation").Alias("i"),
	}, workspace.ConfigFlags(&o.directives)...)
}

func newToolListCommand(a *app) *cli.Command {
	var o toolOptions
	return a.tree.Command(command.Spec{
		Name: "ls", Paged: true, Summary: "list the tools that an agent holds",
		About:    "A pipe gets tab-separated lines: name, source, run mode, where the config enables it.",
		Flags:    o.options(),
		Exits:    []exit.Status{exit.NotFound, exit.Busy},
		Examples: []string{"jp tool ls --cfg agent/researcher", "jp tool ls --id . -F json"},
		Run: func(ctx context.Context, _ []string) error {
			r, err := a.ws.ConfigOf(ctx, o.id, o.directives)
			if err != nil {
				return err
			}
			defs, err := a.env.Definitions(ctx, r)
			if err != nil {
				return err
			}
			ts := run.ShowTools(r, defs, a.env.Servers.Known(ctx))
			if a.con.JSON() {
				return a.con.Document(ts)
			}
			rows := make([][]string, len(ts))
			for i, t := range ts {
				rows[i] = []string{t.Name, t.Source, t.Run, a.ws.Relative(t.Origin)}
			}
			return a.con.Table([]term.Column{{Title: "name"}, {Title: "source"}, {Title: "run"}, {Title: "enabled at", Flex: true, Drop: 1}}, rows)
		},
	})
}

// heldTool finds one tool among those that the config holds.
func (a *app) heldTool(ctx context.Context, o toolOptions, name string) (tools.Definition, *profiles.Resolved, error) {
	r, err := a.ws.ConfigOf(ctx, o.id, o.directives)
	if err != nil {
		return tools.Definition{}, nil, err
	}
	defs, err := a.env.Definitions(ctx, r)
	if err != nil {
		return tools.Definition{}, nil, err
	}
	for _, d := range defs {
		if d.Name == name {
			return d, r, nil
		}
	}
	f := exit.NotFoundf("tool %s: not held by this agent", name)
	return tools.Definition{}, nil, a.env.UnknownTool(f, name, run.Names(defs), "`jp tool ls` lists them")
}

func newToolRunCommand(a *app) *cli.Command {
	var o toolOptions
	args := command.Maybe[string]{Value: "{}"}
	return a.tree.Command(command.Spec{
		Name: "run", Summary: "run a tool by hand", Args: "TOOL",
		About: "Runs it as an agent's call would run: the same checks of its arguments, the same limits. Whoever types this gives " +
			"leave, so a tool that asks does not ask; one with run = \"deny\" is refused. A failure that the model would be " +
			"told is printed, and the status is 1.",
		Flags: append(o.options(), command.String(&args, "args", "JSON", "the arguments, an object; - reads them from stdin")),
		Min:   1, Max: 1,
		Exits: []exit.Status{exit.NotFound, exit.Busy, exit.Refused, exit.Hangup, exit.Interrupted, exit.Terminated},
		Examples: []string{
			`jp tool run fs_read_file --args '{"path":"README.md"}'`,
		},
		Run: func(ctx context.Context, names []string) error { return runTool(ctx, a, o, names[0], args.Value) },
	})
}

func runTool(ctx context.Context, a *app, o toolOptions, name, args string) error {
	if args == "-" {
		text, err := io.ReadAll(io.LimitReader(a.con.IO.In, console.StdinMax+1))
		if err != nil {
			return fmt.Errorf("stdin: %w", err)
		}
		if len(text) > console.StdinMax {
			return exit.Usagef("stdin: more than %d MiB", console.StdinMax>>20)
		}
		args = string(text)
	}
	if !json.Valid([]byte(args)) {
		return exit.Usagef("--args: not JSON").WithHint("an object such as '{\"path\":\"README.md\"}'")
	}
	d, _, err := a.heldTool(ctx, o, name)
	if err != nil {
		return err
	}
	if _, ok := d.MCP(); ok && d.Pin == "" {
		defs, err := a.env.Servers.Ready(ctx, []tools.Definition{d}, func(tools.Definition) bool { return true })
		if err != nil {
			return err
		}
		d = defs[0]
	}
	if _, err := d.Validate(json.RawMessage(args)); err != nil {
		return exit.Usagef("tool %s: --args: %v", name, err).WithHint("`jp tool show %s` shows what it takes", name)
	}
	if d.Run == tools.RunDeny {
		return exit.Refusedf("tool %s: run = \"deny\"", name)
	}
	host := proc.NewHost(proc.Options{})
	defer func() { _ = host.Close() }()
	ctx, stop := a.con.WithSignals(ctx, host.Kill)
	defer stop()
	t, err := a.handTool(ctx, d, host)
	if err != nil {
		return err
	}
	set, err := tools.NewSet(t)
	if err != nil {
		return err
	}
	leave := func(context.Context, tools.Tool, tools.Call) (tools.Decision, error) {
		return tools.Decision{Allow: true}, nil
	}
	deliver := func(context.Context, tools.Tool, tools.Call, tools.Result) (tools.Decision, error) {
		return tools.Decision{Allow: true}, nil
	}
	run := tools.Executor{Set: set, Permit: leave, Deliver: deliver}
	var result tools.Result
	for _, r := range run.Run(ctx, []tools.Call{{ID: "by-hand", Name: name, Arguments: json.RawMessage(args)}}) {
		result = r
	}
	if err := host.Close(); err != nil {
		return err
	}
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	return a.writeToolResult(name, result)
}

// handTool joins a definition to what runs it. What works on a conversation has none here.
func (a *app) handTool(ctx context.Context, d tools.Definition, host *proc.Host) (tools.Tool, error) {
	switch d.Source {
	case tools.SourceBuiltin:
		root, err := a.ws.Root()
		if err != nil {
			return tools.Tool{}, err
		}
		if d.Name == run.SkillTool {
			return tools.Tool{Definition: d, Func: a.env.ReadSkill(a.env.Skills(ctx, root))}, nil
		}
		if _, err := a.ws.Store(ctx); err != nil { // no tool reaches its folder
			return tools.Tool{}, err
		}
		ts, err := tools.Builtin(fs.Env{Workspace: root, Deny: a.ws.Closed(), Sealed: a.ws.Sealed(), Growing: a.ws.Growing()}, d)
		if err != nil {
			return tools.Tool{}, err
		}
		return ts[0], nil
	case tools.SourceLocal:
		if _, err := a.ws.Store(ctx); err != nil { // no tool reaches its folder
			return tools.Tool{}, err
		}
		env := a.ws.CommandEnv(host, nil)
		env.Main = true // a person runs it
		return tools.Command(d, env)
	}
	if _, ok := d.MCP(); ok {
		return a.env.Servers.Tool(ctx, d)
	}
	return tools.Tool{}, exit.Refusedf("tool %s: a %s tool runs in a conversation only", d.Name, d.Source).
		WithHint("`jp query` lets an agent call it")
}

// toolResult is the outcome as JSON.
type toolResult struct {
	Tool    string `json:"tool"`
	IsError bool   `json:"is_error"`
	Refused bool   `json:"refused"`
	Text    string `json:"text"`
}

func (a *app) writeToolResult(name string, r tools.Result) error {
	var err error
	if a.con.JSON() {
		err = a.con.Document(toolResult{Tool: name, IsError: r.IsError, Refused: r.Refused, Text: r.Text})
	} else {
		text := a.con.IO.Text(r.Text)
		if text != "" && !strings.HasSuffix(text, "\n") {
			text += "\n"
		}
		_, err = io.WriteString(a.con.IO.Out, text)
	}
	switch {
	case err != nil:
		return err
	case r.Refused:
		return exit.Quiet(exit.Refused)
	case r.IsError:
		return exit.Quiet(exit.Failed)
	}
	return nil
}

package config

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/urfave/cli/v2"

	"jp/cmd/jp/internal/command"
	"jp/cmd/jp/internal/console"
	"jp/cmd/jp/internal/enabled"
	"jp/cmd/jp/internal/exit"
	"jp/tools"
	"jp/tools/fs"
	"jp/tools/proc"
)

func newToolRunCommand(g *Group) *cli.Command {
	var o toolOptions
	args := command.Maybe[string]{Value: "{}"}
	return g.Tree.Command(command.Spec{
		Name: "run", Summary: "run a tool by hand", Args: "TOOL",
		About: "Runs the tool as if an agent had called it: with the same checks of its arguments " +
			"and the same limits. You give permission by running this command, so a tool that " +
			"asks does not ask. A tool with run = \"deny\" is refused. If the tool fails, jp prints " +
			"the error that the model would get, and the status is 1.",
		Flags: append(o.options(), command.String(&args, "args", "JSON", "arguments, as a JSON object; - reads them from stdin")),
		Min:   1, Max: 2, // to say more about arguments
		Exits: []exit.Status{exit.NotFound, exit.Busy, exit.Refused, exit.Hangup, exit.Interrupted, exit.Quit, exit.Terminated},
		Examples: []string{
			`jp tool run fs_read_file --args '{"path":"README.md"}'`,
		},
		Run: func(ctx context.Context, words []string) error {
			if len(words) > 1 {
				return exit.Usagef("tool run: unexpected argument %q", words[1]).WithHint(`arguments of the tool are one JSON object: --args '{"path":"README.md"}'`)
			}
			return runTool(ctx, g, o, words[0], args.Value)
		},
	})
}

func runTool(ctx context.Context, g *Group, o toolOptions, name, args string) error {
	if args == "-" {
		text, err := io.ReadAll(io.LimitReader(g.Con.IO.In, console.StdinMax+1))
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
	d, _, err := g.heldTool(ctx, o, name)
	if err != nil {
		return err
	}
	if _, ok := d.MCP(); ok && d.Pin == "" {
		defs, err := g.Env.Servers.Ready(ctx, []tools.Definition{d}, func(tools.Definition) bool { return true })
		if err != nil {
			return err
		}
		d = defs[0]
	}
	if _, err := d.Validate(json.RawMessage(args)); err != nil {
		return exit.Usagef("--args: %v", err).WithHint("the same command with show in place of run, without --args, says what it takes")
	}
	if d.Run == tools.RunDeny {
		return exit.Refusedf("tool %s: run = \"deny\"", name)
	}
	host := proc.NewHost(proc.Options{})
	defer func() { _ = host.Close() }()
	ctx, stop := g.Con.WithSignals(ctx, host.Kill)
	defer stop()
	t, err := g.handTool(ctx, d, host)
	if err != nil {
		return err
	}
	set, err := tools.NewSet(t)
	if err != nil {
		return err
	}
	permit := func(context.Context, tools.Tool, tools.Call) (tools.Decision, error) {
		return tools.Decision{Allow: true}, nil
	}
	deliver := func(context.Context, tools.Tool, tools.Call, tools.Result) (tools.Decision, error) {
		return tools.Decision{Allow: true}, nil
	}
	run := tools.Executor{Set: set, Permit: permit, Deliver: deliver}
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
	return g.writeToolResult(name, result)
}

// handTool joins a definition to the function that runs it. It refuses tools that need a
// conversation, because there is none.
func (g *Group) handTool(ctx context.Context, d tools.Definition, host *proc.Host) (tools.Tool, error) {
	switch d.Source {
	case tools.SourceBuiltin:
		root, err := g.WS.Root()
		if err != nil {
			return tools.Tool{}, err
		}
		if d.Name == enabled.SkillTool {
			return tools.Tool{Definition: d, Func: g.Env.Skills().Read}, nil
		}
		if _, err := g.WS.Store(ctx); err != nil { // opens the store, so that its folder is closed to the tool
			return tools.Tool{}, err
		}
		ts, err := tools.Builtin(fs.Env{Workspace: root, Kept: g.WS.Kept()}, d)
		if err != nil {
			return tools.Tool{}, err
		}
		return ts[0], nil
	case tools.SourceLocal:
		if _, err := g.WS.Store(ctx); err != nil { // opens the store, so that its folder is closed to the tool
			return tools.Tool{}, err
		}
		env := g.WS.CommandEnv(host, nil)
		env.Main = true // a person runs it
		return tools.Command(d, env)
	}
	if _, ok := d.MCP(); ok {
		return g.Env.Servers.Tool(ctx, d)
	}
	return tools.Tool{}, exit.Refusedf("tool %s: a %s tool runs in a conversation only", d.Name, d.Source).
		WithHint("`jp query` lets an agent call it")
}

// toolResult is the JSON form of a result.
type toolResult struct {
	Tool    string `json:"tool"`
	IsError bool   `json:"is_error"`
	Refused bool   `json:"refused"`
	Text    string `json:"text"`
}

func (g *Group) writeToolResult(name string, r tools.Result) error {
	var err error
	if g.Con.JSON() {
		err = g.Con.Document(toolResult{Tool: name, IsError: r.IsError, Refused: r.Refused, Text: r.Text})
	} else {
		text := g.Con.IO.Text(r.Text)
		if text != "" && !strings.HasSuffix(text, "\n") {
			text += "\n"
		}
		_, err = io.WriteString(g.Con.IO.Out, text)
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

// Package editor serves an editor: `jp acp`. A session is a conversation that the editor has open.
// A prompt runs one turn of it.
//
// Package acp speaks the wire and calls the types of this package:
//
//	server ── session ── Prompt ── run.Open, Agent, Turn
//	 one       options,     │
//	 editor    servers     view: shows a turn to the editor and asks its user
//
// Each session and each prompt has its own run.Env in the folder that the editor names. It reads
// the workspace's config and checks its trust again. No person reads its streams, so warnings and
// notes go to the editor through notices. A session holds the run lock only during a prompt. It
// runs one prompt at a time; prompts of several sessions run at the same time. The editor can read
// and set options at any time.
package editor

import (
	"context"
	"time"

	"github.com/urfave/cli/v2"

	"jp/cmd/jp/internal/acp"
	"jp/cmd/jp/internal/command"
	"jp/cmd/jp/internal/console"
	"jp/cmd/jp/internal/exit"
	"jp/cmd/jp/internal/record"
	"jp/cmd/jp/internal/run"
	"jp/cmd/jp/internal/version"
	"jp/cmd/jp/internal/workspace"
	"jp/profiles"
	"jp/tools/proc"
)

// options are the flags of jp acp.
type options struct {
	directives []profiles.Directive
	model      command.Maybe[string]
	role       string
	wait       command.Maybe[time.Duration]
}

// New returns the command `jp acp`. at makes the Env of a session from a console whose streams are
// not those of env.
func New(env *run.Env, tree *command.Tree, at func(*console.Console) *run.Env) *cli.Command {
	var o options
	return tree.Command(command.Spec{
		Name: "acp", Summary: "serve an editor that speaks the Agent Client Protocol",
		About: "Speaks the Agent Client Protocol, version 1, on stdin and stdout until stdin ends. " +
			"Editors such as Zed, Neovim and Emacs start it. A session is a conversation of the " +
			"workspace at or above the folder of the session. You have to trust that workspace " +
			"first. The editor shows sub-agents as they work, and asks you about tools that need " +
			"permission. If you cancel there, jp stops the run with everything below it. Warnings " +
			"and the log go to stderr.\n\n" +
			"The flags apply to new sessions; a session that is loaded keeps its config. With " +
			"--workspace all sessions are in that workspace. docs/acp.md has the settings for " +
			"editors.",
		Flags: append(workspace.ConfigFlags(&o.directives),
			command.Model(&o.model, "MODEL", "the model: provider/model or an alias"),
			command.Choice(&o.role, "role", "ROLE", run.PersonRoles(), "limit of the tools: main (all), scheduled (those that work without a person), synthesis (those that only read)"),
			run.WaitFlag(&o.wait),
		),
		Exits:    []exit.Status{exit.NotFound, exit.Refused, exit.Hangup, exit.Interrupted, exit.Quit, exit.Terminated},
		Examples: []string{"jp acp", "jp acp --cfg agent/researcher", "jp acp -w ~/src/project"},
		Run:      func(ctx context.Context, _ []string) error { return serve(ctx, env, at, o) },
	})
}

func serve(ctx context.Context, env *run.Env, at func(*console.Console) *run.Env, o options) error {
	if err := env.WS.Persist("acp"); err != nil {
		return err
	}
	if err := record.Refuse(env.Con, "acp"); err != nil {
		return err
	}
	if keys := profiles.MachineKeys(o.directives); len(keys) > 0 {
		return exit.Usagef("--cfg: %s is a machine setting, which is not kept with a session", keys[0]).
			WithHint("set it in your config.toml: `jp config set --user %s=...`", keys[0])
	}
	env.Con.Globals.NonInteractive = true // the editor has stdin and stdout, and questions go to it
	if w := &env.Con.Globals.Workspace; w.Set {
		if _, err := env.WS.Root(); err != nil {
			return err
		}
		w.Value = env.Con.Abs(w.Value)
	}
	if env.Con.IO.InTTY {
		env.Con.Note("acp: stdin is a terminal; an editor starts this command and sends it JSON-RPC, one message a line (Ctrl-D ends it)")
	}
	s := &server{env: env, sessionAt: at, o: o, hosts: map[*proc.Host]bool{}}
	ctx, stop := env.Con.WithSignals(ctx, s.kill)
	defer stop()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	env.Con.IO.Bound(ctx)
	return acp.Serve(ctx, cancel, s, acp.Options{
		Info: acp.Implementation{Name: "jp", Title: "jp", Version: version.Version}, Log: env.Con.Verbosef,
	}, env.Con.IO.In, console.Escaping{Writer: env.Con.IO.Out})
}

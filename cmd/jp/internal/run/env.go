// Package run opens conversations and lets an agent take a turn in them.
//
// An Env belongs to one workspace. It defines the tools that a config enables (package enabled) and
// opens its models (package models), resolves agent profiles as a delegation does, and applies the
// rule to a person who delegates. It reads each file only when it is needed.
//
//	Env.Open(Request) ── Run ── Run.Agent ── Agent.Turn ── Run.Finish ── Run.Close
//	   find or make        lock, config,     model, tools,
//	   the conversation    reservation       prompt
//
// Open returns only valid Runs. Before that a Run is an opening, which is private to this package.
// A Run holds the one store that it may use; with --no-persist this is a temporary store of its
// own. `jp query`, `jp acp` and `jp conversation compact` open runs; `jp batch` and `jp mcp serve`,
// which have no agent of their own, get a Session; a jp inside a tool works for a Guest and opens
// nothing.
//
// One goroutine owns a Run, an Agent and a Session. Only the functions that tools of the agent call
// are safe for concurrent use.
package run

import (
	"context"
	"sync"

	"jp/cmd/jp/internal/call"
	"jp/cmd/jp/internal/console"
	"jp/cmd/jp/internal/enabled"
	"jp/cmd/jp/internal/models"
	"jp/cmd/jp/internal/rule"
	"jp/cmd/jp/internal/servers"
	"jp/cmd/jp/internal/skills"
	"jp/cmd/jp/internal/wording"
	"jp/cmd/jp/internal/workspace"
	"jp/convstore"
	"jp/profiles"
	"jp/tools"
)

// Env is what the runs of one workspace share: the console, the workspace, its models and MCP
// servers, and the current recording or replay.
type Env struct {
	models.Set
	Servers *servers.Set
	// Serve carries out a command line of a jp inside a tool and returns its exit status.
	Serve func(ctx context.Context, g Guest, r call.Request) int
	Reads call.Readers // what tools and sub-agents read of conversations
	// Skills are those that agents here read. They are found once, after the gate.
	Skills func() skills.List
}

// New returns the Env of a workspace.
func New(con *console.Console, ws *workspace.Workspace) *Env {
	return &Env{
		Set: models.New(con, ws), Servers: servers.New(con, ws), Reads: make(call.Readers, call.MaxReaders),
		Skills: sync.OnceValue(func() skills.List { return skills.Find(con, ws) }),
	}
}

// Implicit resolves the layers that no flag names. The result is the config of a new conversation,
// and the providers of this machine.
func (env *Env) Implicit(ctx context.Context) (*profiles.Resolved, error) {
	src, err := env.WS.Sources(ctx, nil)
	if err != nil {
		return nil, err
	}
	return env.WS.Config(src, nil, nil)
}

// Profile resolves an agent profile for a child, with overrides of its config and without the
// config of the workspace (NONE).
func (env *Env) Profile(ctx context.Context, name string, overrides []string) (rule.Profile, error) {
	src, err := env.agentSources(ctx)
	if err != nil {
		return rule.Profile{}, err
	}
	found, err := profiles.Find(src, name)
	if err != nil {
		return rule.Profile{}, err
	}
	return env.profileAt(ctx, src, found, overrides)
}

func (env *Env) agentSources(ctx context.Context) (profiles.Sources, error) {
	return env.WS.Sources(ctx, wording.Either(env.WS.UsesNone(), workspace.UnderNone(""), nil))
}

// profileAt is Profile of one that was found.
func (env *Env) profileAt(ctx context.Context, src profiles.Sources, found profiles.Profile, overrides []string) (rule.Profile, error) {
	directives := workspace.UnderNone(found.Arg)
	var flags []profiles.Directive
	for _, text := range overrides {
		flags = append(flags, profiles.Directive{Flag: "overrides", Text: text})
	}
	r, err := profiles.Resolve(src, directives, flags)
	if err != nil {
		return rule.Profile{}, err
	}
	models, err := env.Answering(r.Config)
	if err != nil {
		return rule.Profile{}, err
	}
	if _, err := r.RequireLauncher(); err != nil {
		return rule.Profile{}, err
	}
	defs, err := env.Definitions(ctx, r)
	if err == nil {
		err = env.Servers.ForSubagents(ctx, defs)
	}
	if err == nil { // the sub-agent is granted tools as they were approved
		defs, err = env.Servers.Ready(ctx, defs, func(tools.Definition) bool { return true })
	}
	if err != nil {
		return rule.Profile{}, err
	}
	depth := 0
	if r.Config.Delegation.MaxDepth != nil {
		depth = *r.Config.Delegation.MaxDepth
	}
	meaning, err := env.meaning(r, defs)
	if err != nil {
		return rule.Profile{}, err
	}
	return rule.Profile{
		Meaning: meaning, Room: env.RoomFor(r, defs, models),
		Name: found.Name, Arg: found.Arg, Hash: r.ProfileHash, Model: models[0], Others: models[1:], MaxDepth: depth,
		Config: convstore.Config{JSON: r.Stored(), Tools: enabled.Names(defs)}, Tools: grantable(defs, r),
		Caps: rule.CapsOf(r.Config), Life: rule.LifeOf(r.Config),
	}, nil
}

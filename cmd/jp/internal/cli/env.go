package cli

import (
	"context"

	"jp/cmd/jp/internal/console"
	"jp/cmd/jp/internal/delegate"
	"jp/cmd/jp/internal/record"
	"jp/cmd/jp/internal/servers"
	"jp/cmd/jp/internal/wording"
	"jp/cmd/jp/internal/workspace"
	"jp/convstore"
	"jp/profiles"
	"jp/tools"
)

// runEnv is what runs are made from in one workspace: the console, what is known of the place, its MCP servers, and the recording or
// replay that is under way.
type runEnv struct {
	con     *console.Console
	ws      *workspace.Workspace
	servers *servers.Set
	tape    *record.Tape // nil = none
}

// newEnv returns the Env of a workspace. Nothing is read before it is needed.
func newEnv(con *console.Console, ws *workspace.Workspace) *runEnv {
	return &runEnv{con: con, ws: ws, servers: servers.New(con, ws)}
}

// implicit resolves the implicit layers: what a new conversation keeps, and what this machine knows of providers.
func (env *runEnv) implicit(ctx context.Context) (*profiles.Resolved, error) {
	src, err := env.ws.Sources(ctx, nil)
	if err != nil {
		return nil, err
	}
	return env.ws.Config(src, nil, nil)
}

// profile resolves an agent profile for a child, under NONE.
func (env *runEnv) profile(ctx context.Context, name, modelID string) (delegate.Profile, error) {
	src, err := env.ws.Sources(ctx, wording.Either(env.ws.UsesNone(), underNone(""), nil))
	if err != nil {
		return delegate.Profile{}, err
	}
	found, err := profiles.Find(src, name)
	if err != nil {
		return delegate.Profile{}, err
	}
	directives := underNone(found.Arg)
	var flags []profiles.Directive
	if modelID != "" {
		flags = append(flags, profiles.Directive{Flag: "overrides", Text: "assistant.model=" + modelID})
	}
	r, err := env.ws.Resolve(src, directives, flags)
	if err != nil {
		return delegate.Profile{}, err
	}
	resolvedModel, err := r.Config.RequireModel()
	if err != nil {
		return delegate.Profile{}, err
	}
	defs, err := env.definitions(ctx, r)
	if err == nil {
		err = env.servers.ForSubagents(ctx, defs)
	}
	if err == nil { // so that the sub-agent is granted tools as they were approved
		defs, err = env.servers.Ready(ctx, defs, func(tools.Definition) bool { return true })
	}
	if err != nil {
		return delegate.Profile{}, err
	}
	depth := 0
	if r.Config.Delegation.MaxDepth != nil {
		depth = *r.Config.Delegation.MaxDepth
	}
	return delegate.Profile{
		Name: name, Arg: found.Arg, Hash: r.ProfileHash, Model: resolvedModel, MaxDepth: depth,
		Config: convstore.Config{JSON: r.Stored(), Tools: toolNames(defs)}, Sources: sourcesOf(defs), Authority: authorityOf(defs), Leave: leaveOf(defs, r),
		Caps: caps(r.Config),
	}, nil
}

// underNone are the directives that load one profile and nothing else.
func underNone(arg string) []profiles.Directive {
	ds := []profiles.Directive{{Flag: "--cfg", Text: "NONE"}}
	if arg != "" {
		ds = append(ds, profiles.Directive{Flag: "--cfg", Text: arg})
	}
	return ds
}

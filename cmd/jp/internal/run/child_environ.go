package run

import (
	"context"
	"encoding/json"
	"errors"
	"path/filepath"
	"runtime"

	"jp/cmd/jp/internal/agent"
	"jp/cmd/jp/internal/call"
	"jp/cmd/jp/internal/delegate"
	"jp/cmd/jp/internal/model"
	"jp/cmd/jp/internal/rule"
	"jp/cmd/jp/internal/spans"
	"jp/cmd/jp/internal/subprocess"
	"jp/convstore"
	"jp/profiles"
	"jp/tools"
	"jp/tools/proc"
)

// childEnviron returns the environment of a child jp. It is not inherited: it has what every jp
// needs, and no key: this process asks the models and the MCP servers.
func (s site) childEnviron() []string {
	env := proc.Environ(s.env.Con.Env.Environ, proc.AgentEnv()...)
	if say := s.env.WS.Gate.ForChild(); say != "" {
		env = append(env, say)
	}
	env = append(env, "JP_STORE="+filepath.Dir(s.Store.Path()), "JP_NONINTERACTIVE=1", subprocess.OneProcessor)
	if p := s.env.Con.LogPath(); p != "" && p != "-" {
		env = append(env, "JP_LOG_FILE="+p)
	}
	return env
}

// onAll is tools.Executor.Around of a sub-agent, which has begun with subprocess.OneProcessor: it
// takes all processors before the first tool that works in its own process.
func onAll(ctx context.Context, t tools.Tool, c tools.Call) (context.Context, func(tools.Result)) {
	if t.Source == tools.SourceBuiltin && runtime.GOMAXPROCS(0) == 1 {
		runtime.SetDefaultGOMAXPROCS()
	}
	return spans.Call(ctx, t, c)
}

// delegation returns the options of a Delegator for a run or session.
func (s site) delegation(cfg profiles.Config, scope convstore.Scope, slot *convstore.Slot, special func(context.Context, string) (delegate.Special, error)) delegate.Options {
	if s.tree == nil {
		s.tree = newTree(cfg.Providers, s.env.WS.Reads())
	}
	s.far.mu.Lock()
	if s.far.table == nil { // the table of the root, which flags may have changed
		s.far.table = cfg.Launchers
	}
	s.far.mu.Unlock()
	return delegate.Options{
		Scope: scope, Slot: slot, Limits: rule.LimitsOf(cfg, s.env.WaitLimit), Priced: s.env.Priced(cfg), Answering: s.answering, Down: s.env.Down(cfg), WaitLimit: s.env.WaitLimit, Keys: s.tree.providers.Keys(), Kept: s.tree.kept, Replayed: s.env.Tape.Replays(), Taped: s.env.Tape != nil,
		InlineResult: cfg.Delegation.InlineResult, ContextTool: cfg.Delegation.ContextTool,
		Resolve: s.env.Profile, Special: special, Host: s.Host, Dir: s.Root, Below: s.below, Change: s.changeBelow, Models: s.models, Place: s.place, Variables: s.variables, Served: s.served, Reads: s.env.Reads,
		Placed: s.env.Tape.Put, Record: func(of delegate.Below) func(json.RawMessage) error { return s.env.Tape.Keeper(of.Environ) },
		Environ: func(ctx context.Context, r delegate.Run) []string {
			return spans.Environ(ctx, append(s.childEnviron(), s.env.Tape.Environ(r.Call, r.Query)...))
		},
		Warn: s.env.Con.Warn, Log: s.env.Con.Logger(), Follow: spans.Follow, Checkpoint: s.env.Con.Env.Checkpoint,
	}
}

// below is Options.Below: it returns what a sub-agent delegates with. Everything is found here, by
// the config and the grant that the store has of it, and nothing that it says counts.
func (s site) below(ctx context.Context, of delegate.Below) (o delegate.Options, arm delegate.Arm, err error) {
	env := *s.env
	env.Tape = s.env.Tape.Below(of.Environ)
	s.env = &env
	r, err := s.configBelow(of)
	if err != nil {
		return o, nil, err
	}
	defs, err := s.env.DefinitionsOf(ctx, r, of.Conv)
	if err != nil {
		return o, nil, err
	}
	ceiling, err := rule.CeilingOf(of.Conv.Grant, of.Conv.Role)
	if err != nil {
		return o, nil, err
	}
	o = s.delegation(r.Config, of.Log.Below(), nil, func(ctx context.Context, tool string) (delegate.Special, error) {
		return s.special(ctx, r, of.Conv.Grant != nil, tool)
	})
	if ids, err := s.env.Answering(r.Config); err == nil {
		var prices []*model.Price
		for _, id := range ids {
			if info, err := model.Lookup(id, s.env.Providers(r.Config)); err == nil {
				prices = append(prices, info.Price)
			}
		}
		o.Closing = agent.Closing(prices...)
	}
	o.Command = func(ctx context.Context, in *delegate.Inside, def tools.Definition, req call.Request) int {
		return s.command(ctx, of.Log.Below(), in, def, req)
	}
	return o, func(funcs delegate.Funcs) (tools.Set, error) {
		var held []tools.Tool
		for _, def := range defs {
			holds := ceiling.Holds(def)
			if _, ok := def.MCP(); ok { // it is called through Served, which has its pin
				holds = ceiling.MayHold(def)
			}
			if !holds || def.Source == tools.SourceDelegation && !r.Config.Delegation.Enabled {
				continue
			}
			f, ok := funcs(def.Name)
			if !ok {
				f = elsewhere
			}
			held = append(held, tools.Tool{Definition: withinGrant(def, of.Conv.Grant), Func: f})
		}
		return tools.NewSet(held...)
	}, nil
}

// configBelow returns the config of a sub-agent, as it has it itself. Its providers are those of
// its root: flags may have set an address or a price.
func (s site) configBelow(of delegate.Below) (*profiles.Resolved, error) {
	r, err := s.storedBelow(of.Log.Taken().JSON, of.Overrides)
	if err != nil {
		return nil, err
	}
	if of.Conv.Grant != nil {
		r.Cut(of.Conv.Grant.Tools)
	}
	return r, err
}

// storedBelow is configBelow without a grant.
func (s site) storedBelow(stored []byte, overrides []string) (*profiles.Resolved, error) {
	var ds []profiles.Directive
	for _, text := range overrides {
		ds = append(ds, profiles.Directive{Flag: "--cfg", Text: text})
	}
	r, err := profiles.Resolve(s.env.WS.StoredSources(stored), ds, nil)
	if err != nil {
		return nil, err
	}
	r.Config.Providers = s.tree.providers
	return r, nil
}

// answering is Options.Answering.
func (s site) answering(stored []byte, overrides []string) ([]string, error) {
	r, err := s.storedBelow(stored, overrides)
	if err != nil {
		return nil, err
	}
	return s.env.Answering(r.Config)
}

// changeBelow is Options.Change.
func (s site) changeBelow(ctx context.Context, of delegate.Below) (*convstore.ConfigDelta, error) {
	r, err := s.configBelow(of)
	if err != nil {
		return nil, err
	}
	o := opening{site: s, Conv: of.Conv, Resolved: r}
	return o.changedTo(ctx, of.Log.Taken().JSON, o.form) // the sub-agent has opened the model itself
}

// elsewhere is the Func of a tool that runs in the process of a sub-agent.
func elsewhere(context.Context, tools.Call) (tools.Result, error) {
	return tools.Result{}, errors.New("this tool runs in the sub-agent")
}

// command carries out the command line of a jp inside a call of a tool.
func (s site) command(ctx context.Context, scope convstore.Scope, in *delegate.Inside, def tools.Definition, r call.Request) int {
	g := Guest{Scope: scope, In: in, Tool: def, Environ: proc.Environ(s.env.Con.Env.Environ, "LANG", "LC_*", "TZ")}
	return s.env.Serve(ctx, g, r)
}

package run

import (
	"context"
	"encoding/json"
	"errors"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"jp/cmd/jp/internal/agent"
	"jp/cmd/jp/internal/call"
	"jp/cmd/jp/internal/delegate"
	"jp/cmd/jp/internal/model"
	"jp/cmd/jp/internal/spans"
	"jp/convstore"
	"jp/profiles"
	"jp/tools"
	"jp/tools/proc"
)

// childEnviron returns the environment of a child jp. It is not inherited: it has what every jp
// needs, and the key and address of the model that the child can call. No tool of the child gets
// this key.
func (s site) childEnviron(ctx context.Context, cfg profiles.Config, child delegate.Run) []string {
	allow, env := slices.Clone(proc.AgentEnv()), []string(nil)
	if provider := childProvider(cfg, child); provider != "" {
		allow = append(allow, providerVariables(cfg, provider)...)
		// The child reads the user's config itself, so only addresses from variables and flags are
		// passed on.
		p, name := cfg.Providers.LLM[provider], "JP_CFG_PROVIDERS__LLM__"+strings.ToUpper(provider)+"__"
		for key, value := range map[string]string{"TYPE": p.Type, "BASE_URL": p.BaseURL, "API_KEY_ENV": p.APIKeyEnv, "API": p.API} {
			if value != "" {
				env = append(env, name+key+"="+value)
			}
		}
	}
	if prices := pricesFor(cfg.Providers.Prices); prices != "" {
		env = append(env, "JP_CFG_PROVIDERS__LLM__PRICES=:"+prices)
	}
	allow = append(allow, s.env.Servers.Variables(ctx)...)
	env = append(proc.Environ(s.env.Con.Env.Environ, allow...), env...)
	if say := s.env.WS.Gate.ForChild(); say != "" {
		env = append(env, say)
	}
	env = append(env, "JP_STORE="+filepath.Dir(s.Store.Path()), "JP_NONINTERACTIVE=1")
	if p := s.env.Con.LogPath(); p != "" && p != "-" {
		env = append(env, "JP_LOG_FILE="+p)
	}
	return env
}

// pricesFor returns the prices that were set, as JSON; "" if none were. A flag or a variable may
// have set them. The child must count with the same prices as the rule that granted its money.
func pricesFor(set map[string]profiles.Price) string {
	if len(set) == 0 {
		return ""
	}
	prices := map[string]map[string]json.Number{}
	for id, p := range set {
		prices[id] = map[string]json.Number{}
		for key, nano := range map[string]*int64{"input": &p.Input, "output": &p.Output, "cache_read": p.CacheRead, "cache_write": p.CacheWrite} {
			if nano != nil {
				prices[id][key] = json.Number(strconv.FormatFloat(float64(*nano)/1e9, 'f', -1, 64))
			}
		}
	}
	data, err := json.Marshal(prices)
	if err != nil {
		return "" // cannot happen: numbers and texts are always JSON
	}
	return string(data)
}

// childProvider returns the name of the provider that a child can call: that of its own model, which
// also writes its summaries. Its sub-agents get theirs from this process. "" = none.
func childProvider(cfg profiles.Config, child delegate.Run) string {
	id := child.Model
	if resolved, err := cfg.ResolveModel(id); err == nil {
		id = resolved // it may be an alias
	}
	provider, _, ok := strings.Cut(id, "/")
	if !ok {
		return ""
	}
	return provider
}

// providerVariables returns the environment variables with the keys and addresses of a provider.
func providerVariables(cfg profiles.Config, provider string) []string {
	if p, ok := cfg.Providers.LLM[provider]; ok && p != (profiles.Provider{API: p.API}) {
		if p.APIKeyEnv == "" {
			return nil
		}
		return []string{p.APIKeyEnv}
	}
	b, _ := model.FindBuiltin(provider)
	return b.Variables()
}

// delegation returns the options of a Delegator for a run or session.
func (s site) delegation(cfg profiles.Config, scope convstore.Scope, slot *convstore.Slot, special func(context.Context, string) (delegate.Special, error)) delegate.Options {
	return delegate.Options{
		Scope: scope, Slot: slot, Limits: LimitsOf(cfg), Priced: s.env.Priced(cfg), Replayed: s.env.Tape.Replays(),
		Models: cfg.Delegation.Models, InlineResult: cfg.Delegation.InlineResult, ContextTool: cfg.Delegation.ContextTool,
		Resolve: s.env.Profile, Special: special, Host: s.Host, Dir: s.Root, Below: s.below, Change: s.changeBelow, Placed: s.env.Tape.Put,
		Environ: func(ctx context.Context, r delegate.Run) []string {
			return spans.Environ(ctx, append(s.childEnviron(ctx, cfg, r), s.env.Tape.Environ(r.Call, r.Query)...))
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
	defs, err := s.env.Definitions(ctx, r)
	if err != nil {
		return o, nil, err
	}
	ceiling, err := delegate.CeilingOf(of.Conv.Grant, of.Conv.Role)
	if err != nil {
		return o, nil, err
	}
	o = s.delegation(r.Config, of.Log.Below(), nil, func(ctx context.Context, tool string) (delegate.Special, error) {
		return s.special(ctx, r, of.Conv.Grant != nil, tool)
	})
	if id, err := r.Config.RequireModel(); err == nil {
		if info, err := model.Lookup(id, s.env.Providers(r.Config)); err == nil {
			o.Closing = agent.Closing(info.Price)
		}
	}
	o.Command = func(ctx context.Context, in *delegate.Inside, def tools.Definition, req call.Request) int {
		return s.command(ctx, of.Log.Below(), in, def, req)
	}
	return o, func(funcs delegate.Funcs) (tools.Set, error) {
		var held []tools.Tool
		for _, def := range defs {
			holds := ceiling.Holds(def)
			if _, ok := def.MCP(); ok { // its pin is filled in where it is called
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

// configBelow returns the config of a sub-agent, as it has it itself.
func (s site) configBelow(of delegate.Below) (*profiles.Resolved, error) {
	var ds []profiles.Directive
	for _, text := range of.Overrides {
		ds = append(ds, profiles.Directive{Flag: "--cfg", Text: text})
	}
	src := s.env.WS.SourcesOf(nil) // no config of the workspace
	src.Stored = of.Log.Taken().JSON
	r, err := profiles.Resolve(src, ds, nil)
	if err == nil && of.Conv.Grant != nil {
		r.Cut(of.Conv.Grant.Tools)
	}
	return r, err
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

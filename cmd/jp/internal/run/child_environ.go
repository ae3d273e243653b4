package run

import (
	"context"
	"encoding/json"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"jp/cmd/jp/internal/delegate"
	"jp/cmd/jp/internal/model"
	"jp/cmd/jp/internal/spans"
	"jp/convstore"
	"jp/profiles"
	"jp/tools/proc"
)

// childEnviron returns the environment of a child jp. It is not inherited: it has what every jp
// needs, and the keys and addresses of the models that the child can call. No tool of the child
// gets these keys.
func (s site) childEnviron(ctx context.Context, cfg profiles.Config, child delegate.Run) []string {
	allow, env := slices.Clone(proc.AgentEnv()), []string(nil)
	for _, provider := range childProviders(cfg, child) {
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

// childProviders returns the names of the providers that a child can call: that of its own model,
// which also writes its summaries. If the child may start sub-agents, it returns all providers,
// because their profiles choose the models.
func childProviders(cfg profiles.Config, child delegate.Run) []string {
	var names []string
	if child.Delegates {
		for _, b := range model.Builtins() {
			names = append(names, b.Name)
		}
		for name := range cfg.Providers.LLM {
			names = append(names, name)
		}
	}
	id := child.Model
	if resolved, err := cfg.ResolveModel(id); err == nil {
		id = resolved // it may be an alias
	}
	if provider, _, ok := strings.Cut(id, "/"); ok {
		names = append(names, provider)
	}
	slices.Sort(names)
	return slices.Compact(names)
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

// delegator returns a Delegator for a run or session; the caller fills in its tools.
func (s site) delegator(cfg profiles.Config, scope convstore.Scope, slot *convstore.Slot, special func(context.Context, string) (delegate.Special, error)) *delegate.Delegator {
	return &delegate.Delegator{
		Scope: scope, Caller: scope.Caller(), Slot: slot, Limits: LimitsOf(cfg), Priced: s.env.Priced(cfg), Replayed: s.env.Tape.Replays(),
		Models: cfg.Delegation.Models, InlineResult: cfg.Delegation.InlineResult, ContextTool: cfg.Delegation.ContextTool,
		Resolve: s.env.Profile, Special: special, Host: s.Host, Dir: s.Root,
		Environ: func(ctx context.Context, r delegate.Run) []string {
			return spans.Environ(ctx, append(s.childEnviron(ctx, cfg, r), s.env.Tape.Environ(r.Call, r.Query)...))
		},
		Warn: s.env.Con.Warn, Log: s.env.Con.Logger(), Follow: spans.Follow, Checkpoint: s.env.Con.Env.Checkpoint,
	}
}

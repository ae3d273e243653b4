package run

import (
	"cmp"
	"context"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"time"

	"jp/cmd/jp/internal/delegate"
	"jp/cmd/jp/internal/enabled"
	"jp/cmd/jp/internal/model"
	"jp/cmd/jp/internal/model/anthropic"
	"jp/cmd/jp/internal/model/gate"
	"jp/cmd/jp/internal/model/openai"
	"jp/cmd/jp/internal/model/script"
	"jp/cmd/jp/internal/spans"
	"jp/cmd/jp/internal/wire"
	"jp/profiles"
	"jp/tools"
	"jp/tools/fs"
)

// Model opens a model with its retries, its limits and the gate that all runs of its account share.
// A replayed run opens none. In a delegated run the owner makes the attempts.
func (env *Env) Model(ctx context.Context, cfg profiles.Config, id string, w Waits) (model.Stream, model.Info, error) {
	p := env.Providers(cfg)
	lookup := func() (model.Info, error) { return model.Lookup(id, p) }
	attempts := func() (wire.Model, error) { return env.attempts(ctx, cfg, id, p) }
	if c := env.owner; c != nil {
		known, missing := c.Start().Known(id)
		lookup = func() (model.Info, error) { return known.Info, missing }
		attempts = func() (wire.Model, error) {
			return wire.Model{Info: known.Info, Stream: c.Ask, Gate: c.Gate(known)}, cmp.Or(missing, known.Opens())
		}
	}
	s, info, err := env.Tape.Model(p.Dir, lookup, func() (model.Stream, model.Info, error) {
		m, err := attempts()
		if err != nil {
			return nil, model.Info{}, err
		}
		r := cfg.Assistant.Request
		retry := model.RetryOptions{Attempts: r.MaxRetries + 1, Base: r.BaseBackoff, Max: r.MaxBackoff, MaxAfter: env.waitFor(cfg, id), Gate: m.Gate, Notice: w.Begin, Goes: w.End}
		return model.Retry(m.Stream, spans.Retries(retry)), m.Info, nil
	})
	if err != nil {
		return nil, info, err
	}
	return spans.Model(s, info), info, nil
}

// waitFor returns the longest wait for a model whose limit resets; 0 = the usual one. Where another
// model may answer in its place, that is better than a long wait.
func (env *Env) waitFor(cfg profiles.Config, id string) time.Duration {
	if ids, _, err := cfg.RequireModels(); err == nil && slices.Contains(ids, id) && id != ids[len(ids)-1] {
		return 0
	}
	return env.WaitLimit
}

// attempts opens a model whose requests are made once each.
func (env *Env) attempts(ctx context.Context, cfg profiles.Config, id string, p model.Providers) (m wire.Model, err error) {
	if err := env.scriptWithheld(id, p); err != nil {
		return m, err
	}
	p.Client = env.client()
	s, info, err := model.Open(ctx, id, map[string]model.Provider{
		"anthropic": anthropic.New, "openai": openai.New, "script": script.New,
	}, p)
	if err != nil {
		return m, err
	}
	if !info.Images {
		s = model.WithoutImages(s)
	}
	r := cfg.Assistant.Request
	idle := r.StreamIdle
	if idle == 0 {
		idle = -1
	}
	limits := model.LimitOptions{Idle: idle, Quiet: r.ReplyIdle, Whole: r.Reply, MaxBytes: r.MaxResponseBytes}
	if info.Local && idle > 0 {
		limits.First = max(idle, 5*time.Minute) // a server may load the model before its first answer
	}
	m = wire.Model{Info: info, Stream: env.broken.Watch(info, model.Count(model.Limit(s, limits)))}
	if dir := env.Con.StateDir(); dir != "" && info.Account != (model.Account{}) {
		m.Gate = gate.New(filepath.Join(dir, "gates"), info.Account, func(err error) { env.Con.Warn("%v", err) })
	}
	return m, nil
}

// tree is what all sub-agents of a tree share, at any depth.
type tree struct {
	providers profiles.Providers // those of the root, which flags may have changed

	mu    sync.Mutex
	kinds map[string]kind // by the config of sub-agents
}

func newTree(p profiles.Providers) *tree {
	collectLate()
	return &tree{providers: p, kinds: map[string]kind{}}
}

// collectLate puts off the first collection of garbage of a root to a heap of 16 MiB, which few
// reach. From then on the heap grows as it does by default.
func collectLate() {
	const usual = 100
	if was := debug.SetGCPercent(4 * usual); was != usual { // somebody else has decided, or this did
		debug.SetGCPercent(was)
		return
	}
	runtime.AddCleanup(new([64]byte), func(percent int) { debug.SetGCPercent(percent) }, usual)
}

// kind is what the config of a sub-agent says. Many have the same one, and to resolve it takes long.
type kind struct {
	models   []wire.Model
	launcher string // name; "" = none
	servers  bool   // whether one may hold a tool of an MCP server
}

// models is delegate.Options.Models.
func (s site) models(ctx context.Context, of delegate.Below) []wire.Model {
	k, err := s.kindOf(ctx, of)
	if err != nil {
		return []wire.Model{{Err: err}}
	}
	return k.models
}

func (s site) kindOf(ctx context.Context, of delegate.Below) (kind, error) {
	s.tree.mu.Lock()
	defer s.tree.mu.Unlock()
	key := strings.Join(append(slices.Clone(of.Overrides), string(of.Log.Taken().JSON)), "\x00")
	k, ok := s.tree.kinds[key]
	if !ok {
		r, err := s.storedBelow(of.Log.Taken().JSON, of.Overrides)
		if err != nil {
			return kind{}, err
		}
		k = kind{models: s.open(ctx, r), launcher: r.Config.Launcher, servers: s.env.usesServers(ctx, r)}
		if ctx.Err() == nil { // else it may only have been stopped
			s.tree.kinds[key] = k
		}
	}
	return k, nil
}

// usesServers reports whether a config may enable tools of MCP servers.
func (env *Env) usesServers(ctx context.Context, r *profiles.Resolved) bool {
	files, err := env.WS.Gate.Tools(ctx)
	var defs []tools.Definition
	if err == nil {
		defs, err = enabled.All(r, files)
	}
	return err != nil || slices.ContainsFunc(defs, func(d tools.Definition) bool {
		_, ok := d.MCP()
		return ok
	})
}

// open opens the models of a sub-agent: those that its config names, and no other.
func (s site) open(ctx context.Context, r *profiles.Resolved) (list []wire.Model) {
	ids, err := s.env.Answering(r.Config)
	if err != nil {
		return []wire.Model{{Err: err}}
	}
	p := s.env.Providers(r.Config)
	for _, id := range ids {
		m := wire.Model{}
		if m.Info, m.Err = model.Lookup(id, p); m.Err == nil && !s.env.Tape.Replays() {
			opened, err := s.env.attempts(ctx, r.Config, id, p)
			if m.Err = err; err == nil {
				m = opened
			} else {
				s.env.broken.Failed(m.Info, err)
			}
		}
		list = append(list, m)
	}
	return list
}

// answering is Config.RequireModels. In a replay it leaves out all but the first that were not asked
// when it was recorded: this machine may not know them.
func (env *Env) answering(cfg profiles.Config) (list []string, escalate string, err error) {
	list, escalate, err = cfg.RequireModels()
	if err != nil || !env.Tape.Replays() {
		return list, escalate, err
	}
	list = append(list[:1:1], slices.DeleteFunc(list[1:], func(id string) bool { return !env.Tape.Asked(id) })...)
	if !env.Tape.Asked(escalate) {
		escalate = ""
	}
	return list, escalate, nil
}

// Answering returns the ids of all models that may answer in a turn, the first one first.
func (env *Env) Answering(cfg profiles.Config) ([]string, error) {
	ids, escalate, err := env.answering(cfg)
	if err == nil && escalate != "" && !slices.Contains(ids, escalate) {
		ids = append(ids, escalate)
	}
	return ids, err
}

// scriptWithheld refuses a script in .jp of a workspace that is not trusted, also through a link.
func (env *Env) scriptWithheld(id string, p model.Providers) error {
	info, err := model.Lookup(id, p)
	if err != nil || info.Format != "script" || !env.WS.Gate.Withheld() {
		return nil // Open reports the error
	}
	name, _, _ := strings.Cut(info.Name, "#")
	leads := name
	if root, err := filepath.EvalSymlinks(p.Dir); err == nil {
		if real, err := filepath.EvalSymlinks(filepath.Join(root, name)); err == nil {
			leads, _ = filepath.Rel(root, real) // both are absolute
		}
	}
	if fs.HasWorkspaceFolder(name) || fs.HasWorkspaceFolder(leads) {
		return &profiles.Error{File: filepath.Join(p.Dir, name), Msg: profiles.ErrWithheld.Error(), Err: profiles.ErrWithheld}
	}
	return nil
}

// Providers returns the providers and prices of cfg with the keys of this machine.
func (env *Env) Providers(cfg profiles.Config) model.Providers {
	ws, _ := env.WS.Root()
	p := model.Providers{Aliases: cfg.Providers.Aliases, Env: env.Con.Getenv, Dir: ws, MaxBytes: 4 * cfg.Assistant.Request.MaxResponseBytes}
	p.LLM = map[string]model.Endpoint{}
	for name, e := range cfg.Providers.LLM {
		p.LLM[name] = model.Endpoint{Type: e.Type, BaseURL: e.BaseURL, APIKeyEnv: e.APIKeyEnv, API: e.API}
	}
	p.Prices = map[string]model.Price{}
	for id, price := range cfg.Providers.Prices {
		p.Prices[id] = PriceOf(price)
	}
	env.Tape.AddPrices(&p)
	return p
}

// cacheWrite is the default price of a token that is written to the cache, in tokens of input. It
// is what Anthropic bills; no other API reports such tokens.
const cacheWrite = 1.25

// PriceOf turns nano-dollars per million tokens into nano-dollars per token.
func PriceOf(p profiles.Price) model.Price {
	input := float64(p.Input) / 1e9
	read, write := input, cacheWrite*input
	if p.CacheRead != nil {
		read = float64(*p.CacheRead) / 1e9
	}
	if p.CacheWrite != nil {
		write = float64(*p.CacheWrite) / 1e9
	}
	return model.PerMillion(input, float64(p.Output)/1e9, read, write)
}

// Waits has functions that are called when a request to a model has to wait, and when the wait is
// over. Both may be nil.
type Waits struct {
	Begin func(context.Context, model.Retrying)
	End   func(context.Context)
}

// down returns a function that says why a model cannot be asked; nil = nothing is known against it.
func (env *Env) down(cfg profiles.Config) func(id string) error {
	p := env.Providers(cfg)
	return func(id string) error {
		info, err := model.Lookup(id, p)
		if err != nil {
			return nil // the run says it
		}
		if e := env.broken.Down(info); e != nil {
			return e
		}
		return nil
	}
}

// Priced returns a function that reports whether the price of a model is known.
func (env *Env) Priced(cfg profiles.Config) func(id string) bool {
	p := env.Providers(cfg)
	return func(id string) bool {
		info, err := model.Lookup(id, p)
		return err == nil && info.Price != nil
	}
}

// Package models opens the models that a config names: with the retries, limits and prices of the
// config, the keys of this machine, the rate gate that all processes of a user share, and what is
// known to be out of order. In a replay it opens none; a sub-agent's requests go to its owner.
package models

import (
	"cmp"
	"context"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"jp/cmd/jp/internal/console"
	"jp/cmd/jp/internal/model"
	"jp/cmd/jp/internal/model/anthropic"
	"jp/cmd/jp/internal/model/gate"
	"jp/cmd/jp/internal/model/openai"
	"jp/cmd/jp/internal/model/script"
	"jp/cmd/jp/internal/record"
	"jp/cmd/jp/internal/spans"
	"jp/cmd/jp/internal/term"
	"jp/cmd/jp/internal/wire"
	"jp/cmd/jp/internal/workspace"
	"jp/profiles"
	"jp/tools/fs"
)

// Set opens the models of the runs of one workspace. Make one with New.
type Set struct {
	Con   *console.Console
	WS    *workspace.Workspace
	Tape  *record.Tape // current recording or replay; nil = none
	Owner *wire.Conn   // connection of a delegated run; nil = this process is its own owner

	// WaitLimit is the longest wait for a limit of a provider to reset; 0 = the usual one.
	WaitLimit time.Duration

	client func() *http.Client // connections to models
	broken *model.Breaker      // what cannot be asked
	unread *sync.Once          // for the warning that a server leaves out a part of its requests
}

// New returns the Set of a workspace.
func New(con *console.Console, ws *workspace.Workspace) Set {
	return Set{Con: con, WS: ws, client: sync.OnceValue(model.NewClient), broken: &model.Breaker{}, unread: new(sync.Once)}
}

// WaitFor sets the longest wait for a limit of a provider to reset; 0 = the usual one.
func (set *Set) WaitFor(limit time.Duration) {
	set.WaitLimit = min(limit, 366*24*time.Hour)
	set.broken.Limit = set.WaitLimit
}

// Model opens a model with its retries, its limits and the gate that all runs of its account share.
// A replayed run opens none. In a delegated run the owner makes the attempts.
func (set *Set) Model(ctx context.Context, cfg profiles.Config, id string, w Waits) (model.Stream, model.Info, error) {
	p := set.Providers(cfg)
	lookup := func() (model.Info, error) { return model.Lookup(id, p) }
	attempts := func() (wire.Model, error) { return set.attempts(ctx, cfg, id, p) }
	if c := set.Owner; c != nil {
		known, missing := c.Start().Known(id)
		lookup = func() (model.Info, error) { return known.Info, missing }
		attempts = func() (wire.Model, error) {
			return wire.Model{Info: known.Info, Stream: c.Ask, Gate: c.Gate(known)}, cmp.Or(missing, known.Opens())
		}
	}
	s, info, err := set.Tape.Model(p.Dir, lookup, func() (model.Stream, model.Info, error) {
		m, err := attempts()
		if err != nil {
			return nil, model.Info{}, err
		}
		r := cfg.Assistant.Request
		base, most := max(r.BaseBackoff, 1), max(r.MaxBackoff, 1) // 0 would be the usual one
		retry := model.RetryOptions{Attempts: r.MaxRetries + 1, Base: base, Max: most, MaxAfter: set.waitFor(cfg, id), Gate: m.Gate, Notice: w.Begin, Goes: w.End}
		return model.Retry(m.Stream, spans.Retries(retry)), m.Info, nil
	})
	if err != nil {
		return nil, info, err
	}
	return spans.Model(s, info), info, nil
}

// waitFor returns the longest wait for a model whose limit resets; 0 = the usual one. Where another
// model may answer in its place, that is better than a long wait.
func (set *Set) waitFor(cfg profiles.Config, id string) time.Duration {
	if ids, _, err := cfg.RequireModels(); err == nil && slices.Contains(ids, id) && id != ids[len(ids)-1] {
		return 0
	}
	return set.WaitLimit
}

// attempts opens a model whose requests are made once each.
func (set *Set) attempts(ctx context.Context, cfg profiles.Config, id string, p model.Providers) (m wire.Model, err error) {
	if err := set.scriptWithheld(id, p); err != nil {
		return m, err
	}
	p.Client = set.client()
	s, info, err := model.Open(ctx, id, map[string]model.Provider{
		"anthropic": anthropic.New, "openai": openai.New, "script": script.New,
	}, p)
	if err != nil {
		return m, err
	}
	if !info.Images {
		s = model.WithoutImages(s)
	}
	if info.Provider == "ollama" {
		s = unread(s, func(read, sent int64) {
			set.unread.Do(func() {
				set.Con.Warn("ollama read only %s of about %s tokens of a request: give it a larger window (OLLAMA_CONTEXT_LENGTH)", term.Count(read), term.Count(sent))
			})
		})
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
	m = wire.Model{Info: info, Stream: set.broken.Watch(info, model.Count(model.Limit(s, limits)))}
	if dir := set.Con.StateDir(); dir != "" && info.Account != (model.Account{}) {
		m.Gate = gate.New(filepath.Join(dir, "gates"), info.Account, func(err error) { set.Con.Warn("%v", err) })
	}
	return m, nil
}

// OpenAll opens the models of a sub-agent: those that its config names, and no other.
func (set *Set) OpenAll(ctx context.Context, cfg profiles.Config) (list []wire.Model) {
	ids, err := set.Answering(cfg)
	if err != nil {
		return []wire.Model{{Err: err}}
	}
	most := &cfg.Assistant.Request.MaxResponseBytes
	*most = min(*most, wire.MaxReply)
	p := set.Providers(cfg)
	for _, id := range ids {
		m := wire.Model{}
		if m.Info, m.Err = model.Lookup(id, p); m.Err == nil && !set.Tape.Replays() {
			opened, err := set.attempts(ctx, cfg, id, p)
			if m.Err = err; err == nil {
				m = opened
			} else {
				set.broken.Failed(m.Info, err)
			}
		}
		list = append(list, m)
	}
	return list
}

// InTurn is Config.RequireModels. In a replay it leaves out all but the first that were not asked
// when it was recorded: this machine may not know them.
func (set *Set) InTurn(cfg profiles.Config) (list []string, escalate string, err error) {
	list, escalate, err = cfg.RequireModels()
	if err != nil || !set.Tape.Replays() {
		return list, escalate, err
	}
	list = append(list[:1:1], slices.DeleteFunc(list[1:], func(id string) bool { return !set.Tape.Asked(id) })...)
	if !set.Tape.Asked(escalate) {
		escalate = ""
	}
	return list, escalate, nil
}

// Answering returns the ids of all models that may answer in a turn, the first one first.
func (set *Set) Answering(cfg profiles.Config) ([]string, error) {
	ids, escalate, err := set.InTurn(cfg)
	if err == nil && escalate != "" && !slices.Contains(ids, escalate) {
		ids = append(ids, escalate)
	}
	return ids, err
}

// scriptWithheld refuses a script in .jp of a workspace that is not trusted, also through a link.
func (set *Set) scriptWithheld(id string, p model.Providers) error {
	info, err := model.Lookup(id, p)
	if err != nil || info.Format != "script" || !set.WS.Gate.Withheld() {
		return nil // Open reports the error
	}
	name, _, _ := strings.Cut(info.Name, "#")
	leads := name
	if root, err := filepath.EvalSymlinks(p.Dir); err == nil {
		// Not joined: that would take x/.. for nothing, and x may be a link.
		if real, err := filepath.EvalSymlinks(root + "/" + name); err == nil {
			leads, _ = filepath.Rel(root, real) // both are absolute
		}
	}
	if fs.HasWorkspaceFolder(name) || fs.HasWorkspaceFolder(leads) {
		return &profiles.Error{File: filepath.Join(p.Dir, name), Msg: profiles.ErrWithheld.Error(), Err: profiles.ErrWithheld}
	}
	return nil
}

// Providers returns the providers and prices of cfg with the keys of this machine.
func (set *Set) Providers(cfg profiles.Config) model.Providers {
	ws, _ := set.WS.Root()
	p := model.Providers{Aliases: cfg.Providers.Aliases, Env: set.Con.Getenv, Dir: ws, MaxBytes: 4 * cfg.Assistant.Request.MaxResponseBytes}
	p.LLM = map[string]model.Endpoint{}
	for name, e := range cfg.Providers.LLM {
		p.LLM[name] = model.Endpoint{Type: e.Type, BaseURL: e.BaseURL, APIKeyEnv: e.APIKeyEnv, API: e.API}
	}
	p.Prices = map[string]model.Price{}
	for id, price := range cfg.Providers.Prices {
		p.Prices[id] = PriceOf(price)
	}
	set.Tape.AddPrices(&p)
	return p
}

// cacheWrite is the default price of a token that is written to the cache, in tokens of input. It
// is what Anthropic bills, also through a proxy.
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

// Down returns a function that says why a model cannot be asked; nil = nothing is known against it.
func (set *Set) Down(cfg profiles.Config) func(id string) error {
	p := set.Providers(cfg)
	return func(id string) error {
		info, err := model.Lookup(id, p)
		if err != nil {
			return nil // the run says it
		}
		if e := set.broken.Down(info); e != nil {
			return e
		}
		return nil
	}
}

// Priced returns a function that reports whether the price of a model is known.
func (set *Set) Priced(cfg profiles.Config) func(id string) bool {
	p := set.Providers(cfg)
	return func(id string) bool {
		info, err := model.Lookup(id, p)
		return err == nil && info.Price != nil
	}
}

package run

import (
	"context"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"sync"

	"jp/cmd/jp/internal/delegate"
	"jp/cmd/jp/internal/enabled"
	"jp/cmd/jp/internal/wire"
	"jp/profiles"
	"jp/tools"
	"jp/tools/fs"
	"jp/tools/proc"
)

// tree is what all sub-agents of a tree share, at any depth.
type tree struct {
	providers profiles.Providers // those of the root, which flags may have changed
	kept      fs.Kept            // see workspace.Workspace.Reads

	mu    sync.Mutex
	kinds map[string]kind // by the config of sub-agents
}

func newTree(p profiles.Providers, kept fs.Kept) *tree {
	collectLate()
	return &tree{providers: p, kept: kept, kinds: map[string]kind{}}
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

// kind is what the config of a sub-agent says. Many have the same one, and to resolve it takes
// long.
type kind struct {
	models   []wire.Model
	launcher string // name; "" = none
	served   bool   // whether one may hold a tool that its owner calls

	variables []string // names of the variables that its tools get
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
		k = kind{models: s.env.OpenAll(ctx, r.Config), launcher: r.Config.Launcher}
		k.served, k.variables = s.env.uses(ctx, r)
		if ctx.Err() == nil { // else it may only have been stopped
			s.tree.kinds[key] = k
		}
	}
	return k, nil
}

// uses reports whether a config may enable tools that are served, and returns the variables that its
// tools name.
func (env *Env) uses(ctx context.Context, r *profiles.Resolved) (served bool, variables []string) {
	files, err := env.WS.Gate.Tools(ctx)
	var defs []tools.Definition
	if err == nil {
		defs, err = enabled.All(r, files)
	}
	for _, d := range defs {
		served, variables = served || isServed(d), append(variables, d.Env...)
	}
	return served || err != nil, variables
}

// variables is delegate.Options.Variables. The tools of a sub-agent get them from it, and the key of
// a model provider is for no tool.
func (s site) variables(ctx context.Context, of delegate.Below) []string {
	k, err := s.kindOf(ctx, of)
	if err != nil || len(k.variables) == 0 {
		return nil // what is wrong is said where models are asked for
	}
	names := slices.DeleteFunc(slices.Clone(k.variables), s.tree.providers.IsKey)
	return proc.Environ(s.env.Con.Env.Environ, names...)
}

package run

import (
	"context"
	"errors"
	"fmt"
	"time"

	"jp/profiles"
	"jp/tools"
	"jp/tools/proc"
)

// Startable does everything that a new query does before its first request, but makes no
// conversation. It returns the error at which it stops, nil if a query would start, and the
// profiles that the query may name. It asks nobody and starts no program.
func (env *Env) Startable(ctx context.Context) []error {
	root, err := env.WS.Root()
	if err != nil {
		return []error{err}
	}
	j, err := env.WS.Gate.Judge(ctx, root)
	if err != nil {
		return []error{err}
	}
	if !j.OK() {
		return []error{j.Refusal()}
	}
	st, err := env.WS.Store(ctx)
	if err != nil {
		return []error{err}
	}
	if !env.Con.Globals.NoPersist {
		if err := st.Writable(); err != nil {
			return []error{err}
		}
	}
	asks, look := env.Con.Globals.NonInteractive, env.Servers.Look
	env.Con.Globals.NonInteractive, env.Servers.Look = true, true
	defer func() { env.Con.Globals.NonInteractive, env.Servers.Look = asks, look }()
	host := proc.NewHost(proc.Options{})
	defer func() { _ = host.Close() }() // it starts nothing
	return env.tryNew(ctx, host)
}

// tryNew prepares a new query up to its agent, and checks each profile that the query may name.
func (env *Env) tryNew(ctx context.Context, host *proc.Host) (problems []error) {
	at, err := env.site(ctx, host)
	if err != nil {
		return []error{err}
	}
	o := &opening{site: at, req: Request{New: true}, Began: time.Now()}
	r := (*Run)(o)
	defer r.Close(ctx)
	if err = o.resolve(ctx, nil, nil); err == nil {
		_, _, err = o.accept(ctx)
	}
	if err == nil {
		_, err = r.Agent(ctx)
	}
	if err != nil {
		return []error{err}
	}
	if !o.Resolved.Config.Delegation.Enabled {
		return nil
	}
	for _, name := range o.Resolved.Config.Delegation.Profiles {
		if err := env.profileStarts(ctx, o.Resolved.Config, name); err != nil {
			problems = append(problems, err)
		}
	}
	return problems
}

// profileStarts resolves a profile as a delegation does, and checks its model and tools as its run
// does.
func (env *Env) profileStarts(ctx context.Context, cfg profiles.Config, name string) error {
	p, err := env.Profile(ctx, name, "")
	if err == nil {
		_, _, err = env.Model(ctx, cfg, p.Model, Waits{})
	}
	var config *profiles.Error
	var definition *tools.DefinitionError
	if err == nil || errors.As(err, &config) || errors.As(err, &definition) {
		return err
	}
	return fmt.Errorf("profile %s: %w", name, err)
}

package run

import (
	"context"
	"errors"
	"fmt"
	"jp/convstore"
	"jp/profiles"
	"jp/tools"
	"jp/tools/proc"
	"time"
)

// Stored is a conversation with the config that a run of it would have.
type Stored struct {
	site
	Conv     convstore.Conversation
	Resolved *profiles.Resolved
	req      Request
}

// Stored looks at a conversation without taking it. Of req only what changes its config counts.
func (env *Env) Stored(ctx context.Context, id convstore.ID, req Request) (*Stored, error) {
	at, err := env.site(ctx, nil)
	if err != nil {
		return nil, err
	}
	o := &opening{site: at, req: req}
	if o.Conv, err = o.Store.Get(ctx, id); err != nil {
		return nil, err
	}
	stored, err := o.Store.Config(ctx, id)
	if err != nil {
		return nil, err
	}
	if err := o.resolve(ctx, stored.JSON, nil); err != nil {
		return nil, err
	}
	return &Stored{site: at, Conv: o.Conv, Resolved: o.Resolved, req: req}, nil
}

// Check finds out whether a run with this config would start.
func (s *Stored) Check(ctx context.Context) error {
	_, _, err := (&opening{site: s.site, req: s.req, Conv: s.Conv, Resolved: s.Resolved}).accept(ctx)
	return err
}

// Startable does all that a new query does before its first request, but makes no conversation. It returns what it stops at: nil
// when a query would start, and each of the profiles that it may name.
func (env *Env) Startable(ctx context.Context, host *proc.Host) (problems []error) {
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

// profileStarts resolves a profile as a delegation does, and looks at its model and tools as its run does.
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

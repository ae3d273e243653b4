package run

import (
	"context"

	"jp/convstore"
	"jp/profiles"
)

// Stored is a conversation with the config that a run of it would have.
type Stored struct {
	site
	Conv     convstore.Conversation
	Resolved *profiles.Resolved
	req      Request
}

// Stored reads a conversation without taking its lock. It uses only those fields of req that change
// the config.
func (env *Env) Stored(ctx context.Context, id convstore.ID, req Request) (*Stored, error) {
	at, err := env.site(ctx, nil)
	if err != nil {
		return nil, err
	}
	o := &opening{site: at, req: req}
	if o.Conv, err = o.Store.Get(ctx, id); err != nil {
		return nil, err
	}
	_, err = o.resolveStored(ctx, nil)
	return &Stored{site: at, Conv: o.Conv, Resolved: o.Resolved, req: req}, err
}

// Check returns the error that would stop a run with this config.
func (s *Stored) Check(ctx context.Context) error {
	_, _, err := (&opening{site: s.site, req: s.req, Conv: s.Conv, Resolved: s.Resolved}).accept(ctx)
	return err
}

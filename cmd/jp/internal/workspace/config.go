package workspace

import (
	"context"

	"jp/cmd/jp/internal/command"
	"jp/convstore"
	"jp/profiles"
)

// ConfigOf resolves the config of a conversation, or of a new one, under directives.
func (w *Workspace) ConfigOf(ctx context.Context, id command.Maybe[string], ds []profiles.Directive) (*profiles.Resolved, error) {
	if _, err := w.Root(); err != nil {
		return nil, err
	}
	src, err := w.Sources(ctx, ds)
	if err != nil {
		return nil, err
	}
	var grant *convstore.Grant
	if id.Set {
		st, err := w.Store(ctx)
		if err != nil {
			return nil, err
		}
		target, err := w.Target(ctx, id.Value)
		if err != nil {
			return nil, err
		}
		c, err := st.Get(ctx, target)
		if err != nil {
			return nil, err
		}
		stored, err := st.Config(ctx, target)
		if err != nil {
			return nil, err
		}
		src.Stored, src.Person = stored.JSON, c.Grant == nil
		if c.Grant != nil {
			grant = c.Grant
		}
	}
	r, err := w.Config(src, ds, nil)
	if err == nil && grant != nil {
		r.Cut(grant.Tools)
	}
	return r, err
}

// TrustedSources returns the sources of config, without asking for trust.
func (w *Workspace) TrustedSources(ctx context.Context) profiles.Sources {
	return w.SourcesOf(w.Gate.PassUnasked(ctx))
}

package run

import (
	"context"

	"jp/cmd/jp/internal/enabled"
	"jp/cmd/jp/internal/review"
	"jp/cmd/jp/internal/rule"
	"jp/convstore"
	"jp/profiles"
	"jp/tools"
)

// Definitions returns the tools that a resolved config enables, sorted by name. Every command uses
// it, so that nothing runs which was not shown to the person who trusted the workspace: see
// review.Unshown.
func (env *Env) Definitions(ctx context.Context, r *profiles.Resolved) ([]tools.Definition, error) {
	return env.DefinitionsOf(ctx, r, convstore.Conversation{})
}

// DefinitionsOf is Definitions for the config of a conversation, which goes on with its tools.
func (env *Env) DefinitionsOf(ctx context.Context, r *profiles.Resolved, c convstore.Conversation) ([]tools.Definition, error) {
	files, err := env.WS.Gate.Tools(ctx)
	if err != nil {
		return nil, err
	}
	defs, err := enabled.All(r, files)
	if err == nil {
		err = review.Unshown(env.WS, r, files, defs, c)
	}
	if err != nil {
		return nil, err
	}
	if env.Owner != nil {
		return env.Owner.Pinned(defs)
	}
	return env.Servers.Pinned(ctx, defs)
}

// grantable returns the tools of defs as a profile offers them to a sub-agent, with what they may
// do without a question as in arm.
func grantable(defs []tools.Definition, r *profiles.Resolved) []rule.Tool {
	list := make([]rule.Tool, len(defs))
	for i, d := range defs {
		list[i] = rule.Tool{Name: d.Name, Source: d.Source, Authority: d.Authority(), Permissions: withoutAsking(d, r).Permissions()}
	}
	return list
}

// withoutAsking returns the tool skill as one that needs no permission, unless the config says
// otherwise: it reads only trusted files. It returns every other tool as it is.
func withoutAsking(d tools.Definition, r *profiles.Resolved) tools.Definition {
	if enabled.IsSkill(d) && !enabled.Says(r, d.Name, "run") {
		d.Run = tools.RunUnattended
	}
	return d
}

package review

import (
	"context"
	"slices"

	"jp/cmd/jp/internal/enabled"
	"jp/cmd/jp/internal/trust"
	"jp/cmd/jp/internal/workspace"
	"jp/convstore"
	"jp/profiles"
	"jp/tools"
)

// hadKind is the kind of an allowance that is no answer to a question: what a tool of .jp/tools was
// in a run, and what it could do without a question. A conversation without a grant needs it: its
// stored config has only the name of such a tool.
const hadKind = "had"

// IsAnswer reports whether a person has given an allowance as an answer.
func IsAnswer(a convstore.Allowance) bool { return a.Kind != hadKind }

// Had returns what a conversation keeps of the tools that it had, for a copy of it.
func Had(c convstore.Conversation) []convstore.Allowance {
	return slices.DeleteFunc(slices.Clone(c.Allowed), IsAnswer)
}

// had returns these tools; nil = the grant of the conversation says which.
func had(c convstore.Conversation) *trust.Shown {
	if c.Grant != nil {
		return nil
	}
	had := &trust.Shown{Tools: map[string][]string{}}
	for _, a := range Had(c) {
		had.Tools[a.Tool] = append(had.Tools[a.Tool], a.Authority)
	}
	return had
}

// Has returns what a conversation with the config r, which enables the tools defs, keeps of its
// tools and of those that it lends: of those of .jp/tools of which r says more than their files.
func Has(ctx context.Context, ws *workspace.Workspace, r *profiles.Resolved, defs []tools.Definition) ([]convstore.Allowance, error) {
	files, err := ws.Gate.Tools(ctx)
	if err == nil {
		files, err = enabled.WithSpecializations(r, files)
	}
	if err != nil {
		return nil, err
	}
	var list []convstore.Allowance
	for _, d := range withLent(r, files, defs) {
		if !tools.FromFile(d.Name, r.Tools[d.Name].Values, files) {
			continue
		}
		d.Pin = "" // Unshown looks before there is one
		var own trust.Shown
		if own.AddTool(files[d.Name]); !own.HasTool(d) {
			list = append(list, convstore.Allowance{Kind: hadKind, Tool: d.Name, Authority: d.Authority() + " " + d.Permissions()})
		}
	}
	return list, nil
}

// Keep keeps that in the conversation c, which log has locked, as far as c does not have it.
func Keep(ctx context.Context, log *convstore.Log, c *convstore.Conversation, list []convstore.Allowance) error {
	list = slices.DeleteFunc(list, func(a convstore.Allowance) bool { return slices.Contains(c.Allowed, a) })
	if len(list) == 0 {
		return nil
	}
	c.Allowed = append(c.Allowed, list...)
	return log.Allow(ctx, list...)
}

// KeepNew is Keep for a conversation that was just made, and that nobody has locked.
func KeepNew(ctx context.Context, st *convstore.Store, c convstore.Conversation, list []convstore.Allowance) error {
	if len(list) == 0 {
		return nil
	}
	log, err := st.Lock(ctx, c.ID)
	if err != nil {
		return err
	}
	defer func() { _ = log.Close() }() // all is stored
	return Keep(ctx, log, &c, list)
}

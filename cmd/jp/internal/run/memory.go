package run

import (
	"context"
	"slices"

	"jp/convstore"
	"jp/tools"
)

// memory keeps with the conversation of a run what a person allows for all of it. It is a
// tools.Memory. The store is asked each time, so that what is taken back does not run any more.
type memory struct{ run *Run }

// lasts reports whether the conversation can keep an answer. That of a sub-agent cannot: its caller
// may continue it, and authority comes to it by its grant only.
func (m memory) lasts() bool {
	return m.run.locked() != nil && m.run.Conv.Grant == nil && !m.run.env.Con.Globals.NoPersist
}

func (m memory) Allowed(ctx context.Context, q tools.Question) (bool, error) {
	c, err := m.run.locked().Get(ctx)
	return err == nil && slices.Contains(c.Allowed, allowance(q)), err
}

func (m memory) Allow(ctx context.Context, q tools.Question) error {
	err := m.run.locked().Allow(ctx, allowance(q))
	if err == nil && m.run.req.Asker == nil {
		m.run.env.Con.Note("%s: not asked again in this conversation; `jp conversation edit %s --ask %s` takes that back", q.Tool.Name, m.run.Conv.ID, q.Tool.Name)
	}
	return err
}

func allowance(q tools.Question) convstore.Allowance {
	return convstore.Allowance{Kind: string(q.Kind), Tool: q.Tool.Name, Authority: q.Tool.Authority()}
}

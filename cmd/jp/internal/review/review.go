// Package review is what a person sees of a workspace that is not trusted yet: what it would allow,
// on the page of `jp trust` and of the question for trust.
//
// A Reviewer resolves the config of the workspace's files, trusted or not, for commands that only
// show or check them. It starts no server and runs no tool. A Page has the result: each agent with
// its tools and what these reach, other models and limits that the config sets, skills,
// instructions, MCP servers, and every file with its state. Unshown holds a config to that page.
// Names and texts of a workspace come from strangers: invisible characters are spelled out.
package review

import (
	"context"
	"errors"

	"jp/cmd/jp/internal/console"
	"jp/cmd/jp/internal/enabled"
	"jp/cmd/jp/internal/servers"
	"jp/cmd/jp/internal/trust"
	"jp/cmd/jp/internal/workspace"
	"jp/profiles"
	"jp/tools"
)

// Reviewer reviews the workspace of one command.
type Reviewer struct {
	con     *console.Console
	ws      *workspace.Workspace
	servers *servers.Set

	Named []profiles.Directive // config that the page shows, too; nil = none
}

// New returns a Reviewer. It reads nothing.
func New(con *console.Console, ws *workspace.Workspace, servers *servers.Set) *Reviewer {
	return &Reviewer{con: con, ws: ws, servers: servers}
}

// Sources returns the sources of config for commands that only show or check the files of a
// workspace. The workspace need not be trusted. A note says so where the workspace is not trusted.
func (v *Reviewer) Sources(ctx context.Context) (profiles.Sources, *trust.Files, error) {
	src, j, err := v.Judged(ctx)
	if err == nil && !j.OK() {
		v.con.Note("workspace %s: %s; nothing of it is used before `jp trust`", src.Workspace, j.Differs())
	}
	return src, j.Files, err
}

// Judged does the same for a command that says by itself what is known of the workspace's trust.
func (v *Reviewer) Judged(ctx context.Context) (profiles.Sources, trust.Judgement, error) {
	root, err := v.ws.Root()
	if err != nil {
		return profiles.Sources{}, trust.Judgement{}, err
	}
	j, err := v.ws.Gate.Judge(ctx, root)
	if err != nil {
		return profiles.Sources{}, trust.Judgement{}, err
	}
	return v.ws.SourcesOf(j.Files), j, nil
}

// Resolve resolves config for a review, with the tools of c. With an error about tools it also
// returns the config and the other tools.
func (v *Reviewer) Resolve(src profiles.Sources, c *trust.Files, ds []profiles.Directive) (*profiles.Resolved, []tools.Definition, error) {
	return v.resolve(src, c, ds, func(src profiles.Sources, ds []profiles.Directive) (*profiles.Resolved, error) {
		return profiles.Resolve(src, ds, nil)
	})
}

func (v *Reviewer) resolve(src profiles.Sources, c *trust.Files, ds []profiles.Directive,
	resolve func(profiles.Sources, []profiles.Directive) (*profiles.Resolved, error)) (*profiles.Resolved, []tools.Definition, error) {
	var problems []error
	r, err := resolve(src, ds)
	if r == nil {
		return nil, nil, err
	}
	if err != nil {
		problems = append(problems, err)
	}
	files, broken := c.Tools() // with a mistake, those without it
	if broken != nil {
		problems = append(problems, broken)
	}
	if all, err := enabled.WithSpecializations(r, files); err != nil {
		problems = append(problems, err)
	} else {
		files = all
	}
	var defs []tools.Definition
	for _, name := range enabled.In(r) {
		d, err := enabled.Define(name, r, files)
		if err != nil {
			if enabled.Cause(err, broken) == err {
				problems = append(problems, err)
			}
			continue
		}
		defs = append(defs, d)
	}
	return r, defs, errors.Join(problems...)
}

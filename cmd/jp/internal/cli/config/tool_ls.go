package config

import (
	"context"

	"github.com/urfave/cli/v2"

	"jp/cmd/jp/internal/command"
	"jp/cmd/jp/internal/enabled"
	"jp/cmd/jp/internal/exit"
	"jp/cmd/jp/internal/term"
	"jp/cmd/jp/internal/workspace"
	"jp/profiles"
	"jp/tools"
)

// toolOptions says whose tools a command shows.
type toolOptions struct {
	id         command.Maybe[string]
	directives []profiles.Directive
}

func (o *toolOptions) options() []*command.Option {
	return append([]*command.Option{
		command.String(&o.id, "id", "TARGET", "the tools of this conversation").Alias("i"),
	}, workspace.ConfigFlags(&o.directives)...)
}

func newToolListCommand(g *Group) *cli.Command {
	var o toolOptions
	return g.Tree.Command(command.Spec{
		Name: "ls", Paged: true, Summary: "list the tools that an agent has",
		About: "In a pipe it prints tab-separated lines: name, source, run mode, file and line that " +
			"enable the tool.",
		Flags:    o.options(),
		Exits:    []exit.Status{exit.NotFound, exit.Busy, exit.Refused},
		Examples: []string{"jp tool ls --cfg agent/researcher", "jp tool ls --id . -F json"},
		Run:      func(ctx context.Context, _ []string) error { return runToolList(ctx, g, o) },
	})
}

func runToolList(ctx context.Context, g *Group, o toolOptions) error {
	r, err := g.WS.ConfigOf(ctx, o.id, o.directives)
	if err != nil {
		return err
	}
	defs, err := g.definitions(ctx, o, r)
	if err != nil {
		return err
	}
	ts := enabled.ShowTools(r, defs, g.Env.Servers.Known(ctx))
	if g.Con.JSON() {
		return g.Con.Document(ts)
	}
	rows := make([][]string, len(ts))
	for i, t := range ts {
		rows[i] = []string{t.Name, t.Source, t.Run, g.WS.Relative(t.Origin)}
	}
	return g.Con.Table([]term.Column{{Title: "name"}, {Title: "source"}, {Title: "run"}, {Title: "enabled at", Flex: true, Drop: 1}}, rows)
}

// definitions returns the tools that the config enables.
func (g *Group) definitions(ctx context.Context, o toolOptions, r *profiles.Resolved) ([]tools.Definition, error) {
	if !o.id.Set {
		return g.Env.Definitions(ctx, r)
	}
	st, err := g.WS.Store(ctx)
	if err != nil {
		return nil, err
	}
	id, err := g.WS.Target(ctx, o.id.Value)
	if err != nil {
		return nil, err
	}
	c, err := st.Get(ctx, id)
	if err != nil {
		return nil, err
	}
	return g.Env.DefinitionsOf(ctx, r, c)
}

// heldTool finds one tool among those that the config enables.
func (g *Group) heldTool(ctx context.Context, o toolOptions, name string) (tools.Definition, *profiles.Resolved, error) {
	r, err := g.WS.ConfigOf(ctx, o.id, o.directives)
	if err != nil {
		return tools.Definition{}, nil, err
	}
	defs, err := g.definitions(ctx, o, r)
	if err != nil {
		return tools.Definition{}, nil, err
	}
	for _, d := range defs {
		if d.Name == name {
			return d, r, nil
		}
	}
	f := exit.NotFoundf("tool %s: this agent does not have it", name)
	return tools.Definition{}, nil, enabled.UnknownTool(g.Env.WS, f, name, enabled.Names(defs), "`jp tool ls` lists them")
}

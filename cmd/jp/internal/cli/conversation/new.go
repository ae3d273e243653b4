package conversation

import (
	"context"
	"fmt"

	"github.com/urfave/cli/v2"

	"jp/cmd/jp/internal/command"
	"jp/cmd/jp/internal/delegate"
	"jp/cmd/jp/internal/exit"
	"jp/cmd/jp/internal/review"
	"jp/cmd/jp/internal/run"
	"jp/cmd/jp/internal/workspace"
	"jp/convstore"
	"jp/profiles"
)

type newOptions struct {
	create     createFlags
	directives []profiles.Directive
	parent     command.Maybe[string]
	activate   bool
}

func newNewCommand(g *Group) *cli.Command {
	var o newOptions
	flags := append(o.create.Options(), workspace.ConfigFlags(&o.directives)...)
	return g.Tree.Command(command.Spec{
		Name: "new", Summary: "make an empty conversation and print its id",
		About: "Resolves the config now and stores it. If the config files change later, the " +
			"conversation does not. No model is called.",
		Flags: append(flags,
			command.String(&o.parent, "parent", "ID", "let the conversation ID delegate it, within the limits of ID"),
			command.Bool(&o.activate, "activate", "make it this terminal's active conversation"),
		),
		Exits:    []exit.Status{exit.NotFound, exit.Busy, exit.Refused},
		Examples: []string{`jp conversation new --title "Release notes" --cfg agent/researcher`},
		Run:      func(ctx context.Context, _ []string) error { return runNew(ctx, g, o) },
	})
}

func runNew(ctx context.Context, g *Group, o newOptions) error {
	if err := g.WS.Persist("conversation new"); err != nil {
		return err
	}
	g.WS.SetDirectives(o.directives)
	st, err := g.WS.Store(ctx)
	if err != nil {
		return err
	}
	if o.activate && g.WS.Session() == "" {
		return workspace.ErrNoTerminal()
	}
	create := newRoot
	if o.parent.Set {
		create = newChild
	}
	id, err := create(ctx, g, st, o)
	if err != nil {
		return err
	}
	if o.activate {
		if err := st.Activate(ctx, g.WS.Session(), id); err != nil {
			return err
		}
	}
	if g.Con.JSON() {
		return g.Con.Document(map[string]convstore.ID{"id": id})
	}
	_, err = fmt.Fprintln(g.Con.IO.Out, id)
	return err
}

// newRoot makes a conversation without a parent.
func newRoot(ctx context.Context, g *Group, st *convstore.Store, o newOptions) (convstore.ID, error) {
	c, err := g.Configure(ctx, nil, convstore.Conversation{}, o.directives)
	if err != nil {
		return 0, err
	}
	conv, err := st.Create(ctx, convstore.New{
		Title: o.create.Title.Value, Hidden: o.create.Hidden, ExpiresAt: command.Expiry(o.create.Tmp),
		Profile: c.Profile, ProfileArg: c.ProfileArg, ProfileHash: c.ProfileHash, Model: c.Model, Config: c.Config,
	})
	if err == nil {
		err = review.KeepNew(ctx, st, conv, c.had)
	}
	return conv.ID, err
}

// newChild makes a conversation that its parent delegates, if the rule allows it, and settles the
// delegation at once. Its first run will be a new delegation.
func newChild(ctx context.Context, g *Group, st *convstore.Store, o newOptions) (convstore.ID, error) {
	if len(o.directives) == 0 {
		return 0, exit.Usagef("--parent: the agent profile is missing").WithHint("name it with --cfg, as in --cfg agent/researcher")
	}
	parent, err := g.WS.Target(ctx, o.parent.Value)
	if err != nil {
		return 0, err
	}
	hand, err := g.Env.HandOver(ctx, run.Order{Parent: parent, Directives: o.directives, Title: o.create.Title.Value, Hidden: o.create.Hidden})
	if err != nil {
		return 0, err
	}
	settled, err := hand.Scope.Settle(ctx, hand.Res, convstore.Outcome{
		State: convstore.StateEmpty, Reason: "made without a run",
	})
	if err != nil {
		return 0, err
	}
	delegate.LogEnd(g.Con.Logger(), settled)
	id := hand.Res.Child.ID
	if !o.create.Tmp.Set {
		return id, nil
	}
	return id, st.Edit(ctx, id, func(c *convstore.Conversation) error {
		c.ExpiresAt = command.Expiry(o.create.Tmp)
		return nil
	})
}

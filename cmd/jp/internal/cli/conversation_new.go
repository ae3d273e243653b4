package cli

import (
	"context"
	"fmt"

	"github.com/urfave/cli/v2"

	"jp/convstore"
	"jp/profiles"
)

type newOptions struct {
	create     createFlags
	directives []profiles.Directive
	parent     maybe[string]
	activate   bool
}

func newNewCommand(a *app) *cli.Command {
	var o newOptions
	flags := append(o.create.options(), configFlags(&o.directives)...)
	return a.command(spec{
		Name: "new", Summary: "make an empty conversation and print its id",
		About: "Resolves the config now and stores it: what changes in the files later does not change the conversation. No " +
			"model is called.",
		Flags: append(flags,
			stringFlag(&o.parent, "parent", "ID", "delegate it by ID, as the one rule allows"),
			boolFlag(&o.activate, "activate", "make it this session's active conversation"),
		),
		Exits:    []Status{exitNotFound, exitBusy, exitRefused},
		Examples: []string{`jp conversation new --title "Release notes" --cfg agent/researcher`},
		Run:      func(ctx context.Context, _ []string) error { return runNew(ctx, a, o) },
	})
}

func runNew(ctx context.Context, a *app, o newOptions) error {
	if err := a.persist("conversation new"); err != nil {
		return err
	}
	st, err := a.store(ctx)
	if err != nil {
		return err
	}
	if o.activate && a.session() == "" {
		return errNoSession()
	}
	if o.parent.Set {
		return refusedf("--parent: delegating by hand is not built yet")
	}
	c, err := a.configure(nil, nil, false, o.directives)
	if err != nil {
		return err
	}
	conv, err := st.Create(ctx, convstore.New{
		Title: o.create.title.Value, Hidden: o.create.hidden, ExpiresAt: o.create.expiry(),
		Profile: c.profile, ProfileArg: c.profileArg, ProfileHash: c.profileHash, Model: c.model, Config: c.Config,
	})
	if err != nil {
		return err
	}
	if o.activate {
		if err := st.Activate(ctx, a.session(), conv.ID); err != nil {
			return err
		}
	}
	if a.json() {
		return a.document(map[string]convstore.ID{"id": conv.ID})
	}
	_, err = fmt.Fprintln(a.io.Out, conv.ID)
	return err
}

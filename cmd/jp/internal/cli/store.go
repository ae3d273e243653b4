package cli

import (
	"context"
	"fmt"

	"github.com/urfave/cli/v2"
)

func newStoreCommand(a *app) *cli.Command {
	return a.command(spec{
		Name: "store", Summary: "look after the store of this workspace",
		About: "The conversations of a workspace are in one file outside of it.",
		Subs:  []*cli.Command{newStorePathCommand(a), newStoreCheckCommand(a)},
	})
}

func newStorePathCommand(a *app) *cli.Command {
	return a.command(spec{
		Name: "path", Summary: "print where the store is",
		About:    "The file need not exist: the first write makes it.",
		Exits:    []Status{exitNotFound},
		Examples: []string{"jp store path"},
		Run: func(ctx context.Context, _ []string) error {
			st, err := a.store(ctx)
			if err != nil {
				return err
			}
			if a.json() {
				return a.document(map[string]string{"path": st.Path()})
			}
			_, err = fmt.Fprintln(a.io.Out, st.Path())
			return err
		},
	})
}

func newStoreCheckCommand(a *app) *cli.Command {
	return a.command(spec{
		Name: "check", Summary: "check that the store is sound",
		About:    "Reads all of it and changes nothing.",
		Exits:    []Status{exitNotFound, exitBusy},
		Examples: []string{"jp store check && echo sound"},
		Run: func(ctx context.Context, _ []string) error {
			st, err := a.store(ctx)
			if err != nil {
				return err
			}
			if err := st.Check(ctx); err != nil {
				return err
			}
			if a.json() {
				return a.document(map[string]any{"path": st.Path(), "ok": true})
			}
			_, err = fmt.Fprintf(a.io.Out, "%s: ok\n", st.Path())
			return err
		},
	})
}

package care

import (
	"context"
	"fmt"

	"github.com/urfave/cli/v2"

	"jp/cmd/jp/internal/command"
	"jp/cmd/jp/internal/exit"
	"jp/convstore"
)

func newStoreAdopt(g *Group) *cli.Command {
	var leave bool
	return g.Tree.Command(command.Spec{
		Name: "adopt", Summary: "take over the store of a workspace that is gone, or that took this one's", Args: "PATH",
		About: "PATH is the path that the other workspace had, or its store's folder. A workspace that was renamed is recognised " +
			"without this; one that was copied to another disk, or restored, is not.\n\n" +
			"A workspace that was made anew at the path of another one has the store of that. If the other one was moved there, this " +
			"takes its store back, with all that is in it; with --leave it begins a new store, and the workspace at PATH keeps that one.\n\n" +
			"Refused while the other workspace is still there and did not take the store from this one, and when this one has conversations of its own.",
		Flags: []*command.Option{command.Bool(&leave, "leave", "leave the store to the workspace at PATH that took it, and begin a new one")},
		Min:   1, Max: 1,
		Exits:    []exit.Status{exit.NotFound, exit.Busy},
		Examples: []string{"jp store adopt ~/old/project"},
		Run: func(ctx context.Context, args []string) error {
			if err := g.WS.Persist("store adopt"); err != nil {
				return err
			}
			root, err := g.WS.Root()
			if err != nil {
				return err
			}
			m, err := g.WS.Machine()
			if err != nil {
				return err
			}
			env, from := convstore.Env{Get: g.Con.Getenv, Override: m.Store.Path}, g.Con.Abs(args[0])
			dir := ""
			if leave {
				dir, err = convstore.Leave(env, root, from)
			} else {
				dir, err = convstore.Adopt(ctx, env, root, from)
			}
			if err != nil {
				return err
			}
			if g.Con.JSON() {
				return g.Con.Document(map[string]string{"folder": dir})
			}
			_, err = fmt.Fprintln(g.Con.IO.Out, dir)
			return err
		},
	})
}

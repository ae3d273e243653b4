package care

import (
	"context"

	"github.com/urfave/cli/v2"

	"jp/cmd/jp/internal/command"
	"jp/cmd/jp/internal/exit"
	"jp/convstore"
)

func newStoreAdopt(g *Group) *cli.Command {
	var leave bool
	return g.Tree.Command(command.Spec{
		Name: "adopt", Summary: "use the store of a workspace that is gone, or that took the store of this one", Args: "PATH",
		About: "PATH is the former path of the other workspace, or the folder of its store. You do " +
			"not need this after you renamed a workspace: jp recognises it. You need it after you " +
			"copied a workspace to another disk, or restored it.\n\n" +
			"If you make a new workspace at the path of an old one, it gets the store of the old " +
			"one. If you had moved the old one here, this command takes its store back, with " +
			"everything in it. With --leave it starts a new store here, and the workspace at PATH " +
			"keeps the old store.\n\n" +
			"Refused if the other workspace still exists and did not take the store of this one, " +
			"or if this one has conversations of its own.",
		Flags: []*command.Option{command.Bool(&leave, "leave", "let the workspace at PATH keep the store that it took, and start a new one here")},
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
			return g.Con.Path(dir, "")
		},
	})
}

package care

import (
	"context"

	"github.com/urfave/cli/v2"

	"jp/cmd/jp/internal/command"
	"jp/cmd/jp/internal/exit"
)

func newStorePath(g *Group) *cli.Command {
	return g.Tree.Command(command.Spec{
		Name: "path", Summary: "print where the store is",
		About:    "The file may not exist yet: the first write makes it.",
		Exits:    []exit.Status{exit.NotFound},
		Examples: []string{"jp store path"},
		Run: func(ctx context.Context, _ []string) error {
			st, err := g.WS.Store(ctx)
			if err != nil {
				return err
			}
			if g.Con.JSON() {
				return g.Con.Document(map[string]string{"path": st.Path()})
			}
			return g.Con.Path(st.Path(), "")
		},
	})
}

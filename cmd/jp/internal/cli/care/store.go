package care

import (
	"github.com/urfave/cli/v2"

	"jp/cmd/jp/internal/command"
)

// NewStore is `jp store`.
func NewStore(g *Group) *cli.Command {
	return g.Tree.Command(command.Spec{
		Name: "store", Summary: "look after the store of this workspace",
		About: "The conversations of a workspace are in one file outside of it.",
		Subs: []*cli.Command{
			newStorePath(g), newStoreCheck(g), newStoreBackup(g), newStoreCompact(g), newStoreAdopt(g),
		},
	})
}

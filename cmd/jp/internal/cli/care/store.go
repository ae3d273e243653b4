package care

import (
	"github.com/urfave/cli/v2"

	"jp/cmd/jp/internal/command"
)

// NewStore returns the command `jp store`.
func NewStore(g *Group) *cli.Command {
	return g.Tree.Command(command.Spec{
		Name: "store", Summary: "check, copy and shrink the store of this workspace",
		About: "The store is one file, outside of the workspace, with all its conversations.",
		Subs: []*cli.Command{
			newStorePath(g), newStoreCheck(g), newStoreBackup(g), newStoreCompact(g), newStoreAdopt(g),
		},
	})
}

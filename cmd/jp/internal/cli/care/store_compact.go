package care

import (
	"context"
	"fmt"

	"github.com/urfave/cli/v2"

	"jp/cmd/jp/internal/command"
	"jp/cmd/jp/internal/console"
	"jp/cmd/jp/internal/exit"
)

func newStoreCompact(g *Group) *cli.Command {
	return g.Tree.Command(command.Spec{
		Name: "compact", Slow: true, Summary: "return free space in the store to the disk",
		About: "Writes a new file without the free space, compares both, and replaces the old file " +
			"if the new one is smaller. Other jp processes wait meanwhile: about 10 seconds for a " +
			"gigabyte in use. If it fails, for example because the disk is full, the store does " +
			"not change.",
		Exits:    []exit.Status{exit.NotFound, exit.Busy},
		Examples: []string{"jp store compact"},
		Run: func(ctx context.Context, _ []string) error {
			if err := g.WS.Persist("store compact"); err != nil {
				return err
			}
			st, err := g.WS.Store(ctx)
			if err != nil {
				return err
			}
			before, after, err := st.Compact(ctx)
			if err != nil {
				return err
			}
			if g.Con.JSON() {
				return g.Con.Document(map[string]any{"path": st.Path(), "size_before_bytes": before.Size, "size_bytes": after.Size})
			}
			text := fmt.Sprintf("%s, was %s", console.Mebibytes(after.Size), console.Mebibytes(before.Size))
			switch {
			case before.Size == 0:
				text = "not made yet"
			case after.Size == before.Size:
				text = fmt.Sprintf("not changed: %s, and a new copy would not be smaller", console.Mebibytes(after.Size))
			}
			return g.Con.Path(st.Path(), ": "+text)
		},
	})
}

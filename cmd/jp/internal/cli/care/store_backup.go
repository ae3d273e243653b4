package care

import (
	"context"
	"errors"
	"io/fs"

	"github.com/urfave/cli/v2"

	"jp/cmd/jp/internal/command"
	"jp/cmd/jp/internal/exit"
	"jp/convstore"
)

func newStoreBackup(g *Group) *cli.Command {
	return g.Tree.Command(command.Spec{
		Name: "backup", Slow: true, Summary: "copy the store to a file", Args: "FILE",
		About: "The copy shows the store at one moment. It is complete, checked page by page and " +
			"flushed to the disk; if this fails or is killed, there is no file. FILE must not " +
			"exist. Other jp processes can write meanwhile; they wait only while the store is read " +
			"a second time. Without space for the copy, and on the disk of the store for what others " +
			"write, none is begun.\n\n" +
			"To restore it, end every jp, then copy FILE to the path that `jp store path` prints.",
		Min: 1, Max: 1,
		Exits:    []exit.Status{exit.NotFound, exit.Busy},
		Examples: []string{"jp store backup /media/backup/jp-$(date +%F).db"},
		Run: func(ctx context.Context, args []string) error {
			st, err := g.WS.Store(ctx)
			if err != nil {
				return err
			}
			file := g.Con.Abs(args[0])
			switch err := st.Backup(ctx, file); {
			case errors.Is(err, fs.ErrExist):
				return exit.Usagef("backup %s: the file exists", file).WithHint("name one that does not exist")
			case errors.Is(err, convstore.ErrNoStore):
				return exit.NotFoundf("store %s: does not exist yet: there is nothing to back up", st.Path())
			case err != nil:
				return err
			}
			if g.Con.JSON() {
				return g.Con.Document(map[string]string{"path": st.Path(), "backup": file})
			}
			return g.Con.Path(file, "")
		},
	})
}

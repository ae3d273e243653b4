package care

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"github.com/urfave/cli/v2"

	"jp/cmd/jp/internal/command"
	"jp/cmd/jp/internal/console"
	"jp/cmd/jp/internal/exit"
	"jp/convstore"
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

func newStorePath(g *Group) *cli.Command {
	return g.Tree.Command(command.Spec{
		Name: "path", Summary: "print where the store is",
		About:    "The file need not exist: the first write makes it.",
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
			_, err = fmt.Fprintln(g.Con.IO.Out, st.Path())
			return err
		},
	})
}

func newStoreCheck(g *Group) *cli.Command {
	var salvage command.Maybe[string]
	return g.Tree.Command(command.Spec{
		Name: "check", Slow: true, Summary: "check that the store is sound",
		About: "Reads all of it, changes nothing, and says when compacting it would pay.\n\n" +
			"--salvage writes what can be read of a damaged store to FILE, as an export that `jp conversation import` reads. What is " +
			"lost is named on stderr. The store is left as it is.",
		Flags:    []*command.Option{command.String(&salvage, "salvage", "FILE", "write what can be read to FILE, which must not exist")},
		Exits:    []exit.Status{exit.NotFound, exit.Busy},
		Examples: []string{"jp store check && echo sound", "jp store check --salvage rescued.jsonl"},
		Run: func(ctx context.Context, _ []string) error {
			st, err := g.WS.Store(ctx)
			if err != nil {
				return err
			}
			if salvage.Set {
				return runSalvage(ctx, g, st, salvage.Value)
			}
			if err := st.Check(ctx); err != nil {
				return err
			}
			space, err := st.Space(ctx)
			if err != nil {
				return err
			}
			if g.Con.JSON() {
				return g.Con.Document(map[string]any{"path": st.Path(), "ok": true, "size_bytes": space.Size, "free_bytes": space.Free})
			}
			if _, err := fmt.Fprintf(g.Con.IO.Out, "%s: ok\n", st.Path()); err != nil {
				return err
			}
			g.Con.OfferCompact(space)
			return nil
		},
	})
}

func newStoreBackup(g *Group) *cli.Command {
	return g.Tree.Command(command.Spec{
		Name: "backup", Slow: true, Summary: "copy the store to a file", Args: "FILE",
		About: "The copy is of one moment, complete and flushed to disk, or not there at all; its pages have been read and checked. " +
			"FILE must not exist. Others write meanwhile, and wait only while the store is read once more." +
			" A kill leaves nothing.\n\n" +
			"To go back to it, put it where `jp store path` says while no jp runs.",
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
				return exit.Usagef("backup %s: there is such a file", file).WithHint("name one that does not exist")
			case errors.Is(err, convstore.ErrNoStore):
				return exit.NotFoundf("store %s: not made yet: there is nothing to back up", st.Path())
			case err != nil:
				return err
			}
			if g.Con.JSON() {
				return g.Con.Document(map[string]string{"path": st.Path(), "backup": file})
			}
			_, err = fmt.Fprintln(g.Con.IO.Out, file)
			return err
		},
	})
}

func newStoreCompact(g *Group) *cli.Command {
	return g.Tree.Command(command.Spec{
		Name: "compact", Slow: true, Summary: "give free space in the store back to the disk",
		About: "Writes the file anew without what is free in it, compares the two, and puts the new one in its place when it is " +
			"smaller. Other jp wait meanwhile, some 10 seconds for a gigabyte in use. When it fails, for want of room say, the store is as it was.",
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
				text = fmt.Sprintf("left as it is: %s, and no smaller when written anew", console.Mebibytes(after.Size))
			}
			_, err = fmt.Fprintf(g.Con.IO.Out, "%s: %s\n", st.Path(), text)
			return err
		},
	})
}

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

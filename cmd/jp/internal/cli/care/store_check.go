package care

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/urfave/cli/v2"

	"jp/cmd/jp/internal/command"
	"jp/cmd/jp/internal/console"
	"jp/cmd/jp/internal/exit"
	"jp/cmd/jp/internal/wording"
	"jp/convstore"
	"jp/convstore/archive"
)

func newStoreCheck(g *Group) *cli.Command {
	var salvage command.Maybe[string]
	return g.Tree.Command(command.Spec{
		Name: "check", Slow: true, Summary: "check the store for damage",
		About: "Reads the whole store, changes nothing, and says if `jp store compact` would free " +
			"much space.\n\n" +
			"--salvage writes everything that can be read of a damaged store to FILE, as an " +
			"export that `jp conversation import` reads. stderr names what is lost. The store is " +
			"not changed.",
		Flags:    []*command.Option{command.String(&salvage, "salvage", "FILE", "write everything that can be read to FILE, which must not exist")},
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
			if err := g.Con.Path(st.Path(), ": ok"); err != nil {
				return err
			}
			g.Con.OfferCompact(space)
			return nil
		},
	})
}

func runSalvage(ctx context.Context, g *Group, st *convstore.Store, path string) (err error) {
	path = g.Con.Abs(path)
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return exit.Usagef("--salvage %s: the file exists", path).WithHint("name one that does not exist")
	}
	if err != nil {
		return &exit.Error{Code: "failed", Status: exit.Failed, Msg: fmt.Sprintf("--salvage %s: %v", path, errors.Unwrap(err)), Err: err}
	}
	defer func() {
		if err != nil {
			_ = os.Remove(path) // half of an export would look complete
		}
	}()
	conversations, events, lost := 0, 0, 0
	w := bufio.NewWriterSize(file, 1<<20)
	lines := archive.NewLineWriter(w)
	for piece, bad := range archive.Rescue(ctx, st, func(what error) {
		if lost++; lost <= console.MaxLostNotes {
			g.Con.Note("lost: %v", what)
		}
	}) {
		if err = bad; err == nil {
			err = lines.Write(piece)
		}
		if err != nil {
			break
		}
		switch {
		case piece.Event != nil:
			events++
		case piece.Conversation != nil:
			conversations++
		}
	}
	if err == nil {
		err = lines.Close()
	}
	if flushed := errors.Join(w.Flush(), file.Sync(), file.Close()); err == nil {
		err = flushed
	}
	if err != nil {
		return err
	}
	if lost > console.MaxLostNotes {
		g.Con.Note("lost: %d more", lost-console.MaxLostNotes)
	}
	if g.Con.JSON() {
		return g.Con.Document(map[string]any{"path": st.Path(), "salvaged": path, "conversations": conversations, "events": events, "lost": lost})
	}
	return g.Con.Path(path, fmt.Sprintf(": %s, %s, %d lost", wording.Plural(conversations, "conversation"), wording.Plural(events, "event"), lost))
}

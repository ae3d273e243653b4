package care

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"jp/cmd/jp/internal/console"
	"jp/cmd/jp/internal/exit"
	"jp/cmd/jp/internal/wording"
	"jp/convstore"
	"jp/convstore/archive"
)

func runSalvage(ctx context.Context, g *Group, st *convstore.Store, path string) (err error) {
	path = g.Con.Abs(path)
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return exit.Usagef("--salvage %s: there is such a file", path).WithHint("name one that does not exist")
	}
	if err != nil {
		return &exit.Error{Code: "failed", Status: exit.Failed, Msg: fmt.Sprintf("--salvage %s: %v", path, errors.Unwrap(err)), Err: err}
	}
	defer func() {
		if err != nil {
			_ = os.Remove(path) // half of it would look like all of it
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
		if piece.Event != nil {
			events++
		} else {
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
	_, err = fmt.Fprintf(g.Con.IO.Out, "%s: %s, %s, %d lost\n", path, wording.Plural(conversations, "conversation"), wording.Plural(events, "event"), lost)
	return err
}

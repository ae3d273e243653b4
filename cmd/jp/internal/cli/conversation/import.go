package conversation

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"maps"
	"os"
	"slices"

	"github.com/urfave/cli/v2"

	"jp/cmd/jp/internal/command"
	"jp/cmd/jp/internal/console"
	"jp/cmd/jp/internal/exit"
	"jp/cmd/jp/internal/rustjp"
	"jp/cmd/jp/internal/wording"
	"jp/convstore"
	"jp/convstore/archive"
	"jp/tools/files"
)

func newImportCommand(g *Group) *cli.Command {
	var newIDs bool
	return g.Tree.Command(command.Spec{
		Name: "import", Slow: true, Summary: "read conversations that were exported", Args: "FILE|DIR...",
		About: "FILE is what `jp conversation export` wrote; - is stdin. DIR is the folder " +
			".jp/conversations of the Rust program JP, or a workspace that has one. If anything " +
			"is wrong, nothing is imported, and the error names the file and the place in it.\n\n" +
			"Conversations keep their ids. If a conversation with the same id and content exists, " +
			"it is not changed. If one with the same id and other content exists, the error names " +
			"it and nothing is imported. --new-ids gives all of them new ids, and prints the old " +
			"and the new id on each line.\n\n" +
			"An imported conversation has no authority. Its grant, role and config are stored and " +
			"`jp conversation show` shows them, but jp does not use them. If you continue it, jp " +
			"resolves your own config. Prints the ids of what was imported.",
		Flags: []*command.Option{command.Bool(&newIDs, "new-ids", "give every conversation a new id, and print both ids")},
		Min:   1, Max: -1,
		Exits: []exit.Status{exit.NotFound, exit.Busy, exit.Hangup, exit.Interrupted, exit.Quit, exit.Terminated},
		Examples: []string{
			"jp conversation import review.jsonl",
			"jp conversation import ~/src/project/.jp/conversations",
			"zcat review.jsonl.gz | jp conversation import - --new-ids",
		},
		Run: func(ctx context.Context, args []string) error { return runImport(ctx, g, newIDs, args) },
	})
}

func runImport(ctx context.Context, g *Group, newIDs bool, words []string) error {
	if err := g.WS.Persist("conversation import"); err != nil {
		return err
	}
	st, err := g.WS.Store(ctx)
	if err != nil {
		return err
	}
	ctx, stop := g.Con.WithSignals(ctx, nil) // so that the partial import is removed
	defer stop()
	var kept rustjp.Kept
	res, err := archive.Import(ctx, st, g.sourcesOfImport(ctx, words, &kept), archive.ImportOptions{NewIDs: newIDs})
	if err != nil {
		return err
	}
	g.noteImport(res, kept)
	if g.Con.JSON() {
		return g.Con.Document(importedJSON{
			Imported: orEmpty(res.Made), Unchanged: orEmpty(res.Same), Events: res.Events, Delegations: res.Delegated,
			Opaque: kept.Opaque, LeftOut: orEmpty(kept.LeftOut),
		})
	}
	return g.Con.Text(func(w *bufio.Writer) error {
		for _, m := range res.Made {
			if newIDs {
				fmt.Fprintf(w, "%s\t", m.From)
			}
			fmt.Fprintln(w, m.ID)
		}
		return nil
	})
}

// importedJSON is the JSON document of `import`.
type importedJSON struct {
	Imported    []archive.Made `json:"imported"`
	Unchanged   []convstore.ID `json:"unchanged"`
	Events      int            `json:"events"`
	Delegations int            `json:"delegations"`
	Opaque      map[string]int `json:"opaque,omitempty"`
	LeftOut     []string       `json:"left_out"`
}

func orEmpty[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}

// noteImport prints notes about the import on stderr.
func (g *Group) noteImport(res archive.ImportResult, kept rustjp.Kept) {
	g.Con.Note("%s with %s imported", wording.Plural(len(res.Made), "conversation"), wording.Plural(res.Events, "event"))
	if len(res.Same) > 0 {
		g.Con.Note("%s already, with the same content", wording.Either(len(res.Same) == 1, "1 is here", fmt.Sprintf("%d are here", len(res.Same))))
	}
	few := func(n int, say func(i int)) {
		for i := range min(n, console.MaxLostNotes) {
			say(i)
		}
		if n > console.MaxLostNotes {
			g.Con.Note("and %d more", n-console.MaxLostNotes)
		}
	}
	few(len(res.Orphans), func(i int) {
		g.Con.Note("%s: its parent %s is not in the export: it is a root now", res.Orphans[i].ID, res.Orphans[i].Parent)
	})
	kinds := slices.Sorted(maps.Keys(kept.Opaque))
	few(len(kinds), func(i int) {
		g.Con.Note("kept as it is, not understood: %s of type %q", wording.Plural(kept.Opaque[kinds[i]], "event"), kinds[i])
	})
	if kept.Text > 0 {
		g.Con.Note("kept as it is: %s no base64", wording.Either(kept.Text == 1, "1 text that is", fmt.Sprintf("%d texts that are", kept.Text)))
	}
	if kept.Times > 0 {
		g.Con.Note("%s of unknown form: such an event has the time of the one before it", wording.Plural(kept.Times, "timestamp"))
	}
	few(len(kept.LeftOut), func(i int) { g.Con.Note("left out: %s", kept.LeftOut[i]) })
	few(len(res.Expired), func(i int) {
		g.Con.Note("%s has expired: the next jp query removes it, unless `jp conversation edit --no-tmp` keeps it", res.Expired[i])
	})
}

// sourcesOfImport reads all named files and folders, one after the other.
func (g *Group) sourcesOfImport(ctx context.Context, words []string, kept *rustjp.Kept) iter.Seq2[archive.Piece, error] {
	return func(yield func(archive.Piece, error) bool) {
		for _, word := range words {
			pieces, done, err := g.sourceOfImport(ctx, word, kept)
			if err != nil {
				yield(archive.Piece{}, err)
				return
			}
			for p, err := range pieces {
				if !yield(p, err) {
					done()
					return
				}
			}
			done()
		}
	}
}

func (g *Group) sourceOfImport(ctx context.Context, word string, kept *rustjp.Kept) (pieces iter.Seq2[archive.Piece, error], done func(), err error) {
	if word == "-" {
		if g.Con.IO.InTTY {
			return nil, nil, exit.Usagef("conversation import: stdin is a terminal").WithHint("pipe an export in, or name a file")
		}
		return archive.ReadLines(interruptible{ctx, g.Con.IO.In}, "stdin"), func() {}, nil
	}
	path := g.Con.Abs(word)
	file, _, err := files.OpenRegular(files.Disk{}, path, os.O_RDONLY, 0)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil, exit.NotFoundf("%s: no such file or folder", path)
	case errors.Is(err, files.ErrFolder):
		return rustjp.Pieces(path, kept), func() {}, nil
	case errors.Is(err, files.ErrSpecial):
		return nil, nil, exit.Usagef("%s: neither a regular file nor a folder", path).WithHint("pipe it in: jp conversation import - < FILE")
	case err != nil:
		return nil, nil, fmt.Errorf("import: %w", err)
	}
	return archive.ReadLines(file, path), func() { _ = file.Close() }, nil
}

// interruptible is a reader that returns when ctx ends, also from a pipe to which nobody writes.
// The read itself keeps waiting.
type interruptible struct {
	ctx context.Context
	r   io.Reader
}

func (i interruptible) Read(b []byte) (int, error) {
	type result struct {
		n   int
		err error
	}
	own, read := make([]byte, len(b)), make(chan result, 1)
	go func() {
		n, err := i.r.Read(own)
		read <- result{n, err}
	}()
	select {
	case r := <-read:
		return copy(b, own[:r.n]), r.err
	case <-i.ctx.Done():
		return 0, context.Cause(i.ctx)
	}
}

package conversation

import (
	"bufio"
	"context"
	"io"

	"github.com/urfave/cli/v2"

	"jp/cmd/jp/internal/command"
	"jp/cmd/jp/internal/console"
	"jp/cmd/jp/internal/exit"
	"jp/convstore/archive"
)

func newExportCommand(g *Group) *cli.Command {
	var cascade bool
	return g.Tree.Command(command.Spec{
		Name: "export", Slow: true, Summary: "write conversations to stdout, for import", Args: "ID...",
		About: "Writes JSON Lines: a first line with the version, a line for each conversation, " +
			"event and record of a delegation, and a last line that says that the export is " +
			"complete. An import elsewhere gives the same conversations, with the same bytes of " +
			"every event. Nothing is locked meanwhile: if a conversation runs, the export holds " +
			"what is stored so far.",
		Flags: []*command.Option{command.Bool(&cascade, "cascade", "also everything below them, and what their delegations used")},
		Min:   1, Max: -1,
		Exits: []exit.Status{exit.NotFound, exit.Busy},
		Examples: []string{
			"jp conversation export jp-c17543982411 --cascade > review.jsonl",
			"jp c ls --label team=red | jp c export - > red.jsonl",
		},
		Run: func(ctx context.Context, args []string) error { return runExport(ctx, g, cascade, args) },
	})
}

func runExport(ctx context.Context, g *Group, cascade bool, words []string) error {
	st, ids, err := g.openStore(ctx, words)
	if err != nil {
		return err
	}
	w := bufio.NewWriterSize(g.Con.IO.Out, 1<<20)
	var out io.Writer = w
	if g.Con.IO.OutTTY {
		out = console.Escaping{Writer: w} // it gets whole lines
	}
	lines := archive.NewLineWriter(out)
	for p, err := range archive.Export(ctx, st.View, ids, cascade) {
		if err == nil {
			err = lines.Write(p)
		}
		if err != nil {
			return err // without the last line an import refuses the export
		}
	}
	if err := lines.Close(); err != nil {
		return err
	}
	return w.Flush()
}

package convstore_test

import (
	"bytes"
	"context"
	"fmt"
	"iter"
	"strings"

	"jp/convstore"
	"jp/convstore/archive"
	"jp/convstore/search"
	"jp/convstore/usage"
)

func init() {
	convstore.Rooms.Search = func(ctx context.Context, v convstore.View, text string, ids ...convstore.ID) (n int, err error) {
		for _, err = range search.Run(ctx, v, search.Query{Pattern: text, IDs: ids}) {
			n++
		}
		return n, err
	}
	convstore.Rooms.Differences = func(ctx context.Context, v convstore.View, id convstore.ID) (string, error) {
		s, err := usage.Spent(ctx, v, id)
		if d := s.Differences(); len(d) > 0 {
			return fmt.Sprintf("%+v", d), err
		}
		return "", err
	}
	convstore.Rooms.Export = func(ctx context.Context, v convstore.View, ids []convstore.ID, cascade bool) (string, error) {
		lines, _, _, err := linesOf(archive.Export(ctx, v, ids, cascade))
		return lines, err
	}
	convstore.Rooms.Import = func(ctx context.Context, s *convstore.Store, lines string) (int, error) {
		res, err := archive.Import(ctx, s, archive.ReadLines(strings.NewReader(lines), "f"), archive.ImportOptions{})
		if err == nil {
			err = s.Check(ctx)
		}
		return len(res.Made), err
	}
	convstore.Rooms.Rescue = func(ctx context.Context, s *convstore.Store, lost func(error)) (string, int, int, error) {
		return linesOf(archive.Rescue(ctx, s, lost))
	}
}

func linesOf(pieces iter.Seq2[archive.Piece, error]) (lines string, conversations, events int, err error) {
	var b bytes.Buffer
	w := archive.NewLineWriter(&b)
	for p, err := range pieces {
		if err == nil {
			err = w.Write(p)
		}
		if err != nil {
			return b.String(), conversations, events, err
		}
		if p.Conversation != nil {
			conversations++
		}
		if p.Event != nil {
			events++
		}
	}
	err = w.Close()
	return b.String(), conversations, events, err
}

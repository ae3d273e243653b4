package convstore_test

import (
	"context"

	"jp/convstore"
	"jp/convstore/search"
)

func init() {
	convstore.Rooms.Search = func(ctx context.Context, v convstore.View, text string, ids ...convstore.ID) (n int, err error) {
		for _, err = range search.Run(ctx, v, search.Query{Pattern: text, IDs: ids}) {
			n++
		}
		return n, err
	}
}

package batch

import (
	"strconv"
	"strings"

	"jp/cmd/jp/internal/exit"
)

// maxShards bounds the parts of a batch.
const maxShards = 100_000

// part returns the range of the shard among all queries, and sets the limits of the flags to its
// part of them. The shards are equal but for one query, and so are their limits; all limits
// together are those of the flags.
func (o *options) part(all int) (from, to int, err error) {
	if !o.shard.Set {
		return 0, all, nil
	}
	first, last, ok := strings.Cut(o.shard.Value, "/")
	i, err := strconv.Atoi(first)
	n, wrong := strconv.Atoi(last)
	if !ok || err != nil || wrong != nil || i < 1 || i > n || n > maxShards {
		return 0, 0, exit.Usagef("--shard %q: want I/N with I from 1 to N, such as 2/8", o.shard.Value)
	}
	if all == 0 {
		return 0, 0, nil
	}
	from, to = int(share(int64(all), int64(i-1), int64(n))), int(share(int64(all), int64(i), int64(n)))
	for _, limit := range []**int64{&o.tokens.Value, &o.cost.Value} {
		if *limit != nil {
			part := share(**limit, int64(to), int64(all)) - share(**limit, int64(from), int64(all))
			*limit = &part
		}
	}
	return from, to, nil
}

// share returns limit × k ÷ n, rounded down, for 0 ≤ k ≤ n.
func share(limit, k, n int64) int64 {
	return limit/n*k + limit%n*k/n
}

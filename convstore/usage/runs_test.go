package usage

import (
	"slices"
	"testing"

	"jp/convstore"
)

// TestRunsBelow: a long chain of imported runs, each before the one that made its caller, is walked
// once, and listings ask again and again for the end of one.
func TestRunsBelow(t *testing.T) {
	const n = 200_000
	all := make([]Run, n) // the last one was made by 1, and its child made the one before it
	for i := range all {
		all[i] = Run{Caller: convstore.ID(n - i), Child: convstore.ID(n - i + 1), Turn: i}
	}
	l := byCaller(all)
	if got := l.below(map[convstore.ID]bool{1: true}); !slices.Equal(got, all) {
		t.Errorf("below the first: %d runs of %d, in order: %t", len(got), n, slices.IsSortedFunc(got, func(a, b Run) int { return a.Turn - b.Turn }))
	}
	for range n {
		here := map[convstore.ID]bool{n: true, 5 * n: true}
		if got := l.below(here); len(got) != 1 || got[0] != all[0] || len(here) != 2 {
			t.Fatalf("below the last: %v, here %v", got, here)
		}
	}
}

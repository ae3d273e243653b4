package search

import (
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"unicode"

	"pgregory.net/rapid"

	"jp/convstore"
	"jp/convstore/internal/db"
	"jp/convstore/internal/page"
	"jp/convstore/internal/test/storetest"
)

// searchPlainly is Search by way of List and Events, all of which it reads and decodes: without the
// prefilter, the reading of pages and the two searchers.
func searchPlainly(t *testing.T, v convstore.View, q Query) []Match {
	t.Helper()
	s, err := newSearch(v, q)
	if err != nil {
		t.Fatal(err)
	}
	list, err := v.List(t.Context(), convstore.Filter{Hidden: q.Hidden})
	if err != nil {
		t.Fatal(err)
	}
	var all []Match
	for _, c := range list {
		if len(q.IDs) > 0 && !slices.Contains(q.IDs, c.ID) {
			continue
		}
		var found []Match
		match := func(x text) {
			err := s.match(t.Context(), x, func(m Match) bool {
				found = append(found, m)
				return !s.full(len(found))
			})
			if err != nil {
				t.Fatal(err)
			}
		}
		if s.title {
			match(text{Match{ID: c.ID, Scope: ScopeTitle, Time: c.UpdatedAt, Title: c.Title}, splitLines(nil, c.Title)})
		}
		for _, e := range storetest.Events(t, v, c.ID, convstore.Range{}) {
			if scope := s.kinds[convstore.KindOf(e.Body)]; scope != "" && !s.full(len(found)) {
				at := Match{ID: c.ID, Turn: e.Turn, Scope: scope, Seq: e.Seq, Time: e.Time, Title: c.Title}
				match(text{at, linesOf(e.Body)})
			}
		}
		all = append(all, found...)
	}
	return all
}

// TestSearchFindsWhatIsStored compares Search with a plain reading of stores that have all that
// pages can have: values larger than a page, small ones, freed pages that still hold what was
// removed or is in a newer version elsewhere, branches.
func TestSearchFindsWhatIsStored(t *testing.T) {
	matched, branches := 0, 0
	rapid.Check(t, func(rt *rapid.T) {
		dir := storetest.MemoryDir(t)
		defer func() { _ = os.RemoveAll(dir) }()
		s, err := convstore.Open(filepath.Join(dir, "store"), convstore.Options{})
		storetest.NoError(rt, err)
		ctx := t.Context()
		texts := []string{"needle"} // to look for pieces of
		body := func() convstore.Body {
			b := searchBody().Draw(rt, "event")
			if lines := linesOf(b); len(lines) > 0 {
				texts = append(texts, lines[len(lines)-1])
			}
			if rapid.IntRange(0, 3).Draw(rt, "size") == 0 {
				b = convstore.ToolResult{ID: "x", Text: strings.Repeat("straw\n", rapid.IntRange(0, 4000).Draw(rt, "straw")) + texts[len(texts)-1]}
			}
			return b
		}
		var ids []convstore.ID
		for range rapid.IntRange(1, 12).Draw(rt, "steps") {
			step := rapid.IntRange(0, 9).Draw(rt, "step")
			if len(ids) == 0 {
				step = 0
			}
			switch {
			case step < 2:
				c, err := s.Create(ctx, convstore.New{Title: searchText().Draw(rt, "title"), Hidden: rapid.Bool().Draw(rt, "hidden")})
				storetest.NoError(rt, err)
				ids = append(ids, c.ID)
			case step == 2:
				c, err := s.Fork(ctx, rapid.SampledFrom(ids).Draw(rt, "of"), convstore.Fork{Title: "fork"})
				storetest.NoError(rt, err)
				ids = append(ids, c.ID)
			case step == 3:
				id := rapid.SampledFrom(ids).Draw(rt, "remove")
				gone, err := s.Remove(ctx, id, convstore.RemoveOptions{Cascade: true})
				storetest.NoError(rt, err)
				ids = slices.DeleteFunc(ids, func(id convstore.ID) bool { return slices.Contains(gone, id) })
			default:
				l, err := s.Lock(ctx, rapid.SampledFrom(ids).Draw(rt, "append"))
				storetest.NoError(rt, err)
				var events []convstore.Event
				for range rapid.IntRange(1, 30).Draw(rt, "events") {
					events = append(events, convstore.Event{Body: body()})
				}
				storetest.NoError(rt, l.Append(ctx, events...))
				storetest.NoError(rt, l.Close())
			}
		}
		view := s.View
		if len(ids) > 0 && rapid.Bool().Draw(rt, "below") {
			view, err = s.Under(ctx, rapid.SampledFrom(ids).Draw(rt, "root"))
			storetest.NoError(rt, err)
		}
		for range 4 {
			text := []rune(rapid.SampledFrom(texts).Draw(rt, "text"))
			from := rapid.IntRange(0, len(text)).Draw(rt, "from")
			text = text[from:rapid.IntRange(from, len(text)).Draw(rt, "to")]
			if rapid.Bool().Draw(rt, "fold") {
				for i, r := range text {
					text[i] = unicode.SimpleFold(r)
				}
			}
			q := Query{
				Pattern: string(text), Case: rapid.SampledFrom([]Case{SmartCase, IgnoreCase, MatchCase}).Draw(rt, "case"),
				Hidden: rapid.Bool().Draw(rt, "hidden too"), Context: rapid.IntRange(0, 2).Draw(rt, "context"),
				MaxMatches: rapid.SampledFrom([]int{0, 0, 1, 3}).Draw(rt, "max"),
			}
			if rapid.Bool().Draw(rt, "some scopes") {
				q.Scopes = rapid.SliceOfN(rapid.SampledFrom(append(concreteScopes(), ScopeTool, ScopeChat)), 1, 3).Draw(rt, "scopes")
			}
			if _, err := newSearch(view, q); err != nil {
				continue // an empty pattern, or one with a line break
			}
			got, want := mustSearch(t, view, q), searchPlainly(t, view, q)
			if !reflect.DeepEqual(got, want) {
				rt.Fatalf("Search(%+v) =\n%s\nwant\n%s", q, matchLines(got), matchLines(want))
			}
			matched += len(got)
		}
		storetest.NoError(rt, newScan(&search{view: s.View}).visit(ctx, func(_ *db.Tx, events page.Bucket) error {
			if events.Top.Flags == page.FlagBranch {
				branches++
			}
			return nil
		}))
	})
	if matched == 0 || branches == 0 {
		t.Errorf("%d matches, %d stores with branches: little was tested", matched, branches)
	}
}

package convstore

import (
	"cmp"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// TestList compares every kind of listing of a random tree with what a plain sort of all
// conversations gives.
func TestList(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		now := time.UnixMilli(1_000_000_000).UTC()
		s, err := Open(filepath.Join(memoryDir(t), "store"), Options{Now: func() time.Time { return now }})
		must(rt, err)
		ctx := t.Context()
		dear := int64(5)
		var ids []ID
		for range rapid.IntRange(0, 12).Draw(rt, "conversations") {
			title := rapid.SampledFrom([]string{"", "a", "A", "b", "B", "Äpfel", strings.Repeat("x", 300)}).Draw(rt, "title")
			var c Conversation
			if parent := rapid.IntRange(0, 2*len(ids)).Draw(rt, "parent"); parent >= len(ids) {
				labels := rapid.SampledFrom([]map[string]string{nil, {"k": ""}, {"k": "v"}, {"j": "v", "k": "v"}}).Draw(rt, "labels")
				c, err = s.Create(ctx, New{Title: title, Hidden: rapid.Bool().Draw(rt, "hidden"), Labels: labels})
			} else {
				c, err = s.Fork(ctx, ids[parent], Fork{Title: title, Hidden: rapid.Bool().Draw(rt, "hidden")})
			}
			must(rt, err)
			ids = append(ids, c.ID)
			l, err := s.Lock(ctx, c.ID)
			must(rt, err)
			for range rapid.IntRange(0, 2).Draw(rt, "turns") {
				unit := rapid.SampledFrom([]time.Duration{time.Minute, 20 * time.Hour}).Draw(rt, "unit")
				at := now.Add(time.Duration(rapid.IntRange(-3, 3).Draw(rt, "time")) * unit)
				call := ModelCall{CostNano: rapid.SampledFrom([]*int64{nil, new(int64), &dear}).Draw(rt, "cost")}
				must(rt, l.Append(ctx, Event{Time: at, Body: TurnStart{}}, Event{Time: at, Body: call}))
			}
			must(rt, l.Close())
			if rapid.IntRange(0, 3).Draw(rt, "archive") == 0 {
				must(rt, s.Edit(ctx, c.ID, func(c *Conversation) error { c.ArchivedAt = now; return nil }))
			}
		}
		for range 8 { // kinds of listing
			f := Filter{
				Hidden: rapid.Bool().Draw(rt, "hidden"), Archived: rapid.Bool().Draw(rt, "archived"), Roots: rapid.Bool().Draw(rt, "roots"),
				Labels:     rapid.SampledFrom([]map[string]string{nil, {"k": ""}, {"k": "v"}, {"k": "v", "j": ""}, {"none": ""}}).Draw(rt, "labels"),
				Sort:       Sort(rapid.IntRange(int(SortTree), int(SortCost)).Draw(rt, "sort")),
				Descending: rapid.Bool().Draw(rt, "descending"), Limit: rapid.IntRange(0, 6).Draw(rt, "limit"),
			}
			view, below := s.View, ID(0)
			if len(ids) > 0 && rapid.Bool().Draw(rt, "below") {
				below = rapid.SampledFrom(ids).Draw(rt, "root")
				view, err = s.Under(ctx, below)
				must(rt, err)
			}
			all, err := view.List(ctx, Filter{Hidden: true, Archived: true})
			must(rt, err)
			want := all[:0:0]
			for _, c := range all {
				if (f.Hidden || !c.Hidden) && (f.Archived || !c.Archived()) && (!f.Roots || c.Parent == 0) && labelled(c, f.Labels) {
					want = append(want, c)
				}
			}
			if f.Sort != SortTree {
				slices.SortFunc(want, func(a, b Conversation) int {
					return cmp.Or(compareBy(f.Sort, a, b, now.Add(24*time.Hour)), cmp.Compare(a.ID, b.ID))
				})
			}
			if f.Descending {
				slices.Reverse(want)
			}
			if f.Limit > 0 && len(want) > f.Limit {
				want = want[:f.Limit]
			}
			got, err := view.List(ctx, f)
			must(rt, err)
			if !slices.Equal(idsOf(got), idsOf(want)) {
				rt.Fatalf("below %s: List(%+v) = %v, want %v", below, f, idsOf(got), idsOf(want))
			}
		}
		must(rt, s.Check(ctx))
	})
}

func labelled(c Conversation, want map[string]string) bool {
	for k, v := range want {
		if have, ok := c.Labels[k]; !ok || v != "" && v != have {
			return false
		}
	}
	return true
}

func compareBy(s Sort, a, b Conversation, late time.Time) int {
	cost := func(c Conversation) int64 {
		if c.CostNano == nil {
			return math.MaxInt64
		}
		return *c.CostNano
	}
	switch s {
	case SortActivity:
		return activity(a, late).Compare(activity(b, late))
	case SortTitle:
		return cmp.Or(strings.Compare(strings.ToLower(a.Title), strings.ToLower(b.Title)), strings.Compare(a.Title, b.Title))
	case SortTurns:
		return cmp.Compare(a.Turns, b.Turns)
	case SortCost:
		return cmp.Compare(cost(a), cost(b))
	}
	return 0
}

// activity is the last one, by a clock that was right.
func activity(c Conversation, late time.Time) time.Time {
	switch made := time.UnixMilli(int64(c.ID) * 100); {
	case !c.UpdatedAt.After(late):
		return c.UpdatedAt
	case !made.After(late):
		return made
	}
	return time.Unix(0, 0)
}

func idsOf(cs []Conversation) []ID {
	ids := make([]ID, len(cs))
	for i, c := range cs {
		ids[i] = c.ID
	}
	return ids
}

// FuzzEntry: whatever the file holds is an entry or refused, and never a panic.
func FuzzEntry(f *testing.F) {
	f.Add((&record{Title: "title", Turns: 3, Unpriced: 1, Labels: map[string]string{"k": "v"}}).Entry())
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, v []byte) {
		e, ok := parseEntry(v)
		if ok && 25+len(e.title)+len(e.labels) >= len(v) {
			t.Errorf("parseEntry(%x) gives more than there is", v)
		}
		e.hasLabels(map[string]string{"k": "v", "": ""})
	})
}

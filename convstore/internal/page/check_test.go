package page

import (
	"bytes"
	"encoding/binary"
	"slices"
	"testing"
)

// TestCheckFast checks a bucket of three levels, made by hand. What is wrong in a branch is found,
// also where it hides leaves from the walk.
func TestCheckFast(t *testing.T) {
	type is = [3]any
	for _, test := range []struct {
		name, want string
		make       func(handmade)
	}{
		{"sound", "", func(h handmade) {}},
		{"a leaf as the first branch", "page 3: leaves at two heights", func(h handmade) { h.page(3, FlagBranch, is{"a", 9}, is{"e", 5}) }},
		{"a leaf as the last branch", "page 3: leaves at two heights", func(h handmade) { h.page(3, FlagBranch, is{"a", 4}, is{"e", 6}) }},
		{"a hidden leaf", "page 3: page 4: 1 entries in the room of 2", func(h handmade) { h[4*handmadeSize+10] = 1 }},
		{"more leaves than have room", "page 0: out of range", func(h handmade) { h[5*handmadeSize+10] = 3 }},
		{"a key that reaches out", "page 3: page 4: element 1: reaches out of the page", func(h handmade) { h[4*handmadeSize+HeaderSize+elementSize+5] = 8 }},
		{"leaves and a first key that reach out", "page 3: page 4: element 0: reaches out of the page", func(h handmade) { h[4*handmadeSize+11], h[4*handmadeSize+HeaderSize+3] = 1, 1 }},
		{"no leaf", "page 6: unexpected kind 0x6", func(h handmade) { h[6*handmadeSize+8] |= 4 }},
		{"a ring", "page 3: too deep", func(h handmade) { h.page(4, FlagBranch, is{"a", 3}, is{"c", 7}) }},
		{"a ring at the end", "page 3: too deep", func(h handmade) { h.page(5, FlagBranch, is{"e", 8}, is{"g", 3}) }},
		{"a ring at the height of leaves", "page 3: page 4: page 3: used twice", func(h handmade) { h.page(4, FlagBranch, is{"a", 6}, is{"c", 3}) }},
	} {
		h := threeLevels()
		test.make(h)
		p := &File{r: bytes.NewReader(h), PageSize: handmadeSize, Root: 2, Freelist: noFreelist, High: 10}
		got := ""
		if _, err := p.CheckFast(); err != nil {
			got = err.Error()
		}
		want := test.want
		if want != "" {
			want = `page 2: bucket "bucket": ` + want
		}
		if whole := p.Check(); got != want || (whole == nil) != (want == "") {
			t.Errorf("%s: CheckFast = %q, want %q; Check = %v", test.name, got, want, whole)
		}
	}
}

// threeLevels returns a file with a bucket of three levels: page 3, branches 4 and 5, leaves 6 to 9.
func threeLevels() handmade {
	type is = [3]any
	h := make(handmade, 10*handmadeSize)
	root := make([]byte, 16)
	binary.NativeEndian.PutUint64(root, 3)
	h.page(2, flagLeaf, is{"bucket", string(root), 0})
	h[2*handmadeSize+HeaderSize] = elementBucket
	h.page(3, FlagBranch, is{"a", 4}, is{"e", 5})
	h.page(4, FlagBranch, is{"a", 6}, is{"c", 7})
	h.page(5, FlagBranch, is{"e", 8}, is{"g", 9})
	for i, key := range []string{"a", "c", "e", "g"} {
		h.page(6+i, flagLeaf, is{key, "x", 0})
	}
	return h
}

// TestPaths: a leaf that has become a branch, or empty, or has other keys, is found on the way to it, and from the
// leaves beside it, but nowhere else.
func TestPaths(t *testing.T) {
	testPaths(t, func(h handmade, id int, key string) { h.page(id, FlagBranch, [3]any{key, id}) })
	testPaths(t, func(h handmade, id int, _ string) { h.page(id, flagLeaf) })
	testPaths(t, func(h handmade, id int, key string) { h.page(id, flagLeaf, [3]any{key + "b", "x", 0}) })
}

func testPaths(t *testing.T, spoil func(h handmade, id int, key string)) {
	sound := threeLevels()
	for bad, id := range map[string]int{"": 0, "a": 6, "c": 7, "e": 8, "g": 9} {
		h := slices.Clone(sound)
		if bad != "" {
			spoil(h, id, bad)
		}
		w := PathsOf(h, handmadeSize)
		leads := func(key string) bool { return bad == "" || key != bad }
		for i, key := range []string{"a", "c", "e", "g"} {
			at, err := w.Leaf(3, []byte(key+"x"))
			if leads(key) != (err == nil) {
				t.Errorf("%q is bad: Leaf(%q) = %v", bad, key, err)
			}
			from, to := []string{"", "c", "e", "g"}[i], []string{"c", "e", "g", ""}[i]
			if err == nil && (string(at.From) != from || string(at.To) != to || at.leaf != uint64(6+i)) {
				t.Errorf("Leaf(%q) = %q to %q, page %d", key, at.From, at.To, at.leaf)
			}
			all := leads(key) && (from == "" || leads([]string{"", "a", "c", "e"}[i])) && (to == "" || leads(to))
			if _, err := w.Around(3, []byte(key), Leaves{}); all != (err == nil) {
				t.Errorf("%q is bad: Around(%q) = %v", bad, key, err)
			}
			if err := w.Change(3, []byte(key), true); all != (err == nil) {
				t.Errorf("%q is bad: Change(%q) = %v", bad, key, err)
			}
			if err := w.Change(3, []byte(key), false); leads(key) != (err == nil) {
				t.Errorf("%q is bad: Change(%q) without a drop = %v", bad, key, err)
			}
		}
		if _, err := w.Before(3, nil); leads("g") != (err == nil) {
			t.Errorf("%q is bad: Before = %v", bad, err)
		}
	}
}

// TestRemains: a branch of one bucket that leads into another one takes nothing from that.
func TestRemains(t *testing.T) {
	h := make(handmade, 4*handmadeSize)
	h.page(2, FlagBranch, [3]any{"a", 3}, [3]any{"c", 2})
	h.page(3, flagLeaf, [3]any{"a", "x", 0})
	var lost []string
	r := &Remains{p: &File{r: bytes.NewReader(h), PageSize: handmadeSize, High: 4}, lost: func(err error) { lost = append(lost, err.Error()) },
		seen: make([]bool, 4), buckets: map[string]bucketRoot{"damaged": {root: 2}, "sound": {root: 3}}}
	for _, bucket := range []string{"damaged", "sound"} {
		got := ""
		if err := r.Each(bucket, func(k, v []byte) error { got += string(k) + string(v); return nil }); err != nil || got != "ax" {
			t.Errorf("%s: %q, %v, want ax", bucket, got, err)
		}
	}
	if want := []string{"page 2: used twice"}; !slices.Equal(lost, want) {
		t.Errorf("lost %q, want %q", lost, want)
	}
}

package db

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"go.etcd.io/bbolt"
)

// TestBucket compares Bucket and Cursor with a map through random transactions, in files with
// pages of several sizes: nothing sound is called damaged, and leaves that a transaction has
// emptied hide nothing.
func TestBucket(t *testing.T) {
	for _, size := range []int{1024, 4096, 1 << 16} {
		t.Run(fmt.Sprint(size), func(t *testing.T) { testBucket(t, size, rand.New(rand.NewPCG(uint64(size), 1))) })
	}
}

func testBucket(t *testing.T, pageSize int, rnd *rand.Rand) {
	f := openBase(t, t.TempDir())
	bolt, err := bbolt.Open(f.StorePath(), 0o600, &bbolt.Options{PageSize: pageSize, NoStatistics: true})
	if err == nil {
		err = errors.Join(bolt.Update(func(b *bbolt.Tx) error { return makeBuckets(b, 1) }), bolt.Close())
	}
	if err != nil {
		t.Fatal(err)
	}
	kept, inRun := make(map[string]string), make(map[string]string)
	key := func() []byte { return Key(uint64(rnd.IntN(40)))[:7+rnd.IntN(2)] }
	long := func(n int) string { return strings.Repeat("x", rnd.IntN(1+rnd.IntN(n))) }
	entry := func() []byte { return append(append(key(), byte(rnd.IntN(8))), long(60)...) }

	change := func(tx *Tx) error {
		switch at := entry(); rnd.IntN(8) {
		case 0:
			prefix, other := string(at[:rnd.IntN(len(at))]), string(key())
			maps.DeleteFunc(inRun, func(k, _ string) bool { return strings.HasPrefix(k, prefix) || strings.HasPrefix(k, other) })
			return tx.DropPrefixed(Events, []byte(prefix), []byte(other))
		case 1, 2:
			delete(inRun, string(at))
			return tx.Drop(Events, at)
		case 3:
			_, err := tx.NextNumber(Events, []byte("no entry"))
			return err
		default:
			value := long(pageSize / 2)
			if rnd.IntN(20) == 0 {
				value = long(4 * pageSize)
			}
			inRun[string(at)] = value
			return tx.Put(Events, at, []byte(value))
		}
	}
	compare := func(tx *Tx) {
		keys := slices.Sorted(maps.Keys(inRun))
		c, at, sought := tx.Bucket(Events).Cursor(), -1, entry()
		for range rnd.IntN(30) {
			var k, v []byte
			step := rnd.IntN(8)
			switch on := at >= 0 && at < len(keys); {
			case on && step > 4:
				k, v = c.Next()
				at++
			case on && step > 1:
				k, v = c.Prev()
				at--
			case step == 0:
				k, v = c.First()
				at = 0
			case step == 1:
				k, v = c.Last()
				at = len(keys) - 1
			default:
				k, v = c.Seek(sought)
				at, _ = slices.BinarySearch(keys, string(sought))
			}
			want := ""
			if at >= 0 && at < len(keys) {
				want = keys[at]
			}
			if string(k) != want || string(v) != inRun[want] {
				t.Errorf("step %d: %q, want %q", step, k, want)
			}
		}
		if got := tx.Bucket(Events).Get(sought); string(got) != inRun[string(sought)] {
			t.Errorf("Get(%q) = %q, want %q", sought, got, inRun[string(sought)])
		}
	}

	errRolled := errors.New("rolled back")
	for n := range 150 {
		most := 1 + rnd.IntN(1+rnd.IntN(200))
		err := f.Write(t.Context(), func(tx *Tx) error {
			inRun = maps.Clone(kept)
			for range most {
				if err := change(tx); err != nil {
					return err
				}
				if rnd.IntN(4) == 0 {
					compare(tx)
				}
			}
			if n%7 == 0 {
				return errRolled
			}
			return nil
		})
		switch {
		case n%7 != 0 && err == nil:
			kept = inRun
		case n%7 != 0 || !errors.Is(err, errRolled):
			t.Fatal(err)
		}
		inRun = kept
		if err := f.Session(t.Context(), false, func(h *Handle) error {
			if err := f.CheckPages(h.File); err != nil {
				return err
			}
			return f.View(h, func(tx *Tx) error {
				for range 10 {
					compare(tx)
				}
				var keys []string
				err := tx.Prefixed(Events, nil, func(k, _ []byte) error { keys = append(keys, string(k)); return nil })
				if want := slices.Sorted(maps.Keys(kept)); !slices.Equal(keys, want) {
					t.Errorf("%d keys, want %d", len(keys), len(want))
				}
				return err
			})
		}); err != nil {
			t.Fatal(err)
		}
	}
}

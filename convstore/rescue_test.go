package convstore

import (
	"bytes"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
)

// TestRescue damages a store in many ways: whatever can still be read goes into a new store, and
// that is sound.
func TestRescue(t *testing.T) {
	sample := sampleStore(t)
	rescue := func(data []byte) (events, lost int) {
		s := storeOf(t, data)
		lines, _, events, err := Rooms.Rescue(t.Context(), s, func(error) { lost++ })
		mustNot(t, err)
		to, err := Open(filepath.Join(t.TempDir(), "store"), Options{})
		mustNot(t, err)
		mustImport(t, to, lines)
		return events, lost
	}
	all, lost := rescue(sample)
	if all == 0 || lost != 0 {
		t.Fatalf("of a sound store: %d events, %d lost", all, lost)
	}
	page, random := os.Getpagesize(), rand.New(rand.NewPCG(1, 2))
	some := 0
	for i := 2; i < len(sample)/page; i++ {
		broken := bytes.Clone(sample)
		for range 8 {
			broken[i*page+random.IntN(page)] ^= byte(1 + random.IntN(255))
		}
		events, lost := rescue(broken)
		if events > all {
			t.Errorf("with page %d damaged: %d events of %d", i, events, all)
		}
		if lost > 0 && events > 0 {
			some++
		}
	}
	if some == 0 {
		t.Error("nothing was ever damaged")
	}
}

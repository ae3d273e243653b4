package convstore

import (
	"path/filepath"
	"slices"
	"testing"
	"time"
)

// TestActivityOfTheFuture: a clock that was ahead for a turn makes no conversation the most recent
// one, and the next turn there counts by the clock as it is.
func TestActivityOfTheFuture(t *testing.T) {
	now := storeEpoch
	s := openStoreIn(t, filepath.Join(memoryDir(t), "store"), Options{Now: func() time.Time { return now }})
	turn := func(id ID) {
		l := mustLock(t, s, id)
		mustAppend(t, l, TurnStart{}, TurnEnd{State: StateOK})
		mustNot(t, l.Close())
		now = now.Add(time.Minute)
	}
	begin := func() ID {
		id := mustCreate(t, s, New{}).ID
		turn(id)
		return id
	}
	recent := func(when string, want ...ID) {
		t.Helper()
		if got := mustList(t, s.View, Filter{Sort: SortActivity, Descending: true}); !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v", when, got, want)
		}
	}
	ahead, before := begin(), now
	now = before.AddDate(100, 0, 0)
	turn(ahead)
	now = before
	other := begin()
	recent("after a turn by a clock that was ahead", other, ahead)
	turn(ahead)
	recent("after the next one", ahead, other)
	turn(other)
	recent("after one of the other", other, ahead)

	now = before.AddDate(100, 0, 0)
	made := begin()
	now = before.Add(time.Hour)
	recent("with one made by a clock that was ahead", other, ahead, made)
}

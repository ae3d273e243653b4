package delegate

import (
	"context"
	"runtime"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// underWayNow returns how many starts are under way, and how many wait.
func (s *starts) underWayNow() (underWay, waiting int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.underWay, len(s.waiting)
}

func TestStarts(t *testing.T) { synctest.Test(t, testStarts) }

func testStarts(t *testing.T) {
	most := runtime.GOMAXPROCS(0) + 1
	var s starts
	ended := s.begin(t.Context(), 0)
	if n, _ := s.underWayNow(); n != 1 {
		t.Fatalf("after begin() %d starts are under way, want 1", n)
	}
	s.begin(t.Context(), 0)
	ended()
	ended()
	if n, _ := s.underWayNow(); n > 1 {
		t.Errorf("a start that ended is still under way: %d are", n)
	}

	// Who is stopped while it waits does not start, and ends no start of another.
	stopped, stop := context.WithCancel(t.Context())
	stop()
	var full starts
	full.underWay = most
	full.begin(stopped, 0)()
	if n, waiting := full.underWayNow(); n != most || waiting != 0 {
		t.Errorf("after a start that was stopped %d are under way and %d wait, want %d and none", n, waiting, most)
	}

	// Starts that never come to their models keep nobody back for ever.
	var hung starts
	for range 3 * most {
		hung.begin(t.Context(), 0)
	}
}

// TestStartsInOrder: of those that wait, the lowest place begins first, whoever came first.
func TestStartsInOrder(t *testing.T) {
	s := starts{underWay: runtime.GOMAXPROCS(0) + 1}
	places := []int{7, 3, 9, 0, 3, 8, 1}
	var begun sync.WaitGroup
	for n, place := range places {
		begun.Go(func() { s.begin(t.Context(), place) })
		for waiting := 0; waiting <= n; _, waiting = s.underWayNow() {
			time.Sleep(time.Millisecond)
		}
	}
	var got []int
	first := s.waiting[0].may
	for _, w := range s.waiting {
		got = append(got, w.place)
	}
	s.next()
	<-first
	for range places[1:] {
		s.next()
	}
	begun.Wait()
	if want := []int{0, 1, 3, 3, 7, 8, 9}; !slices.Equal(got, want) {
		t.Errorf("began in the order %v, want %v", got, want)
	}
}

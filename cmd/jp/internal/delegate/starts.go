package delegate

import (
	"cmp"
	"context"
	"runtime"
	"slices"
	"sync"
	"time"
)

// starts bounds how many sub-agents of one caller start at the same time: about as many as there
// are processors. If all started at once, all would be slow, and would ask their models at the same
// time. In turns, the first models work while the last programs start. The zero value is ready to
// use. Safe for concurrent use.
type starts struct {
	mu       sync.Mutex
	underWay int
	waiting  []*start // in the order in which they may begin
}

// start waits until it may begin.
type start struct {
	place int
	may   chan struct{} // closed when it may
}

// startPatience is how long a start holds others back that does not come to its model.
const startPatience = 100 * time.Millisecond

// begin waits until a sub-agent may start, or until ctx ends. Of those that wait the lowest place
// is first; of equal ones the one that came first. The returned function ends the start. It may be
// called more than once.
func (s *starts) begin(ctx context.Context, place int) (started func()) {
	w := &start{place: place, may: make(chan struct{})}
	s.mu.Lock()
	if s.underWay <= runtime.GOMAXPROCS(0) { // one more, because one may wait for the disk
		s.underWay++
		close(w.may)
	} else {
		at, _ := slices.BinarySearchFunc(s.waiting, place+1, func(o *start, p int) int { return cmp.Compare(o.place, p) })
		s.waiting = slices.Insert(s.waiting, at, w)
	}
	s.mu.Unlock()
	end := sync.OnceFunc(s.next)
	select {
	case <-w.may:
	case <-ctx.Done():
		s.mu.Lock()
		at := slices.Index(s.waiting, w)
		if at >= 0 {
			s.waiting = slices.Delete(s.waiting, at, at+1)
		}
		s.mu.Unlock()
		if at < 0 {
			end()
		}
		return func() {}
	}
	timer := time.AfterFunc(startPatience, end)
	return func() {
		timer.Stop()
		end()
	}
}

// next ends a start and lets the next one begin.
func (s *starts) next() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.waiting) == 0 {
		s.underWay--
		return
	}
	close(s.waiting[0].may)
	s.waiting = s.waiting[1:]
}

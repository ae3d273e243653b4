package delegate

import (
	"context"
	"runtime"
	"sync"
	"time"
)

// starts bounds how many sub-agents of one caller start at the same time: about as many as there
// are processors. If all started at once, all would be slow, and would ask their models at the same
// time. In turns, the first models work while the last programs start. The zero value is ready to
// use. Safe for concurrent use.
type starts struct {
	once    sync.Once
	permits chan struct{}
}

// startPatience is how long a start holds others back that does not come to its model.
const startPatience = 100 * time.Millisecond

// begin waits until a sub-agent may start, or until ctx ends. The returned function ends the start.
// It may be called more than once.
func (s *starts) begin(ctx context.Context) (started func()) {
	// one more, because one may wait for the disk
	s.once.Do(func() { s.permits = make(chan struct{}, runtime.GOMAXPROCS(0)+1) })
	select {
	case s.permits <- struct{}{}:
	case <-ctx.Done():
		return func() {}
	}
	end := sync.OnceFunc(func() { <-s.permits })
	timer := time.AfterFunc(startPatience, end)
	return func() {
		timer.Stop()
		end()
	}
}

package delegate

import (
	"context"
	"runtime"
	"sync"
	"time"
)

// starts lets few sub-agents of one caller start at a time, as many as can at the same speed. All at once would share the
// processors until all are there, and so ask their models at the same time; in turns, the first models work while the last
// programs start. The zero value is ready; safe for concurrent use.
type starts struct {
	once    sync.Once
	permits chan struct{}
}

// startPatience is after how long a start that has not come to its model no longer keeps others back.
const startPatience = 100 * time.Millisecond

// begin waits for the turn to start, or for the end of ctx. The returned function, which may be called more than once, ends the
// start.
func (s *starts) begin(ctx context.Context) (started func()) {
	s.once.Do(func() { s.permits = make(chan struct{}, runtime.GOMAXPROCS(0)+1) }) // one more, for while one waits for the disk
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

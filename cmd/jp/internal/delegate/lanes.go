package delegate

import (
	"context"
	"sync"
)

// lanes bound how many calls run at the same time that come one by one, each a reply by itself,
// like those of an MCP client. Each call gets an even part of what is free; the others wait before
// they reserve. Safe for concurrent use.
type lanes struct {
	most int           // 0 = no bound
	free chan struct{} // one token for each call that has a lane

	mu   sync.Mutex
	open int           // calls that have reserved and not ended
	left chan struct{} // closed when one of them ends
}

func newLanes(most int) *lanes {
	return &lanes{most: most, free: make(chan struct{}, max(most, 0)), left: make(chan struct{})}
}

// enter waits for a lane, calls read and then reserve, and returns the function that ends the call.
// reserve gets the number of calls that share what is free: its own, and those that may still come
// while it runs. Until it returns, no other call begins or ends; while read runs, others do. If
// reserve reports that nothing was free, both are called again when another call has ended.
func (l *lanes) enter(ctx context.Context, read func(), reserve func(among int) (starved bool)) (end func(), err error) {
	if l.most <= 0 {
		read()
		reserve(1)
		return func() {}, nil
	}
	select {
	case l.free <- struct{}{}:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	for {
		read()
		l.mu.Lock()
		starved := reserve(l.most - l.open)
		if !starved || l.open == 0 {
			break
		}
		left := l.left
		l.mu.Unlock()
		select {
		case <-left:
		case <-ctx.Done():
			<-l.free
			return nil, context.Cause(ctx)
		}
	}
	defer l.mu.Unlock()
	l.open++
	return l.end, nil
}

// end ends a call.
func (l *lanes) end() {
	l.mu.Lock()
	l.open--
	close(l.left)
	l.left = make(chan struct{})
	l.mu.Unlock()
	<-l.free
}

package worker

import (
	"strconv"
	"sync"
	"time"
)

// slack is how long after the end of a lease what a node has started may still run: the node
// interrupts it, waits, and kills it.
const slack = 2 * time.Second

// lease is the time for which a node may run something without a word of the owner. The node asks
// and the owner answers; an answer extends the lease from the time of the question. So an answer
// that was long on its way extends it no more than one that came at once, and whoever has answered
// knows that it ends a lease later at the latest.
type lease struct {
	length time.Duration

	mu    sync.Mutex
	until time.Duration // by sinceBoot
	last  uint64        // number of the latest question
	asked map[uint64]time.Duration
}

// newLease returns a lease that begins now.
func newLease(length time.Duration) *lease {
	return &lease{length: length, until: sinceBoot() + length, asked: map[uint64]time.Duration{}}
}

// ask returns the number of a new question.
func (l *lease) ask() []byte {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.last++
	l.asked[l.last] = sinceBoot()
	return strconv.AppendUint(nil, l.last, 10)
}

// answered extends the lease, and reports whether the question was asked.
func (l *lease) answered(n uint64) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if n == 0 || n > l.last {
		return false
	}
	if at, ok := l.asked[n]; ok {
		l.until = max(l.until, at+l.length)
	}
	for k := range l.asked {
		if k <= n {
			delete(l.asked, k)
		}
	}
	return true
}

func (l *lease) over() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return sinceBoot() > l.until
}

// tick returns how often a side looks at its clock.
func tick(length time.Duration) time.Duration {
	return min(max(length/12, 10*time.Millisecond), time.Second)
}

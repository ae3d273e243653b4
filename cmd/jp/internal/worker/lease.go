package worker

import (
	"strconv"
	"sync"
	"time"

	"jp/tools/proc"
)

// slack is how long after the end of a lease what a node has started may still run: the node
// interrupts it, waits, and kills it.
const slack = 2 * time.Second

// lease is the time for which a node may run something without a word of the owner. The node asks
// and the owner answers; an answer extends the lease from the time of the question. So an answer
// that was long on its way extends it no more than one that came at once, and whoever has answered
// knows that it ends a lease later at the latest.
//
// The processes of the sub-agents have the lease too, and end by it without the node; see
// proc.Lease.
type lease struct {
	*proc.Lease
	length time.Duration

	mu    sync.Mutex
	last  uint64 // number of the latest question
	asked map[uint64]time.Duration
}

// newLease returns a lease that begins now. Its file is in the folder dir.
func newLease(dir string, length time.Duration) (*lease, error) {
	l, err := proc.NewLease(dir, proc.SinceBoot()+length)
	return &lease{Lease: l, length: length, asked: map[uint64]time.Duration{}}, err
}

// ask returns the number of a new question.
func (l *lease) ask() []byte {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.last++
	l.asked[l.last] = proc.SinceBoot()
	return strconv.AppendUint(nil, l.last, 10)
}

// answered extends the lease.
func (l *lease) answered(n uint64) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if n == 0 || n > l.last {
		return broken("an answer to nothing")
	}
	if at, ok := l.asked[n]; ok {
		if err := l.Extend(at + l.length); err != nil {
			return err
		}
	}
	for k := range l.asked {
		if k <= n {
			delete(l.asked, k)
		}
	}
	return nil
}

// tick returns how often a side looks at its clock.
func tick(length time.Duration) time.Duration {
	return min(max(length/12, 10*time.Millisecond), time.Second)
}

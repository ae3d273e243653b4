package delegate

import (
	"context"
	"sync"

	"jp/cmd/jp/internal/rule"
	"jp/convstore"
)

// admission is a call that Admit has seen, and that its tool has not run yet.
type admission struct {
	request
	res *held // nil = not reserved: its turn has not come, or err says why
	err error
	// closed when the call before it to the same child has ended; nil = there is none
	after <-chan struct{}
	done  chan struct{} // closed when this call has ended; nil for a new child
}

// queue holds admissions until their calls claim them. Safe for concurrent use.
type queue struct {
	mu       sync.Mutex
	admitted map[string]admission // by call id
}

// put adds admissions. A second one under the id of a call takes the place of one that was refused:
// a call that finds nothing left asks again. Otherwise it is left out, since what was reserved for
// the first would never be settled.
func (q *queue) put(list []admission) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, a := range list {
		drop, there := q.admitted[a.Call]
		if !there || drop.err != nil {
			q.admitted[a.Call] = a
		} else {
			drop = a
		}
		if there && drop.done != nil {
			close(drop.done)
		}
	}
}

// claim takes over what was admitted for a call.
func (q *queue) claim(call string) (admission, bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	a, ok := q.admitted[call]
	delete(q.admitted, call)
	return a, ok
}

// drain takes over what nobody has claimed.
func (q *queue) drain() map[string]admission {
	q.mu.Lock()
	defer q.mu.Unlock()
	left := q.admitted
	q.admitted = map[string]admission{}
	return left
}

// line queues a call after the latest one to the same child. last has, by child, the done channel
// of that one.
func (a *admission) line(last map[string]chan struct{}) {
	if queue := a.Queue(); a.err == nil && queue != "" {
		a.after = last[queue]
		a.done = make(chan struct{})
		last[queue] = a.done
	}
}

// wait waits until the call before it to the same child has ended. The error is the cause of ctx.
func (a *admission) wait(ctx context.Context) error {
	if a.after == nil {
		return nil
	}
	select {
	case <-a.after:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// partLater bounds what the items of a batch ask for that are reserved later, each in its turn: no
// more than the items got that were reserved together.
func partLater(list []admission) {
	part := map[*rule.Batch]convstore.Budget{}
	for _, a := range list {
		if a.Batch != nil && a.res != nil && !a.res.Existed {
			part[a.Batch] = part[a.Batch].Min(a.res.Delegation.Grant.Budget)
		}
	}
	for i, a := range list {
		if b := a.Batch; b != nil && a.after != nil {
			list[i].Want, b.Later = a.Want.Min(part[b]), 0
		}
	}
}

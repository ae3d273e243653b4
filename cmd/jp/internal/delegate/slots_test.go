package delegate

import (
	"context"
	"sync"
	"testing"
	"time"

	"jp/convstore"
)

// waiter is a context that says when somebody waits for its end.
type waiter struct {
	context.Context
	waits func()
}

func (w waiter) Done() <-chan struct{} {
	w.waits()
	return w.Context.Done()
}

// TestWorksWhileItsCallRuns: a sub-agent that asks its model while a call of it still runs, as no jp
// does, waits for a slot alone. What it has started can delegate, and give its own slot back.
func TestWorksWhileItsCallRuns(t *testing.T) {
	_, log := running(t)
	del := convstore.Delegation{Root: log.ID(), Grant: convstore.Grant{MaxParallel: 1}}
	liar := &treeSlots{scope: log.Below(), warn: t.Errorf}
	take := func() *convstore.Slot {
		slot, err := liar.pause(del).Take(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		return slot
	}
	liar.own = take()
	called := &owned{runner: &runner{slots: liar}, slot: take()} // has the only one
	asks := make(chan struct{})
	works := make(chan error, 1)
	go func() { works <- liar.resume(waiter{t.Context(), sync.OnceFunc(func() { close(asks) })}) }()
	<-asks
	gave := make(chan struct{})
	go func() {
		defer close(gave)
		called.idle(liar.tree())
		liar.pause(del)
	}()
	select {
	case <-gave:
	case <-time.After(time.Minute):
		t.Fatal("the call cannot go on before the sub-agent that has made it works")
	}
	if err := <-works; err != nil {
		t.Error(err)
	}
	liar.free(liar.handOver())
}

package delegate

import (
	"context"
	"sync"

	"jp/convstore"
)

// treeSlots are the slots of a tree, as one of its agents uses them. They bound how many sub-agents
// of the tree work at the same time, at any depth. A sub-agent gives its slot back
// before it waits for sub-agents of its own, and takes one again when the calls of that reply have
// ended. So those below it always find one. Safe for concurrent use.
type treeSlots struct {
	scope convstore.Scope
	warn  func(format string, a ...any)

	resuming sync.Mutex // held while a slot is taken again, so that nobody takes two

	mu    sync.Mutex       // for the fields below; nobody waits for anything while it is held
	own   *convstore.Slot  // slot of this agent; nil at a root, and while it waits for sub-agents
	slots *convstore.Slots // nil before the first delegation
	given bool             // whether own was given back and is to be taken again
}

// tree returns the slots of the tree, nil before the first delegation.
func (t *treeSlots) tree() *convstore.Slots {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.slots
}

// free gives back the slot of a child that has ended; nil = it has none.
func (t *treeSlots) free(slot *convstore.Slot) {
	if slot == nil {
		return
	}
	if err := slot.Release(); err != nil {
		t.warn("slot of a sub-agent: %v", err)
	}
}

// pause gives back this agent's own slot, and returns those of the tree.
func (t *treeSlots) pause(del convstore.Delegation) *convstore.Slots {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.slots == nil {
		t.slots = t.scope.Slots(del.Root, del.Grant.MaxParallel)
	}
	if t.own != nil {
		if err := t.own.Release(); err != nil {
			t.warn("slot: %v", err)
		}
		t.own, t.given = nil, true
	}
	return t.slots
}

// handOver returns this agent's own slot, nil for none, and forgets it.
func (t *treeSlots) handOver() *convstore.Slot {
	t.mu.Lock()
	defer t.mu.Unlock()
	slot := t.own
	t.own, t.given = nil, false
	return slot
}

// resume takes a slot again before this agent works. Without one it works only to stop: when ctx
// has ended, whose cause is the error. A sub-agent that lies may ask for it while it still waits for
// others. So what those need of t they get while a slot is waited for.
func (t *treeSlots) resume(ctx context.Context) error {
	t.resuming.Lock()
	defer t.resuming.Unlock()
	t.mu.Lock()
	slots, given := t.slots, t.given
	t.mu.Unlock()
	if !given {
		return nil
	}
	own, err := slots.Take(ctx, nil)
	switch {
	case err == nil:
		t.mu.Lock()
		t.own, t.given = own, false
		t.mu.Unlock()
	case ctx.Err() == nil:
		t.warn("it continues without a slot of its own: %v", err)
	default:
		return err
	}
	return nil
}

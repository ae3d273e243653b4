package delegate

import (
	"context"
	"sync"

	"jp/convstore"
)

// treeSlots are the slots of a tree as one of its agents uses them: they bound how many sub-agents of the tree work at the same time, at
// whatever depth. A sub-agent inherits its slot. From the moment that it waits for sub-agents of its own until the calls of that reply
// have ended it has none, so that those below it always find one. Safe for concurrent use.
type treeSlots struct {
	scope convstore.Scope
	warn  func(format string, a ...any)

	mu    sync.Mutex
	own   *convstore.Slot  // of this agent; nil at a root, and while it waits for sub-agents
	slots *convstore.Slots // nil before the first delegation
	given bool             // own was given back and is to be taken again
}

// take waits for a slot for the child of a delegation, and gives back this agent's own before. queued is called if it has to wait.
func (t *treeSlots) take(ctx context.Context, del convstore.Delegation, queued func()) (*convstore.Slot, error) {
	return t.pause(del).Take(ctx, queued)
}

// free gives back the slot of a child that has ended, and of which this process may hold nothing any more.
func (t *treeSlots) free(slot *convstore.Slot) {
	if err := slot.Release(); err != nil {
		t.warn("slot of a sub-agent: %v", err)
	}
	t.slots.Freed()
}

// pause gives back this agent's own slot.
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

// leave hands over this agent's own slot, nil for none.
func (t *treeSlots) leave() *convstore.Slot {
	t.mu.Lock()
	defer t.mu.Unlock()
	slot := t.own
	t.own, t.given = nil, false
	return slot
}

// resume takes a slot again before this agent goes on. Without one it goes on only to stop: when ctx has ended.
func (t *treeSlots) resume(ctx context.Context) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.given {
		return
	}
	own, err := t.slots.Take(ctx, nil)
	if err != nil {
		if ctx.Err() == nil {
			t.warn("it goes on without a slot of its own: %v", err)
		}
		return
	}
	t.own, t.given = own, false
}

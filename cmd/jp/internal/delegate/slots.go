package delegate

import (
	"context"
	"sync"

	"jp/cmd/jp/internal/stream"
	"jp/convstore"
)

// treeSlots is what a Delegator has to do with the slots of its tree: how many sub-agents of one tree work at the same time,
// at whatever depth. A sub-agent inherits the slot that it works in. From the moment that it waits for sub-agents of its own
// to the end of that reply's calls it has none, so that those below it always find one.
type treeSlots struct {
	mu    sync.Mutex
	slots *convstore.Slots // nil before the first delegation
	given bool             // this agent's own slot was given back and is to be taken again
}

// slot waits for a slot that a child of this agent can work in, having given back this agent's own.
func (d *Delegator) slot(ctx context.Context, res *convstore.Reservation, f *follower) (*convstore.Slot, error) {
	slots := d.pause(res.Delegation)
	return slots.Take(ctx, func() {
		d.follow(ctx, Step{Phase: stream.Queued, Delegation: res.Delegation})
		f.tell(stream.Queued)
	})
}

// free gives back the slot of a child that has ended, and of which this process may hold nothing any more.
func (d *Delegator) free(slot *convstore.Slot) {
	if err := slot.Release(); err != nil {
		d.warn("slot of a sub-agent: %v", err)
	}
	d.tree.slots.Freed()
}

// pause gives back the slot that this agent works in.
func (d *Delegator) pause(del convstore.Delegation) *convstore.Slots {
	t := &d.tree
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.slots == nil {
		t.slots = d.Scope.Slots(del.Root, del.Grant.MaxParallel)
	}
	if d.Slot != nil {
		if err := d.Slot.Release(); err != nil {
			d.warn("slot: %v", err)
		}
		d.Slot, t.given = nil, true
	}
	return t.slots
}

// Leave hands over the slot that this agent works in by now, nil for none.
func (d *Delegator) Leave() *convstore.Slot {
	t := &d.tree
	t.mu.Lock()
	defer t.mu.Unlock()
	slot := d.Slot
	d.Slot, t.given = nil, false
	return slot
}

// resume takes a slot again before this agent goes on. Without one it goes on only to stop: when ctx has ended.
func (d *Delegator) resume(ctx context.Context) {
	t := &d.tree
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.given {
		return
	}
	own, err := t.slots.Take(ctx, nil)
	if err != nil {
		if ctx.Err() == nil {
			d.warn("it goes on without a slot of its own: %v", err)
		}
		return
	}
	d.Slot, t.given = own, false
}

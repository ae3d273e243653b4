package convstore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"jp/convstore/internal/db"
)

// RemoveOptions says what happens to the children of a removed conversation.
type RemoveOptions struct {
	Cascade bool // remove them too, with all below them
	Promote bool // make them children of its parent, or roots
}

// Remove removes one conversation as RemoveAll does.
func (s *Store) Remove(ctx context.Context, id ID, o RemoveOptions) (removed []ID, err error) {
	return s.RemoveAll(ctx, []ID{id}, o)
}

// RemoveAll removes conversations in one transaction, all or none, and returns what it removed, each
// once, a conversation before those that are removed with it. It fails with a *BusyError if one of
// them, or anything below, runs, and with a *ChildrenError if one has children that are not among ids
// and neither option is set. The records of delegations stay.
func (s *Store) RemoveAll(ctx context.Context, ids []ID, o RemoveOptions) (removed []ID, err error) {
	if len(ids) == 0 {
		return nil, nil
	}
	if o.Cascade && o.Promote {
		return nil, fmt.Errorf("conversation %s: remove: cascade and promote cannot be combined", ids[0])
	}
	err = s.f.write(ctx, func(t *tx) (err error) {
		if removed, err = t.withBelow(ids...); err != nil {
			return err
		}
		if err := t.requireIdle(removed); err != nil {
			return err
		}
		switch {
		case o.Promote:
			removed, err = t.promoteBelow(ids)
		case !o.Cascade:
			removed, err = t.named(ids)
		}
		if err != nil {
			return err
		}
		return t.remove(removed)
	})
	if err != nil {
		return nil, absent(err, ids[0])
	}
	return removed, nil
}

// named returns conversations if everything below them is named too, each once, parents first.
func (t *tx) named(ids []ID) ([]ID, error) {
	named := make(map[ID]bool, len(ids))
	for _, id := range ids {
		named[id] = true
	}
	var tops []ID // those that are below none of the others
	for _, id := range ids {
		r, err := t.loadWhole(id)
		if err != nil {
			return nil, err
		}
		if !named[r.Parent] {
			tops = append(tops, id)
		}
		if err := t.children(id, func(child ID, _ Link) error {
			if !named[child] {
				return &ChildrenError{ID: id, Children: r.Children}
			}
			return nil
		}); err != nil {
			return nil, err
		}
	}
	return t.withBelow(tops...)
}

// withBelow returns conversations and all that is below them, parents first, each once.
func (t *tx) withBelow(ids ...ID) (all []ID, err error) {
	seen := make(map[ID]bool)
	add := func(id ID) error {
		if !seen[id] {
			seen[id], all = true, append(all, id)
		}
		return nil
	}
	for _, id := range ids {
		if seen[id] {
			continue
		}
		if _, err = t.Load(id); err == nil {
			_ = add(id)
			err = t.Below(id, false, t.Entries(), add)
		}
		if err != nil {
			return nil, err
		}
	}
	return all, nil
}

// promoteBelow promotes the children of conversations, and returns these, each once.
func (t *tx) promoteBelow(ids []ID) (once []ID, err error) {
	seen := make(map[ID]bool, len(ids))
	for _, id := range ids {
		if seen[id] {
			continue
		}
		seen[id], once = true, append(once, id)
		r, err := t.loadWhole(id)
		if err == nil {
			err = t.promote(id, r)
		}
		if err != nil {
			return nil, err
		}
	}
	return once, nil
}

// promote makes the children of a conversation children of its parent. A child stays in the scope
// of the agents above only if the links on the way to it are all delegation links.
func (t *tx) promote(id ID, r *record) error {
	var children []ID
	if err := t.children(id, func(child ID, _ Link) error {
		children = append(children, child)
		return nil
	}); err != nil {
		return err
	}
	for _, child := range children {
		c, err := t.Load(child)
		if err != nil {
			return err
		}
		if err := t.detach(child, c); err != nil {
			return err
		}
		switch {
		case r.Parent == 0:
			c.Link = NoLink
		case r.Link != DelegationLink:
			c.Link = ForkLink
		}
		c.Parent = r.Parent
		if err := t.attach(child, c); err != nil {
			return err
		}
		if err := t.Save(child, c); err != nil {
			return err
		}
	}
	return nil
}

// remove deletes conversations, all at once, and settles the delegations that nobody can settle any
// more.
func (t *tx) remove(ids []ID) error {
	if err := t.settleLost(ids); err != nil {
		return err
	}
	keys := make([][]byte, len(ids))
	for i, id := range ids {
		r, err := t.Load(id)
		if err == nil {
			err = t.detach(id, r)
		}
		if err == nil {
			err = t.Expires(id, r.ExpiresAt, time.Time{})
		}
		if err == nil {
			err = t.dropAnswers(id)
		}
		if err != nil {
			return err
		}
		keys[i] = id.key()
	}
	for _, n := range []db.BucketNumber{db.Conversations, db.Listing, db.Configs, db.Imported, db.Events, db.EventIDs, db.Turns, db.Calls} {
		if err := t.DropPrefixed(n, keys...); err != nil {
			return err
		}
	}
	return nil
}

// settleLost settles the delegations that these conversations made or ran in and that nobody else
// can settle any more.
func (t *tx) settleLost(ids []ID) error {
	ledgers := make(map[ID]bool)
	for _, id := range ids {
		r, err := t.Load(id)
		if err != nil {
			return err
		}
		root, err := t.LedgerOf(id, r)
		if err != nil {
			return err
		}
		ledgers[root] = true
		if r.Run != nil {
			ledgers[r.Run.Root] = true
		}
	}
	for root := range ledgers {
		if err := t.reconcile(root, runner{}); err != nil {
			return err
		}
	}
	return nil
}

// Expire removes the conversations that have expired, with all below them, and returns their ids.
// It keeps a conversation if it, or one below it, is pinned or runs, if a person forked one below
// it that has not expired itself, or if a turn that delegated it is open, for that of a server of
// MCP only while it runs, or a process stands for a conversation that delegated it: its answer may be
// needed yet.
func (s *Store) Expire(ctx context.Context) (removed []ID, err error) {
	due := false
	err = s.f.read(ctx, func(t *tx) error {
		k, _ := t.Bucket(db.Expiring).Cursor().First()
		due = k != nil && string(k) < string(expiryKey(t.Now, 0))
		return nil
	})
	if err != nil || !due {
		return nil, present(err)
	}
	err = s.f.write(ctx, func(t *tx) error {
		removed = nil
		now := expiryKey(t.Now, 0)
		var expired []ID
		c := t.Bucket(db.Expiring).Cursor()
		for k, _ := c.First(); k != nil && string(k) < string(now); k, _ = c.Next() {
			expired = append(expired, idAt(k, 8))
		}
		held, err := t.F.HeldRuns()
		if err != nil {
			return err
		}
		stood := standsAmong(held)
		gone := make(map[ID]bool)
		for _, id := range expired {
			if gone[id] {
				continue
			}
			all, err := t.expirable(id, held, stood)
			if err == nil && len(all) > 0 {
				err = t.requireIdle(all)
			}
			if _, ok := errors.AsType[*BusyError](err); ok {
				continue
			}
			if err != nil {
				return err
			}
			for _, id := range all {
				if !gone[id] {
					gone[id], removed = true, append(removed, id)
				}
			}
		}
		if len(removed) == 0 {
			return db.ErrUnchanged
		}
		return t.remove(removed)
	})
	if err != nil {
		return nil, err
	}
	return removed, nil
}

// expirable returns an expired conversation with all below it, or nothing if one of them must stay.
// Processes hold the locks held, and stand for those in stood.
func (t *tx) expirable(id ID, held []int64, stood map[ID][]int64) ([]ID, error) {
	all, err := t.withBelow(id)
	if err != nil {
		return nil, err
	}
	for i, id := range all {
		r, err := t.Load(id)
		if err != nil {
			return nil, err
		}
		lives := r.ExpiresAt.After(t.Now)
		if r.ExpiresAt.IsZero() {
			lives = i == 0 || r.Link != DelegationLink
		}
		if i == 0 {
			child := r
			for _, up := range t.Ancestors(id, r, &err) {
				if child.Link != DelegationLink {
					break
				}
				open := up.TurnOpen && (!up.NoAgent || up.Labels[LabelBatch] != "" || slices.Contains(held, int64(child.Parent))) // nothing resumes a server
				lives = lives || open || len(stood[child.Parent]) > 0
				child = up
			}
		}
		if lives || r.Pinned || err != nil {
			return nil, err
		}
	}
	return all, nil
}

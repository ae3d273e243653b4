package convstore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"jp/convstore/internal/db"
	"jp/convstore/internal/file"
)

// RemoveOptions says what becomes of the children of a removed conversation.
type RemoveOptions struct {
	Cascade bool // they are removed too, with all below them
	Promote bool // they become children of its parent, or roots
}

// Remove removes one conversation as RemoveAll does.
func (s *Store) Remove(ctx context.Context, id ID, o RemoveOptions) (removed []ID, err error) {
	return s.RemoveAll(ctx, []ID{id}, o)
}

// RemoveAll removes conversations one after the other in one transaction, all or none, and returns
// what it removed, parents first. One that went with an earlier one is passed over. It gives way,
// with a *BusyError, when one of them or anything below runs, and with a *ChildrenError when there
// are children that are not among ids and neither option is set. The records of delegations stay.
func (s *Store) RemoveAll(ctx context.Context, ids []ID, o RemoveOptions) (removed []ID, err error) {
	if len(ids) == 0 {
		return nil, nil
	}
	if o.Cascade && o.Promote {
		return nil, fmt.Errorf("conversation %s: remove: cascade and promote exclude each other", ids[0])
	}
	err = s.f.write(ctx, func(t *tx) error {
		removed = nil
		all, err := t.withBelow(ids...)
		if err != nil {
			return err
		}
		if err := t.takeAll(all); err != nil {
			return err
		}
		if !o.Cascade && !o.Promote {
			removed, err = t.removeNamed(ids)
			return err
		}
		went := make(map[ID]bool)
		for _, id := range ids {
			if went[id] {
				continue
			}
			gone, err := t.removeOne(id, o)
			if err != nil {
				return err
			}
			for _, id := range gone {
				went[id] = true
			}
			removed = append(removed, gone...)
		}
		return nil
	})
	if err != nil {
		return nil, absent(err, ids[0])
	}
	return removed, nil
}

// removeNamed removes conversations whose run locks, and those below them, are taken, when
// everything below them is named too.
func (t *tx) removeNamed(ids []ID) ([]ID, error) {
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
	gone, err := t.withBelow(tops...)
	if err != nil {
		return nil, err
	}
	return gone, t.remove(gone)
}

// removeOne removes a conversation whose run locks, and those below it, are taken, with one of the
// options.
func (t *tx) removeOne(id ID, o RemoveOptions) ([]ID, error) {
	r, err := t.loadWhole(id)
	if err != nil {
		return nil, err
	}
	gone := []ID{id}
	if o.Promote {
		err = t.promote(id, r)
	} else {
		gone, err = t.withBelow(id)
	}
	if err != nil {
		return nil, err
	}
	return gone, t.remove(gone)
}

// withBelow returns conversations and all that is below them, parents first, each once.
func (t *tx) withBelow(ids ...ID) (all []ID, err error) {
	seen := make(map[ID]bool)
	for _, id := range ids {
		if seen[id] {
			continue
		}
		if _, err := t.Load(id); err != nil {
			return nil, err
		}
		add := func(id ID) error {
			if !seen[id] {
				seen[id] = true
				all = append(all, id)
			}
			return nil
		}
		_ = add(id)
		if err := t.Below(id, false, t.Entries(), add); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// promote hands the children of a conversation to its parent. A child stays within reach of agents
// only where it was before: by an unbroken line of delegations.
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

// remove deletes conversations, children after their parents, and settles the delegations that
// nobody can settle any more.
func (t *tx) remove(ids []ID) error {
	if err := t.settleLost(ids); err != nil {
		return err
	}
	for _, id := range slices.Backward(ids) {
		r, err := t.Load(id)
		if err != nil {
			return err
		}
		if err := t.detach(id, r); err != nil {
			return err
		}
		if err := t.Expires(id, r.ExpiresAt, time.Time{}); err != nil {
			return err
		}
		for _, n := range []db.BucketNumber{db.Conversations, db.Listing, db.Configs, db.Imported} {
			if err := t.Drop(n, id.key()); err != nil {
				return err
			}
		}
		for _, n := range []db.BucketNumber{db.Events, db.EventIDs, db.Turns, db.Calls} {
			if err := t.DropPrefixed(n, id.key()); err != nil {
				return err
			}
		}
	}
	return nil
}

// settleLost settles the delegations of conversations, and by them, that nobody can settle any
// more.
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
// One stays as long as it is pinned or runs, and as long as anything below it does, or was forked
// by a person and has not expired itself.
func (s *Store) Expire(ctx context.Context) (removed []ID, err error) {
	due := false
	err = s.f.read(ctx, func(t *tx) error {
		k, _ := t.Bucket(db.Expiring).Cursor().First()
		due = k != nil && string(k) < string(expiryKey(t.Now, 0))
		return nil
	})
	if err != nil || !due {
		if err == file.ErrAbsent {
			err = nil
		}
		return nil, err
	}
	err = s.f.write(ctx, func(t *tx) error {
		removed = nil
		now := expiryKey(t.Now, 0)
		var expired []ID
		c := t.Bucket(db.Expiring).Cursor()
		for k, _ := c.First(); k != nil && string(k) < string(now); k, _ = c.Next() {
			expired = append(expired, idAt(k, 8))
		}
		gone := make(map[ID]bool)
		for _, id := range expired {
			if gone[id] {
				continue
			}
			all, err := t.expirable(id)
			if err != nil {
				return err
			}
			if len(all) == 0 {
				continue
			}
			err = t.takeAll(all)
			var busy *BusyError
			if errors.As(err, &busy) {
				continue
			}
			if err != nil {
				return err
			}
			if err := t.remove(all); err != nil {
				return err
			}
			for _, id := range all {
				gone[id] = true
			}
			removed = append(removed, all...)
		}
		if len(removed) == 0 {
			return db.ErrUnchanged
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return removed, nil
}

// expirable returns an expired conversation with all below it, or nothing when something holds them
// back.
func (t *tx) expirable(id ID) ([]ID, error) {
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
		if lives || r.Pinned {
			return nil, nil
		}
	}
	return all, nil
}

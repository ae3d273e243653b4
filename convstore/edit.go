package convstore

import (
	"context"
	"fmt"
	"maps"
	"reflect"
	"slices"
)

// Edit changes one conversation as EditAll does.
func (s *Store) Edit(ctx context.Context, id ID, edit func(*Conversation) error) error {
	return s.EditAll(ctx, []ID{id}, edit)
}

// EditAll changes conversations in one transaction, all or none: their title, whether they are
// hidden, pinned or archived, their labels, their expiry and their parent, 0 being none. It can
// remove what is allowed. It calls edit with each conversation inside the transaction; edit must
// not use the store, and can be called with the same conversation again. If edit fails, nothing is
// changed and EditAll returns the same error. A change of any other field is an error.
//
// A conversation that gets another parent takes along everything below it. It keeps its role, its
// grant and its depth. Its link becomes ForkLink: no agent's scope contains it, and from then on it
// has a ledger of its own. What it spent before stays in the old ledger. EditAll fails with a
// *CycleError if the parent is the conversation itself or below it, and with a *BusyError while
// anything runs in the old or the new tree.
func (s *Store) EditAll(ctx context.Context, ids []ID, edit func(*Conversation) error) error {
	if len(ids) == 0 {
		return nil
	}
	err := s.f.write(ctx, func(t *tx) error {
		m := mover{t, make(map[ID]bool)}
		for _, id := range ids {
			r, err := t.loadWhole(id)
			if err != nil {
				return err
			}
			was, err := t.conversation(id, r)
			if err != nil {
				return err
			}
			c := was
			c.Labels, c.Allowed = maps.Clone(was.Labels), slices.Clone(was.Allowed)
			if err := edit(&c); err != nil {
				return err
			}
			if field := frozen(was, c); field != "" {
				return fmt.Errorf("conversation %s: %s cannot be edited", id, field)
			}
			if err := t.edit(id, r, c); err != nil {
				return err
			}
			if c.Parent != was.Parent {
				if err := m.move(id, c.Parent); err != nil {
					return err
				}
			}
		}
		return nil
	})
	return absent(err, ids[0])
}

// frozen returns the name of a field that Edit must not change and that differs, or "".
func frozen(was, is Conversation) string {
	a, b := reflect.ValueOf(was), reflect.ValueOf(is)
	for i := range a.NumField() {
		switch name := a.Type().Field(i).Name; name {
		case "Title", "Hidden", "Pinned", "ArchivedAt", "ExpiresAt", "Labels", "Parent":
		case "Allowed":
			if slices.ContainsFunc(is.Allowed, func(a Allowance) bool { return !slices.Contains(was.Allowed, a) }) {
				return name
			}
		default:
			if !reflect.DeepEqual(a.Field(i).Interface(), b.Field(i).Interface()) {
				return name
			}
		}
	}
	return ""
}

// edit stores the fields that Edit may change, except for the parent.
func (t *tx) edit(id ID, r *record, c Conversation) error {
	if err := t.Expires(id, r.ExpiresAt, c.ExpiresAt); err != nil {
		return err
	}
	if c.Hidden != r.Hidden && r.Parent != 0 {
		by := -1
		if c.Hidden {
			by = 1
		}
		p, err := t.Load(r.Parent)
		if err != nil {
			return err
		}
		p.HiddenChildren += by
		if err := t.Save(r.Parent, p); err != nil {
			return err
		}
	}
	r.Title, r.Hidden, r.Pinned, r.Labels, r.Allowed = c.Title, c.Hidden, c.Pinned, c.Labels, c.Allowed
	r.ArchivedAt, r.ExpiresAt = c.ArchivedAt.UTC(), c.ExpiresAt.UTC()
	return t.Save(id, r)
}

// mover gives conversations other parents, within one transaction.
type mover struct {
	t    *tx
	idle map[ID]bool // roots of trees in which nothing runs, as long as the store is held
}

// move makes parent, 0 = none, the parent of a conversation.
func (m *mover) move(id, parent ID) error {
	t := m.t
	r, err := t.Load(id)
	if err != nil {
		return err
	}
	trees := []ID{id}
	if r.Parent != 0 {
		trees = append(trees, r.Parent)
	}
	if parent != 0 {
		p, err := t.loadWhole(parent)
		if err != nil {
			return err
		}
		if parent == id {
			return &CycleError{ID: id, Parent: parent}
		}
		for at := range t.Ancestors(parent, p, &err) {
			if at == id {
				return &CycleError{ID: id, Parent: parent}
			}
		}
		trees = append(trees, parent)
	}
	if err := m.requireIdleTrees(trees); err != nil {
		return err
	}
	moved, err := t.withBelow(id)
	if err != nil {
		return err
	}
	if err := t.settleLost(moved); err != nil {
		return err
	}
	if r, err = t.Load(id); err != nil { // settling may have touched it
		return err
	}
	if err := t.detach(id, r); err != nil {
		return err
	}
	if r.Parent, r.Link = parent, ForkLink; parent == 0 {
		r.Link = NoLink
		m.idle[id] = true
	}
	if err := t.attach(id, r); err != nil {
		return err
	}
	return t.Save(id, r)
}

// requireIdleTrees fails with a *BusyError if anything runs in the trees of these conversations.
func (m *mover) requireIdleTrees(in []ID) error {
	t := m.t
	var roots []ID
	for _, id := range in {
		r, err := t.Load(id)
		if err != nil {
			return err
		}
		root, err := t.rootOf(id, r)
		if err != nil {
			return err
		}
		if !m.idle[root] {
			roots = append(roots, root)
		}
	}
	all, err := t.withBelow(roots...)
	if err != nil {
		return err
	}
	for _, root := range roots {
		m.idle[root] = true
	}
	return t.requireIdle(all)
}

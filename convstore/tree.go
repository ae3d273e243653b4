package convstore

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"reflect"
	"slices"
	"time"
)

// New describes a conversation to create.
type New struct {
	Title     string
	Hidden    bool
	Pinned    bool
	ExpiresAt time.Time // zero = never
	Labels    map[string]string

	Profile     string
	ProfileArg  string // as in Conversation
	ProfileHash string
	Model       string
	Role        string
	Config      Config
}

// Create makes a conversation without a parent.
func (s *Store) Create(ctx context.Context, n New) (c Conversation, err error) {
	err = s.f.write(ctx, func(t *tx) error {
		r := &record{
			Title: n.Title, Hidden: n.Hidden, Pinned: n.Pinned, ExpiresAt: n.ExpiresAt.UTC(), Labels: n.Labels,
			Profile: n.Profile, ProfileArg: n.ProfileArg, ProfileHash: n.ProfileHash,
			Model: n.Model, Role: n.Role,
		}
		id, err := t.insert(r, n.Config)
		if err == nil {
			c, err = t.conversation(id, r)
		}
		return err
	})
	return c, err
}

// allocate returns the id of a new conversation: the present moment or, when that
// is not later than the last one allocated, the next free one after that. Only
// allocating moves the last one, so that an id is never given twice.
func (t *tx) allocate() (ID, error) {
	last := num(t.bucket(bMeta).Get([]byte(metaLast)))
	id := max(uint64(max(t.now.UnixMilli()/100, 0)), last+1)
	for t.bucket(bConversations).Get(be64(id)) != nil {
		id++
	}
	if id > math.MaxInt64 {
		return 0, fmt.Errorf("store %s: no ids left", t.f.path(fileStore))
	}
	return ID(id), t.put(bMeta, []byte(metaLast), be64(id))
}

// insert stores a new conversation, whose Parent and Link are set, and makes it
// known to its parent.
func (t *tx) insert(r *record, c Config) (ID, error) {
	id, err := t.allocate()
	if err != nil {
		return 0, err
	}
	r.CreatedAt = t.now.UTC()
	r.UpdatedAt = r.CreatedAt
	if err := t.saveConfig(id, c); err != nil {
		return 0, err
	}
	if err := t.expires(id, time.Time{}, r.ExpiresAt); err != nil {
		return 0, err
	}
	if err := t.attach(id, r); err != nil {
		return 0, err
	}
	return id, t.save(id, r)
}

// attach enters a conversation below its parent, or among the roots.
func (t *tx) attach(id ID, r *record) error {
	if r.Parent == 0 {
		return t.put(bRoots, id.key(), []byte{})
	}
	if err := t.put(bChildren, pairKey(r.Parent, uint64(id)), []byte{byte(r.Link)}); err != nil {
		return err
	}
	return t.count(r.Parent, 1, r.Hidden)
}

// detach is the reverse of attach.
func (t *tx) detach(id ID, r *record) error {
	if r.Parent == 0 {
		return t.drop(bRoots, id.key())
	}
	if err := t.drop(bChildren, pairKey(r.Parent, uint64(id))); err != nil {
		return err
	}
	return t.count(r.Parent, -1, r.Hidden)
}

// count corrects a parent's number of children.
func (t *tx) count(parent ID, by int, hidden bool) error {
	p, err := t.load(parent)
	if err != nil {
		return err
	}
	p.Children += by
	if hidden {
		p.HiddenChildren += by
	}
	return t.save(parent, p)
}

// expires moves a conversation's entry in the index of expiry.
func (t *tx) expires(id ID, was, is time.Time) error {
	if was.Equal(is) {
		return nil
	}
	if !was.IsZero() {
		if err := t.drop(bExpiring, expiryKey(was, id)); err != nil {
			return err
		}
	}
	if is.IsZero() {
		return nil
	}
	return t.put(bExpiring, expiryKey(is, id), []byte{})
}

// expiryKey sorts by time: seconds since 1970 with the sign turned round, for
// times before.
func expiryKey(at time.Time, id ID) []byte {
	return pairKey(ID(uint64(at.Unix())^1<<63), uint64(id))
}

// Fork describes what a person's fork of a conversation takes from it.
type Fork struct {
	Turns     Range // to copy; the zero Range is everything, LastTurns(0) nothing
	Title     string
	Hidden    bool
	ExpiresAt time.Time // zero = never

	// Config replaces the source's where it is given, together with the names
	// beside it.
	Config      *Config
	Profile     string
	ProfileArg  string // as in Conversation
	ProfileHash string
	Model       string
}

// Fork makes a child of src that begins with a copy of the chosen turns, numbered
// from 1, under event ids of their own. It inherits config, profile, model, role,
// labels, the tools and nesting of a grant and, without Fork.Title, the title;
// not the pin, the expiry, or what the turns have cost, so the records of model
// calls are left out. Src may be running meanwhile.
func (s *Store) Fork(ctx context.Context, src ID, f Fork) (c Conversation, err error) {
	err = s.f.write(ctx, func(t *tx) error {
		from, err := t.loadWhole(src)
		if err != nil {
			return err
		}
		config, err := t.config(src)
		if err != nil {
			return err
		}
		r := &record{
			Parent: src, Link: ForkLink, Depth: from.Depth,
			Title: from.Title, Hidden: f.Hidden, ExpiresAt: f.ExpiresAt.UTC(), Labels: maps.Clone(from.Labels),
			Profile: from.Profile, ProfileArg: from.ProfileArg, ProfileHash: from.ProfileHash,
			Model: from.Model, Role: from.Role,
		}
		if from.Grant != nil {
			// What a sub-agent was held to holds for a copy of it too; its deadline
			// and its money were its own.
			r.Grant = &Grant{Tools: slices.Clone(from.Grant.Tools), Authority: maps.Clone(from.Grant.Authority), MaxDepth: from.Grant.MaxDepth}
		}
		if f.Title != "" {
			r.Title = f.Title
		}
		if f.Config != nil {
			config = *f.Config
			r.Profile, r.ProfileArg, r.ProfileHash, r.Model = f.Profile, f.ProfileArg, f.ProfileHash, f.Model
		}
		id, err := t.insert(r, config)
		if err != nil {
			return err
		}
		if err := t.copyTurns(src, from, f.Turns, id, r); err != nil {
			return err
		}
		if err := t.save(id, r); err != nil {
			return err
		}
		c, err = t.conversation(id, r)
		return err
	})
	return c, absent(err, src)
}

// copyTurns appends the chosen turns of src to the new conversation id.
func (t *tx) copyTurns(src ID, from *record, turns Range, id ID, r *record) error {
	next, last, err := t.span(src, from, turns)
	if err != nil {
		return err
	}
	for next <= last {
		batch, err := t.events(src, next, last)
		if err != nil {
			return err
		}
		if len(batch) == 0 {
			break
		}
		for _, s := range batch {
			next = s.seq + 1
			if s.kind == kindModelCall {
				continue
			}
			e := s.stored
			e.id = []byte(NewEventID())
			body, err := decodeBody(e.body)
			if err != nil {
				return t.damaged("conversation %s: event %d: %w", src, s.seq, err)
			}
			if _, err := t.append(id, r, &e, body); err != nil {
				return err
			}
		}
	}
	r.UpdatedAt = r.CreatedAt
	return nil
}

// Edit changes a conversation's title, whether it is hidden, pinned or archived,
// its labels and its expiry. It calls edit, inside the transaction, with the
// conversation as it is; edit must not use the store. An error of edit undoes
// everything and is returned as it is, so is a change of anything else an error.
func (s *Store) Edit(ctx context.Context, id ID, edit func(*Conversation) error) error {
	err := s.f.write(ctx, func(t *tx) error {
		r, err := t.loadWhole(id)
		if err != nil {
			return err
		}
		was, err := t.conversation(id, r)
		if err != nil {
			return err
		}
		c := was
		c.Labels = maps.Clone(was.Labels)
		if err := edit(&c); err != nil {
			return err
		}
		if field := frozen(was, c); field != "" {
			return fmt.Errorf("conversation %s: %s cannot be edited", id, field)
		}
		return t.edit(id, r, c)
	})
	return absent(err, id)
}

// frozen names a field that differs although Edit must not change it.
func frozen(was, is Conversation) string {
	a, b := reflect.ValueOf(was), reflect.ValueOf(is)
	for i := range a.NumField() {
		switch name := a.Type().Field(i).Name; name {
		case "Title", "Hidden", "Pinned", "ArchivedAt", "ExpiresAt", "Labels":
		default:
			if !reflect.DeepEqual(a.Field(i).Interface(), b.Field(i).Interface()) {
				return name
			}
		}
	}
	return ""
}

// edit takes over what Edit may change.
func (t *tx) edit(id ID, r *record, c Conversation) error {
	if err := t.expires(id, r.ExpiresAt, c.ExpiresAt); err != nil {
		return err
	}
	if c.Hidden != r.Hidden && r.Parent != 0 {
		by := -1
		if c.Hidden {
			by = 1
		}
		p, err := t.load(r.Parent)
		if err != nil {
			return err
		}
		p.HiddenChildren += by
		if err := t.save(r.Parent, p); err != nil {
			return err
		}
	}
	r.Title, r.Hidden, r.Pinned, r.Labels = c.Title, c.Hidden, c.Pinned, c.Labels
	r.ArchivedAt, r.ExpiresAt = c.ArchivedAt.UTC(), c.ExpiresAt.UTC()
	return t.save(id, r)
}

// RemoveOptions says what becomes of the children of a removed conversation.
type RemoveOptions struct {
	Cascade bool // they are removed too, with all below them
	Promote bool // they become children of its parent, or roots
}

// Remove removes a conversation, and returns what it removed, parents first. It
// gives way, with a *BusyError, when the conversation or anything below it runs,
// and with a *ChildrenError when there are children and neither option is set.
// The records of delegations stay.
func (s *Store) Remove(ctx context.Context, id ID, o RemoveOptions) (removed []ID, err error) {
	if o.Cascade && o.Promote {
		return nil, fmt.Errorf("conversation %s: remove: cascade and promote exclude each other", id)
	}
	err = s.f.write(ctx, func(t *tx) error {
		r, err := t.loadWhole(id)
		if err != nil {
			return err
		}
		if r.Children > 0 && !o.Cascade && !o.Promote {
			return &ChildrenError{ID: id, Children: r.Children}
		}
		all := []ID{id}
		if err := t.below(id, false, t.entries(), func(below ID) error {
			all = append(all, below)
			return nil
		}); err != nil {
			return err
		}
		release, err := t.takeAll(all)
		if err != nil {
			return err
		}
		defer release()
		if removed = all; o.Promote {
			removed = all[:1]
			if err := t.promote(id, r); err != nil {
				return err
			}
		}
		return t.remove(removed)
	})
	if err != nil {
		return nil, absent(err, id)
	}
	return removed, nil
}

// promote hands the children of a conversation to its parent. A child stays
// within reach of agents only where it was before: by an unbroken line of
// delegations.
func (t *tx) promote(id ID, r *record) error {
	var children []ID
	if err := t.children(id, func(child ID, _ Link) error {
		children = append(children, child)
		return nil
	}); err != nil {
		return err
	}
	for _, child := range children {
		c, err := t.load(child)
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
		if err := t.save(child, c); err != nil {
			return err
		}
	}
	return nil
}

// remove deletes conversations, children after their parents, and settles the
// delegations that nobody can settle any more.
func (t *tx) remove(ids []ID) error {
	ledgers := make(map[ID]bool)
	for _, id := range ids {
		r, err := t.load(id)
		if err != nil {
			return err
		}
		root, err := t.ledgerOf(id, r)
		if err != nil {
			return err
		}
		ledgers[root] = true
		if r.Run != nil {
			ledgers[r.Run.Root] = true
		}
	}
	for root := range ledgers {
		if err := t.reconcile(root, 0); err != nil {
			return err
		}
	}
	for _, id := range slices.Backward(ids) {
		r, err := t.load(id)
		if err != nil {
			return err
		}
		if err := t.detach(id, r); err != nil {
			return err
		}
		if err := t.expires(id, r.ExpiresAt, time.Time{}); err != nil {
			return err
		}
		for _, n := range []bucketNumber{bConversations, bListing, bConfigs} {
			if err := t.drop(n, id.key()); err != nil {
				return err
			}
		}
		for _, n := range []bucketNumber{bEvents, bEventIDs, bTurns, bCalls} {
			if err := t.dropPrefixed(n, id.key()); err != nil {
				return err
			}
		}
	}
	return nil
}

// Expire removes the conversations that have expired, with all below them, and
// returns their ids. One stays as long as it is pinned or runs, and as long as
// anything below it does, or was forked by a person and has not expired itself.
func (s *Store) Expire(ctx context.Context) (removed []ID, err error) {
	due := false
	err = s.f.read(ctx, func(t *tx) error {
		k, _ := t.bucket(bExpiring).Cursor().First()
		due = k != nil && string(k) < string(expiryKey(t.now, 0))
		return nil
	})
	if err != nil || !due {
		if err == errAbsent {
			err = nil
		}
		return nil, err
	}
	err = s.f.write(ctx, func(t *tx) error {
		removed = nil
		now := expiryKey(t.now, 0)
		var expired []ID
		c := t.bucket(bExpiring).Cursor()
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
			release, err := t.takeAll(all)
			var busy *BusyError
			if errors.As(err, &busy) {
				continue
			}
			if err != nil {
				return err
			}
			defer release()
			if err := t.remove(all); err != nil {
				return err
			}
			for _, id := range all {
				gone[id] = true
			}
			removed = append(removed, all...)
		}
		if len(removed) == 0 {
			return errUnchanged
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return removed, nil
}

// expirable returns an expired conversation with all below it, or nothing when
// something holds them back.
func (t *tx) expirable(id ID) ([]ID, error) {
	all := []ID{id}
	if err := t.below(id, false, t.entries(), func(below ID) error {
		all = append(all, below)
		return nil
	}); err != nil {
		return nil, err
	}
	for i, id := range all {
		r, err := t.load(id)
		if err != nil {
			return nil, err
		}
		lives := r.ExpiresAt.After(t.now)
		if r.ExpiresAt.IsZero() {
			lives = i == 0 || r.Link != DelegationLink
		}
		if lives || r.Pinned {
			return nil, nil
		}
	}
	return all, nil
}

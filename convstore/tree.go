package convstore

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"jp/convstore/internal/db"
	"jp/convstore/internal/stored"
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

// Allocate returns the id of a new conversation: the present time or, if that is not later than the
// last allocated id, the next free id after that. It records the id as the last one, so that no id
// is used twice.
func (t *tx) Allocate() (ID, error) {
	last := db.Num(t.Bucket(db.Meta).Get([]byte(db.LastKey)))
	id := max(uint64(max(t.Now.UnixMilli()/100, 0)), last+1)
	for t.Bucket(db.Conversations).Get(db.Key(id)) != nil || t.Bucket(db.Imports).Get(db.Key(id)) != nil {
		id++
	}
	if id > math.MaxInt64 {
		return 0, fmt.Errorf("store %s: no ids left", t.F.StorePath())
	}
	return ID(id), t.Put(db.Meta, []byte(db.LastKey), db.Key(id))
}

// insert stores a new conversation, whose Parent and Link are set, and adds it to its parent's
// children.
func (t *tx) insert(r *record, c Config) (ID, error) {
	id, err := t.Allocate()
	if err != nil {
		return 0, err
	}
	r.CreatedAt = t.Now.UTC()
	r.UpdatedAt = r.CreatedAt
	if err := t.SaveConfig(id, c); err != nil {
		return 0, err
	}
	if err := t.Expires(id, time.Time{}, r.ExpiresAt); err != nil {
		return 0, err
	}
	if err := t.attach(id, r); err != nil {
		return 0, err
	}
	return id, t.Save(id, r)
}

// attach adds a conversation to the children of its parent, or to the roots.
func (t *tx) attach(id ID, r *record) error {
	if r.Parent == 0 {
		return t.Put(db.Roots, id.key(), []byte{})
	}
	if err := t.Put(db.Children, db.PairKey(r.Parent, uint64(id)), []byte{byte(r.Link)}); err != nil {
		return err
	}
	return t.count(r.Parent, 1, r.Hidden)
}

// detach is the reverse of attach.
func (t *tx) detach(id ID, r *record) error {
	t.roots = nil
	if r.Parent == 0 {
		return t.Drop(db.Roots, id.key())
	}
	if err := t.Drop(db.Children, db.PairKey(r.Parent, uint64(id))); err != nil {
		return err
	}
	return t.count(r.Parent, -1, r.Hidden)
}

// count changes a parent's number of children.
func (t *tx) count(parent ID, by int, hidden bool) error {
	p, err := t.Load(parent)
	if err != nil {
		return err
	}
	p.Children += by
	if hidden {
		p.HiddenChildren += by
	}
	return t.Save(parent, p)
}

// Expires changes a conversation's entry in bucket expiring.
func (t *tx) Expires(id ID, was, is time.Time) error {
	if was.Equal(is) {
		return nil
	}
	if !was.IsZero() {
		if err := t.Drop(db.Expiring, expiryKey(was, id)); err != nil {
			return err
		}
	}
	if is.IsZero() {
		return nil
	}
	return t.Put(db.Expiring, expiryKey(is, id), []byte{})
}

// expiryKey sorts by time: seconds since 1970 with the sign bit inverted, so that earlier times
// sort first.
func expiryKey(at time.Time, id ID) []byte {
	return db.PairKey(ID(uint64(at.Unix())^1<<63), uint64(id))
}

// Fork describes a person's fork of a conversation.
type Fork struct {
	Turns     Range // turns to copy; the zero Range is everything, LastTurns(0) nothing
	Title     string
	Hidden    bool
	ExpiresAt time.Time // zero = never
	Role      string    // "" = that of the source

	// Config replaces that of the source if it is not nil, together with the four fields below it.
	Config      *Config
	Profile     string
	ProfileArg  string // as in Conversation
	ProfileHash string
	Model       string
}

// Fork makes a child of src that begins with a copy of the chosen turns, numbered from 1, with new
// event ids. It inherits config, profile, model and labels, from a grant the tools and the depth,
// with turns the present limits, and the title and role unless Fork sets them. It inherits neither
// pin nor expiry, nor what the turns cost: model calls are not copied. Src may be running.
func (s *Store) Fork(ctx context.Context, src ID, f Fork) (Conversation, error) {
	made, err := s.ForkAll(ctx, []ID{src}, []Fork{f})
	if err != nil {
		return Conversation{}, err
	}
	return made[0], nil
}

// ForkAll makes a fork of each source by the Fork with the same index, all of them or none.
func (s *Store) ForkAll(ctx context.Context, srcs []ID, forks []Fork) (made []Conversation, err error) {
	if len(srcs) == 0 {
		return nil, nil
	}
	err = s.f.write(ctx, func(t *tx) error {
		made = nil
		for i, src := range srcs {
			c, err := t.fork(src, forks[i])
			if err != nil {
				return err
			}
			made = append(made, c)
		}
		return nil
	})
	if err != nil {
		return nil, absent(err, srcs[0])
	}
	return made, nil
}

func (t *tx) fork(src ID, f Fork) (Conversation, error) {
	from, err := t.loadWhole(src)
	if err != nil {
		return Conversation{}, err
	}
	config, err := t.Config(src)
	if err != nil {
		return Conversation{}, err
	}
	r := &record{
		Parent: src, Link: ForkLink, Depth: from.Depth,
		Title: cmp.Or(f.Title, from.Title), Hidden: f.Hidden, ExpiresAt: f.ExpiresAt.UTC(), Labels: maps.Clone(from.Labels),
		Profile: from.Profile, ProfileArg: from.ProfileArg, ProfileHash: from.ProfileHash,
		Model: from.Model, Role: cmp.Or(f.Role, from.Role),
	}
	if from.Grant != nil {
		// A copy of a sub-agent has the same authority. The deadline and the budget were for the
		// original only.
		r.Grant = &Grant{Tools: slices.Clone(from.Grant.Tools), Authority: maps.Clone(from.Grant.Authority), Permissions: maps.Clone(from.Grant.Permissions), MaxDepth: from.Grant.MaxDepth}
	}
	if f.Config != nil {
		config = *f.Config
		r.Profile, r.ProfileArg, r.ProfileHash, r.Model = f.Profile, f.ProfileArg, f.ProfileHash, f.Model
	}
	id, err := t.insert(r, config)
	if err != nil {
		return Conversation{}, err
	}
	if err := t.copyTurns(src, from, f.Turns, id, r); err != nil {
		return Conversation{}, err
	}
	if r.Turns > 0 {
		r.Limits = from.Limits.Clone() // those in its events can be a stranger's
	}
	if err := t.Save(id, r); err != nil {
		return Conversation{}, err
	}
	return t.conversation(id, r)
}

// copyTurns appends the chosen turns of src to the new conversation id.
func (t *tx) copyTurns(src ID, from *record, turns Range, id ID, r *record) error {
	next, last, err := t.span(src, from, turns)
	if err != nil {
		return err
	}
	for next <= last {
		batch, err := t.Events(src, next, last)
		if err != nil {
			return err
		}
		if len(batch) == 0 {
			break
		}
		for _, s := range batch {
			next = s.Seq + 1
			if s.Kind == stored.KindModelCall {
				continue
			}
			e := s.Event
			e.ID = []byte(NewEventID())
			body, err := BodyOf(e)
			if err != nil {
				return t.Damaged("conversation %s: event %d: %w", src, s.Seq, err)
			}
			if _, err := t.Append(id, r, &e, body); err != nil {
				return err
			}
			if s.Seq <= from.Foreign {
				r.Foreign = r.LastSeq
			}
		}
	}
	r.UpdatedAt = r.CreatedAt
	return nil
}

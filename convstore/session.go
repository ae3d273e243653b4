package convstore

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"jp/convstore/internal/db"
	"jp/tools/jsondoc"
)

// session is the state of a terminal session, or of the session that $JP_SESSION names.
type session struct {
	Active   ID        `json:"active"`
	Previous ID        `json:"previous,omitzero"`
	Since    time.Time `json:"since"`
}

const maxSessionName = 1024 // longest name of a session, in bytes; bbolt accepts such keys

func (t *tx) session(name string) (s session, err error) {
	if v := t.Bucket(db.Sessions).Get([]byte(name)); v != nil {
		if err = json.Unmarshal(v, &s); err != nil {
			return session{}, t.Damaged("session %q: %w", name, err)
		}
	}
	return s, nil
}

// Activate makes a conversation the active one of a session. The one that was active becomes the
// previous one.
func (s *Store) Activate(ctx context.Context, name string, id ID) error {
	return absent(s.f.write(ctx, func(t *tx) error { return t.activate(name, id) }), id)
}

// activate is Store.Activate. It fails with db.ErrUnchanged if the conversation is active already.
func (t *tx) activate(name string, id ID) error {
	if name == "" || len(name) > maxSessionName {
		return fmt.Errorf("session %.40q: want a name of 1 to %d bytes", name, maxSessionName)
	}
	if _, err := t.Load(id); err != nil {
		return err
	}
	now, err := t.session(name)
	switch {
	case err != nil:
		return err
	case now.Active == id:
		return db.ErrUnchanged
	}
	v, err := jsondoc.Encode(session{Active: id, Previous: now.Active, Since: t.Now.UTC()})
	if err != nil {
		return err
	}
	return t.Put(db.Sessions, []byte(name), v)
}

// Active returns the active and the previous conversation of a session: zero if there is none or it
// was removed.
func (s *Store) Active(ctx context.Context, name string) (active, previous ID, err error) {
	err = s.f.read(ctx, func(t *tx) error {
		now, err := t.session(name)
		active, previous = t.existing(now.Active), t.existing(now.Previous)
		return err
	})
	return active, previous, present(err)
}

// existing returns id if there is such a conversation, else zero.
func (t *tx) existing(id ID) ID {
	if t.Bucket(db.Conversations).Get(id.key()) == nil {
		return 0
	}
	return id
}

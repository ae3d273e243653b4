package convstore

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"time"

	"jp/convstore/internal/db"
)

// Digest identifies what an agent is asked: the words, what comes with them, and the config that
// answers. Who makes it decides what is in it; this package only compares. The zero Digest is none.
type Digest [sha256.Size]byte

// Answer is a turn that ended ok, in the first run of a request with a Digest.
type Answer struct {
	ID   ID
	Turn int
}

// Answer returns the latest turn in view that was asked what d identifies and ended ok: the first
// turn of any conversation or, if of is not 0, any turn of that one. Conversations that have
// expired hold no answer. It reads what has that digest and nothing else.
func (v View) Answer(ctx context.Context, d Digest, of ID) (a Answer, ok bool, err error) {
	err = v.f.read(ctx, func(t *tx) error {
		a, ok, err = v.answer(t, d, of)
		return err
	})
	return a, ok, present(err)
}

func (v View) answer(t *tx, d Digest, of ID) (Answer, bool, error) {
	if d == (Digest{}) {
		return Answer{}, false, nil
	}
	prefix := d[:]
	if of != 0 {
		prefix = append(prefix[:len(prefix):len(prefix)], of.key()...)
	}
	c := t.Bucket(db.Answers).Cursor()
	k, _ := c.Seek(append(bytes.Clone(prefix), bytes.Repeat([]byte{0xff}, 13)...)) // what comes behind all keys with this prefix
	if k == nil {
		k, _ = c.Last()
	} else {
		k, _ = c.Prev()
	}
	for ; k != nil && bytes.HasPrefix(k, prefix); k, _ = c.Prev() {
		a, err := answerAt(k)
		if err != nil {
			return Answer{}, false, t.Damaged("answers: %w", err)
		}
		if of == 0 && a.Turn != 1 {
			continue
		}
		if seen, err := v.shows(t, a.ID); seen || err != nil {
			return a, seen, err
		}
	}
	return Answer{}, false, nil
}

// shows reports whether a conversation is in view and has not expired, nor any above it.
func (v View) shows(t *tx, id ID) (bool, error) {
	r, err := v.within(t, id)
	if _, ok := errors.AsType[*ScopeError](err); ok {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	expired := func(at time.Time) bool { return !at.IsZero() && !at.After(t.Now) }
	gone := expired(r.ExpiresAt)
	for _, up := range t.Ancestors(id, r, &err) {
		gone = gone || expired(up.ExpiresAt)
	}
	return !gone && err == nil, err
}

func answerAt(k []byte) (Answer, error) {
	if len(k) != sha256.Size+12 {
		return Answer{}, fmt.Errorf("%x: malformed key", k)
	}
	at := k[sha256.Size:]
	return Answer{ID: idAt(at, 0), Turn: int(db.Num(append(make([]byte, 4), at[8:]...)))}, nil
}

// saveAnswer makes the last turn of a conversation, which has ended ok, the answer to what it was
// asked. The caller saves the record.
func (t *tx) saveAnswer(id ID, r *record) error {
	asked := r.Asked
	r.Asked = nil
	if len(asked) == 0 {
		return nil
	}
	if len(asked) != sha256.Size {
		return fmt.Errorf("a digest of %d bytes", len(asked))
	}
	at := db.TurnKey(id, r.Turns)
	seq := t.Bucket(db.Turns).Get(at)
	if len(seq) != 8 {
		return t.Damaged("conversation %s: turn %d is not indexed", id, r.Turns)
	}
	if err := t.Put(db.Turns, at, append(bytes.Clone(seq), asked...)); err != nil {
		return err
	}
	return t.Put(db.Answers, append(asked, at...), nil)
}

// dropAnswers removes the answers of a conversation. The caller removes its turns.
func (t *tx) dropAnswers(id ID) error {
	var keys [][]byte
	if err := t.Prefixed(db.Turns, id.key(), func(k, v []byte) error {
		if len(v) > 8 {
			keys = append(keys, append(bytes.Clone(v[8:]), k...))
		}
		return nil
	}); err != nil {
		return err
	}
	for _, k := range keys {
		if err := t.Drop(db.Answers, k); err != nil {
			return err
		}
	}
	return nil
}

// asked returns a digest as a record holds it; nil for none.
func (d Digest) asked() []byte {
	if d == (Digest{}) {
		return nil
	}
	return d[:]
}

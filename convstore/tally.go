package convstore

import (
	"encoding/binary"
	"encoding/json"
	"errors"

	"jp/convstore/internal/db"
)

// The delegations of a turn are counted when they are made, so that the last of many is as fast as
// the first. Records of older versions have no such count. There the delegations are counted once.

// tallied returns the counts of the present turn of a conversation.
func (t *tx) tallied(id ID, r *record) (tallied, error) {
	if r.Made != nil {
		return *r.Made, nil
	}
	var m tallied
	err := t.Prefixed(db.Calls, id.key(), func(_, v []byte) error {
		if len(v) != 20 {
			return t.Damaged("calls of %s: malformed entry", id)
		}
		if int(binary.BigEndian.Uint32(v[16:])) != r.Turns {
			return nil
		}
		d, err := t.delegation(idAt(v, 0), db.Num(v[8:]))
		if err == nil && !d.Unstarted && !d.Person {
			m.Calls++
		}
		return err
	})
	if err == nil {
		m.Forked, err = t.forkedSince(id, r)
	}
	return m, err
}

// forkedSince counts the delegations of a ledger in the present turn of its root that forked their
// child. Numbers and turns only grow, so it reads backwards from the end, and only the fields that
// it needs.
func (t *tx) forkedSince(root ID, r *record) (n int, err error) {
	c := t.Bucket(db.Delegations).Cursor()
	back := c.Prev
	if after, _ := c.Seek(db.PairKey(root+1, 0)); after == nil {
		back = c.Last
	}
	for k, v := back(); idAt(k, 0) == root; k, v = c.Prev() {
		var d struct {
			Session   int  `json:"session"`
			Fresh     bool `json:"fresh"`
			Imported  bool `json:"imported"`
			Unstarted bool `json:"unstarted"`
		}
		if err := json.Unmarshal(v, &d); err != nil {
			return 0, t.Damaged("delegation of %s: %w", root, err)
		}
		if d.Session < r.Turns || db.Num(k[8:]) <= r.After {
			break
		}
		if d.Fresh && !d.Imported && !d.Unstarted {
			n++
		}
	}
	return n, nil
}

// tally adds by to the counts of a delegation's caller and of the root of its ledger: 1 for a new
// delegation, -1 for one that no longer counts.
func (t *tx) tally(d Delegation, by int) error {
	count := func(id ID, turn int, add func(*tallied)) error {
		r, err := t.Load(id)
		switch {
		case errors.As(err, new(*NotFoundError)):
			return nil
		case err != nil:
			return err
		case r.Turns != turn || d.Number <= r.After:
			return nil
		}
		m, err := t.tallied(id, r)
		if err != nil {
			return err
		}
		add(&m)
		r.Made = &m
		return t.Save(id, r)
	}
	if !d.Person {
		if err := count(d.Caller, d.Turn, func(m *tallied) { m.Calls += by }); err != nil {
			return err
		}
	}
	if !d.Fresh {
		return nil
	}
	return count(d.Root, d.Session, func(m *tallied) { m.Forked += by })
}

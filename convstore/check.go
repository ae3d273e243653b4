package convstore

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"time"

	"jp/convstore/amount"
	"jp/convstore/internal/db"
	"jp/convstore/internal/stored"
)

// checkInPlace is the largest size in bytes of a store that is checked while its lock is held,
// which takes a second or two.
const checkInPlace = 128 << 20

// Check reads the whole store and reports everything that is wrong, as a *DamagedError: first the
// file's pages, then bbolt's own rules and, if these hold, the rules of the drawing in the package
// comment. A store that does not exist is sound.
//
// Check copies a large store to a temporary file beside it. Others then wait only while the file is
// read once. If there is no room for the copy, they wait until Check has ended.
func (s *Store) Check(ctx context.Context) error {
	return present(s.f.check(ctx, checkInPlace))
}

func (f *base) check(ctx context.Context, inPlace int64) error {
	check := func(h *db.Handle) error { return f.checkAll(ctx, h) }
	if info, err := os.Lstat(f.StorePath()); err == nil && info.Size() > inPlace {
		file, err := f.TempCopy(ctx, f.LockAny(ctx))
		if err != nil {
			return err
		}
		if file != nil {
			defer file.Close()
			return f.Guarded(func(h *db.Handle) error { return f.OpenCopy(file, h) }, check)
		}
	}
	return f.Session(ctx, false, check)
}

// checkAll checks an open file.
func (f *base) checkAll(ctx context.Context, h *db.Handle) error {
	if err := f.CheckPages(h.File); err != nil {
		return err
	}
	return f.view(h, func(t *tx) error {
		// CheckPages has read every page that bbolt reads now.
		var problems []error
		for problem := range t.Bolt.Check() {
			problems = append(problems, problem)
		}
		if len(problems) > 0 {
			return t.Damaged("%w", errors.Join(problems...))
		}
		c := checker{t: t, records: make(map[ID]*record), found: make(map[ID]counts)}
		return c.run(ctx)
	})
}

// checker compares records and indexes with the events and delegations that they were made from.
type checker struct {
	t        *tx
	records  map[ID]*record
	found    map[ID]counts
	staged   map[ID]bool // conversations being imported
	problems []error
}

// counts are the values that a record should have, counted again.
type counts struct {
	lastSeq, ids             uint64
	events, turns            int
	indexed                  int
	children, hiddenChildren int
	usage                    Usage
	cost                     int64
	unpriced                 int
	since                    Spend // of the last turn
	open                     bool
	state                    State
	reason                   string
}

// bounded returns n with no amount above the bound that records keep; see record.rebase.
func (n counts) bounded() counts {
	spent := Spend{Usage: n.usage, CostNano: n.cost, Unpriced: n.unpriced}.Bounded()
	n.usage, n.cost, n.since = spent.Usage, spent.CostNano, n.since.Bounded()
	return n
}

// maxProblems bounds a report. Nobody repairs a store with more problems by hand.
const maxProblems = 20

func (c *checker) problem(format string, args ...any) {
	if len(c.problems) < maxProblems {
		c.problems = append(c.problems, fmt.Errorf(format, args...))
	}
}

func (c *checker) run(ctx context.Context) error {
	for _, step := range []func() error{
		c.readRecords, c.checkImports, c.checkListing, c.checkTree, c.readEvents, c.checkEventIDs, c.checkTurns, c.checkAnswers, c.compare,
		c.checkConfigs, c.checkDelegations, c.checkExpiring, c.checkSessions,
	} {
		if err := step(); err != nil {
			return err
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
	}
	if len(c.problems) > 0 {
		return c.t.Damaged("%w", errors.Join(c.problems...))
	}
	return nil
}

// each calls look with each entry of a bucket.
func (c *checker) each(n db.BucketNumber, look func(k, v []byte)) error {
	return c.t.Prefixed(n, nil, func(k, v []byte) error { look(k, v); return nil })
}

func (c *checker) readRecords() error {
	last := db.Num(c.t.Bucket(db.Meta).Get([]byte(db.LastKey)))
	return c.each(db.Conversations, func(k, _ []byte) {
		id := idAt(k, 0)
		if len(k) != 8 || id <= 0 {
			c.problem("conversations: malformed key %x", k)
			return
		}
		r, err := c.t.Load(id)
		if err != nil {
			c.problem("%w", err)
			return
		}
		c.records[id] = r
		if last == 0 {
			c.problem("meta: there are conversations, but no last id")
			last = 1
		}
	})
}

// checkImports collects what is being imported: there, events are stored before the record.
func (c *checker) checkImports() error {
	c.staged = make(map[ID]bool)
	if err := c.each(db.Imports, func(k, v []byte) {
		_, err := parseStaged(v)
		switch {
		case err != nil || len(k) != 8 && len(k) != 16:
			c.problem("imports: %x: malformed", k)
		case len(k) == 8 && c.records[idAt(k, 0)] != nil:
			c.problem("imports: %s is a conversation already", idAt(k, 0))
		case len(k) == 8:
			c.staged[idAt(k, 0)] = true
		}
	}); err != nil {
		return err
	}
	return c.each(db.Imported, func(k, _ []byte) {
		if len(k) != 8 || c.records[idAt(k, 0)] == nil {
			c.problem("imported: %x belongs to no conversation", k)
			return
		}
		if _, err := c.t.Imported(idAt(k, 0)); err != nil {
			c.problem("%w", err)
		}
	})
}

func (c *checker) checkListing() error {
	for id, r := range c.records {
		if !bytes.Equal(c.t.Bucket(db.Listing).Get(id.key()), r.Entry()) {
			c.problem("conversation %s: its entry in the listing is wrong or missing", id)
		}
	}
	return c.each(db.Listing, func(k, _ []byte) {
		if len(k) != 8 || c.records[idAt(k, 0)] == nil {
			c.problem("listing: %x belongs to no conversation", k)
		}
	})
}

func (c *checker) checkTree() error {
	sound := make(map[ID]bool, len(c.records)) // below a root: each ancestor is looked at only once
	for id, r := range c.records {
		way := []ID{id}
		var err error
		for up := range c.t.Ancestors(id, r, &err) {
			if sound[up] {
				break
			}
			way = append(way, up)
		}
		for _, at := range way {
			sound[at] = err == nil
		}
		if err != nil {
			c.problem("conversation %s: above it: %w", id, err)
		}
		if (r.Parent == 0) != (r.Link == NoLink) {
			c.problem("conversation %s: parent %q and link %q contradict", id, r.Parent, r.Link)
		}
		if r.Parent == 0 {
			if c.t.Bucket(db.Roots).Get(id.key()) == nil {
				c.problem("conversation %s: missing among the roots", id)
			}
			continue
		}
		n := c.found[r.Parent]
		n.children++
		if r.Hidden {
			n.hiddenChildren++
		}
		c.found[r.Parent] = n
		if v := c.t.Bucket(db.Children).Get(db.PairKey(r.Parent, uint64(id))); len(v) != 1 || Link(v[0]) != r.Link {
			c.problem("conversation %s: missing among the children of %s", id, r.Parent)
		}
	}
	if err := c.each(db.Roots, func(k, _ []byte) {
		if r := c.records[idAt(k, 0)]; len(k) != 8 || r == nil || r.Parent != 0 {
			c.problem("roots: %x is not a root", k)
		}
	}); err != nil {
		return err
	}
	return c.each(db.Children, func(k, _ []byte) {
		if r := c.records[idAt(k, 8)]; len(k) != 16 || r == nil || r.Parent != idAt(k, 0) {
			c.problem("children: %x is not a child", k)
		}
	})
}

func (c *checker) readEvents() error {
	return c.each(db.Events, func(k, v []byte) {
		id := idAt(k, 0)
		if c.staged[id] {
			return
		}
		if len(k) != 16 || c.records[id] == nil {
			c.problem("events: %x belongs to no conversation", k)
			return
		}
		n, seq := c.found[id], db.Num(k[8:])
		defer func() { c.found[id] = n }()
		if seq != n.lastSeq+1 {
			c.problem("conversation %s: event %d follows %d", id, seq, n.lastSeq)
		}
		n.lastSeq = seq
		n.events++
		s, err := stored.Parse(v)
		if err != nil {
			c.problem("conversation %s: event %d: %w", id, seq, err)
			return
		}
		body, err := DecodeBody(s.Body)
		if err != nil {
			c.problem("conversation %s: event %d: %w", id, seq, err)
			return
		}
		if KindOf(body) != s.Kind && s.Kind < stored.KindCount { // a later version may have other kinds
			c.problem("conversation %s: event %d: kind %d, its body has %d", id, seq, s.Kind, KindOf(body))
		}
		if stored.Loose(s.Body) && !s.Loose {
			c.problem("conversation %s: event %d: not marked as loose", id, seq)
		}
		switch b := body.(type) {
		case TurnStart:
			n.turns++
			n.open = true
			n.since = Spend{Usage: n.usage, CostNano: n.cost, Unpriced: n.unpriced}
			if v := c.t.Bucket(db.Turns).Get(db.TurnKey(id, n.turns)); len(v) != 8 && len(v) != 8+len(Digest{}) || db.Num(v) != seq {
				c.problem("conversation %s: turn %d is not indexed", id, n.turns)
			}
		case TurnEnd:
			n.open, n.state, n.reason = false, b.State, b.Reason
		case ModelCall:
			n.usage = n.usage.Add(b.Usage)
			if b.CostNano == nil {
				n.unpriced++
			} else {
				n.cost = amount.Sum(n.cost, *b.CostNano)
			}
		}
		if int(s.Turn) != n.turns {
			c.problem("conversation %s: event %d: in turn %d, should be %d", id, seq, s.Turn, n.turns)
		}
		if v := c.t.Bucket(db.EventIDs).Get(db.TextKey(id, string(s.ID))); len(v) != 8 || db.Num(v) != seq {
			c.problem("conversation %s: event %d: id %q is not indexed", id, seq, s.ID)
		}
	})
}

func (c *checker) checkEventIDs() error {
	return c.each(db.EventIDs, func(k, v []byte) {
		id := idAt(k, 0)
		if c.staged[id] {
			return
		}
		if c.records[id] == nil {
			c.problem("event ids: %x belongs to no conversation", k)
			return
		}
		n := c.found[id]
		n.ids++
		c.found[id] = n
	})
}

func (c *checker) checkTurns() error {
	return c.each(db.Turns, func(k, v []byte) {
		id := idAt(k, 0)
		if c.staged[id] {
			return
		}
		if len(k) != 12 || c.records[id] == nil {
			c.problem("turns: %x belongs to no conversation", k)
			return
		}
		n := c.found[id]
		n.indexed++
		c.found[id] = n
		if d := v[min(8, len(v)):]; len(d) > 0 && c.t.Bucket(db.Answers).Get(append(bytes.Clone(d), k...)) == nil {
			c.problem("turns: %x is not in answers", k)
		}
	})
}

func (c *checker) checkAnswers() error {
	return c.each(db.Answers, func(k, _ []byte) {
		a, err := answerAt(k)
		if err != nil {
			c.problem("answers: %w", err)
		} else if v := c.t.Bucket(db.Turns).Get(db.TurnKey(a.ID, a.Turn)); len(v) < 8 || !bytes.HasPrefix(k, v[8:]) || len(v) == 8 {
			c.problem("answers: %x belongs to no turn that was asked this", k)
		}
	})
}

// compare compares the records with what was counted.
func (c *checker) compare() error {
	for _, id := range slices.Sorted(maps.Keys(c.records)) {
		r, n := c.records[id], c.found[id]
		is := counts{
			lastSeq: r.LastSeq, ids: r.LastSeq, events: r.Events, turns: r.Turns, indexed: r.Turns,
			children: r.Children, hiddenChildren: r.HiddenChildren,
			usage: r.Usage, cost: r.CostNano, unpriced: r.Unpriced, since: r.Since,
			open: r.TurnOpen, state: r.State, reason: r.Reason,
		}
		if is.bounded() != n.bounded() {
			c.problem("conversation %s: its record says %+v, counted %+v", id, is, n)
		}
	}
	return nil
}

func (c *checker) checkConfigs() error {
	for id, r := range c.records {
		if _, err := c.t.Config(id); err != nil {
			c.problem("%w", err)
		}
		if r.Imported && c.t.Bucket(db.Imported).Get(id.key()) == nil {
			c.problem("conversation %s: what was imported with it is missing", id)
		}
	}
	return c.each(db.Configs, func(k, _ []byte) {
		if c.records[idAt(k, 0)] == nil {
			c.problem("configs: %x belongs to no conversation", k)
		}
	})
}

func (c *checker) checkDelegations() error {
	t := c.t
	var all []Delegation
	if err := c.each(db.Delegations, func(k, v []byte) {
		d, err := t.parseDelegation(k, v)
		if err != nil {
			c.problem("%w", err)
			return
		}
		open := t.Bucket(db.OpenDelegations).Get(k)
		entry := d.openEntry()
		if (d.State == "") != (open != nil) || open != nil && !bytes.Equal(open, entry) && !bytes.Equal(open, entry[:16]) {
			c.problem("delegation %s: state %q, but open says %x", d.ID, d.State, open)
		}
		if d.Root != idAt(k, 0) || d.State != "" && !d.State.Terminal() {
			c.problem("delegation %s: malformed", d.ID)
		}
		all = append(all, d)
		if r := c.records[d.Caller]; r == nil || d.Imported || d.Number <= r.After {
			return
		}
		if call := t.Bucket(db.Calls).Get(db.TextKey(d.Caller, d.Call)); len(call) != 20 || string(call[:16]) != string(k) {
			c.problem("delegation %s: its call is not indexed", d.ID)
		}
	}); err != nil {
		return err
	}
	c.checkLedger(all)
	if err := c.each(db.OpenDelegations, func(k, _ []byte) {
		if t.Bucket(db.Delegations).Get(k) == nil {
			c.problem("open: %x is not a delegation", k)
		}
	}); err != nil {
		return err
	}
	for id, r := range c.records {
		if r.Run == nil {
			continue
		}
		d, err := t.delegation(r.Run.Root, r.Run.Number)
		if err != nil || d.Child != id || d.State != "" {
			c.problem("conversation %s: run by a delegation that is not open", id)
		}
	}
	return c.each(db.Calls, func(k, v []byte) {
		if len(v) != 20 || c.records[idAt(k, 0)] == nil {
			c.problem("calls: %x belongs to no conversation", k)
			return
		}
		d, err := t.delegation(idAt(v, 0), db.Num(v[8:]))
		if err != nil || d.Caller != idAt(k, 0) || d.Call != string(k[8:]) || d.Turn != int(binary.BigEndian.Uint32(v[16:])) {
			c.problem("calls: %x belongs to another delegation", k)
		}
	})
}

func (c *checker) checkExpiring() error {
	expiring := 0
	for id, r := range c.records {
		if r.ExpiresAt.IsZero() {
			continue
		}
		expiring++
		if c.t.Bucket(db.Expiring).Get(expiryKey(r.ExpiresAt, id)) == nil {
			c.problem("conversation %s: expires %s, but is not indexed", id, r.ExpiresAt.Format(time.RFC3339))
		}
	}
	return c.each(db.Expiring, func(k, _ []byte) {
		if expiring--; expiring < 0 {
			c.problem("expiring: %x belongs to no conversation that expires", k)
		}
	})
}

func (c *checker) checkSessions() error {
	return c.each(db.Sessions, func(k, _ []byte) {
		if _, err := c.t.session(string(k)); err != nil {
			c.problem("%w", err)
		}
	})
}

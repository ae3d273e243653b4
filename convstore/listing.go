package convstore

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"jp/convstore/internal/db"
)

// entry has the fields of a conversation by which a listing filters and orders. It is stored apart
// from the record. A listing reads a hundred thousand entries in a few milliseconds, and decodes
// only the records that it returns:
//
//	flags u8, updated u64, turns u64, cost u64, title, labels
//
// updated is in nanoseconds since 1970 and cost in billionths of a dollar. The title, and after it
// the name and the value of each label in the order of the names, are a length as a uvarint and as
// many bytes.
type entry struct {
	flags   entryFlag
	updated int64
	turns   int
	cost    int64  // costUnknown if a price is unknown
	title   []byte // title and labels are valid only inside the transaction
	labels  []byte
}

// entryFlag is a set of yes-or-no things.
type entryFlag uint8

const (
	entryHidden entryFlag = 1 << iota
	entryArchived
	entryChild  // it has a parent
	entryParent // it has children
	entryEvents // it has events
)

// costUnknown sorts after every known cost.
const costUnknown = math.MaxInt64

func (e entry) is(f entryFlag) bool { return e.flags&f != 0 }

// Entry returns the stored bytes of a record's entry.
func (r *record) Entry() []byte {
	var flags entryFlag
	set := func(flag entryFlag, on bool) {
		if on {
			flags |= flag
		}
	}
	set(entryHidden, r.Hidden)
	set(entryArchived, !r.ArchivedAt.IsZero())
	set(entryChild, r.Parent != 0)
	set(entryParent, r.Children > 0)
	set(entryEvents, r.Events > 0)
	cost := r.CostNano
	if r.Unpriced > 0 {
		cost = costUnknown
	}
	b := binary.BigEndian.AppendUint64([]byte{byte(flags)}, uint64(nanoseconds(r.UpdatedAt)))
	b = binary.BigEndian.AppendUint64(b, uint64(r.Turns))
	b = binary.BigEndian.AppendUint64(b, uint64(cost))
	b = appendText(b, r.Title)
	for _, name := range slices.Sorted(maps.Keys(r.Labels)) {
		b = appendText(appendText(b, name), r.Labels[name])
	}
	return b
}

// nanoseconds returns the time since 1970. A time that does not fit becomes the nearest one that
// does.
func nanoseconds(t time.Time) int64 {
	switch secs := t.Unix(); {
	case secs < math.MinInt64/int64(time.Second):
		return math.MinInt64
	case secs >= math.MaxInt64/int64(time.Second):
		return math.MaxInt64
	}
	return t.UnixNano()
}

func appendText(b []byte, s string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

// cutText is the reverse of appendText.
func cutText(b []byte) (text, rest []byte, ok bool) {
	n, size := binary.Uvarint(b)
	if size <= 0 || n > uint64(len(b)-size) {
		return nil, nil, false
	}
	return b[size : size+int(n)], b[size+int(n):], true
}

// parseEntry is the reverse of record.Entry. The texts of the entry are parts of v.
func parseEntry(v []byte) (e entry, ok bool) {
	if len(v) < 25 {
		return e, false
	}
	order := binary.BigEndian
	e.flags, e.updated, e.turns, e.cost = entryFlag(v[0]), int64(order.Uint64(v[1:])), int(order.Uint64(v[9:])), int64(order.Uint64(v[17:]))
	e.title, e.labels, ok = cutText(v[25:])
	return e, ok
}

// hasLabels reports whether the entry has all labels of want; a value of "" matches any value.
func (e entry) hasLabels(want map[string]string) bool {
	found := 0
	for rest := e.labels; len(rest) > 0 && found < len(want); {
		var name, value []byte
		var ok bool
		if name, rest, ok = cutText(rest); ok {
			value, rest, ok = cutText(rest)
		}
		if !ok {
			return false
		}
		if v, wanted := want[string(name)]; wanted && (v == "" || v == string(value)) {
			found++
		}
	}
	return found == len(want)
}

func (f Filter) admits(e entry) bool {
	return (f.Hidden || !e.is(entryHidden)) && (f.Archived || !e.is(entryArchived)) && (!f.Roots || !e.is(entryChild)) && e.hasLabels(f.Labels)
}

// saveEntry updates the entry of a conversation.
func (t *tx) saveEntry(id ID, r *record) error {
	e := r.Entry()
	if bytes.Equal(t.Bucket(db.Listing).Get(id.key()), e) {
		return nil
	}
	return t.Put(db.Listing, id.key(), e)
}

// entries reads entries by id. It is fastest in the order of ids.
type entries struct {
	t    *tx
	c    *db.Cursor
	k, v []byte
}

// Entries returns a reader of the listing.
func (t *tx) Entries() *entries { return &entries{t: t, c: t.Bucket(db.Listing).Cursor()} }

// at returns the entry of a conversation.
func (r *entries) at(id ID) (entry, error) {
	if r.k != nil && idAt(r.k, 0) != id {
		r.k, r.v = r.c.Next()
	}
	if r.k == nil || idAt(r.k, 0) != id {
		r.k, r.v = r.c.Seek(id.key())
	}
	e, ok := parseEntry(r.v)
	if !ok || idAt(r.k, 0) != id {
		return entry{}, r.t.Damaged("conversation %s: missing in the listing, or malformed there", id)
	}
	return e, nil
}

// Cost returns what the own calls of a conversation cost.
func (r *entries) Cost(id ID) (Spend, error) {
	e, err := r.at(id)
	if e.cost == costUnknown {
		return Spend{Unpriced: 1}, err
	}
	return Spend{CostNano: e.cost}, err
}

// all calls fn for every conversation of the store that f admits, in the order of ids.
func (r *entries) all(backwards bool, f Filter, fn func(ID, entry) error) error {
	step := r.c.Next
	r.k, r.v = r.c.First()
	if backwards {
		step = r.c.Prev
		r.k, r.v = r.c.Last()
	}
	for ; r.k != nil; r.k, r.v = step() {
		e, ok := parseEntry(r.v)
		if !ok || len(r.k) != 8 {
			return r.t.Damaged("listing: %x: malformed", r.k)
		}
		if !f.admits(e) {
			continue
		}
		if err := fn(idAt(r.k, 0), e); err != nil {
			return err
		}
	}
	return nil
}

// ranked is a conversation with the values by which it is ordered.
type ranked struct {
	id    ID
	by    int64
	lower string
	title string
}

// rank returns the values by which a conversation is ordered. Its texts are copies. An activity after
// late is by a wrong clock: the time of the id counts, and nothing if that is after late too.
func (s Sort) rank(id ID, e entry, late int64) ranked {
	r := ranked{id: id}
	switch s {
	case SortActivity:
		for _, r.by = range []int64{e.updated, int64(id) * int64(100*time.Millisecond), 0} {
			if r.by <= late {
				break
			}
		}
	case SortTurns:
		r.by = int64(e.turns)
	case SortCost:
		r.by = e.cost
	case SortTitle:
		r.title, r.lower = string(e.title), strings.ToLower(string(e.title))
	}
	return r
}

// compare compares for sorting; of two equal ones the older is first.
func (a ranked) compare(b ranked) int {
	return cmp.Or(cmp.Compare(a.by, b.by), strings.Compare(a.lower, b.lower), strings.Compare(a.title, b.title), cmp.Compare(a.id, b.id))
}

// first collects the first limit of all conversations that it is offered, in order. It holds at
// most twice as many at a time.
type first struct {
	limit      int // 0 = no limit
	descending bool
	best       []ranked
	worst      ranked // the last in order of the first limit ones, if full
	full       bool
}

func (f *first) compare(a, b ranked) int {
	if f.descending {
		return b.compare(a)
	}
	return a.compare(b)
}

func (f *first) offer(r ranked) {
	if f.full && f.compare(r, f.worst) >= 0 {
		return
	}
	if f.best = append(f.best, r); f.limit > 0 && len(f.best) >= 2*f.limit {
		f.cut()
	}
}

// cut drops what is beyond the limit.
func (f *first) cut() {
	slices.SortFunc(f.best, f.compare)
	if f.limit > 0 && len(f.best) >= f.limit {
		f.best = f.best[:f.limit]
		f.worst, f.full = f.best[f.limit-1], true
	}
}

// ids returns the first ones, in order.
func (f *first) ids() (ids []ID) {
	f.cut()
	for _, r := range f.best {
		ids = append(ids, r.id)
	}
	return ids
}

// choose returns the conversations in view that the filter admits, in its order.
func (v View) choose(t *tx, f Filter) (ids []ID, err error) {
	next := func(ids []ID) error {
		if f.Limit > 0 && len(ids) == f.Limit {
			return errEnough
		}
		return nil
	}
	whole := v.root == 0 && f.Children == 0
	if whole && f.Sort == SortTree && len(f.Labels) > 0 {
		if ids, few, err := t.fewIn(f); few || err != nil {
			return ids, err
		}
	}
	switch {
	case f.Sort == SortTree:
		err = v.walk(t, f, func(id ID, _ entry) error {
			if ids = append(ids, id); f.Descending { // the last ones come first
				return nil
			}
			return next(ids)
		})
		ids = f.inTree(ids)
	case f.Sort == SortCreated && whole:
		err = t.Entries().all(f.Descending, f, func(id ID, _ entry) error {
			ids = append(ids, id)
			return next(ids)
		})
	default:
		best, late := first{limit: f.Limit, descending: f.Descending}, t.Now.Add(24*time.Hour).UnixNano()
		offer := func(id ID, e entry) error {
			best.offer(f.Sort.rank(id, e, late))
			return nil
		}
		if whole {
			// The newest conversations are mostly those with the most activity, turns and cost. So
			// they are read first if the order is descending.
			err = t.Entries().all(f.Descending, f, offer)
		} else {
			err = v.walk(t, f, offer)
		}
		ids = best.ids()
	}
	return ids, enough(err)
}

// fewest is the largest number of matches for which fewIn pays: each match costs a read of the
// records above it.
const fewest = 256

// fewIn is choose in the order of the tree, for a filter that admits few conversations of the whole
// store. It reads the entries in the order of ids, and finds the places of those few in the tree.
// If there are more than fewest it gives up, and few is false.
func (t *tx) fewIn(f Filter) (ids []ID, few bool, err error) {
	err = t.Entries().all(false, f, func(id ID, _ entry) error {
		if ids = append(ids, id); len(ids) > fewest {
			return errEnough
		}
		return nil
	})
	if err != nil {
		return nil, false, enough(err)
	}
	// The order of the paths from the root is preorder.
	ways := make(map[ID][]ID, len(ids))
	for _, id := range ids {
		r, err := t.Load(id)
		if err != nil {
			return nil, false, err
		}
		way := []ID{id}
		for up := range t.Ancestors(id, r, &err) {
			way = append(way, up)
		}
		if err != nil {
			return nil, false, err
		}
		slices.Reverse(way)
		ways[id] = way
	}
	slices.SortFunc(ids, func(a, b ID) int { return slices.Compare(ways[a], ways[b]) })
	return f.inTree(ids), true, nil
}

// inTree returns what the filter leaves of ids in preorder, in its order.
func (f Filter) inTree(ids []ID) []ID {
	if f.Descending {
		slices.Reverse(ids)
	}
	if f.Limit > 0 && len(ids) > f.Limit {
		ids = ids[:f.Limit]
	}
	return ids
}

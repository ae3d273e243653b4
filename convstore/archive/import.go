package archive

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"runtime"
	"slices"
	"sync"
	"time"

	"jp/convstore"
	"jp/convstore/internal/db"
	"jp/convstore/internal/file"
	"jp/convstore/internal/stored"
	"jp/tools/jsondoc"
)

// ImportOptions say how to import. The zero value works.
type ImportOptions struct {
	NewIDs bool // give every conversation a new id

	batch int // number of pieces in one transaction; 0 = importPieces
}

// ImportResult says what an import did.
type ImportResult struct {
	Made      []Made         // imported conversations, in the order of the pieces
	Same      []convstore.ID // conversations that were here already, with the same content
	Events    int            // number of events of Made
	Orphans   []Orphan
	Expired   []convstore.ID // ids of those in Made whose expiry has passed
	Delegated int            // number of delegations
}

// Made is a conversation that was imported. From and ID differ only with NewIDs.
type Made struct {
	From convstore.ID `json:"from"`
	ID   convstore.ID `json:"id"`
}

// Orphan is a conversation that became a root because its parent was not imported.
type Orphan struct {
	ID, Parent convstore.ID
}

// ConflictError names conversations that the store already has with other content. The import
// changed nothing.
type ConflictError struct {
	IDs []convstore.ID // in the order in which they came
}

func (e *ConflictError) Error() string {
	const most = 5
	text := ""
	for i, id := range e.IDs[:min(len(e.IDs), most)] {
		if i > 0 {
			text += ", "
		}
		text += id.String()
	}
	if n := len(e.IDs) - most; n > 0 {
		text += fmt.Sprintf(" and %d more", n)
	}
	if len(e.IDs) == 1 {
		return "conversation " + text + ": is here already, with other content"
	}
	return "conversations " + text + ": are here already, with other content"
}

// Import stores conversations, all of them or none. It fails with an *ImportError that says what is
// wrong and where, with a *ConflictError, or with the error that pieces yields.
//
// They keep their ids and the bytes of their events. A conversation that the store has already,
// with the same content, is not changed. A parent may come after its children. If it does not come
// at all, the child becomes a root. The values in Void are stored apart, see View.Imported: the
// conversation gets no config, no role and no grant. Its link is ForkLink, so that it is in no
// agent's scope and has a ledger of its own. Delegations are stored only as records of what was
// used.
//
// Memory does not grow with the number of events: they are written in many transactions, and other
// processes use the store between these. The conversations become visible in the last transaction.
// If an import is killed, what it wrote stays invisible, and the next import removes it.
func Import(ctx context.Context, s *convstore.Store, pieces iter.Seq2[Piece, error], o ImportOptions) (res ImportResult, err error) {
	in := s.Inside(db.Room{})
	if in.DB().ReadOnly {
		return res, convstore.ErrReadOnly
	}
	im := &importer{in: in, o: o, at: make(map[convstore.ID]*arrival), ledgers: make(map[convstore.ID]int)}
	if err := in.SweepImports(ctx); err != nil {
		return res, err
	}
	defer func() {
		if im.lock == nil {
			return
		}
		dropped := im.lock.Drop()
		if err != nil {
			// If this fails, for example on a full disk, the next import removes it.
			_ = in.SweepImports(context.WithoutCancel(ctx))
		} else {
			err = dropped
		}
	}()
	for p, bad := range pieces {
		if bad != nil {
			return res, bad
		}
		if err := im.add(ctx, p); err != nil {
			return res, err
		}
	}
	if err := im.flush(ctx); err != nil {
		return res, err
	}
	return im.commit(ctx)
}

// importBatch and importPieces bound one transaction of an import.
const (
	importBatch  = 8 << 20
	importPieces = 20_000
)

// importer is one import under way.
type importer struct {
	in   convstore.Inside
	o    ImportOptions
	id   convstore.ID  // id of the import; 0 = nothing written yet
	lock *file.RunLock // run lock of id

	at      map[convstore.ID]*arrival // by the ids that they came with
	order   []*arrival
	ledgers map[convstore.ID]int // number of delegations that came, by the id of their root

	batch   []Piece
	size    int
	decoded []decoded // of the batch
}

// decoded is an event of the batch, decoded and encoded for the store.
type decoded struct {
	record stored.Event
	body   convstore.Body
	err    error
}

// decode decodes the events of the batch on all processors, before it locks the store.
func (im *importer) decode() {
	im.decoded = slices.Grow(im.decoded[:0], len(im.batch))[:len(im.batch)]
	var wait sync.WaitGroup
	workers := runtime.GOMAXPROCS(0)
	for first := range workers {
		wait.Go(func() {
			for i := first; i < len(im.batch); i += workers {
				if e := im.batch[i].Event; e != nil {
					d := &im.decoded[i]
					d.record, d.body, d.err = e.stored()
				}
			}
		})
	}
	wait.Wait()
}

// arrival is a conversation that is being imported.
type arrival struct {
	from, id convstore.ID
	parent   convstore.ID // id that it came with
	pos      string
	hidden   bool
	here     bool            // the store had it before the import
	differs  bool            // and its content is another
	state    convstore.State // its RunState, which events that came before it leave nothing of
	reason   string
	seq      uint64
	new      *convstore.Staged      // set while a transaction adds events to it
	ledger   []convstore.Delegation // ledger of one that is here; read when needed
	index    map[made][]uint64      // indexes into ledger of what has not come yet; read with it, as the next two
	own      map[made]bool          // those in ledger that a removed conversation made here; see storeLedger
	turns    int
	places   []uint64 // where in ledger the delegations are that came, both counted from 1; 0 = not there, or own
}

// add adds a piece to the batch, and writes the batch if it is large enough.
func (im *importer) add(ctx context.Context, p Piece) error {
	size, err := p.size()
	if err != nil {
		return im.withPosition(p, unfit{err})
	}
	im.batch = append(im.batch, p)
	im.size += size
	if im.size < importBatch && len(im.batch) < cmp.Or(im.o.batch, importPieces) {
		return nil
	}
	return im.flush(ctx)
}

// flush writes the batch.
func (im *importer) flush(ctx context.Context) error {
	if len(im.batch) == 0 {
		return nil
	}
	lock := im.lock
	im.decode()
	err := im.in.WriteOnce(ctx, func(t *convstore.Tx) error {
		wrote := false
		var open *arrival
		for i, p := range im.batch {
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			w, err := im.apply(t, p, &im.decoded[i], &open)
			if err != nil {
				return im.withPosition(p, err)
			}
			wrote = wrote || w
		}
		if err := im.put(t, open); err != nil {
			return err
		}
		if !wrote {
			return db.ErrUnchanged
		}
		return nil
	})
	if err != nil && lock == nil {
		im.lock = nil // free again
	}
	clear(im.batch)
	clear(im.decoded)
	im.batch, im.size = im.batch[:0], 0
	return err
}

// withPosition adds the position of a piece to an error that is the piece's fault. It returns other
// errors as they are.
func (im *importer) withPosition(p Piece, err error) error {
	if wrong, ok := errors.AsType[unfit](err); ok {
		return &ImportError{Pos: p.Pos, Err: wrong.error}
	}
	return err
}

// unfit marks an error that is a piece's fault.
type unfit struct{ error }

func unfitf(format string, args ...any) error { return unfit{fmt.Errorf(format, args...)} }

// begin allocates the import's id and takes its run lock, at the first write.
func (im *importer) begin(t *convstore.Tx) (err error) {
	if im.id != 0 {
		return nil
	}
	if im.id, err = t.Allocate(); err == nil {
		im.lock, err = t.TakeRun(int64(im.id))
	}
	return err
}

// apply writes one piece. Open is the conversation to which events are being added; its record is
// not staged yet.
func (im *importer) apply(t *convstore.Tx, p Piece, d *decoded, open **arrival) (wrote bool, err error) {
	switch {
	case p.Conversation != nil:
		a, err := im.arrive(t, p)
		if err != nil || a.here {
			return false, err
		}
		return true, im.switchTo(t, a, open)
	case p.Event != nil:
		if d.err != nil {
			return false, unfit{d.err}
		}
		a := im.at[p.Event.Conversation]
		if a == nil {
			return false, unfitf("an event of %s, but that conversation has not come before it", p.Event.Conversation)
		}
		a.seq++
		if a.here {
			return false, im.compare(t, a, d.record)
		}
		if err := im.switchTo(t, a, open); err != nil {
			return true, err
		}
		seq, err := t.Append(a.id, a.new.Record, &d.record, d.body)
		if err == nil && seq != a.seq {
			err = unfitf("conversation %s: event %q is there twice", a.from, d.record.ID)
		}
		return true, err
	case p.Delegation != nil:
		return im.delegation(t, *p.Delegation)
	}
	return false, unfitf("an empty piece")
}

// arrive adds a conversation to the import.
func (im *importer) arrive(t *convstore.Tx, p Piece) (*arrival, error) {
	x := p.Conversation
	if err := x.check(); err != nil {
		return nil, unfit{err}
	}
	x = x.normal()
	if first := im.at[x.ID]; first != nil {
		return nil, unfitf("conversation %s: is there twice, first at %s", x.ID, first.pos)
	}
	a := &arrival{from: x.ID, id: x.ID, parent: x.Parent, pos: p.Pos, hidden: x.Hidden, state: x.RunState, reason: x.RunReason}
	im.at[a.from] = a
	im.order = append(im.order, a)
	if im.o.NewIDs {
		if err := im.begin(t); err != nil {
			return nil, err
		}
		var err error
		if a.id, err = t.Allocate(); err != nil {
			return nil, err
		}
	}
	r, err := t.Load(a.id)
	switch {
	case err == nil:
		a.here = true
		is, err := exported(t, a.id, r)
		if x.UpdatedAt.IsZero() {
			is.UpdatedAt = time.Time{}
		}
		a.differs = err == nil && !sameExported(&is, x)
		return a, err
	case !errors.As(err, new(*convstore.NotFoundError)):
		return nil, err
	case t.Bucket(db.Imports).Get(db.Key(uint64(a.id))) != nil:
		return nil, &convstore.BusyError{ID: a.id}
	}
	if err := im.begin(t); err != nil {
		return nil, err
	}
	a.new = &convstore.Staged{By: im.id, Record: x.record(), Imported: x.imported(t.Now), UpdatedAt: x.UpdatedAt}
	return a, nil
}

// sameExported reports whether the metadata of two conversations is the same.
func sameExported(a, b *Exported) bool {
	x, err := jsondoc.Encode(a)
	y, err2 := jsondoc.Encode(b)
	return err == nil && err2 == nil && bytes.Equal(x, y)
}

// normal returns a copy in the form that an export has.
func (x *Exported) normal() *Exported {
	n := *x
	setConfig(&n.Void, convstore.Config{JSON: x.Raw(), Tools: x.Tools})
	for _, at := range []*time.Time{&n.ArchivedAt, &n.ExpiresAt, &n.CreatedAt, &n.UpdatedAt} {
		*at = at.UTC()
	}
	if n.CreatedAt.IsZero() {
		n.CreatedAt = time.UnixMilli(int64(x.ID) * 100).UTC()
	}
	n.Labels = exportedLabels(x.Labels)
	return &n
}

// record returns the record of a new conversation with this metadata.
func (x *Exported) record() *convstore.Record {
	r := &convstore.Record{
		Depth: x.Depth, Title: x.Title, Hidden: x.Hidden, Pinned: x.Pinned,
		ArchivedAt: x.ArchivedAt, ExpiresAt: x.ExpiresAt, Labels: x.Labels,
		CreatedAt: x.CreatedAt, UpdatedAt: x.UpdatedAt, Model: x.Model,
	}
	if r.UpdatedAt.IsZero() {
		r.UpdatedAt = r.CreatedAt
	}
	return r
}

func (x *Exported) imported(now time.Time) *convstore.Imported {
	return &convstore.Imported{At: now.UTC(), Parent: x.Parent, Link: x.Link, Void: x.Void}
}

// compare compares an event with the one that the store has at the same place, and sets a.differs.
func (im *importer) compare(t *convstore.Tx, a *arrival, s stored.Event) error {
	v := t.Bucket(db.Events).Get(db.PairKey(a.id, a.seq))
	if v == nil {
		lost, seq, err := lostCall(t, a.id)
		a.differs = a.differs || lost == nil || seq != a.seq || !sameEvent(*lost, s)
		return err
	}
	is, err := stored.Parse(v)
	if err != nil {
		return t.Damaged("conversation %s: event %d: %w", a.id, a.seq, err)
	}
	a.differs = a.differs || !sameEvent(is, s)
	return nil
}

// lostCall returns the event that an export has behind those that are stored, if any, and the place
// of the last event.
func lostCall(t *convstore.Tx, id convstore.ID) (lost *stored.Event, last uint64, err error) {
	r, err := t.Load(id)
	if err != nil {
		return nil, 0, err
	}
	if lost, err = unstoredLostCall(t, id, r); lost != nil {
		return lost, r.LastSeq + 1, err
	}
	return nil, r.LastSeq, err
}

// sameEvent reports whether two events are the same outside of a store.
func sameEvent(a, b stored.Event) bool {
	return a.Nano == b.Nano && bytes.Equal(a.ID, b.ID) && bytes.Equal(a.Body, b.Body)
}

// switchTo makes a conversation the open one, and stages the one before.
func (im *importer) switchTo(t *convstore.Tx, a *arrival, open **arrival) error {
	if *open == a {
		return nil
	}
	if err := im.put(t, *open); err != nil {
		return err
	}
	*open = a
	if a.new != nil {
		return nil
	}
	var err error
	a.new, err = t.StagedAt(db.Key(uint64(a.id)))
	return err
}

// put stages the open conversation.
func (im *importer) put(t *convstore.Tx, a *arrival) error {
	if a == nil {
		return nil
	}
	st := a.new
	a.new = nil
	st.Record.ValidUTF8()
	return t.Stage(db.Key(uint64(a.id)), *st)
}

// delegation stages a delegation, or compares it if the store has the root of its ledger.
func (im *importer) delegation(t *convstore.Tx, d convstore.Delegation) (wrote bool, err error) {
	if err := checkExchanged(&d); err != nil {
		return false, unfit{err}
	}
	root := im.at[d.Root]
	if root == nil {
		return false, unfitf("a delegation in the ledger of %s, but that conversation has not come before it", d.Root)
	}
	im.ledgers[d.Root]++
	n := im.ledgers[d.Root]
	if d.Within >= uint64(n) {
		return false, unfitf("delegation %d of %s: is within delegation %d, which has not come before it", n, d.Root, d.Within)
	}
	if root.here {
		return false, im.compareDelegation(t, root, d)
	}
	if err := im.begin(t); err != nil {
		return false, err
	}
	return true, t.Stage(db.PairKey(root.id, uint64(n)), convstore.Staged{By: im.id, Delegation: &d})
}

// compareDelegation compares a delegation with the same one in the
// store, and sets root.differs. Its total is not compared: it follows from the others.
func (im *importer) compareDelegation(t *convstore.Tx, root *arrival, d convstore.Delegation) error {
	if root.index == nil {
		r, err := t.Load(root.id)
		if err != nil {
			return err
		}
		root.ledger, err = exportedDelegations(t, root.id, r, func(id convstore.ID) bool { return im.at[id] != nil })
		if err != nil {
			return err
		}
		recorded, err := t.Delegations(root.id)
		if err != nil {
			return err
		}
		root.turns, root.index, root.own = r.Turns, make(map[made][]uint64), make(map[made]bool)
		for i, d := range root.ledger {
			root.index[madeOf(d)] = append(root.index[madeOf(d)], uint64(i))
		}
		for _, d := range recorded {
			root.own[madeOf(d)] = !d.Imported && d.Number <= r.After
		}
		root.places = []uint64{0}
	}
	key := madeOf(d)
	at := root.index[key]
	if len(at) == 0 {
		root.differs, root.places = true, append(root.places, 0)
		return nil
	}
	place := at[0] + 1
	if root.own[key] {
		place = 0
	}
	root.index[key], root.places = at[1:], append(root.places, place)
	k := root.ledger[at[0]]
	d.Session, d.Within, d.Total = min(d.Session, root.turns), root.places[d.Within], k.Total // as storeLedger does
	k.Imported = !root.own[key]
	if knows(k, d) {
		return nil
	}
	k.Imported = false
	x, err := jsondoc.Encode(k)
	y, err2 := jsondoc.Encode(d)
	root.differs = root.differs || err != nil || err2 != nil || !bytes.Equal(x, y)
	return nil
}

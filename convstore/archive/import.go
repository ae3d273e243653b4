package archive

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"os"
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

	batch int // pieces in one transaction; 0 = importPieces
}

// ImportResult says what an import did.
type ImportResult struct {
	Made      []Made         // in the order in which they came
	Same      []convstore.ID // here already, with the same content
	Events    int            // of Made
	Orphans   []Orphan
	Expired   []convstore.ID // of Made, by their own ids here: those whose time is over
	Delegated int            // records of delegations
}

// Made is a conversation that was imported. From and ID differ only with NewIDs.
type Made struct {
	From convstore.ID `json:"from"`
	ID   convstore.ID `json:"id"`
}

// Orphan is a conversation that became a root because its parent did not come along.
type Orphan struct {
	ID, Parent convstore.ID
}

// ConflictError names the conversations that are here with other content. Nothing was changed.
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
// wrong and where, with a *ConflictError, or with an error of pieces.
//
// They keep their ids and the bytes of their events. One that is here with the same content is left
// as it is. A parent may come after its children; where it does not come at all the child becomes a
// root. What came in Void is kept apart, see View.Imported: a conversation has no config, no role
// and no grant of that. Its link is a fork's, so that it is in no agent's scope, and its spending
// from now on has a ledger of its own; delegations are kept as records of what was used.
//
// Memory does not grow with the events: they are written in many transactions, between which others
// have their turn, and what they belong to appears in the last one. What an import that was killed
// has written is not visible, and the next import removes it.
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
		dropped := file.DropRun(im.lock)
		if err != nil {
			// What cannot be removed now, on a full disk say, the next import removes.
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
	id   convstore.ID // its own, 0 before it has written anything
	lock *os.File     // the run lock of id

	at      map[convstore.ID]*arrival // by the ids they come with
	order   []*arrival
	ledgers map[convstore.ID]int // how many delegations came, by the id of their root

	batch   []Piece
	size    int
	decoded []decoded // of the batch
}

// decoded is what an event of the batch is to the store.
type decoded struct {
	record stored.Event
	body   convstore.Body
	err    error
}

// decode decodes the events of the batch on all processors, before the store is kept from others.
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

// arrival is one conversation that came.
type arrival struct {
	from, id convstore.ID
	parent   convstore.ID // as it came
	pos      string
	hidden   bool
	here     bool // the store has had it before
	differs  bool // and has another
	seq      uint64
	new      *convstore.Staged      // while it is in use within one transaction
	ledger   []convstore.Delegation // of one that is here, once it is needed
}

// add takes a piece, and writes what has come together when that is enough.
func (im *importer) add(ctx context.Context, p Piece) error {
	im.batch = append(im.batch, p)
	im.size += 512
	switch {
	case p.Event != nil:
		im.size += len(p.Event.Body)
	case p.Conversation != nil:
		im.size += len(p.Conversation.Raw()) + len(p.Conversation.Extra)
	}
	if im.size < importBatch && len(im.batch) < cmp.Or(im.o.batch, importPieces) {
		return nil
	}
	return im.flush(ctx)
}

// flush writes what has come together.
func (im *importer) flush(ctx context.Context) error {
	if len(im.batch) == 0 {
		return nil
	}
	lock := im.lock
	im.decode()
	err := im.in.Write(ctx, func(t *convstore.Tx) error {
		wrote := false
		var open *arrival
		for i, p := range im.batch {
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			w, err := im.apply(t, p, &im.decoded[i], &open)
			if err != nil {
				return im.blame(p, err)
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
	if err != nil && lock == nil && im.lock != nil {
		err = errors.Join(err, file.DropRun(im.lock))
		im.lock = nil
	}
	clear(im.batch)
	clear(im.decoded)
	im.batch, im.size = im.batch[:0], 0
	return err
}

// blame says where what is wrong with a piece was read, unless something else is wrong.
func (im *importer) blame(p Piece, err error) error {
	var wrong unfit
	if errors.As(err, &wrong) {
		return &ImportError{Pos: p.Pos, Err: wrong.error}
	}
	return err
}

// unfit marks an error that is a piece's fault.
type unfit struct{ error }

func unfitf(format string, args ...any) error { return unfit{fmt.Errorf(format, args...)} }

// begin gives the import its id, and what it writes an owner.
func (im *importer) begin(t *convstore.Tx) (err error) {
	if im.id != 0 {
		return nil
	}
	if im.id, err = t.Allocate(); err == nil {
		im.lock, err = t.F.TakeRun(int64(im.id))
	}
	return err
}

// apply carries out one piece. Open is the conversation whose record is not put away yet.
func (im *importer) apply(t *convstore.Tx, p Piece, d *decoded, open **arrival) (wrote bool, err error) {
	switch {
	case p.Conversation != nil:
		a, err := im.arrive(t, p)
		if err != nil || a.here {
			return false, err
		}
		return true, im.turnTo(t, a, open)
	case p.Event != nil:
		if d.err != nil {
			return false, unfit{d.err}
		}
		a := im.at[p.Event.Conversation]
		if a == nil {
			return false, unfitf("an event of %s, which has not come", p.Event.Conversation)
		}
		a.seq++
		if a.here {
			return false, im.compare(t, a, d.record)
		}
		if err := im.turnTo(t, a, open); err != nil {
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
	return false, unfitf("nothing")
}

// arrive notes a conversation that comes.
func (im *importer) arrive(t *convstore.Tx, p Piece) (*arrival, error) {
	x := p.Conversation
	if err := x.check(); err != nil {
		return nil, unfit{err}
	}
	x = x.normal()
	if first := im.at[x.ID]; first != nil {
		return nil, unfitf("conversation %s: is there twice, first at %s", x.ID, first.pos)
	}
	a := &arrival{from: x.ID, id: x.ID, parent: x.Parent, pos: p.Pos, hidden: x.Hidden}
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
	var absent *convstore.NotFoundError
	switch {
	case err == nil:
		a.here = true
		is, err := exported(t, a.id, r)
		if x.UpdatedAt.IsZero() {
			is.UpdatedAt = time.Time{}
		}
		a.differs = err == nil && !sameExported(&is, x)
		return a, err
	case !errors.As(err, &absent):
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

// sameExported compares what two conversations are outside of a store.
func sameExported(a, b *Exported) bool {
	x, err := jsondoc.Encode(a)
	y, err2 := jsondoc.Encode(b)
	return err == nil && err2 == nil && bytes.Equal(x, y)
}

// normal returns a copy in the form in which an export has it.
func (x *Exported) normal() *Exported {
	n := *x
	setConfig(&n.Void, convstore.Config{JSON: x.Raw(), Tools: x.Tools})
	for _, at := range []*time.Time{&n.ArchivedAt, &n.ExpiresAt, &n.CreatedAt, &n.UpdatedAt} {
		*at = at.UTC()
	}
	if n.CreatedAt.IsZero() {
		n.CreatedAt = time.UnixMilli(int64(x.ID) * 100).UTC()
	}
	return &n
}

// record is the record of a conversation that begins as this one says.
func (x *Exported) record() *convstore.Record {
	r := &convstore.Record{
		Depth: x.Depth, Title: x.Title, Hidden: x.Hidden, Pinned: x.Pinned,
		ArchivedAt: x.ArchivedAt, ExpiresAt: x.ExpiresAt, Labels: x.Labels,
		CreatedAt: x.CreatedAt, UpdatedAt: x.UpdatedAt, Model: x.Model,
		RunState: x.RunState, RunReason: x.RunReason,
	}
	if r.UpdatedAt.IsZero() {
		r.UpdatedAt = r.CreatedAt
	}
	return r
}

func (x *Exported) imported(now time.Time) *convstore.Imported {
	return &convstore.Imported{At: now.UTC(), Parent: x.Parent, Link: x.Link, Void: x.Void}
}

// compare holds an event against the one that the store has in its place.
func (im *importer) compare(t *convstore.Tx, a *arrival, s stored.Event) error {
	v := t.Bucket(db.Events).Get(db.PairKey(a.id, a.seq))
	if v == nil {
		a.differs = true
		return nil
	}
	is, err := stored.Parse(v)
	if err != nil {
		return t.Damaged("conversation %s: event %d: %w", a.id, a.seq, err)
	}
	if is.Nano != s.Nano || !bytes.Equal(is.ID, s.ID) || !bytes.Equal(is.Body, s.Body) {
		a.differs = true
	}
	return nil
}

// turnTo makes a conversation the open one, and puts the one before away.
func (im *importer) turnTo(t *convstore.Tx, a *arrival, open **arrival) error {
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

// put puts the open conversation away.
func (im *importer) put(t *convstore.Tx, a *arrival) error {
	if a == nil {
		return nil
	}
	st := a.new
	a.new = nil
	st.Record.ValidUTF8()
	return t.Stage(db.Key(uint64(a.id)), *st)
}

// delegation takes a record of the ledger.
func (im *importer) delegation(t *convstore.Tx, d convstore.Delegation) (wrote bool, err error) {
	if err := checkExchanged(&d); err != nil {
		return false, unfit{err}
	}
	root := im.at[d.Root]
	if root == nil {
		return false, unfitf("a delegation in the ledger of %s, which has not come", d.Root)
	}
	im.ledgers[d.Root]++
	n := im.ledgers[d.Root]
	if d.Within >= uint64(n) {
		return false, unfitf("delegation %d of %s: is within %d, which has not come", n, d.Root, d.Within)
	}
	if root.here {
		return false, im.compareDelegation(t, root, n, d)
	}
	if err := im.begin(t); err != nil {
		return false, err
	}
	return true, t.Stage(db.PairKey(root.id, uint64(n)), convstore.Staged{By: im.id, Delegation: &d})
}

// compareDelegation holds a delegation against the one in its place.
func (im *importer) compareDelegation(t *convstore.Tx, root *arrival, n int, d convstore.Delegation) error {
	if root.ledger == nil {
		r, err := t.Load(root.id)
		if err != nil {
			return err
		}
		root.ledger, err = exportedDelegations(t, root.id, r, func(id convstore.ID) bool { return im.at[id] != nil })
		if err != nil {
			return err
		}
	}
	same := n <= len(root.ledger)
	if same {
		x, err := jsondoc.Encode(root.ledger[n-1])
		y, err2 := jsondoc.Encode(d)
		same = err == nil && err2 == nil && bytes.Equal(x, y)
	}
	root.differs = root.differs || !same
	return nil
}

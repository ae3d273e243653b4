package archive

import (
	"context"
	"errors"
	"iter"
	"maps"
	"slices"
	"time"

	"jp/convstore"
	"jp/convstore/internal/db"
	"jp/convstore/internal/file"
	"jp/convstore/internal/stored"
)

// reasonOpen is the reason of a delegation that was open when it was exported.
const reasonOpen = "was open when it was exported"

// errStop ends an iteration because its caller wants no more.
var errStop = errors.New("stop")

// Export yields conversations, each followed by its events. With cascade it also yields all
// conversations below them and the delegations that they made. Each conversation is exported as it
// is when it is read, and not all at one moment. It fails as Get does, but not for one below that is
// removed before it is read.
func Export(ctx context.Context, v convstore.View, ids []convstore.ID, cascade bool) iter.Seq2[Piece, error] {
	return func(yield func(Piece, error) bool) {
		in := v.Inside(db.Room{})
		all, err := exports(ctx, in, ids, cascade)
		var done []convstore.ID
		for _, id := range all {
			if err != nil {
				break
			}
			begun := false
			err = exportOne(ctx, in, id, func(p Piece, err error) bool {
				begun = true
				return yield(p, err)
			})
			if !begun && isGone(err) && !slices.Contains(ids, id) {
				err = nil
				continue
			}
			done = append(done, id)
		}
		if err == nil && cascade {
			err = exportDelegations(ctx, in, done, ids, yield)
		}
		if err != nil && err != errStop {
			yield(Piece{}, err)
		}
	}
}

// isGone reports whether an error says that a conversation is not there, or not in view, any more.
func isGone(err error) bool {
	return errors.As(err, new(*convstore.NotFoundError)) || errors.As(err, new(*convstore.ScopeError))
}

// exports returns the ids of the conversations of an export, each once.
func exports(ctx context.Context, in convstore.Inside, ids []convstore.ID, cascade bool) (all []convstore.ID, err error) {
	for _, id := range ids {
		if err := in.ReadOf(ctx, id, func(t *convstore.Tx) error {
			_, err := in.Within(t, id)
			return err
		}); err != nil {
			return nil, err
		}
	}
	seen := make(map[convstore.ID]bool)
	err = in.Read(ctx, func(t *convstore.Tx) error {
		all = nil
		clear(seen)
		add := func(id convstore.ID) error {
			if !seen[id] {
				seen[id] = true
				all = append(all, id)
			}
			return nil
		}
		for _, id := range ids {
			_ = add(id)
			if !cascade {
				continue
			}
			if err := t.Below(id, in.Delegated(), t.Entries(), add); err != nil {
				return err
			}
		}
		return nil
	})
	if err == file.ErrAbsent && len(ids) == 0 {
		err = nil
	}
	return all, err
}

func exportOne(ctx context.Context, in convstore.Inside, id convstore.ID, yield func(Piece, error) bool) error {
	var x Exported
	var lost *stored.Event // lost call of a model that no event records yet
	var next, last uint64
	for first := true; first || next <= last; first = false {
		var batch []stored.Placed
		if err := in.ReadOf(ctx, id, func(t *convstore.Tx) error {
			r, err := in.Within(t, id)
			if err != nil {
				return err
			}
			if first {
				if x, err = exported(t, id, r); err != nil {
					return err
				}
				next, last = 1, r.LastSeq
				if lost, err = unstoredLostCall(t, id, r); err != nil {
					return err
				}
			}
			batch, err = t.Events(id, next, last)
			return err
		}); err != nil {
			return err
		}
		if first && !yield(Piece{Conversation: &x}, nil) {
			return errStop
		}
		for _, s := range batch {
			e := &ExportedEvent{Conversation: id, ID: string(s.ID), Time: time.Unix(0, s.Nano).UTC(), Body: s.Body}
			if !yield(Piece{Event: e}, nil) {
				return errStop
			}
			next = s.Seq + 1
		}
		if len(batch) == 0 {
			break
		}
	}
	if lost == nil {
		return nil
	}
	e := &ExportedEvent{Conversation: id, ID: string(lost.ID), Time: time.Unix(0, lost.Nano).UTC(), Body: lost.Body}
	if !yield(Piece{Event: e}, nil) {
		return errStop
	}
	return nil
}

// unstoredLostCall returns the event for an open call whose process died; nil if there is none, or
// if it is stored already.
func unstoredLostCall(t *convstore.Tx, id convstore.ID, r *convstore.Record) (*stored.Event, error) {
	e, err := t.LostCall(id, r)
	if e == nil || err != nil {
		return nil, err
	}
	s, err := convstore.EncodeEvent(*e)
	return &s, err
}

// exported returns the metadata of a conversation. For an imported one it returns what was
// imported, as far as that did not change since.
func exported(t *convstore.Tx, id convstore.ID, r *convstore.Record) (Exported, error) {
	config, err := t.Config(id)
	if err != nil {
		return Exported{}, err
	}
	im, err := t.Imported(id)
	if err != nil {
		return Exported{}, err
	}
	x := *exportedRecord(id, r)
	setConfig(&x.Void, config)
	x.bring(im)
	if r.Parent == 0 && x.Parent != 0 {
		below, err := isBelow(t, x.Parent, id)
		if below { // it was moved there: nobody could import the two as each other's ancestors
			x.Parent, x.Link = 0, convstore.NoLink
		}
		if !errors.As(err, new(*convstore.NotFoundError)) {
			return x, err
		}
	}
	return x, nil
}

// bring adds what was imported with a conversation; nil = it was not imported.
func (x *Exported) bring(im *convstore.Imported) {
	if im == nil {
		return
	}
	if x.Parent == im.Parent || im.Apart && x.Parent == 0 {
		x.Parent, x.Link = im.Parent, im.Link
	}
	x.Extra = im.Extra
	if x.Raw() == nil && x.Role == "" && x.Grant == nil && x.Profile == "" {
		x.Void = im.Void
	}
}

// exportedRecord returns the metadata in a record.
func exportedRecord(id convstore.ID, r *convstore.Record) *Exported {
	return &Exported{
		ID: id, Parent: r.Parent, Link: r.Link, Depth: r.Depth,
		Title: r.Title, Hidden: r.Hidden, Pinned: r.Pinned, ArchivedAt: r.ArchivedAt, ExpiresAt: r.ExpiresAt,
		Labels: exportedLabels(r.Labels), CreatedAt: r.CreatedAt, UpdatedAt: r.UpdatedAt, Model: r.Model,
		RunState: r.RunState, RunReason: r.RunReason,
		Void: convstore.Void{Profile: r.Profile, ProfileArg: r.ProfileArg, ProfileHash: r.ProfileHash, Role: r.Role, Grant: r.Grant},
	}
}

// LabelHere is a label that names conversations of the store that it is in. It leaves no store and
// comes into none: other conversations may have these ids there.
const LabelHere = "batch-resumed-with"

// exportedLabels returns labels without LabelHere.
func exportedLabels(labels map[string]string) map[string]string {
	labels = maps.Clone(labels)
	delete(labels, LabelHere)
	return labels
}

// exportDelegations yields the delegations of the ledgers of conversations. Of one that is removed
// meanwhile, and was not named, they are left out: its record went with it.
func exportDelegations(ctx context.Context, in convstore.Inside, ids, named []convstore.ID, yield func(Piece, error) bool) error {
	among := make(map[convstore.ID]bool, len(ids))
	for _, id := range ids {
		among[id] = true
	}
	for _, id := range ids {
		var ds []convstore.Delegation
		if err := in.ReadOf(ctx, id, func(t *convstore.Tx) error {
			r, err := in.Within(t, id)
			if isGone(err) && !slices.Contains(named, id) {
				return nil
			} else if err != nil {
				return err
			}
			ds, err = exportedDelegations(t, id, r, func(id convstore.ID) bool { return among[id] })
			return err
		}); err != nil {
			return err
		}
		for i := range ds {
			if !yield(Piece{Delegation: &ds[i]}, nil) {
				return errStop
			}
		}
	}
	return nil
}

// exportedDelegations returns the delegations of a conversation's ledger. If the root of the ledger
// is not exported, the conversation becomes the root.
func exportedDelegations(t *convstore.Tx, id convstore.ID, r *convstore.Record, among func(convstore.ID) bool) ([]convstore.Delegation, error) {
	ds, err := t.Delegations(id)
	if err == nil && r.Link == convstore.DelegationLink && !among(r.Parent) {
		var all []convstore.Delegation
		if all, err = delegationsBelow(t, id, r, among); err == nil {
			ds = append(ds, all...)
		}
	}
	detach(id, ds)
	return ds, err
}

// detach changes the delegations of a ledger, oldest first, to what they are outside of a store.
func detach(root convstore.ID, ds []convstore.Delegation) {
	index := make(map[uint64]uint64, len(ds))
	for i := range ds {
		d := &ds[i]
		d.Within, index[d.Number] = index[d.Within], uint64(i)+1
		d.ID, d.Root, d.Imported, d.Number = "", root, false, 0
		if d.State == "" {
			d.State, d.Reason, d.Ended = convstore.StateLost, reasonOpen, d.Reserved
		}
	}
	sumTotals(ds)
}

// sumTotals computes the totals of a ledger whose delegations have all ended. Within is an index
// into ds, from 1, and always that of an earlier delegation.
func sumTotals(ds []convstore.Delegation) {
	for i := range ds {
		ds[i].Total = ds[i].Own
	}
	for _, d := range slices.Backward(ds) {
		if d.Within != 0 {
			up := &ds[d.Within-1]
			up.Total = up.Total.Add(d.Total)
		}
	}
}

// delegationsBelow returns the delegations that a conversation, and the exported ones below it,
// made in the ledger that it belongs to.
func delegationsBelow(t *convstore.Tx, id convstore.ID, r *convstore.Record, among func(convstore.ID) bool) (ds []convstore.Delegation, err error) {
	ledger, err := t.LedgerOf(id, r)
	if err != nil {
		return nil, err
	}
	all, err := t.Delegations(ledger)
	made := make(map[convstore.ID]bool)
	for _, d := range all {
		if !among(d.Caller) {
			continue
		}
		below, err := isBelow(t, d.Caller, id)
		if gone := errors.As(err, new(*convstore.NotFoundError)); gone {
			below = made[d.Caller] // it is being imported again
		} else if err != nil {
			return nil, err
		}
		if below {
			ds, made[d.Child] = append(ds, d), true
		}
	}
	return ds, err
}

// isBelow reports whether a conversation is top or below it.
func isBelow(t *convstore.Tx, id, top convstore.ID) (bool, error) {
	r, err := t.Load(id)
	if err != nil || id == top {
		return id == top, err
	}
	for at := range t.Ancestors(id, r, &err) {
		if at == top {
			return true, nil
		}
	}
	return false, err
}

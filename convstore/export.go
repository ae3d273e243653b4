package convstore

import (
	"context"
	"encoding/json"
	"iter"
	"slices"
	"time"

	"jp/convstore/internal/db"
	"jp/convstore/internal/file"
	"jp/convstore/internal/stored"
)

// Imported says where a conversation came from, and what came with it and is not
// used here.
type Imported struct {
	At     time.Time `json:"at"`
	Parent ID        `json:"parent_id,omitzero"` // that it came with
	Apart  bool      `json:"apart,omitzero"`     // Parent did not come along: it is a root here
	Link   Link      `json:"link,omitzero"`      // as it was there; here it is a fork's
	Void
}

// Imported returns what came with a conversation, nil for one that was made here.
// It fails as Get does.
func (v View) Imported(ctx context.Context, id ID) (im *Imported, err error) {
	err = v.f.read(ctx, func(t *tx) error {
		_, err := v.within(t, id)
		if err == nil {
			im, err = t.imported(id)
		}
		return err
	})
	return im, absent(err, id)
}

func (t *tx) imported(id ID) (*Imported, error) {
	v := t.Bucket(db.Imported).Get(id.key())
	if v == nil {
		return nil, nil
	}
	var im Imported
	if err := json.Unmarshal(v, &im); err != nil {
		return nil, t.Damaged("conversation %s: what it was imported with: %w", id, err)
	}
	return &im, nil
}

// reasonOpen is the reason of a delegation that had not ended when it was exported.
const reasonOpen = "was open when it was exported"

// Export yields conversations, each one followed by its events, and with cascade
// all below them and the delegations that they made, which stay visible as history.
// Each one is as it was when its turn came. It fails as Get does.
func (v View) Export(ctx context.Context, ids []ID, cascade bool) iter.Seq2[Piece, error] {
	return func(yield func(Piece, error) bool) {
		all, err := v.exports(ctx, ids, cascade)
		for _, id := range all {
			if err != nil {
				break
			}
			err = v.exportOne(ctx, id, yield)
		}
		if err == nil && cascade {
			err = v.exportDelegations(ctx, all, yield)
		}
		if err != nil && err != errEnough {
			yield(Piece{}, err)
		}
	}
}

// exports returns what an export holds, each once.
func (v View) exports(ctx context.Context, ids []ID, cascade bool) (all []ID, err error) {
	for _, id := range ids {
		err = v.f.read(ctx, func(t *tx) error {
			_, err := v.within(t, id)
			return err
		})
		if err != nil {
			return nil, absent(err, id)
		}
	}
	seen := make(map[ID]bool)
	err = v.f.read(ctx, func(t *tx) error {
		all = nil
		clear(seen)
		add := func(id ID) error {
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
			if err := t.below(id, v.delegated, t.entries(), add); err != nil {
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

func (v View) exportOne(ctx context.Context, id ID, yield func(Piece, error) bool) error {
	var x Exported
	var lost *stored.Event // a call that nobody makes any more and no event tells of
	var next, last uint64
	for first := true; first || next <= last; first = false {
		var batch []sequenced
		if err := v.f.read(ctx, func(t *tx) error {
			r, err := v.within(t, id)
			if err != nil {
				return err
			}
			if first {
				if x, err = t.exported(id, r); err != nil {
					return err
				}
				next, last = 1, r.LastSeq
				if lost, err = t.unstoredLoss(id, r); err != nil {
					return err
				}
			}
			batch, err = t.events(id, next, last)
			return err
		}); err != nil {
			return absent(err, id)
		}
		if first && !yield(Piece{Conversation: &x}, nil) {
			return errEnough
		}
		for _, s := range batch {
			e := &ExportedEvent{Conversation: id, ID: string(s.ID), Time: time.Unix(0, s.Nano).UTC(), Body: s.Body}
			if !yield(Piece{Event: e}, nil) {
				return errEnough
			}
			next = s.seq + 1
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
		return errEnough
	}
	return nil
}

// unstoredLoss is the event of a call whose process has died, nil when there is none or the store
// holds it.
func (t *tx) unstoredLoss(id ID, r *record) (*stored.Event, error) {
	if r.Call == nil {
		return nil, nil
	}
	held, err := t.held(id)
	if held || err != nil {
		return nil, err
	}
	s, err := EncodeEvent(t.loss(id, r))
	return &s, err
}

// exported is the metadata of a conversation outside of the store. Of one that was
// imported it is, as far as it has not changed, what it was before.
func (t *tx) exported(id ID, r *record) (Exported, error) {
	config, err := t.config(id)
	if err != nil {
		return Exported{}, err
	}
	im, err := t.imported(id)
	if err != nil {
		return Exported{}, err
	}
	x := *r.exported(id)
	x.setConfig(config)
	if im == nil {
		return x, nil
	}
	if r.Parent == im.Parent || im.Apart && r.Parent == 0 {
		x.Parent, x.Link = im.Parent, im.Link
	}
	x.Extra = im.Extra
	if config.JSON == nil && r.Role == "" && r.Grant == nil && r.Profile == "" {
		x.Void = im.Void
	}
	return x, nil
}

// exported is what a record says outside of the store.
func (r *record) exported(id ID) *Exported {
	return &Exported{
		ID: id, Parent: r.Parent, Link: r.Link, Depth: r.Depth,
		Title: r.Title, Hidden: r.Hidden, Pinned: r.Pinned, ArchivedAt: r.ArchivedAt, ExpiresAt: r.ExpiresAt,
		Labels: r.Labels, CreatedAt: r.CreatedAt, UpdatedAt: r.UpdatedAt, Model: r.Model,
		RunState: r.RunState, RunReason: r.RunReason,
		Void: Void{Profile: r.Profile, ProfileArg: r.ProfileArg, ProfileHash: r.ProfileHash, Role: r.Role, Grant: r.Grant},
	}
}

// exportDelegations yields the delegations of the ledgers of conversations.
func (v View) exportDelegations(ctx context.Context, ids []ID, yield func(Piece, error) bool) error {
	among := make(map[ID]bool, len(ids))
	for _, id := range ids {
		among[id] = true
	}
	for _, id := range ids {
		var ds []Delegation
		if err := v.f.read(ctx, func(t *tx) error {
			r, err := v.within(t, id)
			if err != nil {
				return err
			}
			ds, err = t.exportedDelegations(id, r, func(id ID) bool { return among[id] })
			return err
		}); err != nil {
			return absent(err, id)
		}
		for i := range ds {
			if !yield(Piece{Delegation: &ds[i]}, nil) {
				return errEnough
			}
		}
	}
	return nil
}

// exportedDelegations returns the ledger of a conversation outside of the store.
// Where its root is not among those exported, the conversation stands for it.
func (t *tx) exportedDelegations(id ID, r *record, among func(ID) bool) ([]Delegation, error) {
	ds, err := t.delegations(id)
	if err == nil && r.Link == DelegationLink && !among(r.Parent) {
		var all []Delegation
		if all, err = t.delegationsBelow(id, r, among); err == nil {
			ds = append(ds, all...)
		}
	}
	place := make(map[uint64]uint64, len(ds))
	for i := range ds {
		d := &ds[i]
		place[d.number] = uint64(i) + 1
		d.ID, d.Root, d.Within, d.Imported, d.number = "", id, place[d.Within], false, 0
		if d.State == "" {
			d.State, d.Reason, d.Ended = StateLost, reasonOpen, d.Reserved
		}
	}
	sumTotals(ds)
	return ds, err
}

// sumTotals works out the totals of a ledger whose delegations have ended; Within
// is their place in it, from 1, and smaller than their own.
func sumTotals(ds []Delegation) {
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

// delegationsBelow returns those that a conversation and what is exported below it
// have made in the ledger that it belongs to.
func (t *tx) delegationsBelow(id ID, r *record, among func(ID) bool) (ds []Delegation, err error) {
	ledger, err := t.ledgerOf(id, r)
	if err != nil {
		return nil, err
	}
	all, err := t.delegations(ledger)
	for _, d := range all {
		if !among(d.Caller) {
			continue
		}
		below, err := t.isBelow(d.Caller, id)
		if err != nil {
			return nil, err
		}
		if below {
			ds = append(ds, d)
		}
	}
	return ds, err
}

// isBelow reports whether a conversation is another or below it.
func (t *tx) isBelow(id, top ID) (bool, error) {
	r, err := t.load(id)
	if err != nil || id == top {
		return id == top, err
	}
	for at := range t.ancestors(id, r, &err) {
		if at == top {
			return true, nil
		}
	}
	return false, err
}

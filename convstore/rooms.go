package convstore

import (
	"context"

	"jp/convstore/internal/db"
)

// Tx, Record, Staged and Inside are for the packages below this folder that import this one:
// archive, search and usage. No other package can use them, because only these can make a db.Room.
type (
	Tx     = tx
	Record = record
	Staged = staged
)

// Inside gives those packages the transactions and the file of a store.
type Inside struct{ v View }

// Inside returns the store of a view.
func (v View) Inside(db.Room) Inside { return Inside{v} }

// DB returns the file of the store.
func (in Inside) DB() *db.Base { return &in.v.f.Base }

// Read runs fn in a read transaction. It fails with file.ErrAbsent if there is no store yet.
func (in Inside) Read(ctx context.Context, fn func(*Tx) error) error { return in.v.f.read(ctx, fn) }

// ReadOf is Read for one conversation. If there is no store yet, it fails with a *NotFoundError.
func (in Inside) ReadOf(ctx context.Context, id ID, fn func(*Tx) error) error {
	return absent(in.v.f.read(ctx, fn), id)
}

// WriteOnce runs fn, once, in a write transaction of its own and commits it durably. If fn fails,
// nothing is changed.
func (in Inside) WriteOnce(ctx context.Context, fn func(*Tx) error) error {
	return in.v.f.WriteOnce(ctx, migrated(fn))
}

// SweepImports removes what imports wrote that were cut off.
func (in Inside) SweepImports(ctx context.Context) error { return in.v.f.sweepImports(ctx) }

// Within returns a conversation that is in view. It fails with the errors of View.Get.
func (in Inside) Within(t *Tx, id ID) (*Record, error) { return in.v.within(t, id) }

// Conversation returns what Get does, for the record of a conversation.
func (in Inside) Conversation(t *Tx, id ID, r *Record) (Conversation, error) {
	return t.conversation(id, r)
}

// Delegated reports whether the view follows delegation links only.
func (in Inside) Delegated() bool { return in.v.delegated }

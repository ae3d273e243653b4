package convstore

import (
	"context"

	"jp/convstore/internal/db"
)

// Tx, Record, Staged and Inside are for the packages of this folder that import this one, such as
// archive and search. Nobody else can get one, since only they can make a db.Room.
type (
	Tx     = tx
	Record = record
	Staged = staged
)

// Inside is a store as those packages use it: its transactions, and its file.
type Inside struct{ v View }

// Inside returns what is behind a view.
func (v View) Inside(db.Room) Inside { return Inside{v} }

// DB returns the file of the store.
func (in Inside) DB() *db.Base { return &in.v.f.Base }

// Read runs fn on the store as it is. Without a store it fails with file.ErrAbsent.
func (in Inside) Read(ctx context.Context, fn func(*Tx) error) error { return in.v.f.read(ctx, fn) }

// ReadOf is Read of one conversation, which is not found where there is no store.
func (in Inside) ReadOf(ctx context.Context, id ID, fn func(*Tx) error) error {
	return absent(in.v.f.read(ctx, fn), id)
}

// Write runs fn and commits what it did, durably, or nothing when it fails.
func (in Inside) Write(ctx context.Context, fn func(*Tx) error) error { return in.v.f.write(ctx, fn) }

// SweepImports removes what imports have left that were cut off.
func (in Inside) SweepImports(ctx context.Context) error { return in.v.f.sweepImports(ctx) }

// Within returns a conversation that is in view. It fails with the errors of View.Get.
func (in Inside) Within(t *Tx, id ID) (*Record, error) { return in.v.within(t, id) }

// Delegated reports whether only delegation links count in the view.
func (in Inside) Delegated() bool { return in.v.delegated }

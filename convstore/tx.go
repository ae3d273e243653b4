package convstore

import (
	"context"
	"errors"

	"jp/convstore/internal/db"
	"jp/convstore/internal/file"
)

// tx is one transaction. It is valid until the function that it is passed to returns, and so is
// everything that bbolt returns from it.
type tx struct {
	*db.Tx
	roots map[ID]ID // cache of rootOf
	runs  *file.RunProbe
	idle  map[ID]bool // conversations that count as not running, see requireIdle

	migrated bool // the store was of an earlier schema
}

// read runs fn in a read transaction. It returns file.ErrAbsent if there is no store yet. Fn must
// not keep anything that it gets from the transaction.
func (f *base) read(ctx context.Context, fn func(*tx) error) error {
	err := f.readOnce(ctx, fn)
	if schema, ok := errors.AsType[*SchemaError](err); ok && schema.Have < schema.Want && !f.ReadOnly {
		if err := f.migrateNow(ctx); err != nil {
			return err
		}
		return f.readOnce(ctx, fn)
	}
	return err
}

func (f *base) readOnce(ctx context.Context, fn func(*tx) error) error {
	return f.Session(ctx, false, func(h *db.Handle) error { return f.view(h, fn) })
}

// view runs fn in a read transaction of an open handle.
func (f *base) view(h *db.Handle, fn func(*tx) error) error {
	return f.View(h, func(r *db.Tx) error {
		t := &tx{Tx: r}
		defer t.close()
		return fn(t)
	})
}

// migrateNow migrates a store from an earlier schema. It writes nothing if another process has
// migrated it meanwhile.
func (f *base) migrateNow(ctx context.Context) error {
	return f.write(ctx, func(t *tx) error {
		if !t.migrated {
			return db.ErrUnchanged
		}
		return nil
	})
}

// write runs fn in a write transaction and commits it durably. If fn fails, nothing is changed.
//
// fn can be run more than once, in another goroutine, and only its last run counts: see db.Write.
// `go test -tags rehearse` runs each fn twice.
func (f *base) write(ctx context.Context, fn func(*tx) error) error {
	return f.Write(ctx, migrated(fn))
}

// migrated returns fn for a store of any schema.
func migrated(fn func(*tx) error) func(*db.Tx) error {
	return func(r *db.Tx) error {
		t := &tx{Tx: r}
		defer t.close()
		if err := t.migrate(migrations, schemaVersion); err != nil {
			return err
		}
		return fn(t)
	}
}

// close closes what the transaction opened beside the store.
func (t *tx) close() {
	if t.runs != nil {
		t.runs.Close()
	}
}

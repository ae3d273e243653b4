package convstore

import (
	"context"
	"errors"

	"jp/convstore/internal/db"
	"jp/convstore/internal/file"
)

// tx is one transaction. It lives as long as the function it is given to, and so does everything
// that bbolt returns from it.
type tx struct {
	*db.Tx
	roots map[ID]ID // memo of rootOf
	runs  *file.RunProbe
	mine  map[ID]bool // run locks that count as the transaction's own, see takeAll

	migrated bool // the store was of an earlier schema
}

// read runs fn on the store as it is, or returns errAbsent. Nothing that fn is given may be kept.
func (f *base) read(ctx context.Context, fn func(*tx) error) error {
	err := f.readOnce(ctx, fn)
	var schema *SchemaError
	if errors.As(err, &schema) && schema.Have < schema.Want && !f.ReadOnly {
		if err := f.bring(ctx); err != nil {
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

// bring migrates a store from an earlier schema. It writes nothing where somebody else has done so.
func (f *base) bring(ctx context.Context) error {
	return f.write(ctx, func(t *tx) error {
		if !t.migrated {
			return db.ErrUnchanged
		}
		return nil
	})
}

// write runs fn and commits what it did, durably, or nothing when it fails.
func (f *base) write(ctx context.Context, fn func(*tx) error) error {
	return f.Write(ctx, func(r *db.Tx) error {
		t := &tx{Tx: r}
		defer t.close()
		if err := t.migrate(migrations, schemaVersion); err != nil {
			return err
		}
		return fn(t)
	})
}

// close lets go of what the transaction opened beside the store.
func (t *tx) close() {
	if t.runs != nil {
		t.runs.Close()
	}
}

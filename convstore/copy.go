package convstore

import (
	"context"
	"errors"
	"os"

	"go.etcd.io/bbolt"

	"jp/convstore/internal/file"
	"jp/convstore/internal/page"
)

// soundly is the lock of a copy of a store whose pages bbolt takes.
func (f *base) soundly(ctx context.Context) func(func(*os.File) error) error {
	return func(use func(*os.File) error) error {
		return f.session(ctx, false, func(h *handle) error {
			// The schema is looked at, and bbolt has looked at its own pages.
			if err := f.view(h, func(*tx) error { return nil }); err != nil {
				return err
			}
			return use(h.file)
		})
	}
}

// anyhow is the lock of a copy of a store that may be damaged.
func (f *base) anyhow(ctx context.Context) func(func(*os.File) error) error {
	return func(use func(*os.File) error) error {
		file, err := f.acquire(ctx, false)
		if err != nil {
			return err
		}
		h := handle{file: file}
		defer h.abandon()
		return use(file)
	}
}

// aside makes a copy of the store that vanishes when it is closed, for whoever reads all of it. Where
// there is no room for one it says that others wait, and returns nil, as it does without a store.
func (f *base) aside(ctx context.Context, locked func(func(*os.File) error) error) (*os.File, error) {
	if _, err := os.Lstat(f.StorePath()); err != nil {
		return nil, nil // who takes the lock says what that means
	}
	copied, err := file.Unnamed(f.Dir)
	if err == nil {
		if err = f.CopyTo(ctx, copied, locked); err == nil {
			return copied, nil
		}
		copied.Close()
	}
	var damaged *DamagedError
	var schema *SchemaError
	var busy *BusyError
	if err == file.ErrAbsent || ctx.Err() != nil || errors.Is(err, ErrGone) || errors.As(err, &damaged) || errors.As(err, &schema) || errors.As(err, &busy) {
		return nil, err
	}
	f.Notice("no copy of the store can be made beside it (" + file.Reason(err) + "): whoever wants to write waits until it is read")
	return nil, nil
}

// openCopy opens a copy of the store that nobody else has.
func (f *base) openCopy(file *os.File, h *handle) error {
	if _, err := page.Inspect(file); err != nil {
		return &DamagedError{Path: f.StorePath(), Err: err}
	}
	db, err := bbolt.Open(f.StorePath(), 0o600, &bbolt.Options{
		ReadOnly: true, NoStatistics: true,
		OpenFile: func(string, int, os.FileMode) (*os.File, error) {
			h.file = file
			return file, nil
		},
	})
	if err != nil {
		return f.openError(err)
	}
	h.db = db
	return nil
}

package db

import (
	"context"
	"errors"
	"os"

	"go.etcd.io/bbolt"

	"jp/convstore/internal/file"
	"jp/convstore/internal/page"
)

// LockSound returns a function that locks the store, checks that its schema is no later one, and
// calls use. It is for copies of a store that must be sound.
func (f *Base) LockSound(ctx context.Context) func(func(*os.File) error) error {
	return func(use func(*os.File) error) error {
		return f.Session(ctx, false, func(h *Handle) error {
			// This checks the schema. Opening has checked the pages that bbolt reads first.
			err := f.View(h, func(*Tx) error { return nil })
			if schema, ok := errors.AsType[*SchemaError](err); err != nil && !(ok && schema.Have < schema.Want) {
				return err
			}
			return use(h.File)
		})
	}
}

// LockAny returns a function that locks the store and calls use. It is for copies of a store that
// may be damaged.
func (f *Base) LockAny(ctx context.Context) func(func(*os.File) error) error {
	return func(use func(*os.File) error) error {
		file, err := f.Acquire(ctx, false)
		if err != nil {
			return err
		}
		h := Handle{File: file}
		defer h.Abandon()
		return use(file)
	}
}

// TempCopy copies the store to a temporary file that vanishes when it is closed, for a caller that
// reads all of it. If there is no room for a copy it returns nil, with a notice that writers will
// wait. Without a store it returns nil too.
func (f *Base) TempCopy(ctx context.Context, locked func(func(*os.File) error) error) (*os.File, error) {
	if _, err := os.Lstat(f.StorePath()); err != nil {
		return nil, nil // the caller gets this error again when it takes the lock
	}
	copied, err := file.Unnamed(f.Dir)
	if err == nil {
		if err = f.CopyTo(ctx, copied, locked); err == nil {
			return copied, nil
		}
		copied.Close()
	}
	if err == file.ErrAbsent || ctx.Err() != nil || errors.Is(err, file.ErrGone) || errors.As(err, new(*DamagedError)) || errors.As(err, new(*SchemaError)) || errors.As(err, new(*file.BusyError)) {
		return nil, err
	}
	f.Notice("cannot copy the store to a file beside it (" + file.Reason(err) + "): writers wait until it has been read")
	return nil, nil
}

// OpenCopy opens a copy of the store that no other process uses.
func (f *Base) OpenCopy(file *os.File, h *Handle) error {
	if _, err := page.Inspect(file); err != nil {
		return f.openError(err)
	}
	db, err := bbolt.Open(f.StorePath(), 0o600, &bbolt.Options{
		ReadOnly: true, NoStatistics: true,
		OpenFile: func(string, int, os.FileMode) (*os.File, error) {
			h.File = file
			return file, nil
		},
	})
	if err != nil {
		return f.openError(err)
	}
	h.db = db
	return nil
}

// CheckPages checks all pages of a file. It returns a *DamagedError if one is invalid.
func (f *Base) CheckPages(file *os.File) error {
	info, err := file.Stat()
	if err != nil {
		return f.SystemError(err)
	}
	pages, err := page.Open(file, info.Size())
	if err == nil && pages.Lone {
		err = page.ErrLone
	}
	if err == nil {
		err = pages.Check()
	}
	if err != nil {
		return f.openError(err)
	}
	return nil
}

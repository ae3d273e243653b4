package db

import (
	"context"
	"errors"
	"os"

	"go.etcd.io/bbolt"

	"jp/convstore/internal/file"
	"jp/convstore/internal/page"
)

// Soundly returns what holds the lock while a sound store is copied.
func (f *Base) Soundly(ctx context.Context) func(func(*os.File) error) error {
	return func(use func(*os.File) error) error {
		return f.Session(ctx, false, func(h *Handle) error {
			// The schema is looked at, and bbolt has looked at its own pages.
			if err := f.View(h, func(*Tx) error { return nil }); err != nil {
				return err
			}
			return use(h.File)
		})
	}
}

// Anyhow returns what holds the lock while a store is copied that may be damaged.
func (f *Base) Anyhow(ctx context.Context) func(func(*os.File) error) error {
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

// Aside makes a copy of the store that vanishes when it is closed, for whoever reads all of it.
// Where there is no room for one it says that others wait, and returns nil, as it does without a
// store.
func (f *Base) Aside(ctx context.Context, locked func(func(*os.File) error) error) (*os.File, error) {
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
	var busy *file.BusyError
	if err == file.ErrAbsent || ctx.Err() != nil || errors.Is(err, file.ErrGone) || errors.As(err, &damaged) || errors.As(err, &schema) || errors.As(err, &busy) {
		return nil, err
	}
	f.Notice("no copy of the store can be made beside it (" + file.Reason(err) + "): whoever wants to write waits until it is read")
	return nil, nil
}

// OpenCopy opens a copy of the store that nobody else has.
func (f *Base) OpenCopy(file *os.File, h *Handle) error {
	if _, err := page.Inspect(file); err != nil {
		return &DamagedError{Path: f.StorePath(), Err: err}
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

// CheckPages reads all pages of a file, and reports what is wrong with them as a *DamagedError.
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
		return &DamagedError{Path: f.StorePath(), Err: err}
	}
	return nil
}

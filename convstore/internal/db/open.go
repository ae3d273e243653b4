package db

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync/atomic"
	"syscall"
	"time"

	"go.etcd.io/bbolt"
	"golang.org/x/sys/unix"

	"jp/convstore/internal/file"
	"jp/convstore/internal/page"
)

// Base is the file of a store in its folder. It is safe for concurrent use.
type Base struct {
	file.Folder
	ReadOnly bool // Write fails with ErrReadOnly
	Now      func() time.Time
	version  int
	busy     func(error) error

	Free  int64        // bytes that are free in the file, from which on who writes gets a notice
	Freed *atomic.Bool // the notice was given
}

// Options say how to open a store's file.
type Options struct {
	file.Options
	ReadOnly bool
	Now      func() time.Time // nil = time.Now
	Version  int              // of the schema that transactions expect, and that a new file is made with

	// Busy returns, for the *file.BusyError of a lock that is held, the error that callers know.
	Busy func(error) error
}

// Open returns the file in the folder dir, which it does not open, nor make.
func Open(dir string, o Options) (Base, error) {
	o.Fill = func(path string) error { return makeFile(path, o.Version) }
	in, err := file.Open(dir, o.Options)
	f := Base{Folder: in, ReadOnly: o.ReadOnly, Now: o.Now, version: o.Version, busy: o.Busy, Free: defaultFree, Freed: new(atomic.Bool)}
	if f.Now == nil {
		f.Now = time.Now
	}
	return f, err
}

// Acquire returns the locked file. It waits for as long as the folder says.
func (f *Base) Acquire(ctx context.Context, write bool) (*os.File, error) {
	file, err := f.Folder.Acquire(ctx, write)
	return file, f.busy(err)
}

// TakeRun takes the run lock of one conversation without waiting.
func (f *Base) TakeRun(id int64) (*os.File, error) {
	file, err := f.Folder.TakeRun(id)
	return file, f.busy(err)
}

// Handle is the open file. Whoever holds one keeps others from writing or, with a handle for
// writing, from anything.
type Handle struct {
	db   *bbolt.DB
	File *os.File // bbolt's own descriptor
}

// close ends an orderly use. The lock is given up by itself, for the reason that file.DropRun has.
func (h *Handle) close() error {
	_ = file.Unlock(h.File) // closing does it too, if later
	return h.db.Close()
}

// Abandon lets go of the lock after bbolt has panicked. Its own Close could hang on a mutex then,
// so the mapping is left to the end of the process; since that mapping keeps the descriptor's lock
// alive, the lock is given up by itself.
func (h *Handle) Abandon() {
	if h.File != nil {
		_ = file.Unlock(h.File)
		h.File.Close()
	}
}

// open waits for the store's lock, shared or, to write, exclusive, and opens the file. The caller
// guards it against panics, for which h may be partly filled.
func (f *Base) open(ctx context.Context, write bool, h *Handle) error {
	var refused error
	db, err := bbolt.Open(f.StorePath(), 0o600, &bbolt.Options{
		ReadOnly:     !write,
		NoStatistics: true,
		OpenFile: func(string, int, os.FileMode) (*os.File, error) {
			if h.File, refused = f.Acquire(ctx, write); refused != nil {
				return nil, refused
			}
			pages, err := page.Inspect(h.File)
			if err != nil {
				h.File.Close()
				return nil, &DamagedError{Path: f.StorePath(), Err: err}
			}
			if pages.Lone && f.OnceTold() {
				f.Notice(fmt.Sprintf("store %s: %v", f.StorePath(), page.ErrLone))
			}
			if write {
				f.noticeFree(pages)
			}
			return h.File, nil
		},
	})
	if refused != nil {
		return refused
	}
	if err != nil {
		return f.openError(err)
	}
	h.db = db
	return nil
}

// openError returns the error for a file that does not open: what the system says, or a
// *DamagedError where bbolt does not take the file.
func (f *Base) openError(err error) error {
	var errno syscall.Errno
	var damaged *DamagedError
	switch {
	case errors.As(err, &damaged):
		return err
	case errors.As(err, &errno):
		return f.SystemError(err)
	}
	return &DamagedError{Path: f.StorePath(), Err: err}
}

// defaultFree is the size of what is free, in bytes, that makes each commit write half a megabyte
// more.
const defaultFree = 256 << 20

// noticeFree says, once, that much of the file is free: each commit writes the list of its free
// pages.
func (f *Base) noticeFree(p *page.File) {
	if bytes := p.FreeBytes(); bytes >= f.Free && !f.Freed.Swap(true) {
		f.Notice(fmt.Sprintf("store %s: %d MiB of it are free, which makes every change slower: `jp store compact` gives them back", f.StorePath(), bytes>>20))
	}
}

// makeFile makes the file of an empty store of a schema.
func makeFile(path string, version int) error {
	db, err := bbolt.Open(path, 0o600, &bbolt.Options{
		NoStatistics: true,
		OpenFile: func(path string, flag int, mode os.FileMode) (*os.File, error) {
			return os.OpenFile(path, flag|os.O_EXCL|unix.O_NOFOLLOW, mode)
		},
	})
	if err != nil {
		return err
	}
	err = db.Update(func(b *bbolt.Tx) error { return makeBuckets(b, version) })
	if closed := db.Close(); err == nil {
		err = closed
	}
	return err
}

// Room is what only packages that may import this one can make. A method of convstore that wants
// one is theirs alone.
type Room struct{ _ int }

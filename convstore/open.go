package convstore

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

// base is a store as its transactions use it: the folder, and bbolt in it.
type base struct {
	file.Folder
	readOnly bool
	now      func() time.Time
	free     int64        // bytes that are free in the file, from which on that is told to who writes
	freed    *atomic.Bool // it was told that much is free
}

// patiently returns the base as a run uses it.
func (f *base) patiently() *base {
	p := *f
	p.Patient = true
	return &p
}

// acquire returns the locked file, or a *BusyError.
func (f *base) acquire(ctx context.Context, write bool) (*os.File, error) {
	file, err := f.Folder.Acquire(ctx, write)
	return file, busy(err)
}

// takeRun takes the run lock of one conversation without waiting, or fails with
// a *BusyError.
func (f *base) takeRun(id ID) (*os.File, error) {
	file, err := f.Folder.TakeRun(int64(id))
	return file, busy(err)
}

// busy makes a *BusyError of what a lock in the folder failed with.
func busy(err error) error {
	if held, ok := err.(*file.BusyError); ok {
		return &BusyError{ID: ID(held.Run), Holder: held.Holder, Reads: held.Reads, Waited: held.Waited}
	}
	return err
}

// handle is the open file. Whoever holds one keeps others from writing or, with a
// handle for writing, from anything.
type handle struct {
	db   *bbolt.DB
	file *os.File // bbolt's own descriptor
}

// close ends an orderly use. The lock is given up by itself, for the reason that
// dropRun tells.
func (h *handle) close() error {
	_ = file.Unlock(h.file) // closing does it too, if later
	return h.db.Close()
}

// abandon lets go of the lock after bbolt has panicked. Its own Close could hang
// on a mutex then, so the mapping is left to the end of the process; since that
// mapping keeps the descriptor's lock alive, the lock is given up by itself.
func (h *handle) abandon() {
	if h.file != nil {
		_ = file.Unlock(h.file)
		h.file.Close()
	}
}

// open waits for the store's lock, shared or, to write, exclusive, and opens the
// file. The caller guards it against panics, for which h may be partly filled.
func (f *base) open(ctx context.Context, write bool, h *handle) error {
	var refused error
	db, err := bbolt.Open(f.StorePath(), 0o600, &bbolt.Options{
		ReadOnly:     !write,
		NoStatistics: true,
		OpenFile: func(string, int, os.FileMode) (*os.File, error) {
			if h.file, refused = f.acquire(ctx, write); refused != nil {
				return nil, refused
			}
			pages, err := page.Inspect(h.file)
			if err != nil {
				h.file.Close()
				return nil, &DamagedError{Path: f.StorePath(), Err: err}
			}
			if pages.Lone && f.OnceTold() {
				f.Notice(fmt.Sprintf("store %s: %v", f.StorePath(), page.ErrLone))
			}
			if write {
				f.tellFree(pages)
			}
			return h.file, nil
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

// openError tells a file that bbolt does not take from a system that does not
// play along.
func (f *base) openError(err error) error {
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

// defaultFree is the size of what is free, in bytes, that makes each commit write half a megabyte more.
const defaultFree = 256 << 20

// tellFree tells, once, that much of the file is free: each commit writes the list of its free pages.
func (f *base) tellFree(p *page.File) {
	if bytes := p.FreeBytes(); bytes >= f.free && !f.freed.Swap(true) {
		f.Notice(fmt.Sprintf("store %s: %d MiB of it are free, which makes every change slower: `jp store compact` gives them back", f.StorePath(), bytes>>20))
	}
}

// makeFile makes the file of an empty store.
func makeFile(path string) error {
	db, err := bbolt.Open(path, 0o600, &bbolt.Options{
		NoStatistics: true,
		OpenFile: func(path string, flag int, mode os.FileMode) (*os.File, error) {
			return os.OpenFile(path, flag|os.O_EXCL|unix.O_NOFOLLOW, mode)
		},
	})
	if err != nil {
		return err
	}
	err = db.Update(makeBuckets)
	if closed := db.Close(); err == nil {
		err = closed
	}
	return err
}

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
	reads    int // earliest version that View takes
	busy     func(error) error
	queue    *queue // shared with copies of this Base
	slot     *slot  // the same

	Free  int64        // number of free bytes in the file from which on a writer gets a notice
	Freed *atomic.Bool // whether notice was given

	sound *atomic.Bool // the pages were found fit to be read and written
}

// Options say how to open a store's file.
type Options struct {
	file.Options
	ReadOnly bool
	Now      func() time.Time // nil = time.Now
	Version  int              // schema version that transactions expect and that a new file gets
	Reads    int              // earliest version whose file reads as one of Version

	// Busy converts a *file.BusyError to the error type of the caller's package.
	Busy func(error) error
}

// Open returns the Base for the folder dir. It neither opens nor makes the file.
func Open(dir string, o Options) (Base, error) {
	o.Fill = func(path string) error { return makeFile(path, o.Version) }
	in, err := file.Open(dir, o.Options)
	f := Base{Folder: in, ReadOnly: o.ReadOnly, Now: o.Now, version: o.Version, busy: o.Busy, queue: newQueue(), slot: &slot{idle: defaultIdle}, Free: defaultFree, Freed: new(atomic.Bool), sound: new(atomic.Bool)}
	if f.Now == nil {
		f.Now = time.Now
	}
	if f.reads = o.Version; o.ReadOnly { // others bring it to Version first
		f.reads = o.Reads
	}
	return f, err
}

// Acquire waits for the lock of the store, as file.Folder.Acquire does, and returns the locked
// file.
func (f *Base) Acquire(ctx context.Context, write bool) (*os.File, error) {
	file, err := f.Folder.Acquire(ctx, write)
	return file, f.busy(err)
}

// TakeRun takes the run lock of one conversation without waiting.
func (f *Base) TakeRun(id int64) (*file.RunLock, error) {
	lock, err := f.Folder.TakeRun(id)
	return lock, f.busy(err)
}

// Handle is the open and locked file. While a process has one, no other process can write. If it is
// a handle for writing, no other process can read either.
type Handle struct {
	db    *bbolt.DB
	File  *os.File // bbolt's own descriptor
	write bool
	from  *slot // slot that lent it, or in whose turn it was opened; nil = it is not kept
	page  int   // size of a page
	state state // of a kept handle: when it was unlocked
}

// close releases the lock and closes the file. It unlocks explicitly, for the same reason as
// file.RunLock.Drop.
func (h *Handle) close() error {
	_ = file.Unlock(h.File) // closing unlocks too, but later
	return h.db.Close()
}

// Abandon releases the lock after a panic of bbolt. The database is not closed, because its Close
// could hang on a mutex. So the file stays mapped until the process ends. The mapping would keep
// the lock, and therefore Abandon unlocks explicitly.
func (h *Handle) Abandon() {
	if h.File != nil {
		_ = file.Unlock(h.File)
		h.File.Close()
	}
}

// open waits for the store's lock, shared or, to write, exclusive, and opens the file. It may
// panic; the caller recovers. Then h may be set in part.
//
// bbolt follows branches wherever they lead, and trusts its list of free pages and the lengths in
// its pages. Where a bit of these is wrong, a commit writes over pages in use. So each process
// checks the branches and that list before it reads or writes for the first time, and in each
// transaction the ways that it goes and the lengths of the leaves that it changes, see page.Paths.
func (f *Base) open(wait *file.Wait, write bool, h *Handle) error {
	defer wait.End()
	kept, turn, ok := f.slot.lend(wait, write)
	if !ok {
		return f.busy(wait.Err())
	}
	if turn {
		h.from = f.slot
	}
	if kept != nil && write && !kept.write {
		kept.drop()
		kept = nil
	}
	var again *os.File
	if kept != nil {
		again = kept.File
	}
	got, err := wait.Acquire(write, again, kept.fits)
	if kept != nil {
		if err == nil && got == again {
			*h = *kept
			h.from = f.slot
			return nil
		}
		kept.drop()
	}
	if err != nil {
		return f.busy(err)
	}
	h.File = got
	if err := f.inspect(got, write); err != nil {
		got.Close()
		return f.openError(err)
	}
	db, err := bbolt.Open(f.StorePath(), 0o600, &bbolt.Options{
		ReadOnly:     !write,
		NoStatistics: true,
		OpenFile:     func(string, int, os.FileMode) (*os.File, error) { return got, nil },
	})
	if err != nil {
		return f.openError(err)
	}
	h.db, h.write, h.page = db, write, db.Info().PageSize
	return nil
}

// inspect checks what bbolt trusts, and gives notice of what is not as it should be.
func (f *Base) inspect(locked *os.File, write bool) error {
	pages, err := page.Inspect(locked)
	if err == nil && !f.sound.Load() {
		reading, writing := pages.CheckFast()
		f.sound.Store(writing == nil)
		if err = reading; write {
			err = writing
		}
	}
	if err != nil {
		return err
	}
	if pages.Lone && f.NoticeOnce() {
		f.Notice(fmt.Sprintf("store %s: %v", f.StorePath(), page.ErrLone))
	}
	if write {
		f.noticeFree(pages)
	}
	return nil
}

// openError returns the error for a file that cannot be opened: the system's error or, if bbolt
// rejects the file, a *DamagedError.
func (f *Base) openError(err error) error {
	switch {
	case errors.As(err, new(*DamagedError)):
		return err
	case errors.As(err, new(syscall.Errno)):
		return f.SystemError(err)
	}
	return &DamagedError{Path: f.StorePath(), Err: err}
}

// defaultFree is the default of Base.Free, in bytes. With so many free pages each commit writes
// half a megabyte more.
const defaultFree = 256 << 20

// noticeFree gives a notice, once, if much of the file is free: each commit writes the list of free
// pages.
func (f *Base) noticeFree(p *page.File) {
	if bytes := p.FreeBytes(); bytes >= f.Free && !f.Freed.Swap(true) {
		f.Notice(fmt.Sprintf("store %s: %d MiB of it are free, which makes every change slower: `jp store compact` gives them back", f.StorePath(), bytes>>20))
	}
}

// makeFile makes the file of an empty store with this schema version.
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

// Room can be made only by packages that may import this one. A method of convstore that has a Room
// as a parameter is only for them.
type Room struct{ _ int }

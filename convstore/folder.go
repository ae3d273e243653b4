package convstore

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// The files of a store's folder. None of them is ever unlinked, apart from the
// unfinished one.
const (
	fileStore      = "store.db"       // the bbolt file
	fileUnfinished = "store.db.new"   // becomes fileStore when it is complete
	fileGate       = "gate"           // the turnstile before fileStore's lock
	fileRuns       = "runs"           // holds the run locks
	fileSlots      = "slots"          // holds the slots
	fileWorkspace  = "workspace.json" // whose conversations these are
)

// folder is where a store is kept, and how to get at its file.
type folder struct {
	dir       string
	deadline  time.Duration
	notice    func(string)
	workspace string
	fill      func(path string) error // makes the file of an empty store

	patient bool          // a wait for the lock lasts as long as its context, see wait.go
	remark  time.Duration // after which a wait is told to notice
	told    *atomic.Bool  // it was told that one of the metas is lost, or the whole store
	seen    *atomic.Bool  // the file was there: from then on one that is not is gone, see ErrGone
}

// folderOptions says how to use a folder. The zero value works.
type folderOptions struct {
	deadline  time.Duration // of a wait for the lock; 0 = 30 s
	patient   bool          // a run waits, in a store that is there
	notice    func(string)  // nil = dropped
	workspace string        // whose folder it becomes when a file is made in it; "" = nobody's
	fill      func(path string) error
}

// openFolder returns the folder dir after checking that a store may be kept there; a *PlaceError says
// why not. It makes nothing.
func openFolder(dir string, o folderOptions) (folder, error) {
	if err := checkPlace(dir); err != nil {
		return folder{}, err
	}
	full, _, err := resolve(dir)
	if err != nil {
		return folder{}, err
	}
	f := folder{dir: full, deadline: o.deadline, notice: o.notice, workspace: o.workspace, fill: o.fill,
		patient: o.patient, remark: defaultRemark, seen: new(atomic.Bool), told: new(atomic.Bool)}
	f.seen.Store(o.patient)
	if f.deadline == 0 {
		f.deadline = defaultDeadline
	}
	if f.notice == nil {
		f.notice = func(string) {}
	}
	return f, nil
}

// storePath returns the path of the store's file. It need not exist.
func (f *folder) storePath() string { return f.path(fileStore) }

// unfinished returns the path of what becomes the store's file by being renamed.
func (f *folder) unfinished() string { return f.path(fileUnfinished) }

func (f *folder) path(name string) string { return filepath.Join(f.dir, name) }

// ErrGone is wrapped by the error for a store whose file was there and is not any more: it was
// removed, or its folder was moved away. No other store takes its place while this one is in use.
var ErrGone = errors.New("was removed or moved away while it was in use")

// PlaceError says that a store must not be kept at Path, and why.
type PlaceError struct {
	Path      string
	Reason    string
	Workspace string // the workspace that Path is in, where that is why
}

func (e *PlaceError) Error() string { return fmt.Sprintf("store %s: %s", e.Path, e.Reason) }

// errAbsent says that there is no store yet: it reads as an empty one.
var errAbsent = errors.New("store: not made yet")

// onceTold reports whether nobody was told yet of what is wrong with the store's file, for whoever tells it now.
func (f *folder) onceTold() bool { return !f.told.Swap(true) }

// systemError names the store in an error of the operating system, without
// saying the path twice.
func (f *folder) systemError(err error) error {
	var pathErr *fs.PathError
	if errors.As(err, &pathErr) {
		return fmt.Errorf("store %s: %s: %w", pathErr.Path, pathErr.Op, pathErr.Err)
	}
	return fmt.Errorf("store %s: %w", f.storePath(), err)
}

// acquire returns the locked file.
//
// bbolt itself polls for the lock every 50 ms. Waiting in the kernel instead, on
// the very descriptor that bbolt will lock again, wakes the next one at once.
// Since flock prefers nobody, overlapping readers could keep a writer out for
// ever: so everybody passes the gate, which is held exclusively until the store
// is locked, one after the other.
func (f *folder) acquire(ctx context.Context, write bool) (*os.File, error) {
	start := time.Now()
	waiting, cancel := f.bounded(ctx)
	defer cancel()
	defer f.tellWait()()
	for {
		file, err := f.acquireOnce(waiting, write)
		if err == nil {
			// Someone may have put another file in its place meanwhile.
			var current bool
			if current, err = f.isCurrent(file); current {
				return file, nil
			}
			file.Close()
			if err == nil {
				continue
			}
		}
		switch {
		case err == errAbsent, errors.Is(err, ErrGone):
			return nil, err
		case ctx.Err() != nil && context.Cause(ctx) != errOutlasted:
			return nil, fmt.Errorf("store %s: waiting for the lock: %w", f.storePath(), context.Cause(ctx))
		case waiting.Err() != nil:
			holder, reads := f.holder()
			return nil, &lockedError{holder: holder, reads: reads, waited: time.Since(start)}
		}
		var place *PlaceError
		if errors.As(err, &place) {
			return nil, err
		}
		return nil, f.systemError(err)
	}
}

func (f *folder) acquireOnce(ctx context.Context, write bool) (*os.File, error) {
	gate, err := f.enterGate(ctx, write)
	if err != nil {
		return nil, err
	}
	if gate != nil {
		defer func() {
			_ = flock(gate, unix.LOCK_UN)
			gate.Close()
		}()
	}
	flag, how := os.O_RDONLY, unix.LOCK_SH
	if write {
		flag, how = os.O_RDWR, unix.LOCK_EX
	}
	file, err := openOwn(f.storePath(), flag)
	if errors.Is(err, fs.ErrNotExist) {
		if f.seen.Load() {
			return nil, f.gone()
		}
		f.tellMissing()
		if !write {
			return nil, errAbsent
		}
		if err = f.create(); err != nil {
			return nil, err
		}
		file, err = openOwn(f.storePath(), flag)
	}
	if err != nil {
		return nil, err
	}
	f.seen.Store(true)
	return file, lockFile(ctx, file, how)
}

// tellMissing tells, once, when there is no store where there was one. Of a folder that was moved away
// as a whole nothing is left to tell by.
func (f *folder) tellMissing() {
	if owner, known := readWorkspace(f.dir); known && !f.told.Swap(true) {
		f.notice(fmt.Sprintf("store %s: is gone; there was one, as %s beside it says (of %s). The next query begins a new one",
			f.storePath(), fileWorkspace, owner.Path))
	}
}

// gone returns the error for a store that was there.
func (f *folder) gone() error { return fmt.Errorf("store %s: %w", f.storePath(), ErrGone) }

// enterGate returns the locked gate. A reader goes without one where there is
// none, as on a copy that may not be written to.
func (f *folder) enterGate(ctx context.Context, write bool) (*os.File, error) {
	gate, err := openOwn(f.path(fileGate), os.O_RDONLY)
	if errors.Is(err, fs.ErrNotExist) {
		if !write {
			return nil, nil
		}
		if _, absent := os.Lstat(f.storePath()); absent != nil && f.seen.Load() {
			return nil, f.gone() // its folder too
		}
		if err = f.makeDir(); err != nil {
			return nil, err
		}
		gate, err = openOwn(f.path(fileGate), os.O_RDONLY|os.O_CREATE)
	}
	if err != nil {
		return nil, err
	}
	return gate, lockFile(ctx, gate, unix.LOCK_EX)
}

func (f *folder) isCurrent(file *os.File) (bool, error) {
	mine, err := file.Stat()
	if err != nil {
		return false, err
	}
	there, err := os.Lstat(f.storePath())
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil && os.SameFile(mine, there), err
}

// openOwn opens a regular file that belongs to us. It neither follows a symbolic
// link nor waits for the other end of a pipe.
func openOwn(path string, flag int) (*os.File, error) {
	file, err := os.OpenFile(path, flag|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0o600)
	if err != nil {
		if errors.Is(err, unix.ELOOP) {
			return nil, &PlaceError{Path: path, Reason: "is a symbolic link"}
		}
		return nil, err
	}
	info, err := file.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = &PlaceError{Path: path, Reason: "is no regular file"}
	}
	if err == nil && info.Sys().(*syscall.Stat_t).Uid != uint32(os.Geteuid()) {
		err = &PlaceError{Path: path, Reason: "belongs to someone else"}
	}
	if err != nil {
		file.Close()
		return nil, err
	}
	return file, nil
}

// lockFile takes a flock, waiting until ctx ends. On failure the file is closed:
// at once, or when a lock that was granted too late has come. A blocked flock
// cannot be woken, neither by closing its descriptor nor, since Go's handlers
// restart system calls, by a signal.
func lockFile(ctx context.Context, file *os.File, how int) error {
	err := flock(file, how|unix.LOCK_NB)
	if err == nil {
		return nil
	}
	if err != unix.EWOULDBLOCK {
		file.Close()
		return os.NewSyscallError("flock", err)
	}
	granted := make(chan error)
	go func() {
		err := flock(file, how)
		select {
		case granted <- err:
		case <-ctx.Done():
			file.Close()
		}
	}()
	select {
	case err := <-granted:
		if err != nil {
			file.Close()
			return os.NewSyscallError("flock", err)
		}
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// unlock gives up the flock of a file, whoever else has a copy of its descriptor.
func unlock(file *os.File) error { return flock(file, unix.LOCK_UN) }

func flock(file *os.File, how int) error {
	for {
		if err := unix.Flock(int(file.Fd()), how); err != unix.EINTR {
			return err
		}
	}
}

// create makes the store file, complete or not at all. The gate is held.
func (f *folder) create() (err error) {
	unfinished := f.unfinished()
	if err := os.Remove(unfinished); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	defer func() {
		if err != nil {
			_ = os.Remove(unfinished)
		}
	}()
	if err := f.fill(unfinished); err != nil {
		return err
	}
	if f.workspace != "" {
		// Without a .jp folder there is nothing to recognise it by.
		if err := recordWorkspace(f.dir, f.workspace); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	if err := os.Rename(unfinished, f.storePath()); err != nil {
		return err
	}
	return syncDir(f.dir)
}

// makeDir makes the folder and, when it was not there, sees to it that it will
// still be there after a power cut.
func (f *folder) makeDir() error {
	if err := os.MkdirAll(f.dir, 0o700); err != nil {
		return err
	}
	if err := checkPlace(f.dir); err != nil {
		return err
	}
	return syncDir(filepath.Dir(f.dir))
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync()
}

// writeFile replaces a file with all of data or leaves it as it is.
func writeFile(path string, data []byte) (err error) {
	tmp, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = os.Remove(tmp.Name())
		}
	}()
	_, err = tmp.Write(data)
	if err == nil {
		err = tmp.Sync()
	}
	if closed := tmp.Close(); err == nil {
		err = closed
	}
	if err != nil {
		return err
	}
	if err := os.Rename(tmp.Name(), path); err != nil {
		return err
	}
	return syncDir(filepath.Dir(path))
}

// Package file knows the folder of a store: who may keep one where, how a renamed workspace finds
// its own again, and what is locked how: the store's file, behind a gate, so that nobody is kept
// out by those who come later; a run lock for each conversation; and slots for the sub-agents of a
// tree; and how the file is copied while others write to it. It knows nothing of what is in the
// file.
//
// A lock belongs to an open file, so that the kernel frees it with the last process that has a
// descriptor of it, in whatever way that ends. Package convstore draws the folder.
package file

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"jp/tools/files"
)

// The files of a store's folder. None of them is ever unlinked, apart from the unfinished one.
const (
	StoreName      = "store.db"       // the bbolt file
	UnfinishedName = "store.db.new"   // becomes StoreName when it is complete
	GateName       = "gate"           // the turnstile before StoreName's lock
	RunsName       = "runs"           // holds the run locks
	slotsName      = "slots"          // holds the slots
	WorkspaceName  = "workspace.json" // whose conversations these are
)

// Folder is where a store is kept, and how to get at its file.
type Folder struct {
	Dir       string
	Deadline  time.Duration
	Notice    func(string)
	workspace string
	fill      func(path string) error // makes the file of an empty store

	Patient bool          // a wait for the lock lasts as long as its context, see wait.go
	Remark  time.Duration // after which a wait is told to notice
	told    *atomic.Bool  // it was told that one of the metas is lost, or the whole store
	seen    *atomic.Bool  // the file was there: from then on one that is not is gone, see ErrGone
}

// Options says how to use a folder. The zero value works.
type Options struct {
	Deadline  time.Duration // of a wait for the lock; 0 = 30 s
	Patient   bool          // a run waits, in a store that is there
	Notice    func(string)  // nil = dropped
	Workspace string        // whose folder it becomes when a file is made in it; "" = nobody's
	Fill      func(path string) error
}

// Open returns the folder dir after checking that a store may be kept there; a *PlaceError says why
// not. It makes nothing.
func Open(dir string, o Options) (Folder, error) {
	if err := checkPlace(dir); err != nil {
		return Folder{}, err
	}
	full, _, err := resolve(dir)
	if err != nil {
		return Folder{}, err
	}
	f := Folder{Dir: full, Deadline: o.Deadline, Notice: o.Notice, workspace: o.Workspace, fill: o.Fill,
		Patient: o.Patient, Remark: defaultRemark, seen: new(atomic.Bool), told: new(atomic.Bool)}
	f.seen.Store(o.Patient)
	if f.Deadline == 0 {
		f.Deadline = DefaultDeadline
	}
	if f.Notice == nil {
		f.Notice = func(string) {}
	}
	return f, nil
}

// StorePath returns the path of the store's file. It need not exist.
func (f *Folder) StorePath() string { return f.Path(StoreName) }

// Unfinished returns the path of what becomes the store's file by being renamed.
func (f *Folder) Unfinished() string { return f.Path(UnfinishedName) }

func (f *Folder) Path(name string) string { return filepath.Join(f.Dir, name) }

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

// ErrAbsent says that there is no store yet: it reads as an empty one.
var ErrAbsent = errors.New("store: not made yet")

// OnceTold reports whether nobody was told yet of what is wrong with the store's file, for whoever
// tells it now.
func (f *Folder) OnceTold() bool { return !f.told.Swap(true) }

// SystemError names the store in an error of the operating system, without saying the path twice.
func (f *Folder) SystemError(err error) error {
	var pathErr *fs.PathError
	if errors.As(err, &pathErr) {
		return fmt.Errorf("store %s: %s: %w", pathErr.Path, pathErr.Op, pathErr.Err)
	}
	return fmt.Errorf("store %s: %w", f.StorePath(), err)
}

// Acquire returns the locked file.
//
// bbolt itself polls for the lock every 50 ms. Waiting in the kernel instead, on the very
// descriptor that bbolt will lock again, wakes the next one at once. Since flock prefers nobody,
// overlapping readers could keep a writer out for ever: so everybody passes the gate, which is held
// exclusively until the store is locked, one after the other.
func (f *Folder) Acquire(ctx context.Context, write bool) (*os.File, error) {
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
		case err == ErrAbsent, errors.Is(err, ErrGone):
			return nil, err
		case ctx.Err() != nil && context.Cause(ctx) != errOutlasted:
			return nil, fmt.Errorf("store %s: waiting for the lock: %w", f.StorePath(), context.Cause(ctx))
		case waiting.Err() != nil:
			holder, reads := f.holder()
			return nil, &BusyError{Holder: holder, Reads: reads, Waited: time.Since(start)}
		}
		var place *PlaceError
		if errors.As(err, &place) {
			return nil, err
		}
		return nil, f.SystemError(err)
	}
}

func (f *Folder) acquireOnce(ctx context.Context, write bool) (*os.File, error) {
	gate, err := f.enterGate(ctx, write)
	if err != nil {
		return nil, err
	}
	if gate != nil {
		defer func() {
			_ = Flock(gate, unix.LOCK_UN)
			gate.Close()
		}()
	}
	flag, how := os.O_RDONLY, unix.LOCK_SH
	if write {
		flag, how = os.O_RDWR, unix.LOCK_EX
	}
	file, err := OpenOwn(f.StorePath(), flag)
	if errors.Is(err, fs.ErrNotExist) {
		if f.seen.Load() {
			return nil, f.gone()
		}
		f.tellMissing()
		if !write {
			return nil, ErrAbsent
		}
		if err = f.create(); err != nil {
			return nil, err
		}
		file, err = OpenOwn(f.StorePath(), flag)
	}
	if err != nil {
		return nil, err
	}
	f.seen.Store(true)
	return file, lockFile(ctx, file, how)
}

// tellMissing tells, once, when there is no store where there was one. Of a folder that was moved
// away as a whole nothing is left to tell by.
func (f *Folder) tellMissing() {
	if owner, known := readWorkspace(f.Dir); known && !f.told.Swap(true) {
		f.Notice(fmt.Sprintf("store %s: is gone; there was one, as %s beside it says (of %s). The next query begins a new one",
			f.StorePath(), WorkspaceName, owner.Path))
	}
}

// gone returns the error for a store that was there.
func (f *Folder) gone() error { return fmt.Errorf("store %s: %w", f.StorePath(), ErrGone) }

// enterGate returns the locked gate. A reader goes without one where there is none, as on a copy
// that may not be written to.
func (f *Folder) enterGate(ctx context.Context, write bool) (*os.File, error) {
	gate, err := OpenOwn(f.Path(GateName), os.O_RDONLY)
	if errors.Is(err, fs.ErrNotExist) {
		if !write {
			return nil, nil
		}
		if _, absent := os.Lstat(f.StorePath()); absent != nil && f.seen.Load() {
			return nil, f.gone() // its folder too
		}
		if err = f.makeDir(); err != nil {
			return nil, err
		}
		gate, err = OpenOwn(f.Path(GateName), os.O_RDONLY|os.O_CREATE)
	}
	if err != nil {
		return nil, err
	}
	return gate, lockFile(ctx, gate, unix.LOCK_EX)
}

func (f *Folder) isCurrent(file *os.File) (bool, error) {
	mine, err := file.Stat()
	if err != nil {
		return false, err
	}
	there, err := os.Lstat(f.StorePath())
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil && os.SameFile(mine, there), err
}

// OpenOwn opens a regular file that belongs to us. It neither follows a symbolic link nor waits for
// the other end of a pipe.
func OpenOwn(path string, flag int) (*os.File, error) {
	file, _, err := files.OpenRegular(files.Disk{}, path, flag, files.NoLink|files.Own)
	for _, unfit := range []error{files.ErrLink, files.ErrFolder, files.ErrSpecial, files.ErrOwner} {
		if errors.Is(err, unfit) {
			return nil, &PlaceError{Path: path, Reason: unfit.Error()}
		}
	}
	return file, err
}

// lockFile takes a flock, waiting until ctx ends. On failure the file is closed: at once, or when a
// lock that was granted too late has come. A blocked flock cannot be woken, neither by closing its
// descriptor nor, since Go's handlers restart system calls, by a signal.
func lockFile(ctx context.Context, file *os.File, how int) error {
	err := Flock(file, how|unix.LOCK_NB)
	if err == nil {
		return nil
	}
	if err != unix.EWOULDBLOCK {
		file.Close()
		return os.NewSyscallError("flock", err)
	}
	granted := make(chan error)
	go func() {
		err := Flock(file, how)
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

// Unlock gives up the flock of a file, whoever else has a copy of its descriptor.
func Unlock(file *os.File) error { return Flock(file, unix.LOCK_UN) }

func Flock(file *os.File, how int) error {
	for {
		if err := unix.Flock(int(file.Fd()), how); err != unix.EINTR {
			return err
		}
	}
}

// create makes the store file, complete or not at all. The gate is held.
func (f *Folder) create() (err error) {
	unfinished := f.Unfinished()
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
		if err := recordWorkspace(f.Dir, f.workspace); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	if err := os.Rename(unfinished, f.StorePath()); err != nil {
		return err
	}
	return SyncDir(f.Dir)
}

// makeDir makes the folder and, when it was not there, sees to it that it will still be there after
// a power cut.
func (f *Folder) makeDir() error {
	if err := os.MkdirAll(f.Dir, 0o700); err != nil {
		return err
	}
	if err := checkPlace(f.Dir); err != nil {
		return err
	}
	return SyncDir(filepath.Dir(f.Dir))
}

func SyncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync()
}

// Package file manages the folder of a store: where a store may be, how a renamed workspace finds
// its store again, the locks, and copies of the file while others write. It does not know what is
// in the file.
//
// There are three kinds of lock: the lock of the store's file, which processes get in the order in
// which they come to the gate; a run lock for each conversation; and slots for the sub-agents of a
// tree.
//
// A lock belongs to an open file. The kernel frees it when the last process with a descriptor of
// that file ends, even by a crash. The comment of package convstore draws the folder.
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

// The files of a store's folder. Only the unfinished ones are ever removed: nobody names a backup as
// they are named. Before a first store the folder has no conversations, so they have two names.
const (
	StoreName      = "store.db"            // the bbolt file
	UnfinishedName = ".unfinished.db"      // the first store; becomes StoreName when it is complete
	SmallerName    = ".unfinished-less.db" // the store without its free space; becomes StoreName too
	GateName       = "gate"                // turnstile in front of StoreName's lock
	RunsName       = "runs"                // holds the run locks
	slotsName      = "slots"               // holds the slots
	stopsName      = "stops"               // holds a lock for each run that shall be stopped
	WorkspaceName  = "workspace.json"      // workspace that the conversations belong to
)

// Folder is the folder of a store. Its methods lock the store's file.
type Folder struct {
	Dir       string
	Deadline  time.Duration
	Notice    func(string)
	workspace string
	fill      func(path string) error // makes the file of an empty store

	DiskFree func(*os.File) (bytes uint64, known bool) // what is free on the disk of a file

	runs, stops *lockSet // locks that this process holds

	Patient bool          // a wait for the lock lasts until its context ends, see wait.go
	Remark  time.Duration // time after which Notice is called about a wait
	noticed *atomic.Bool  // Notice was called about a lost meta or a lost store
	seen    *atomic.Bool  // this process found the file; if it is missing later, see ErrGone
	vain    *atomic.Bool  // what was stopped has waited in vain, and this process has not written since
}

// Options says how to use a folder. The zero value works.
type Options struct {
	Deadline  time.Duration // longest wait for the lock; 0 = 30 s
	Notice    func(string)  // nil = dropped
	Workspace string        // workspace that a new store is recorded for; "" = none
	Fill      func(path string) error
}

// Open returns the folder dir. It fails with a *PlaceError if a store must not be there. It creates
// nothing.
func Open(dir string, o Options) (Folder, error) {
	if err := checkPlace(dir); err != nil {
		return Folder{}, err
	}
	full, _, err := resolve(dir)
	if err != nil {
		return Folder{}, err
	}
	f := Folder{Dir: full, Deadline: o.Deadline, Notice: o.Notice, workspace: o.Workspace, fill: o.Fill, DiskFree: diskFree,
		runs: newLockSet(filepath.Join(full, RunsName)), stops: newLockSet(filepath.Join(full, stopsName)),
		Remark: defaultRemark, seen: new(atomic.Bool), noticed: new(atomic.Bool), vain: new(atomic.Bool)}
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

// Unfinished returns the path of an unfinished first store.
func (f *Folder) Unfinished() string { return f.Path(UnfinishedName) }

func (f *Folder) Path(name string) string { return filepath.Join(f.Dir, name) }

// ErrGone says that the store's file was removed, or its folder moved, while this process used the
// store. No new store is made in its place by this process.
var ErrGone = errors.New("was removed or moved away while it was in use")

// PlaceError says why a store must not be at Path.
type PlaceError struct {
	Path      string
	Reason    string
	Workspace string // workspace that Path is in, if that is the reason
}

func (e *PlaceError) Error() string { return fmt.Sprintf("store %s: %s", e.Path, e.Reason) }

// ErrAbsent says that there is no store yet: it reads as an empty one.
var ErrAbsent = errors.New("store: not made yet")

// NoticeOnce reports whether it is called for the first time. The caller then gives a notice of
// what is wrong with the store's file, which is given only once.
func (f *Folder) NoticeOnce() bool { return !f.noticed.Swap(true) }

// SystemError adds the store's path to an error of the operating system, unless the error has a
// path.
func (f *Folder) SystemError(err error) error {
	if pathErr, ok := errors.AsType[*fs.PathError](err); ok {
		return fmt.Errorf("store %s: %s: %w", pathErr.Path, pathErr.Op, pathErr.Err)
	}
	return fmt.Errorf("store %s: %w", f.StorePath(), err)
}

// Acquire returns the locked file.
//
// bbolt itself polls for the lock every 50 ms. Acquire waits in the kernel instead, which wakes the
// next process at once. It locks the same descriptor that bbolt locks again later. The kernel does
// not hand out flocks in order, so overlapping readers could keep a writer out for ever. Therefore
// each process first locks the gate, exclusively, and holds it until it has locked the store.
func (f *Folder) Acquire(ctx context.Context, write bool) (*os.File, error) {
	return f.Wait(ctx).Acquire(write, nil, nil)
}

// Acquire is Folder.Acquire for a wait that has begun. It ends the wait. If kept, which it has
// returned before, can be locked at once, is still the store's file, and fits, it returns that
// again. Otherwise kept is not locked.
func (w *Wait) Acquire(write bool, kept *os.File, fits func() bool) (*os.File, error) {
	defer w.End()
	f := w.f
	for {
		file, err := f.acquireOnce(w.bounded, write, kept, fits)
		if err == nil {
			// Another process may have replaced the file meanwhile.
			current := file == kept
			if !current {
				current, err = f.isCurrent(file)
			}
			if current {
				if write {
					f.vain.Store(false)
				}
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
		case w.bounded.Err() != nil:
			return nil, w.Err()
		case errors.As(err, new(*PlaceError)):
			return nil, err
		}
		return nil, f.SystemError(err)
	}
}

// leaveGate lets the next process through the gate.
func leaveGate(gate *os.File) {
	_ = Flock(gate, unix.LOCK_UN)
	gate.Close()
}

func (f *Folder) acquireOnce(ctx context.Context, write bool, kept *os.File, fits func() bool) (*os.File, error) {
	gate, err := f.enterGate(ctx, write)
	if err != nil {
		return nil, err
	}
	if gate != nil {
		defer leaveGate(gate)
	}
	if f.runs.replaced() {
		return nil, f.gone()
	}
	flag, how := os.O_RDONLY, unix.LOCK_SH
	if write {
		flag, how = os.O_RDWR, unix.LOCK_EX
	}
	if kept != nil && Flock(kept, how|unix.LOCK_NB) == nil {
		if f.isOurs(kept) && fits() {
			return kept, nil
		}
		if err := Unlock(kept); err != nil {
			return nil, err
		}
	}
	file, err := OpenOwn(f.StorePath(), flag)
	if errors.Is(err, fs.ErrNotExist) {
		if f.seen.Load() {
			return nil, f.gone()
		}
		f.noticeMissing()
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

// noticeMissing gives a notice, once, if the folder had a store that is missing now. It cannot
// notice if the whole folder is missing. An unfinished file was to be the first one: see create.
func (f *Folder) noticeMissing() {
	if _, err := os.Lstat(f.Unfinished()); err == nil {
		return
	}
	if owner, recorded := readWorkspace(f.Dir); recorded && !f.noticed.Swap(true) {
		f.Notice(fmt.Sprintf("store %s: is gone; there was one, as %s beside it says (of %s). The next query begins a new one",
			f.StorePath(), WorkspaceName, owner.Path))
	}
}

// gone returns the error for a store that was there before.
func (f *Folder) gone() error { return fmt.Errorf("store %s: %w", f.StorePath(), ErrGone) }

// enterGate returns the locked gate. If there is no gate, as in a read-only copy of the folder, a
// reader gets nil.
func (f *Folder) enterGate(ctx context.Context, write bool) (*os.File, error) {
	gate, err := OpenOwn(f.Path(GateName), os.O_RDONLY)
	if errors.Is(err, fs.ErrNotExist) {
		if !write {
			return nil, nil
		}
		if _, absent := os.Lstat(f.StorePath()); absent != nil && f.seen.Load() {
			return nil, f.gone() // the folder is missing too
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

// isOurs reports whether a file is the store's and nothing of what OpenOwn refuses.
func (f *Folder) isOurs(file *os.File) bool {
	there, err := os.Lstat(f.StorePath())
	if err != nil || files.Check(there, files.NoLink|files.Own) != nil {
		return false
	}
	mine, err := file.Stat()
	return err == nil && os.SameFile(mine, there)
}

// OpenOwn opens a regular file that belongs to this user. It neither follows a symbolic link nor
// blocks on a pipe.
func OpenOwn(path string, flag int) (*os.File, error) {
	file, _, err := files.OpenRegular(files.Disk{}, path, flag, files.NoLink|files.Own)
	for _, unfit := range []error{files.ErrLink, files.ErrFolder, files.ErrSpecial, files.ErrOwner} {
		if errors.Is(err, unfit) {
			return nil, &PlaceError{Path: path, Reason: unfit.Error()}
		}
	}
	return file, err
}

// lockFile takes a flock, and waits until ctx ends. If it fails, it closes the file. A blocked
// flock cannot be interrupted: neither by closing its descriptor nor by a signal, since Go's signal
// handlers restart system calls. So after the end of ctx a goroutine waits on, and closes the file
// when it gets the lock.
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

// Unlock releases the flock of a file, also for processes that have a copy of its descriptor.
func Unlock(file *os.File) error { return Flock(file, unix.LOCK_UN) }

func Flock(file *os.File, how int) error {
	for {
		if err := unix.Flock(int(file.Fd()), how); err != unix.EINTR {
			return err
		}
	}
}

// create makes the store file, complete or not at all. The caller holds the gate.
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
		// Without a .jp folder a renamed workspace could not be recognised.
		if err := recordWorkspace(f.Dir, f.workspace); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	if err := os.Rename(unfinished, f.StorePath()); err != nil {
		return err
	}
	return SyncDir(f.Dir)
}

// makeDir makes the folder if it is missing, and flushes it so that it survives a power cut.
func (f *Folder) makeDir() error {
	if err := os.MkdirAll(f.Dir, 0o700); err != nil {
		return err
	}
	if err := checkPlace(f.Dir); err != nil {
		return err
	}
	return SyncDir(filepath.Dir(f.Dir))
}

// SyncDir syncs a folder, if that can be done.
func SyncDir(dir string) error { return files.SyncDir(dir) }

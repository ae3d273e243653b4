package workspace

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"jp/cmd/jp/internal/exit"
	"jp/convstore"
)

// vanishingName begins the name of the folder of a run with --no-persist; digits follow.
const vanishingName = "jp-no-persist-"

// vanishingDir is such a folder. It is locked as long as the run lives. If the run is killed, the
// kernel frees the lock and the next such run removes the folder.
type vanishingDir struct {
	path string
	lock *os.File
}

func makeVanishing(place string) (*vanishingDir, error) {
	for {
		path, err := os.MkdirTemp(place, vanishingName)
		if err != nil {
			return nil, err
		}
		dir, err := lockVanishing(path)
		switch {
		case err == nil:
			return dir, nil
		case errors.Is(err, unix.EWOULDBLOCK), errors.Is(err, fs.ErrNotExist): // another run removes it: it was not locked yet
		default:
			return nil, errors.Join(err, os.Remove(path))
		}
	}
}

// lockVanishing locks the folder of a run that is dead, or of this one. For others the error is
// unix.EWOULDBLOCK, or fs.ErrNotExist if the folder is gone.
func lockVanishing(path string) (*vanishingDir, error) {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: path, Err: err}
	}
	lock := os.NewFile(uintptr(fd), path)
	err = unix.Flock(fd, unix.LOCK_EX|unix.LOCK_NB)
	if err == nil {
		err = isStill(lock, path)
	}
	if err != nil {
		lock.Close()
		return nil, &os.PathError{Op: "lock", Path: path, Err: err}
	}
	return &vanishingDir{path: path, lock: lock}, nil
}

// isStill returns nil when the open folder is the one at path, and ours.
func isStill(dir *os.File, path string) error {
	opened, err := dir.Stat()
	if err != nil {
		return err
	}
	there, err := os.Lstat(path)
	switch {
	case err != nil:
		return err
	case !os.SameFile(opened, there):
		return fs.ErrNotExist
	case opened.Sys().(*syscall.Stat_t).Uid != uint32(os.Geteuid()):
		return fs.ErrPermission
	}
	return nil
}

// remove removes the folder. It unlocks it when nothing is left that another run could take for its
// own.
func (d *vanishingDir) remove() error {
	return errors.Join(os.RemoveAll(d.path), d.lock.Close())
}

// sweepVanished removes what killed runs have left in a folder. What it cannot remove is left to
// the next run.
func sweepVanished(place string) {
	entries, _ := os.ReadDir(place)
	for _, e := range entries {
		digits, ok := strings.CutPrefix(e.Name(), vanishingName)
		if !ok || digits == "" || strings.Trim(digits, "0123456789") != "" || !e.IsDir() {
			continue
		}
		if dir, err := lockVanishing(filepath.Join(place, e.Name())); err == nil {
			_ = dir.remove()
		}
	}
}

// removeVanishing removes the store of a run with --no-persist that is ended by force. If it
// cannot, the next run does.
func (w *Workspace) removeVanishing() {
	if dir := w.vanishing.Load(); dir != nil {
		_ = os.RemoveAll(dir.path)
	}
}

// MakeStore makes a store for one run, and returns the function that removes it. It is in memory
// where the system has a place for that. First it removes what killed runs have left.
func (w *Workspace) MakeStore() (st *convstore.Store, remove func(), err error) {
	places := w.vanishingPlaces()
	for _, place := range places {
		sweepVanished(place)
	}
	dir, err := makeVanishing(places[0])
	if err != nil {
		return nil, nil, fmt.Errorf("--no-persist: %w", err)
	}
	w.vanishing.Store(dir)
	remove = func() {
		if err := dir.remove(); err != nil {
			w.Con.Warn("--no-persist: %v", err)
		}
	}
	if st, err = convstore.Open(dir.path, convstore.Options{}); err != nil {
		remove()
		return nil, nil, exit.Usagef("--no-persist: %v", err).WithHint("set XDG_RUNTIME_DIR or TMPDIR to a folder for temporary files")
	}
	return st, remove, nil
}

// vanishingPlaces returns the folders where a vanishing store may be, the first one for this run.
func (w *Workspace) vanishingPlaces() (places []string) {
	if top := w.Con.Getenv("XDG_RUNTIME_DIR"); filepath.IsAbs(top) {
		if info, err := os.Stat(top); err == nil && info.IsDir() {
			places = append(places, top)
		}
	}
	return append(places, cmp.Or(w.Con.Getenv("TMPDIR"), os.TempDir()))
}

// Package vanishing makes folders for temporary files that are gone after their process, however it
// ends: the kernel frees the lock of a process that was killed, and the next one removes its
// folder.
package vanishing

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// Dir is a folder that its process removes. It is locked as long as the process lives.
type Dir struct {
	Path string
	lock *os.File
}

// Make makes a folder in place, which only the user can open. Its name is name and digits.
func Make(place, name string) (*Dir, error) {
	for {
		path, err := os.MkdirTemp(place, name)
		if err != nil {
			return nil, err
		}
		dir, err := lock(path)
		switch {
		case err == nil:
			return dir, nil
		case errors.Is(err, unix.EWOULDBLOCK), errors.Is(err, fs.ErrNotExist): // another process removes it: it was not locked yet
		default:
			return nil, errors.Join(err, os.Remove(path))
		}
	}
}

// lock locks the folder of a process that is dead, or of this one. For others the error is
// unix.EWOULDBLOCK, or fs.ErrNotExist if the folder is gone.
func lock(path string) (*Dir, error) {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: path, Err: err}
	}
	held := os.NewFile(uintptr(fd), path)
	err = unix.Flock(fd, unix.LOCK_EX|unix.LOCK_NB)
	if err == nil {
		err = isStill(held, path)
	}
	if err != nil {
		held.Close()
		return nil, &os.PathError{Op: "lock", Path: path, Err: err}
	}
	return &Dir{Path: path, lock: held}, nil
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

// Remove removes the folder. It unlocks it when nothing is left that another process could take for
// its own.
func (d *Dir) Remove() error {
	return errors.Join(os.RemoveAll(d.Path), d.lock.Close())
}

// Clear is Remove for a process that is about to end. What it cannot remove is left to the next
// one.
func (d *Dir) Clear() { _ = os.RemoveAll(d.Path) }

// Sweep removes what killed processes have left in place under that name. What it cannot remove is
// left to the next Sweep.
func Sweep(place, name string) {
	entries, _ := os.ReadDir(place)
	for _, e := range entries {
		digits, ok := strings.CutPrefix(e.Name(), name)
		if !ok || digits == "" || strings.Trim(digits, "0123456789") != "" || !e.IsDir() {
			continue
		}
		if dir, err := lock(filepath.Join(place, e.Name())); err == nil {
			_ = dir.Remove()
		}
	}
}

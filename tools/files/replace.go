// Package files opens what must be a regular file. It also writes files whole or not at all,
// whatever ends the process meanwhile.
package files

import (
	"crypto/rand"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Replace writes data to file, which may exist, whole or not at all: a new file is written, synced
// and renamed. A symbolic link is replaced, not followed.
func Replace(file string, data []byte, mode fs.FileMode) error {
	return replaceFrom(filepath.Dir(file), file, data, mode)
}

// ReplaceWithin is Replace with the new file written in the folder dir, where a file that a killed
// jp leaves behind is harmless. If dir is on another disk, the new file is written beside file.
func ReplaceWithin(dir, file string, data []byte, mode fs.FileMode) error {
	err := replaceFrom(dir, file, data, mode)
	if errors.Is(err, syscall.EXDEV) {
		return Replace(file, data, mode)
	}
	return err
}

// replaceFrom is Replace with the new file written in dir.
func replaceFrom(dir, file string, data []byte, mode fs.FileMode) error {
	f, err := os.CreateTemp(dir, "."+filepath.Base(file)+".*") // 0600; RemoveUnfinished knows the name
	if err != nil {
		return err
	}
	err = fill(f, data, f.Chmod(mode), nil)
	if err == nil {
		err = os.Rename(f.Name(), file)
	}
	if err != nil {
		_ = os.Remove(f.Name())
		return err
	}
	return SyncDir(filepath.Dir(file))
}

// Make makes file, which nobody else can read, whole or not at all. If something is there already,
// that is fs.ErrExist and stays.
func Make(file string, data []byte) error {
	dir, err := os.OpenRoot(filepath.Dir(file))
	if err != nil {
		return err
	}
	defer func() { _ = dir.Close() }()
	return MakeIn(dir, filepath.Base(file), data, 0o600)
}

// MakeIn is [Make] for a file below dir: no link leads out of it. The mode is that of a new file:
// the umask counts.
func MakeIn(dir *os.Root, name string, data []byte, mode fs.FileMode) error {
	temp, err := writeIn(dir, name, name, data, mode, nil)
	switch {
	case errors.Is(err, fs.ErrExist):
		return fs.ErrExist // alone: callers name the file
	case err != nil:
		return err
	case temp == name:
		return syncIn(dir, name)
	}
	return nameIn(dir, temp, name, mode)
}

// nameIn gives a synced file the name instead of temp, if nothing is there.
func nameIn(dir *os.Root, temp, name string, mode fs.FileMode) error {
	defer func() { _ = dir.Remove(temp) }() // after a link it is a second name of the file
	// A link, unlike a renaming, does not replace a file that has appeared meanwhile.
	if err := dir.Link(temp, name); err == nil {
		return syncIn(dir, name)
	}
	// There is such a file, or this file system has no links.
	return claim(dir, temp, name, mode)
}

// claim renames temp to name if nothing is there yet. It first makes an empty file of that name:
// the renaming can then only replace this one.
func claim(dir *os.Root, temp, name string, mode fs.FileMode) error {
	f, err := dir.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	switch {
	case errors.Is(err, fs.ErrExist):
		return fs.ErrExist
	case err != nil:
		return err
	}
	_ = f.Close()
	if err := dir.Rename(temp, name); err != nil {
		_ = dir.Remove(name)
		return err
	}
	return syncIn(dir, name)
}

// ErrChanged is the error for a file that has changed since it was looked at.
var ErrChanged = errors.New("was changed by someone else meanwhile")

// ReplaceIn writes data to an existing file below dir, whole or not at all. was is its info from
// when it was looked at: mode, owner and group stay. If another file is there now, or it was
// written since, the error is ErrChanged and nothing happens.
func ReplaceIn(dir *os.Root, name string, data []byte, was fs.FileInfo) error {
	temp, err := writeIn(dir, name, tempName(name), data, 0o600, was)
	if err != nil {
		return err
	}
	now, err := dir.Lstat(name)
	if err == nil && (!os.SameFile(was, now) || now.Size() != was.Size() || !now.ModTime().Equal(was.ModTime())) {
		err = ErrChanged
	}
	if err == nil {
		err = dir.Rename(temp, name)
	}
	if err != nil {
		_ = dir.Remove(temp)
		return err
	}
	return syncIn(dir, name)
}

// tempName is a name beside name.
func tempName(name string) string {
	return filepath.Join(filepath.Dir(name), ".jp-"+rand.Text()+".tmp")
}

// writeIn writes data to a new file beside name and syncs it. like is the file whose mode, owner
// and group it gets; nil = those of a new file. If the system can, the file has no name before it is
// complete, so that a killed jp leaves nothing, and then it gets the name as, if nothing is there.
// Otherwise it has another name, got.
func writeIn(dir *os.Root, name, as string, data []byte, mode fs.FileMode, like fs.FileInfo) (got string, err error) {
	if folder, err := dir.Open(filepath.Dir(name)); err == nil {
		defer func() { _ = folder.Close() }()
		if f, err := Unnamed(folder, mode); err == nil {
			var linked error
			err = fill(f, data, becomes(f, like), func() error {
				linked = LinkUnnamed(f, folder, filepath.Base(as))
				return linked
			})
			if linked == nil || errors.Is(linked, fs.ErrExist) {
				return as, err
			}
		}
	}
	got = tempName(name)
	return got, writeNamed(dir, got, data, mode, like)
}

// writeNamed is writeIn for a system without such files: name must not exist.
func writeNamed(dir *os.Root, name string, data []byte, mode fs.FileMode, like fs.FileInfo) error {
	f, err := dir.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return err
	}
	if err = fill(f, data, becomes(f, like), nil); err != nil {
		_ = dir.Remove(name)
	}
	return err
}

// becomes gives f the mode, owner and group of another file, if there is one.
func becomes(f *os.File, like fs.FileInfo) error {
	if like == nil {
		return nil
	}
	if is, ok := like.Sys().(*syscall.Stat_t); ok {
		_ = f.Chown(int(is.Uid), int(is.Gid)) // only root can give files away
	}
	return f.Chmod(like.Mode().Perm())
}

// fill writes data to f, syncs it and calls then, which may be nil, unless something has failed
// before; it closes f.
func fill(f *os.File, data []byte, failed error, then func() error) error {
	if failed == nil {
		_, failed = f.Write(data)
	}
	if failed == nil {
		failed = f.Sync()
	}
	if failed == nil && then != nil {
		failed = then()
	}
	if err := f.Close(); failed == nil {
		failed = err
	}
	return failed
}

// syncIn syncs the folder of a file below dir.
func syncIn(dir *os.Root, name string) error {
	return syncDir(dir.Open(filepath.Dir(name)))
}

// SyncDir syncs a folder, if that can be done: the names in it are there already.
func SyncDir(dir string) error { return syncDir(os.Open(dir)) }

// syncDir is SyncDir for an open folder, which it closes.
func syncDir(dir *os.File, err error) error {
	if err != nil {
		return nil // it cannot be read
	}
	defer func() { _ = dir.Close() }()
	if err := dir.Sync(); !cannot(err) {
		return err
	}
	return nil
}

// cannot reports whether err says that a file system does not sync folders, as some over a network
// or in user space.
func cannot(err error) bool {
	return errors.Is(err, syscall.EINVAL) || errors.Is(err, errors.ErrUnsupported)
}

// CanMake returns the error that Make would return for file, as far as that is known before.
func CanMake(file string) error {
	if _, err := os.Lstat(file); err == nil {
		return fs.ErrExist
	}
	f, err := os.CreateTemp(filepath.Dir(file), "."+filepath.Base(file)+".*")
	if err != nil {
		return err
	}
	return errors.Join(f.Close(), os.Remove(f.Name()))
}

// RemoveUnfinished removes what a Replace of file has left beside it when it was killed before
// then. A younger file may be still in use.
func RemoveUnfinished(file string, then time.Time) {
	entries, err := os.ReadDir(filepath.Dir(file))
	if err != nil {
		return
	}
	for _, e := range entries {
		number, ours := strings.CutPrefix(e.Name(), "."+filepath.Base(file)+".")
		if _, err := strconv.ParseUint(number, 10, 64); !ours || err != nil || !e.Type().IsRegular() {
			continue
		}
		if info, err := e.Info(); err == nil && info.ModTime().Before(then) {
			_ = os.Remove(filepath.Join(filepath.Dir(file), e.Name()))
		}
	}
}

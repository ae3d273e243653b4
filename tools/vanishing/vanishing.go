// Package vanishing makes folders for temporary files that are gone after their process, however it
// ends: the kernel frees the lock of a process that was killed, and the next one on this machine
// removes its folder.
package vanishing

import (
	"cmp"
	"errors"
	"fmt"
	"hash/fnv"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"jp/tools/files"
)

// Dir is a folder that its process removes. It is locked as long as the process lives that made it.
type Dir struct {
	Path string
	lock *os.File // nil = another process has it
}

// OfTool begins the names of folders for one call of a tool.
const OfTool = "jp-tool-"

// Make makes a folder in place, which only the user can open. Its name begins with name.
func Make(place, name string) (*Dir, error) {
	for {
		run, host := here()
		path, err := os.MkdirTemp(place, name+run+host+"-")
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

// here returns the parts of a name that tell the folders of this machine from those of others: several
// may share the place, and not know of the locks of one another. Either part is enough. The first one
// is of this run of the system, where it says which it is, and the other one of the name of the host:
// this can change, and each container has another one.
func here() (run, host string) {
	name, _ := os.Hostname()
	boot, _ := os.ReadFile("/proc/sys/kernel/random/boot_id")
	return tag(cmp.Or(string(boot), name)), tag(name)
}

// tag returns a short form of an id, tagLen bytes long.
func tag(id string) string {
	sum := fnv.New32a()
	sum.Write([]byte(id))
	return fmt.Sprintf("%0*x", tagLen, sum.Sum32())
}

const tagLen = 8

// ofHere reports whether a folder is one of this machine. Its name is given without what all begin
// with.
func ofHere(name string) bool {
	tags, digits, ok := strings.Cut(name, "-")
	if !ok || len(tags) != 2*tagLen || digits == "" || strings.Trim(digits, "0123456789") != "" {
		return false
	}
	run, host := here()
	return tags[:tagLen] == run || tags[tagLen:] == host
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

// WriteFile makes a file in the folder that only the user can read, and returns its path. It makes it
// in that folder also if something else has taken its place, and follows no link.
func (d *Dir) WriteFile(name, text string) (path string, err error) {
	path = filepath.Join(d.Path, name)
	fd, err := unix.Openat(int(d.lock.Fd()), name, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return "", &os.PathError{Op: "open", Path: path, Err: err}
	}
	file := os.NewFile(uintptr(fd), path)
	_, err = file.WriteString(text)
	return path, errors.Join(err, file.Close())
}

// Remove removes the folder with all that others have put into it. The folder may be gone, and d may
// be nil. It unlocks it when nothing is left that another process could take for its own.
func (d *Dir) Remove() error {
	if d == nil {
		return nil
	}
	err := remove(d.Path)
	if d.lock != nil {
		err = errors.Join(err, d.lock.Close())
	}
	return err
}

func remove(path string) error {
	if os.Remove(path) == nil {
		return nil
	}
	parent, err := os.OpenRoot(filepath.Dir(path) + "/.") // what took its place may be a FIFO
	if err == nil {
		defer parent.Close()
		err = files.RemoveTree(parent, filepath.Base(path))
	}
	if err == nil || errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if inner, ok := errors.AsType[*os.PathError](err); ok {
		err = inner.Err // its path may be as long as others liked
	}
	return fmt.Errorf("folder for temporary files %s: %w", path, err)
}

// Clear is Remove for a process that is about to end. What it cannot remove is left to the next
// one.
func (d *Dir) Clear() { _ = remove(d.Path) }

// Sweep removes what killed processes of this machine have left in place under that name. What it
// cannot remove is left to the next Sweep.
func Sweep(place, name string) {
	entries, _ := os.ReadDir(place)
	for _, e := range entries {
		rest, ok := strings.CutPrefix(e.Name(), name)
		if !ok || !ofHere(rest) || !e.IsDir() {
			continue
		}
		if dir, err := lock(filepath.Join(place, e.Name())); err == nil {
			_ = dir.Remove()
		}
	}
}

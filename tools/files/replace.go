// Package files opens what must be a regular file, and puts a file in its place whole or not at all, whatever ends the process
// on the way.
package files

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Replace puts data in the place of file, or makes it, whole or not at all: a new file is written, brought to the disk and
// renamed. A symbolic link is replaced, not followed.
func Replace(file string, data []byte, mode fs.FileMode) error {
	return replaceFrom(filepath.Dir(file), file, data, mode)
}

// ReplaceWithin is Replace with the new file written in the folder dir, where what a jp that was killed leaves behind
// bothers nobody; in file's own where dir is on another disk.
func ReplaceWithin(dir, file string, data []byte, mode fs.FileMode) error {
	err := replaceFrom(dir, file, data, mode)
	if errors.Is(err, syscall.EXDEV) {
		return Replace(file, data, mode)
	}
	return err
}

func replaceFrom(dir, file string, data []byte, mode fs.FileMode) error {
	return put(dir, file, data, mode, os.Rename)
}

// Make makes file, which nobody else can read, whole or not at all. What is there already is fs.ErrExist and stays.
func Make(file string, data []byte) error {
	return put(filepath.Dir(file), file, data, 0o600, func(made, file string) error {
		err := os.Link(made, file)
		if err == nil {
			return os.Remove(made)
		}
		if _, there := os.Lstat(file); errors.Is(err, fs.ErrExist) || there == nil {
			return fs.ErrExist
		}
		return os.Rename(made, file) // some disks have no links
	})
}

// CanMake finds out what would keep Make from making file.
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

// put writes a new file in dir, brings it to the disk and lets put bring it to its place.
func put(dir, file string, data []byte, mode fs.FileMode, put func(made, file string) error) (err error) {
	f, err := os.CreateTemp(dir, "."+filepath.Base(file)+".*") // 0600
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = os.Remove(f.Name())
		}
	}()
	_, err = f.Write(data)
	if err == nil {
		err = f.Chmod(mode)
	}
	if err == nil {
		err = f.Sync()
	}
	if closed := f.Close(); err == nil {
		err = closed
	}
	if err != nil {
		return err
	}
	if err = put(f.Name(), file); err != nil {
		return err
	}
	d, err := os.Open(filepath.Dir(file))
	if err != nil {
		return nil // it is there; that the folder cannot be read keeps only from making sure of it
	}
	defer func() { _ = d.Close() }()
	return d.Sync()
}

// RemoveUnfinished removes what a Replace of file left beside it when it was killed before then. Whoever writes now is younger.
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

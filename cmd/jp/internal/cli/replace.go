package cli

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// replaceFile puts data in the place of file, or makes it, whole or not at all: a new file is written, brought to the disk and
// renamed. A symbolic link is replaced, not followed.
func replaceFile(file string, data []byte, mode fs.FileMode) error {
	return replaceFrom(filepath.Dir(file), file, data, mode)
}

// replaceFileFrom is replaceFile with the new file written in the folder dir, where what a jp that was killed leaves behind
// bothers nobody; in file's own where dir is on another disk.
func replaceFileFrom(dir, file string, data []byte, mode fs.FileMode) error {
	err := replaceFrom(dir, file, data, mode)
	if errors.Is(err, syscall.EXDEV) {
		return replaceFile(file, data, mode)
	}
	return err
}

func replaceFrom(dir, file string, data []byte, mode fs.FileMode) (err error) {
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
	if err := os.Rename(f.Name(), file); err != nil {
		return err
	}
	d, err := os.Open(filepath.Dir(file))
	if err != nil {
		return nil // it is there; that the folder cannot be read keeps only from making sure of it
	}
	defer func() { _ = d.Close() }()
	return d.Sync()
}

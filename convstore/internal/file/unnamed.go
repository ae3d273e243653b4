package file

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

func unlinked(dir string) (*os.File, error) {
	file, err := os.CreateTemp(dir, ".jp-*")
	if err != nil {
		return nil, err
	}
	if err := os.Remove(file.Name()); err != nil {
		file.Close()
		return nil, err
	}
	return file, nil
}

func named(dir, pattern string) (file *os.File, name func(path string) error, err error) {
	if file, err = os.CreateTemp(dir, pattern); err != nil {
		return nil, nil, err
	}
	return file, func(path string) error {
		err := os.Link(file.Name(), path) // unlike Rename, it never replaces another file
		if errors.Is(err, unix.EPERM) || errors.Is(err, unix.ENOTSUP) {
			return os.Rename(file.Name(), path) // the file system has no hard links
		}
		return errors.Join(err, os.Remove(file.Name()))
	}, nil
}

package file

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"

	"jp/tools/files"
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

// Nameless makes a file that gets a name when name is called. It vanishes if the process is killed
// before. If the system has no such files, it has a temporary name, which stays then.
func Nameless(dir, pattern string) (file *os.File, name func(path string) error, err error) {
	if folder, err := os.Open(dir); err == nil {
		f, err := files.Unnamed(folder, 0o600)
		_ = folder.Close()
		if err == nil {
			return f, func(path string) error { return files.LinkUnnamed(f, nil, path) }, nil
		}
	}
	return named(dir, pattern)
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

package cli

import (
	"io/fs"
	"os"
	"path/filepath"
)

// replaceFile puts data in the place of file, or makes it, whole or not at all: a new file is written, brought to the disk and
// renamed. A symbolic link is replaced, not followed.
func replaceFile(file string, data []byte, mode fs.FileMode) (err error) {
	dir := filepath.Dir(file)
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
	d, err := os.Open(dir)
	if err != nil {
		return nil // it is there; that the folder cannot be read keeps only from making sure of it
	}
	defer func() { _ = d.Close() }()
	return d.Sync()
}

package proc

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"jp/tools/files"
)

// removeTmp removes the folder dir with all that is in it, after the end of the tool that it was
// for. dir may be "", and may be gone.
func removeTmp(dir string) error {
	if dir == "" || os.Remove(dir) == nil {
		return nil
	}
	parent, err := os.OpenRoot(filepath.Dir(dir) + "/.") // what took its place may be a FIFO
	if err == nil {
		defer parent.Close()
		err = files.RemoveTree(parent, filepath.Base(dir))
	}
	if err == nil || errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if path, ok := errors.AsType[*os.PathError](err); ok {
		err = path.Err // the path may be as long as the tool liked
	}
	return fmt.Errorf("sandbox: folder for temporary files %s: %w", dir, err)
}

package files

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

// CreateIn is MakeIn with the file's folders; made is false if there is a file with that name.
// Nothing outside of root is touched, whatever links are in the way.
func CreateIn(root *os.Root, name string, data []byte) (made bool, err error) {
	if _, err := root.Lstat(name); err == nil {
		return false, nil
	}
	if err := root.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return false, err
	}
	err = MakeIn(root, name, data, 0o644)
	if errors.Is(err, fs.ErrExist) {
		return false, nil
	}
	return err == nil, err
}

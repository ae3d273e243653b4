package profiles

import (
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"

	"jp/tools/files"
)

// This is the only file of the package that opens files: those of a workspace for OnDisk, and those
// elsewhere, where the user's own rights are the bound.

// OnDisk returns the files of the workspace at root for Sources.Files, each as it is on the disk
// when it is opened. Names in .jp never lead out of .jp, and others not out of root, links
// resolved. Opening never waits.
func OnDisk(root string) fs.FS { return workspaceOnDisk(root) }

type workspaceOnDisk string

// Open implements fs.FS.
func (w workspaceOnDisk) Open(name string) (fs.File, error) {
	jail, rest, err := w.jail("open", name)
	if err != nil {
		return nil, err
	}
	defer func() { _ = jail.Close() }() // what is open stays open
	return openDisk(jail, rest)
}

// Stat implements fs.StatFS.
func (w workspaceOnDisk) Stat(name string) (fs.FileInfo, error) {
	jail, rest, err := w.jail("stat", name)
	if err != nil {
		return nil, err
	}
	defer func() { _ = jail.Close() }()
	return jail.Stat(rest)
}

// jail opens the folder that a name must not lead out of; rest is the name below it.
func (w workspaceOnDisk) jail(op, name string) (jail *os.Root, rest string, err error) {
	if !fs.ValidPath(name) {
		return nil, "", &fs.PathError{Op: op, Path: name, Err: fs.ErrInvalid}
	}
	dir, rest := string(w), name
	if below, ok := strings.CutPrefix(name+"/", inJP+"/"); ok {
		dir, rest = filepath.Join(dir, inJP), path.Clean(below)
	}
	jail, err = os.OpenRoot(dir)
	return jail, filepath.FromSlash(rest), err
}

// readDisk returns the bytes of a regular file outside of the workspace's .jp, and its identity.
func readDisk(file string) ([]byte, fs.FileInfo, error) {
	return files.ReadRegular(files.Disk{}, file, maxFileBytes, 0)
}

// folderOnDisk is the file system below a folder outside of the workspace's .jp.
func folderOnDisk(dir string) fs.FS {
	return folderFS(func(name string) (fs.File, error) {
		return openDisk(files.Disk{}, filepath.Join(dir, filepath.FromSlash(name)))
	})
}

// openDisk opens a file or folder for reading, and never waits.
func openDisk(at files.Place, name string) (fs.File, error) {
	file, err := at.OpenFile(name, files.Reading, 0)
	if err != nil {
		return nil, err
	}
	return file, nil
}

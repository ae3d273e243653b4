// Package ondisk reads the files of a workspace as they are, for programs that ask nobody whether
// they trust it. jp does not: see package trust.
package ondisk

import (
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"

	"jp/tools/files"
)

const inJP = ".jp"

// FS returns the files of the workspace at root for profiles.Sources, each as it is on the disk
// when it is opened. Names in .jp never lead out of .jp, and others not out of root, links
// resolved. Opening never waits.
func FS(root string) fs.FS { return workspace(root) }

type workspace string

// Open implements fs.FS.
func (w workspace) Open(name string) (fs.File, error) {
	jail, rest, err := w.jail("open", name)
	if err != nil {
		return nil, err
	}
	defer func() { _ = jail.Close() }() // what is open stays open
	file, err := jail.OpenFile(rest, files.Reading, 0)
	if err != nil {
		return nil, err
	}
	return file, nil
}

// Stat implements fs.StatFS.
func (w workspace) Stat(name string) (fs.FileInfo, error) {
	jail, rest, err := w.jail("stat", name)
	if err != nil {
		return nil, err
	}
	defer func() { _ = jail.Close() }()
	return jail.Stat(rest)
}

// jail opens the folder that a name must not lead out of; rest is the name below it.
func (w workspace) jail(op, name string) (jail *os.Root, rest string, err error) {
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

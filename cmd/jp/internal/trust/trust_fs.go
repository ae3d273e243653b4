package trust

import (
	"bytes"
	"io"
	"io/fs"
	"path"
	"strings"
	"syscall"

	"jp/tools/files"
)

// FS returns the files as an fs.FS by slash path below the workspace, for profiles.Sources: their
// bytes and the links between them as they were when they were read. Nothing is opened. Nil files
// give a nil FS, with which nothing of a workspace is read.
func (c *Files) FS() fs.FS {
	if c == nil {
		return nil
	}
	return memory{c}
}

// node is what was found at one path.
type node struct {
	named fs.FileInfo // of the path itself
	info  fs.FileInfo // links followed; nil = lost says why there is none
	lost  error
	data  []byte   // of a small regular file
	names []string // of a folder; not all of them have a node
	back  int      // number of folders up to the one that a link leads back to; 0 = it is no such link
}

func (c *Files) note(key string, n *node) {
	if c.nodes == nil {
		c.nodes = map[string]*node{}
	}
	c.nodes[key] = n
}

// memory is an fs.FS of Files.
type memory struct{ files *Files }

// find returns the node of a name and its key, which differs behind a link back up. The errors are
// those of the system.
func (m memory) find(op, name string) (n *node, key string, err error) {
	fail := func(err error) (*node, string, error) {
		return nil, "", &fs.PathError{Op: op, Path: name, Err: err}
	}
	if !fs.ValidPath(name) {
		return fail(fs.ErrInvalid)
	}
	for rest, more := name, true; more; {
		if n != nil && !n.info.IsDir() {
			return fail(syscall.ENOTDIR)
		}
		var next string
		next, rest, more = strings.Cut(rest, "/")
		key = path.Join(key, next)
		if n = m.files.nodes[key]; n == nil {
			continue // a folder above those that are read, or nothing
		}
		if n.info == nil {
			return fail(n.lost)
		}
		if n.back > 0 {
			for range n.back {
				key = path.Dir(key)
			}
			n = m.files.nodes[key]
		}
	}
	if n == nil {
		return fail(syscall.ENOENT)
	}
	return n, key, nil
}

// Stat implements fs.StatFS.
func (m memory) Stat(name string) (fs.FileInfo, error) {
	n, _, err := m.find("stat", name)
	if err != nil {
		return nil, err
	}
	return n.info, nil
}

// Open implements fs.FS. What is no folder can be read if it was a small regular file.
func (m memory) Open(name string) (fs.File, error) {
	n, key, err := m.find("open", name)
	if err != nil {
		return nil, err
	}
	if !n.info.IsDir() {
		return &opened{node: n, name: name, left: bytes.NewReader(n.data)}, nil
	}
	dir := &openedFolder{opened: opened{node: n, name: name}}
	for _, child := range n.names {
		if below := m.files.nodes[path.Join(key, child)]; below != nil && below.lost != errEditorFile {
			dir.entries = append(dir.entries, fs.FileInfoToDirEntry(below.named))
		}
	}
	return dir, nil
}

// opened is a file that is open.
type opened struct {
	*node
	name string
	left *bytes.Reader
}

func (o *opened) Stat() (fs.FileInfo, error) { return o.info, nil }

func (o *opened) Close() error { return nil }

func (o *opened) Read(p []byte) (int, error) {
	var err error
	switch {
	case o.info.IsDir():
		err = files.ErrFolder
	case !o.info.Mode().IsRegular():
		err = files.ErrSpecial
	case o.data == nil && o.info.Size() > 0:
		err = &files.LargeError{Limit: MaxContributedKept}
	default:
		return o.left.Read(p)
	}
	return 0, &fs.PathError{Op: "read", Path: o.name, Err: err}
}

// openedFolder is a folder that is open, with the entries that were not listed yet.
type openedFolder struct {
	opened
	entries []fs.DirEntry
}

// ReadDir implements fs.ReadDirFile.
func (o *openedFolder) ReadDir(n int) ([]fs.DirEntry, error) {
	if n <= 0 {
		list := o.entries
		o.entries = nil
		return list, nil
	}
	if len(o.entries) == 0 {
		return nil, io.EOF
	}
	n = min(n, len(o.entries))
	list := o.entries[:n:n]
	o.entries = o.entries[n:]
	return list, nil
}

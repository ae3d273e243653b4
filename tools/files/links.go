package files

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// maxLinks bounds the symbolic links that one path goes through, as the kernel does.
const maxLinks = 40

// Links says which symbolic links can be trusted to lead where the user made them lead. Any other
// link may have been made by a tool, or came with a repository, so that a rule would open what it
// does not name.
type Links struct {
	Workspace string // absolute, without links; no link in it is followed. "" is none
	// Closed are folders, absolute and without links, that no rule covers or is in. So no tool
	// makes anything in a folder around one: links there were made by the user, unless any user can
	// have made them, as in /tmp.
	Closed []string
}

// A LinkError is a symbolic link that is not followed.
type LinkError struct {
	Link string // absolute
}

func (e *LinkError) Error() string {
	return fmt.Sprintf("goes through the symbolic link %q, which a tool or a repository may have made", e.Link)
}

// Resolve returns the absolute path without its symbolic links. A link is followed if its folder is
// in one of Closed, or if it is around one or this user may not write there, and not any user can
// have made the link; otherwise the error is a *LinkError.
// With any other error it returns what is known: no link is left in front of the part that failed.
//
// Another process may replace a part of the path by a link at any time. So the result must be
// opened without following links.
func (l Links) Resolve(path string) (string, error) {
	at, rest := "/", strings.Split(filepath.Clean(path), "/")
	for links := 0; len(rest) > 0; {
		name := rest[0]
		rest = rest[1:]
		switch name {
		case "", ".":
			continue
		case "..":
			at = filepath.Dir(at) // at has no links
			continue
		}
		next := filepath.Join(at, name)
		info, err := os.Lstat(next)
		if err != nil {
			return filepath.Join(append([]string{next}, rest...)...), err
		}
		if info.Mode()&fs.ModeSymlink == 0 {
			at = next
			continue
		}
		if links++; links > maxLinks {
			return filepath.Join(append([]string{next}, rest...)...), &os.PathError{Op: "open", Path: path, Err: syscall.ELOOP}
		}
		target, err := l.readLink(at, name)
		switch {
		case errors.As(err, new(*LinkError)):
			return "", err
		case errors.Is(err, syscall.EINVAL): // it is no link any more
			rest = append([]string{name}, rest...)
			continue
		case err != nil:
			return filepath.Join(append([]string{next}, rest...)...), err
		}
		rest = append(strings.Split(target, "/"), rest...)
		if filepath.IsAbs(target) {
			at = "/"
		}
	}
	return at, nil
}

// OpenFolder opens the folder path, and follows the links that l follows. What is written in it is
// in that folder, whatever becomes of its path.
func (l Links) OpenFolder(path string) (*os.Root, error) {
	path, err := l.Resolve(path)
	if err != nil {
		return nil, err
	}
	return OpenRoot(path)
}

// OpenRoot opens the folder path, which has no symbolic links. It fails if it has one by now.
func OpenRoot(path string) (*os.Root, error) {
	root, err := os.OpenRoot(path + "/.") // else it would wait for the writer of a FIFO
	if err != nil {
		return nil, err
	}
	is, err := root.Stat(".")
	if err == nil {
		err = sameAt(path, is, statNoLinks)
	}
	if err != nil {
		root.Close()
		return nil, err
	}
	return root, nil
}

// sameAt returns an error unless look finds at path what was opened there.
func sameAt(path string, opened fs.FileInfo, look func(string) (fs.FileInfo, error)) error {
	there, err := look(path)
	if err == nil && !os.SameFile(there, opened) {
		err = &os.PathError{Op: "open", Path: path, Err: syscall.ELOOP}
	}
	return err
}

// openSame is openNoLinks where the kernel cannot do it at once.
func openSame(path string, flag int) (*os.File, error) {
	f, err := os.OpenFile(path, flag, 0)
	if err != nil {
		return nil, err
	}
	is, err := f.Stat()
	if err == nil {
		err = sameAt(path, is, lstatAll)
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// lstatAll is statNoLinks where the kernel cannot do it at once.
func lstatAll(path string) (info fs.FileInfo, err error) {
	at := "/"
	for name := range strings.SplitSeq(strings.Trim(filepath.Clean(path), "/"), "/") {
		at = filepath.Join(at, name)
		if info, err = os.Lstat(at); err != nil {
			return nil, err
		}
		if info.Mode()&fs.ModeSymlink != 0 {
			return nil, &os.PathError{Op: "open", Path: at, Err: syscall.ELOOP}
		}
	}
	return info, nil
}

// readLink returns the target of the link name in the folder dir, whose path has no links, or a
// *LinkError if such a link is not followed.
func (l Links) readLink(dir, name string) (string, error) {
	path := filepath.Join(dir, name)
	switch {
	case Within(l.Workspace, dir):
		return "", &LinkError{path}
	case slices.ContainsFunc(l.Closed, func(c string) bool { return Within(c, dir) }):
		return os.Readlink(path)
	}
	// Another folder may get this path at any time: the one that is asked about is the one that has
	// the link.
	at, err := openNoLinks(dir)
	if err != nil {
		return "", err
	}
	defer at.Close()
	around := slices.ContainsFunc(l.Closed, func(c string) bool { return Within(dir, c) })
	if madeByAll(at, dir) || !around && writable(at) {
		return "", &LinkError{path}
	}
	target := make([]byte, unix.PathMax)
	n, err := unix.Readlinkat(int(at.Fd()), name, target)
	if err != nil {
		return "", &os.PathError{Op: "readlink", Path: path, Err: err}
	}
	return string(target[:n]), nil
}

// Within reports whether path is dir or below it, by their names alone; both are absolute. Nothing
// is below "".
func Within(dir, path string) bool {
	dir, path = filepath.Clean(dir), filepath.Clean(path)
	return path == dir || strings.HasPrefix(path, strings.TrimSuffix(dir, "/")+"/")
}

// madeByAll reports whether any user can have made what is in dir, opened at path: everyone may
// write there, or in a folder above, and what is on the way from that is another user's.
func madeByAll(dir *os.File, path string) bool {
	info, err := dir.Stat()
	for err == nil && info.Mode()&0o002 == 0 {
		if st, ok := info.Sys().(*syscall.Stat_t); path == "/" || ok && (st.Uid == 0 || int(st.Uid) == os.Geteuid()) {
			return false
		}
		path = filepath.Dir(path)
		info, err = os.Lstat(path)
	}
	return true
}

// writable reports whether this user can make something in dir, or can get the right to.
func writable(dir *os.File) bool {
	info, err := dir.Stat()
	if err != nil {
		return true
	}
	if st, ok := info.Sys().(*syscall.Stat_t); ok && int(st.Uid) == os.Geteuid() {
		return true
	}
	return unix.Faccessat(int(dir.Fd()), ".", unix.W_OK, 0) == nil
}

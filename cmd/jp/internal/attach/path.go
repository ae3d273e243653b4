package attach

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"jp/convstore"
	"jp/tools/files"
	"jp/tools/fs"
)

// File reads a file of text, or an image. The source of the attachment is path as it was given.
func (r *Reader) File(path string) (convstore.Attachment, error) {
	f, err := r.open(path)
	if err != nil {
		return convstore.Attachment{}, err
	}
	defer func() { _ = f.Close() }()
	// keep returns the error for a larger file, which depends on its kind
	b, err := io.ReadAll(io.LimitReader(f, MaxImage+1))
	if err != nil {
		return convstore.Attachment{}, named(path, err)
	}
	return r.keep(path, "text/plain", b)
}

// Path reads a file, or the text files in and below a folder that .gitignore files do not exclude.
// They are in the order of their paths. Links in the folder are not followed. A folder without such
// files is an error.
func (r *Reader) Path(ctx context.Context, path string) ([]convstore.Attachment, error) {
	full, top, err := r.locate(path)
	if err != nil {
		return nil, err
	}
	info, err := os.Stat(full)
	if err != nil {
		return nil, named(path, err)
	}
	if !info.IsDir() {
		a, err := r.File(path)
		return []convstore.Attachment{a}, err
	}
	var list []convstore.Attachment
	var left []string
	err = fs.WalkFiles(ctx, cmp.Or(top, r.Workspace), full, func(name string, f *os.File) error {
		source := filepath.Join(path, filepath.FromSlash(name))
		b, err := io.ReadAll(io.LimitReader(f, MaxOne+1))
		if err != nil {
			return named(source, err)
		}
		if bytes.IndexByte(b, 0) >= 0 || len(b) <= MaxOne && !isText(b) {
			left = append(left, source)
			return nil
		}
		if len(list) == MaxFiles {
			return fmt.Errorf("%s: holds more than %d files; name a folder within", path, MaxFiles)
		}
		a, err := r.keep(source, "text/plain", b)
		list = append(list, a)
		return err
	})
	switch {
	case err != nil:
		return nil, err
	case len(list) == 0:
		return nil, fmt.Errorf("%s: holds no file of text", path)
	case len(left) == 1:
		r.Notice(left[0] + ": left out: not a text")
	case len(left) > 1:
		r.Notice(fmt.Sprintf("%s and %d more below %s: left out: not texts", left[0], len(left)-1, path))
	}
	return list, nil
}

// locate returns the absolute path of what path names. In the workspace, by whatever name path gets
// there, that is a path without links, and top is the workspace, also without: nobody can see where
// a link leads that came with a repository, so one that leads out of it is an error.
func (r *Reader) locate(path string) (full, top string, err error) {
	full = filepath.Clean(path)
	switch {
	case path == "":
		return "", "", errors.New("the path is empty")
	case filepath.IsAbs(path):
	case r.Dir == "":
		return "", "", fmt.Errorf("%s: the working directory is gone", path)
	default:
		full = filepath.Join(r.Dir, path)
	}
	if r.Workspace == "" {
		return full, "", nil
	}
	if top, err = filepath.EvalSymlinks(r.Workspace); err != nil {
		return "", "", named(path, err)
	}
	real, err := files.Links{Workspace: top, Closed: []string{"/"}}.Resolve(full) // refuses only links in the workspace
	linked := errors.As(err, new(*files.LinkError))
	if linked {
		real, err = filepath.EvalSymlinks(full)
	}
	switch in := files.Within(top, real); {
	case err != nil && (linked || in):
		return "", "", named(path, err)
	case in:
		return real, top, nil
	case linked:
		return "", "", fmt.Errorf("%s: a link in the workspace leads out of it; name what you mean: %s", path, real)
	}
	return full, "", nil
}

// open opens a regular file where locate has found it.
func (r *Reader) open(path string) (*os.File, error) {
	at, name, done, err := r.place(path)
	if err != nil {
		return nil, err
	}
	defer done()
	f, _, err := files.OpenRegular(at, name, os.O_RDONLY, 0)
	if err != nil {
		return nil, named(path, err)
	}
	return f, nil
}

// place returns where locate has found what path names, and its name there, until done is called.
// Whoever makes a link in the workspace meanwhile leads nowhere else.
func (r *Reader) place(path string) (at files.Place, name string, done func(), err error) {
	full, top, err := r.locate(path)
	if err != nil || top == "" {
		return files.Disk{}, full, func() {}, err
	}
	root, err := os.OpenRoot(top)
	if err == nil {
		name, err = filepath.Rel(top, full)
	}
	if err != nil {
		return nil, "", nil, named(path, err)
	}
	return root, name, func() { _ = root.Close() }, nil
}

// named returns err with the path as it was given in front.
func named(path string, err error) error {
	return fmt.Errorf("%s: %w", path, files.Reason(err))
}

package fs

import (
	"context"
	"os"
	"path/filepath"
	"strings"

	"jp/tools/files"
)

// WalkFiles calls visit with each regular file in and below the folder dir, in the order of the
// paths, without links, .git, .jp and what .gitignore files exclude. path is slash-separated and
// relative to dir; the file is closed after visit. The .gitignore files from top on down count; top
// is dir itself or a folder above it. If dir is below top by its name, both have no links; if it
// has one by then, that is an error. The walk ends with an error if something cannot be read, and
// with the error of visit, unchanged, if there is one.
func WalkFiles(ctx context.Context, top, dir string, visit func(path string, f *os.File) error) error {
	if !files.Within(top, dir) {
		var err error
		if dir, err = filepath.EvalSymlinks(dir); err != nil {
			return files.Reason(err)
		}
		if top, err = filepath.EvalSymlinks(top); err != nil || !files.Within(top, dir) {
			top = dir
		}
	}
	w, at, err := newWalk(ctx, &Files{workspace: top}, &place{path: dir, shown: dir, rule: fileRule{anchor: top}}, nil)
	if err != nil {
		return err
	}
	defer at.dir.Close()
	return w.visit(at, visit)
}

// visit calls fn with the files in at and below it.
func (w *walk) visit(at folder, fn func(path string, f *os.File) error) error {
	entries, ig, err := w.entries(at)
	if err != nil {
		return named(w.name(at.path), err)
	}
	for _, e := range entries {
		path := join(at.path, e.Name())
		switch {
		case e.IsDir():
			sub, err := w.sub(at, e.Name(), ig)
			if err != nil {
				return named(w.name(path), err)
			}
			err = w.visit(sub, fn)
			sub.dir.Close()
			if err != nil {
				return err
			}
		case e.Type().IsRegular():
			if err := w.file(at, e.Name(), fn); err != nil {
				return err
			}
		}
	}
	return nil
}

// file calls fn with the file name of at.
func (w *walk) file(at folder, name string, fn func(path string, f *os.File) error) error {
	path := join(at.path, name)
	info, err := at.dir.Lstat(name)
	if err != nil {
		return named(w.name(path), files.Reason(err))
	}
	f, err := openRegular(at.dir, name, info)
	if err != nil {
		return named(w.name(path), err)
	}
	defer f.Close()
	if w.start != "" {
		path = strings.TrimPrefix(path, w.start+"/")
	}
	return fn(path, f)
}

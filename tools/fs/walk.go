package fs

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"jp/tools/files"
)

// maxDepth bounds how many folders below its start a walk goes: each needs a descriptor.
const maxDepth = 100

// maxEntries bounds the entries of a folder on a walk, which are in memory at once: a tool that writes
// the folder can make millions.
const maxEntries = 200_000

// A walk goes through a folder in the order of the paths, without .git, .jp and what .gitignore
// files exclude. It follows no links.
type walk struct {
	*Files
	ctx    context.Context
	filter filter
	anchor string // folder that paths are relative to
	start  string // the folder it began in, relative to anchor; "" = anchor
}

// folder is an open folder on a walk.
type folder struct {
	dir  *os.Root
	path string // relative to the anchor; "" = the anchor
	ig   *ignores
	deep int
}

// newWalk opens the folder p and returns it with the walk below it. The caller closes it.
func newWalk(ctx context.Context, f *Files, p *place, glob filter) (*walk, folder, error) {
	w := &walk{Files: f, ctx: ctx, filter: glob, anchor: p.rule.anchor}
	top, err := files.OpenRoot(w.anchor)
	if err != nil {
		return nil, folder{}, named(p.shown, files.Reason(err))
	}
	at := folder{dir: top}
	// The .gitignore files above the start count too, but not for the start itself: a call that
	// names an ignored folder means it.
	for _, name := range components(w.anchor, p.path) {
		at.ig = at.ig.withFile(at.dir, at.path)
		info, err := at.dir.Lstat(name)
		if err == nil && !info.IsDir() {
			err = errChanged
		}
		if err != nil {
			at.dir.Close()
			return nil, folder{}, named(p.shown, files.Reason(err))
		}
		sub, err := w.enter(at.dir, name, info)
		at.dir.Close()
		if err != nil {
			return nil, folder{}, named(p.shown, err)
		}
		at.dir, at.path = sub, join(at.path, name)
	}
	w.start = at.path
	return w, at, nil
}

// entries lists a folder without what is ignored, in the order of the paths: folders sort as if
// their names ended in "/".
func (w *walk) entries(at folder) ([]fs.DirEntry, *ignores, error) {
	if err := w.ctx.Err(); err != nil {
		return nil, nil, context.Cause(w.ctx)
	}
	self, err := at.dir.Open(".")
	if err != nil {
		return nil, nil, files.Reason(err)
	}
	defer self.Close()
	list, err := readEntries(self, maxEntries)
	if err != nil {
		return nil, nil, files.Reason(err)
	}
	ig := at.ig.withFile(at.dir, at.path)
	list = slices.DeleteFunc(list, func(e fs.DirEntry) bool {
		// A folder can have very many entries, and .gitignore very many patterns.
		return w.ctx.Err() != nil || strings.EqualFold(e.Name(), ".git") || strings.EqualFold(e.Name(), WorkspaceFolder) ||
			ig.match(join(at.path, e.Name()), e.IsDir())
	})
	if w.ctx.Err() != nil {
		return nil, nil, context.Cause(w.ctx)
	}
	slices.SortFunc(list, func(a, b fs.DirEntry) int { return strings.Compare(orderKey(a), orderKey(b)) })
	return list, ig, nil
}

// readEntries lists dir, which may have so many entries.
func readEntries(dir *os.File, most int) ([]fs.DirEntry, error) {
	list, err := dir.ReadDir(most + 1)
	switch {
	case errors.Is(err, io.EOF):
		return nil, nil
	case len(list) > most:
		return nil, fmt.Errorf("holds more than %d entries", most)
	}
	return list, err
}

func orderKey(e fs.DirEntry) string {
	if e.IsDir() {
		return e.Name() + "/"
	}
	return e.Name()
}

// sub opens the folder name in at.
func (w *walk) sub(at folder, name string, ig *ignores) (folder, error) {
	if at.deep >= maxDepth {
		return folder{}, &AccessError{name, "is too deep"}
	}
	info, err := at.dir.Lstat(name)
	if err != nil {
		return folder{}, files.Reason(err)
	}
	if !info.IsDir() {
		return folder{}, errChanged
	}
	dir, err := w.enter(at.dir, name, info)
	if err != nil {
		return folder{}, err
	}
	return folder{dir: dir, path: join(at.path, name), ig: ig, deep: at.deep + 1}, nil
}

// wants reports whether the glob of the call matches a path. The path counts as seen from the start
// of the walk and as seen from the workspace, since people write both.
func (w *walk) wants(path string) bool {
	if len(w.filter) == 0 || w.filter.match(path) {
		return true
	}
	return w.start != "" && w.filter.match(strings.TrimPrefix(path, w.start+"/"))
}

// name is a path of the walk as results show it.
func (w *walk) name(path string) string { return w.shown(filepath.Join(w.anchor, path)) }

func join(dir, name string) string {
	if dir == "" {
		return name
	}
	return dir + "/" + name
}

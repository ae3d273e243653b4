package fs

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"jp/tools/files"
	"jp/tools/proc"
)

// SystemOnly returns those of dirs that belong to the system. The user's home, the store or another
// place that no tool reaches may be in one of them, as /opt/service is: such a folder is opened
// entry by entry, without these places.
func SystemOnly(dirs, deny []string, home string) ([]string, error) {
	var own []string
	mounts, _ := files.Mounts() // where there is no /proc, no tool is started
	for _, dir := range deny {
		own = append(own, mounts.NamesBelow(withoutLinks(dir))...)
	}
	// A home that belongs to someone else, such as /usr/sbin of a daemon, is a folder of the
	// system.
	if filepath.IsAbs(home) {
		if info, err := os.Stat(home); err == nil {
			if st, ok := info.Sys().(*syscall.Stat_t); ok && int(st.Uid) == os.Geteuid() {
				own = append(own, mounts.Names(withoutLinks(home))...)
			}
		}
	}
	var out []string
	for _, dir := range dirs {
		real := withoutLinks(dir)
		if !slices.ContainsFunc(own, func(o string) bool { return files.Within(real, o) }) {
			out = append(out, dir)
			continue
		}
		beside, err := openBeside(real, own)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", VisiblePath(dir), err)
		}
		out = append(out, beside...)
	}
	return out, nil
}

// openBeside returns the entries of the folder dir without own, which is dir or is in it. Links are
// left out: their target has a rule of its own, or none.
func openBeside(dir string, own []string) (out []string, err error) {
	if slices.Contains(own, dir) {
		return nil, nil
	}
	entries, err := os.ReadDir(dir)
	switch {
	case errors.Is(err, fs.ErrPermission), errors.Is(err, fs.ErrNotExist):
		return nil, nil // what cannot be listed is not opened
	case err != nil:
		return nil, files.Reason(err)
	case len(entries) > maxInside:
		return nil, fmt.Errorf("holds more than %d entries, among them what no tool reaches", maxInside)
	}
	for _, e := range entries {
		at := filepath.Join(dir, e.Name())
		switch {
		case e.Type()&fs.ModeSymlink != 0:
		case slices.ContainsFunc(own, func(o string) bool { return files.Within(at, o) }):
			beside, err := openBeside(at, own)
			if err != nil {
				return nil, err
			}
			out = append(out, beside...)
		default:
			out = append(out, at)
		}
	}
	return out, nil
}

// Confine opens in box what the rules open, for a user with this home.
func (f *Files) Confine(box *proc.Confine, home string) error {
	box.Links = f.links()
	if f.unmapped != nil {
		return files.Reason(f.unmapped)
	}
	closed := slices.Concat(f.kernel, f.closed)
	for i, r := range f.rules {
		switch {
		case errors.Is(r.err, fs.ErrNotExist):
			continue // opens nothing
		case r.err != nil:
			return fmt.Errorf("%s: %w", VisiblePath(r.given), r.err)
		}
		if f.ruleFor(r.path) != &f.rules[i] {
			continue // it is there twice: the last counts
		}
		// What is inside an open folder cannot be closed again.
		if over := f.writable(r.path); r.mode == ReadOnly && over != "" {
			return fmt.Errorf("%s is read-only inside %s, which is not: that cannot be enforced; name the folders that are written", f.shown(r.path), f.shown(over))
		}
		path := f.spelled(r.path)
		for _, dir := range closed {
			if files.Within(path, dir) || files.Within(dir, path) {
				return fmt.Errorf("%s covers %s, which no tool reaches", VisiblePath(r.path), VisiblePath(dir))
			}
		}
		for _, sealed := range f.sealed {
			if r.mode == ReadWrite && (files.Within(path, sealed) || files.Within(sealed, path)) {
				return fmt.Errorf("%s covers %s, which no tool writes; name the folders that are written", VisiblePath(r.path), VisiblePath(sealed))
			}
		}
		for _, g := range f.growing {
			if r.mode == ReadWrite && (files.Within(path, g.Dir) || g.matches(path, true)) {
				return fmt.Errorf("%s covers %s, which no tool writes; name the folders that are written", VisiblePath(r.path), VisiblePath(filepath.Join(g.Dir, g.Match)))
			}
		}
		if f.opensHome(r.path, home) {
			box.KeepHome = true
		}
		if r.mode == ReadOnly {
			box.Read = append(box.Read, r.path)
			continue
		}
		box.Watch = true // a tool that builds may need it, and one that only reads does not
		if f.opensWhole(r.path) {
			box.Write = append(box.Write, r.path)
			continue
		}
		box.Read = append(box.Read, r.path)
		if err := f.writeInside(box, r.path); err != nil {
			return fmt.Errorf("%s: %w", VisiblePath(r.given), err)
		}
	}
	return nil
}

// opensHome reports whether a rule for path opens the user's home on purpose. The workspace is
// mostly in the home too, but a rule for it is not meant so.
func (f *Files) opensHome(path, home string) bool {
	if !filepath.IsAbs(home) {
		return false
	}
	if real, err := filepath.EvalSymlinks(home); err == nil {
		home = real
	}
	return files.Within(path, home) || files.Within(home, path) && !files.Within(f.workspace, path)
}

// opensWhole reports whether a rule opens the whole folder path for writing. If the folder holds
// the workspace, and so .jp and perhaps .git, that needs another rule that opens .git: Landlock
// cannot close anything inside an open folder.
func (f *Files) opensWhole(path string) bool {
	return !files.Within(path, f.workspace) || f.gitOpen()
}

// OpensPart reports whether a rule opens a folder for writing, but not the whole of it.
func (f *Files) OpensPart() bool {
	return slices.ContainsFunc(f.rules, func(r fileRule) bool { return r.err == nil && r.mode == ReadWrite && !f.opensWhole(r.path) })
}

// OpensAll reports whether the rules open the whole workspace for writing, .jp included.
func (f *Files) OpensAll() bool {
	return f.gitOpen() && slices.ContainsFunc(f.rules, func(r fileRule) bool {
		return r.err == nil && r.mode == ReadWrite && files.Within(r.path, f.workspace)
	})
}

// maxInside bounds the entries of the folders that writeInside goes through.
const maxInside = 4096

// writeInside opens what is in the folder dir, which holds the workspace or is it, entry by entry:
// all but .jp and the guarded files, which only rules of their own open. So nothing can be made or
// removed in the folder itself. Links are left out: a target within the rules is open under its own
// name.
func (f *Files) writeInside(box *proc.Confine, dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return files.Reason(err)
	}
	if len(entries) > maxInside {
		return fmt.Errorf("holds more than %d entries: name the folders that are written", maxInside)
	}
	for _, e := range entries {
		at := filepath.Join(dir, e.Name())
		switch {
		case e.Type()&fs.ModeSymlink != 0, isGuarded(e.Name()):
		case files.Within(at, f.workspace):
			if err := f.writeInside(box, at); err != nil {
				return err
			}
		default:
			box.Write = append(box.Write, at)
		}
	}
	return nil
}

// guardedIn returns the paths of what is guarded in a workspace.
func guardedIn(workspace string) (paths []string) {
	for _, name := range withheld {
		paths = append(paths, filepath.Join(workspace, name))
	}
	return paths
}

// isGuarded reports whether name is a file or folder that a rule for the folder around it does not
// open for writing.
func isGuarded(name string) bool {
	return slices.ContainsFunc(withheld, func(k string) bool { return means(name, k) })
}

// gitOpen reports whether a rule opens the workspace's .git, and nothing wider, for writing.
func (f *Files) gitOpen() bool {
	return slices.ContainsFunc(f.rules, func(r fileRule) bool {
		return r.err == nil && r.mode == ReadWrite && strings.EqualFold(r.path, filepath.Join(f.workspace, gitFolder))
	})
}

// writable returns the folder above path that a rule opens for writing, "" if none does.
func (f *Files) writable(path string) string {
	for _, r := range f.rules {
		if r.err == nil && r.mode == ReadWrite && r.path != path && files.Within(r.path, path) {
			return r.path
		}
	}
	return ""
}

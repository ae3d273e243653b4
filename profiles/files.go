package profiles

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"jp/tools/files"
)

const (
	maxFileBytes  = 1 << 20 // one config file
	maxTotalBytes = 8 << 20 // all that one Resolve reads
	maxFiles      = 256     // opened by one Resolve; files that extend one file twice over would multiply
	maxPatterns   = 256     // of extends, for each of which a folder is read
)

// place is where a file is. Below the .jp folder of the workspace everything stays below it,
// symlinks resolved. Elsewhere, in the zero place, the user's own rights are the bound.
type place struct {
	dir      string // the .jp folder, absolute
	confined bool
}

// inJP is the .jp folder below the workspace.
const inJP = ".jp"

// location is one file or folder: a slash path below a confined place, an absolute path, or the
// name of a built-in profile.
type location struct {
	place   place
	path    string
	builtin string
	linked  string // slash path below the workspace of a file of .jp that links lead to from elsewhere
}

// abs is the name of the file in messages and argv.
func (l location) abs() string {
	if l.builtin != "" {
		return "builtin:" + l.builtin
	}
	if l.place.confined {
		return filepath.Join(l.place.dir, filepath.FromSlash(l.path))
	}
	return l.path
}

// key is the slash path below the workspace of a file that is one of the workspace's; "" for any
// other.
func (l location) key() string {
	if l.place.confined {
		return path.Join(inJP, l.path)
	}
	return l.linked
}

// reader opens config files for one Resolve and counts what it opens. Files of the workspace come
// from workspace and from nowhere else.
type reader struct {
	jp        string // the workspace's .jp folder, "" = none
	realJP    string // jp without links
	workspace fs.FS  // see Sources.Files; nil: a file of .jp is ErrWithheld
	home      string
	instead   map[string][]byte // see Sources
	count     int
	patterns  int
	bytes     int
}

// at is the location of an absolute path: confined when it is below .jp.
func (f *reader) at(abs string) location {
	if f.jp == "" {
		return location{path: abs}
	}
	if rel, ok := below(f.jp, abs); ok {
		if f.workspace != nil {
			return location{place: place{f.jp, true}, path: rel}
		}
		return location{path: abs, linked: path.Join(inJP, rel)}
	}
	if f.realJP == "" {
		f.realJP = withoutLinks(f.jp, maxLinks)
	}
	if rel, ok := below(f.realJP, withoutLinks(abs, maxLinks)); ok {
		return location{path: abs, linked: path.Join(inJP, rel)}
	}
	return location{path: abs}
}

// below returns the slash path of a file in dir, by their names alone.
func below(dir, file string) (rel string, ok bool) {
	rel, err := filepath.Rel(dir, file)
	return filepath.ToSlash(rel), err == nil && filepath.IsLocal(rel)
}

const maxLinks = 40 // in one path, as the system has it

// withoutLinks resolves the links of an absolute path, at most n that lead to nothing.
func withoutLinks(abs string, n int) string {
	if real, err := filepath.EvalSymlinks(abs); err == nil {
		return real
	}
	dir := filepath.Dir(abs)
	if dir == abs {
		return abs
	}
	abs = filepath.Join(withoutLinks(dir, n), filepath.Base(abs))
	to, err := os.Readlink(abs)
	switch {
	case err != nil || n == 0:
		return abs
	case !filepath.IsAbs(to):
		to = filepath.Join(filepath.Dir(abs), to)
	}
	return withoutLinks(to, n-1)
}

// direct is the location of a file of the workspace without the links on its way that lead back up,
// so that what it extends does not depend on the name by which it was found.
func (f *reader) direct(l location) location {
	if !l.place.confined || f.workspace == nil {
		return l
	}
	parts, keep := strings.Split(l.path, "/"), []string{}
	var up []fs.FileInfo // the folders of keep
	for _, part := range parts[:len(parts)-1] {
		keep = append(keep, part)
		info, err := fs.Stat(f.workspace, path.Join(inJP, path.Join(keep...)))
		if err != nil {
			return l // it cannot be read either
		}
		if i := slices.IndexFunc(up, func(above fs.FileInfo) bool { return os.SameFile(above, info) }); i >= 0 {
			keep, up = keep[:i+1], up[:i+1]
			continue
		}
		up = append(up, info)
	}
	l.path = path.Join(append(keep, parts[len(parts)-1])...)
	return l
}

// withheld reports whether l is a file of a workspace whose files are not to be read.
func (f *reader) withheld(l location) bool { return f.workspace == nil && l.key() != "" }

// tilde expands a leading ~/.
func (f *reader) tilde(p string) (string, error) {
	rest, ok := strings.CutPrefix(p, "~/")
	if !ok {
		return p, nil
	}
	if f.home == "" {
		return "", errors.New("~ is unknown: HOME is not set to an absolute path")
	}
	return filepath.Join(f.home, rest), nil
}

// exists reports whether something is at l, links followed.
func (f *reader) exists(l location) (bool, error) {
	if _, ok := f.instead[l.abs()]; ok {
		return true, nil
	}
	switch _, err := f.stat(l); {
	case err == nil:
		return true, nil
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ENOTDIR):
		return false, nil
	default:
		return false, f.explain(l, err)
	}
}

// stat says what is at l, links followed.
func (f *reader) stat(l location) (fs.FileInfo, error) {
	switch key := l.key(); {
	case f.withheld(l):
		return nil, ErrWithheld
	case key != "":
		return fs.Stat(f.workspace, key)
	}
	return os.Stat(l.path)
}

// opened is a file that was read: its name, and what the system knows it by; nil = it is not there
// yet, as one of Sources.Instead may be.
type opened struct {
	name string
	info fs.FileInfo
}

// is reports whether both are one file.
func (o opened) is(other opened) bool { return o.name == other.name || os.SameFile(o.info, other.info) }

// read returns the bytes of a regular file. Errors name neither operation nor path.
func (f *reader) read(l location) (data []byte, from opened, err error) {
	from.name = l.abs()
	if f.count++; f.count > maxFiles {
		return nil, from, fmt.Errorf("more than %d config files are read", maxFiles)
	}
	data, instead := f.instead[from.name]
	switch key := l.key(); {
	case instead && len(data) > maxFileBytes:
		return nil, from, fmt.Errorf("larger than %d KiB", maxFileBytes>>10)
	case instead:
		from.info, _ = f.stat(l)
	case f.withheld(l):
		return nil, from, ErrWithheld
	case key != "":
		data, from.info, err = files.ReadFS(f.workspace, key, maxFileBytes)
	default:
		data, from.info, err = readDisk(l.path)
	}
	if err != nil {
		return nil, from, f.explain(l, err)
	}
	if f.bytes += len(data); f.bytes > maxTotalBytes {
		return nil, from, fmt.Errorf("more than %d MiB of config is read", maxTotalBytes>>20)
	}
	return data, from, nil
}

// explain turns an error of opening into one that a user can act on.
func (f *reader) explain(l location, err error) error {
	err = files.Reason(err)
	if l.key() != "" && files.Outside(err) {
		return errors.New("leads out of the workspace's .jp folder")
	}
	return err
}

// glob resolves one entry of `extends` in the file at from: a path or a pattern, relative to its
// folder. It returns the locations sorted. A plain path is returned whether it exists or not.
func (f *reader) glob(from location, entry string) ([]location, error) {
	base, pattern, err := f.base(from, entry)
	switch {
	case err != nil:
		return nil, err
	case pattern == "":
		return []location{base}, nil
	}
	if f.patterns++; f.patterns > maxPatterns {
		return nil, fmt.Errorf("is one of more than %d patterns", maxPatterns)
	}
	if f.withheld(base) {
		return nil, ErrWithheld
	}
	names, err := fs.Glob(f.folder(base), pattern)
	if err != nil {
		return nil, errors.New("is no valid pattern")
	}
	slices.Sort(names)
	found := make([]location, len(names))
	for i, n := range names {
		found[i] = location{place: base.place, path: path.Join(base.path, n)}
		if !base.place.confined {
			found[i] = f.at(found[i].path)
		}
	}
	return found, nil
}

// folder is the file system below a location. Looking through it never waits, as opening a FIFO
// would.
func (f *reader) folder(l location) fs.FS {
	if key := l.key(); key != "" {
		return folderFS(func(name string) (fs.File, error) { return f.workspace.Open(path.Join(key, name)) })
	}
	return folderOnDisk(l.path)
}

// folderFS is an fs.FS that opens files with its function.
type folderFS func(name string) (fs.File, error)

// Open implements fs.FS.
func (open folderFS) Open(name string) (fs.File, error) {
	if !fs.ValidPath(name) {
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrInvalid}
	}
	return open(name)
}

// splitPattern splits an entry before the first path element with a wildcard.
func splitPattern(entry string) (fixed, pattern string) {
	i := strings.IndexAny(entry, `*?[\`)
	if i < 0 {
		return entry, ""
	}
	slash := strings.LastIndexByte(entry[:i], '/')
	return entry[:slash+1], entry[slash+1:]
}

// base splits an entry of `extends` in the file at from into the folder in which its pattern is
// matched, and the pattern; without a pattern base is the file itself.
func (f *reader) base(from location, entry string) (base location, pattern string, err error) {
	if strings.ContainsRune(entry, 0) || entry == "" {
		return base, "", errors.New("is no path")
	}
	fixed, pattern := splitPattern(entry)
	if from.place.confined {
		if path.IsAbs(entry) || strings.HasPrefix(entry, "~/") {
			return base, "", errors.New("must be relative: the workspace's files stay in its .jp folder")
		}
		base = location{place: from.place, path: path.Join(path.Dir(from.path), fixed)}
		if !fs.ValidPath(base.path) {
			return base, "", errors.New("leads out of the workspace's .jp folder")
		}
		return base, pattern, nil
	}
	abs, err := f.tilde(fixed)
	if err != nil {
		return base, "", err
	}
	if !filepath.IsAbs(abs) {
		abs = filepath.Join(filepath.Dir(from.path), abs)
	}
	return f.at(filepath.Clean(abs)), pattern, nil
}

func hashHex(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

package fs

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"

	"jp/tools/brief"
	"jp/tools/files"
	"jp/tools/unseen"
)

// WorkspaceFolder is the folder that no tool may reach into.
const WorkspaceFolder = ".jp"

// guarded are the files and folders that say what programs and agents shall do. They are written
// only where a rule of access.fs names them.
var guarded = []string{gitFolder, ".mcp.json", "AGENTS.md", "CLAUDE.md", "CLAUDE.local.md", "SKILL.md", ".claude", ".agents"}

const gitFolder = ".git"

// withheld are the names of all that a rule for the folder around it does not open for writing.
var withheld = append([]string{WorkspaceFolder}, guarded...)

// maxPath bounds a path, and maxLinks the links that one may go through.
const (
	maxPath  = 4096
	maxLinks = 40
)

// AccessError is the error for a path that a tool may not use. It is a refusal by policy.
type AccessError struct {
	Path string
	Msg  string
}

func (e *AccessError) Error() string { return VisiblePath(e.Path) + ": " + e.Msg }

// Files is the part of the file system that one call of a tool may reach.
//
// A path is walked component by component through [os.Root] handles. Each folder on the way is
// compared with the one that had its name before it was opened. Every symbolic link starts the walk
// again at its target, and the rules are asked again. So what is reached is always what the rules
// were asked about, also when folders are swapped for links meanwhile. Hard links look like the
// files that they are.
type Files struct {
	workspace string // without links
	given     string // workspace as it was named by the caller
	rules     []fileRule
	denied    []fs.FileInfo // folders that are never entered, whatever their name
	closed    []string      // folders of env.Deny and env.Elsewhere, without links: one may not be there yet
	around    []string      // those of env.Deny
	kernel    []string      // folders of file systems like /proc
	unmapped  error         // reason why kernel and other names of closed and sealed are unknown
	sealed    []string      // env.Sealed, without links above them: never written
	growing   []Growing     // env.Growing, without links
	// what is closed, sealed or growing, and the folders around that, by their paths
	kept  map[string]fs.FileInfo
	plain sync.Map // by device number: file systems that hold files
}

// fileRule is a [Rule] in the present file system.
type fileRule struct {
	path   string // absolute; without links, as far as it exists
	given  string // absolute, as written
	anchor string // folder that walks under the rule start from
	mode   Mode
	info   fs.FileInfo // what is there; nil = nothing
	err    error       // reason why it cannot be used
}

// Open reads the rules of a tool. Its error is about the workspace. A rule that cannot be used is
// an error only when a path needs it.
func Open(env Env, rules []Rule) (*Files, error) {
	workspace, err := filepath.EvalSymlinks(env.Workspace)
	if err == nil {
		workspace, err = filepath.Abs(workspace)
	}
	if err != nil {
		return nil, fmt.Errorf("workspace %s: %w", env.Workspace, files.Reason(err))
	}
	f := &Files{workspace: workspace, given: filepath.Clean(env.Workspace), kept: map[string]fs.FileInfo{}}
	for _, dir := range slices.Concat([]string{filepath.Join(workspace, WorkspaceFolder)}, env.Deny, env.Elsewhere) {
		if info, err := os.Stat(dir); err == nil {
			f.denied = append(f.denied, info)
		}
	}
	var mounts files.MountList
	if mounts, f.unmapped = files.Mounts(); f.unmapped == nil {
		f.kernel = mounts.Kernel
	}
	for _, dir := range env.Deny {
		f.around = append(f.around, withoutLinks(dir))
	}
	for _, dir := range slices.Concat(env.Deny, env.Elsewhere) {
		f.closed = append(f.closed, mounts.NamesBelow(withoutLinks(dir))...)
	}
	for _, path := range env.Sealed {
		f.sealed = append(f.sealed, mounts.NamesBelow(filepath.Join(withoutLinks(filepath.Dir(path)), filepath.Base(path)))...)
	}
	for _, g := range env.Growing {
		for _, dir := range mounts.NamesBelow(withoutLinks(g.Dir)) {
			f.growing = append(f.growing, Growing{dir, g.Match})
		}
	}
	for _, path := range guardedIn(workspace) {
		f.sealed = append(f.sealed, mounts.NamesBelow(path)[1:]...)
	}
	for _, path := range slices.Concat(f.closed, f.sealed) {
		f.keep(path)
	}
	for _, g := range f.growing {
		f.keep(g.Dir)
	}
	for _, r := range rules {
		f.rules = append(f.rules, f.rule(r))
	}
	return f, nil
}

// keep adds a path to kept, as far as there is something.
func (f *Files) keep(path string) {
	for ; f.kept[path] == nil; path = filepath.Dir(path) {
		if info, err := os.Lstat(path); err == nil {
			f.kept[path] = info
		} else if path == filepath.Dir(path) {
			return
		}
	}
}

// spelled returns an absolute path as kept spells it: a file system may not look at case, or know
// short names.
func (f *Files) spelled(path string) string {
	for at := path; f.kept[at] == nil; at = filepath.Dir(at) {
		info, err := os.Lstat(at)
		for kept, is := range f.kept {
			if err == nil && os.SameFile(is, info) {
				return filepath.Join(kept, relativeTo(at, path))
			}
		}
		if at == filepath.Dir(at) {
			break
		}
	}
	return path
}

// isSealed reports whether no tool writes the path.
func (f *Files) isSealed(path string) bool {
	path = f.spelled(path)
	return slices.ContainsFunc(f.sealed, func(sealed string) bool { return files.Within(sealed, path) || strings.EqualFold(sealed, path) }) ||
		slices.ContainsFunc(f.growing, func(g Growing) bool { return g.matches(path, false) })
}

// rule resolves r in the present file system.
func (f *Files) rule(r Rule) fileRule {
	out := fileRule{path: f.absolute(r.Path), mode: r.Mode}
	out.given = out.path
	path, err := f.links().Resolve(out.path)
	inside := files.Within(f.workspace, out.path)
	var link *files.LinkError
	switch {
	case errors.As(err, &link):
		out.err = fmt.Errorf("goes through the symbolic link %s, which a tool or a repository may have made: write where it leads", VisiblePath(f.shown(link.Link)))
		return out
	case errors.Is(err, fs.ErrNotExist) && inside: // it may be made later
	case err != nil:
		out.err = files.Reason(err)
		return out
	}
	out.path, out.anchor = path, f.workspace
	if info, err := os.Lstat(path); err == nil {
		out.info = info
	}
	if !inside {
		out.anchor = path
		if out.info == nil || !out.info.IsDir() {
			out.anchor = filepath.Dir(path)
		}
	}
	switch name := f.leadsInto(out); {
	case HasWorkspaceFolder(relativeTo(f.workspace, out.path)), name == WorkspaceFolder:
		out.err = fmt.Errorf("leads into %s", WorkspaceFolder)
	case r.Mode == ReadWrite && name != "":
		out.err = fmt.Errorf("leads into %s, which is written only where access.fs names it", name)
	}
	return out
}

// links are the symbolic links that a rule may go through.
func (f *Files) links() files.Links { return files.Links{Workspace: f.workspace, Closed: f.around} }

// leadsInto returns the guarded name that r leads to through a link, or under another name, which is
// then also .jp; "" if there is none.
func (f *Files) leadsInto(r fileRule) string {
	names := func(path string) []string { return strings.Split(relativeTo(f.workspace, path), "/") }
	if name := unnamed(names(r.path), names(r.given)); name != "" {
		return name
	}
	for at, up := r.path, filepath.Dir(r.path); at != f.workspace && at != up; at, up = up, filepath.Dir(up) {
		info, err := os.Lstat(at)
		if err != nil {
			continue // it may be made later
		}
		if name := alias(withheld, filepath.Base(at), info, func(name string) (fs.FileInfo, error) { return os.Lstat(filepath.Join(up, name)) }); name != "" {
			return name
		}
	}
	return ""
}

// unnamed returns the first of names that is guarded and not in namedBy, "" if there is none.
func unnamed(names, namedBy []string) string {
	for _, name := range names {
		for _, g := range guarded {
			if means(name, g) && !slices.ContainsFunc(namedBy, func(n string) bool { return means(n, g) }) {
				return name
			}
		}
	}
	return ""
}

// means reports whether a file that is made as name could be found as want: some file systems do not
// look at case, at characters that do not show, or at what is at the end of a name.
func means(name, want string) bool {
	name, _, _ = strings.Cut(unseen.Strip(name), ":")
	return strings.EqualFold(strings.TrimRight(name, ". "), want)
}

// alias returns that of names under which the file info is in the same folder too, although its name
// is none of withheld; "" if there is none: a file system may know .git as GIT~1. lstat looks at a name
// in the folder.
func alias(names []string, name string, info fs.FileInfo, lstat func(name string) (fs.FileInfo, error)) string {
	for _, g := range names {
		if is, err := lstat(g); err == nil && os.SameFile(is, info) && !isGuarded(name) {
			return g
		}
	}
	return ""
}

// absolute returns the absolute form of a path of a tool or a rule.
func (f *Files) absolute(path string) string {
	if !filepath.IsAbs(path) {
		return filepath.Join(f.workspace, path)
	}
	path = filepath.Clean(path)
	if f.given != f.workspace && filepath.IsAbs(f.given) && files.Within(f.given, path) {
		return filepath.Join(f.workspace, relativeTo(f.given, path))
	}
	for _, r := range f.rules {
		if r.given != r.path && files.Within(r.given, path) && !files.Within(f.workspace, path) {
			return filepath.Join(r.path, relativeTo(r.given, path))
		}
	}
	return path
}

// ruleFor returns the rule with the longest path that covers path.
func (f *Files) ruleFor(path string) *fileRule {
	var best *fileRule
	for i, r := range f.rules {
		if files.Within(r.path, path) && (best == nil || len(r.path) >= len(best.path)) {
			best = &f.rules[i]
		}
	}
	return best
}

// shown is an absolute path as messages and results show it: relative where it is in the workspace.
func (f *Files) shown(path string) string {
	if files.Within(f.workspace, path) {
		return relativeTo(f.workspace, path)
	}
	return path
}

// place is what a walk along a path has found.
type place struct {
	dir   *os.Root    // the folder that it is in; the anchor for a path that is one
	name  string      // in dir; "." for the anchor
	info  fs.FileInfo // file that is there, never a link; nil = nothing
	path  string      // absolute
	shown string
	rule  fileRule
	// missing are the folders that do not exist yet on the way from dir to name, the outermost
	// first. There are none if info is set.
	missing []string
}

func (p *place) Close() { _ = p.dir.Close() } // nothing was written through it

// find walks along path, for reading or for writing. If nothing is there, the error is
// fs.ErrNotExist, or with write the place has no info. Links are followed within the rules, but not
// for writing: who is asked about a path sees which file that is.
func (f *Files) find(path string, write bool) (*place, error) {
	switch {
	case path == "":
		return nil, &AccessError{path, "is no path"}
	case strings.ContainsRune(path, 0):
		return nil, &AccessError{path, "holds a NUL byte"}
	case len(path) > maxPath:
		return nil, &AccessError{brief.Shorten(path, 60), "is too long for a path"}
	}
	at, linked := f.absolute(path), false
	for range maxLinks {
		p, link, err := f.walk(at, path, write)
		if err != nil {
			return nil, err
		}
		if link != "" {
			at, linked = f.absolute(link), true
			continue
		}
		switch {
		case write && f.isSealed(p.path):
			p.Close()
			return nil, &AccessError{path, "is written by no tool"}
		case write && linked:
			p.Close()
			return nil, &AccessError{path, "leads through a symbolic link: write " + VisiblePath(p.shown)}
		}
		return p, nil
	}
	return nil, &AccessError{path, "goes through too many symbolic links"}
}

// walk goes to the absolute path at, or to the first link on the way, whose target it then returns.
// given is the path for messages.
func (f *Files) walk(at, given string, write bool) (_ *place, link string, err error) {
	r := f.ruleFor(at)
	switch {
	case r == nil:
		return nil, "", &AccessError{given, "is outside of what this tool may reach: " + f.reach()}
	case r.err != nil:
		return nil, "", &AccessError{given, fmt.Sprintf("the rule for %s in access.fs cannot be used: %v", f.shown(r.given), r.err)}
	case write && r.mode != ReadWrite:
		return nil, "", &AccessError{given, "is read-only for this tool"}
	}
	names := components(r.anchor, at)
	if err := f.protected(r, given, at, write); err != nil {
		return nil, "", err
	}
	dir, err := files.OpenRoot(r.anchor)
	if err != nil {
		return nil, "", fmt.Errorf("%s: %w", VisiblePath(given), files.Reason(err))
	}
	defer func() {
		if err != nil || link != "" {
			dir.Close()
		}
	}()
	here, err := dir.Stat(".")
	if err != nil {
		return nil, "", fmt.Errorf("%s: %w", VisiblePath(given), files.Reason(err))
	}
	if f.isDenied(here) {
		return nil, "", &AccessError{given, "is not for tools"}
	}
	if err := f.ofFiles(dir, here); err != nil {
		return nil, "", named(given, err)
	}
	p := &place{dir: dir, name: ".", info: here, path: at, shown: f.shown(at), rule: *r}
	for i, name := range names {
		last := i == len(names)-1
		info, err := dir.Lstat(name)
		switch {
		case errors.Is(err, fs.ErrNotExist) && write:
			p.dir, p.name, p.info, p.missing = dir, names[len(names)-1], nil, names[i:len(names)-1]
			return p, "", nil
		case err != nil:
			return nil, "", fmt.Errorf("%s: %w", VisiblePath(given), files.Reason(err))
		case info.Mode()&fs.ModeSymlink != 0:
			target, err := dir.Readlink(name)
			if err != nil {
				return nil, "", fmt.Errorf("%s: %w", VisiblePath(given), files.Reason(err))
			}
			if !filepath.IsAbs(target) {
				target = filepath.Join(append([]string{r.anchor}, append(slices.Clone(names[:i]), target)...)...)
			}
			return nil, filepath.Join(append([]string{target}, names[i+1:]...)...), nil
		}
		among := withheld[:1] // .jp
		if write {
			among = withheld
		}
		switch other := alias(among, name, info, dir.Lstat); {
		case other == WorkspaceFolder:
			return nil, "", &AccessError{given, fmt.Sprintf("%s is not for tools", WorkspaceFolder)}
		case write && i >= len(components(r.anchor, r.path)) && f.isReadOnly(info):
			return nil, "", &AccessError{given, "is read-only for this tool"}
		case write:
			if err := f.permits(r, given, other); err != nil {
				return nil, "", err
			}
		}
		switch {
		case last:
			if info.IsDir() && f.isDenied(info) {
				return nil, "", &AccessError{given, "is not for tools"}
			}
			p.dir, p.name, p.info = dir, name, info
			return p, "", nil
		case !info.IsDir():
			return nil, "", fmt.Errorf("%s: %s is %s, not a folder", VisiblePath(given), VisiblePath(filepath.Join(names[:i+1]...)), files.Kind(info.Mode()))
		}
		sub, err := f.enter(dir, name, info)
		if err != nil {
			return nil, "", named(given, err)
		}
		dir.Close()
		dir = sub
	}
	return p, "", nil
}

// enter opens the folder name of dir, which was info when it was looked at.
func (f *Files) enter(dir *os.Root, name string, info fs.FileInfo) (*os.Root, error) {
	// The "/." makes os.Root open name as a folder or not at all. Without it, opening a FIFO that
	// was put there meanwhile would wait.
	sub, err := dir.OpenRoot(name + "/.")
	if err != nil {
		return nil, files.Reason(err)
	}
	is, err := sub.Stat(".")
	switch {
	case err != nil:
	case !os.SameFile(info, is):
		err = errChanged
	case f.isDenied(is):
		err = &AccessError{name, "is not for tools"}
	default:
		if err = f.ofFiles(sub, is); err == nil {
			return sub, nil
		}
	}
	sub.Close()
	return nil, err
}

// ofFiles refuses the folder dir, whose info is given, if it is on a file system without files,
// such as /proc.
func (f *Files) ofFiles(dir *os.Root, info fs.FileInfo) error {
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return nil
	}
	if _, seen := f.plain.Load(st.Dev); seen {
		return nil
	}
	switch kernel, err := files.OfKernel(dir); {
	case err != nil:
		return files.Reason(err)
	case kernel:
		return &AccessError{".", "is made up by the kernel, and no tool reads that"}
	}
	f.plain.Store(st.Dev, nil)
	return nil
}

// errChanged is the error for a file or folder that was swapped for another while it was opened.
var errChanged = errors.New("was changed while it was being opened")

// openRegular opens the regular file name of dir, which was info when it was looked at.
func openRegular(dir *os.Root, name string, info fs.FileInfo) (*os.File, error) {
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("is %s, not a file", files.Kind(info.Mode()))
	}
	file, err := dir.OpenFile(name, files.Reading, 0) // what was swapped for a FIFO must not wait for a writer
	if err != nil {
		return nil, files.Reason(err)
	}
	is, err := file.Stat()
	if err == nil && !os.SameFile(info, is) {
		err = errChanged
	}
	if err != nil {
		file.Close()
		return nil, err
	}
	return file, nil
}

// isReadOnly reports whether a rule opens info for reading only. A file system may know what a rule
// names by other names too, which another rule covers.
func (f *Files) isReadOnly(info fs.FileInfo) bool {
	return slices.ContainsFunc(f.rules, func(r fileRule) bool { return r.mode != ReadWrite && r.info != nil && os.SameFile(r.info, info) })
}

// isDenied reports whether info is a folder that no rule opens.
func (f *Files) isDenied(info fs.FileInfo) bool {
	return slices.ContainsFunc(f.denied, func(d fs.FileInfo) bool { return os.SameFile(d, info) })
}

// protected refuses what no rule opens. For writing it also refuses what only a rule that names it
// would open.
func (f *Files) protected(r *fileRule, given, at string, write bool) error {
	if HasWorkspaceFolder(relativeTo(r.anchor, at)) {
		return &AccessError{given, fmt.Sprintf("%s is not for tools", WorkspaceFolder)}
	}
	if spelled := f.spelled(at); slices.ContainsFunc(f.closed, func(dir string) bool { return files.Within(dir, spelled) }) {
		return &AccessError{given, "is not for tools"}
	}
	if !write {
		return nil
	}
	return f.permits(r, given, components(r.anchor, at)...)
}

// permits refuses the path given if one of names is guarded and r does not name it. The names of the
// folders around the workspace do not count.
func (f *Files) permits(r *fileRule, given string, names ...string) error {
	if name := unnamed(names, strings.Split(relativeTo(f.workspace, r.given), "/")); name != "" {
		return &AccessError{given, fmt.Sprintf("%s is written only where access.fs names it", name)}
	}
	return nil
}

// reach lists the rules.
func (f *Files) reach() string {
	if len(f.rules) == 0 {
		return "nothing"
	}
	var out []string
	for _, r := range f.rules {
		s := VisiblePath(f.shown(r.given))
		if s == "." {
			s = "the workspace"
		}
		out = append(out, s)
	}
	return strings.Join(out, ", ")
}

// HasWorkspaceFolder reports whether a path goes through a folder named .jp.
func HasWorkspaceFolder(path string) bool {
	return slices.ContainsFunc(strings.Split(filepath.ToSlash(path), "/"), func(name string) bool {
		return means(name, WorkspaceFolder)
	})
}

// withoutLinks resolves the links in an absolute path, as far as it exists.
func withoutLinks(path string) string {
	if real, err := filepath.EvalSymlinks(path); err == nil {
		return real
	}
	if up := filepath.Dir(path); up != path {
		return filepath.Join(withoutLinks(up), filepath.Base(path))
	}
	return path
}

// relativeTo is path relative to dir, which it is within; "." for dir itself.
func relativeTo(dir, path string) string {
	if !files.Within(dir, path) {
		return path
	}
	return filepath.Clean(strings.TrimPrefix(strings.TrimPrefix(path, strings.TrimSuffix(dir, "/")), "/"))
}

// components are the names on the way from dir to path.
func components(dir, path string) []string {
	rel := relativeTo(dir, path)
	if rel == "." {
		return nil
	}
	return strings.Split(rel, "/")
}

// named is err after the path that it is about, unless it names a path already.
func named(path string, err error) error {
	if a, ok := errors.AsType[*AccessError](err); ok {
		return &AccessError{path, a.Msg}
	}
	return fmt.Errorf("%s: %w", VisiblePath(path), err)
}

// VisiblePath is a path for a message or a result. It is quoted if it has characters that would not
// show, or would break the line.
func VisiblePath(path string) string {
	if v := unseen.Spell(path); v != path || strings.TrimSpace(path) != path || path == "" {
		return fmt.Sprintf("%q", path)
	}
	return path
}

package profiles

import (
	"cmp"
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
	"jp/tools/suggest"
)

// Profile is a profile that --cfg finds.
type Profile struct {
	Name     string `json:"name"`               // agent/researcher; a path as given
	Arg      string `json:"arg"`                // absolute path, or builtin:<name>: what --cfg takes after NONE
	Source   string `json:"source"`             // workspace, user, builtin, or file for any other place
	Shadowed bool   `json:"shadowed,omitempty"` // an earlier place has the same name
}

// maxListed bounds the files that Names looks at in one folder of config_load_paths.
const maxListed = 10_000

// Find looks one profile up, see [Finder.Find].
func Find(src Sources, name string) (Profile, error) {
	f, err := NewFinder(src)
	if err != nil {
		return Profile{}, err
	}
	return f.Find(name)
}

// Finder finds any number of profiles. It has read what says where profiles are searched.
type Finder struct{ r *resolver }

// NewFinder reads where profiles are searched.
func NewFinder(src Sources) (*Finder, error) {
	r, err := searcher(src)
	if err != nil {
		return nil, err
	}
	return &Finder{r}, nil
}

// Find looks a profile up as --cfg does before any NONE: a path, builtin:<name>, or a name in
// config_load_paths and among the built-ins. It does not read it. The error for a missing one wraps
// ErrNotFound.
func (f *Finder) Find(name string) (Profile, error) {
	const who = "" // the message names the profile
	p, err := parseDirective(Directive{Flag: who, Text: name})
	if err != nil {
		return Profile{}, err
	}
	if p.form != pathForm && p.form != builtinForm && p.form != nameForm {
		return Profile{}, &Error{Layer: who, Msg: "profile: must be a path, builtin:<name> or the name of a profile"}
	}
	r := f.r
	at, err := r.locate(p)
	if err != nil {
		return Profile{}, err
	}
	if ok, err := r.files.exists(at); at.builtin == "" && err != nil {
		return Profile{}, &Error{File: at.abs(), Msg: err.Error(), Err: err}
	} else if !ok && at.builtin == "" {
		return Profile{}, &Error{File: at.abs(), Msg: "not found", Hint: r.lostPath(p.arg), Err: ErrNotFound}
	}
	return Profile{Name: name, Arg: at.abs(), Source: r.source(at)}, nil
}

// Names lists the profiles that Find finds by name, sorted by name, the one that it finds first. In
// folders of the user, folders behind symbolic links are not listed; in those of a workspace they
// are, since people judge it by this list. The profiles of folders that cannot be listed are
// missing; the error says why.
func Names(src Sources) ([]Profile, error) {
	r, err := searcher(src)
	if err != nil {
		return nil, err
	}
	var list []Profile
	var problems []error
	for _, dir := range r.search {
		names, err := r.files.list(dir)
		if err != nil {
			problems = append(problems, &Error{File: dir.abs(), Msg: err.Error(), Err: err})
		}
		for _, name := range names {
			at := r.files.in(dir, name)
			list = append(list, Profile{Name: name, Arg: at.abs(), Source: r.source(at)})
		}
	}
	for _, name := range Builtins() {
		list = append(list, Profile{Name: name, Arg: "builtin:" + name, Source: "builtin"})
	}
	slices.SortStableFunc(list, func(a, b Profile) int { return cmp.Compare(a.Name, b.Name) })
	for i := 1; i < len(list); i++ {
		list[i].Shadowed = list[i].Name == list[i-1].Name
	}
	return list, errors.Join(problems...)
}

// searcher returns a resolver that has read what says where names are searched.
func searcher(src Sources) (*resolver, error) {
	src.Stored = nil
	r, err := newResolver(src)
	if err != nil {
		return nil, err
	}
	if err := r.implicit(); err != nil {
		return nil, err
	}
	return r, nil
}

// locate finds the file of a directive that names one. Only names are known to exist when it
// returns.
func (r *resolver) locate(p parsed) (location, error) {
	switch p.form {
	case pathForm:
		abs, err := r.files.tilde(p.arg)
		if err != nil {
			return location{}, &Error{Layer: p.flag, Msg: err.Error()}
		}
		if !filepath.IsAbs(abs) {
			abs = filepath.Join(r.dir, abs)
		}
		return r.files.at(filepath.Clean(abs)), nil
	case builtinForm:
		if _, ok := Builtin(p.arg); ok {
			return location{builtin: p.arg}, nil
		}
		hint := cmp.Or(suggest.Meant("did you mean builtin:%s?", p.arg, Builtins()), "built in are "+strings.Join(Builtins(), ", "))
		return location{}, &Error{Layer: p.flag, Msg: "built-in profile " + printable(p.arg) + ": not found", Hint: hint, Err: ErrNotFound}
	}
	if r.none {
		hint := "give its path, such as .jp/config/" + p.arg + ".toml"
		if _, ok := Builtin(p.arg); ok {
			hint = "give its path, or builtin:" + p.arg
		}
		return location{}, &Error{Layer: p.flag, Msg: "profile " + p.arg + ": names are not searched after NONE", Hint: hint}
	}
	for _, dir := range r.search {
		if r.files.withheld(dir) {
			continue
		}
		at := r.files.in(dir, p.arg)
		switch ok, err := r.files.exists(at); {
		case err != nil:
			return location{}, &Error{File: at.abs(), Msg: err.Error(), Err: err}
		case ok:
			return at, nil
		}
	}
	if _, ok := Builtin(p.arg); ok {
		return location{builtin: p.arg}, nil
	}
	return location{}, &Error{Layer: p.flag, Msg: "profile " + p.arg + ": not found", Hint: r.lost(p.arg), Err: ErrNotFound}
}

// lost is the hint for a name that was not found.
func (r *resolver) lost(name string) string {
	if near := nearProfile(name, r.known()); near != "" {
		return "did you mean " + near + "?"
	}
	places := []string{}
	for _, dir := range r.search {
		places = append(places, dir.abs())
	}
	return fmt.Sprintf("it was looked for in %s", strings.Join(append(places, "the built-in profiles"), ", "))
}

// known names the profiles that can be listed, once for all that are not found.
func (r *resolver) known() []string {
	if r.names == nil {
		r.names = Builtins()
		for _, dir := range r.search {
			if names, err := r.files.list(dir); err == nil {
				r.names = append(r.names, names...)
			}
		}
	}
	return r.names
}

// nearProfile is the known profile that a name most likely means: researcher for agent/researcher,
// and the nearest spelling.
func nearProfile(name string, known []string) string {
	if near := suggest.Closest(name, known); near != "" {
		return near
	}
	last := map[string]string{}
	for _, k := range slices.Backward(known) {
		last[path.Base(k)] = k
	}
	return last[suggest.Closest(path.Base(name), sortedKeys(last))]
}

// lostPath is the hint for a path that leads nowhere: the profile of that name without the ending.
func (r *resolver) lostPath(arg string) string {
	name := strings.TrimSuffix(strings.TrimPrefix(arg, "./"), ".toml")
	if near := nearProfile(name, r.known()); near != "" && !r.none {
		return "did you mean the profile " + near + "? A path is relative to the current folder"
	}
	return "a path is relative to the current folder; `jp profile ls` lists the profiles, which go by name"
}

// in is the file of a name in a folder of config_load_paths.
func (f *reader) in(dir location, name string) location {
	if dir.place.confined {
		return location{place: dir.place, path: path.Join(dir.path, name+".toml")}
	}
	return f.at(filepath.Join(dir.path, filepath.FromSlash(name)+".toml"))
}

// list names the TOML files below a folder, sorted; none when there is no such folder.
func (f *reader) list(dir location) ([]string, error) {
	if f.withheld(dir) {
		return nil, nil
	}
	fsys := f.folder(dir)
	var names []string
	seen := 0
	var visit fs.WalkDirFunc
	visit = func(p string, e fs.DirEntry, err error) error {
		switch {
		case err != nil && p == "." && (errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR)):
			return fs.SkipAll
		case err != nil:
			return fmt.Errorf("%s: %w", p, files.Reason(err))
		}
		if seen++; seen > maxListed {
			return fmt.Errorf("holds more than %d files", maxListed)
		}
		if dir.place.confined && e.Type()&fs.ModeSymlink != 0 && leadsDown(fsys, p) {
			return fs.WalkDir(fsys, p, visit)
		}
		name, ok := strings.CutSuffix(p, ".toml")
		if !ok || e.IsDir() {
			return nil
		}
		// A file called NONE.toml or a=b.toml has a path, but no name that --cfg would read as a
		// name.
		if d, err := parseDirective(Directive{Text: name}); err == nil && d.form == nameForm {
			if info, err := fs.Stat(fsys, p); err == nil && info.Mode().IsRegular() {
				names = append(names, name)
			}
		}
		return nil
	}
	err := fs.WalkDir(fsys, ".", visit)
	slices.Sort(names)
	return names, err
}

// leadsDown reports whether a link leads to a folder other than those that it is in.
func leadsDown(fsys fs.FS, link string) bool {
	to, err := fs.Stat(fsys, link)
	if err != nil || !to.IsDir() {
		return false
	}
	for up := link; up != "."; {
		up = path.Dir(up)
		if above, err := fs.Stat(fsys, up); err != nil || os.SameFile(above, to) {
			return false
		}
	}
	return true
}

func (r *resolver) source(at location) string {
	switch {
	case at.builtin != "":
		return "builtin"
	case at.place.confined:
		return "workspace"
	case r.src.UserDir != "" && strings.HasPrefix(at.path, r.src.UserDir+string(os.PathSeparator)):
		return "user"
	}
	return "file"
}

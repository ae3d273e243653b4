package workspace

import (
	"encoding/json"
	"fmt"
	iofs "io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"

	"jp/cmd/jp/internal/trust"
	"jp/profiles"
	"jp/tools/fs"
)

// Kept is what is kept from all tools. A sub-agent that a launcher started keeps also what its
// caller told it.
func (w *Workspace) Kept() fs.Kept {
	k := fs.Kept{Deny: w.closed(), Sealed: w.sealed(), Growing: w.growing, Elsewhere: w.temporary()}
	file := w.Con.Getenv(trust.KeptVariable)
	if w.callersStore() == "" || file == "" {
		return k
	}
	var sent fs.Kept
	data, err := os.ReadFile(file)
	if err != nil || json.Unmarshal(data, &sent) != nil {
		sent.Deny = append(sent.Deny, "/") // nobody knows what it was
	}
	return k.With(sent)
}

// Reads is what is kept from tools because the user's own config and profiles read it, and is not in
// the folder of the config. Sub-agents are told it.
func (w *Workspace) Reads() (k fs.Kept) {
	inside := profiles.UserDir(w.Con.Env.Environ) + string(filepath.Separator)
	own := func(path string) bool { return strings.HasPrefix(path+string(filepath.Separator), inside) }
	k.Sealed = slices.DeleteFunc(slices.Concat(w.userFiles, w.extended()), own)
	k.Growing = slices.DeleteFunc(slices.Clone(w.growing), func(g fs.Growing) bool { return own(g.Dir) })
	if !utf8.ValidString(fmt.Sprint(k)) { // it travels as JSON
		k.Sealed = append(k.Sealed, "/")
	}
	return k
}

// StateDir returns the folder of this user's state; "" = there is none. A sub-agent that a launcher
// started has one of its worker, because its user may have no home there.
func (w *Workspace) StateDir() string {
	if dir := w.callersStore(); dir != "" && w.Con.Getenv(trust.KeptVariable) != "" {
		return dir
	}
	return w.Con.StateDir()
}

// closed are the folders that no tool reaches, whatever it is granted: those of the store, of the
// state (trust, the program that tools run), and of the user's own config, which may do what a
// workspace may not.
func (w *Workspace) closed() []string {
	var list []string
	if dir := w.Con.StateDir(); dir != "" {
		list = append(list, dir)
	}
	if dir := profiles.UserDir(w.Con.Env.Environ); dir != "" {
		list = append(list, dir)
	}
	if w.st != nil {
		list = append(list, filepath.Dir(w.st.Path()))
	}
	if dir := w.callersStore(); dir != "" {
		list = append(list, dir)
	}
	if dir := w.runtimeDir(); dir != "" { // other runs with --no-persist
		list = append(list, dir)
	}
	temporary := w.temporary()
	return slices.DeleteFunc(list, func(dir string) bool { return slices.Contains(temporary, dir) })
}

// temporary are further folders that no tool reaches. They may be among temporary files, where tools
// make links.
func (w *Workspace) temporary() (list []string) {
	if dir := w.vanishing.Load(); dir != nil {
		list = append(list, dir.Path)
	}
	if dir := w.callersStore(); strings.HasPrefix(filepath.Base(dir), vanishingName) {
		list = append(list, dir)
	}
	return list
}

// sealed are the files and folders that no tool writes. These are files of the user's own config
// outside of its folder (its files or its profiles extend them, or a link in it leads there), and every link on the
// way to a closed folder or to one of these. A program that writes one of them could change the
// config.
func (w *Workspace) sealed() []string {
	var list []string
	for _, dir := range slices.Concat(w.closed(), w.temporary()) {
		links, _ := behind(dir)
		list = append(list, links...)
	}
	add := func(path string) {
		links, end := behind(path)
		list = append(append(list, links...), end)
	}
	for _, file := range slices.Concat(w.userFiles, w.extended()) {
		add(file)
	}
	w.walkOwn(func(path string, d iofs.DirEntry) {
		if d.Type()&iofs.ModeSymlink != 0 {
			add(path)
		}
	})
	slices.Sort(list)
	return slices.Compact(list)
}

// walkOwn calls f for everything in the folder of the user's own config.
func (w *Workspace) walkOwn(f func(path string, d iofs.DirEntry)) {
	dir := profiles.UserDir(w.Con.Env.Environ)
	if dir == "" {
		return
	}
	dir = filepath.Clean(dir) + string(filepath.Separator) // or a link would not be entered
	_ = filepath.WalkDir(dir, func(path string, d iofs.DirEntry, err error) error {
		switch {
		case err != nil: // a file that cannot be read is no config
		case d.IsDir() && d.Name() == ".git":
			return filepath.SkipDir
		default:
			f(path, d)
		}
		return nil
	})
}

// profilesExtend returns the files that profiles in the folder of the user's own config extend. A
// sub-agent reads none of them: what they extend is in Told.
func (w *Workspace) profilesExtend() (list []string) {
	if w.Gate.Delegated {
		return nil
	}
	src, own := w.UserSources(), filepath.Join(profiles.UserDir(w.Con.Env.Environ), "config.toml")
	w.walkOwn(func(path string, d iofs.DirEntry) {
		if strings.HasSuffix(path, ".toml") && !d.IsDir() && path != own { // config.toml is in userFiles
			list = append(list, profiles.Extends(src, path)...)
		}
	})
	return list
}

// behind follows an absolute path through its links. It returns the path of each link, and the path
// that the last one leads to, which need not exist.
func behind(path string) (links []string, end string) {
	const most = 40 // as the system has it
	path = filepath.Clean(path)
	for range most {
		at, rest := firstLink(path)
		if at == "" {
			break
		}
		target, err := os.Readlink(at)
		if err != nil {
			break
		}
		links = append(links, at)
		if !filepath.IsAbs(target) {
			target = filepath.Join(filepath.Dir(at), target)
		}
		path = filepath.Join(target, rest)
	}
	return links, path
}

// firstLink returns the topmost link in a path, "" for none, and the rest behind it.
func firstLink(path string) (at, rest string) {
	names := strings.Split(strings.TrimPrefix(path, "/"), "/")
	for i, name := range names {
		at += "/" + name
		info, err := os.Lstat(at)
		if err != nil {
			return "", ""
		}
		if info.Mode()&iofs.ModeSymlink != 0 {
			return at, filepath.Join(names[i+1:]...)
		}
	}
	return "", ""
}

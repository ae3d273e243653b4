package file

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"jp/tools/files"
)

// Env is what Locate looks at. The zero Env knows of no variable.
type Env struct {
	Get      func(string) string // looks up an environment variable, as os.Getenv
	Override string              // the user's store.path, "" = none
	Notice   func(string)        // told when a workspace was renamed, or made anew at its path
}

// Locate returns the folder of a workspace's store: $JP_STORE, else the Override, else one below
// $XDG_STATE_HOME/jp that is named after the workspace and a hash of its path. A workspace that was
// renamed is recognised by its .jp folder and keeps its store. One that lost it to another
// workspace, made at the path that it had, gets a *TakenError.
//
// It makes nothing. Open judges whether the place is fit.
func Locate(env Env, workspace string) (string, error) {
	get := env.Get
	if get == nil {
		get = func(string) string { return "" }
	}
	if dir := get("JP_STORE"); dir != "" {
		return filepath.Abs(dir)
	}
	if env.Override != "" {
		return filepath.Abs(env.Override)
	}
	home := get("XDG_STATE_HOME")
	if !filepath.IsAbs(home) { // by its specification, a relative one does not count
		if !filepath.IsAbs(get("HOME")) {
			return "", &PlaceError{Path: "jp", Reason: "neither XDG_STATE_HOME nor HOME says where"}
		}
		home = filepath.Join(get("HOME"), ".local", "state")
	}
	path, err := canonical(workspace)
	if err != nil {
		return "", fmt.Errorf("workspace %s: %w", workspace, err)
	}
	dir, notice, err := find(filepath.Join(home, "jp"), path)
	if err != nil {
		return "", err
	}
	if notice != "" && env.Notice != nil {
		env.Notice(notice)
	}
	return dir, nil
}

// TakenError says that the store Dir, which was Workspace's, is that of another workspace, By, now.
type TakenError struct {
	Workspace, Dir, By string
}

func (e *TakenError) Error() string {
	return fmt.Sprintf("workspace %s: its conversations are in %s, which is the store of %s now", e.Workspace, e.Dir, e.By)
}

// identity is what a workspace's .jp folder keeps when it is moved within its file system. Inode
// numbers are used again, so the time of birth belongs to it where the system knows one.
type identity struct {
	Dev  uint64 `json:"dev"`
	Ino  uint64 `json:"ino"`
	Born int64  `json:"born,omitempty"` // nanoseconds since 1970, 0 = unknown
}

// same reports whether a and b are one folder. Device numbers can change when the system starts
// again, a time of birth makes up for that.
func (a identity) same(b identity) bool {
	return a.Ino == b.Ino && a.Born == b.Born && (a.Dev == b.Dev || a.Born != 0)
}

// workspaceRecord is the file workspace.json in a store's folder.
type workspaceRecord struct {
	Path string `json:"path"`
	identity
	Left   bool       `json:"left,omitempty"`   // another workspace, with a store of its own, is at Path now
	Before []identity `json:"before,omitempty"` // of the workspaces that had the store before, the last one last
}

// beforeMost bounds how many workspaces that had a store before are kept in mind.
const beforeMost = 32

// had reports whether the store was that of a workspace before.
func (r workspaceRecord) had(me identity) bool { return slices.ContainsFunc(r.Before, me.same) }

// without returns the record of a store that a workspace gave up for good.
func (r workspaceRecord) without(me identity) workspaceRecord {
	r.Before = slices.DeleteFunc(slices.Clone(r.Before), me.same)
	return r
}

// handTo returns the record once the store is that of another workspace.
func (r workspaceRecord) handTo(path string, me identity) workspaceRecord {
	next := workspaceRecord{Path: path, identity: me, Before: r.without(me).Before}
	if r.Path != "" && !r.same(me) {
		next.Before = append(slices.DeleteFunc(next.Before, r.same), r.identity)
		next.Before = next.Before[max(len(next.Before)-beforeMost, 0):]
	}
	return next
}

// lives reports whether the recorded workspace is still where it was.
func (r workspaceRecord) lives() bool {
	there, err := identify(r.Path)
	return err == nil && there.same(r.identity)
}

func readWorkspace(dir string) (workspaceRecord, bool) {
	var r workspaceRecord
	file, err := OpenOwn(filepath.Join(dir, WorkspaceName), os.O_RDONLY)
	if err != nil {
		return workspaceRecord{}, false
	}
	defer file.Close()
	data, err := io.ReadAll(io.LimitReader(file, 1<<16))
	if err != nil || json.Unmarshal(data, &r) != nil || r.Path == "" {
		return workspaceRecord{}, false
	}
	return r, true
}

// recordWorkspace writes down whose new store dir is.
func recordWorkspace(dir, workspace string) error {
	path, err := canonical(workspace)
	if err != nil {
		return err
	}
	id, err := identify(path)
	if err != nil {
		return err
	}
	return writeWorkspace(dir, workspaceRecord{Path: path, identity: id})
}

func writeWorkspace(dir string, r workspaceRecord) error {
	data, err := json.Marshal(r)
	if err != nil {
		return err
	}
	return files.Replace(filepath.Join(dir, WorkspaceName), append(data, '\n'), 0o600)
}

// find returns the store's folder of the workspace at path, below base, and what there is to say
// when it has just been recognised. The store that the workspace brought along counts before one
// that was here.
func find(base, path string) (dir, notice string, err error) {
	dir = filepath.Join(base, folderName(path, ""))
	me, err := identify(path)
	if errors.Is(err, fs.ErrNotExist) {
		return dir, "", nil // no .jp: nothing to recognise it by
	}
	if err != nil {
		return "", "", fmt.Errorf("workspace %s: %w", path, err)
	}
	here, known := readWorkspace(dir)
	if known && here.same(me) {
		return dir, claim(dir, here, path, me), nil
	}
	others, err := records(base)
	if err != nil {
		return "", "", err
	}
	for _, other := range others {
		if !other.same(me) {
			continue
		}
		notice = claim(other.dir, other.workspaceRecord, path, me)
		if notice != "" && known && here.Path == path {
			here.Left = true // the workspace that was here may come back, or be found elsewhere
			_ = writeWorkspace(dir, here)
		}
		return other.dir, notice, nil
	}
	for _, other := range others {
		if !other.had(me) {
			continue
		}
		if other.Left || other.lives() || beside(other.Path, other.identity) {
			return "", "", &TakenError{Workspace: path, Dir: other.dir, By: other.Path}
		}
		return other.dir, claim(other.dir, other.workspaceRecord, path, me), nil
	}
	// A .jp that was made anew, as by a checkout, has another identity, and the store of the one
	// before; but not where that one was only renamed.
	if known {
		others = append([]storeRecord{{dir, here}}, others...)
	}
	for i, other := range others {
		if other.Path != path || other.Left || i > 0 && known && other.dir == dir {
			continue
		}
		if !beside(path, other.identity) {
			return other.dir, claim(other.dir, other.workspaceRecord, path, me), nil
		}
		other.Left = true
		_ = writeWorkspace(other.dir, other.workspaceRecord)
	}
	if known { // its workspace moved away from here and took the store along
		dir = filepath.Join(base, folderName(path, fmt.Sprintf("%d:%d:%d", me.Dev, me.Ino, me.Born)))
	}
	return dir, "", nil
}

// besideMost bounds how many folders are looked at for a renamed workspace.
const besideMost = 10_000

// beside reports whether a workspace that was at path is in a folder beside it now, or under its
// own name in a folder beside the one that path is in: it, or that folder, was renamed.
func beside(path string, id identity) bool {
	parent, name := filepath.Split(path)
	parent = filepath.Clean(parent)
	at := func(folder string) bool {
		there, err := identify(folder)
		return err == nil && there.same(id)
	}
	for _, folder := range folders(parent) {
		if at(filepath.Join(parent, folder)) {
			return true
		}
	}
	above := filepath.Dir(parent)
	for _, folder := range folders(above) {
		if at(filepath.Join(above, folder, name)) {
			return true
		}
	}
	return false
}

// folders returns the names in a folder, as far as it can be read.
func folders(dir string) []string {
	f, err := os.Open(dir)
	if err != nil {
		return nil
	}
	defer func() { _ = f.Close() }()
	names, _ := f.Readdirnames(besideMost)
	return names
}

// storeRecord is the record in a store's folder.
type storeRecord struct {
	dir string
	workspaceRecord
}

// records returns those of all stores below base, by the names of their folders.
func records(base string) (list []storeRecord, err error) {
	entries, err := os.ReadDir(base)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("store %s: %w", base, err)
	}
	for _, e := range entries {
		dir := filepath.Join(base, e.Name())
		if r, known := readWorkspace(dir); known {
			list = append(list, storeRecord{dir, r})
		}
	}
	return list, nil
}

// claim brings the record of a store up to date with where its workspace is now, and says what
// changed for a person. The record only helps to find the store: on a disk that cannot be written
// to, the old one does for this time.
func claim(dir string, owner workspaceRecord, path string, me identity) (notice string) {
	if owner.Path == path && owner.identity == me && !owner.Left {
		return ""
	}
	if owner.Path != path && owner.lives() {
		return "" // one folder under two names, a bind mount
	}
	_ = writeWorkspace(dir, owner.handTo(path, me))
	switch {
	case owner.Path != path:
		return fmt.Sprintf("workspace %s was %s before: its conversations are still those in %s", path, owner.Path, dir)
	case !owner.same(me):
		return fmt.Sprintf("workspace %s: its .jp was made anew, and its conversations are still those in %s. "+
			"If the workspace that was here was moved, run `jp store adopt %s` there", path, dir, path)
	}
	return ""
}

// folderName is the base name of the workspace, where it is plain, and a hash.
func folderName(path, salt string) string {
	sum := sha256.Sum256([]byte(path + "\x00" + salt))
	if salt == "" {
		sum = sha256.Sum256([]byte(path))
	}
	name := strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', r == '-', r == '_', r == '.':
			return r
		}
		return '_'
	}, filepath.Base(path))
	return strings.TrimLeft(name[:min(len(name), 40)], ".") + "-" + hex.EncodeToString(sum[:6])
}

// canonical returns the absolute path without symbolic links.
func canonical(path string) (string, error) {
	if path == "" {
		return "", errors.New("no path")
	}
	path, err := filepath.Abs(path)
	if err != nil {
		return "", err
	}
	return filepath.EvalSymlinks(path)
}

// resolve is canonical for a path whose last parts need not exist. It returns also the longest part
// that does.
func resolve(path string) (full, exists string, err error) {
	path, err = filepath.Abs(path)
	if err != nil {
		return "", "", err
	}
	rest := ""
	for {
		exists, err = filepath.EvalSymlinks(path)
		if err == nil {
			return filepath.Join(exists, rest), exists, nil
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return "", "", err
		}
		if info, there := os.Lstat(path); there == nil {
			if info.Mode()&fs.ModeSymlink != 0 {
				return "", "", err // it leads nowhere
			}
			continue // another process has made it meanwhile
		}
		rest = filepath.Join(filepath.Base(path), rest)
		path = filepath.Dir(path)
	}
}

// checkPlace reports with a *PlaceError why a store must not be kept in dir.
func checkPlace(dir string) error {
	full, exists, err := resolve(dir)
	if err != nil {
		return &PlaceError{Path: dir, Reason: Reason(err)}
	}
	for at := full; ; at = filepath.Dir(at) {
		if info, err := os.Lstat(filepath.Join(at, ".jp")); err == nil && info.IsDir() {
			return &PlaceError{Path: dir, Reason: fmt.Sprintf("is inside the workspace %s, where tools can reach it", at), Workspace: at}
		}
		if at == filepath.Dir(at) {
			break
		}
	}
	if kind, err := networkKind(exists); err != nil {
		return &PlaceError{Path: dir, Reason: Reason(err)}
	} else if kind != "" {
		return &PlaceError{Path: dir, Reason: fmt.Sprintf("is on a network file system (%s), where locks cannot be relied on", kind)}
	}
	info, err := os.Stat(exists)
	if err != nil {
		return &PlaceError{Path: dir, Reason: Reason(err)}
	}
	if !info.IsDir() {
		return &PlaceError{Path: dir, Reason: fmt.Sprintf("%s is no folder", exists)}
	}
	owner, own := info.Sys().(*syscall.Stat_t).Uid, uint32(os.Geteuid())
	mode := info.Mode()
	switch {
	case exists == full && owner != own, owner != own && owner != 0:
		return &PlaceError{Path: dir, Reason: fmt.Sprintf("%s belongs to someone else (user %d)", exists, owner)}
	case exists == full && mode&0o022 != 0, mode&0o002 != 0 && mode&fs.ModeSticky == 0:
		return &PlaceError{Path: dir, Reason: fmt.Sprintf("others may write to %s (mode %04o)", exists, mode.Perm())}
	}
	return nil
}

// Reason drops the path from an error that will be shown beside one.
func Reason(err error) string {
	return files.Reason(err).Error()
}

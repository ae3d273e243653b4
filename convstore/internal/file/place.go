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

// Env is the environment of Locate. The zero Env has no variables.
type Env struct {
	Get      func(string) string // looks up an environment variable, as os.Getenv
	Override string              // store.path in the user's config; "" = none
	Notice   func(string)        // called when a workspace was renamed, or its .jp made again
}

// Locate returns the folder of a workspace's store: $JP_STORE, else Env.Override, else a folder
// below $XDG_STATE_HOME/jp with the name of the workspace and a hash of its path. A renamed
// workspace is recognised by its .jp folder and keeps its store. If another workspace was made at
// its old path and took the store, Locate fails with a *TakenError.
//
// It creates nothing. Open checks whether a store may be in that folder.
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
	if !filepath.IsAbs(home) { // the XDG specification says to ignore a relative path
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

// TakenError says that the store Dir, which belonged to Workspace, now belongs to another
// workspace, By.
type TakenError struct {
	Workspace, Dir, By string
}

func (e *TakenError) Error() string {
	return fmt.Sprintf("workspace %s: its conversations are in %s, which is the store of %s now", e.Workspace, e.Dir, e.By)
}

// identity identifies a workspace's .jp folder after it was moved within its file system. Inode
// numbers are used again, so it includes the time of birth if the system has one.
type identity struct {
	Dev  uint64 `json:"dev"`
	Ino  uint64 `json:"ino"`
	Born int64  `json:"born,omitempty"` // nanoseconds since 1970, 0 = unknown
}

// same reports whether a and b are the same folder. Device numbers can change when the system
// restarts, so they are ignored if the time of birth is known.
func (a identity) same(b identity) bool {
	return a.Ino == b.Ino && a.Born == b.Born && (a.Dev == b.Dev || a.Born != 0)
}

// workspaceRecord is the file workspace.json in a store's folder.
type workspaceRecord struct {
	Path string `json:"path"`
	identity
	Left   bool       `json:"left,omitempty"`   // another workspace with its own store is at Path now
	Before []identity `json:"before,omitempty"` // workspaces that had the store before, the latest one last
}

// beforeMost bounds the number of recorded workspaces that had a store before.
const beforeMost = 32

// had reports whether a workspace had the store before.
func (r workspaceRecord) had(me identity) bool { return slices.ContainsFunc(r.Before, me.same) }

// without returns the record without a workspace that gave the store up for good.
func (r workspaceRecord) without(me identity) workspaceRecord {
	r.Before = slices.DeleteFunc(slices.Clone(r.Before), me.same)
	return r
}

// handTo returns the record of the store after it was given to another workspace.
func (r workspaceRecord) handTo(path string, me identity) workspaceRecord {
	next := workspaceRecord{Path: path, identity: me, Before: r.without(me).Before}
	if r.Path != "" && !r.same(me) {
		next.Before = append(slices.DeleteFunc(next.Before, r.same), r.identity)
		next.Before = next.Before[max(len(next.Before)-beforeMost, 0):]
	}
	return next
}

// lives reports whether the recorded workspace still exists at its path.
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

// recordWorkspace writes the record of the workspace that a new store belongs to.
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

// find returns the folder below base of the store of the workspace at path, and a notice for a
// person, if any. A store that the workspace had at another path goes before one that was recorded
// for this path.
func find(base, path string) (dir, notice string, err error) {
	dir = filepath.Join(base, folderName(path, ""))
	me, err := identify(path)
	if errors.Is(err, fs.ErrNotExist) {
		return dir, "", nil // no .jp: it cannot be recognised
	}
	if err != nil {
		return "", "", fmt.Errorf("workspace %s: %w", path, err)
	}
	here, recorded := readWorkspace(dir)
	if recorded && here.same(me) {
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
		if notice != "" && recorded && here.Path == path {
			here.Left = true // the workspace that was here may return, or be found elsewhere
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
	// A .jp that was made again, for example by a checkout, has a new identity. It gets the store
	// of the old .jp, unless that one was only renamed.
	if recorded {
		others = append([]storeRecord{{dir, here}}, others...)
	}
	for i, other := range others {
		if other.Path != path || other.Left || i > 0 && recorded && other.dir == dir {
			continue
		}
		if !beside(path, other.identity) {
			return other.dir, claim(other.dir, other.workspaceRecord, path, me), nil
		}
		other.Left = true
		_ = writeWorkspace(other.dir, other.workspaceRecord)
	}
	if recorded { // the old workspace was moved and keeps its store
		dir = filepath.Join(base, folderName(path, fmt.Sprintf("%d:%d:%d", me.Dev, me.Ino, me.Born)))
	} else if isStore(dir) { // a person put a backup there
		_ = writeWorkspace(dir, workspaceRecord{Path: path, identity: me})
	}
	return dir, "", nil
}

// isStore reports whether a folder has a store.
func isStore(dir string) bool {
	info, err := os.Lstat(filepath.Join(dir, StoreName))
	return err == nil && info.Mode().IsRegular()
}

// besideMost bounds the number of folders in which a renamed workspace is looked for.
const besideMost = 10_000

// beside reports whether a workspace that was at path was renamed, or the folder that it is in. It
// looks in the folders beside path, and for a folder of the same name in the folders beside path's
// parent.
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

// folders returns the names in a folder, or none if it cannot be read.
func folders(dir string) []string {
	f, err := os.Open(dir)
	if err != nil {
		return nil
	}
	defer func() { _ = f.Close() }()
	names, _ := f.Readdirnames(besideMost)
	return names
}

// storeRecord is the workspace record of a store.
type storeRecord struct {
	dir string
	workspaceRecord
}

// records returns the records of all stores below base, in the order of the folders' names.
func records(base string) (list []storeRecord, err error) {
	entries, err := os.ReadDir(base)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("store %s: %w", base, err)
	}
	for _, e := range entries {
		dir := filepath.Join(base, e.Name())
		if r, recorded := readWorkspace(dir); recorded {
			list = append(list, storeRecord{dir, r})
		}
	}
	return list, nil
}

// claim updates the record of a store if its workspace was moved, and returns a notice for a
// person. It ignores a disk that cannot be written to: the record only helps to find the store, and
// the old record is good enough this time.
func claim(dir string, owner workspaceRecord, path string, me identity) (notice string) {
	if owner.Path == path && owner.identity == me && !owner.Left {
		return ""
	}
	if owner.Path != path && owner.lives() {
		return "" // one folder with two names, such as a bind mount
	}
	_ = writeWorkspace(dir, owner.handTo(path, me))
	switch {
	case owner.Path != path:
		return fmt.Sprintf("workspace %s was %s before: its conversations are still in %s", path, owner.Path, dir)
	case !owner.same(me):
		return fmt.Sprintf("workspace %s: its .jp was made again, and its conversations are still in %s. "+
			"If the workspace that was here was moved, run `jp store adopt` there, with the path of this one", path, dir)
	}
	return ""
}

// folderName returns the base name of the workspace, with _ for all but plain characters, and a
// hash of its path.
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

// resolve is canonical for a path whose last elements need not exist. It also returns the longest
// part that exists.
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
				return "", "", err // the link leads nowhere
			}
			continue // another process has made it meanwhile
		}
		rest = filepath.Join(filepath.Base(path), rest)
		path = filepath.Dir(path)
	}
}

// checkPlace fails with a *PlaceError if a store must not be in dir.
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

// Reason returns the text of an error without its path.
func Reason(err error) string {
	return files.Reason(err).Error()
}

package file

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// Adopt gives the store of another workspace to workspace, and returns the store's folder. The
// other workspace must be gone, or must have taken the store from this one. Empty reports whether
// the store in a folder has no conversations.
func Adopt(env Env, workspace, from string, empty func(dir string) (bool, error)) (string, error) {
	a, err := adoption(env, workspace, from)
	switch {
	case err != nil:
		return "", err
	case a.dir == a.own:
		return a.own, nil
	case a.owner.Path != "" && a.owner.lives() && !a.owner.had(a.me):
		return "", &PlaceError{Path: a.dir, Reason: fmt.Sprintf("belongs to the workspace %s, which is still there", a.owner.Path)}
	}
	if a.own != "" {
		if err := setAside(a.own, empty); err != nil {
			return "", err
		}
	}
	if err := writeWorkspace(a.dir, a.owner.handTo(a.path, a.me)); err != nil {
		return "", fmt.Errorf("store %s: %w", a.dir, err)
	}
	// Check that find returns this folder from now on.
	if found, _, err := find(filepath.Dir(a.dir), a.path); err != nil || found != a.dir {
		return "", errors.Join(err, &PlaceError{Path: a.dir, Reason: fmt.Sprintf("was not recognised as that of %s (%d:%d)", a.path, a.me.Dev, a.me.Ino)})
	}
	return a.dir, nil
}

// Leave gives up a store that workspace lost: it belongs to the workspace that has it now. It
// returns the folder of a new store for workspace.
func Leave(env Env, workspace, from string) (string, error) {
	a, err := adoption(env, workspace, from)
	if err != nil {
		return "", err
	}
	if !a.owner.had(a.me) {
		return "", &PlaceError{Path: a.dir, Reason: fmt.Sprintf("was never the store of %s", a.path)}
	}
	if err := writeWorkspace(a.dir, a.owner.without(a.me)); err != nil {
		return "", fmt.Errorf("store %s: %w", a.dir, err)
	}
	return Locate(env, workspace)
}

// adopted is a store that a workspace asks for.
type adopted struct {
	path  string // path of the workspace
	me    identity
	own   string // folder of its own store; "" = lost
	dir   string // folder of the store that it asks for
	owner workspaceRecord
}

func adoption(env Env, workspace, from string) (a adopted, err error) {
	if env.Override != "" || env.Get != nil && env.Get("JP_STORE") != "" {
		return a, &PlaceError{Path: from, Reason: "cannot be adopted while $JP_STORE or store.path says where this workspace's store is"}
	}
	if a.path, err = canonical(workspace); err != nil {
		return a, fmt.Errorf("workspace %s: %w", workspace, err)
	}
	if a.me, err = identify(a.path); err != nil {
		return a, fmt.Errorf("workspace %s: %w", a.path, err)
	}
	a.own, err = Locate(Env{Get: env.Get}, workspace)
	base := filepath.Dir(a.own)
	if taken, ok := errors.AsType[*TakenError](err); ok {
		base, err = filepath.Dir(taken.Dir), nil
	}
	if err != nil {
		return a, err
	}
	a.dir, a.owner, err = adoptable(base, from)
	return a, err
}

// adoptable returns the store below base that has this folder, or whose workspace has this path.
func adoptable(base, from string) (dir string, owner workspaceRecord, err error) {
	none := &PlaceError{Path: from, Reason: fmt.Sprintf("is neither a store in %s nor a workspace that has one there", base)}
	path, err := filepath.Abs(from)
	if err != nil {
		return "", owner, fmt.Errorf("store %s: %w", from, err)
	}
	if filepath.Dir(path) == base && isStore(path) {
		owner, _ = readWorkspace(path)
		return path, owner, nil
	}
	others, err := os.ReadDir(base)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", owner, fmt.Errorf("store %s: %w", base, err)
	}
	for _, other := range others {
		there := filepath.Join(base, other.Name())
		owner, recorded := readWorkspace(there)
		if !recorded || owner.Path != path || !isStore(there) {
			continue
		}
		if dir != "" {
			return "", owner, &PlaceError{Path: from, Reason: fmt.Sprintf("had two stores: name one, %s or %s", dir, there)}
		}
		dir = there
	}
	if dir == "" {
		return "", owner, none
	}
	owner, _ = readWorkspace(dir)
	return dir, owner, nil
}

// setAside renames the folder of a store without conversations, to make room for another store.
func setAside(dir string, empty func(dir string) (bool, error)) error {
	if _, err := os.Lstat(dir); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	is, err := empty(dir)
	if err != nil {
		return err
	}
	if !is {
		return &PlaceError{Path: dir, Reason: "holds conversations of this workspace already, and no workspace has two stores"}
	}
	// Without its record the renamed folder is not found as the store of this workspace.
	record := filepath.Join(dir, WorkspaceName)
	if err := os.Rename(record, record+".replaced"); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("store %s: %w", dir, err)
	}
	for n := 1; ; n++ {
		aside := fmt.Sprintf("%s.replaced-%d", dir, n)
		if _, err := os.Lstat(aside); err == nil {
			continue
		}
		if err := os.Rename(dir, aside); err != nil {
			return fmt.Errorf("store %s: %w", dir, err)
		}
		return SyncDir(filepath.Dir(dir))
	}
}

package file

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// Adopt makes the store of another workspace, which is gone, that of workspace, and returns its folder.
// Empty reports whether the store in a folder holds no conversation.
func Adopt(env Env, workspace, from string, empty func(dir string) (bool, error)) (string, error) {
	if env.Override != "" || env.Get != nil && env.Get("JP_STORE") != "" {
		return "", &PlaceError{Path: from, Reason: "cannot be adopted while $JP_STORE or store.path says where this workspace's store is"}
	}
	own, err := Locate(env, workspace)
	if err != nil {
		return "", err
	}
	path, err := canonical(workspace)
	if err != nil {
		return "", fmt.Errorf("workspace %s: %w", workspace, err)
	}
	me, err := identify(path)
	if err != nil {
		return "", fmt.Errorf("workspace %s: %w", path, err)
	}
	base := filepath.Dir(own)
	dir, owner, err := adoptable(base, from)
	if err != nil {
		return "", err
	}
	switch {
	case dir == own:
		return own, nil
	case owner.Path != "" && owner.lives():
		return "", &PlaceError{Path: dir, Reason: fmt.Sprintf("belongs to the workspace %s, which is still there", owner.Path)}
	}
	if err := setAside(own, empty); err != nil {
		return "", err
	}
	if err := recordWorkspace(dir, path); err != nil {
		return "", fmt.Errorf("store %s: %w", dir, err)
	}
	// What was written down is what finding goes by.
	if found, _, err := find(base, path); err != nil || found != dir {
		return "", errors.Join(err, &PlaceError{Path: dir, Reason: fmt.Sprintf("was not recognised as that of %s (%d:%d)", path, me.Dev, me.Ino)})
	}
	return dir, nil
}

// adoptable finds a store below base by its folder or by its workspace's path.
func adoptable(base, from string) (dir string, owner workspaceRecord, err error) {
	none := &PlaceError{Path: from, Reason: fmt.Sprintf("is neither a store in %s nor a workspace that has one there", base)}
	path, err := filepath.Abs(from)
	if err != nil {
		return "", owner, fmt.Errorf("store %s: %w", from, err)
	}
	isStore := func(dir string) bool {
		info, err := os.Lstat(filepath.Join(dir, StoreName))
		return err == nil && info.Mode().IsRegular()
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
		owner, known := readWorkspace(there)
		if !known || owner.Path != path || !isStore(there) {
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

// setAside makes room for the store of another: it renames a folder that holds no
// conversation.
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
	// It must not be taken for this workspace's any more.
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

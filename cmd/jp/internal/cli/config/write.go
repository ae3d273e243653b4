package config

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"jp/cmd/jp/internal/exit"
	"jp/cmd/jp/internal/trust"
	"jp/profiles"
	"jp/tools/files"
)

// editedFile is a config file that jp changes for a person. A trusted file of the workspace stays
// trusted with the new bytes. No other file becomes trusted.
type editedFile struct {
	group *Group
	name  string // absolute path by which config names it
	path  string // path to write: the target if the user's own file is a link
	key   string // slash path below the workspace; "" = the user's own
	old   []byte
	mode  fs.FileMode
	had   bool // whether it existed
	same  bool // what is written says the same as before
}

// lockConfig prevents other jp processes from changing config files of this user until unlock.
func (g *Group) lockConfig(ctx context.Context) (unlock func(), err error) {
	dir := g.Con.StateDir()
	if dir == "" {
		return nil, errors.New("neither XDG_STATE_HOME nor HOME says where locks are")
	}
	if unlock, err = trust.LockFile(ctx, filepath.Join(dir, "config.lock")); err != nil {
		return nil, fmt.Errorf("config: %w", err)
	}
	return unlock, nil
}

// userConfig returns the user's config.toml. The caller holds lockConfig.
func (g *Group) userConfig() (editedFile, error) {
	dir := profiles.UserDir(g.Con.Env.Environ)
	if dir == "" {
		return editedFile{}, exit.NotFoundf("config: there is no folder for your config.toml: neither XDG_CONFIG_HOME nor HOME is set")
	}
	f := editedFile{group: g, name: filepath.Join(dir, "config.toml"), path: filepath.Join(dir, "config.toml"), mode: 0o600}
	if real, err := filepath.EvalSymlinks(f.path); err == nil {
		f.path = real
	} else if info, err := os.Lstat(f.path); err == nil && info.Mode()&fs.ModeSymlink != 0 {
		return f, exit.Usagef("%s: is a symbolic link to nothing", f.path)
	}
	return f, f.read()
}

// workspaceConfig returns a trusted file of the workspace by its slash path below the workspace.
// The caller holds lockConfig.
func (g *Group) workspaceConfig(files *trust.Files, key string) (editedFile, error) {
	f := editedFile{group: g, name: filepath.Join(files.Root, filepath.FromSlash(key)), key: key, mode: 0o644}
	f.path = f.name
	if info, err := os.Lstat(f.path); err == nil && info.Mode()&fs.ModeSymlink != 0 {
		return f, exit.Refusedf("%s: is a symbolic link", g.WS.Relative(f.path)).WithHint("edit the file that it leads to")
	}
	if err := f.read(); err != nil {
		return f, err
	}
	if stamp, ok := files.Stamps[key]; ok != f.had || ok && stamp != trust.DataStamp(f.old) {
		return f, trust.Exchanged(f.path)
	}
	return f, nil
}

// trustedNow returns the files of the workspace as they are now, if the user trusts this state. It
// may ask.
func (g *Group) trustedNow(ctx context.Context) (*trust.Files, error) {
	if _, err := g.WS.Gate.Pass(ctx); err != nil {
		return nil, err
	}
	j, err := g.WS.Gate.Judge(ctx, g.WS.Found())
	if err != nil {
		return nil, err
	}
	if !j.OK() {
		return nil, j.Refusal()
	}
	return j.Files, nil
}

func (f *editedFile) read() error {
	data, info, err := files.ReadRegular(files.Disk{}, f.path, maxConfig, files.NoLink)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return exit.Usagef("%s: %v", f.path, files.Reason(err))
	}
	f.old, f.mode, f.had = data, info.Mode().Perm(), true
	return nil
}

// replaceConfig replaces a file of the workspace, under lockConfig. The new file is written in a
// folder outside the workspace, so that a jp that is killed leaves no untrusted file in .jp. The
// owner of the lock owns that folder.
func (g *Group) replaceConfig(file string, data []byte, mode fs.FileMode) error {
	dir := filepath.Join(g.Con.StateDir(), "config.writing")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	return files.ReplaceWithin(dir, file, data, mode)
}

// maxConfig bounds a config file in bytes, as loading does.
const maxConfig = 1 << 20

// write replaces the file and keeps the workspace trusted. It refuses when the file has changed
// since it was read.
func (f *editedFile) write(ctx context.Context, data []byte) error {
	now := editedFile{path: f.path}
	if err := now.read(); err != nil {
		return err
	}
	if now.had != f.had || !bytes.Equal(now.old, f.old) {
		return &exit.Error{Code: "changed", Status: exit.Failed, Msg: fmt.Sprintf("%s: changed while jp was running", f.path), Hint: "try again"}
	}
	put := func() error {
		if err := os.MkdirAll(filepath.Dir(f.path), 0o700); err != nil {
			return err
		}
		files.RemoveUnfinished(f.path, time.Now().Add(-time.Minute))
		if f.key == "" {
			return files.Replace(f.path, data, f.mode)
		}
		return f.group.replaceConfig(f.path, data, f.mode)
	}
	if f.key == "" || f.group.WS.Gate.ByEnv() {
		return put()
	}
	write := f.group.WS.Gate.Write
	if f.same {
		write = f.group.WS.Gate.Rewrite
	}
	return write(ctx, f.group.WS.Found(), map[string][]byte{f.key: data}, put)
}

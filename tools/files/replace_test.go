package files

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// holds checks that a folder holds these files and nothing else.
func holds(t *testing.T, dir string, want map[string]string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		data, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if text, ok := want[e.Name()]; !ok || err != nil || string(data) != text {
			t.Errorf("%s holds %q, %v; want %v", e.Name(), data, err, want)
		}
	}
	if len(entries) != len(want) {
		t.Errorf("%d files, want %d", len(entries), len(want))
	}
}

// TestMakeIn: a file is made whole, with a link or without; what is there stays; nothing else is
// left.
func TestMakeIn(t *testing.T) {
	for way, make := range map[string]func(dir *os.Root, name string) error{
		"link": func(dir *os.Root, name string) error { return MakeIn(dir, name, []byte("new"), 0o640) },
		"link of a file that had a name": func(dir *os.Root, name string) error {
			temp := tempName(name)
			if err := writeNamed(dir, temp, []byte("new"), 0o640, nil); err != nil {
				return err
			}
			return nameIn(dir, temp, name, 0o640)
		},
		"claim": func(dir *os.Root, name string) error {
			temp, err := writeIn(dir, name, tempName(name), []byte("new"), 0o640, nil)
			if err != nil {
				return err
			}
			if err = claim(dir, temp, name, 0o640); err != nil {
				err = errors.Join(err, dir.Remove(temp))
			}
			return err
		},
	} {
		path := t.TempDir()
		dir, err := os.OpenRoot(path)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = dir.Close() }()
		if err := errors.Join(os.WriteFile(filepath.Join(path, "old"), []byte("old"), 0o600), os.Symlink("absent", filepath.Join(path, "link"))); err != nil {
			t.Fatal(err)
		}
		for name, want := range map[string]error{"new": nil, "old": fs.ErrExist, "link": fs.ErrExist} {
			if err := make(dir, name); !errors.Is(err, want) || (err == nil) != (want == nil) {
				t.Errorf("%s: %s = %v, want %v", way, name, err, want)
			}
		}
		if err := dir.Remove("link"); err != nil {
			t.Error(err)
		}
		holds(t, path, map[string]string{"new": "new", "old": "old"})
		if info, err := dir.Stat("new"); err != nil || info.Mode() != 0o640 {
			t.Errorf("%s: the new file is %v, %v", way, info, err)
		}
	}
}

// TestReplaceIn: the mode stays; a file that has changed since it was looked at stays too.
func TestReplaceIn(t *testing.T) {
	path := t.TempDir()
	dir, err := os.OpenRoot(path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = dir.Close() }()
	file := filepath.Join(path, "file")
	if err := errors.Join(os.WriteFile(file, []byte("one"), 0o600), os.Chmod(file, 0o751)); err != nil {
		t.Fatal(err)
	}
	was, err := dir.Lstat("file")
	if err != nil {
		t.Fatal(err)
	}
	if err := ReplaceIn(dir, "file", []byte("two"), was); err != nil {
		t.Fatal(err)
	}
	if info, err := dir.Stat("file"); err != nil || info.Mode() != 0o751 {
		t.Errorf("the file is %v, %v", info, err)
	}
	if err := ReplaceIn(dir, "file", []byte("three"), was); !errors.Is(err, ErrChanged) {
		t.Errorf("replacing another file than was looked at: %v", err)
	}
	holds(t, path, map[string]string{"file": "two"})
}

// TestCannotSync: a file counts as made where only its folder cannot be synced, as under FUSE.
func TestCannotSync(t *testing.T) {
	for err, want := range map[error]bool{nil: false, syscall.EIO: false, syscall.ENOSPC: false, syscall.EINVAL: true, syscall.EOPNOTSUPP: true, syscall.ENOSYS: true} {
		if err != nil {
			err = &fs.PathError{Op: "sync", Path: ".", Err: err}
		}
		if got := cannot(err); got != want {
			t.Errorf("cannot(%v) = %t, want %t", err, got, want)
		}
	}
}

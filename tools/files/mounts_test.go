package files

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// TestMountNames: a path has another name where the list says so and the same file is there. Links
// stand for mounts, which only root can make.
func TestMountNames(t *testing.T) {
	top, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	in := func(name string) string { return filepath.Join(top, name) }
	for _, dir := range []string{"home/me/store/sub", "data/me/store", "bound", "pool"} {
		if err := os.MkdirAll(in(dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for name, target := range map[string]string{"bound/me": "home/me", "pool/@home": "home"} {
		if err := os.Symlink(in(target), in(name)); err != nil {
			t.Fatal(err)
		}
	}
	// /data is like /home to a system that does not say what of an export is mounted.
	list := MountList{all: []mount{
		{device: "1", root: "/", at: "/"}, {device: "2", root: "/@home", at: in("home")}, {device: "2", root: "/@home", at: in("data")},
		{device: "2", root: "/@home", at: in("bound")}, {device: "2", root: "/", at: in("pool")}, {device: "3", root: "/@home", at: in("pool/@home")},
		{device: "2", root: "/@home/me/store/sub", at: in("bound/me/store/sub")},
	}}.shared()
	for path, want := range map[string][]string{
		in("home/me/store"):     {in("bound/me/store"), in("pool/@home/me/store"), in("bound/me/store/sub")},
		in("home/me/store/new"): {in("bound/me/store/new"), in("pool/@home/me/store/new")},
		in("home/me/store/sub"): {in("bound/me/store/sub"), in("pool/@home/me/store/sub"), in("bound/me/store/sub")},
		in("other"):             nil,
	} {
		if got := list.Names(path); got[0] != path || !slices.Equal(got[1:], want) {
			t.Errorf("Names(%s) = %q, want %q", path, got, want)
		}
	}
}

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
	for _, dir := range []string{"home/me/store/sub", "home/me/store/vol", "data/me/store", "bound", "pool"} {
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
		{device: "4", root: "/", at: in("home/me/store/vol")}, {device: "4", root: "/", at: in("bound/me/store/vol")},
		{device: "5", root: "/", at: in("home/me")}, {device: "5", root: "/", at: in("data")}, // hidden
	}}.shared()
	for path, want := range map[string][]string{
		in("home/me/store"):     {in("bound/me/store"), in("pool/@home/me/store"), in("bound/me/store/sub"), in("bound/me/store/vol")},
		in("home/me/store/new"): {in("bound/me/store/new"), in("pool/@home/me/store/new")},
		in("home/me/store/sub"): {in("bound/me/store/sub"), in("pool/@home/me/store/sub")},
		in("other"):             nil,
	} {
		if got := list.NamesBelow(path); got[0] != path || !slices.Equal(got[1:], want) {
			t.Errorf("NamesBelow(%s) = %q, want %q", path, got, want)
		}
	}
	// What of the system is mounted in a home makes the system no part of it.
	if got := list.Names(in("home/me/store")); slices.Contains(got, in("bound/me/store/vol")) {
		t.Errorf("Names has what is mounted below: %q", got)
	}
}

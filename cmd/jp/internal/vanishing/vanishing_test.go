package vanishing

import (
	"os"
	"path/filepath"
	"testing"
)

func TestSweep(t *testing.T) {
	place := t.TempDir()
	live, err := Make(place, "x-")
	if err != nil {
		t.Fatal(err)
	}
	killed, err := Make(place, "x-")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(killed.Path, "secret"), []byte("s"), 0o600); err != nil {
		t.Fatal(err)
	}
	killed.lock.Close() // as the kernel does
	other := filepath.Join(place, "x-file")
	if err := os.Mkdir(other, 0o700); err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(place, "x-1")
	if err := os.Symlink(other, link); err != nil {
		t.Fatal(err)
	}
	Sweep(place, "x-")
	for path, want := range map[string]bool{live.Path: true, killed.Path: false, other: true, link: true} {
		if _, err := os.Lstat(path); (err == nil) != want {
			t.Errorf("%s is there: %v, want %v", path, err == nil, want)
		}
	}
	if info, err := os.Stat(live.Path); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("folder: %v, %v", info, err)
	}
	if err := live.Remove(); err != nil {
		t.Error(err)
	}
}

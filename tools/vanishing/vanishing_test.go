package vanishing

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
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
	run, host := here()
	other := filepath.Join(place, "x-"+run+host+"-file")
	renamed := filepath.Join(place, "x-"+run+tag("before")+"-1") // of this machine, when it had another name
	booted := filepath.Join(place, "x-"+tag("before")+host+"-1") // the same, before it was started again
	elsewhere := filepath.Join(place, "x-"+tag("its run")+tag("its name")+"-1")
	for _, dir := range []string{other, renamed, booted, elsewhere} {
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	link := filepath.Join(place, "x-"+run+host+"-1")
	if err := os.Symlink(other, link); err != nil {
		t.Fatal(err)
	}
	Sweep(place, "x-")
	for path, want := range map[string]bool{live.Path: true, killed.Path: false, renamed: false, booted: false, other: true, elsewhere: true, link: true} {
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

// What cannot be removed is named in a few words.
func TestLeft(t *testing.T) {
	top := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(top, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	// "/." makes it a path that can be neither removed nor opened.
	const want = "folder for temporary files %s: not a directory"
	if err := (&Dir{Path: top + "/."}).Remove(); err == nil || err.Error() != fmt.Sprintf(want, top+"/.") {
		t.Errorf("Remove = %v", err)
	}
	fifo := filepath.Join(filepath.Dir(top), "fifo") // in the place of TMPDIR
	if err := unix.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := (&Dir{Path: fifo + "/x"}).Remove(); err == nil || err.Error() != fmt.Sprintf(want, fifo+"/x") {
		t.Errorf("Remove = %v", err)
	}
	if err := (&Dir{Path: filepath.Join(top, "..", "none")}).Remove(); err != nil {
		t.Errorf("Remove of nothing = %v", err)
	}
}

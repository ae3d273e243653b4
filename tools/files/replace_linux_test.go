package files

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// TestKilled: a process that ends in the middle of a write leaves nothing in the folder.
func TestKilled(t *testing.T) {
	const in = "TEST_KILLED_IN"
	if path := os.Getenv(in); path != "" {
		dir, err := os.OpenRoot(path)
		if err != nil {
			t.Fatal(err)
		}
		was, err := dir.Lstat("file")
		if err != nil {
			t.Fatal(err)
		}
		limit := unix.Rlimit{Cur: 4096, Max: 4096} // SIGXFSZ ends the process when the file is larger
		if err := unix.Setrlimit(unix.RLIMIT_FSIZE, &limit); err != nil {
			t.Fatal(err)
		}
		var byDefault [4]uint64 // Go would ignore the signal
		if _, _, errno := unix.RawSyscall6(unix.SYS_RT_SIGACTION, uintptr(unix.SIGXFSZ), uintptr(unsafe.Pointer(&byDefault)), 0, 8, 0, 0); errno != 0 {
			t.Fatal(errno)
		}
		data := make([]byte, 1<<20)
		if os.Getenv("TEST_KILLED_MAKES") != "" {
			t.Fatal(MakeIn(dir, "new", data, 0o640))
		}
		t.Fatal(ReplaceIn(dir, "file", data, was))
	}
	for _, makes := range []string{"", "1"} {
		path := t.TempDir()
		if err := os.WriteFile(filepath.Join(path, "file"), []byte("one"), 0o600); err != nil {
			t.Fatal(err)
		}
		cmd := exec.Command(os.Args[0], "-test.run=^TestKilled$")
		cmd.Env = append(os.Environ(), in+"="+path, "TEST_KILLED_MAKES="+makes)
		out, err := cmd.CombinedOutput()
		if e := (*exec.ExitError)(nil); !errors.As(err, &e) || e.Sys().(syscall.WaitStatus).Signal() != unix.SIGXFSZ {
			t.Fatalf("%v: %s", err, out)
		}
		holds(t, path, map[string]string{"file": "one"})
	}
}

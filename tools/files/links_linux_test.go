package files

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// TestResolveMeanwhile: no link is followed that this user made, though a folder where he cannot
// write takes the place of the one that has the link, again and again.
func TestResolveMeanwhile(t *testing.T) {
	top := t.TempDir()
	in := func(name string) string { return filepath.Join(top, name) }
	if err := errors.Join(
		os.Mkdir(in("shared"), 0o700), os.Mkdir(in("shared/folder"), 0o700), os.Symlink("/etc", in("shared/folder/link")),
		os.Symlink("/usr", in("shared/other")),
	); err != nil {
		t.Fatal(err)
	}
	if os.Geteuid() == 0 { // who may write everywhere
		const nobody = 65534
		if err := errors.Join(
			os.Chmod(filepath.Dir(top), 0o711), os.Chown(in("shared"), nobody, nobody), os.Chown(in("shared/folder"), nobody, nobody),
			syscall.Setresuid(nobody, nobody, 0),
		); err != nil {
			t.Fatal(err)
		}
		defer func() {
			if err := syscall.Setresuid(0, 0, 0); err != nil {
				t.Fatal(err)
			}
		}()
		if _, err := os.Stat(in("shared")); err != nil {
			t.Skipf("the folder for temporary files is closed to others: %v", err)
		}
	}
	stop, ended := make(chan struct{}), make(chan error, 1)
	go func() {
		for {
			select {
			case <-stop:
				ended <- nil
				return
			default:
			}
			if err := unix.Renameat2(unix.AT_FDCWD, in("shared/folder"), unix.AT_FDCWD, in("shared/other"), unix.RENAME_EXCHANGE); err != nil {
				ended <- err
				return
			}
		}
	}()
	for range 20_000 {
		if path, err := (Links{}).Resolve(in("shared/folder/link/passwd")); err == nil || strings.HasPrefix(path, "/etc") {
			t.Errorf("Resolve = %s, %v", path, err)
			break
		}
	}
	close(stop)
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
}

// TestResolveShared: a link in a folder around one that is closed is followed, unless everyone may
// have made it.
func TestResolveShared(t *testing.T) {
	top, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("/etc", filepath.Join(top, "link")); err != nil {
		t.Fatal(err)
	}
	links := Links{Closed: []string{filepath.Join(top, "state")}}
	for mode, want := range map[os.FileMode]string{0o755: "/etc/passwd", 0o777: "", 0o777 | os.ModeSticky: ""} {
		if err := os.Chmod(top, mode); err != nil {
			t.Fatal(err)
		}
		path, err := links.Resolve(filepath.Join(top, "link/passwd"))
		if path != want || (want == "") != errors.As(err, new(*LinkError)) {
			t.Errorf("%v: Resolve = %q, %v, want %q", mode, path, err, want)
		}
	}
}

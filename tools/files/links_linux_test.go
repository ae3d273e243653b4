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
	if os.Geteuid() == 0 {
		if err := errors.Join(os.Chown(in("shared"), nobody, nobody), os.Chown(in("shared/folder"), nobody, nobody)); err != nil {
			t.Fatal(err)
		}
	}
	dropRoot(t, top)
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

// TestResolveShared: a link that no tool can have made is followed, unless any user can have made it.
func TestResolveShared(t *testing.T) {
	top, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	const sticky = 0o777 | os.ModeSticky
	me, other := os.Geteuid(), 1 // uids
	if me == 0 {
		me = nobody
	}
	type row struct {
		mode   os.FileMode // of a folder
		owner  int         // of one in it, which has the link
		around bool        // it is around a closed one
		want   bool        // the link is followed
	}
	folders := map[string]row{
		"mine":          {0o755, me, true, true},
		"mine-in-tmp":   {sticky, me, true, true},
		"tool":          {0o755, me, false, false},
		"theirs":        {0o755, other, true, true},
		"theirs-plain":  {0o755, other, false, true},
		"theirs-in-tmp": {sticky, other, true, false},
		"squatted":      {sticky, other, false, false},
		"open":          {0o777, other, false, false},
	}
	links := Links{}
	for name, r := range folders {
		in := filepath.Join(top, name, "in")
		err := errors.Join(os.MkdirAll(in, 0o755), os.Chmod(filepath.Dir(in), r.mode), os.Symlink("/etc", in+"/link"))
		if os.Geteuid() == 0 {
			err = errors.Join(err, os.Chown(in, r.owner, -1))
		} else if r.owner != me {
			delete(folders, name) // only root can give a folder away
		}
		if r.around {
			links.Closed = append(links.Closed, in+"/state")
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	shared := filepath.Join(top, "shared")
	if err := errors.Join(os.Mkdir(shared, 0o755), os.Chmod(shared, sticky), os.Symlink("/etc", shared+"/link")); err != nil {
		t.Fatal(err)
	}
	links.Closed = append(links.Closed, shared+"/state")
	dropRoot(t, top)
	check := func(path string, want bool) {
		got, err := links.Resolve(path)
		if (got == "/etc/passwd") != want || want == errors.As(err, new(*LinkError)) {
			t.Errorf("Resolve(%s) = %q, %v", path, got, err)
		}
	}
	check(shared+"/link/passwd", false)
	for name, r := range folders {
		check(filepath.Join(top, name, "in/link/passwd"), r.want)
	}
}

const nobody = 65534

// dropRoot makes root, who may write everywhere, another user until t ends.
func dropRoot(t *testing.T, top string) {
	if os.Geteuid() != 0 {
		return
	}
	if err := errors.Join(os.Chmod(filepath.Dir(top), 0o711), syscall.Setresuid(nobody, nobody, 0)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := syscall.Setresuid(0, 0, 0); err != nil {
			t.Fatal(err)
		}
	})
	if _, err := os.Stat(filepath.Join(top, "shared")); err != nil {
		t.Skipf("the folder for temporary files is closed to others: %v", err)
	}
}

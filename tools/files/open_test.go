package files

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestOpenRegular: nothing but a file of the rules is opened, and nothing is waited for.
func TestOpenRegular(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("file", "text")
	write("large", strings.Repeat("x", 1025))
	if err := errors.Join(
		os.Mkdir(filepath.Join(dir, "folder"), 0o700), syscall.Mkfifo(filepath.Join(dir, "fifo"), 0o600),
		os.Symlink("file", filepath.Join(dir, "link")), os.Symlink("fifo", filepath.Join(dir, "way")),
		os.Symlink("/dev/null", filepath.Join(dir, "out")), os.Symlink("absent", filepath.Join(dir, "dangling")),
	); err != nil {
		t.Fatal(err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = root.Close() }()
	for _, test := range []struct {
		name  string
		rules Rules
		want  error // nil: it is read
	}{
		{"file", 0, nil},
		{"file", NoLink | Own, nil},
		{"link", 0, nil},
		{"link", Own, nil},
		{"link", NoLink, ErrLink},
		{"dangling", 0, fs.ErrNotExist},
		{"dangling", NoLink, ErrLink},
		{"folder", 0, ErrFolder},
		{"fifo", 0, ErrSpecial},
		{"way", 0, ErrSpecial},
		{"way", NoLink, ErrLink},
		{"absent", NoLink, fs.ErrNotExist},
	} {
		for place, at := range map[string]Place{"disk": Disk{}, "root": root} {
			name := test.name
			if place == "disk" {
				name = filepath.Join(dir, name)
			}
			data, info, err := ReadRegular(at, name, 1024, test.rules)
			if !errors.Is(err, test.want) || (err == nil) != (test.want == nil) || err == nil && (string(data) != "text" || !info.Mode().IsRegular()) {
				t.Errorf("ReadRegular(%s, %s, %d) = %q, %v, want %v", place, test.name, test.rules, data, err, test.want)
			}
			var path *fs.PathError
			if err != nil && (!errors.As(err, &path) || path.Path != name) {
				t.Errorf("ReadRegular(%s, %s): %#v is no error of the path", place, test.name, err)
			}
		}
	}
	if _, _, err := ReadRegular(root, "out", 1024, 0); err == nil || errors.Is(err, ErrSpecial) {
		t.Errorf("a link out of the root = %v", err)
	}
	if _, _, err := ReadRegular(Disk{}, filepath.Join(dir, "out"), 1024, 0); !errors.Is(err, ErrSpecial) {
		t.Errorf("a device = %v", err)
	}
	var large *LargeError
	if _, _, err := ReadRegular(root, "large", 1024, 0); !errors.As(err, &large) || large.Error() != "larger than 1 KiB" {
		t.Errorf("a large file = %v", err)
	}
	if _, _, err := ReadRegular(root, "large", 1025, 0); err != nil {
		t.Errorf("a file that is just not too large = %v", err)
	}
}

// TestOpenRegularCreates: a new file is for its user alone, and a link that leads to none is not
// followed.
func TestOpenRegularCreates(t *testing.T) {
	dir := t.TempDir()
	f, info, err := OpenRegular(Disk{}, filepath.Join(dir, "new"), os.O_RDWR|os.O_CREATE, NoLink|Own)
	if err != nil || info.Mode() != 0o600 {
		t.Fatalf("a new file = %v, %v", info, err)
	}
	_ = f.Close()
	if err := os.Symlink("absent", filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	if _, _, err := OpenRegular(Disk{}, filepath.Join(dir, "link"), os.O_RDWR|os.O_CREATE, NoLink|Own); !errors.Is(err, ErrLink) {
		t.Errorf("a link to nothing = %v", err)
	}
	if _, err := os.Lstat(filepath.Join(dir, "absent")); err == nil {
		t.Error("the file behind the link was made")
	}
	if os.Geteuid() == 0 {
		other := filepath.Join(dir, "other")
		if err := errors.Join(os.WriteFile(other, nil, 0o600), os.Chown(other, 1, 1)); err != nil {
			t.Fatal(err)
		}
		if _, _, err := OpenRegular(Disk{}, other, os.O_RDWR, Own); !errors.Is(err, ErrOwner) {
			t.Errorf("somebody else's file = %v", err)
		}
	}
}

// late is a place in which a FIFO takes the place of a file after it was looked at.
type late struct {
	Disk
	file string
}

func (l late) Stat(string) (fs.FileInfo, error) { return os.Stat(l.file) }

// TestOpenRegularDoesNotBlock: a pipe that is put in place of a file after it was looked at holds
// nobody, and is refused.
func TestOpenRegularDoesNotBlock(t *testing.T) {
	dir := t.TempDir()
	file, fifo := filepath.Join(dir, "file"), filepath.Join(dir, "fifo")
	if err := errors.Join(os.WriteFile(file, nil, 0o600), syscall.Mkfifo(fifo, 0o600)); err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() {
		if _, err := OpenRoot(fifo); !errors.Is(err, syscall.ENOTDIR) {
			t.Errorf("OpenRoot = %v", err)
		}
		_, _, err := OpenRegular(late{file: file}, fifo, os.O_RDONLY, 0)
		done <- err
	}()
	select {
	case err := <-done:
		if !errors.Is(err, ErrSpecial) {
			t.Error(err)
		}
	case <-time.After(time.Minute):
		t.Error("opening a pipe blocks")
	}
}

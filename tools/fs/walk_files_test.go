package fs

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// TestWalkFiles: files in order, what .gitignore files above and below the start exclude left out,
// links not followed.
func TestWalkFiles(t *testing.T) {
	top, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for path, text := range map[string]string{
		".gitignore": "*.log\n/src/gen/\n", "a.txt": "a", "x.log": "", ".git/config": "", ".jp/config.toml": "",
		"src/b.go": "b", "src/gen/c.go": "", "src/sub/.gitignore": "d.go\n!keep.log\n", "src/sub/d.go": "", "src/sub/e.go": "e", "src/sub/keep.log": "k",
	} {
		path = filepath.Join(top, path)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("/etc/passwd", filepath.Join(top, "src", "link")); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		top, dir string
		want     []string
	}{
		{top, top, []string{".gitignore:*.log\n/src/gen/\n", "a.txt:a", "src/b.go:b", "src/sub/.gitignore:d.go\n!keep.log\n", "src/sub/e.go:e", "src/sub/keep.log:k"}},
		{top, filepath.Join(top, "src"), []string{"b.go:b", "sub/.gitignore:d.go\n!keep.log\n", "sub/e.go:e", "sub/keep.log:k"}},
		// A top that is not above the folder does not count.
		{"/nowhere", filepath.Join(top, "src"), []string{"b.go:b", "gen/c.go:", "sub/.gitignore:d.go\n!keep.log\n", "sub/e.go:e", "sub/keep.log:k"}},
	} {
		var got []string
		err := WalkFiles(t.Context(), tt.top, tt.dir, func(path string, f *os.File) error {
			b, err := io.ReadAll(f)
			got = append(got, path+":"+string(b))
			return err
		})
		if err != nil || !slices.Equal(got, tt.want) {
			t.Errorf("WalkFiles(%s, %s) = %q, %v, want %q", tt.top, tt.dir, got, err, tt.want)
		}
	}
	stop := errors.New("stop")
	if err := WalkFiles(t.Context(), top, top, func(string, *os.File) error { return stop }); err != stop {
		t.Errorf("the error of visit = %v, want %v", err, stop)
	}
}

// A folder may have no more entries than fit in memory.
func TestReadEntries(t *testing.T) {
	dir := t.TempDir()
	for i, want := range []string{"0 <nil>", "1 <nil>", "2 <nil>", "0 holds more than 2 entries"} {
		f, err := os.Open(dir)
		if err != nil {
			t.Fatal(err)
		}
		list, err := readEntries(f, 2)
		if got := fmt.Sprint(len(list), " ", err); got != want {
			t.Errorf("%d entries: %s, want %s", i, got, want)
		}
		f.Close()
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprint(i)), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

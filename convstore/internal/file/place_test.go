package file

import (
	"os"
	"path/filepath"
	"strconv"
	"testing"
)

func TestIdentity(t *testing.T) {
	a := identity{Dev: 1, Ino: 2, Born: 3}
	for _, test := range []struct {
		b    identity
		want bool
	}{
		{identity{1, 2, 3}, true},
		{identity{9, 2, 3}, true},  // the machine was started again
		{identity{1, 2, 4}, false}, // the inode was used again
		{identity{1, 3, 3}, false},
	} {
		if got := a.same(test.b); got != test.want {
			t.Errorf("%v.same(%v) = %v", a, test.b, got)
		}
	}
	if (identity{Dev: 1, Ino: 2}).same(identity{Dev: 9, Ino: 2}) {
		t.Error("without a time of birth another device is the same")
	}
}

// TestResolveWhileMade: a folder that comes up between two looks is no error. Two first jp in a
// workspace make it at once.
func TestResolveWhileMade(t *testing.T) {
	top := t.TempDir()
	for i := range 200 {
		dir := filepath.Join(top, strconv.Itoa(i), "a", "b")
		made := make(chan error, 1)
		go func() { made <- os.MkdirAll(dir, 0o700) }()
		full, _, err := resolve(dir)
		if err != nil || full != dir {
			t.Errorf("resolve = %q, %v; want %q", full, err, dir)
		}
		if err := <-made; err != nil {
			t.Fatal(err)
		}
	}
}

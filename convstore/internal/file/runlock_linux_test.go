package file

import (
	"os"
	"strings"
	"testing"
)

// TestHeir: a run lock is held until the process that took it and its heir have ended, and
// neighbours in the same descriptor are not touched.
func TestHeir(t *testing.T) {
	dir := t.TempDir()
	open := func() *Folder {
		f, err := Open(dir, Options{})
		if err != nil {
			t.Fatal(err)
		}
		return &f
	}
	ours, theirs := open(), open() // as two processes
	locks := map[int64]*RunLock{}
	for id := int64(10); id < 13; id++ {
		lock, err := ours.TakeRun(id)
		if err != nil {
			t.Fatal(err)
		}
		locks[id] = lock
	}
	if _, err := ours.TakeRun(11); err == nil {
		t.Error("taken twice by one process")
	}
	check := func(want ...int64) {
		t.Helper()
		probe, err := theirs.ProbeRuns()
		if err != nil {
			t.Fatal(err)
		}
		defer probe.Close()
		held, err := probe.All()
		if err != nil || len(held) != len(want) {
			t.Fatalf("held: %d, %v, want %d", held, err, want)
		}
		for _, id := range want {
			if _, err := theirs.TakeRun(id); err == nil {
				t.Errorf("%d is held and was taken", id)
			}
			if who := theirs.RunHolder(id); !strings.Contains(who, "process ") {
				t.Errorf("%d is held by %q", id, who)
			}
		}
	}
	check(10, 11, 12)
	heir, err := locks[11].Heir()
	if err != nil {
		t.Fatal(err)
	}
	check(10, 11, 12)
	if err := locks[11].Drop(); err != nil {
		t.Fatal(err)
	}
	check(10, 11, 12)
	if _, err := locks[11].Heir(); err != os.ErrClosed {
		t.Errorf("heir of a lock that was dropped: %v", err)
	}
	if err := heir.Close(); err != nil {
		t.Fatal(err)
	}
	check(10, 12)
	again, err := theirs.TakeRun(11)
	if err != nil {
		t.Fatal(err)
	}
	if err := locks[11].Leave(); err != nil { // it has nothing any more
		t.Fatal(err)
	}
	check(10, 12, 11)
	for _, lock := range []*RunLock{again, locks[10], locks[12]} {
		if err := lock.Drop(); err != nil {
			t.Fatal(err)
		}
	}
	check()
}

package convstore

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
)

// TestDescriptorsOfRuns: a process that keeps sub-agents has one descriptor for all their run
// locks, and one for all their slots. For each one more all locks would be looked through at each
// exec.
func TestDescriptorsOfRuns(t *testing.T) {
	const children = 3
	dir := filepath.Join(memoryDir(t), "store")
	s := openStoreIn(t, dir, Options{})
	root := mustLock(t, s, mustCreate(t, s, New{}).ID)
	mustAppend(t, root, TurnStart{}, UserMessage{Text: "go"})
	slots := root.Below().Slots(root.ID(), children)
	before := descriptors(t, dir)
	for n := range children {
		rs, err := root.Below().Reserve(t.Context(), admit(Child{Call: fmt.Sprint(n), Title: "child"}))
		if err != nil {
			t.Fatal(err)
		}
		log, err := root.Below().Log(t.Context(), rs[0])
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = log.Close() })
		mustTake(t, slots)
	}
	if got := descriptors(t, dir) - before; got != 1 {
		t.Errorf("%d sub-agents have %d more descriptors in the store, want 1", children, got)
	}
}

// descriptors returns how many descriptors of this process are files of a folder.
func descriptors(t *testing.T, dir string) (n int) {
	t.Helper()
	links, err := filepath.Glob("/proc/self/fd/*")
	if err != nil || len(links) == 0 {
		t.Fatalf("no descriptors: %v", err)
	}
	for _, link := range links {
		if to, _ := os.Readlink(link); filepath.Dir(to) == dir {
			n++
		}
	}
	return n
}

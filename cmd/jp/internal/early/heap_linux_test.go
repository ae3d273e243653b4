package early

import (
	"bytes"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// TestLargePages: a part of the heap of this process may have large pages.
func TestLargePages(t *testing.T) {
	if _, err := os.Stat("/sys/kernel/mm/transparent_hugepage"); err != nil {
		t.Skip("the kernel has no large pages:", err)
	}
	maps, err := os.ReadFile("/proc/self/smaps")
	if err != nil {
		t.Fatal(err)
	}
	for line := range bytes.Lines(maps) {
		if flags, ok := bytes.CutPrefix(line, []byte("VmFlags:")); ok && strings.Contains(string(flags), " hg") {
			return
		}
	}
	t.Errorf("no mapping has asked for large pages:\n%s", maps)
}

// TestNoLargePagesInSubAgents: the heap of a process that package proc started as a sub-agent has
// none. The tests of proc have the same name of its variable.
func TestNoLargePagesInSubAgents(t *testing.T) {
	cmd := exec.Command("/proc/self/exe", "-test.run=^TestLargePages$", "-test.v")
	cmd.Env = append(os.Environ(), "JP_PROC=death=3")
	if out, err := cmd.CombinedOutput(); !strings.Contains(string(out), "no mapping has asked") && !strings.Contains(string(out), "SKIP") {
		t.Errorf("%v\n%s", err, out)
	}
}

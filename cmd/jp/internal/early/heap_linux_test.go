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

// TestLargePagesInSubAgents: the heap of a process that package proc started as a sub-agent has
// them if it is one of few. The tests of proc have the same names of its variables.
func TestLargePagesInSubAgents(t *testing.T) {
	for want, environ := range map[string][]string{
		"no mapping has asked": {"JP_PROC=death=3"},
		"--- PASS":             {"JP_PROC=death=3", "JP_LARGE_PAGES=1"},
	} {
		cmd := exec.Command("/proc/self/exe", "-test.run=^TestLargePages$", "-test.v")
		cmd.Env = append(os.Environ(), environ...)
		if out, err := cmd.CombinedOutput(); !strings.Contains(string(out), want) && !strings.Contains(string(out), "SKIP") {
			t.Errorf("%q: %v\n%s", environ, err, out)
		}
	}
}

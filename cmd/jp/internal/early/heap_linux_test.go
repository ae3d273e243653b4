package early

import (
	"bytes"
	"os"
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

package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// reads is what a process took to read files: calls and bytes, and pages that it touched first. Of
// a file that is mapped, as bbolt does, a page that is touched brings those beside it, up to 64
// KiB.
type reads struct{ calls, bytes, faults int64 }

// reads runs jp three times and returns the least of each.
func (s *site) reads(args ...string) reads {
	s.t.Helper()
	fields := regexp.MustCompile(`rchar: (\d+)\n.*\nsyscr: (\d+)\n`)
	now := func() (bytes, calls int64) { // of this process and of all for which it has waited
		text, err := os.ReadFile("/proc/self/io")
		if err != nil {
			s.t.Skipf("the kernel counts no reads: %v", err)
		}
		n := fields.FindSubmatch(text)
		bytes, _ = strconv.ParseInt(string(n[1]), 10, 64)
		calls, _ = strconv.ParseInt(string(n[2]), 10, 64)
		return bytes, calls
	}
	var least reads
	for i := range 3 {
		cmd := &exec.Cmd{Path: "/proc/self/exe", Args: append([]string{"jp"}, args...), Dir: s.dir, Env: s.environ()}
		bytes, calls := now()
		out, err := cmd.CombinedOutput()
		read, called := now()
		if code := cmd.ProcessState.ExitCode(); code != 0 && args[1] != "grep" {
			s.t.Fatalf("jp %s: %v\n%s", strings.Join(args, " "), err, out)
		}
		n := reads{called - calls, read - bytes, cmd.ProcessState.SysUsage().(*syscall.Rusage).Minflt}
		if i == 0 {
			least = n
		}
		least = reads{min(least.calls, n.calls), min(least.bytes, n.bytes), min(least.faults, n.faults)}
	}
	return least
}

// TestReads: what a command for one conversation reads does not grow with the store, but for its
// branches, which each process checks: a hundredth of it. A command that looks into all
// conversations shows that reading more would be seen.
func TestReads(t *testing.T) {
	s := newSite(t, map[string]string{
		".jp/config.toml": "[assistant]\nmodel = \"script/m.toml\"\n",
		"m.toml":          "[[rule]]\ntext = \"answer\"\n",
	})
	commands := [][]string{
		{"query", "--new", "plain"}, {"c", "ls", "--limit", "50"}, {"c", "show", "recent"}, {"c", "print", "recent", "--last"}, {"c", "grep", "nothing"},
	}
	small := make([]reads, len(commands))
	for i, args := range commands {
		small[i] = s.reads(args...)
	}
	if _, err := fill(filepath.Dir(s.store.Path()), s.dir, 200, 9); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(s.store.Path())
	if err != nil {
		t.Fatal(err)
	}
	most := reads{calls: info.Size() / int64(os.Getpagesize()) / 30, bytes: info.Size() / 30, faults: info.Size() >> 16 / 4}
	for i, args := range commands {
		n := s.reads(args...)
		n = reads{n.calls - small[i].calls, n.bytes - small[i].bytes, n.faults - small[i].faults}
		if got, want := n.calls > most.calls || n.bytes > most.bytes || n.faults > most.faults, args[1] == "grep"; got != want {
			t.Errorf("jp %s: %+v more than in a small store; want at most %+v: %t", strings.Join(args, " "), n, most, !want)
		}
	}
}

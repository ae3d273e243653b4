package proc

import (
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"
)

// descriptors returns what this process has open.
func descriptors(t testing.TB) (open []string) {
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		to, err := os.Readlink("/proc/self/fd/" + e.Name())
		if err == nil {
			open = append(open, e.Name()+" "+to)
		}
	}
	return open
}

// goroutines returns the stacks of those that run code of this package.
func goroutines() (stacks []string) {
	buf := make([]byte, 1<<20)
	for s := range strings.SplitSeq(string(buf[:runtime.Stack(buf, true)]), "\n\n") {
		if strings.Contains(s, "jp/tools/proc.") {
			stacks = append(stacks, s)
		}
	}
	return stacks
}

// A command is a program started without this package, as a shell starts jp.
type command struct {
	Args  []string
	Env   []string
	Dir   string
	Extra *os.File // inherited as descriptor 3
}

func (c *command) output() (string, error) {
	path, err := exec.LookPath(c.Args[0])
	if err != nil {
		return "", err
	}
	cmd := &exec.Cmd{Path: path, Args: c.Args, Env: c.Env, Dir: c.Dir, Stdin: strings.NewReader("typed ahead")}
	if c.Extra != nil {
		cmd.ExtraFiles = []*os.File{c.Extra}
	}
	out, err := cmd.Output()
	return string(out), err
}

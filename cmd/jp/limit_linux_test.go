package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"jp/convstore"
)

// TestWaitLimit: a run waits for a reset as long as it was allowed to, in its sub-agents too, whose
// time is longer by as much. Ctrl-C ends the wait, and what is said then names the same limit.
func TestWaitLimit(t *testing.T) {
	s := newSite(t, map[string]string{
		".jp/config.toml":             "[assistant]\nmodel = \"script/late.toml\"\n",
		".jp/config/agent/child.toml": "[loader]\nreset = \"none\"\n[assistant]\nmodel = \"script/late.toml\"\n",
		"late.toml":                   "[[rule]]\nerror = { kind = \"quota\", status = 402, retry_after = \"50m\", message = \"used up\" }\n",
	})
	stopped := func(says string, argv ...string) string {
		t.Helper()
		path := filepath.Join(t.TempDir(), "out")
		file, err := os.Create(path)
		if err != nil {
			t.Fatal(err)
		}
		defer file.Close()
		cmd := &exec.Cmd{Path: "/proc/self/exe", Args: append([]string{"jp"}, argv...), Dir: s.dir, Env: s.environ(), Stdin: strings.NewReader("\"go\"\n"), Stdout: file, Stderr: file}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		read := func() string {
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			return string(text)
		}
		s.eventually("the wait", func() bool { return strings.Contains(read(), says) })
		if err := cmd.Process.Signal(syscall.SIGINT); err != nil {
			t.Fatal(err)
		}
		_ = cmd.Wait()
		if got := cmd.ProcessState.ExitCode(); got != 130 {
			t.Errorf("%v: exit = %d, want 130\n%s", argv, got, read())
		}
		if p := s.processes(); len(p) != 0 {
			t.Errorf("left when jp had ended: %v", p)
		}
		return read()
	}
	if out := stopped("trying again in 5", "query", "--new", "--wait-limit", "2h", "go"); !strings.Contains(out, " --wait-limit 2h0m0s") {
		t.Errorf("the hint does not name the limit: %s", out)
	}
	if out := stopped("waiting: quota until ", "batch", "-c", "agent/child", "--wait-limit", "2h"); !strings.Contains(out, `"status":"cancelled"`) ||
		!strings.Contains(out, "jp batch -c agent/child --wait-limit 2h --resume jp-c") {
		t.Errorf("batch = %s", out)
	}
	ds, err := s.store.Delegations(t.Context(), s.subAgents()[0].Parent)
	if err != nil || len(ds) != 1 || ds[0].Grant.Timeout != 2*time.Hour+10*time.Minute || ds[0].State != convstore.StateCancelled {
		t.Errorf("delegations = %s, %v", dump(ds), err)
	}
}

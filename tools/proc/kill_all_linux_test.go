package proc

import (
	"bufio"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// TestKillAll: what a tool has started is killed at once, wherever it went, and nothing else is.
func TestKillAll(t *testing.T) {
	keeps := landlockABI() >= scopeLandlock
	script := "setsid sleep 60 & (setsid sleep 60 &) & echo started; wait; sleep 60"
	if !keeps {
		script = "echo started"
	}
	other := exec.Command("sleep", "60")
	if err := other.Start(); err != nil {
		t.Fatal(err)
	}
	tool := exec.Command("sh", "-c", script)
	tool.Stderr = os.Stderr
	out, err := tool.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	ok, killAll, err := confinement{Confine: Confine{Exec: []string{"/"}}}.inside(func() bool { return tool.Start() == nil })
	if !ok || (killAll != nil) != keeps || err != nil {
		t.Fatalf("inside = %v, %v, %v", ok, killAll != nil, err)
	}
	lines := bufio.NewReader(out)
	if line, err := lines.ReadString('\n'); line != "started\n" {
		t.Fatalf("the tool says %q, %v", line, err)
	}
	if keeps {
		killAll()
	}
	if rest, err := io.ReadAll(lines); len(rest) > 0 || err != nil { // no process has it open any more
		t.Errorf("then it says %q, %v", rest, err)
	}
	if err := tool.Wait(); keeps && (err == nil || !strings.Contains(err.Error(), "killed")) {
		t.Errorf("the tool ended: %v", err)
	}
	if err := other.Process.Kill(); err != nil {
		t.Errorf("a process outside was hit: %v", err)
	}
	_ = other.Wait()
}

// TestKeepsSignals: a thread that is not confined proves nothing. Nor does a process that is gone, or
// one that nobody could signal before.
func TestKeepsSignals(t *testing.T) {
	gone := exec.Command("true")
	if err := gone.Run(); err != nil {
		t.Fatal(err)
	}
	for _, pid := range []int{os.Getppid(), gone.Process.Pid, unix.Getpid()} {
		if keepsSignals(pid)() {
			t.Errorf("signals to %d are kept inside", pid)
		}
	}
}

// TestCollectTool: a guard sees that its tool has ended, although orphans of the tool end all the
// time. The kernel gives those first: the tool is a child of another thread.
func TestCollectTool(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	start := func() int {
		p, err := os.StartProcess("/bin/true", []string{"true"}, &os.ProcAttr{})
		if err != nil {
			t.Error(err)
			return 0
		}
		defer func() { _ = p.Release() }()
		for unix.Waitid(unix.P_PID, p.Pid, nil, unix.WEXITED|unix.WNOWAIT, nil) == unix.EINTR {
		}
		return p.Pid
	}
	var orphans []int
	for range 3 {
		orphans = append(orphans, start())
	}
	tool := make(chan int)
	go func() {
		runtime.LockOSThread() // the thread ends with this, and its children go to another one
		tool <- start()
		<-tool
	}()
	k := &keeper{tool: <-tool}
	if k.collect(2); !k.done {
		t.Error("the tool was not collected")
	}
	tool <- 0
	for _, pid := range orphans {
		_, _ = unix.Wait4(pid, nil, 0, nil)
	}
}

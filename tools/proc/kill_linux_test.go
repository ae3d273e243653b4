package proc

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// A jp is a test binary that runs as "tree", in a session of its own as under a shell whose
// terminal is elsewhere.
type jp struct {
	*exec.Cmd
	out   *bufio.Reader
	ended chan struct{}
	code  int // after ended, -1 for a signal
}

// startJP starts a jp with depth agents in a chain below it, the last of which runs script as a
// tool.
func startJP(t *testing.T, env []string, depth int, script string, terminal *os.File, who *syscall.Credential) *jp {
	t.Helper()
	j := &jp{ended: make(chan struct{})}
	j.Cmd = &exec.Cmd{Path: Self(), Args: []string{"jp", "as-tree", fmt.Sprint(depth), script}, Env: env}
	j.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Credential: who}
	if terminal != nil {
		j.Stdin = terminal
		j.SysProcAttr.Setctty = true
	}
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	j.Stdout = w
	if err := j.Start(); err != nil {
		t.Fatal(err)
	}
	w.Close()
	j.out = bufio.NewReader(r)
	go func() {
		_ = j.Wait()
		j.code = j.ProcessState.ExitCode()
		close(j.ended)
	}()
	t.Cleanup(func() {
		_ = j.Process.Kill()
		<-j.ended
		r.Close()
	})
	return j
}

// readLine waits for a line of the output.
func (j *jp) readLine(t *testing.T, want string) {
	t.Helper()
	for {
		line, err := j.out.ReadString('\n')
		if line == want+"\n" {
			return
		}
		if err != nil {
			t.Fatalf("output ended before %q: %q, %v", want, line, err)
		}
	}
}

// end waits for the end and returns the exit status and the rest of the output.
func (j *jp) end() (code int, rest string) {
	b, _ := io.ReadAll(j.out)
	<-j.ended
	return j.code, string(b)
}

// settled starts a jp and waits until its tool says "ready" and sleepers of the tool's children
// run. It returns the whole tree: first the jps from the top, then guard, then the rest.
func settled(t *testing.T, depth int, script string, sleepers int, terminal *os.File) (j *jp, tree []process, entry string) {
	t.Helper()
	env, entry := mark(t)
	j = startJP(t, env, depth, script, terminal, nil)
	j.readLine(t, "ready")
	wait(t, "the tool's children", func() bool {
		n := 0
		tree = below(t, j.Process.Pid)
		for _, p := range tree {
			if p.name == "sleep" {
				n++
			}
			if b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", p.pid)); strings.HasSuffix(string(b), "as-daemon\x000\x00") {
				n++
			}
		}
		return n == sleepers
	})
	return j, tree, entry
}

// guards returns the guards among ps, jps the other jps, from the top.
func guards(ps []process) (guards, jps []process) {
	for _, p := range ps {
		switch b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", p.pid)); {
		case string(b) == "toolguard\x00__guard\x00":
			guards = append(guards, p)
		case strings.HasPrefix(string(b), "jp\x00as-tree\x00"):
			jps = append(jps, p)
		}
	}
	return guards, jps
}

// hard is a tool that leaves nothing undone to stay: it ignores all signals and has children in its
// group, in a session of their own, and a daemon.
func hard() string {
	return "trap '' INT TERM HUP QUIT; " + stayers() + "echo ready; while :; do sleep 1000; done"
}

const hardSleepers = staying + 1

// TestKillOne kills one process of a tree with SIGKILL, each in turn, and expects that nothing of
// the tool is left. Where the root survives it says so.
func TestKillOne(t *testing.T) {
	for depth := range 3 {
		for victim := range depth + 2 { // the jps, then the guard
			t.Run(fmt.Sprintf("depth %d victim %d", depth, victim), func(t *testing.T) {
				j, tree, entry := settled(t, depth, hard(), hardSleepers, nil)
				g, jps := guards(tree)
				if len(g) != 1 || len(jps) != depth+1 {
					t.Fatalf("tree %v: guards %v, jps %v, want 1 and %d", tree, g, jps, depth+1)
				}
				kill(append(jps, g...)[victim].pid, syscall.SIGKILL)
				waitGone(t, tree, entry)
				code, rest := j.end()
				switch {
				case victim == 0 && code != -1, victim == depth+1 && depth == 0 && !strings.Contains(rest, "stopped: guard: ended without a report\n"):
					t.Errorf("root: status %d, said %q", code, rest)
				}
			})
		}
	}
}

// TestKillStoppedGuard kills a jp whose guard was stopped.
func TestKillStoppedGuard(t *testing.T) {
	_, tree, entry := settled(t, 0, "kill -STOP $PPID; "+hard(), hardSleepers, nil)
	_, jps := guards(tree)
	kill(jps[0].pid, syscall.SIGKILL)
	waitGone(t, tree, entry)
}

// TestGuardRemovesTmp ends a tool while its jp is stopped, which may be killed then.
func TestGuardRemovesTmp(t *testing.T) {
	whole(t)
	env, entry := mark(t)
	base := t.TempDir()
	j := startJP(t, append(env, "JP_TEST_CONFINE=1", "TMPDIR="+base), 0, "echo x >$TMPDIR/file; echo ready; sleep 1000; :", nil, nil)
	j.readLine(t, "ready")
	tree := below(t, j.Process.Pid)
	kill(j.Process.Pid, syscall.SIGSTOP)
	for _, p := range tree {
		if p.name == "sh" {
			kill(p.pid, syscall.SIGKILL)
		}
	}
	wait(t, "the end of the folder", func() bool {
		left, err := os.ReadDir(base)
		return err == nil && len(left) == 0
	})
	_ = j.Process.Kill()
	waitGone(t, tree, entry)
}

// TestMemoryShort: the kernel ends a confined tool, with all that it starts, before its guard and the
// jp, whoever has more memory. Otherwise many small processes outlive both. The user need not be root.
func TestMemoryShort(t *testing.T) {
	whole(t)
	env, entry := mark(t)
	j := startJP(t, append(env, "JP_TEST_CONFINE=1"), 0, "sleep 1000 & echo ready; wait", nil, nobody(t))
	j.readLine(t, "ready")
	var tree []process
	wait(t, "sleep", func() bool {
		tree = below(t, j.Process.Pid)
		return slices.ContainsFunc(tree, func(p process) bool { return p.name == "sleep" })
	})
	score := func(pid int) int {
		b, err := os.ReadFile(fmt.Sprintf("/proc/%d/oom_score_adj", pid))
		n, bad := strconv.Atoi(strings.TrimSpace(string(b)))
		if err != nil || bad != nil {
			t.Fatal(err, bad)
		}
		return n
	}
	own := score(os.Getpid())
	for _, p := range tree {
		want := own
		if p.name == "sh" || p.name == "sleep" {
			want = min(own+200, 1000)
		}
		wait(t, fmt.Sprintf("%s has the score %d", p.name, want), func() bool { return score(p.pid) == want }) // the guard's is higher while it starts the tool
	}
	_ = j.Process.Kill()
	waitGone(t, tree, entry)
}

// TestGuardStillRemoves: a call that is stopped does not wait for a guard that has ended its tool and
// has very much to remove, and nobody ends that guard. The program here is such a guard.
func TestGuardStillRemoves(t *testing.T) {
	dir := t.TempDir()
	script := "#!/bin/sh\necho $$ >" + dir + "/pid\nprintf 'launch\nstarted 1\nexit 0 0\nempty\n' >&2\nexec sleep 1000\n"
	if err := os.WriteFile(filepath.Join(dir, "guard"), []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	h := NewHost(Options{Grace: time.Millisecond})
	h.self = filepath.Join(dir, "guard")
	ctx, cancel := context.WithCancelCause(t.Context())
	enough := errors.New("enough")
	spec := Spec{Path: "/bin/true", Env: []string{"TMPDIR=" + dir}, Confine: &Confine{TmpDir: true}, Started: func(int) { cancel(enough) }}
	exit, err := h.Run(ctx, spec)
	if exit.Code != 0 || exit.Cause != enough || err != nil {
		t.Errorf("Run = %+v, %v, want that it was stopped and no error", exit, err)
	}
	b, err := os.ReadFile(filepath.Join(dir, "pid"))
	if err != nil {
		t.Fatal(err)
	}
	guard, _ := strconv.Atoi(strings.TrimSpace(string(b)))
	if err := syscall.Kill(guard, syscall.SIGKILL); err != nil {
		t.Errorf("the guard was not left in peace: %v", err)
	}
	wait(t, "the folder is removed", func() bool {
		left, err := filepath.Glob(filepath.Join(dir, "jp-tool-*"))
		return len(left) == 0 && err == nil
	})
}

// TestKillIdleGuards kills a jp that has guards without a tool, as one has that is killed between
// the two.
func TestKillIdleGuards(t *testing.T) {
	env, entry := mark(t)
	j := startJP(t, append(env, "JP_TEST_IDLE=2"), 0, "echo ready; sleep 1000", nil, nil)
	j.readLine(t, "ready")
	var tree []process
	wait(t, "three guards", func() bool {
		tree = below(t, j.Process.Pid)
		g, _ := guards(tree)
		return len(g) == 3
	})
	_ = j.Process.Kill()
	waitGone(t, tree, entry)
}

// TestOtherNamespace starts a jp that sees a /proc which is not its own.
func TestOtherNamespace(t *testing.T) {
	env, _ := mark(t)
	cmd := &exec.Cmd{Path: Self(), Args: []string{"jp", "as-tree", "0", "exit 0"}, Env: env}
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWPID}
	out, err := cmd.Output()
	if errors.Is(err, syscall.EPERM) {
		t.Skip("needs root, to make a PID namespace")
	}
	if want := "error: /bin/sh: process trees need /proc: this one is of another PID namespace, where process 1 is "; !strings.HasPrefix(string(out), want) {
		t.Errorf("jp said %q, %v, want %q", out, err, want)
	}
}

// TestSignals sends the root one signal; the tool may settle.
func TestSignals(t *testing.T) {
	for _, sig := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP} {
		for depth := range 3 {
			t.Run(fmt.Sprintf("%v depth %d", sig, depth), func(t *testing.T) {
				j, tree, entry := settled(t, depth, stayers()+"exec "+self("settle")+" 3", staying, nil)
				kill(j.Process.Pid, sig)
				j.readLine(t, "settled")
				code, rest := j.end()
				if left := marked(t, entry); len(left) > 0 {
					t.Errorf("running after the root has ended: %v", left)
				}
				if want := fmt.Sprintf("stopped: got %v\n", sig); code != 130 || !strings.HasSuffix(rest, want) {
					t.Errorf("root: status %d, said %q, want 130 and %q", code, rest, want)
				}
				waitGone(t, tree, entry)
			})
		}
	}
}

// TestSecondSignal kills at the second signal what ignored the first.
func TestSecondSignal(t *testing.T) {
	for depth := range 3 {
		t.Run(fmt.Sprint("depth ", depth), func(t *testing.T) {
			j, tree, entry := settled(t, depth, hard(), hardSleepers, nil)
			kill(j.Process.Pid, syscall.SIGINT)
			kill(j.Process.Pid, syscall.SIGTERM)
			if code, rest := j.end(); code != 130 {
				t.Errorf("root: status %d, said %q, want 130", code, rest)
			}
			if left := marked(t, entry); len(left) > 0 {
				t.Errorf("running after the root has ended: %v", left)
			}
			waitGone(t, tree, entry)
		})
	}
}

// TestTerminal presses Ctrl-C on a real terminal, and closes it.
func TestTerminal(t *testing.T) {
	for _, tt := range []struct {
		name string
		act  func(master *os.File)
		want string
	}{
		{"Ctrl-C", func(m *os.File) { _, _ = m.WriteString("\x03") }, "stopped: got interrupt\n"},
		{"close", func(m *os.File) { m.Close() }, "stopped: got hangup\n"},
	} {
		for depth := range 2 {
			t.Run(fmt.Sprintf("%s depth %d", tt.name, depth), func(t *testing.T) {
				master, slave := terminal(t)
				j, tree, entry := settled(t, depth, "(: </dev/tty) 2>/dev/null && echo terminal; "+stayers()+"exec "+self("settle")+" 3", staying, slave)
				tt.act(master)
				code, rest := j.end()
				if code != 130 || !strings.HasSuffix(rest, tt.want) || strings.Contains(rest, "terminal") {
					t.Errorf("root: status %d, said %q, want 130 and %q", code, rest, tt.want)
				}
				waitGone(t, tree, entry)
			})
		}
	}
}

// terminal returns the two sides of a new terminal.
func terminal(t *testing.T) (master, slave *os.File) {
	t.Helper()
	fd, err := unix.Open("/dev/ptmx", unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Skipf("no terminals here: %v", err)
	}
	master = os.NewFile(uintptr(fd), "ptmx")
	t.Cleanup(func() { master.Close() })
	unlock := 0
	if _, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), unix.TIOCSPTLCK, uintptr(unsafe.Pointer(&unlock))); errno != 0 {
		t.Fatal(errno)
	}
	n, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	slave, err = os.OpenFile(fmt.Sprint("/dev/pts/", n), os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { slave.Close() })
	return master, slave
}

// TestJobsOfTheShell starts a jp by exec in a shell that has a job in the background: a child of
// jp's that is none of its business.
func TestJobsOfTheShell(t *testing.T) {
	env, entry := mark(t)
	cmd := &command{Args: []string{"sh", "-c", "sleep 1000 >/dev/null 2>&1 & echo $!; exec " + self("tree") + " 1 'sleep 1000 & kill -9 $PPID'"}, Env: env}
	out, err := cmd.output()
	first, _, _ := strings.Cut(out, "\n")
	pid, _ := strconv.Atoi(first)
	if err == nil || pid == 0 || !strings.Contains(out, "stopped: guard: ended without a report") {
		t.Errorf("jp said %q, %v", out, err)
	}
	left := marked(t, entry)
	if len(left) != 1 || left[0].pid != pid {
		t.Errorf("left %v, want only the job %d", left, pid)
	}
	if pid > 0 {
		kill(pid, syscall.SIGKILL)
	}
	waitGone(t, nil, entry)
}

// TestAgentWithoutParent has an agent that never stops by itself lose its parent.
func TestAgentWithoutParent(t *testing.T) {
	env, entry := mark(t)
	outer := &exec.Cmd{Path: Self(), Args: []string{"jp", "as-parent"}, Env: env, SysProcAttr: &syscall.SysProcAttr{Setsid: true}}
	stdout, err := outer.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := outer.Start(); err != nil {
		t.Fatal(err)
	}
	if line, err := bufio.NewReader(stdout).ReadString('\n'); line != "ready\n" {
		t.Fatalf("agent said %q, %v", line, err)
	}
	tree := below(t, outer.Process.Pid)
	if len(tree) != 2 {
		t.Fatalf("tree %v: want parent and agent", tree)
	}
	start := time.Now()
	_ = outer.Process.Kill()
	_ = outer.Wait()
	waitGone(t, tree, entry)
	t.Log(time.Since(start))
}

// TestKillByName kills every jp of a tree at the same moment, as "pkill -9 jp" does.
func TestKillByName(t *testing.T) {
	for _, depth := range []int{0, 2} {
		j, tree, entry := settled(t, depth, hard(), staying+1, nil)
		guards, jps := guards(tree)
		if len(guards) != 1 || len(jps) != depth+1 {
			t.Fatalf("guards %v, jps %v of %v", guards, jps, tree)
		}
		if strings.Contains(guards[0].name, "jp") {
			t.Errorf("the guard is called %s", guards[0].name)
		}
		for _, p := range jps {
			kill(p.pid, syscall.SIGKILL)
		}
		j.end()
		waitGone(t, tree, entry)
	}
}

// TestKillWithGuard kills the jp and the guard at once: at least the tool's first process ends.
func TestKillWithGuard(t *testing.T) {
	whole(t)
	for _, confined := range []string{"", "JP_TEST_CONFINE=1"} {
		env, entry := mark(t)
		j := startJP(t, append(env, confined), 0, "echo ready; exec sleep 1000", nil, nil)
		j.readLine(t, "ready")
		tree := below(t, j.Process.Pid)
		guards, jps := guards(tree)
		for _, p := range append(jps, guards...) {
			kill(p.pid, syscall.SIGSTOP)
		}
		for _, p := range append(jps, guards...) {
			kill(p.pid, syscall.SIGKILL)
		}
		j.end()
		waitGone(t, tree, entry)
	}
}

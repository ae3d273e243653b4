package proc

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// The test binary is every program of these tests: a guard, a jp with a tree below it, a tool that
// misbehaves. The first argument says which program it is.
func TestMain(m *testing.M) {
	Guard(os.Args)
	if len(os.Args) > 1 {
		if program, ok := programs[strings.TrimPrefix(os.Args[1], "as-")]; ok && strings.HasPrefix(os.Args[1], "as-") {
			os.Exit(program(os.Args[2:]))
		}
	}
	os.Exit(m.Run())
}

var programs = map[string]func(args []string) int{
	"tree":   tree,
	"daemon": daemon,
	"noop":   func([]string) int { return 0 },
	"given":  given,
	"gone":   gone,
	"parent": parent,
	"poor":   poor,
	"narrow": narrow,
	"crowd":  crowd,
	"squat":  squat,
	"settle": settle,
	"probe":  probe,
	"blind":  blind,
	"starve": starve, "conceal": conceal,
	"bury": bury, "launch": launch,
}

// tree is a jp: "tree N SCRIPT" has N agents in a chain below it, the last of which runs the script
// as a tool. It stops at the first signal, kills at the second, and exits 130 when it was stopped,
// else as what it ran.
func tree(args []string) int {
	in, err := Inherit()
	if err != nil {
		return complain(err)
	}
	ctx, cancel := context.WithCancelCause(context.Background())
	in.Watch(func() { cancel(errors.New("parent gone")) })
	h := NewHost(Options{})
	idle, _ := strconv.Atoi(os.Getenv("JP_TEST_IDLE"))
	for range idle {
		if err := family.arm(); err != nil {
			return complain(err)
		}
		if _, err := h.newGuard(); err != nil {
			return complain(err)
		}
	}
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	go func() {
		cancel(fmt.Errorf("got %v", <-signals))
		<-signals
		h.Kill()
	}()
	depth, err := strconv.Atoi(args[0])
	if err != nil {
		return complain(err)
	}
	spec := Spec{Env: os.Environ(), Stdout: os.Stdout, Stderr: os.Stderr, Path: "/bin/sh", Args: []string{"sh", "-c", args[1]}}
	if os.Getenv("JP_TEST_CONFINE") != "" {
		c := System()
		c.TmpDir = os.Getenv("TMPDIR") != ""
		spec.Confine = &c
	}
	if depth > 0 {
		spec.Kind, spec.Path = Agent, Self()
		spec.Args = []string{"jp", "as-tree", strconv.Itoa(depth - 1), args[1]}
	}
	exit, err := h.Run(ctx, spec)
	if err := errors.Join(err, h.Close()); err != nil {
		return complain(err)
	}
	if exit.Cause != nil {
		fmt.Println("stopped:", exit.Cause)
		return 130
	}
	return exit.Code
}

func complain(err error) int {
	fmt.Println("error:", err)
	return 70
}

// daemon leaves its parent as daemons do: it forks, takes a session, forks again, closes its
// streams, and stays.
func daemon(args []string) int {
	if len(args) == 0 {
		args = []string{"2"}
	}
	if args[0] == "0" {
		for fd := range 3 {
			closeFD(fd)
		}
		time.Sleep(time.Hour)
	}
	n, _ := strconv.Atoi(args[0])
	_, err := syscall.ForkExec(Self(), []string{"jp", "as-daemon", strconv.Itoa(n - 1)}, &syscall.ProcAttr{
		Env: os.Environ(), Files: []uintptr{0, 1, 2}, Sys: &syscall.SysProcAttr{Setsid: n == 2},
	})
	if err != nil {
		return complain(err)
	}
	return 0
}

// settle is a tool that ends well when it is interrupted, with the status given. (A shell is none:
// dash loses a signal that comes while it forks.)
func settle(args []string) int {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGINT)
	fmt.Println("ready")
	if len(args) > 1 && args[1] == "stopped" {
		kill(os.Getpid(), syscall.SIGSTOP)
	}
	<-signals
	fmt.Println("settled")
	code, _ := strconv.Atoi(args[0])
	return code
}

// given is an agent that prints what it was given.
func given([]string) int {
	fds, _ := parseInherit(os.Getenv(inheritVar))
	in, err := Inherit()
	if err != nil {
		return complain(err)
	}
	death, end := in.Death != nil, in.Wire
	for range 3 { // a file that nobody has any more is closed
		runtime.GC()
		time.Sleep(time.Millisecond)
	}
	var lock, wire [100]byte
	locked, said := 0, 0
	if fd, ok := fds["lock"]; ok {
		locked, err = syscall.Pread(fd, lock[:], 0)
	}
	if end != nil && err == nil {
		said, err = end.Read(wire[:])
	}
	if err != nil {
		return complain(err)
	}
	_, again := os.LookupEnv(inheritVar)
	_, large := os.LookupEnv(largeVar)
	name, _ := os.ReadFile("/proc/self/comm")
	slack, err := unix.PrctlRetInt(unix.PR_GET_TIMERSLACK, 0, 0, 0, 0)
	if err != nil {
		return complain(err)
	}
	fmt.Printf("%s death=%t lock=%q wire=%q variable=%t large=%t slack=%d\n", bytes.TrimSpace(name), death, lock[:locked], wire[:said], again, large, slack)
	// What it starts has nothing of that.
	h := NewHost(Options{})
	var out bytes.Buffer
	script := "ls /proc/self/fd; cat /proc/$PPID/comm /proc/self/timerslack_ns" // comm is of its guard
	_, err = h.Run(context.Background(), Spec{Path: "/bin/sh", Args: []string{"sh", "-c", script}, Stdout: &out})
	if err := errors.Join(err, h.Close()); err != nil {
		return complain(err)
	}
	fmt.Printf("tool: %q\n", out.String())
	return 0
}

// gone is an agent whose parent dies at once and who never stops by itself.
func gone([]string) int {
	in, err := Inherit()
	if err != nil {
		return complain(err)
	}
	in.Watch(func() {})
	fmt.Println("ready")
	time.Sleep(time.Hour)
	return 0
}

// parent is a jp that runs gone.
func parent([]string) int {
	h := NewHost(Options{})
	_, err := h.Run(context.Background(), Spec{Kind: Agent, Args: []string{"jp", "as-gone"}, Env: os.Environ(), Stdout: os.Stdout})
	return complain(err) // it is killed before
}

// self returns a command line for sh that runs a program of this file.
func self(program string) string {
	exe, err := os.Executable()
	if err != nil {
		panic(err)
	}
	return "'" + exe + "' as-" + program
}

// mark returns an environment that is found again in everything below.
func mark(t testing.TB) (env []string, name string) {
	name = fmt.Sprintf("JP_TEST_MARK=%s-%d-%d", t.Name(), os.Getpid(), time.Now().UnixNano())
	env = Environ(os.Environ(), "PATH", "GOCOVERDIR", "GORACE=atexit_sleep_ms=0", name)
	t.Cleanup(func() {
		for _, p := range marked(t, name) {
			kill(p.pid, syscall.SIGKILL)
			t.Errorf("left running: %v", p)
		}
	})
	return env, name
}

// kill sends a signal to a process that may be gone already.
func kill(pid int, sig syscall.Signal) { _ = syscall.Kill(pid, sig) }

// A process is one that lives.
type process struct {
	pid   int
	start string // start time: a later process with the same number has another
	name  string
	state string // R, S, T, ...
}

func (p process) String() string { return fmt.Sprintf("%d (%s)", p.pid, p.name) }

// look returns the process pid and its parent; ok is false when it has ended.
func look(pid int) (p process, parent int, ok bool) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return process{}, 0, false
	}
	open, end := bytes.IndexByte(b, '('), bytes.LastIndexByte(b, ')')
	f := strings.Fields(string(b[end+1:]))
	parent, _ = strconv.Atoi(f[1])
	return process{pid: pid, start: f[19], name: string(b[open+1 : end]), state: f[0]}, parent, f[0] != "Z" && f[0] != "X"
}

// alive reports whether p still runs.
func (p process) alive() bool {
	now, _, ok := look(p.pid)
	return ok && now.start == p.start
}

// all returns every process that lives, and the parents.
func all(t testing.TB) (ps []process, parents map[int]int) {
	t.Helper()
	entries, err := os.ReadDir("/proc")
	if err != nil {
		t.Fatal(err)
	}
	parents = map[int]int{}
	for _, e := range entries {
		if pid, err := strconv.Atoi(e.Name()); err == nil {
			if p, parent, ok := look(pid); ok {
				ps = append(ps, p)
				parents[pid] = parent
			}
		}
	}
	return ps, parents
}

// marked returns the processes that have the entry in their environment.
func marked(t testing.TB, entry string) (found []process) {
	t.Helper()
	ps, _ := all(t)
	for _, p := range ps {
		b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/environ", p.pid))
		if bytes.Contains(append(b, 0), []byte(entry+"\x00")) {
			found = append(found, p)
		}
	}
	return found
}

// below returns the processes below pid, itself included.
func below(t testing.TB, pid int) (found []process) {
	t.Helper()
	ps, parents := all(t)
	for _, p := range ps {
		for at := p.pid; at > 0; at = parents[at] {
			if at == pid {
				found = append(found, p)
				break
			}
		}
	}
	return found
}

// wait returns when cond holds; it fails the test when that takes too long to be slowness.
func wait(t testing.TB, what string, cond func() bool) {
	t.Helper()
	for start := time.Now(); !cond(); time.Sleep(2 * time.Millisecond) {
		if time.Since(start) > 20*time.Second {
			t.Fatalf("waited in vain for: %s", what)
		}
	}
}

// waitGone waits until none of ps and nothing marked is left.
func waitGone(t testing.TB, ps []process, entry string) {
	t.Helper()
	var left []process
	for start := time.Now(); ; time.Sleep(2 * time.Millisecond) {
		left = nil
		for _, p := range ps {
			if p.alive() {
				left = append(left, p)
			}
		}
		if left = append(left, marked(t, entry)...); len(left) == 0 {
			t.Logf("gone after %v", time.Since(start).Round(time.Millisecond))
			return
		}
		if time.Since(start) > 20*time.Second {
			t.Fatalf("still running: %v", left)
		}
	}
}

// A shell's worth of tools that stay: in the group, in a session of its own, and a daemon. Each
// counts in the number of processes that stay.
func stayers() string {
	return "sleep 1000 & setsid sleep 1000 & " + self("daemon") + "; "
}

const staying = 3

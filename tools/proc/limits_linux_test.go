package proc

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"jp/tools/vanishing"
)

// poor is a jp of a user who may have only so many threads: "poor N SCRIPT".
func poor(args []string) int {
	n, err := strconv.ParseUint(args[0], 10, 32)
	if err != nil {
		return complain(err)
	}
	if err := unix.Setrlimit(unix.RLIMIT_NPROC, &unix.Rlimit{Cur: n, Max: n}); err != nil {
		return complain(err)
	}
	return tree([]string{"0", args[1]})
}

// narrow runs a tool with every small number of descriptors and says what happened: either the tool
// ran and left nothing, or it was not started.
func narrow([]string) int {
	h := NewHost(Options{})
	ran, refused := 0, 0
	for n := uint64(64); n > 3; n-- {
		// Of this process only: its children would raise a soft limit by themselves.
		if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: n, Max: 1024}); err != nil {
			return complain(err)
		}
		var out bytes.Buffer
		exit, err := h.Run(context.Background(), Spec{Path: "/bin/sh", Args: []string{"sh", "-c", "sleep 1000 & echo x; exit 3"}, Env: os.Environ(), Stdin: strings.NewReader("x"), Stdout: &out})
		switch {
		case err == nil && exit.Code == 3 && out.String() == "x\n":
			ran++
		case errors.Is(err, syscall.EMFILE) && exit.Code == -1 && out.Len() == 0:
			refused++
		default:
			return complain(fmt.Errorf("%d descriptors: %+v, %v, printed %q", n, exit, err, &out))
		}
	}
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: 1024, Max: 1024}); err != nil {
		return complain(err)
	}
	if err := h.Close(); err != nil {
		return complain(err)
	}
	fmt.Println(ran > 0, refused > 0)
	return 0
}

func TestFewDescriptors(t *testing.T) {
	env, entry := mark(t)
	cmd := &exec.Cmd{Path: Self(), Args: []string{"jp", "as-narrow"}, Env: env}
	if out, err := cmd.Output(); err != nil || string(out) != "true true\n" {
		t.Errorf("said %q, %v, want some runs and some refusals", out, err)
	}
	waitGone(t, nil, entry)
}

// nobody is a user without rights, which only root can become.
func nobody(t *testing.T) *syscall.Credential {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root, to become another user")
	}
	return &syscall.Credential{Uid: 65534, Gid: 65534}
}

// TestBombAtLimit runs a fork bomb that takes all the processes its user may have, jp and guard
// being of the same user.
func TestBombAtLimit(t *testing.T) {
	env, entry := mark(t)
	cmd := &exec.Cmd{
		Path: Self(), Args: []string{"jp", "as-poor", "150", "b() { b | b & }; b; sleep 0.2; exit 3"}, Env: env, Dir: "/",
		SysProcAttr: &syscall.SysProcAttr{Setsid: true, Credential: nobody(t)},
	}
	out, err := cmd.Output()
	if cmd.ProcessState.ExitCode() != 3 {
		t.Errorf("jp ended with %v, said %q", err, out)
	}
	if left := marked(t, entry); len(left) > 0 {
		t.Errorf("running after jp has ended: %v", left)
	}
	waitGone(t, nil, entry)
}

// crowd is a jp whose user has so many descriptors under way between processes that the kernel lets
// it hand over no more. It says what becomes of a tool then, and once there is room.
func crowd([]string) int {
	const most = 64
	err := unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: most, Max: most})
	fds, pairErr := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err = errors.Join(err, pairErr); err != nil {
		return complain(err)
	}
	for err == nil {
		err = unix.Sendmsg(fds[0], []byte{0}, unix.UnixRights(make([]int, most)...), nil, 0)
	}
	fmt.Println(err)
	h := NewHost(Options{})
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	say := func() {
		exit, err := h.Run(ctx, Spec{Path: "/bin/true"})
		fmt.Println(exit.Code, err)
	}
	say()
	closeFD(fds[0])
	closeFD(fds[1])
	say()
	if err := h.Close(); err != nil {
		return complain(err)
	}
	return 0
}

// TestCrowd: a tool whose guard cannot get its descriptors fails at once. Any process of the user can
// use up what may be under way, a confined tool as well.
func TestCrowd(t *testing.T) {
	env, entry := mark(t)
	cmd := &exec.Cmd{Path: Self(), Args: []string{"jp", "as-crowd"}, Env: env, Dir: "/", SysProcAttr: &syscall.SysProcAttr{Credential: nobody(t)}}
	const refused = "too many references: cannot splice\n"
	if out, err := cmd.Output(); err != nil || string(out) != refused+"-1 /bin/true: guard: sendmsg: "+refused+"0 <nil>\n" {
		t.Errorf("said %q, %v", out, err)
	}
	waitGone(t, nil, entry)
}

// squat is a program that becomes root for good and stays.
func squat([]string) int {
	if err := syscall.Setuid(0); err != nil {
		return complain(err)
	}
	fmt.Println("ready")
	closeFD(1)
	time.Sleep(time.Hour)
	return 0
}

// TestLeft has a tool start a program that runs as root, which a jp of another user cannot end. It
// says so, at every level.
func TestLeft(t *testing.T) {
	who := nobody(t)
	// The set-user-ID program lies where only that user, and no other of this machine, can reach
	// it.
	dir, err := os.MkdirTemp("", "jp-proc-*")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	program := filepath.Join(dir, "squatter")
	if err := errors.Join(
		os.Chown(dir, 0, int(who.Gid)), os.Chmod(dir, 0o750), copyFile(program, Self()),
		os.Chown(program, 0, int(who.Gid)), os.Chmod(program, 0o750|os.ModeSetuid),
	); err != nil {
		t.Fatal(err)
	}
	for depth := range 2 {
		t.Run(fmt.Sprint("depth ", depth), func(t *testing.T) {
			env, entry := mark(t)
			j := startJP(t, env, depth, "sleep 1000 & "+program+" as-squat & sleep 0.05; wait $!; exit 0", nil, who)
			line, err := j.out.ReadString('\n')
			if strings.HasPrefix(line, "error: ") {
				t.Skipf("no set-user-ID programs here: %q", line)
			}
			if line != "ready\n" || err != nil {
				t.Fatalf("tool said %q, %v", line, err)
			}
			kill(j.Process.Pid, syscall.SIGINT)
			code, rest := j.end()
			left := marked(t, entry)
			if len(left) != 1 || left[0].name != "squatter" {
				t.Fatalf("left: %v, want the squatter alone", left)
			}
			want := fmt.Sprintf("process tree: could not be ended: %d (\"squatter\")\n", left[0].pid)
			if code != 70 || strings.Count(rest, want) != depth+1 {
				t.Errorf("jp: status %d, said %q, want 70 and %q at each level", code, rest, want)
			}
			kill(left[0].pid, syscall.SIGKILL)
			waitGone(t, nil, entry)
		})
	}
}

func copyFile(to, from string) error {
	r, err := os.Open(from)
	if err != nil {
		return err
	}
	defer r.Close()
	w, err := os.OpenFile(to, os.O_CREATE|os.O_WRONLY|os.O_EXCL, 0o700)
	if err != nil {
		return err
	}
	_, err = io.Copy(w, r)
	return errors.Join(err, w.Close())
}

// TestNotDumpable looks who owns the files of processes in /proc: root, where a program of the same
// user may not look into them.
func TestNotDumpable(t *testing.T) {
	env, entry := mark(t)
	j := startJP(t, env, 1, "echo ready; exec sleep 1000", nil, nobody(t))
	j.readLine(t, "ready")
	closed := map[string]bool{}
	wait(t, "the tool", func() bool {
		for _, p := range below(t, j.Process.Pid) {
			info, err := os.Stat(fmt.Sprintf("/proc/%d/environ", p.pid))
			if err != nil {
				t.Fatal(err)
			}
			b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", p.pid))
			closed[strings.ReplaceAll(string(b), "\x00", " ")] = info.Sys().(*syscall.Stat_t).Uid == 0
		}
		_, ok := closed["sleep 1000 "]
		return ok
	})
	for _, tt := range []struct {
		cmdline string
		want    bool
	}{
		{"jp as-tree 1 echo ready; exec sleep 1000 ", true},
		{"jp as-tree 0 echo ready; exec sleep 1000 ", true},
		{"toolguard __guard ", true},
		{"sleep 1000 ", false},
	} {
		if got, ok := closed[tt.cmdline]; !ok || got != tt.want {
			t.Errorf("%q: closed to others %t, there %t, want %t", tt.cmdline, got, ok, tt.want)
		}
	}
	tree := below(t, j.Process.Pid)
	_ = j.Process.Kill()
	waitGone(t, tree, entry)
}

// conceal says who owns its environment in /proc, before and after Conceal, and what it can still
// be called.
func conceal([]string) int {
	owner := func() uint32 {
		info, err := os.Stat("/proc/self/environ")
		if err != nil {
			return 1
		}
		return info.Sys().(*syscall.Stat_t).Uid
	}
	before := owner()
	Conceal()
	takeName("another")
	name, err := os.ReadFile("/proc/self/comm")
	fmt.Printf("%d %d %s %v\n", before, owner(), bytes.TrimSpace(name), err)
	return 0
}

func TestConceal(t *testing.T) {
	who := nobody(t)
	cmd := &exec.Cmd{Path: Self(), Args: []string{"jp", "as-conceal"}, SysProcAttr: &syscall.SysProcAttr{Credential: who}}
	want := fmt.Sprintf("%d 0 another <nil>\n", who.Uid)
	if out, err := cmd.Output(); err != nil || string(out) != want {
		t.Errorf("said %q, %v, want %q", out, err, want)
	}
}

// starve is a tool that leaves a daemon, and takes from its guard and the jp above the right to
// open anything, by which they would look for it.
func starve([]string) int {
	if code := daemon(nil); code != 0 {
		return code
	}
	guard := os.Getppid()
	_, jp, ok := look(guard)
	if !ok {
		return complain(errors.New("no guard"))
	}
	for _, pid := range []int{guard, jp} {
		if err := unix.Prlimit(pid, unix.RLIMIT_NOFILE, &unix.Rlimit{}, nil); err != nil {
			return complain(err)
		}
	}
	return 0
}

func TestStarvedGuard(t *testing.T) {
	env, entry := mark(t)
	j := startJP(t, env, 0, "exec "+self("starve"), nil, nil)
	if code, out := j.end(); code != 0 || out != "" {
		t.Errorf("exit %d, said %q, want 0 and nothing", code, out)
	}
	waitGone(t, nil, entry)
}

// bury makes a folder that is deeper than it may open files, with some that nobody may list, and
// removes it.
func bury(args []string) int {
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: 64, Max: 64}); err != nil {
		return complain(err)
	}
	top := args[0]
	err := errors.Join(os.Mkdir(top, 0o700), os.Chdir(top), os.Mkdir("1", 0o700), os.WriteFile("2", nil, 0o600), os.Symlink("..", "link"))
	name := strings.Repeat("x", 200)
	for range 1000 {
		err = errors.Join(err, os.WriteFile("file", nil, 0), os.Mkdir("side", 0), os.Mkdir(name, 0o700), os.Chdir(name))
	}
	at := "../.."
	err = errors.Join(err, os.Chmod("../../../side", 0o500), os.Chmod(at, 0o500), os.Chdir("/"), (&vanishing.Dir{Path: top}).Remove())
	if err != nil {
		return complain(err)
	}
	return 0
}

// A tool may leave folders so deep that no path leads there.
func TestTmpDeep(t *testing.T) {
	base := t.TempDir()
	top := filepath.Join(base, "top")
	cmd := &exec.Cmd{Path: Self(), Args: []string{"jp", "as-bury", top}}
	if out, err := cmd.Output(); err != nil || len(out) > 0 {
		t.Errorf("said %.500q, %v, want nothing", out, err)
	}
	if left, err := os.ReadDir(base); err != nil || len(left) > 0 {
		t.Errorf("left: %v, %v", left, err)
	}
}

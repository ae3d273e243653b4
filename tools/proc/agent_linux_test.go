package proc

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// TestInherit lets an agent print what it was given.
func TestInherit(t *testing.T) {
	h := host(t)
	path := filepath.Join(t.TempDir(), "lock")
	if err := os.WriteFile(path, []byte("held"), 0o600); err != nil {
		t.Fatal(err)
	}
	lock := func() (*os.File, error) { return os.Open(path) }
	env, _ := mark(t)
	for _, tt := range []struct {
		lock   func() (*os.File, error)
		wire   bool
		others int
		want   string
	}{
		{nil, false, 0, `jp death=true lock="" wire="" variable=false large=true slack=500000`},
		{lock, false, 0, `jp death=true lock="held" wire="" variable=false large=true slack=500000`},
		{nil, true, few, `jp death=true lock="" wire="said" variable=false large=true slack=500000`},
		{lock, true, few + 1, `jp death=true lock="held" wire="said" variable=false large=false slack=500000`},
	} {
		ours, theirs, err := Pair()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := ours.WriteString("said"); err != nil {
			t.Fatal(err)
		}
		var wire *os.File
		if tt.wire {
			wire = theirs
		}
		var out bytes.Buffer
		spec := Spec{Kind: Agent, Args: []string{"jp", "as-given"}, Env: append(env, "JP_PROC=death=99"), Lock: tt.lock, Wire: wire, Stdout: &out}
		live(1, tt.others)
		exit, err := h.Run(t.Context(), spec)
		live(-1, tt.others)
		// ls sees its three and the directory it reads.
		want := tt.want + "\n" + `tool: "0\n1\n2\n3\ntoolguard\n50000\n"` + "\n"
		if err != nil || exit.Code != 0 || out.String() != want {
			t.Errorf("Run() = %+v, %v, agent said %q, want %q", exit, err, &out, want)
		}
		ours.Close()
		theirs.Close()
	}
	refused := errors.New("refused")
	if _, err := h.Run(t.Context(), Spec{Kind: Agent, Env: env, Lock: func() (*os.File, error) { return nil, refused }}); err != refused {
		t.Errorf("a lock that does not open: %v", err)
	}
}

// live adds n processes to the table, or removes them. No process has their numbers.
func live(sign, n int) {
	family.mu.Lock()
	defer family.mu.Unlock()
	for i := range n {
		if pid := -2 - i; sign > 0 {
			family.ours[pid] = true
		} else {
			delete(family.ours, pid)
		}
	}
}

// TestInterruptBeforeItsOwnGroup: an interrupt that reached the agent before its caller is the
// caller's.
func TestInterruptBeforeItsOwnGroup(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	stopped := errors.New("Ctrl-C")
	exit, err := host(t).Run(ctx, Spec{
		Kind: Agent, Path: "/bin/sh", Args: []string{"sh", "-c", "kill -INT $$"},
		Started: func(pid int) {
			go func() {
				for syscall.Kill(pid, 0) == nil {
				}
				cancel(stopped)
			}()
		},
	})
	if exit.Signal != syscall.SIGINT || exit.Cause != stopped || err != nil {
		t.Errorf("Run() = %+v, %v, want the cause %v", exit, err, stopped)
	}
}

// TestLockOutlivesParent gives an agent an OFD lock, which nobody here has any more: the agent
// holds it to its end.
func TestLockOutlivesParent(t *testing.T) {
	h := host(t)
	path := filepath.Join(t.TempDir(), "lock")
	open := func() *os.File {
		f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
		if err != nil {
			t.Fatal(err)
		}
		return f
	}
	probe := open()
	defer probe.Close()
	whole := unix.Flock_t{Type: unix.F_WRLCK}
	lock := func() (*os.File, error) {
		held := open()
		return held, unix.FcntlFlock(held.Fd(), unix.F_OFD_SETLK, &whole)
	}
	taken := func() bool {
		l := whole
		if err := unix.FcntlFlock(probe.Fd(), unix.F_OFD_GETLK, &l); err != nil {
			t.Fatal(err)
		}
		return l.Type != unix.F_UNLCK
	}
	env, _ := mark(t)
	during := make(chan bool, 1)
	spec := Spec{Kind: Agent, Args: []string{"jp", "as-tree", "0", "echo ready; sleep 0.05"}, Env: env, Lock: lock}
	spec.Stdout = onText("ready\n", func() { during <- taken() })
	if exit, err := h.Run(t.Context(), spec); err != nil || exit.Code != 0 {
		t.Errorf("Run() = %+v, %v", exit, err)
	}
	if !<-during || taken() {
		t.Error("the lock is not held by the agent, and by it alone")
	}
}

// TestLockEndsWithAgent: once an agent has ended, nothing holds its lock that was started beside
// it.
func TestLockEndsWithAgent(t *testing.T) {
	h := host(t)
	path := filepath.Join(t.TempDir(), "locks")
	open := func() (*os.File, error) { return os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600) }
	var all sync.WaitGroup
	for n := range int64(16) {
		probe, err := open()
		if err != nil {
			t.Fatal(err)
		}
		defer probe.Close()
		lock := unix.Flock_t{Type: unix.F_WRLCK, Start: n, Len: 1}
		all.Go(func() {
			for i := range 200 {
				exit, err := h.Run(t.Context(), Spec{Kind: Agent, Path: "/bin/true", Lock: func() (*os.File, error) {
					file, err := open()
					if err != nil {
						return nil, err
					}
					return file, unix.FcntlFlock(file.Fd(), unix.F_OFD_SETLK, &lock)
				}})
				found := lock
				if err := unix.FcntlFlock(probe.Fd(), unix.F_OFD_GETLK, &found); err != nil {
					t.Error(err)
				}
				if err != nil || exit.Code != 0 || found.Type != unix.F_UNLCK {
					t.Errorf("run %d: %+v, %v; its lock is held: %t", i, exit, err, found.Type != unix.F_UNLCK)
					return
				}
			}
		})
	}
	all.Wait()
}

func noLock() (*os.File, error) { return nil, os.ErrClosed }

func TestInheritRefuses(t *testing.T) {
	env, _ := mark(t)
	file, err := os.CreateTemp(t.TempDir(), "")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	defer w.Close()
	for _, tt := range []struct {
		given string
		extra []*os.File
		want  string
	}{
		{"", nil, `"" is not a descriptor`},
		{"death", nil, `"death" is not a descriptor`},
		{"death=", nil, `"death=" is not a descriptor`},
		{"death=0", nil, `"death=0" is not a descriptor`},
		{"death=2", nil, `"death=2" is not a descriptor`},
		{"death=-1", nil, `"death=-1" is not a descriptor`},
		{"death=03", nil, `"death=03" is not a descriptor`},
		{"death=+3", nil, `"death=+3" is not a descriptor`},
		{"death=99999999999999999999", nil, `"death=99999999999999999999" is not a descriptor`},
		{"death=3,death=4", nil, `"death=4" comes twice`},
		{"death=3,lock=3", nil, `"lock=3" comes twice`},
		{"death=3,lock=4,wire=4", nil, `"wire=4" comes twice`},
		{"lock=3", nil, `no death pipe in "lock=3"`},
		{"ready=3", nil, `"ready=3" is not a descriptor`},
		{"death=3,", nil, `"" is not a descriptor`},
		{"death=700", nil, "death: descriptor 700: bad file descriptor"},
		{"death=3", []*os.File{file}, "death: descriptor 3 is not what a parent jp hands down"},
		{"death=4,lock=3", []*os.File{w, r}, "lock: descriptor 3 is not what a parent jp hands down"},
		{"death=4,wire=3", []*os.File{w, r}, "wire: descriptor 3 is not what a parent jp hands down"},
		{"death=4,lease=3", []*os.File{w, r}, "lease: descriptor 3 is not what a parent jp hands down"},
		{"death=4,lease=5", []*os.File{w, r, file}, "lease: descriptor 5 is not what a parent jp hands down"}, // it can be written
		{"death=3", []*os.File{w}, "death: descriptor 3 is not what a parent jp hands down"},
	} {
		cmd := &exec.Cmd{Path: Self(), Args: []string{"jp", "as-given"}, Env: append(env, "JP_PROC="+tt.given), ExtraFiles: tt.extra}
		out, err := cmd.Output()
		if want := "error: JP_PROC: " + tt.want + "\n"; err == nil || string(out) != want {
			t.Errorf("JP_PROC=%s: %q, %v, want %q", tt.given, out, err, want)
		}
	}
}

func FuzzParseInherit(f *testing.F) {
	for _, s := range []string{"", "death=3", "death=3,lock=4", "lock=4,death=3", "death=3,lock=4,wire=5", "wire=5,death=3", "death=3,lease=4", "death=3,death=3", "death=1e3", "death=3,=", "death==3"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, given string) {
		fds, err := parseInherit(given)
		if err != nil {
			return
		}
		if _, ok := fds["death"]; !ok || len(fds) != strings.Count(given, ",")+1 {
			t.Errorf("parseInherit(%q) = %v: not what was said", given, fds)
		}
		for name, fd := range fds {
			if item := fmt.Sprintf("%s=%d", name, fd); fd < 3 || !strings.Contains(","+given+",", ","+item+",") {
				t.Errorf("parseInherit(%q): %s", given, item)
			}
		}
	})
}

// TestGuardByHand starts a guard as a person might.
func TestGuardByHand(t *testing.T) {
	cmd := &exec.Cmd{Path: Self(), Args: []string{"jp", guardArg}}
	var errOut bytes.Buffer
	cmd.Stderr = &errOut
	_ = cmd.Run() // it fails
	if want := "jp: __guard: started by jp itself, not for use by hand\n"; cmd.ProcessState.ExitCode() != 2 || errOut.String() != want {
		t.Errorf("guard by hand: %v, %q, want status 2, %q", cmd.ProcessState, &errOut, want)
	}
}

// TestGuardGetsNonsense sends a guard what no jp sends.
func TestGuardGetsNonsense(t *testing.T) {
	env, entry := mark(t)
	good, err := order{path: "/bin/sleep", args: []string{"sleep", "1000"}, env: env}.encode()
	if err != nil {
		t.Fatal(err)
	}
	null, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	n := int(null.Fd())
	for _, tt := range []struct {
		name   string
		bytes  string
		rights []int
		want   string
	}{
		{"nothing", "", nil, ""},
		{"half a length", "\x00\x00", []int{n, n, n}, ""},
		{"half an order", string(good[:len(good)/2]), []int{n, n, n}, ""},
		{"too long", "\xff\xff\xff\xff", []int{n, n, n}, "order of 4294967295 bytes: above the limit of 8388608\n"},
		{"no order", "\x00\x00\x00\x01x", []int{n, n, n}, "order: cut off\n"},
		{"no descriptors", string(good), nil, "order: 0 descriptors, want 3 or 4\n"},
		{"too few descriptors", string(good), []int{n, n}, "order: 2 descriptors, want 3 or 4\n"},
		{"too many descriptors", string(good), []int{n, n, n, n, n}, "order: 5 descriptors, want 3 or 4\n"},
		{"good, with a socket", string(good), []int{n, n, n, n}, "\nlaunch\n\nstarted N\n\nexit 9 N\n\nempty\n"},
		{"good, then nothing", string(good), []int{n, n, n}, "\nlaunch\n\nstarted N\n\nexit 9 N\n\nempty\n"},
		{"good, then nonsense", string(good) + "xyz", []int{n, n, n}, "\nlaunch\n\nstarted N\n\nexit 9 N\n\nempty\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			ours, theirs, err := socketpair()
			if err != nil {
				t.Fatal(err)
			}
			peer := os.NewFile(uintptr(ours), "peer")
			defer peer.Close()
			cmd := &exec.Cmd{Path: Self(), Args: []string{"jp", guardArg}, Env: []string{}, Stderr: os.NewFile(uintptr(theirs), "guard")}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			cmd.Stderr.(*os.File).Close()
			if tt.bytes != "" {
				if err := syscall.Sendmsg(ours, []byte(tt.bytes), syscall.UnixRights(tt.rights...), nil, 0); err != nil {
					t.Fatal(err)
				}
			}
			if err := syscall.Shutdown(ours, syscall.SHUT_WR); err != nil {
				t.Fatal(err)
			}
			var got bytes.Buffer
			_, _ = got.ReadFrom(peer) // it ends in an error where the guard has not read all
			_ = cmd.Wait()            // its status is of no interest
			if s := numbers(got.String()); s != tt.want {
				t.Errorf("guard said %q, want %q", s, tt.want)
			}
			waitGone(t, nil, entry)
		})
	}
}

// numbers replaces what differs from run to run in reports.
func numbers(s string) string {
	lines := strings.SplitAfter(s, "\n")
	for i, l := range lines {
		if f := strings.Fields(l); len(f) > 1 && (f[0] == "started" || f[0] == "exit") {
			f[len(f)-1] = "N"
			lines[i] = strings.Join(f, " ") + "\n"
		}
	}
	return strings.Join(lines, "")
}

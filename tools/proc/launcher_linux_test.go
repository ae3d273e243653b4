package proc

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// launch is a jp that runs a shell text as a launcher: "launch GRACE SCRIPT STOP".
func launch(args []string) int {
	grace, err := time.ParseDuration(args[0])
	if err != nil {
		return complain(err)
	}
	open, _ := io.Pipe()
	_, err = NewHost(Options{}).Run(context.Background(), Spec{Kind: Launcher, Path: "/bin/sh", Args: []string{"sh", "-c", args[1]}, Env: os.Environ(), Grace: grace,
		Stop: []string{"/bin/sh", "-c", args[2]}, Stdin: open, Stdout: os.Stdout, Stderr: os.Stdout})
	return complain(err) // it is killed before
}

// TestLauncherEnds ends launchers that take it in different ways. Each says "ready" first.
func TestLauncherEnds(t *testing.T) {
	stopped := errors.New("stopped")
	for _, tt := range []struct {
		name, script, stop string
		grace              time.Duration
		want               Exit
		out, words         string // stdout after "ready", what the stop command wrote to a file
	}{
		{name: "end of stdin, no signal", script: "trap 'echo signal' INT; echo ready; cat; echo ended; exit 3", want: Exit{Code: 3}, out: "ended\n"},
		{name: "end of stdin, a pipe of the caller", script: "trap 'echo signal' INT; echo ready; cat; echo ended; exit 3", want: Exit{Code: 3}, out: "ended\n"},
		{name: "stopped, end of stdin", script: "echo ready; kill -STOP $$; cat; echo ended", want: Exit{}, out: "ended\n"},
		{name: "SIGINT", script: "exec " + self("settle") + " 4", grace: 2 * time.Second, want: Exit{Code: 4}, out: "settled\n"},
		{name: "killed", script: "trap '' INT; sleep 1000 & echo ready; while :; do sleep 1000; done", stop: `echo $A $0 >"$WORDS"`, grace: time.Second,
			want: Exit{Code: -1, Signal: syscall.SIGKILL, Killed: true}, words: "value /bin/sh\n"},
		{name: "killed, no stop command", script: "trap '' INT; echo ready; while :; do sleep 1000; done", grace: 10 * time.Millisecond,
			want: Exit{Code: -1, Signal: syscall.SIGKILL, Killed: true}},
		{name: "stop command fails", script: "trap '' INT; echo ready; while :; do sleep 1000; done", stop: `echo words; echo more >&2; exit 3`, grace: time.Second,
			want: Exit{Code: -1, Signal: syscall.SIGKILL, Killed: true, Stop: &StopError{Code: 3}}, out: "more\n"},
		{name: "stop command hangs", script: "trap '' INT; echo ready; while :; do sleep 1000; done", stop: `setsid sleep 1000 & sleep 1000`, grace: 10 * time.Millisecond,
			want: Exit{Code: -1, Signal: syscall.SIGKILL, Killed: true, Stop: &StopError{Code: -1, Signal: syscall.SIGKILL}}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			h := host(t)
			env, entry := mark(t)
			words := filepath.Join(t.TempDir(), "words")
			ctx, cancel := context.WithCancelCause(t.Context())
			open, _ := io.Pipe()
			r, w := io.Pipe()
			spec := Spec{Kind: Launcher, Path: "/bin/sh", Args: []string{"sh", "-c", tt.script}, Env: append(env, "A=value", "WORDS="+words),
				Stdin: open, Stdout: w, Stderr: w, Grace: tt.grace}
			if tt.stop != "" {
				spec.Stop = []string{"/bin/sh", "-c", tt.stop}
			}
			if strings.HasSuffix(tt.name, "of the caller") {
				theirs, ours, err := os.Pipe()
				if err != nil {
					t.Fatal(err)
				}
				defer theirs.Close()
				spec.Stdin, spec.End = theirs, func() { ours.Close() }
			}
			started := make(chan int, 1)
			spec.Started = func(pid int) { started <- pid }
			var exit Exit
			var err error
			go func() {
				exit, err = h.Run(ctx, spec)
				w.Close()
			}()
			out := bufio.NewReader(r)
			if line, _ := out.ReadString('\n'); line != "ready\n" {
				t.Fatalf("launcher said %q", line)
			}
			if strings.HasPrefix(tt.name, "stopped") {
				pid := <-started
				wait(t, "a stopped launcher", func() bool { p, _, _ := look(pid); return p.state == "T" })
			}
			cancel(stopped)
			rest, _ := io.ReadAll(out)
			said, _ := os.ReadFile(words)
			if exit.Cause != stopped || err != nil {
				t.Errorf("Run = %+v, %v, want the cause %v", exit, err, stopped)
			}
			wantStop, gotStop := tt.want.Stop, exit.Stop
			exit.Cause, exit.Duration, exit.MaxRSS, exit.Stop, tt.want.Stop = nil, 0, 0, nil, nil
			if exit != tt.want || !sameError(gotStop, wantStop) {
				t.Errorf("Run = %+v, stop %v, want %+v, %v", exit, gotStop, tt.want, wantStop)
			}
			if string(rest) != tt.out || string(said) != tt.words {
				t.Errorf("said %q, stop command %q, want %q, %q", rest, said, tt.out, tt.words)
			}
			if left := marked(t, entry); len(left) > 0 {
				t.Errorf("left: %v", left)
			}
		})
	}
}

func sameError(a, b error) bool {
	if a == nil || b == nil {
		return a == nil && b == nil
	}
	return a.Error() == b.Error()
}

// TestLauncherLeaves has launchers end by themselves and leave processes: at once nothing is left
// of one that ended well. What one that crashed has left may tell its scheduler first.
func TestLauncherLeaves(t *testing.T) {
	for _, tt := range []struct {
		name, script string
		grace        time.Duration
		want         Exit
		out          string
	}{
		{"nothing", "echo out", 0, Exit{}, "out\n"},
		{"a child", "(sleep 1000; echo late) & echo out", time.Hour, Exit{}, "out\n"},
		{"crashed", "kill -KILL $$", time.Hour, Exit{Code: -1, Signal: syscall.SIGKILL, Killed: true}, "stopped\n"},
		{"crashed, a child that ends", "(sleep 0.2; echo told) & kill -KILL $$", time.Hour, Exit{Code: -1, Signal: syscall.SIGKILL, Killed: true}, "told\nstopped\n"},
		{"crashed, a child that stays", "sleep 1000 & kill -KILL $$", time.Second, Exit{Code: -1, Signal: syscall.SIGKILL, Killed: true}, "stopped\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			env, entry := mark(t)
			open, _ := io.Pipe()
			var out bytes.Buffer
			exit, err := host(t).Run(t.Context(), Spec{Kind: Launcher, Path: "/bin/sh", Args: []string{"sh", "-c", tt.script}, Env: env, Stdin: open, Stdout: &out, Stderr: &out, Grace: tt.grace,
				Stop: []string{"/bin/sh", "-c", "echo stopped >&2"}})
			exit.Duration, exit.MaxRSS = 0, 0
			if exit != tt.want || err != nil || out.String() != tt.out {
				t.Errorf("Run = %+v, %v, said %q, want %+v, %q", exit, err, &out, tt.want, tt.out)
			}
			if left := marked(t, entry); len(left) > 0 {
				t.Errorf("left: %v", left)
			}
		})
	}
}

// TestLauncherWithoutJP kills the jp of a launcher. The launcher has the same time to end as with a
// jp, and its stop command runs.
func TestLauncherWithoutJP(t *testing.T) {
	for _, tt := range []struct{ name, grace, script, want string }{
		{"ends at the end of stdin", "1h", "trap 'echo signal >>$WORDS' INT; echo ready; cat; sleep 0.2; echo ended >>$WORDS", "ended\n"},
		{"ends at SIGINT", "2s", "trap 'echo signal >>$WORDS; exit' INT; echo ready; while :; do sleep 0.1; done", "signal\n"},
		{"has to be killed", "1s", "trap '' INT TERM HUP; " + stayers() + "echo ready; while :; do sleep 1000; done", "stopped\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			env, entry := mark(t)
			words := filepath.Join(t.TempDir(), "words")
			cmd := &exec.Cmd{Path: Self(), Args: []string{"jp", "as-launch", tt.grace, tt.script, "echo noise; echo noise >&2; echo stopped >>$WORDS"}, Env: append(env, "WORDS="+words)}
			cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
			stdout, err := cmd.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			out := bufio.NewReader(stdout)
			for line := ""; line != "ready\n"; {
				if line, err = out.ReadString('\n'); err != nil {
					t.Fatalf("launcher: %v", err)
				}
			}
			tree := below(t, cmd.Process.Pid)
			kill(cmd.Process.Pid, syscall.SIGKILL)
			_ = cmd.Wait()
			waitGone(t, tree, entry)
			if said, _ := os.ReadFile(words); string(said) != tt.want {
				t.Errorf("said %q, want %q", said, tt.want)
			}
		})
	}
}

// TestLauncherWithoutGuard kills the guard of a launcher: nothing of it is left.
func TestLauncherWithoutGuard(t *testing.T) {
	env, entry := mark(t)
	open, _ := io.Pipe()
	exit, err := host(t).Run(t.Context(), Spec{Kind: Launcher, Path: "/bin/sh", Args: []string{"sh", "-c", stayers() + "kill -KILL $PPID; cat"}, Env: env, Stdin: open})
	if lost := (*GuardError)(nil); !errors.As(exit.Cause, &lost) || err != nil {
		t.Errorf("Run = %+v, %v, want a *GuardError", exit, err)
	}
	if left := marked(t, entry); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
}

// TestLauncherSpec tries what no launcher can have.
func TestLauncherSpec(t *testing.T) {
	open, _ := io.Pipe()
	for _, tt := range []struct {
		spec Spec
		want string
	}{
		{Spec{Kind: Launcher, Path: "/bin/true"}, "/bin/true: program: a launcher needs a stdin that jp can end"},
		{Spec{Kind: Launcher, Path: "/bin/true", Stdin: os.Stdin}, "/bin/true: program: a launcher needs a stdin that jp can end"},
		{Spec{Kind: Launcher, Path: "/bin/true", Stdin: open, Confine: &Confine{}}, "/bin/true: program: only a tool can be confined"},
		{Spec{Kind: Launcher, Path: "/bin/true", Stdin: open, Lock: noLock}, "/bin/true: program: a lock, wire or lease is for an agent"},
		{Spec{Kind: Launcher, Path: "/bin/true", Stdin: open, Socket: os.Stdin}, "/bin/true: program: a socket is for a tool"},
		{Spec{Kind: Launcher, Path: "/bin/true", Stdin: open, Stop: []string{"scancel"}}, "stop command: exec scancel: no such file or directory"},
		{Spec{Path: "/bin/true", Stop: []string{"scancel"}}, "/bin/true: program: a stop command is for a launcher"},
	} {
		if _, err := host(t).Run(t.Context(), tt.spec); err == nil || err.Error() != tt.want {
			t.Errorf("Run(%+v) = %v, want %s", tt.spec, err, tt.want)
		}
	}
	if got := strings.Join([]string{(&StopError{Code: 3}).Error(), (&StopError{Code: -1, Signal: syscall.SIGKILL}).Error(), (&StopError{Code: -1, Err: syscall.ENOENT}).Error()}, "; "); got !=
		"stop command: exit status 3; stop command: ended by signal: killed; stop command: no such file or directory" {
		t.Error(got)
	}
}

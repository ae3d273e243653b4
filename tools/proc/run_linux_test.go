package proc

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// host returns a Host that is closed at the end of the test.
func host(t testing.TB) *Host {
	h := NewHost(Options{})
	t.Cleanup(func() {
		if err := h.Close(); err != nil {
			t.Errorf("Close() = %v", err)
		}
	})
	return h
}

// sh is a tool that runs a shell text.
func sh(env []string, script string) Spec {
	return Spec{Path: "/bin/sh", Args: []string{"sh", "-c", script}, Env: env}
}

func TestExit(t *testing.T) {
	h := host(t)
	for _, tt := range []struct {
		name, script string
		stdin        io.Reader
		code         int
		signal       syscall.Signal
		stdout       string
		stderr       string
	}{
		{name: "success", script: "echo out; echo err >&2", stdout: "out\n", stderr: "err\n"},
		{name: "status", script: "exit 3", code: 3},
		{name: "highest status", script: "exit 255", code: 255},
		{name: "signal", script: "kill -TERM $$", code: -1, signal: syscall.SIGTERM},
		{name: "kill", script: "kill -KILL $$", code: -1, signal: syscall.SIGKILL},
		{name: "no stdin", script: "cat; readlink /proc/self/fd/0", stdout: "/dev/null\n"},
		{name: "stdin", script: "cat", stdin: strings.NewReader("text"), stdout: "text"},
		{name: "much of everything", script: "cat", stdin: strings.NewReader(strings.Repeat("x", 3<<20)), stdout: strings.Repeat("x", 3<<20)},
		{name: "stdin not read", script: "exec <&-; echo done", stdin: strings.NewReader(strings.Repeat("x", 1<<20)), stdout: "done\n"},
		{name: "background keeps stdout", script: "sleep 1000 & echo out", stdout: "out\n"},
		{name: "empty environment", script: "/usr/bin/env | grep -v -e ^PWD= -e ^SHLVL= -e ^_=", code: 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var out, errOut bytes.Buffer
			spec := sh(nil, tt.script)
			spec.Stdin, spec.Stdout, spec.Stderr = tt.stdin, &out, &errOut
			pid := 0
			spec.Started = func(p int) { pid = p }
			exit, err := h.Run(t.Context(), spec)
			if err != nil || exit.Code != tt.code || exit.Signal != tt.signal || exit.Cause != nil {
				t.Errorf("Run() = %+v, %v, want code %d, signal %v", exit, err, tt.code, tt.signal)
			}
			if out.String() != tt.stdout || errOut.String() != tt.stderr {
				t.Errorf("stdout %.100q, stderr %.100q, want %.100q, %.100q", &out, &errOut, tt.stdout, tt.stderr)
			}
			if exit.Duration <= 0 || exit.MaxRSS <= 0 || pid <= 0 {
				t.Errorf("duration %v, memory %d, pid %d: want all set", exit.Duration, exit.MaxRSS, pid)
			}
		})
	}
}

// TestToolSurroundings lets a tool print what it was started with.
func TestToolSurroundings(t *testing.T) {
	env, _ := mark(t)
	dir := t.TempDir()
	if real, err := filepath.EvalSymlinks(dir); err == nil {
		dir = real
	}
	// A descriptor that is inherited, as from a shell with "5>file".
	leak, err := os.Create(filepath.Join(dir, "leak"))
	if err != nil {
		t.Fatal(err)
	}
	defer leak.Close()
	// The jp of this test ignores SIGINT and SIGHUP from its start, as under nohup or "&".
	script := `for f in /proc/self/fd/*; do [ -e $f ] && echo fd ${f##*/}; done
		read pid name state ppid pgrp session tty rest </proc/$$/stat
		[ $pid = $pgrp ] && [ $pid = $session ] && echo own session, terminal $tty
		(: </dev/tty) 2>/dev/null && echo has a terminal
		grep -E '^Sig(Blk|Ign)' /proc/self/status
		echo stdin $(readlink /proc/$$/fd/0) "$JP_PROC" in $PWD`
	outer := `trap '' INT HUP QUIT TERM PIPE; exec ` + self("tree") + ` 0 "$SCRIPT"`
	cmd := &command{Args: []string{"sh", "-c", outer}, Env: append(env, "SCRIPT="+script), Dir: dir, Extra: leak}
	out, err := cmd.output()
	// Signals 32 and 33 are the C library's own. Go cannot set them; whoever started this test may
	// ignore them.
	for _, theirs := range []string{"0000000080000000", "0000000100000000", "0000000180000000"} {
		out = strings.Replace(out, "SigIgn:\t"+theirs, "SigIgn:\t0000000000000000", 1)
	}
	want := "fd 0\nfd 1\nfd 2\n" +
		"own session, terminal 0\n" +
		"SigBlk:\t0000000000000000\nSigIgn:\t0000000000000000\n" +
		"stdin /dev/null  in " + dir + "\n"
	if err != nil || out != want {
		t.Errorf("tool says (%v):\n%s\nwant:\n%s", err, out, want)
	}
}

func TestStartFails(t *testing.T) {
	h := host(t)
	dir := t.TempDir()
	file := func(name, text string, mode os.FileMode) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), mode); err != nil {
			t.Fatal(err)
		}
		return path
	}
	plain := file("plain", "data", 0o644)
	noFormat := file("noformat", "data", 0o755)
	noLoader := file("noloader", "#!/nonexistent/sh\n", 0o755)
	for _, tt := range []struct {
		name string
		spec Spec
		want error
		op   string
	}{
		{"no such file", Spec{Path: dir + "/none"}, fs.ErrNotExist, "exec"},
		{"not executable", Spec{Path: plain}, fs.ErrPermission, "exec"},
		{"a directory", Spec{Path: dir}, fs.ErrPermission, "exec"},
		{"not a program", Spec{Path: noFormat}, syscall.ENOEXEC, "exec"},
		{"no interpreter", Spec{Path: noLoader}, fs.ErrNotExist, "exec"},
		{"below a file", Spec{Path: plain + "/x"}, syscall.ENOTDIR, "exec"},
		{"no such directory", Spec{Path: "/bin/true", Dir: dir + "/none"}, fs.ErrNotExist, "chdir"},
		{"directory is a file", Spec{Path: "/bin/true", Dir: plain}, syscall.ENOTDIR, "chdir"},
		{"not in PATH", Spec{Path: "sh", Env: []string{"PATH=" + dir}}, fs.ErrNotExist, "exec"},
		{"no PATH", Spec{Path: "sh"}, fs.ErrNotExist, "exec"},
		{"in PATH and not executable", Spec{Path: "plain", Env: []string{"PATH=" + dir}}, fs.ErrPermission, "exec"},
		{"PATH is relative", Spec{Path: "sh", Dir: "/", Env: []string{"PATH=.:bin::"}}, fs.ErrNotExist, "exec"},
		{"no path", Spec{}, nil, ""},
		{"NUL in path", Spec{Path: "/bin/true\x00"}, syscall.EINVAL, ""},
		{"NUL in argument", Spec{Path: "/bin/true", Args: []string{"true", "a\x00b"}}, syscall.EINVAL, ""},
		{"NUL in environment", Spec{Path: "/bin/true", Env: []string{"A=\x00"}}, syscall.EINVAL, ""},
		{"long argument", Spec{Path: "/bin/true", Args: []string{"true", strings.Repeat("x", 1<<18)}}, syscall.E2BIG, "exec"},
		{"very long argument", Spec{Path: "/bin/true", Args: []string{"true", strings.Repeat("x", 1<<24)}}, syscall.E2BIG, ""},
		{"lock for a tool", Spec{Path: "/bin/true", Lock: noLock}, nil, ""},
		{"closed stdout", Spec{Path: "/bin/true", Stdout: closedFile(t)}, os.ErrClosed, ""},
		{"no stdin at all", Spec{Path: "/bin/true", Stdin: (*os.File)(nil)}, os.ErrClosed, ""},
		{"agent: no such file", Spec{Kind: Agent, Path: dir + "/none"}, fs.ErrNotExist, "exec"},
		{"agent: no such directory", Spec{Kind: Agent, Dir: dir + "/none"}, fs.ErrNotExist, "chdir"},
		{"agent: NUL in argument", Spec{Kind: Agent, Args: []string{"jp", "\x00"}}, syscall.EINVAL, "exec"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var out bytes.Buffer
			if tt.spec.Stdout == nil {
				tt.spec.Stdout = &out
			}
			tt.spec.Started = func(int) { t.Error("Started called") }
			exit, err := h.Run(t.Context(), tt.spec)
			if err == nil || tt.want != nil && !errors.Is(err, tt.want) || exit.Code != -1 {
				t.Errorf("Run() = %+v, %v, want code -1 and %v", exit, err, tt.want)
			}
			var path *fs.PathError
			if errors.As(err, &path) != (tt.op != "") || tt.op != "" && path.Op != tt.op {
				t.Errorf("Run() error %v: want operation %q", err, tt.op)
			}
		})
	}
}

func closedFile(t *testing.T) *os.File {
	f, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	f.Close()
	return f
}

// TestBytes passes what is not text, and more than a socket's buffer holds.
func TestBytes(t *testing.T) {
	h := host(t)
	args := []string{"sh", "-c", `printf '%s' "$1" "$A"; echo; shift; printf '%s\n' $# ${#1}`, "sh", "\xff\xfe \n'", strings.Repeat("y", 100_000)}
	for range 9 {
		args = append(args, strings.Repeat("z", 120_000))
	}
	var out bytes.Buffer
	exit, err := h.Run(t.Context(), Spec{Path: "/bin/sh", Args: args, Env: []string{"A=\x80="}, Stdout: &out})
	if want := "\xff\xfe \n'\x80=\n10\n100000\n"; err != nil || exit.Code != 0 || out.String() != want {
		t.Errorf("Run() = %+v, %v, printed %q, want %q", exit, err, &out, want)
	}
}

func TestLookPath(t *testing.T) {
	dir := t.TempDir()
	if err := os.Mkdir(dir+"/sh", 0o755); err != nil {
		t.Fatal(err)
	}
	got, err := LookPath("sh", []string{"PATH=/nonexistent", "PATH=" + dir + "::/bin"})
	if err != nil || got != "/bin/sh" {
		t.Errorf("LookPath(sh) = %q, %v, want /bin/sh", got, err)
	}
	if got, err := LookPath("./sh", nil); err != nil || got != "./sh" {
		t.Errorf("LookPath(./sh) = %q, %v, want it unchanged", got, err)
	}
}

// TestStop ends the context of tools that answer an interrupt in different ways.
func TestStop(t *testing.T) {
	reason := errors.New("enough")
	for _, tt := range []struct {
		name, script string
		grace        time.Duration
		code         int
		signal       syscall.Signal
		stdout       string
	}{
		{"dies", "echo ready; exec sleep 1000", time.Hour, -1, syscall.SIGINT, "ready\n"},
		{"whole group", "trap '' INT; " + self("settle") + " 3 & " + self("settle") + " 4; c=$?; wait $!; exit $((c + $?))", time.Hour, 7, 0, "ready\nready\nsettled\nsettled\n"},
		{"settles", "exec " + self("settle") + " 7", time.Hour, 7, 0, "ready\nsettled\n"},
		{"stopped", "exec " + self("settle") + " 7 stopped", time.Hour, 7, 0, "ready\nsettled\n"},
		{"settles and leaves", "sleep 1000 & setsid sleep 1000 & exec " + self("settle") + " 7", time.Hour, 7, 0, "ready\nsettled\n"},
		{"ignores", "trap '' INT TERM HUP; echo ready; while :; do sleep 1000; done", 10 * time.Millisecond, -1, syscall.SIGKILL, "ready\n"},
		{"ignores with others", "trap '' INT; sleep 1000 & setsid sleep 1000 & " + self("daemon") + "; echo ready; while :; do sleep 1000; done", 10 * time.Millisecond, -1, syscall.SIGKILL, "ready\n"},
		{"ends while asked", "trap '' INT; echo ready; sleep 0.05; exit 4", time.Hour, 4, 0, "ready\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			h := host(t)
			env, entry := mark(t)
			ctx, cancel := context.WithCancelCause(t.Context())
			spec := sh(env, tt.script)
			spec.Grace = tt.grace
			out := onText("ready\n", func() { cancel(reason) })
			out.times = strings.Count(tt.stdout, "ready\n")
			spec.Stdout = out
			if tt.name == "stopped" {
				// Before that, what wakes it would come too early.
				out.act = func() {
					go func() {
						defer cancel(reason)
						for ctx.Err() == nil && !slices.ContainsFunc(marked(t, entry), func(p process) bool { return p.state == "T" }) {
							time.Sleep(time.Millisecond)
						}
					}()
				}
			}
			exit, err := h.Run(ctx, spec)
			if left := marked(t, entry); len(left) > 0 {
				t.Errorf("running when Run returned: %v", left)
			}
			if err != nil || exit.Code != tt.code || exit.Signal != tt.signal || exit.Cause != reason {
				t.Errorf("Run() = %+v, %v, want code %d, signal %v, cause %v", exit, err, tt.code, tt.signal, reason)
			}
			if sorted(out.text.String()) != sorted(tt.stdout) {
				t.Errorf("stdout %q, want %q", &out.text, tt.stdout)
			}
		})
	}
}

func sorted(s string) string { // lines of two processes come in any order
	lines := strings.SplitAfter(s, "\n")
	for i := range lines {
		for j := range i {
			if lines[i] < lines[j] {
				lines[i], lines[j] = lines[j], lines[i]
			}
		}
	}
	return strings.Join(lines, "")
}

// A trigger calls act once a text was written to it so many times.
type trigger struct {
	text  bytes.Buffer
	want  string
	times int
	act   func()
}

func onText(want string, act func()) *trigger { return &trigger{want: want, times: 1, act: act} }

func (w *trigger) Write(b []byte) (int, error) {
	w.text.Write(b)
	if w.act != nil && strings.Count(w.text.String(), w.want) == w.times {
		w.act()
		w.act = nil
	}
	return len(b), nil
}

func TestContextEndedBefore(t *testing.T) {
	h := host(t)
	reason := errors.New("too late")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(reason)
	exit, err := h.Run(ctx, sh(nil, "exit 0"))
	if !errors.Is(err, reason) || exit.Cause != reason || exit.Code != -1 {
		t.Errorf("Run() = %+v, %v, want %v", exit, err, reason)
	}
}

// TestContextAtAnyTime ends the context at random moments of a run.
func TestContextAtAnyTime(t *testing.T) {
	h := host(t)
	env, entry := mark(t)
	for i := range 100 {
		ctx, cancel := context.WithTimeout(t.Context(), time.Duration(i)*50*time.Microsecond)
		exit, err := h.Run(ctx, sh(env, "sleep 0.002 & setsid sleep 1000 & exit 0"))
		switch {
		case err == nil && exit.Cause == nil && exit.Code == 0:
		case errors.Is(exit.Cause, context.DeadlineExceeded) && (err == nil || err == exit.Cause || errors.Is(err, context.DeadlineExceeded)):
		default:
			t.Errorf("after %d: Run() = %+v, %v", i, exit, err)
		}
		if left := marked(t, entry); len(left) > 0 {
			t.Fatalf("after %d: running when Run returned: %v", i, left)
		}
		cancel()
	}
}

func TestKill(t *testing.T) {
	env, entry := mark(t)
	h := NewHost(Options{})
	type result struct {
		exit Exit
		err  error
	}
	results := make(chan result)
	var ready []chan struct{}
	for _, script := range []string{
		"trap '' INT; echo ready; while :; do sleep 1000; done",
		"sleep 1000 & setsid sleep 1000 & " + self("daemon") + "; echo ready; sleep 1000",
	} {
		c := make(chan struct{})
		ready = append(ready, c)
		go func() {
			spec := sh(env, script)
			spec.Stdout = onText("ready\n", func() { close(c) })
			exit, err := h.Run(t.Context(), spec)
			results <- result{exit, err}
		}()
	}
	agentReady := make(chan struct{})
	go func() {
		exit, err := h.Run(t.Context(), Spec{
			Kind: Agent, Args: []string{"jp", "as-tree", "1", "trap '' INT; " + stayers() + "echo ready; sleep 1000"}, Env: env,
			Stdout: onText("ready\n", func() { close(agentReady) }),
		})
		results <- result{exit, err}
	}()
	for _, c := range append(ready, agentReady) {
		<-c
	}
	h.Kill()
	for range 3 {
		if r := <-results; r.err != nil || r.exit.Cause != ErrKilled || r.exit.Signal != syscall.SIGKILL {
			t.Errorf("Run() = %+v, %v, want cause %v", r.exit, r.err, ErrKilled)
		}
	}
	if left := marked(t, entry); len(left) > 0 {
		t.Errorf("running after Kill: %v", left)
	}
	h.Kill() // once more changes nothing
	if _, err := h.Run(t.Context(), sh(nil, "exit 0")); !errors.Is(err, ErrClosed) {
		t.Errorf("Run() after Kill = %v, want %v", err, ErrClosed)
	}
	if err := h.Close(); err != nil {
		t.Errorf("Close() = %v", err)
	}
}

// TestWriterFails breaks the pipe of a program that writes for ever.
func TestWriterFails(t *testing.T) {
	h := host(t)
	full := errors.New("disk full")
	spec := sh(nil, "while :; do echo x; done")
	spec.Stdout = writer(func(b []byte) (int, error) { return 0, full })
	exit, err := h.Run(t.Context(), spec)
	if !errors.Is(err, full) || exit.Signal != syscall.SIGPIPE && exit.Code == 0 {
		t.Errorf("Run() = %+v, %v, want %v and a broken pipe", exit, err, full)
	}
}

type writer func(b []byte) (int, error)

func (w writer) Write(b []byte) (int, error) { return w(b) }

// TestWriterStuck and TestReaderStuck have the caller's own streams block.
func TestWriterStuck(t *testing.T) {
	h := host(t)
	ctx, cancel := context.WithCancel(t.Context())
	free := make(chan struct{})
	defer close(free)
	spec := sh(nil, "echo text; exit 5")
	spec.Stdout = writer(func(b []byte) (int, error) { cancel(); <-free; return len(b), nil })
	exit, err := h.Run(ctx, spec)
	if !errors.Is(err, errOutputStuck) {
		t.Errorf("Run() = %+v, %v, want %v", exit, err, errOutputStuck)
	}
}

func TestReaderStuck(t *testing.T) {
	h := host(t)
	r, w := io.Pipe()
	defer func() { _ = w.Close() }()
	spec := sh(nil, "exit 5")
	spec.Stdin = r
	if exit, err := h.Run(t.Context(), spec); err != nil || exit.Code != 5 {
		t.Errorf("Run() = %+v, %v, want code 5", exit, err)
	}
}

// TestSlowWriter loses nothing of what was in the pipe at the end.
func TestSlowWriter(t *testing.T) {
	h := host(t)
	n := 0
	spec := sh(nil, "head -c 300000 /dev/zero")
	spec.Stdout = writer(func(b []byte) (int, error) { time.Sleep(time.Millisecond); n += len(b); return len(b), nil })
	if exit, err := h.Run(t.Context(), spec); err != nil || exit.Code != 0 || n != 300000 {
		t.Errorf("Run() = %+v, %v, wrote %d, want 300000", exit, err, n)
	}
}

// TestOutputHeld hands the pipe to a process outside the tree: this one.
func TestOutputHeld(t *testing.T) {
	h := host(t)
	held := make(chan *os.File, 1)
	var out bytes.Buffer
	spec := sh(nil, "echo text; read x; exit 0")
	in, inw := io.Pipe()
	spec.Stdin = in
	tool := make(chan int, 1)
	spec.Started = func(pid int) { tool <- pid }
	spec.Stdout = writer(func(b []byte) (int, error) {
		f, err := os.OpenFile(fmt.Sprintf("/proc/%d/fd/1", <-tool), os.O_WRONLY, 0)
		if err != nil {
			t.Error(err)
		}
		held <- f
		_ = inw.Close()
		return out.Write(b)
	})
	exit, err := h.Run(t.Context(), spec)
	(<-held).Close()
	if !errors.Is(err, ErrOutputHeld) || exit.Code != 0 || out.String() != "text\n" {
		t.Errorf("Run() = %+v, %v, printed %q, want %v", exit, err, &out, ErrOutputHeld)
	}
}

// TestSameWriter keeps the order of one writer for both streams.
func TestSameWriter(t *testing.T) {
	h := host(t)
	var out bytes.Buffer
	spec := sh(nil, "for i in 1 2 3 4 5 6 7 8 9; do echo o$i; echo e$i >&2; done")
	spec.Stdout, spec.Stderr = &out, &out
	want := ""
	for i := 1; i <= 9; i++ {
		want += fmt.Sprintf("o%d\ne%d\n", i, i)
	}
	if _, err := h.Run(t.Context(), spec); err != nil || out.String() != want {
		t.Errorf("Run() = %v, printed %q, want %q", err, &out, want)
	}
	// Writers that cannot be compared are two.
	type odd struct {
		writer
		_ []int
	}
	w := odd{writer: func(b []byte) (int, error) { return len(b), nil }}
	spec.Stdout, spec.Stderr = w, w
	if _, err := h.Run(t.Context(), spec); err != nil {
		t.Errorf("Run() = %v", err)
	}
}

func TestFilesHandedOver(t *testing.T) {
	h := host(t)
	in, err := os.CreateTemp(t.TempDir(), "")
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	if _, err := in.WriteString("text"); err != nil {
		t.Fatal(err)
	}
	if _, err := in.Seek(0, 0); err != nil {
		t.Fatal(err)
	}
	r, w, err := os.Pipe() // not blocking here, which cat would trip over
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	spec := sh(nil, "cat; cat /proc/self/fdinfo/1 >&2")
	var info bytes.Buffer
	spec.Stdin, spec.Stdout, spec.Stderr = in, w, &info
	exit, err := h.Run(t.Context(), spec)
	w.Close()
	got, _ := io.ReadAll(r)
	if err != nil || exit.Code != 0 || string(got) != "text" {
		t.Errorf("Run() = %+v, %v, got %q", exit, err, got)
	}
	if strings.Contains(info.String(), "4001") { // O_NONBLOCK
		t.Errorf("stdout of the tool does not block: %q", &info)
	}
}

// TestNothingLeaks counts descriptors and goroutines over many runs of all kinds.
func TestNothingLeaks(t *testing.T) {
	h := NewHost(Options{})
	env, _ := mark(t)
	round := func(i int) {
		ctx := t.Context()
		spec := sh(env, "echo x; sleep 1000 & exit 0")
		switch i % 6 {
		case 1:
			spec.Path = "/nonexistent"
		case 2:
			spec.Kind, spec.Path, spec.Args = Agent, "", []string{"jp", "as-noop"}
		case 3:
			spec.Kind, spec.Path = Agent, "/nonexistent"
		case 4:
			var cancel context.CancelFunc
			ctx, cancel = context.WithTimeout(ctx, time.Millisecond)
			defer cancel()
			spec.Grace = time.Millisecond
		case 5:
			spec = sh(env, "kill -9 $PPID")
		}
		spec.Stdin, spec.Stdout, spec.Stderr = strings.NewReader("x"), io.Discard, io.Discard
		_, _ = h.Run(ctx, spec)
	}
	rounds := 1000
	if testing.Short() {
		rounds = 60
	}
	for i := range 24 {
		round(i)
	}
	var before, after []string
	count := func() []string { return append(descriptors(t), goroutines()...) }
	before = count()
	for i := range rounds {
		round(i)
	}
	wait(t, "descriptors and goroutines as before", func() bool {
		after = count()
		return len(after) <= len(before)
	})
	if err := h.Close(); err != nil {
		t.Error(err)
	}
	family.mu.Lock()
	defer family.mu.Unlock()
	if len(family.ours) != 0 {
		t.Errorf("children still in the table: %v", reflect.ValueOf(family.ours).MapKeys())
	}
}

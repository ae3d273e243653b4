package worker

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"jp/cmd/jp/internal/subprocess"
	"jp/cmd/jp/internal/trust"
	"jp/convstore"
	"jp/profiles"
	"jp/tools/proc"
)

// The test binary is a launcher (the first argument says which), a node, and a sub-agent, as
// processes of their own.
func TestMain(m *testing.M) {
	proc.Guard(os.Args)
	switch {
	case len(os.Args) > 2 && os.Args[len(os.Args)-1] == "worker":
		os.Exit(launchers[os.Args[1]]())
	case len(os.Args) > 2 && os.Args[0] == "jp" && os.Args[1] == "query":
		os.Exit(child(os.Args[2]))
	}
	os.Exit(m.Run())
}

// launchers are what stands between the owner and a node, or instead of a node.
var launchers = map[string]func() int{
	"plain": func() int { return node(os.Stdin) },
	"apart": func() int { // signals for the launcher are not for the node
		cmd := exec.Command("/proc/self/exe", "plain", "worker")
		cmd.Stdin, cmd.Stdout, cmd.Stderr, cmd.SysProcAttr = os.Stdin, os.Stdout, os.Stderr, &syscall.SysProcAttr{Setsid: true}
		if cmd.Run() != nil {
			return 1
		}
		return 0
	},
	"noisy": func() int {
		fmt.Print("Welcome to gpu1\n\nLast login: today")
		return node(os.Stdin)
	},
	"failing": func() int {
		fmt.Fprintln(os.Stderr, "no such host")
		return 0
	},
	"silent": func() int {
		_, _ = io.Copy(io.Discard, os.Stdin)
		return 0
	},
	"chatty": func() int {
		for {
			if _, err := io.WriteString(os.Stdout, "\x00\x00still here...\n"); err != nil {
				return 1
			}
		}
	},
	"endless": func() int {
		for {
			if _, err := os.Stdout.Write(make([]byte, 4096)); err != nil {
				return 1
			}
		}
	},
}

// node is jp worker.
func node(stdin io.Reader) int {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	host := proc.NewHost(proc.Options{})
	err := Node{Stdin: stdin, Stdout: os.Stdout, Host: host, Environ: os.Environ(), Build: "test", Warn: func(string, ...any) {}}.Serve(ctx)
	if left := host.Close(); err == nil {
		err = left
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "jp worker:", err)
		return 1
	}
	return 0
}

// child is a sub-agent.
func child(what string) int {
	in, err := proc.Inherit()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 9
	}
	in.Watch(func() {})
	interrupted := make(chan os.Signal, 1)
	signal.Notify(interrupted, os.Interrupt)
	switch what {
	case "echo": // stdin to stdout, the wire to the wire
		_, _ = io.Copy(os.Stdout, os.Stdin)
		fmt.Fprint(os.Stderr, "heard")
		_, _ = io.Copy(in.Wire, in.Wire)
		return 7
	case "wait":
		fmt.Println("waits")
		<-interrupted
		return 130
	case "deaf":
		fmt.Println("waits")
		select {}
	case "environ":
		for _, v := range os.Environ() {
			if !strings.HasPrefix(v, "PATH=") && !strings.HasPrefix(v, "HOME=") {
				fmt.Println(v)
			}
		}
	case "flood": // nobody reads its wire
		_, _ = io.Copy(in.Wire, io.LimitReader(zeros{}, 8<<20))
	case "tool": // runs one, and says which processes there are
		host := proc.NewHost(proc.Options{})
		_, err := host.Run(context.Background(), proc.Spec{
			Path: "sleep", Args: []string{"sleep", "3600"}, Env: os.Environ(), Grace: time.Hour,
			Started: func(pid int) { fmt.Println(os.Getppid(), os.Getpid(), parentOf(pid), pid) },
		})
		fmt.Fprintln(os.Stderr, err)
	case "killed":
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		select {}
	}
	return 0
}

// parentOf returns the parent of a process, 0 if it is gone.
func parentOf(pid int) int {
	b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	f := strings.Fields(string(b[strings.LastIndexByte(string(b), ')')+1:]))
	if len(f) < 2 {
		return 0
	}
	n, _ := strconv.Atoi(f[1])
	return n
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}

// pool returns a Pool with a launcher of this binary.
func pool(t *testing.T, launcher string, change func(*Options)) *Pool {
	t.Helper()
	root := t.TempDir()
	if err := os.MkdirAll(filepath.Join(root, ".jp"), 0o700); err != nil {
		t.Fatal(err)
	}
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	host := proc.NewHost(proc.Options{})
	o := Options{
		Name: "gpu", Host: host, Dir: root, Environ: os.Environ(), Workspace: trust.Sent{Root: root},
		Launcher: &profiles.Launcher{Command: []string{exe, launcher}, Program: "jp", Workers: 1, Children: 50, Starting: 8, Attempts: 1, Queue: 30 * time.Second, Lease: 30 * time.Second},
		Log:      slog.New(slog.DiscardHandler), Warn: func(string, ...any) {},
	}
	if change != nil {
		change(&o)
	}
	p := NewPool(o)
	t.Cleanup(func() {
		p.Close()
		if err := host.Close(); err != nil {
			t.Error(err)
		}
	})
	return p
}

// job is a job and what comes of it.
type job struct {
	subprocess.Job
	wire           net.Conn // our end
	stdout, stderr bytes.Buffer
	host           string
	started        chan int
}

func newJob(t testing.TB, args ...string) *job {
	t.Helper()
	ours, theirs, err := proc.Pair()
	if err != nil {
		t.Fatal(err)
	}
	conn, err := net.FileConn(ours)
	if err != nil {
		t.Fatal(err)
	}
	ours.Close()
	t.Cleanup(func() { conn.Close() })
	j := &job{wire: conn, started: make(chan int, 1)}
	j.Job = subprocess.Job{
		Args: func() []string { return append([]string{"jp", "query"}, args...) }, Stdout: &j.stdout, Stderr: &j.stderr, Wire: theirs, Parallel: 2,
		Idle:    func() func(context.Context) error { return func(context.Context) error { return nil } },
		Away:    func(host string, _ time.Duration) error { j.host = host; return nil },
		Started: func(host string, pid int) { j.started <- pid },
	}
	return j
}

// echo runs the job with text on its stdin and its wire, and returns what came back by the wire.
func (j *job) echo(t *testing.T, p *Pool, text []byte) (back []byte, exit proc.Exit, err error) {
	t.Helper()
	j.Stdin = text
	var said sync.WaitGroup
	said.Go(func() {
		_, _ = j.wire.Write(text)
		_ = j.wire.(*net.UnixConn).CloseWrite()
	})
	said.Go(func() { back, _ = io.ReadAll(j.wire) })
	exit, err = p.Run(t.Context(), j.Job)
	said.Wait()
	return back, exit, err
}

// TestRun runs a job and compares all that comes of it.
func TestRun(t *testing.T) {
	for _, launcher := range []string{"plain", "noisy"} {
		p := pool(t, launcher, nil)
		for _, size := range []int{0, 1, 1000, 3 << 20} {
			j := newJob(t, "echo")
			text := bytes.Repeat([]byte("a line\nand \x00\xff half"), size/16+1)[:size]
			back, exit, err := j.echo(t, p, text)
			host, _ := os.Hostname()
			if err != nil || exit.Code != 7 || exit.Cause != nil || exit.Duration == 0 || exit.MaxRSS == 0 {
				t.Errorf("%s: Run = %+v, %v", launcher, exit, err)
			}
			if !bytes.Equal(back, text) || !bytes.Equal(j.stdout.Bytes(), text) || j.stderr.String() != "heard" || j.host != host || <-j.started <= 0 {
				t.Errorf("%s: %d bytes: wire %d, stdout %d, stderr %q, host %q", launcher, size, len(back), j.stdout.Len(), &j.stderr, j.host)
			}
		}
	}
}

// TestMany runs 200 jobs on one connection, beside one whose wire nobody reads.
func TestMany(t *testing.T) {
	p := pool(t, "plain", func(o *Options) { o.Launcher.Children = 201 })
	slow := newJob(t, "flood")
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		_, err := p.Run(ctx, slow.Job)
		ended <- err
	}()
	<-slow.started
	var all sync.WaitGroup
	for i := range 200 {
		all.Go(func() {
			j := newJob(t, "echo")
			j.Stdin = fmt.Append(nil, "question ", i)
			go func() {
				_, _ = j.wire.Write([]byte("frame\n"))
				_ = j.wire.(*net.UnixConn).CloseWrite()
			}()
			exit, err := p.Run(t.Context(), j.Job)
			back, _ := bufio.NewReader(j.wire).ReadString('\n')
			if err != nil || exit.Code != 7 || back != "frame\n" || j.stdout.String() != string(j.Stdin) {
				t.Errorf("job %d: %+v, %v, wire %q, stdout %q", i, exit, err, back, &j.stdout)
			}
		})
	}
	all.Wait()
	select {
	case err := <-ended:
		t.Errorf("the job that nobody reads has ended: %v", err)
	default:
	}
	cancel()
	slow.wire.Close()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// TestStop stops jobs: one that ends when it is asked to, and one that does not.
func TestStop(t *testing.T) {
	p := pool(t, "plain", nil)
	why := errors.New("Ctrl-C")
	for _, tt := range []struct {
		what string
		want proc.Exit
	}{
		{"wait", proc.Exit{Code: 130, Cause: why}},
		{"deaf", proc.Exit{Code: -1, Signal: syscall.SIGKILL, Cause: why}},
	} {
		ctx, cancel := context.WithCancelCause(t.Context())
		j := newJob(t, tt.what)
		j.Stdout = onText("waits\n", func() { cancel(why) })
		exit, err := p.Run(ctx, j.Job)
		exit.Duration, exit.MaxRSS = 0, 0
		if err != nil || exit != tt.want {
			t.Errorf("%s: Run = %+v, %v, want %+v", tt.what, exit, err, tt.want)
		}
	}
}

// TestTooLong runs a job whose arguments are too long beside another one, which goes on.
func TestTooLong(t *testing.T) {
	p := pool(t, "plain", nil)
	ctx, cancel := context.WithCancelCause(t.Context())
	why := errors.New("Ctrl-C")
	other := newJob(t, "wait")
	other.Stdout = onText("waits\n", func() {
		for _, n := range []int{1, 2000} { // one that no node can execute, and many
			long := newJob(t, slices.Repeat([]string{strings.Repeat("x", max(200<<10/n, 200))}, n)...)
			if exit, err := p.Run(t.Context(), long.Job); !strings.HasSuffix(fmt.Sprint(err), syscall.E2BIG.Error()) || exit.Code != -1 {
				t.Errorf("%d arguments: Run = %+v, %.200v, want %v", n, exit, err, syscall.E2BIG)
			}
		}
		cancel(why)
	})
	exit, err := p.Run(ctx, other.Job)
	if err != nil || exit.Code != 130 || exit.Cause != why {
		t.Errorf("the other one: Run = %+v, %v", exit, err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.conns[0].doubtUntil != 0 {
		t.Error("a node got no more jobs because of the arguments of one")
	}
}

// TestFolderGone takes the temporary folder of a worker away: it ends, and the next job runs on another
// one.
func TestFolderGone(t *testing.T) {
	tmp := t.TempDir()
	p := pool(t, "plain", func(o *Options) { o.Environ = append(o.Environ, "TMPDIR="+tmp) })
	run := func() string {
		exit, err := p.Run(t.Context(), newJob(t, "environ").Job)
		return fmt.Sprint(exit.Code, " ", exit.Cause, " ", err)
	}
	const ok = "0 <nil> <nil>"
	if got := run(); got != ok {
		t.Fatal(got)
	}
	c := p.conns[0]
	folders, err := filepath.Glob(filepath.Join(tmp, folderName+"*"))
	if err != nil || len(folders) != 1 {
		t.Fatal(folders, err)
	}
	if err := os.RemoveAll(folders[0]); err != nil {
		t.Fatal(err)
	}
	if got := run(); got != ok {
		t.Errorf("without its folder: %s", got)
	}
	<-c.over
	if want := "the worker on " + c.host + " has ended: temporary folder: stat " + folders[0] + ": no such file or directory"; c.why.Reason != want {
		t.Errorf("its worker: %s, want %s", c.why.Reason, want)
	}
}

// onText calls f when text was written.
type onTextWriter struct {
	text string
	buf  []byte
	f    func()
}

func onText(text string, f func()) io.Writer { return &onTextWriter{text: text, f: sync.OnceFunc(f)} }

func (w *onTextWriter) Write(p []byte) (int, error) {
	if w.buf = append(w.buf, p...); strings.Contains(string(w.buf), w.text) {
		w.f()
	}
	return len(p), nil
}

// TestEnvironment compares the environment of a sub-agent with what it may have.
func TestEnvironment(t *testing.T) {
	t.Setenv("SOME_API_KEY", "secret")
	p := pool(t, "plain", nil)
	j := newJob(t, "environ")
	j.Environ = []string{"TRACEPARENT=00-1", "ANTHROPIC_API_KEY=secret", "LD_PRELOAD=x", "JP_STORE=/elsewhere", "HOME=/elsewhere"}
	if exit, err := p.Run(t.Context(), j.Job); err != nil || exit.Code != 0 {
		t.Fatalf("Run = %+v, %v", exit, err)
	}
	var names []string
	for line := range strings.Lines(j.stdout.String()) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		if names = append(names, name); name == "JP_STORE" && !strings.Contains(value, "jp-worker-") || name == "HOME" && value == "/elsewhere" {
			t.Errorf("environment has %s", line)
		}
	}
	for _, want := range []string{"JP_NONINTERACTIVE", "JP_STORE", "TRACEPARENT"} {
		if !slices.Contains(names, want) {
			t.Errorf("environment %q lacks %s", names, want)
		}
	}
	if strings.Contains(j.stdout.String(), "secret") || slices.Contains(names, "LD_PRELOAD") {
		t.Errorf("environment: %s", &j.stdout)
	}
}

// TestLaunchFails has launchers that lead to no node.
func TestLaunchFails(t *testing.T) {
	if got, want := (&ExitError{proc.Exit{Code: -1}}).Error(), "it ended, and nobody saw how"; got != want { // its guard was killed
		t.Errorf("Error() = %q, want %q", got, want)
	}
	for _, tt := range []struct {
		launcher string
		change   func(*Options)
		state    convstore.State
		want     string
	}{
		{"failing", nil, convstore.StateError, "launcher gpu: it ended (exit 0) before it led to a worker: no such host"},
		{"failing", func(o *Options) { o.Launcher.Attempts = 3 }, convstore.StateError, "launcher gpu: it ended (exit 0) before it led to a worker: no such host"},
		{"silent", func(o *Options) { o.Launcher.Queue = 100 * time.Millisecond }, convstore.StateError, "launcher gpu: nothing for 100ms, and said nothing"},
		{"endless", nil, convstore.StateError, "launcher gpu: it leads to no worker: a line of more than 65536 bytes"},
		{"chatty", nil, convstore.StateError, "launcher gpu: it leads to no worker: more than 64 KiB of other text and no worker: still here...; still here...; "},
		{"plain", func(o *Options) { o.Workspace.Root = "/nowhere" }, convstore.StateRefused, "launcher gpu: HOST: workspace /nowhere: not there"},
		{"plain", func(o *Options) { o.Launcher.Command = []string{"/nowhere/ssh"} }, convstore.StateError, "launcher gpu: exec /nowhere/ssh: no such file or directory before it led to a worker, and said nothing"},
	} {
		p := pool(t, tt.launcher, tt.change)
		for range 2 {
			j := newJob(t, "echo")
			exit, err := p.Run(t.Context(), j.Job)
			var end *subprocess.EndError
			host, _ := os.Hostname()
			if want := strings.ReplaceAll(tt.want, "HOST", host); !errors.As(err, &end) || exit.Code != -1 || end.State != tt.state || !strings.HasPrefix(end.Reason, want) || end.Hold != 0 {
				t.Errorf("%s: Run = %+v, %v, want %s: %s", tt.launcher, exit, err, tt.state, want)
			}
		}
	}
}

// TestLaunchAgain runs jobs where launches fail at first: another is tried after a pause, which is
// longer each time.
func TestLaunchAgain(t *testing.T) {
	p := pool(t, "later", nil)
	now := time.Hour
	p.clock = func() time.Duration { return now }
	run := func() string {
		exit, err := p.Run(t.Context(), newJob(t, "environ").Job)
		launched := 0
		for _, name := range []string{"first", "second"} {
			if _, err := os.Stat(filepath.Join(p.Dir, name)); err == nil {
				launched++
			}
		}
		return fmt.Sprint(exit.Code, " ", launched, " ", err)
	}
	const not = "launcher gpu: it ended (exit 1) before it led to a worker: not yet"
	for _, tt := range []struct {
		after time.Duration
		want  string
	}{
		{0, "-1 1 " + not},
		{pause - 1, "-1 1 " + not},
		{1, "-1 2 " + not},
		{2*pause - 1, "-1 2 " + not},
		{1, "0 2 <nil>"},
		{0, "0 2 <nil>"},
	} {
		now += tt.after
		if got := run(); got != tt.want {
			t.Fatalf("after %v: %s, want %s", tt.after, got, tt.want)
		}
	}
}

// TestProbe looks at a node.
func TestProbe(t *testing.T) {
	host, _ := os.Hostname()
	f := pool(t, "noisy", nil).Probe(t.Context())
	if f.Err != nil || f.Host != host || f.Build != "test" || f.Start <= 0 || f.Process <= 0 || f.RoundTrip <= 0 {
		t.Errorf("Probe = %+v", f)
	}
	if f = pool(t, "nameless", nil).Probe(t.Context()); f.Host != "gpu" {
		t.Errorf("a node without a name is called %q, want the launcher's name", f.Host)
	}
	// Of all that a process there says the last words are kept.
	if f = pool(t, "wordy", nil).Probe(t.Context()); f.Err == nil || f.Err.Step != StepProcess || !strings.HasSuffix(f.Err.Error(), "x the end") {
		t.Errorf("Probe = %.200v", f.Err)
	}
	// A process whose end is never said, by a node that is there.
	p := pool(t, "alive", func(o *Options) { o.Launcher.Lease = 300 * time.Millisecond })
	p.stopWait = 100 * time.Millisecond
	if f = p.Probe(t.Context()); f.Err == nil || f.Err.Step != StepProcess || f.Err.Error() != "the worker on gpu1 does not say how a sub-agent that was stopped has ended" {
		t.Errorf("Probe = %+v", f)
	}
	var ended *ExitError
	f = pool(t, "failing", nil).Probe(t.Context())
	if f.Err == nil || f.Err.Step != StepStart || f.Err.Error() != "launcher gpu: it ended (exit 0) before it led to a worker: no such host" || !errors.As(f.Err.Cause, &ended) {
		t.Errorf("Probe = %+v", f)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	why := errors.New("Ctrl-C")
	time.AfterFunc(10*time.Millisecond, func() { cancel(why) })
	if f = pool(t, "silent", nil).Probe(ctx); f.Err == nil || f.Err.Cause != why {
		t.Errorf("Probe = %+v", f)
	}
}

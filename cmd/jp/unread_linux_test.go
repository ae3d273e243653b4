package main

import (
	"bufio"
	"bytes"
	"io"
	"net"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"jp/convstore"
)

const jpStop syscall.Signal = -1

// TestUnreadOutput: a reader that stands still outlasts neither a deadline nor a signal. The run is
// settled as what it was.
func TestUnreadOutput(t *testing.T) {
	for _, tt := range []struct {
		name   string
		unread int // descriptor
		args   []string
		signal syscall.Signal // sent once the conversation is there; 0 = none; jpStop = by jp stop
		exit   int
		state  convstore.Status
	}{
		{"answer, deadline", 1, []string{"--timeout", "3s"}, 0, 124, "ok"},
		{"lines, deadline", 1, []string{"--timeout", "3s", "-F", "stream-json"}, 0, 124, "timeout"},
		{"chrome, deadline", 2, []string{"--timeout", "3s"}, 0, 124, "timeout"},
		{"error, deadline", 2, []string{"--timeout", "3s", "-q", "--title", "q", "fail"}, 0, 8, "error"},
		{"answer, signal", 1, nil, syscall.SIGTERM, 143, "ok"},
		{"lines, signal", 1, []string{"-F", "stream-json"}, syscall.SIGINT, 130, "cancelled"},
		{"chrome, signal", 2, nil, syscall.SIGINT, 130, "cancelled"},
		{"chrome, jp stop", 2, nil, jpStop, 130, "cancelled"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t, map[string]string{
				".jp/config.toml": "[assistant]\nmodel = \"script/m.toml\"\n[conversation.tools.fs_list_files]\nsource = \"builtin\"\nrun = \"unattended\"\n",
				"m.toml": "[[rule]]\nquery = \"fail\"\nerror = { kind = \"bad_request\", status = 400, message = \"no\" }\n[[rule]]\nround = 1\ntext = \"" + strings.Repeat("look ", 2000) + "\"\ntool_calls = [{ name = \"fs_list_files\", arguments = { path = \".\" } }]\n" +
					"[[rule]]\ntext = \"the answer\"\n",
			})
			room := 0
			if tt.name == "lines, signal" {
				room = 4096 // for the first line, which comes before the turn; that of the reply is longer
			}
			w := pipeWithRoom(t, room)
			cmd := &exec.Cmd{Path: "/proc/self/exe", Args: append([]string{"jp", "query", "--new", "q"}, tt.args...), Dir: s.dir, Env: s.environ()}
			if cmd.Stdout = w; tt.unread == 2 {
				cmd.Stdout, cmd.Stderr = nil, w
			}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			w.Close()
			if tt.signal != 0 {
				s.eventually("the turn", func() bool {
					c := s.all()["q"]
					if tt.state == "ok" {
						return s.ended(c.ID)
					}
					if tt.signal == jpStop { // the line of the tool call is written then
						return c.ID != 0 && slices.ContainsFunc(s.events(c.ID), func(ev convstore.Event) bool { _, called := ev.Body.(convstore.ToolCall); return called })
					}
					return c.Status == convstore.StatusRunning && c.Turns > 0 // before the turn nothing is kept
				})
				if tt.signal != jpStop {
					_ = cmd.Process.Signal(tt.signal)
				} else if out, status := s.jp("stop", s.all()["q"].ID.String()); status != 0 {
					t.Error(out)
				}
			}
			over := make(chan error, 1)
			go func() { over <- cmd.Wait() }()
			s.eventually("jp to end", func() bool { return len(over) > 0 })
			<-over
			if got := cmd.ProcessState.ExitCode(); got != tt.exit {
				t.Errorf("exit = %d, want %d", got, tt.exit)
			}
			if got := s.all()["q"].Status; got != tt.state {
				t.Errorf("status = %s, want %s", got, tt.state)
			}
		})
	}
}

// TestUnreadBatch: a batch whose rows nobody reads ends with the signal that stopped it, and says
// so once.
func TestUnreadBatch(t *testing.T) {
	for _, sig := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM} {
		s := newSite(t, map[string]string{
			".jp/config.toml":         "[assistant]\nmodel = \"script/m.toml\"\n",
			".jp/config/agent/r.toml": "[loader]\nreset = \"none\"\n[assistant]\nmodel = \"script/m.toml\"\n",
			"m.toml":                  "[[rule]]\ntext = \"the answer\"\n",
		})
		w := pipeWithRoom(t, 0)
		var stderr bytes.Buffer
		cmd := &exec.Cmd{
			Path: "/proc/self/exe", Args: []string{"jp", "batch", "-q", "-c", "agent/r"}, Dir: s.dir, Env: s.environ(),
			Stdin: strings.NewReader("\"one\"\n\"two\"\n"), Stdout: w, Stderr: &stderr,
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		w.Close()
		s.eventually("an answer", func() bool { return s.ended(s.all()["one"].ID) })
		_ = cmd.Process.Signal(sig)
		over := make(chan error, 1)
		go func() { over <- cmd.Wait() }()
		s.eventually("jp to end", func() bool { return len(over) > 0 })
		<-over
		if got, want := cmd.ProcessState.ExitCode(), 128+int(sig); got != want || strings.Count(stderr.String(), "nobody reads it") != 1 {
			t.Errorf("%v: exit = %d, want %d; stderr:\n%s", sig, got, want, stderr.String())
		}
	}
}

// TestUnreadBatchStopped: jp stop ends a batch whose notes nobody reads.
func TestUnreadBatchStopped(t *testing.T) {
	s := newSite(t, map[string]string{
		".jp/config.toml":         "[assistant]\nmodel = \"script/m.toml\"\n",
		".jp/config/agent/r.toml": "[loader]\nreset = \"none\"\n[assistant]\nmodel = \"script/m.toml\"\n",
		"m.toml":                  "[[rule]]\ntext = \"the answer\"\n",
	})
	cmd := &exec.Cmd{
		Path: "/proc/self/exe", Args: []string{"jp", "batch", "-c", "agent/r"}, Dir: s.dir, Env: s.environ(),
		Stdin: strings.NewReader("\"one\"\n"), Stderr: pipeWithRoom(t, 0),
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	s.eventually("the batch", func() bool { return len(s.conversations()) > 0 }) // it says so then
	if out, status := s.jp("stop", s.conversations()[0].ID.String()); status != 0 {
		t.Errorf("jp stop: %s", out)
		_ = cmd.Process.Kill()
	}
	_ = cmd.Wait()
	if got := cmd.ProcessState.ExitCode(); got != 130 {
		t.Errorf("exit = %d, want 130", got)
	}
}

// TestWaitDeadline: neither a jp wait whose lines nobody reads outlasts its deadline, nor one for whose ids
// nobody closes the pipe.
func TestWaitDeadline(t *testing.T) {
	s := newSite(t, map[string]string{".jp/config.toml": "[assistant]\nmodel = \"script/m.toml\"\n", "m.toml": "[[rule]]\ntext = \"the answer\"\n"})
	if out, status := s.jp("query", "--new", "q"); status != 0 {
		t.Fatal(out)
	}
	open, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	for _, word := range []string{s.all()["q"].ID.String(), "-"} {
		cmd := &exec.Cmd{Path: "/proc/self/exe", Args: []string{"jp", "wait", "--timeout", "1s", word}, Dir: s.dir, Env: s.environ(), Stdin: open, Stdout: pipeWithRoom(t, 0)}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		over := make(chan error, 1)
		go func() { over <- cmd.Wait() }()
		s.eventually("jp to end", func() bool { return len(over) > 0 })
		<-over
		if got := cmd.ProcessState.ExitCode(); got != 124 {
			t.Errorf("jp wait %s: exit = %d, want 124", word, got)
		}
	}
}

// TestUnreadTraces: a warning that nobody reads, of a collector that does not answer, outlasts no deadline.
func TestUnreadTraces(t *testing.T) {
	s := newSite(t, map[string]string{".jp/config.toml": "[assistant]\nmodel = \"script/m.toml\"\n", "m.toml": "[[rule]]\ntext = \"the answer\"\n"})
	collector, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer collector.Close()
	cmd := &exec.Cmd{
		Path: "/proc/self/exe", Args: []string{"jp", "query", "--new", "--timeout", "3s", "q"}, Dir: s.dir,
		Env: append(s.environ(), "OTEL_EXPORTER_OTLP_ENDPOINT=http://"+collector.Addr().String()), Stderr: pipeWithRoom(t, 0),
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	over := make(chan error, 1)
	go func() { over <- cmd.Wait() }()
	s.eventually("jp to end", func() bool { return len(over) > 0 })
	<-over
	if got := cmd.ProcessState.ExitCode(); got != 0 {
		t.Errorf("exit = %d, want 0", got)
	}
}

// TestUnreadClient: a client that reads nothing between two runs outlasts neither a deadline nor a
// signal.
func TestUnreadClient(t *testing.T) {
	for _, tt := range []struct {
		args   []string
		signal syscall.Signal // 0 = none
		exit   int
	}{
		{[]string{"--timeout", "5s"}, 0, 124},
		{nil, syscall.SIGTERM, 143},
	} {
		c := clientSite(t).clientRun(tt.args...)
		c.say("dear")
		c.until("result")
		if _, err := unix.FcntlInt(c.out.Fd(), unix.F_SETPIPE_SZ, 4096); err != nil {
			t.Fatal(err)
		}
		for range 20 {
			c.send(`{"type":"user","message":{"role":"user","content":[{"type":"image"}]}}`)
		}
		for unread := 0; unread < 3000; { // the next result does not fit
			var err error
			if unread, err = unix.IoctlGetInt(int(c.out.Fd()), unix.TIOCINQ); err != nil {
				t.Fatal(err)
			}
		}
		if tt.signal != 0 {
			_ = c.cmd.Process.Signal(tt.signal)
		}
		if err := unix.Waitid(unix.P_PID, c.cmd.Process.Pid, nil, unix.WEXITED|unix.WNOWAIT, nil); err != nil {
			t.Fatal(err)
		}
		for c.lines.Scan() { // what fitted
		}
		if status := c.end(); status != tt.exit {
			t.Errorf("%v: status %d, want %d; stderr = %s", tt.args, status, tt.exit, &c.said)
		}
	}
}

// TestUnreadErrors: the messages that a signal leaves decide the status, also behind an error that nobody reads.
func TestUnreadErrors(t *testing.T) {
	s := clientSite(t)
	cmd := &exec.Cmd{
		Path: "/proc/self/exe", Args: []string{"jp", "query", "--input-format", "stream-json", "--output-format", "stream-json"}, Dir: s.dir, Env: s.environ(),
		Stderr: pipeWithRoom(t, 0),
	}
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(in, strings.Repeat(`{"type":"user","message":{"role":"user","content":[{"type":"image"}]}}`+"\n", 3)); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	lines.Scan() // the result of the first one
	_ = cmd.Process.Signal(syscall.SIGTERM)
	for lines.Scan() {
	}
	_ = cmd.Wait()
	if got := cmd.ProcessState.ExitCode(); got != 143 {
		t.Errorf("exit = %d, want 143", got)
	}
}

// TestReaderLeaves: a run whose lines can no longer be written is ended in order, with its
// sub-agents. It does not go on for nobody.
func TestReaderLeaves(t *testing.T) {
	for _, tt := range []struct {
		name  string
		full  bool   // the disk is full; else the reader leaves
		until string // what the reader reads before it leaves
		exit  int
		asked int // calls of the main agent's model
	}{
		{"before the first line", false, "", 141, 0},
		{"while sub-agents work", false, `"phase":"started"`, 141, 1},
		{"a full disk", true, "", 1, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			profile := "[loader]\nreset = \"none\"\n[assistant]\nmodel = \"script/m.toml\"\n"
			s := newSite(t, map[string]string{
				".jp/config.toml": "[assistant]\nmodel = \"script/m.toml\"\n[delegation]\nprofiles = [\"agent/r\"]\n" +
					"[conversation.tools.jp_batch_query]\nrun = \"unattended\"\n",
				".jp/config/agent/r.toml": profile,
				"m.toml": "[[rule]]\nquery = \"hang\"\nhang = true\n[[rule]]\nquery = \"quick\"\ntext = \"an answer\"\n[[rule]]\nround = 1\n" +
					"tool_calls = [{ name = \"jp_batch_query\", arguments = { max_parallel = 1, queries = [{ config = \"agent/r\", query = \"quick\" }, { config = \"agent/r\", query = \"hang\" }] } }]\n",
			})
			r, w, err := os.Pipe()
			if tt.full {
				w, err = os.OpenFile("/dev/full", os.O_WRONLY, 0)
			}
			if err != nil {
				t.Fatal(err)
			}
			if tt.until == "" {
				r.Close()
			}
			var stderr bytes.Buffer
			cmd := &exec.Cmd{
				Path: "/proc/self/exe", Args: []string{"jp", "query", "--new", "--title", "caller", "-F", "stream-json", "q"}, Dir: s.dir, Env: s.environ(),
				Stdout: w, Stderr: &stderr,
			}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			w.Close()
			if tt.until != "" {
				for in := bufio.NewScanner(r); in.Scan() && !strings.Contains(in.Text(), tt.until); {
				}
				r.Close()
			}
			over := make(chan error, 1)
			go func() { over <- cmd.Wait() }()
			s.eventually("jp to end", func() bool { return len(over) > 0 })
			<-over
			if got := cmd.ProcessState.ExitCode(); got != tt.exit {
				t.Errorf("exit = %d, want %d\n%s", got, tt.exit, stderr.String())
			}
			caller, asked := s.all()["caller"], 0
			for _, ev := range s.events(caller.ID) {
				if _, ok := ev.Body.(convstore.ModelCall); ok {
					asked++
				}
			}
			if caller.Status != "cancelled" || asked != tt.asked {
				t.Errorf("status = %s with %d calls of the model, want cancelled with %d", caller.Status, asked, tt.asked)
			}
		})
	}
}

// pipeWithRoom returns the end of a pipe that takes so many bytes more, at most 4096, and that
// nobody reads.
func pipeWithRoom(t *testing.T, room int) *os.File {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.Close() })
	size, err := unix.FcntlInt(w.Fd(), unix.F_SETPIPE_SZ, 4096)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.WriteString(strings.Repeat("x", size-room)); err != nil {
		t.Fatal(err)
	}
	return w
}

// ended reports whether the last event of a conversation is the end of a turn.
func (s *site) ended(id convstore.ID) (over bool) {
	s.t.Helper()
	if id == 0 {
		return false
	}
	for ev, err := range s.store.Events(s.t.Context(), id, convstore.Range{}) {
		if err != nil {
			s.t.Fatal(err)
		}
		_, over = ev.Body.(convstore.TurnEnd)
	}
	return over
}

// TestLostSocket: a jp in a tool whose program closed the socket of the call, as Python and Node do,
// says so. It does not take a stdout that is a socket for it: nobody would answer there.
func TestLostSocket(t *testing.T) {
	for _, number := range []string{"3", "4", "5", "6"} { // Go's runtime may have opened two before
		ours, theirs := pair(t)
		var said bytes.Buffer
		cmd := &exec.Cmd{Path: "/proc/self/exe", Args: []string{"jp", "version"}, Env: []string{"JP_CALL_FD=" + number}, Stdout: theirs, Stderr: &said}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		theirs.Close()
		asked, err := ours.Read(make([]byte, 1))
		ours.Close() // the end of a jp that asked
		_ = cmd.Wait()
		if want := "jp: inside a tool: descriptor " + number + ": not the socket that a tool is given\n"; asked > 0 || err != io.EOF || cmd.ProcessState.ExitCode() != 6 || said.String() != want {
			t.Errorf("descriptor %s: %d bytes on stdout, %v, exit %d: %s", number, asked, err, cmd.ProcessState.ExitCode(), said.String())
		}
	}
}

// pair returns both ends of a socket.
func pair(t *testing.T) (ours, theirs *os.File) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	return os.NewFile(uintptr(fds[0]), "ours"), os.NewFile(uintptr(fds[1]), "theirs")
}

// TestUnwritableOutput: a signal says how a run ended, also where its result cannot be written, as to
// a terminal that has hung up.
func TestUnwritableOutput(t *testing.T) {
	s := newSite(t, map[string]string{".jp/config.toml": "[assistant]\nmodel = \"script/m.toml\"\n", "m.toml": "[[rule]]\nhang = true\n"})
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer full.Close()
	cmd := &exec.Cmd{Path: "/proc/self/exe", Args: []string{"jp", "query", "--new", "-F", "json", "q"}, Dir: s.dir, Env: s.environ(), Stdout: full}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	s.eventually("the turn", func() bool { c := s.all()["q"]; return c.Status == convstore.StatusRunning && c.Turns > 0 })
	_ = cmd.Process.Signal(syscall.SIGHUP)
	_ = cmd.Wait()
	if c := s.all()["q"]; cmd.ProcessState.ExitCode() != 129 || c.Status != "cancelled" {
		t.Errorf("exit %d, conversation %s; want 129, cancelled", cmd.ProcessState.ExitCode(), c.Status)
	}
}

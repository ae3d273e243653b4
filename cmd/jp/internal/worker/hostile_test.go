package worker

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"jp/cmd/jp/internal/subprocess"
	"jp/cmd/jp/internal/trust"
	"jp/cmd/jp/internal/wire"
	"jp/convstore"
	"jp/tools/proc"
)

// fake is a node that does not keep to the rules. do is called when a channel was opened.
func fake(change func(*hello), do func(l *lines)) func() int {
	return func() int {
		l := newLines(os.Stdin, os.Stdout)
		s, err := l.readStart()
		if err != nil {
			return 1
		}
		h := hello{Protocol: Protocol, Wire: wire.Protocol, Nonce: s.Nonce, Build: "fake", Host: "gpu1"}
		if change != nil {
			change(&h)
		}
		if l.writeFirst(helloWord, h) != nil {
			return 1
		}
		for {
			m, err := l.next()
			if err != nil {
				return 1
			}
			if m.verb == verbOpen {
				do(l)
				break
			}
		}
		_, _ = io.Copy(io.Discard, os.Stdin)
		return 0
	}
}

// raw is a node that says a text when a channel was opened.
func raw(text string) func() int {
	return fake(nil, func(*lines) { _, _ = io.WriteString(os.Stdout, text) })
}

const exitLine = `1 exit 1 {"code":0,"duration":1}` + "\n"

func init() {
	for name, f := range map[string]func() int{
		"old":        fake(func(h *hello) { h.Protocol = 7 }, nil),
		"old-wire":   fake(func(h *hello) { h.Wire = wire.Protocol + 1 }, nil),
		"nonce":      fake(func(h *hello) { h.Nonce = "another" }, nil),
		"lacks":      fake(func(h *hello) { h.Lacks = []string{"a sandbox\x1b[2J"} }, nil),
		"nameless":   fake(func(h *hello) { h.Host = " " }, func(*lines) { _, _ = io.WriteString(os.Stdout, "1 alive 0 1\n2 exit 1 {\"code\":0,\"duration\":1}\n") }),
		"ok":         raw(exitLine),
		"again":      raw("1 alive 0 1\n1 alive 0 1\n2 exit 1 {\"code\":0,\"duration\":1}\n2 exit 1 {}\n"),
		"second":     raw("\njp-worker {\"protocol\":1}\n"),
		"nonsense":   raw("Connection to gpu1 will be closed soon.\n"),
		"gap":        raw("2 alive 0 1\n"),
		"ghost":      raw("1 out 2 hi\n"),
		"none":       raw("1 out 0 hi\n"),
		"node-verb":  raw("1 open 1 {}\n"),
		"unknown":    raw("1 sing 1 la\n"),
		"credit":     raw("1 credit 1 wire 1\n"),
		"credit-out": raw("1 credit 1 out 1\n"),
		"pid":        raw("1 started 1 {\"pid\":-1}\n"),
		"twice":      raw("1 started 1 {\"pid\":1}\n2 started 1 {\"pid\":2}\n"),
		"no-exit":    raw("1 exit 1 none\n"),
		"exit-twice": raw("1 exit 1 {\"code\":0,\"duration\":1}\n2 exit 1 {\"code\":0,\"duration\":1}\n"),
		"chunk":      raw("1 wire 1 " + strings.Repeat("x", maxChunk+1) + "\n"),
		"long":       raw("1 exit 1 " + strings.Repeat("x", maxLine) + "\n"),
		"overrun": fake(nil, func(l *lines) {
			for range 8 << 20 / maxChunk { // nobody reads the wire
				_ = l.write(message{verb: streamWire, channel: 1, text: make([]byte, maxChunk)})
			}
		}),
		"late": fake(nil, func(l *lines) { // gives credit to a process that has ended, while another one runs
			for m, err := l.next(); err == nil && m.verb != verbOpen; m, err = l.next() {
			}
			_, _ = io.WriteString(os.Stdout, "1 exit 2 {\"code\":0,\"duration\":1}\n2 credit 2 wire 1\n3 exit 1 {\"code\":0,\"duration\":1}\n")
		}),
		"wordy":       raw("1 err 1 " + strings.Repeat("x", maxChunk) + "\n2 err 1 the end\n3 exit 1 {\"code\":1,\"duration\":1}\n"),
		"bye":         raw("1 bye 1 terminated\n"),
		"bye-twice":   raw("1 bye 1 terminated\n2 bye 1 terminated\n"),
		"bye-later":   raw("1 bye 2 terminated\n"),
		"bye-started": raw("1 started 1 {\"pid\":1}\n2 bye 0 terminated\n"),
		"dead": fake(nil, func(*lines) {
			fmt.Fprintln(os.Stderr, "no route")
			os.Exit(3)
		}),
		"closes": fake(nil, func(*lines) {
			os.Stdout.Close()
			time.Sleep(time.Hour)
		}),
		"mute": raw(""),
		"alive": fake(nil, func(l *lines) { // and never says how the child has ended
			for l.write(message{verb: verbAlive, text: l.mark()}) == nil {
				time.Sleep(20 * time.Millisecond)
			}
		}),
		"asks": fake(nil, func(l *lines) { // and reads nothing
			for l.write(message{verb: verbAlive, text: l.mark()}) == nil {
			}
		}),
		"half": func() int { // reads the beginning of the first line and no more
			first := make([]byte, 1024)
			_, _ = io.ReadFull(os.Stdin, first)
			_, nonce, _ := strings.Cut(string(first), `"nonce":"`)
			nonce, _, _ = strings.Cut(nonce, `"`)
			_ = newLines(nil, os.Stdout).writeFirst(helloWord, hello{Protocol: Protocol, Wire: wire.Protocol, Nonce: nonce, Host: "gpu1"})
			select {}
		},
		"later": func() int { // leads to a node the third time
			if os.Mkdir("first", 0o700) == nil || os.Mkdir("second", 0o700) == nil {
				fmt.Fprintln(os.Stderr, "not yet")
				return 1
			}
			return node(os.Stdin)
		},
		"unfit": func() int { // leads to a node where nothing can be run the first time
			if os.Mkdir("first", 0o700) != nil {
				return node(os.Stdin)
			}
			return fake(nil, func(l *lines) {
				for m, err := (message{verb: verbOpen, channel: 1}), error(nil); err == nil; m, err = l.next() {
					if m.verb == verbOpen {
						_ = l.write(says(verbExit, m.channel, exited{Code: -1, Error: "no process"}))
					}
				}
			})()
		},
		"dying": func() int { // leads to a node where each process dies at once the first time
			if os.Mkdir("first", 0o700) != nil {
				return node(os.Stdin)
			}
			return fake(nil, func(l *lines) {
				for m, err := (message{verb: verbOpen, channel: 1}), error(nil); err == nil; m, err = l.next() {
					if m.verb == verbOpen {
						_ = l.write(says(verbStarted, m.channel, started{PID: 1}), message{verb: streamErr, channel: m.channel, text: []byte("no memory")}, says(verbExit, m.channel, exited{Code: 2}))
					}
				}
			})()
		},
		"leaving": func() int { // leads to a node that says the first time that it ends, and does not
			if os.Mkdir("first", 0o700) != nil {
				return node(os.Stdin)
			}
			return fake(nil, func(l *lines) {
				for m, err := (message{verb: verbOpen, channel: 1}), error(nil); err == nil; m, err = l.next() {
					if m.verb == verbOpen {
						_ = l.write(message{verb: verbBye, channel: m.channel, text: []byte("ended by SIGTERM")}, says(verbExit, m.channel, exited{Code: 130, Stopped: "ended by SIGTERM"}))
					}
				}
			})()
		},
		"relapsing": func() int { // leads to no node the second time
			if os.Mkdir("first", 0o700) != nil && os.Mkdir("second", 0o700) == nil {
				return 1
			}
			return node(os.Stdin)
		},
		"pending": func() int { // leads to a node the first time, and then nowhere
			if os.Mkdir("pending", 0o700) != nil {
				_, _ = io.Copy(io.Discard, os.Stdin)
				return 1
			}
			return node(os.Stdin)
		},
		"two": func() int { // two workers answer at the same time, as tasks of srun do
			file, _ := os.OpenFile("launches", os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
			_, _ = file.WriteString("x")
			s, _ := newLines(os.Stdin, nil).readStart()
			var both bytes.Buffer
			for range 2 {
				_ = newLines(nil, &both).writeFirst(helloWord, hello{Protocol: Protocol, Wire: wire.Protocol, Nonce: s.Nonce, Host: "gpu1"})
			}
			_, _ = os.Stdout.Write(both.Bytes())
			_, _ = io.Copy(io.Discard, os.Stdin)
			return 0
		},
		"once": func() int { // leads to a node the first time
			if os.Mkdir("once", 0o700) != nil {
				fmt.Fprintln(os.Stderr, "no second node")
				return 1
			}
			return node(os.Stdin)
		},
	} {
		launchers[name] = f
	}
}

func (l *lines) mark() []byte { return fmt.Append(nil, l.sent+1) }

// TestNodeBreaksRules runs a job on nodes that do not keep to the rules.
func TestNodeBreaksRules(t *testing.T) {
	for _, tt := range []struct {
		launcher string
		state    convstore.State
		want     string // reason; "" = the job ends with 0
	}{
		{"old", convstore.StateError, "launcher gpu: the worker on gpu1 speaks protocol 7, and this jp 2"},
		{"old-wire", convstore.StateError, fmt.Sprintf("launcher gpu: the sub-agents on gpu1 speak protocol %d, and this jp %d", wire.Protocol+1, wire.Protocol)},
		{"nonce", convstore.StateError, "launcher gpu: the worker on gpu1 answers another jp"},
		{"lacks", convstore.StateRefused, `launcher gpu: gpu1: its sandbox cannot enforce a sandbox\x1b[2J`},
		{"ok", "", ""},
		{"again", "", ""},
		{"second", convstore.StateError, "a second worker has answered"},
		{"nonsense", convstore.StateError, `"Connection to gpu1 will be closed soon.": not a line of a worker`},
		{"gap", convstore.StateError, "line 2 after line 0"},
		{"ghost", convstore.StateError, `"out" for channel 2, which is not open`},
		{"none", convstore.StateError, `"1 out 0 hi": not a line of a worker`},
		{"node-verb", convstore.StateError, `"open": not for an owner`},
		{"unknown", convstore.StateError, `"sing": not for an owner`},
		{"credit", convstore.StateError, `"credit" of channel 1: not allowed now`},
		{"credit-out", convstore.StateError, `"credit" of channel 1: not allowed now`},
		{"pid", convstore.StateError, `"started" of channel 1: not allowed now`},
		{"twice", convstore.StateError, `"started" of channel 1: not allowed now`},
		{"no-exit", convstore.StateError, `"exit" of channel 1: not allowed now`},
		{"exit-twice", "", ""},
		{"chunk", convstore.StateError, "32769 bytes of a stream in one line"},
		{"long", convstore.StateError, "a line of more than 262144 bytes"},
		{"overrun", convstore.StateError, `"wire" of channel 1: not allowed now`},
		{"bye", convstore.StateLost, "the worker on gpu1 has ended: terminated"},
		{"bye-twice", convstore.StateError, "bye after channel 1"},
		{"bye-later", convstore.StateError, "bye after channel 2"},
		{"bye-started", convstore.StateError, "bye after channel 0, and channel 1 had begun"},
		{"dead", convstore.StateLost, "launcher gpu: it ended (exit 3), and with it the connection to gpu1: no route"},
		{"closes", convstore.StateLost, "the worker on gpu1 has ended without a word"},
		{"mute", convstore.StateLost, "no word for 300ms from gpu1"},
	} {
		t.Run(tt.launcher, func(t *testing.T) {
			t.Parallel()
			p := pool(t, tt.launcher, func(o *Options) {
				if o.Launcher.Lease = 5 * time.Second; tt.launcher == "mute" {
					o.Launcher.Lease = 300 * time.Millisecond
				}
			})
			j := newJob(t, "echo")
			exit, err := p.Run(t.Context(), j.Job)
			if tt.want == "" {
				if err != nil || exit.Code != 0 {
					t.Fatalf("Run = %+v, %v", exit, err)
				}
				return
			}
			want := tt.want
			if tt.state == convstore.StateError && !strings.HasPrefix(want, "launcher") {
				want = "the worker on gpu1 broke the protocol: " + want
			}
			var end *subprocess.EndError
			if !errors.As(err, &end) || exit.Code != -1 || end.State != tt.state || end.Reason != want || end.Hold != 0 {
				t.Errorf("Run = %+v, %v, want %s: %s", exit, err, tt.state, want)
			}
		})
	}
}

// TestLateCredit has a node give credit to a process whose end it has said, while another one runs.
func TestLateCredit(t *testing.T) {
	p := pool(t, "late", nil)
	var all sync.WaitGroup
	for range 2 {
		all.Go(func() {
			if exit, err := p.Run(t.Context(), newJob(t, "echo").Job); err != nil || exit.Code != 0 {
				t.Errorf("Run = %+v, %v", exit, err)
			}
		})
	}
	all.Wait()
}

// TestNodeNeverEnds stops a job of a node that does not say how it has ended.
func TestNodeNeverEnds(t *testing.T) {
	p := pool(t, "alive", func(o *Options) { o.Launcher.Lease = 300 * time.Millisecond })
	p.stopWait = 100 * time.Millisecond
	ctx, cancel := context.WithCancelCause(t.Context())
	why := errors.New("Ctrl-C")
	time.AfterFunc(100*time.Millisecond, func() { cancel(why) }) // either before it was opened or later
	exit, err := p.Run(ctx, newJob(t, "echo").Job)
	var end *subprocess.EndError
	if errors.As(err, &end) && end.State != convstore.StateLost || exit.Cause != why {
		t.Errorf("Run = %+v, %v", exit, err)
	}
}

// TestNodeReadsNothing writes much to nodes that answer but do not read.
func TestNodeReadsNothing(t *testing.T) {
	j := newJob(t, "echo")
	go func() { _, _ = io.Copy(j.wire, io.LimitReader(zeros{}, 1<<20)) }()
	j.Stdin = make([]byte, 1<<20)
	p := pool(t, "asks", func(o *Options) { o.Launcher.Lease = time.Second })
	ended := make(chan error, 1)
	before := runtime.NumGoroutine()
	go func() {
		_, err := p.Run(t.Context(), j.Job)
		ended <- err
	}()
	look := time.NewTicker(10 * time.Millisecond)
	defer look.Stop()
	for most := before; ; {
		select {
		case <-look.C:
			most = max(most, runtime.NumGoroutine())
			continue
		case err := <-ended:
			var end *subprocess.EndError
			if !errors.As(err, &end) || end.State != convstore.StateLost {
				t.Errorf("Run = %v", err)
			}
		}
		if most > before+50 {
			t.Errorf("%d goroutines, %d before", most, before)
		}
		break
	}

	p = pool(t, "half", func(o *Options) {
		o.Launcher.Queue, o.Workspace.Copied, o.Workspace.Files = 500*time.Millisecond, true, map[string][]byte{".jp/config.toml": make([]byte, 1<<20)}
	})
	_, err := p.Run(t.Context(), newJob(t, "echo").Job)
	var end *subprocess.EndError
	if !errors.As(err, &end) || end.State != convstore.StateError {
		t.Errorf("Run = %v", err)
	}
}

// TestDepth runs a sub-agent of one that has the only place of its depth.
func TestDepth(t *testing.T) {
	p := pool(t, "plain", func(o *Options) { o.Launcher.Children = 1 })
	ctx, cancel := context.WithCancel(t.Context())
	above, below := newJob(t, "wait"), newJob(t, "environ")
	above.Depth, below.Depth = 1, 2
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_, _ = p.Run(ctx, above.Job)
	}()
	<-above.started
	if exit, err := p.Run(t.Context(), below.Job); err != nil || exit.Code != 0 {
		t.Errorf("Run = %+v, %v", exit, err)
	}
	cancel()
	<-ended
}

// TestSecondNode runs jobs where the launcher leads to one node only: those that would go to a
// second one go to the first, as many as it may have.
func TestSecondNode(t *testing.T) {
	p := pool(t, "once", func(o *Options) { o.Launcher.Workers, o.Launcher.Children = 2, 2 })
	ctx, cancel := context.WithCancel(t.Context())
	var all sync.WaitGroup
	for range 2 {
		j := newJob(t, "wait")
		j.Stdout = onText("waits\n", func() { j.started <- 0 })
		j.Started = func(string, int) {}
		all.Go(func() {
			if _, err := p.Run(ctx, j.Job); err != nil {
				t.Error(err)
				close(j.started)
			}
		})
		<-j.started
	}
	p.mu.Lock()
	if c, _, err := p.pick(0, 2); c != nil || err != nil {
		t.Errorf("a third job: %v, %v, want it to wait", c, err)
	}
	p.mu.Unlock()
	third := newJob(t, "environ")
	all.Go(func() {
		if exit, err := p.Run(t.Context(), third.Job); err != nil || exit.Code != 0 {
			t.Errorf("Run = %+v, %v", exit, err)
		}
	})
	cancel()
	all.Wait()
}

// TestPending runs a job while a second connection is pending, as a job of a scheduler may be for
// hours: it goes to the first one, which has a place.
func TestPending(t *testing.T) {
	p := pool(t, "pending", func(o *Options) { o.Launcher.Workers, o.Launcher.Queue = 2, time.Hour })
	p.patience = 1
	runsBeside(t, p)
}

// runsBeside runs a job while another one holds its place.
func runsBeside(t *testing.T, p *Pool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	held, ended := newJob(t, "wait"), make(chan struct{})
	go func() {
		defer close(ended)
		_, _ = p.Run(ctx, held.Job)
	}()
	<-held.started
	if exit, err := p.Run(ctx, newJob(t, "environ").Job); err != nil || exit.Code != 0 {
		t.Errorf("Run = %+v, %v", exit, err)
	}
	cancel()
	<-ended
}

// TestRelapse has a job wait for the only place there is, where a second connection could not be made:
// it is made while the job waits, and not only when the place is free.
func TestRelapse(t *testing.T) {
	p := pool(t, "relapsing", func(o *Options) { o.Launcher.Workers, o.Launcher.Children = 2, 1 })
	runsBeside(t, p)
}

// TestUnfit runs jobs where the first node can run no process, or each dies at once, and so is always
// free: only the first job fails.
func TestUnfit(t *testing.T) {
	for launcher, first := range map[string]string{"unfit": "-1 gpu1: no process", "dying": "2 <nil>"} {
		t.Run(launcher, func(t *testing.T) { testUnfit(t, launcher, first) })
	}
}

// TestFitAgain tries a node where nothing could be run before: a job that says something there makes
// it one as any other.
func TestFitAgain(t *testing.T) {
	p := pool(t, "plain", nil)
	for i, unfit := range []time.Duration{0, 1} { // the second time since long ago
		p.mu.Lock()
		for _, c := range p.conns {
			c.doubtUntil = unfit
		}
		p.mu.Unlock()
		if exit, err := p.Run(t.Context(), newJob(t, "environ").Job); err != nil || exit.Code != 0 {
			t.Errorf("Run %d = %+v, %v", i, exit, err)
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.conns[0].doubtUntil != 0 {
		t.Error("a node where a job has said something is unfit")
	}
}

func testUnfit(t *testing.T, launcher, first string) {
	p := pool(t, launcher, func(o *Options) { o.Launcher.Workers = 2 })
	var ends []string
	for range 5 {
		exit, err := p.Run(t.Context(), newJob(t, "environ").Job)
		ends = append(ends, fmt.Sprint(exit.Code, " ", err))
	}
	if want := append([]string{first}, slices.Repeat([]string{"0 <nil>"}, 4)...); !slices.Equal(ends, want) {
		t.Errorf("%q, want %q", ends, want)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.waiting, p.conns[1].depths[0] = 1, p.Launcher.Children
	if c, again, err := p.pick(0, 2); c != nil || again <= 0 || again > maxPause || err != nil {
		t.Errorf("without another place: pick = %v, %v, %v, want the first node in a while", c, again, err)
	}
	p.conns[1].depths[0] = 0

	// In a while it is tried with one job, and has others once a process of that one says something.
	now := p.conns[0].doubtUntil
	p.clock = func() time.Duration { return now }
	taken := func() (list []int) {
		for range 4 {
			c, _, _ := p.pick(1, 2)
			list = append(list, slices.Index(p.conns, c))
		}
		return list
	}
	if got, want := taken(), []int{0, 1, 1, 1}; !slices.Equal(got, want) {
		t.Errorf("in a while: connections %v, want %v", got, want)
	}
	p.mu.Unlock()
	p.fit(p.conns[0], now-1)
	p.mu.Lock()
	if got, want := taken(), []int{1, 1, 1, 1}; !slices.Equal(got, want) {
		t.Errorf("when an earlier job does: connections %v, want %v", got, want)
	}
	p.mu.Unlock()
	p.fit(p.conns[0], now)
	p.mu.Lock()
	if got, want := taken(), []int{0, 0, 0, 0}; !slices.Equal(got, want) {
		t.Errorf("when that one says something: connections %v, want %v", got, want)
	}
}

// TestLeaving runs jobs where the node of the first one is about to end, as when it is preempted: the
// others wait for another one.
func TestLeaving(t *testing.T) {
	p := pool(t, "leaving", nil)
	var ends []string
	for range 3 {
		exit, err := p.Run(t.Context(), newJob(t, "environ").Job)
		ends = append(ends, fmt.Sprint(exit.Code, " ", exit.Cause, " ", err))
	}
	want := []string{"130 the worker on gpu1 was ended: ended by SIGTERM <nil>", "0 <nil> <nil>", "0 <nil> <nil>"}
	if !slices.Equal(ends, want) {
		t.Errorf("%q, want %q", ends, want)
	}
}

// TestOverAtOnce runs a job where each connection is over as soon as it is made, before or after the
// job has it.
func TestOverAtOnce(t *testing.T) {
	p := pool(t, "two", nil)
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	_, err := p.Run(ctx, newJob(t, "echo").Job)
	var end *subprocess.EndError
	if !errors.As(err, &end) || end.State != convstore.StateError || !strings.HasSuffix(end.Reason, "a second worker has answered") {
		t.Errorf("Run = %v", err)
	}
	if launches, err := os.ReadFile(filepath.Join(p.Dir, "launches")); err != nil || len(launches) != 1 {
		t.Errorf("%d launches, %v, want one", len(launches), err)
	}
	p = pool(t, "plain", func(o *Options) { o.Launcher.Attempts = 3 })
	for i, why := range []error{nil, nil, &subprocess.EndError{State: convstore.StateLost}} {
		if p.drop(newConn(p), &subprocess.EndError{State: convstore.StateLost}); (p.err == nil) != (why == nil) {
			t.Errorf("after %d connections that were lost at once: %v", i+1, p.err)
		}
	}
}

// TestGoneBeforeSlot has jobs wait for their slots with a place on a node that is lost meanwhile.
func TestGoneBeforeSlot(t *testing.T) {
	begun := 0
	run := func(p *Pool, lose func()) error {
		j := newJob(t, "echo")
		j.Away = func(string, time.Duration) error {
			begun++
			return nil
		}
		j.Idle = func() func(context.Context) error {
			return func(context.Context) error {
				lose()
				return nil
			}
		}
		_ = j.wire.(*net.UnixConn).CloseWrite()
		_, err := p.Run(t.Context(), j.Job)
		return err
	}
	lost := 0
	lose := func(p *Pool) {
		lost++
		p.mu.Lock()
		c := p.conns[0]
		p.mu.Unlock()
		c.stop()
		<-c.over
	}

	// A node on which others have run: the job goes to another one, however many it has lost.
	p := pool(t, "plain", nil)
	if err := run(p, sync.OnceFunc(func() {
		if err := run(p, func() {}); err != nil {
			t.Error(err)
		}
		lose(p)
	})); err != nil || lost != 1 || begun != 2 {
		t.Errorf("%d nodes were lost, and the times of %d jobs began: %v", lost, begun, err)
	}

	// Nodes on which nothing has run: no job has more of them launched before the pause is over.
	lost = 0
	p = pool(t, "plain", func(o *Options) { o.Launcher.Attempts = 3 })
	p.clock = func() time.Duration { return time.Minute }
	for range 4 {
		if err := run(p, func() { lose(p) }); !errors.As(err, new(*subprocess.EndError)) {
			t.Errorf("Run = %v", err)
		}
	}
	if lost != 3 {
		t.Errorf("%d nodes were launched, want 3", lost)
	}
}

// TestHostKilled kills everything while a job runs: it does not wait for the lease.
func TestHostKilled(t *testing.T) {
	p := pool(t, "plain", func(o *Options) { o.Launcher.Lease = time.Hour })
	j := newJob(t, "deaf")
	j.Stdout = onText("waits\n", p.Host.Kill)
	exit, err := p.Run(t.Context(), j.Job)
	var end *subprocess.EndError
	if !errors.As(err, &end) || end.State != convstore.StateLost || end.Hold != time.Hour+slack || exit.Cause == nil {
		t.Errorf("Run = %+v, %v", exit, err)
	}
}

// TestSpread runs two jobs at once where there may be two workers.
func TestSpread(t *testing.T) {
	p := pool(t, "plain", func(o *Options) { o.Launcher.Workers = 2 })
	p.patience = time.Hour
	var all sync.WaitGroup
	for range 3 {
		j := newJob(t, "wait")
		ctx, cancel := context.WithCancel(t.Context())
		all.Go(func() { _, _ = p.Run(ctx, j.Job) })
		<-j.started
		defer cancel()
	}
	p.mu.Lock()
	var loads []int
	for _, c := range p.conns {
		loads = append(loads, c.load)
	}
	p.mu.Unlock()
	if fmt.Sprint(loads) != "[2 1]" {
		t.Errorf("jobs of the connections: %v", loads)
	}
	t.Cleanup(all.Wait)
}

// TestNoMoreThanWork has six jobs wait, of which two may work at once.
func TestNoMoreThanWork(t *testing.T) {
	p := pool(t, "plain", func(o *Options) { o.Launcher.Workers = 20 })
	p.mu.Lock()
	defer p.mu.Unlock()
	p.waiting = 6
	for range p.waiting {
		if c, _, err := p.pick(0, 2); c != nil || err != nil {
			t.Errorf("pick = %v, %v", c, err)
		}
	}
	if len(p.conns) != 2 {
		t.Errorf("%d connections, want 2", len(p.conns))
	}
}

// owner is a jp that does not keep to the rules, with a real Node.
type owner struct {
	*lines
	in     *io.PipeWriter
	result chan error
	stop   context.CancelCauseFunc
}

func serve(t *testing.T, first string, lease time.Duration) *owner {
	t.Helper()
	p := pool(t, "", nil) // its workspace and its host
	theirIn, in := io.Pipe()
	out, theirOut := io.Pipe()
	ctx, stop := context.WithCancelCause(t.Context())
	o := &owner{lines: newLines(out, in), in: in, result: make(chan error, 1), stop: stop}
	go func() {
		err := Node{Stdin: theirIn, Stdout: theirOut, Host: p.Host, Environ: os.Environ(), Build: "test", Warn: t.Logf}.Serve(ctx)
		theirOut.Close()
		o.result <- err
	}()
	go func() {
		if first == "" {
			_ = o.writeFirst(startWord, start{Protocol: Protocol, Wire: wire.Protocol, Nonce: "n", Lease: lease, Workspace: p.Workspace})
		} else {
			_, _ = io.WriteString(in, first)
		}
	}()
	return o
}

// TestOwnerBreaksRules has owners that do not keep to the rules: the node ends itself, and has run
// nothing that it may not.
func TestOwnerBreaksRules(t *testing.T) {
	const run = "1 go 0 \n2 open 1 {\"args\":[\"jp\",\"query\",\"deaf\"]}\n"
	for _, tt := range []struct{ name, first, then, want string }{
		{"no start", "hello\n", "", "the first line is not that of a jp which starts sub-agents"},
		{"no lease", "start {}\n", "", "a lease of 0s"},
		{"second start", "", "start {}\n", `"start {}": not a line of a worker`},
		{"no go", "", "1 open 1 {}\n", `"open" before the word to go`},
		{"silent", "", "1 go 0 \n", "no word for 500ms from the jp that started this worker"},
		{"silent with a child", "", run, "no word for 500ms from the jp that started this worker"},
		{"gap", "", run + "4 stop 1\n", "line 4 after line 2"},
		{"no sub-agent", "", "1 go 0 \n2 open 1 {\"args\":[\"sh\",\"-c\",\"id\"]}\n", "a channel that is no sub-agent"},
		{"NUL", "", "1 go 0 \n2 open 1 {\"args\":[\"jp\",\"query\",\"a\\u0000b\"]}\n", "a channel with a NUL byte"},
		{"same channel", "", run + "3 open 1 {\"args\":[\"jp\",\"query\",\"deaf\"]}\n", "channel 1 after channel 1"},
		{"later channel", "", run + "3 in 2 hi\n", `"in" for channel 2, which was not opened`},
		{"overrun", "", run + "3 wire 1 " + strings.Repeat("x", maxChunk+1) + "\n", "32769 bytes of a stream in one line"},
		{"stream", "", run + "3 out 1 hi\n", `"out": not for a node`},
		{"credit", "", run + "3 credit 1 out 1\n", `"credit" of channel 1: not allowed now`},
		{"credit of nothing", "", run + "3 credit 1 in 1\n", `"credit" of channel 1: not allowed now`},
		{"ended", "", run + "3 end 1 in\n4 in 1 hi\n", `"in" of channel 1: not allowed now`},
		{"heard", "", run + "3 heard 0 9\n", "an answer to nothing"},
		{"bye", "", run + "3 bye 0 \n", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			lease := time.Minute
			if strings.HasPrefix(tt.name, "silent") {
				lease = 500 * time.Millisecond
			}
			o := serve(t, tt.first, lease)
			if tt.first == "" {
				h, err := o.readHello(func([]byte) {})
				if err != nil || h.Nonce != "n" || h.Refused != "" {
					t.Fatalf("hello = %+v, %v", h, err)
				}
				go func() { _, _ = io.Copy(io.Discard, o.lines.in) }()
				go func() { _, _ = io.WriteString(o.in, tt.then) }()
			}
			got := ""
			if err := <-o.result; err != nil {
				got = err.Error()
			}
			if got != tt.want {
				t.Errorf("Serve: %q, want %q", got, tt.want)
			}
		})
	}
}

// TestLongRefusal has a workspace of which much is to be said: the owner can read what a node refuses.
func TestLongRefusal(t *testing.T) {
	sent := trust.Sent{Root: t.TempDir(), Stamps: map[string]string{}}
	if err := os.Mkdir(filepath.Join(sent.Root, ".jp"), 0o700); err != nil {
		t.Fatal(err)
	}
	for i := range 10 {
		sent.Stamps[strconv.Itoa(i)+strings.Repeat("\u200b", 4000)] = "x"
	}
	text, err := json.Marshal(start{Protocol: Protocol, Wire: wire.Protocol, Lease: time.Minute, Workspace: sent})
	if err != nil {
		t.Fatal(err)
	}
	o := serve(t, startWord+string(text)+"\n", 0)
	h, err := o.readHello(func([]byte) {})
	if err != nil || !strings.Contains(h.Refused, "is another one here") {
		t.Errorf("refused %.100q, %v", h.Refused, err)
	}
	o.in.Close()
	<-o.result
}

// TestOwnerGone closes the lines: the children end.
func TestOwnerGone(t *testing.T) {
	o := serve(t, "", time.Minute)
	if _, err := o.readHello(func([]byte) {}); err != nil {
		t.Fatal(err)
	}
	_ = o.write(message{verb: verbGo}, says(verbOpen, 1, opening{Args: []string{"jp", "query", "deaf"}}))
	var pid int
	for {
		m, err := o.next()
		if err != nil {
			t.Fatal(err)
		}
		if m.verb == verbStarted {
			_, _ = fmt.Sscanf(string(m.text), `{"pid":%d}`, &pid)
			break
		}
	}
	o.in.Close()
	if err := <-o.result; err != errOwnerGone {
		t.Errorf("Serve: %v", err)
	}
	if err := syscall.Kill(pid, 0); err != syscall.ESRCH {
		t.Errorf("process %d: %v", pid, err)
	}
}

// TestNodeEnds ends a node. In order: the owner is told bye, and how the child has ended. By
// its lease, because nothing of the owner comes there any more: what happens to the child then is
// no news of the child, and the owner is told nothing but why.
func TestNodeEnds(t *testing.T) {
	why := errors.New("terminated")
	for _, tt := range []struct {
		name, want string
		lease      time.Duration
		end        error
	}{
		{"in order", "out 1 waits\nbye 1 terminated\nexit 1 {\"code\":130", time.Minute, why},
		{"by its lease", "out 1 waits\nbye 1 no word for 2s from the jp that started this worker", 2 * time.Second, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			o := serve(t, "", tt.lease)
			if _, err := o.readHello(func([]byte) {}); err != nil {
				t.Fatal(err)
			}
			_ = o.write(message{verb: verbGo}, says(verbOpen, 1, opening{Args: []string{"jp", "query", "wait"}}))
			var said []string
			there := true // until the child has begun, or the lease may be over before it has
			for {
				m, err := o.next()
				if err != nil {
					break
				}
				switch m.verb {
				case verbAlive:
					if there {
						_ = o.write(message{verb: verbHeard, text: m.text})
					}
					continue
				case streamOut:
					if there = tt.end != nil; there {
						o.stop(tt.end)
					}
				case verbExit:
					m.text, _, _ = bytes.Cut(m.text, []byte(`,"max_rss"`))
				case verbStarted:
					continue
				}
				said = append(said, fmt.Sprintf("%s %d %s", m.verb, m.channel, m.text))
			}
			if got := strings.Join(said, "\n"); got != tt.want {
				t.Errorf("the node said\n%s\nwant\n%s", got, tt.want)
			}
			if err := <-o.result; tt.end != nil && err != tt.end {
				t.Errorf("Serve: %v", err)
			}
		})
	}
}

// FuzzLines reads what another side may say, and writes what was read.
func FuzzLines(f *testing.F) {
	for _, s := range []string{
		"", "\n", "1 go 0 \n", "1 open 1 {\"args\":[\"jp\"]}\n", "1 wire+ 1 {\"a\":\n2 wire 1 1}\n", "1 go 0\n1 go 0\n3 go 0\n", "01 go 0\n", "1 go+ 0\n", "1  0\n",
		"1 credit 1 wire 5\n", "jp-worker {}\n", "1 out 1 \xff\x00\n", "18446744073709551616 go 0\n", "1 in 0 x\n", "1 in 1\n", "9223372036854775807 in 9223372036854775807 x\n",
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		l := newLines(bytes.NewReader(text), io.Discard)
		var list []message
		for {
			m, err := l.next()
			if err != nil {
				if bad := (*LineError)(nil); err != io.EOF && !errors.As(err, &bad) {
					t.Fatalf("next: %v", err)
				}
				break
			}
			m.text = bytes.Clone(m.text)
			list = append(list, m)
		}
		var out bytes.Buffer
		if err := newLines(nil, &out).write(list...); err != nil {
			t.Fatal(err)
		}
		again := newLines(&out, io.Discard)
		for _, want := range list {
			m, err := again.next()
			if err != nil || m.verb != want.verb || m.channel != want.channel || m.more != want.more || !bytes.Equal(m.text, want.text) {
				t.Fatalf("%+v came again as %+v, %v", want, m, err)
			}
		}
	})
}

// FuzzOwner lets a node say anything while a channel is open: whatever it is, the owner holds no
// more of a stream than its window, and the job ends.
func FuzzOwner(f *testing.F) {
	for _, s := range []string{
		"", exitLine, "1 out 1 hi\n2 err+ 1 hi\n3 exit 1 {}\n", "1 alive 0 1\n2 wire 1 x\n", "1 started 1 {\"pid\":3}\n2 credit 1 wire 3\n", "1 bye 0 x\n", "\njp-worker {}\n",
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		r, w, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		defer w.Close()
		p := NewPool(pool(t, "", nil).Options)
		c := newConn(p)
		c.host, c.lines, c.stdin, c.heard = "gpu1", newLines(bytes.NewReader(text), io.Discard), w, proc.SinceBoot()
		j := newJob(t, "echo")
		_, ch, err := c.open(j.Job)
		if err != nil {
			t.Fatal(err)
		}
		why := c.read()
		for _, i := range []*inlet{ch.wireIn, ch.out, ch.eo} {
			if i.room < 0 || len(i.held) > windows[i.stream] {
				t.Fatalf("%s holds %d bytes", i.stream, len(i.held))
			}
		}
		c.answered = -time.Hour
		c.finish(why)
		select {
		case <-ch.exit:
		case <-c.gone:
		}
	})
}

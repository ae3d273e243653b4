package worker

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"jp/cmd/jp/internal/subprocess"
	"jp/cmd/jp/internal/trust"
	"jp/cmd/jp/internal/wire"
	"jp/convstore"
	"jp/tools/proc"
)

func init() {
	launchers["slow"] = fake(nil, func(l *lines) { // says how the first one has ended, and something of it, when it was stopped and a third one comes
		stopped, third := false, false
		for m, err := l.next(); err == nil; m, err = l.next() {
			stopped = stopped || m.verb == verbStop && m.channel == 1
			third = third || m.verb == verbOpen && m.channel == 3
			if stopped && third {
				_ = l.write(says(verbStarted, 1, started{PID: 1}), message{verb: streamOut, channel: 1, text: []byte("late")},
					says(verbExit, 1, exited{Code: 130}), says(verbExit, 3, exited{}), says(verbExit, 2, exited{}))
				return
			}
		}
	})
	launchers["crossing"] = func() int { // leads to a node the first time that ends while a job is on its way
		if os.Mkdir("first", 0o700) != nil {
			return node(os.Stdin)
		}
		return fake(nil, func(l *lines) {
			_ = l.write(message{verb: verbBye, text: []byte("ended by SIGTERM")})
			os.Exit(0)
		})()
	}
	launchers["never"] = func() int { // leads to nodes none of which begins anything
		file, _ := os.OpenFile("launches", os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
		_, _ = file.WriteString("x")
		return fake(nil, func(l *lines) { _ = l.write(message{verb: verbBye, text: []byte("no")}) })()
	}
	launchers["lingering"] = func() int { // says bye when its job has ended, and takes a while to end after its stdin
		fake(nil, func(l *lines) {
			_ = l.write(says(verbExit, 1, exited{}), message{verb: verbBye, channel: 1, text: []byte("ended by SIGTERM")})
		})()
		time.Sleep(300 * time.Millisecond)
		_ = os.Mkdir("ended", 0o700)
		return 0
	}
}

// TestSlowEnd stops a job of which its node does not say in time how it has ended: that one is lost,
// and the others go on, whatever comes of it later.
func TestSlowEnd(t *testing.T) {
	p := pool(t, "slow", nil)
	p.stopWait = time.Millisecond
	ctx, cancel := context.WithCancelCause(t.Context())
	first, second := newJob(t, "echo"), newJob(t, "echo")
	opened := func(last uint64) { // waits until so many channels are
		for n := uint64(0); n < last; runtime.Gosched() {
			p.mu.Lock()
			conns := slices.Clone(p.conns)
			p.mu.Unlock()
			for _, c := range conns {
				c.mu.Lock()
				n = c.last
				c.mu.Unlock()
			}
		}
	}
	var all sync.WaitGroup
	all.Go(func() {
		exit, err := p.Run(ctx, first.Job)
		var end *subprocess.EndError
		if !errors.As(err, &end) || end.State != convstore.StateLost || end.Hold != 2*p.lease() || exit.Cause == nil {
			t.Errorf("the first: Run = %+v, %v", exit, err)
		}
		if exit, err := p.Run(t.Context(), newJob(t, "echo").Job); err != nil || exit.Code != 0 {
			t.Errorf("a third: Run = %+v, %v", exit, err)
		}
	})
	opened(1) // they are told apart by their numbers
	all.Go(func() {
		if exit, err := p.Run(t.Context(), second.Job); err != nil || exit.Code != 0 {
			t.Errorf("the second: Run = %+v, %v", exit, err)
		}
	})
	opened(2)
	cancel(errors.New("jp stop"))
	all.Wait()
}

// TestNoEnd stops a job of which its node, which lives, never says how it has ended: the connection is
// ended a lease later, so that the node ends it when the one after that is over.
func TestNoEnd(t *testing.T) {
	p := pool(t, "alive", func(o *Options) { o.Launcher.Lease = 3 * time.Second })
	p.stopWait = time.Millisecond
	ctx, cancel := context.WithCancel(t.Context())
	j := newJob(t, "echo")
	var at *conn
	j.Away = func(string, time.Duration) error { // the pool is not locked
		p.mu.Lock()
		at = p.conns[0]
		p.mu.Unlock()
		cancel()
		return nil
	}
	_, err := p.Run(ctx, j.Job)
	var end *subprocess.EndError
	if !errors.As(err, &end) || end.State != convstore.StateLost || end.Hold != 2*p.lease() {
		t.Fatalf("Run = %v", err)
	}
	<-at.over
	if at.why.Reason != end.Reason {
		t.Errorf("the connection is over: %s", at.why.Reason)
	}
}

// TestByeCrosses runs a job that is on its way when its node ends: it runs on another one, and that
// is sent all that the first one was sent.
func TestByeCrosses(t *testing.T) {
	p := pool(t, "crossing", func(o *Options) { o.Launcher.Attempts = 2 })
	j := newJob(t, "echo")
	text := bytes.Repeat([]byte("a line\nand \x00\xff half"), 1<<16)
	back, exit, err := j.echo(t, p, text)
	if err != nil || exit.Code != 7 || !bytes.Equal(back, text) || !bytes.Equal(j.stdout.Bytes(), text) {
		t.Errorf("Run = %+v, %v, wire %d, stdout %d, want %d", exit, err, len(back), j.stdout.Len(), len(text))
	}
}

// TestNothingBegins runs a job where each node says that it has begun nothing: it ends when there
// were as many launches as may fail.
func TestNothingBegins(t *testing.T) {
	p := pool(t, "never", func(o *Options) { o.Launcher.Attempts = 3 })
	p.clock = func() time.Duration { return time.Minute }
	exit, err := p.Run(t.Context(), newJob(t, "echo").Job)
	var end *subprocess.EndError
	if !errors.As(err, &end) || !strings.HasSuffix(end.Reason, "has ended: no") || end.Hold != 0 {
		t.Errorf("Run = %+v, %v", exit, err)
	}
	if launches, err := os.ReadFile(filepath.Join(p.Dir, "launches")); err != nil || len(launches) != 3 {
		t.Errorf("%d launches, %v, want 3", len(launches), err)
	}
}

// TestCloseAwaits closes a Pool while the launcher of a connection that is over has not ended: it has
// its time to end.
func TestCloseAwaits(t *testing.T) {
	host := proc.NewHost(proc.Options{Grace: time.Minute})
	p := pool(t, "lingering", func(o *Options) { o.Host = host })
	if exit, err := p.Run(t.Context(), newJob(t, "echo").Job); err != nil || exit.Code != 0 {
		t.Errorf("Run = %+v, %v", exit, err)
	}
	for {
		p.mu.Lock()
		left := len(p.conns)
		p.mu.Unlock()
		if left == 0 {
			break
		}
		runtime.Gosched()
	}
	p.Close()
	if err := host.Close(); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(filepath.Join(p.Dir, "ended")); err != nil {
		t.Errorf("the launcher was killed: %v", err)
	}
}

// TestCloseInLine closes a Pool while a connection waits for its turn to start a launcher: it starts
// none any more.
func TestCloseInLine(t *testing.T) {
	p := pool(t, "never", func(o *Options) { o.Launcher.Starting = 1 })
	p.starting <- struct{}{} // another one
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_, _ = p.Run(ctx, newJob(t, "echo").Job)
	}()
	for {
		p.mu.Lock()
		made := len(p.conns)
		p.mu.Unlock()
		if made > 0 {
			break
		}
		runtime.Gosched()
	}
	cancel()
	<-ended
	p.end()
	<-p.starting
	p.Close()
	if launches, err := os.ReadFile(filepath.Join(p.Dir, "launches")); err == nil {
		t.Errorf("%d launches, want none", len(launches))
	}
}

// TestEndsWhileOpened ends a node while channels are opened: of each it either says how it has ended,
// or that it has not begun.
func TestEndsWhileOpened(t *testing.T) {
	sent := trust.Sent{Root: t.TempDir()}
	if err := os.Mkdir(filepath.Join(sent.Root, ".jp"), 0o700); err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(start{Protocol: Protocol, Wire: wire.Protocol, Lease: time.Minute, Workspace: sent})
	if err != nil {
		t.Fatal(err)
	}
	for i := range 8 {
		o := serve(t, startWord+string(text)+"\n", 0)
		if _, err := o.readHello(func([]byte) {}); err != nil {
			t.Fatal(err)
		}
		go func() {
			_ = o.write(message{verb: verbGo})
			for n := uint64(1); n <= 8; n++ {
				if n == uint64(i)+1 {
					go o.stop(errors.New("terminated"))
				}
				_ = o.write(says(verbOpen, n, opening{Args: []string{"jp", "query", "environ"}}), message{verb: verbEnd, channel: n, text: []byte("in")})
			}
		}()
		ends, last := map[uint64]bool{}, uint64(1<<63)
		for {
			m, err := o.next()
			if err != nil {
				break
			}
			switch m.verb {
			case verbBye:
				last = m.channel
			case verbExit, verbStarted:
				ends[m.channel] = ends[m.channel] || m.verb == verbExit
			}
		}
		if err := <-o.result; err == nil || err.Error() != "terminated" {
			t.Errorf("Serve: %v", err)
		}
		for n := uint64(1); n <= 8; n++ {
			if ended, said := ends[n]; ended != (n <= last) || said && !ended {
				t.Errorf("channel %d: an end %v, and the last that was begun is %d", n, ended, last)
			}
		}
		o.in.Close()
	}
}

package worker

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"jp/cmd/jp/internal/wire"
	"jp/convstore"
	"jp/tools/brief"
	"jp/tools/proc"
	"jp/tools/unseen"
)

// Bounds of an owner.
const (
	lastWait    = time.Second            // for what a launcher has said, when it has ended
	patience    = 2 * time.Second        // of a job for a connection of its own, where another one has a place
	againAfter  = 200 * time.Millisecond // between two launches, twice as long each time
	pause       = 2 * time.Second        // between two connections that cannot be made, twice as long each time
	maxPause    = 2 * time.Minute
	maxLastText = 2 << 10 // bytes of the last words of a launcher
)

// make starts launchers until one leads to a node. Then it serves the connection to its end.
func (c *conn) make() {
	var done func()
	for attempt := 1; ; attempt++ {
		var again bool
		c.pool.starting <- struct{}{}
		done, again, c.err = c.launch()
		<-c.pool.starting
		if c.err == nil || !again || attempt >= c.pool.Launcher.Attempts {
			break
		}
		c.pool.Log.Info("launcher is started again", "launcher", c.pool.Name, "attempt", attempt, "why", c.err)
		select {
		case <-time.After(againAfter << min(attempt-1, 6)):
		case <-c.pool.life.Done():
		}
	}
	if c.err != nil {
		c.pool.drop(c, c.err)
		close(c.ready)
		return
	}
	c.pool.Log.Info("worker", "launcher", c.pool.Name, "host", c.host, "build", c.hello.Build)
	go c.speak()
	close(c.ready)
	c.pool.made(c)
	c.finish(c.read())
	done()
}

// launch starts the launcher and waits for the first line of the node. done ends the launcher. With
// an error it has ended; again reports whether another try may succeed.
func (c *conn) launch() (done func(), again bool, err error) {
	if c.pool.life.Err() != nil { // closed while this one waited for its turn
		return nil, false, errClosed
	}
	l := c.pool.Launcher
	theirIn, stdin, err := os.Pipe()
	if err != nil {
		return nil, false, err
	}
	stdout, theirOut, err := os.Pipe()
	if err != nil {
		theirIn.Close()
		stdin.Close()
		return nil, false, err
	}
	c.stdin, c.stdout, c.lines = stdin, stdout, newLines(stdout, stdin)
	ctx, stop := context.WithCancel(context.Background())
	said, exited := &words{brief.Tail{Keep: maxLastText}}, make(chan struct{})
	c.said, c.exited = said, exited
	run := "jp-" + strings.ToLower(rand.Text()[:12])
	command := l.Line(run)
	started := sync.OnceFunc(func() {
		theirIn.Close() // or their ends would not show
		theirOut.Close()
	})
	go func() {
		exit, err := c.pool.Host.Run(ctx, proc.Spec{
			Kind: proc.Launcher, Path: command[0], Args: command, Dir: c.pool.Dir, Stop: l.StopLine(run),
			Env:   proc.Environ(c.pool.Environ, append(proc.ToolEnv(), l.Variables(c.pool.Environ, c.pool.Secrets)...)...),
			Stdin: theirIn, End: func() { stdin.Close() }, Stdout: theirOut, Stderr: said, Started: func(int) { started() },
		})
		started()
		if exit.Stop != nil {
			c.pool.Log.Warn("stop command of a launcher", "launcher", c.pool.Name, "error", exit.Stop)
		}
		if errors.Is(exit.Cause, proc.ErrKilled) {
			close(c.killed)
		}
		if err == nil {
			err = &ExitError{exit}
		}
		_ = stdout.SetReadDeadline(time.Now().Add(lastWait)) // somebody else may have it open
		c.how = err
		close(exited)
	}()
	c.stop = func() {
		stdin.Close()
		stop()
	}
	done = func() {
		c.stop()
		<-exited
		stdout.Close()
	}
	queue := time.AfterFunc(l.Queue, func() {
		stdout.Close()
		stdin.Close() // what has answered may not read
	})
	awake := context.AfterFunc(c.pool.life, func() {
		c.stop()
		stdout.Close()
	})
	defer awake()
	again, state, reason := c.greet(said)
	late := !queue.Stop()
	switch {
	case reason == nil && !late:
		return done, false, nil
	case c.pool.life.Err() != nil:
		err = errClosed
	case late:
		err = &StepError{Step: StepStart, Cause: ErrQueue, Err: c.pool.failed(convstore.StateError, "nothing for %v%s", l.Queue, said)}
		again = false
	default:
		if reason == io.EOF || errors.As(reason, new(*os.PathError)) { // how it has ended says more
			c.stop()
			<-exited
			reason = fmt.Errorf("%w before it led to a worker%s", c.how, said)
		}
		err = &StepError{Step: c.hello.failedStep(state), Host: c.host, Build: plain(c.hello.Build, maxText), Cause: reason, Err: c.pool.failed(state, "%v", reason)}
	}
	done()
	return nil, again, err
}

// greet says the first lines and reads that of the node. An error has the state of the jobs.
func (c *conn) greet(said *words) (again bool, state convstore.State, err error) {
	first := start{Protocol: Protocol, Wire: wire.Protocol, Nonce: rand.Text(), Lease: c.pool.Launcher.Lease, Workspace: c.pool.Workspace}
	wrote := make(chan error, 1)
	go func() { wrote <- c.lines.writeFirst(startWord, first) }()
	h, err := c.lines.readHello(func(p []byte) { _, _ = said.Write(p) })
	bad := (*LineError)(nil)
	switch {
	case errors.As(err, &bad):
		return false, convstore.StateError, fmt.Errorf("it leads to no worker: %w%s", bad, said.text())
	case err != nil:
		return true, convstore.StateError, err
	}
	c.hello, c.host = h, cmp.Or(plain(h.Host, 255), c.pool.Name) // "" would be this machine
	lacks := slices.DeleteFunc(slices.Clone(h.Lacks), func(what string) bool { return slices.Contains(proc.Enforceable().Missing, what) })
	switch {
	case h.Nonce != first.Nonce:
		return false, convstore.StateError, fmt.Errorf("the worker on %s answers another jp", c.host)
	case h.Protocol != Protocol:
		return false, convstore.StateError, fmt.Errorf("the worker on %s speaks protocol %d, and this jp %d", c.host, h.Protocol, Protocol)
	case h.Wire != wire.Protocol:
		return false, convstore.StateError, fmt.Errorf("the sub-agents on %s speak protocol %d, and this jp %d", c.host, h.Wire, wire.Protocol)
	case h.Refused != "":
		return false, convstore.StateRefused, fmt.Errorf("%s: %s", c.host, plain(h.Refused, maxText))
	case len(lacks) > 0:
		return false, convstore.StateRefused, fmt.Errorf("%s: its sandbox cannot enforce %s", c.host, plain(strings.Join(lacks, ", "), maxText))
	}
	if err := <-wrote; err != nil { // it has answered, and so this was read
		return false, convstore.StateError, err
	}
	c.heard = proc.SinceBoot()
	c.answered, c.greeted = c.heard, c.heard
	return true, convstore.StateError, c.lines.write(message{verb: verbGo})
}

// words are the last words of a launcher. Safe for concurrent use.
type words struct{ brief.Tail }

// String returns what was said, as the end of a message.
func (w *words) String() string { return cmp.Or(w.text(), ", and said nothing") }

// text is String, or "" where nothing was said.
func (w *words) text() string {
	said, _ := w.Bytes()
	text := strings.Join(strings.FieldsFunc(brief.UTF8(string(said)), func(r rune) bool { return r == '\n' || r == '\r' || r == 0 }), "; ")
	if text = unseen.Spell(strings.TrimSpace(text)); text == "" {
		return ""
	}
	return ": " + text
}

package worker

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"jp/cmd/jp/internal/delegate"
	"jp/cmd/jp/internal/wire"
	"jp/convstore"
	"jp/tools/brief"
	"jp/tools/proc"
	"jp/tools/unseen"
)

// conn is a connection to a node: a launcher that runs, and the lines to and from what it has
// started. One goroutine reads and never waits for anything but lines.
type conn struct {
	pool   *Pool
	load   int         // jobs that use it; guarded by pool.mu
	depths map[int]int // those of each depth; guarded by pool.mu

	ready chan struct{} // closed when the next three are set
	err   error         // why there is no connection; nil = there is one
	hello hello
	host  string // name of the node, as it can be shown

	greeted time.Duration      // when it was there, by proc.SinceBoot
	trip    chan time.Duration // has the time from the word to go to the first line of the node

	lines  *lines
	stdin  *os.File      // to the launcher
	stdout *os.File      // from it
	stop   func()        // ends the launcher
	said   *words        // of the launcher
	exited chan struct{} // closed when the launcher has ended
	how    error         // how it has ended; set when exited is closed
	ended  chan struct{} // closed when no launcher of the connection is left

	over chan struct{}      // closed when nothing more is read or written
	why  *delegate.EndError // of the jobs that have not ended then
	gone chan struct{}      // closed when nothing that the node has started can still run, or with killed

	killed chan struct{} // closed when the launcher was killed because everything was

	opening sync.Mutex // held while a channel is opened, so that the numbers on the line rise

	mu       sync.Mutex
	closed   bool // over is closed
	last     uint64
	channels map[uint64]*channel
	heard    time.Duration // when the latest line was read, by proc.SinceBoot
	answered time.Duration // when the latest word was given that extends the lease of the node
	owed     uint64        // number of the latest question
	cut      string        // why it was ended here; "" = it was not
	wake     chan struct{} // has an element when there is a question to answer
}

// channel is a job on its node.
type channel struct {
	in, wire        *outlet
	wireIn, out, eo *inlet
	runs            bool     // it was said that the process runs; of who reads
	started         chan int // process id, once it is known
	exit            chan exited
}

func newConn(p *Pool) *conn {
	return &conn{
		pool: p, ready: make(chan struct{}), ended: make(chan struct{}), over: make(chan struct{}), gone: make(chan struct{}), killed: make(chan struct{}),
		depths: map[int]int{}, channels: map[uint64]*channel{}, wake: make(chan struct{}, 1), trip: make(chan time.Duration, 1),
	}
}

// Bounds of an owner.
const (
	lastWait    = time.Second            // for what a launcher has said, when it has ended
	againAfter  = 200 * time.Millisecond // between two launches, twice as long each time
	pause       = 2 * time.Second        // between two connections that cannot be made, twice as long each time
	maxPause    = 2 * time.Minute
	maxLastText = 2 << 10 // bytes of the last words of a launcher
)

// make starts launchers until one leads to a node. Then it serves the connection to its end.
func (c *conn) make() {
	defer close(c.ended)
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
		if c.pool.life.Err() != nil {
			break
		}
	}
	if c.err != nil {
		c.pool.drop(c, c.err)
		close(c.ready)
		return
	}
	c.pool.made()
	c.pool.Log.Info("worker", "launcher", c.pool.Name, "host", c.host, "build", c.hello.Build)
	go c.speak()
	close(c.ready)
	c.finish(c.read())
	done()
}

// launch starts the launcher and waits for the first line of the node. done ends the launcher. With
// an error it has ended; again reports whether another try may succeed.
func (c *conn) launch() (done func(), again bool, err error) {
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
	said, exited := &words{}, make(chan struct{})
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
	case reason == nil:
		return done, false, nil
	case c.pool.life.Err() != nil:
		err = errClosed
	case late:
		err = &StepError{Step: StepStart, Cause: ErrQueue, Err: c.pool.failed(convstore.StateError, "nothing for %v%s", l.Queue, said)}
		again = false
	default:
		var cut *os.PathError
		if reason == io.EOF || errors.As(reason, &cut) { // how it has ended says more
			c.stop()
			<-exited
			reason = fmt.Errorf("%w before it led to a worker%s", c.how, said)
		}
		err = &StepError{Step: c.hello.failedStep(state), Host: c.host, Cause: reason, Err: c.pool.failed(state, "%v", reason)}
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
		return false, convstore.StateError, fmt.Errorf("it leads to no worker: %w%s", bad, said)
	case err != nil:
		return true, convstore.StateError, err
	}
	c.hello, c.host = h, plain(h.Host, 255)
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
type words struct {
	mu  sync.Mutex
	buf []byte
}

func (w *words) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.buf = append(w.buf, p...)
	w.buf = w.buf[max(len(w.buf)-maxLastText, 0):]
	return len(p), nil
}

// String returns what was said, as the end of a message.
func (w *words) String() string { return cmp.Or(w.text(), ", and said nothing") }

// text is String, or "" where nothing was said.
func (w *words) text() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	text := strings.Join(strings.FieldsFunc(brief.UTF8(string(w.buf)), func(r rune) bool { return r == '\n' || r == '\r' }), "; ")
	if text = unseen.Spell(strings.TrimSpace(text)); text == "" {
		return ""
	}
	return ": " + text
}

// read obeys the node until the connection is over, and returns why.
func (c *conn) read() *delegate.EndError {
	for {
		m, err := c.lines.next()
		if err == nil && !c.hears() {
			c.end(c.silent())
			err = io.EOF
		}
		if err == nil {
			err = c.obey(m)
		}
		if bad := (*LineError)(nil); errors.As(err, &bad) {
			return &delegate.EndError{State: convstore.StateError, Reason: fmt.Sprintf("the worker on %s broke the protocol: %s", c.host, bad.Reason)}
		}
		if err != nil {
			return &delegate.EndError{State: convstore.StateLost, Reason: c.lost()}
		}
	}
}

// lost returns why the connection is lost, of which nothing more can be read.
func (c *conn) lost() string {
	c.mu.Lock()
	cut := c.cut
	c.mu.Unlock()
	if cut != "" {
		return cut
	}
	c.stdin.Close()
	select {
	case <-c.exited:
		return fmt.Sprintf("launcher %s: %v, and with it the connection to %s%s", c.pool.Name, c.how, c.host, c.said.text())
	case <-time.After(lastWait):
		return "the worker on " + c.host + " has ended without a word"
	}
}

// end ends the connection from here, and says why.
func (c *conn) end(why string) {
	c.mu.Lock()
	if c.cut == "" {
		c.cut = why
	}
	c.mu.Unlock()
	c.stdout.Close() // ends read
}

func (c *conn) silent() string {
	return fmt.Sprintf("no word for %v from %s", c.pool.Launcher.Lease, c.host)
}

// hears notes that a line was read, and reports whether that was in time.
func (c *conn) hears() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := proc.SinceBoot()
	if now-c.heard > c.pool.Launcher.Lease {
		return false
	}
	c.heard = now
	return true
}

func (c *conn) obey(m message) error {
	switch m.verb {
	case verbAlive:
		n, ok := number(m.text)
		c.mu.Lock()
		defer c.mu.Unlock()
		if !ok || m.channel != 0 || n <= c.owed {
			return broken("alive %s", quoted(m.text))
		}
		c.owed = n
		select {
		case c.trip <- proc.SinceBoot() - c.greeted:
		default:
		}
		select {
		case c.wake <- struct{}{}:
		default:
		}
		return nil
	case verbBye:
		c.pool.Log.Info("worker has ended", "launcher", c.pool.Name, "host", c.host, "why", plain(string(m.text), maxText))
		c.end(fmt.Sprintf("the worker on %s has ended: %s", c.host, plain(string(m.text), maxText)))
		return io.EOF
	}
	c.mu.Lock()
	ch := c.channels[m.channel]
	c.mu.Unlock()
	if ch == nil {
		return broken("%s for channel %d, which is not open", quoted([]byte(m.verb)), m.channel)
	}
	fits := true
	switch m.verb {
	case streamWire:
		fits = ch.wireIn.put(m.bytes())
	case streamOut:
		fits = ch.out.put(m.bytes())
	case streamErr:
		fits = ch.eo.put(m.bytes())
	case verbCredit:
		stream, n, ok := readCredit(m.text)
		switch {
		case ok && stream == streamWire:
			fits = ch.wire.allow(n)
		case ok && stream == streamIn:
			fits = ch.in.allow(n)
		default:
			fits = false
		}
	case verbStarted:
		var s started
		if fits = json.Unmarshal(m.text, &s) == nil && s.PID > 0 && !ch.runs; fits {
			ch.runs = true
			ch.started <- s.PID
		}
	case verbExit:
		var e exited
		if fits = json.Unmarshal(m.text, &e) == nil; fits {
			c.mu.Lock()
			delete(c.channels, m.channel)
			c.mu.Unlock()
			ch.end(false)
			ch.exit <- e
		}
	default:
		return broken("%s: not for an owner", quoted([]byte(m.verb)))
	}
	if !fits {
		return broken("%s of channel %d: not allowed now", quoted([]byte(m.verb)), m.channel)
	}
	return nil
}

// end ends the streams of a channel: those that come after what is held, or now.
func (ch *channel) end(now bool) {
	ch.in.close()
	ch.wire.close()
	for _, i := range []*inlet{ch.wireIn, ch.out, ch.eo} {
		i.end()
		if now {
			i.close()
		}
	}
}

// speak answers the questions of the node, and finds out when it asks nothing any more.
func (c *conn) speak() {
	looked := time.NewTicker(tick(c.pool.Launcher.Lease))
	defer looked.Stop()
	wake, said := c.wake, make(chan struct{}, 1)
	for {
		select {
		case <-c.over:
			return
		case <-looked.C:
			c.mu.Lock()
			late := proc.SinceBoot()-c.heard > c.pool.Launcher.Lease
			c.mu.Unlock()
			switch {
			case late:
				c.end(c.silent())
			case c.lines.stuck() > c.pool.Launcher.Lease:
				c.end(fmt.Sprintf("%s has read nothing for %v", c.host, c.pool.Launcher.Lease))
			}
		case <-said:
			wake = c.wake
		case <-wake:
			wake = nil // one answer at a time: questions that come meanwhile are answered by the next
			c.mu.Lock()
			n := c.owed
			c.answered = proc.SinceBoot() // the node counts from its question, which was before
			c.mu.Unlock()
			go func() { // a pipe that nobody reads does not keep this from looking at the clock
				_ = c.lines.write(message{verb: verbHeard, text: strconv.AppendUint(nil, n, 10)})
				said <- struct{}{}
			}()
		}
	}
}

// finish ends the connection. Jobs that have not ended wait until their processes must have.
func (c *conn) finish(why *delegate.EndError) {
	c.pool.drop(c, nil)
	c.mu.Lock()
	c.closed, c.why = true, why
	left := c.channels
	c.channels = map[uint64]*channel{}
	until := c.answered + c.pool.lease()
	c.mu.Unlock()
	c.stdin.Close() // the node ends what it has, if it can hear that
	for _, ch := range left {
		ch.end(true)
	}
	close(c.over)
	if len(left) == 0 {
		close(c.gone)
		return
	}
	c.pool.Log.Warn("worker is lost", "launcher", c.pool.Name, "host", c.host, "sub-agents", len(left), "why", why.Reason)
	go func() {
		defer close(c.gone)
		for proc.SinceBoot() < until {
			select {
			case <-c.killed:
				return
			case <-time.After(tick(c.pool.Launcher.Lease)):
			}
		}
	}()
}

// bye ends the connection in order.
func (c *conn) bye() {
	if <-c.ready; c.err != nil {
		return
	}
	_ = c.stdin.SetWriteDeadline(time.Now().Add(lastWait))
	_ = c.lines.write(message{verb: verbBye})
	c.stop()
}

// open opens a channel. The error is errOver when the connection is.
func (c *conn) open(job delegate.Job) (uint64, *channel, error) {
	c.opening.Lock()
	defer c.opening.Unlock()
	c.mu.Lock()
	if c.closed {
		c.mu.Unlock()
		return 0, nil, errOver
	}
	c.last++
	n := c.last
	ch := &channel{
		in: newOutlet(c.lines, streamIn, n), wire: newOutlet(c.lines, streamWire, n),
		wireIn: newInlet(c.lines, streamWire, n), out: newInlet(c.lines, streamOut, n), eo: newInlet(c.lines, streamErr, n),
		started: make(chan int, 1), exit: make(chan exited, 1),
	}
	c.channels[n] = ch
	c.mu.Unlock()
	// If it fails, the connection is over or soon will be, and the job ends with it.
	_ = c.lines.write(says(verbOpen, n, opening{Args: job.Args, Environ: proc.Environ(job.Environ, forwarded()...)}))
	return n, ch, nil
}

// run runs a job to its end.
func (c *conn) run(ctx context.Context, job delegate.Job) (proc.Exit, error) {
	ours, err := net.FileConn(job.Wire)
	if err != nil {
		return proc.Exit{Code: -1}, fmt.Errorf("wire: %w", err)
	}
	defer ours.Close()
	if err := job.Away(c.host, c.pool.lease()); err != nil {
		return proc.Exit{Code: -1}, err
	}
	n, ch, err := c.open(job)
	if err != nil {
		return proc.Exit{Code: -1}, err
	}
	job.Wire.Close()
	send := func(to *outlet, from io.Reader) {
		if _, err := io.Copy(to, from); err == nil {
			_ = c.lines.write(message{verb: verbEnd, channel: n, text: []byte(to.stream)})
		}
	}
	go send(ch.in, bytes.NewReader(job.Stdin))
	go send(ch.wire, ours)
	var taken sync.WaitGroup
	for _, s := range []struct {
		to   io.Writer
		from *inlet
	}{{job.Stdout, ch.out}, {job.Stderr, ch.eo}, {ours, ch.wireIn}} {
		taken.Go(func() {
			_, _ = io.Copy(struct{ io.Writer }{s.to}, s.from)
			_, _ = io.Copy(io.Discard, s.from) // nobody takes it, and that stops nobody
		})
	}
	exit, err := c.await(ctx, n, ch, job.Started)
	select {
	case pid := <-ch.started: // it has ended at once
		job.Started(c.host, pid)
	default:
	}
	if end := (*delegate.EndError)(nil); errors.As(err, &end) {
		ours.Close()
	} else {
		_ = ours.SetWriteDeadline(time.Now().Add(drainWait)) // nobody may read it
	}
	taken.Wait()
	return exit, err
}

// await waits for the end of a process, and stops it when ctx ends.
func (c *conn) await(ctx context.Context, n uint64, ch *channel, started func(host string, pid int)) (exit proc.Exit, err error) {
	done, over := ctx.Done(), c.over
	var late <-chan time.Time
	for {
		select {
		case pid := <-ch.started:
			started(c.host, pid)
			continue
		case e := <-ch.exit:
			return c.exit(e, exit.Cause)
		case <-done:
			done, exit.Cause = nil, context.Cause(ctx)
			late = time.After(c.pool.stopWait)
			go func() { _ = c.lines.write(message{verb: verbStop, channel: n}) }()
			continue
		case <-late:
			c.end("the worker on " + c.host + " does not say how a sub-agent that was stopped has ended")
			late = nil
			continue
		case <-over:
		}
		select {
		case e := <-ch.exit: // it had ended before
			return c.exit(e, exit.Cause)
		default:
		}
		<-c.gone
		exit.Code = -1
		end := *c.why
		select {
		case <-c.killed:
			exit.Cause, end.Hold = proc.ErrKilled, c.pool.lease()
		default:
		}
		return exit, &end
	}
}

// exit is how a process ended that the node has told about. cause is why it was stopped from here.
func (c *conn) exit(e exited, cause error) (proc.Exit, error) {
	exit := proc.Exit{Code: e.Code, Signal: signalOf(e.Signal), MaxRSS: e.MaxRSS, Duration: e.Duration, Cause: cause}
	if exit.Signal != 0 {
		exit.Code = -1
	}
	if cause == nil && e.Stopped != "" {
		exit.Cause = fmt.Errorf("the worker on %s was ended: %s", c.host, plain(e.Stopped, maxText))
	}
	if e.Error != "" {
		return exit, fmt.Errorf("%s: %s", c.host, plain(e.Error, maxText))
	}
	return exit, nil
}

package worker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"jp/cmd/jp/internal/subprocess"
	"jp/convstore"
	"jp/tools/proc"
)

// channel is a job on its node.
type channel struct {
	in, wire        *outlet
	wireIn, out, eo *inlet
	begun           atomic.Bool // the node has said something of it
	runs            bool        // it was said that the process runs; of who reads
	spoke           bool        // the process has said something; likewise
	started         chan int    // process id, once it is known
	exit            chan exited
	passed          chan struct{} // closed when the node has said that it does not begin it
}

// end ends the streams of a channel: those that come after what is held.
func (ch *channel) end() {
	ch.in.close()
	ch.wire.close()
	for _, i := range []*inlet{ch.wireIn, ch.out, ch.eo} {
		i.end()
	}
}

// cut ends them now. What still comes is dropped.
func (ch *channel) cut() {
	ch.in.close()
	ch.wire.close()
	for _, i := range []*inlet{ch.wireIn, ch.out, ch.eo} {
		i.close()
	}
}

// open opens a channel. The error is errOver when the connection is, or its node begins nothing more.
// A job that does not fit into a line ends alone, and not the connection with all others.
func (c *conn) open(job subprocess.Job) (uint64, *channel, error) {
	args := job.Args()
	m := says(verbOpen, 0, opening{Args: args, Environ: proc.Environ(job.Environ, forwarded()...)})
	if len(m.text) > maxOpening || slices.ContainsFunc(args, func(arg string) bool { return len(arg) >= maxArg }) {
		return 0, nil, &os.SyscallError{Syscall: "arguments of a process on " + c.host, Err: syscall.E2BIG}
	}
	c.opening.Lock()
	defer c.opening.Unlock()
	c.mu.Lock()
	if c.closed || c.leaving.Load() {
		c.mu.Unlock()
		return 0, nil, errOver
	}
	c.last++
	n := c.last
	m.channel = n
	ch := &channel{
		in: newOutlet(c.lines, streamIn, n), wire: newOutlet(c.lines, streamWire, n),
		wireIn: newInlet(c.lines, streamWire, n), out: newInlet(c.lines, streamOut, n), eo: newInlet(c.lines, streamErr, n),
		started: make(chan int, 1), exit: make(chan exited, 1), passed: make(chan struct{}),
	}
	c.channels[n] = ch
	c.mu.Unlock()
	// If it fails, the connection is over or soon will be, and the job ends with it.
	_ = c.lines.write(m)
	return n, ch, nil
}

// spoken is where words of a process go. said is called when one comes.
type spoken struct {
	io.Writer
	said func()
}

func (s spoken) Write(p []byte) (int, error) {
	s.said()
	return s.Writer.Write(p)
}

// wireEnd is the end of a job's wire that its process elsewhere would have. What was read of it for a
// node that has not begun the process is read again for another one: no more than a window and what
// is copied at once.
type wireEnd struct {
	net.Conn
	kept []byte
}

// newWireEnd returns the end that file is, and closes file.
func newWireEnd(file *os.File) (*wireEnd, error) {
	defer file.Close()
	c, err := net.FileConn(file)
	if err != nil {
		return nil, fmt.Errorf("wire: %w", err)
	}
	return &wireEnd{Conn: c}, nil
}

// sendTo writes to a channel what comes of a wire.
func (w *wireEnd) sendTo(ch *channel) error {
	_, err := ch.wire.Write(w.kept)
	for part := make([]byte, maxChunk); err == nil; {
		var n int
		n, err = w.Read(part)
		if w.kept = append(w.kept, part[:n]...); ch.begun.Load() {
			w.kept = nil
		}
		if _, bad := ch.wire.Write(part[:n]); bad != nil {
			return bad
		}
	}
	if err == io.EOF {
		return nil
	}
	return err
}

// run runs a job to its end. The error is errOver when it has not begun, and is for another node.
func (c *conn) run(ctx context.Context, job subprocess.Job, w *wireEnd) (proc.Exit, error) {
	came := c.pool.clock()
	over := c.leaving.Load()
	select {
	case <-c.over: // while the job waited for its slot: its time has not begun
		over = true
	default:
	}
	if over {
		return proc.Exit{Code: -1}, errOver
	}
	if err := job.Away(c.host, c.pool.lease()); err != nil {
		return proc.Exit{Code: -1}, err
	}
	n, ch, err := c.open(job)
	if err != nil {
		return proc.Exit{Code: -1}, err
	}
	sent := func(all verb, err error) {
		if err == nil {
			_ = c.lines.write(message{verb: verbEnd, channel: n, text: []byte(all)})
		}
	}
	go func() {
		_, err := ch.in.Write(job.Stdin)
		sent(streamIn, err)
	}()
	left := make(chan struct{}) // closed when nothing reads the wire for this node any more
	go func() {
		defer close(left)
		sent(streamWire, w.sendTo(ch))
	}()
	fit := sync.OnceFunc(func() { c.pool.fit(c, came) })
	var taken sync.WaitGroup
	for _, s := range []struct {
		to   io.Writer
		from *inlet
	}{{spoken{job.Stdout, fit}, ch.out}, {job.Stderr, ch.eo}, {spoken{w, fit}, ch.wireIn}} {
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
	switch {
	case err == errOver:
		ch.cut()
		_ = w.SetReadDeadline(time.Now())
		<-left
		_ = w.SetReadDeadline(time.Time{})
	case errors.As(err, new(*subprocess.EndError)):
		w.Close()
	default:
		_ = w.SetWriteDeadline(time.Now().Add(subprocess.Drain)) // nobody may read it
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
			return c.exit(ch, e, exit.Cause)
		case <-done:
			done, exit.Cause = nil, context.Cause(ctx)
			late = time.After(c.pool.stopWait)
			go func() { _ = c.lines.write(message{verb: verbStop, channel: n}) }()
			continue
		case <-ch.passed:
			return exit, errOver
		case <-late: // the others there go on, unless it does not say so for a lease more
			ch.cut()
			const reason = " does not say how a sub-agent that was stopped has ended"
			time.AfterFunc(c.pool.lease(), func() {
				if c.has(n) {
					c.end("the worker on " + c.host + reason)
				}
			})
			exit.Code = -1
			return exit, &subprocess.EndError{State: convstore.StateLost, Hold: 2 * c.pool.lease(), Reason: "the worker on " + c.host + reason}
		case <-over:
		}
		select {
		case e := <-ch.exit: // it had ended before
			return c.exit(ch, e, exit.Cause)
		case <-ch.passed:
			return exit, errOver
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

// has reports whether a channel is open.
func (c *conn) has(n uint64) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.channels[n] != nil
}

// exit is how a process ended that the node has told about. cause is why it was stopped from here.
func (c *conn) exit(ch *channel, e exited, cause error) (proc.Exit, error) {
	exit := proc.Exit{Code: e.Code, Signal: signalOf(e.Signal), MaxRSS: e.MaxRSS, Duration: e.Duration, Cause: cause}
	if exit.Signal != 0 {
		exit.Code = -1
	}
	if cause == nil && e.Stopped != "" {
		exit.Cause = &subprocess.NodeError{Reason: fmt.Sprintf("the worker on %s was ended: %s", c.host, plain(e.Stopped, maxText))}
	}
	if !ch.spoke && cause == nil && e.Stopped == "" {
		c.pool.doubt(c)
	}
	if e.Error != "" {
		return exit, fmt.Errorf("%s: %s", c.host, plain(e.Error, maxText))
	}
	return exit, nil
}

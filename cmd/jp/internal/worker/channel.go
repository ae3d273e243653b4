package worker

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"sync"
	"syscall"
	"time"

	"jp/cmd/jp/internal/subprocess"
	"jp/tools/proc"
)

// channel is a job on its node.
type channel struct {
	in, wire        *outlet
	wireIn, out, eo *inlet
	runs            bool     // it was said that the process runs; of who reads
	spoke           bool     // the process has said something; likewise
	started         chan int // process id, once it is known
	exit            chan exited
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

// open opens a channel. The error is errOver when the connection is. A job that does not fit into a
// line ends alone, and not the connection with all others.
func (c *conn) open(job subprocess.Job) (uint64, *channel, error) {
	m := says(verbOpen, 0, opening{Args: job.Args, Environ: proc.Environ(job.Environ, forwarded()...)})
	if len(m.text) > maxOpening || slices.ContainsFunc(job.Args, func(arg string) bool { return len(arg) >= maxArg }) {
		return 0, nil, &os.SyscallError{Syscall: "arguments of a process on " + c.host, Err: syscall.E2BIG}
	}
	c.opening.Lock()
	defer c.opening.Unlock()
	c.mu.Lock()
	if c.closed {
		c.mu.Unlock()
		return 0, nil, errOver
	}
	c.last++
	n := c.last
	m.channel = n
	ch := &channel{
		in: newOutlet(c.lines, streamIn, n), wire: newOutlet(c.lines, streamWire, n),
		wireIn: newInlet(c.lines, streamWire, n), out: newInlet(c.lines, streamOut, n), eo: newInlet(c.lines, streamErr, n),
		started: make(chan int, 1), exit: make(chan exited, 1),
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

// run runs a job to its end.
func (c *conn) run(ctx context.Context, job subprocess.Job) (proc.Exit, error) {
	came := c.pool.clock()
	ours, err := net.FileConn(job.Wire)
	if err != nil {
		return proc.Exit{Code: -1}, fmt.Errorf("wire: %w", err)
	}
	defer ours.Close()
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
	c.pool.begun(c)
	job.Wire.Close()
	send := func(to *outlet, from io.Reader) {
		if _, err := io.Copy(to, from); err == nil {
			_ = c.lines.write(message{verb: verbEnd, channel: n, text: []byte(to.stream)})
		}
	}
	go send(ch.in, bytes.NewReader(job.Stdin))
	go send(ch.wire, ours)
	fit := sync.OnceFunc(func() { c.pool.fit(c, came) })
	var taken sync.WaitGroup
	for _, s := range []struct {
		to   io.Writer
		from *inlet
	}{{spoken{job.Stdout, fit}, ch.out}, {job.Stderr, ch.eo}, {spoken{ours, fit}, ch.wireIn}} {
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
	if end := (*subprocess.EndError)(nil); errors.As(err, &end) {
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
			return c.exit(ch, e, exit.Cause)
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
			return c.exit(ch, e, exit.Cause)
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
func (c *conn) exit(ch *channel, e exited, cause error) (proc.Exit, error) {
	exit := proc.Exit{Code: e.Code, Signal: signalOf(e.Signal), MaxRSS: e.MaxRSS, Duration: e.Duration, Cause: cause}
	if exit.Signal != 0 {
		exit.Code = -1
	}
	if cause == nil && e.Stopped != "" {
		c.leaving.Store(true)
		exit.Cause = &subprocess.NodeError{Reason: fmt.Sprintf("the worker on %s was ended: %s", c.host, plain(e.Stopped, maxText))}
	}
	if !ch.spoke && cause == nil && e.Stopped == "" {
		c.pool.unfit(c)
	}
	if e.Error != "" {
		return exit, fmt.Errorf("%s: %s", c.host, plain(e.Error, maxText))
	}
	return exit, nil
}

package worker

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"jp/cmd/jp/internal/subprocess"
	"jp/convstore"
	"jp/tools/proc"
)

// conn is a connection to a node: a launcher that runs, and the lines to and from what it has
// started. One goroutine reads and never waits for anything but lines.
type conn struct {
	pool       *Pool
	load       int           // jobs that use it; guarded by pool.mu
	depths     map[int]int   // those of each depth; guarded by pool.mu
	begun      time.Duration // when its first launch began, by pool.clock
	made       bool          // whether it can have jobs; guarded by pool.mu
	used       bool          // whether one has begun; likewise
	doubtUntil time.Duration // until when others are better, by pool.clock: a process could not be run there or said nothing, and none did since; 0 = none; likewise

	ready chan struct{} // closed when the next three are set
	err   error         // why there is no connection; nil = there is one
	hello hello
	host  string // name of the node, as it can be shown

	greeted time.Duration      // when it was there, by proc.SinceBoot
	trip    chan time.Duration // time from the word to go to the first line of the node

	lines  *lines
	stdin  *os.File      // to the launcher
	stdout *os.File      // from it
	stop   func()        // ends the launcher
	said   *words        // of the launcher
	exited chan struct{} // closed when the launcher has ended
	how    error         // how it has ended; set when exited is closed

	over chan struct{}        // closed when nothing more is read or written
	why  *subprocess.EndError // of the jobs that have not ended then
	gone chan struct{}        // closed when nothing that the node has started can still run, or with killed

	leaving atomic.Bool // whether its node begins nothing more; set while mu is held

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
	wake     chan struct{} // full when there is a question to answer
}

func newConn(p *Pool) *conn {
	return &conn{
		pool: p, ready: make(chan struct{}), over: make(chan struct{}), gone: make(chan struct{}), killed: make(chan struct{}),
		depths: map[int]int{}, channels: map[uint64]*channel{}, wake: make(chan struct{}, 1), trip: make(chan time.Duration, 1),
	}
}

// read obeys the node until the connection is over, and returns why.
func (c *conn) read() *subprocess.EndError {
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
			return &subprocess.EndError{State: convstore.StateError, Reason: fmt.Sprintf("the worker on %s broke the protocol: %s", c.host, bad.Reason)}
		}
		if err != nil {
			return &subprocess.EndError{State: convstore.StateLost, Reason: c.lost()}
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
		return c.parts(m.channel, plain(string(m.text), maxText))
	}
	c.mu.Lock()
	ch, last := c.channels[m.channel], c.last
	c.mu.Unlock()
	if ch == nil && m.verb == verbCredit && m.channel > 0 && m.channel <= last {
		return nil // the node has said it while the process ended
	}
	if ch == nil {
		return broken("%s for channel %d, which is not open", quoted([]byte(m.verb)), m.channel)
	}
	if !ch.begun.Swap(true) {
		c.pool.begun(c)
	}
	fits := true
	switch m.verb {
	case streamWire:
		ch.spoke = true
		fits = ch.wireIn.put(m.bytes())
	case streamOut:
		ch.spoke = true
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
			ch.end()
			ch.exit <- e
			c.mu.Lock()
			defer c.mu.Unlock()
			delete(c.channels, m.channel)
			return c.parted()
		}
	default:
		return broken("%s: not for an owner", quoted([]byte(m.verb)))
	}
	if !fits {
		return broken("%s of channel %d: not allowed now", quoted([]byte(m.verb)), m.channel)
	}
	return nil
}

// parts obeys a node that begins no channel after one, because of why. Those after it are for other
// nodes. A node cannot take back one of which it has said anything.
func (c *conn) parts(last uint64, why string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.leaving.Swap(true) || last > c.last {
		return broken("bye after channel %d", last)
	}
	for n, ch := range c.channels {
		switch {
		case n <= last:
		case ch.begun.Load():
			return broken("bye after channel %d, and channel %d had begun", last, n)
		default:
			delete(c.channels, n)
			close(ch.passed)
		}
	}
	c.pool.Log.Info("worker ends", "launcher", c.pool.Name, "host", c.host, "why", why)
	if c.cut == "" {
		c.cut = fmt.Sprintf("the worker on %s has ended: %s", c.host, why)
	}
	return c.parted()
}

// parted returns io.EOF when a node has said all that it will. c.mu is held.
func (c *conn) parted() error {
	if c.leaving.Load() && len(c.channels) == 0 {
		return io.EOF
	}
	return nil
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
func (c *conn) finish(why *subprocess.EndError) {
	c.pool.drop(c, why)
	c.mu.Lock()
	c.closed, c.why = true, why
	left := c.channels
	c.channels = map[uint64]*channel{}
	until := c.answered + c.pool.lease()
	c.mu.Unlock()
	c.stdin.Close() // the node ends what it has, if it can hear that
	for _, ch := range left {
		ch.cut()
	}
	close(c.over)
	if len(left) == 0 {
		close(c.gone)
		return
	}
	hold := max(until-proc.SinceBoot(), time.Second).Round(time.Second)
	c.pool.Warn("launcher %s: the connection to %s is lost: its sub-agents may still run there, for %v at most", c.pool.Name, c.host, hold)
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

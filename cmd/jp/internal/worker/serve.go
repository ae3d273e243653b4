package worker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"jp/cmd/jp/internal/subprocess"
	"jp/cmd/jp/internal/wire"
	"jp/tools/fs"
	"jp/tools/proc"
	"jp/tools/vanishing"
)

// Node is a machine that runs sub-agents for an owner elsewhere.
type Node struct {
	Stdin  io.Reader // lines of the owner
	Stdout io.Writer
	// Host runs the sub-agents. It is killed when the owner is gone and they do not end.
	Host    *proc.Host
	Environ []string // environment of this process, without keys
	Kept    fs.Kept  // what else is kept from tools here
	Refused error    // why no sub-agent may run here; nil = they may
	Build   string   // version of this program
	Warn    func(format string, a ...any)
}

// Bounds of a node.
const (
	startWait = time.Minute // until the first line of the owner
	endWait   = time.Second // from the interrupt to the kill when the owner is gone
	maxLive   = 5 << 10     // the most children that a launcher may have, at each depth
)

// folderName begins the name of the folder of a worker.
const folderName = "jp-worker-"

var (
	errOwnerGone = errors.New("the jp that started this worker is gone")
	errNoStdin   = errors.New("stdin ended before a first line: a launcher hands its stdin on (docker and kubectl exec with -i, ssh without -n)")
	errBye       = errors.New("the jp that started this worker has ended")
)

// Serve serves one owner to its end. Nothing that it started is left then. When ctx ends, the
// sub-agents are stopped and the owner is told how each has ended. The error is the cause of ctx,
// or says how the owner went away; nil = it said so.
func (n Node) Serve(ctx context.Context) error {
	s := &serving{Node: n, lines: newLines(n.Stdin, n.Stdout), live: map[uint64]*process{}, over: make(chan farewell, 2), unable: make(chan error, 1)}
	s.ctx, s.stop = context.WithCancelCause(context.WithoutCancel(ctx))
	defer s.stop(nil)
	vanishing.Sweep(os.TempDir(), folderName)
	dir, err := vanishing.Make("", folderName)
	if err != nil {
		return fmt.Errorf("temporary folder: %w", err)
	}
	defer func() {
		if err := dir.Remove(); err != nil {
			n.Warn("%v", err)
		}
	}()
	s.dir = dir.Path
	begun := make(chan struct{})
	go func() {
		if err := s.begin(); err != nil {
			s.over <- farewell{err}
			return
		}
		close(begun)
		s.over <- farewell{s.read()}
	}()
	late := time.NewTimer(startWait)
	defer late.Stop()
	select {
	case <-ctx.Done():
		cause := context.Cause(ctx)
		told := s.part(cause)
		select {
		case <-begun:
			defer s.lease.Close()
			return s.handIn(cause, told)
		default: // nothing has begun, and nothing will
		}
		select {
		case <-told:
		case <-time.After(endWait):
		}
		return cause
	case f := <-s.over:
		return f.err
	case <-late.C:
		return errors.New("no first line of a jp which starts sub-agents: a worker is started by jp, through a launcher")
	case <-begun:
	}
	defer s.lease.Close()
	looked := time.NewTicker(tick(s.lease.length))
	defer looked.Stop()
	go s.ask()
	for {
		select {
		case <-looked.C:
			if s.lease.Over() {
				told, late := s.part(s.expired()), time.NewTimer(endWait)
				s.abandon(s.expired())
				select { // what the owner says may be lost, and not what it hears
				case <-told:
				case <-late.C:
				}
				return s.expired()
			}
			continue
		case f := <-s.over:
			s.abandon(f.err)
			if f.err == errBye {
				return nil
			}
			return f.err
		case <-ctx.Done():
			cause := context.Cause(ctx)
			return s.handIn(cause, s.part(cause))
		case cause := <-s.unable:
			return s.handIn(cause, s.part(cause))
		}
	}
}

// handIn stops everything. The owner is there and hears how each sub-agent ends.
func (s *serving) handIn(cause error, told <-chan struct{}) error {
	s.stop(cause)
	looked := time.NewTicker(tick(s.lease.length))
	defer looked.Stop()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		<-told
		s.telling.Wait()
	}()
	for {
		select {
		case <-ended:
			return cause
		case <-looked.C:
			if !s.lease.Over() {
				continue
			}
		case <-s.over:
		}
		s.abandon(cause)
		return cause
	}
}

// part has nothing begin any more, and tells the owner. It returns what is closed when that is told.
func (s *serving) part(cause error) <-chan struct{} {
	s.mu.Lock()
	s.done = true
	m := message{verb: verbBye, channel: s.begun, text: []byte(plain(cause.Error(), maxText))}
	s.mu.Unlock()
	told := make(chan struct{})
	go func() {
		defer close(told)
		_ = s.lines.write(m)
	}()
	return told
}

func (s *serving) expired() error {
	return fmt.Errorf("no word for %v from the jp that started this worker", s.lease.length)
}

// farewell is how an owner went away.
type farewell struct{ err error }

// serving is a Node with an owner.
type serving struct {
	Node
	lines   *lines
	lease   *lease
	root    string          // workspace
	environ []string        // variables for all sub-agents
	dir     string          // folder that this worker made
	unable  chan error      // why nothing can be run here any more
	ctx     context.Context // of all sub-agents
	stop    context.CancelCauseFunc
	over    chan farewell
	work    sync.WaitGroup // processes
	telling sync.WaitGroup // the owner of them

	mu    sync.Mutex
	last  uint64 // number of the latest channel
	begun uint64 // of the latest that was begun
	live  map[uint64]*process
	done  bool // nothing is begun any more
}

// process is a channel with its process.
type process struct {
	stop          context.CancelCauseFunc
	in, wireIn    *inlet
	wire, out, eo *outlet
	gone          chan struct{}  // closed by cut
	told          sync.WaitGroup // the owner, that it runs
}

// begin reads the first line of the owner, answers it, and waits for the word to go.
func (s *serving) begin() error {
	first, err := s.lines.readStart()
	switch {
	case err == io.EOF:
		return errNoStdin
	case err != nil:
		return err
	case first.Lease <= 0:
		return broken("a lease of %v", first.Lease)
	}
	host, _ := os.Hostname() // in the place of "" the name of the launcher is shown
	h := hello{Protocol: Protocol, Wire: wire.Protocol, Nonce: first.Nonce, Build: s.Build, Host: host, Lacks: proc.Enforceable().Missing}
	switch {
	case first.Protocol != Protocol || first.Wire != wire.Protocol: // the owner ends it
	case s.Refused != nil:
		h.Refused = plain(s.Refused.Error(), maxText)
	default:
		first.Workspace.Kept.Sealed = append(first.Workspace.Kept.Sealed, s.Kept.Sealed...)
		first.Workspace.Kept.Growing = append(first.Workspace.Kept.Growing, s.Kept.Growing...)
		if s.root, s.environ, err = first.Workspace.Lay(s.dir); err != nil {
			h.Refused = plain(err.Error(), maxText) // the owner reads a line of maxNoise
		}
	}
	if s.lease, err = newLease(s.dir, first.Lease); err != nil {
		return err
	}
	s.lines.endWith(s.lease.Lease)
	if err := s.lines.writeFirst(helloWord, h); err != nil {
		return errOwnerGone
	}
	m, err := s.lines.next()
	switch {
	case err == io.EOF:
		return errOwnerGone
	case err != nil:
		return err
	case m.verb != verbGo || h.Refused != "":
		return broken("%s before the word to go", quoted([]byte(m.verb)))
	case s.lease.Over():
		return s.expired()
	}
	return nil
}

// ask asks the owner for its word, until everything is over.
func (s *serving) ask() {
	every := time.NewTicker(s.lease.length / 3)
	defer every.Stop()
	for s.lines.write(message{verb: verbAlive, text: s.lease.ask()}) == nil {
		<-every.C
	}
}

// abandon ends everything because the owner is gone.
func (s *serving) abandon(cause error) {
	s.mu.Lock()
	s.done = true
	for _, p := range s.live {
		p.cut()
	}
	clear(s.live)
	s.mu.Unlock()
	s.stop(cause)
	late := time.AfterFunc(endWait, s.Host.Kill)
	defer late.Stop()
	s.work.Wait()
}

// cut ends all streams of a process. Writes that nobody takes are left behind.
func (p *process) cut() {
	close(p.gone)
	for _, o := range []*outlet{p.wire, p.out, p.eo} {
		o.close()
	}
	p.in.close()
	p.wireIn.close()
}

// read carries out what the owner says, and returns why it says no more.
func (s *serving) read() error {
	for {
		m, err := s.lines.next()
		switch {
		case err == io.EOF:
			return errOwnerGone
		case err != nil:
			return err
		case s.lease.Over(): // this machine was suspended: what waited meanwhile counts for nothing
			return s.expired()
		case m.verb == verbBye:
			return errBye
		}
		if err := s.obey(m); err != nil {
			return err
		}
	}
}

func (s *serving) obey(m message) error {
	if m.verb == verbHeard {
		n, ok := number(m.text)
		if !ok || m.channel != 0 {
			return broken("an answer to nothing")
		}
		return s.lease.answered(n)
	}
	if m.verb == verbOpen {
		return s.open(m)
	}
	s.mu.Lock()
	p, last := s.live[m.channel], s.last
	s.mu.Unlock()
	if m.channel == 0 || m.channel > last {
		return broken("%s for channel %d, which was not opened", quoted([]byte(m.verb)), m.channel)
	}
	fits := true
	switch m.verb {
	case streamIn, streamWire:
		if p != nil {
			fits = p.inlet(m.verb).put(m.bytes())
		}
	case verbEnd:
		stream := verb(m.text)
		if fits = stream == streamIn || stream == streamWire; fits && p != nil {
			p.inlet(stream).end()
		}
	case verbCredit:
		stream, n, ok := readCredit(m.text)
		if fits = ok && stream != streamIn; fits && p != nil {
			fits = p.outlet(stream).allow(n)
		}
	case verbStop:
		if p != nil {
			p.stop(errStopped)
		}
	default:
		return broken("%s: not for a node", quoted([]byte(m.verb)))
	}
	if !fits {
		return broken("%s of channel %d: not allowed now", quoted([]byte(m.verb)), m.channel)
	}
	return nil
}

var errStopped = errors.New("stopped by its caller")

func (p *process) inlet(stream verb) *inlet {
	if stream == streamIn {
		return p.in
	}
	return p.wireIn
}

func (p *process) outlet(stream verb) *outlet {
	switch stream {
	case streamWire:
		return p.wire
	case streamOut:
		return p.out
	}
	return p.eo
}

// open begins a channel.
func (s *serving) open(m message) error {
	var o opening
	if err := json.Unmarshal(m.text, &o); err != nil || len(o.Args) < 2 || o.Args[0] != "jp" || o.Args[1] != "query" {
		return broken("a channel that is no sub-agent")
	}
	if slices.ContainsFunc(append(o.Environ, o.Args...), func(v string) bool { return strings.ContainsRune(v, 0) }) {
		return broken("a channel with a NUL byte")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case m.channel <= s.last:
		return broken("channel %d after channel %d", m.channel, s.last)
	case len(s.live) >= maxLive:
		return broken("more than %d channels", maxLive)
	}
	s.last = m.channel
	if _, err := os.Stat(s.dir); err != nil && !s.done { // nothing can run here any more; another worker makes another folder
		s.done = true
		s.unable <- fmt.Errorf("temporary folder: %w", err)
	}
	if s.done {
		return nil
	}
	s.begun = m.channel
	p := &process{
		in: newInlet(s.lines, streamIn, m.channel), wireIn: newInlet(s.lines, streamWire, m.channel),
		gone: make(chan struct{}), wire: newOutlet(s.lines, streamWire, m.channel), out: newOutlet(s.lines, streamOut, m.channel), eo: newOutlet(s.lines, streamErr, m.channel),
	}
	s.live[m.channel] = p
	var ctx context.Context
	ctx, p.stop = context.WithCancelCause(s.ctx)
	s.telling.Add(1)
	s.work.Go(func() {
		defer p.stop(nil)
		e := s.run(ctx, m.channel, p, o)
		s.mu.Lock()
		if s.live[m.channel] != nil {
			delete(s.live, m.channel)
			p.cut()
		}
		s.mu.Unlock()
		go func() { // not waited for when the owner is gone
			defer s.telling.Done()
			p.told.Wait()
			_ = s.lines.write(says(verbExit, m.channel, e))
		}()
	})
	return nil
}

// run runs the process of a channel to its end, and all its streams.
func (s *serving) run(ctx context.Context, channel uint64, p *process, o opening) (e exited) {
	end, theirs, err := proc.Pair()
	if err != nil {
		return exited{Code: -1, Error: err.Error()}
	}
	defer theirs.Close()
	conn, err := net.FileConn(end)
	end.Close()
	if err != nil {
		return exited{Code: -1, Error: err.Error()}
	}
	ours := conn.(*net.UnixConn)
	defer ours.Close()
	go func() {
		_, _ = io.Copy(struct{ io.Writer }{ours}, p.wireIn)
		_ = ours.CloseWrite() // fails if the process has gone
	}()
	said := make(chan struct{})
	go func() {
		defer close(said)
		_, _ = io.Copy(p.wire, struct{ io.Reader }{ours})
	}()
	exit, err := s.Host.Run(ctx, proc.Spec{
		Kind: proc.Agent, Args: o.Args, Env: s.environOf(o.Environ), Dir: s.root, Grace: subprocess.Grace,
		Stdin: p.in, Stdout: p.out, Stderr: p.eo, Wire: theirs, Lease: s.lease.Lease,
		Started: func(pid int) {
			theirs.Close() // or the end of its side would not show
			p.told.Go(func() { _ = s.lines.write(says(verbStarted, channel, started{PID: pid})) })
		},
	})
	theirs.Close()
	p.in.close()
	_ = ours.SetReadDeadline(time.Now().Add(subprocess.Drain))
	select {
	case <-said:
	case <-p.gone:
	}
	e = exited{Code: exit.Code, Signal: int(exit.Signal), MaxRSS: exit.MaxRSS, Duration: exit.Duration}
	if exit.Cause != nil {
		e.Stopped = plain(exit.Cause.Error(), maxText)
	}
	if err != nil {
		e.Error = plain(err.Error(), maxText)
	}
	return e
}

// forwarded are the variables that a sub-agent elsewhere gets of its owner. No key is among them.
func forwarded() []string {
	return []string{"TRACEPARENT", "TRACESTATE", "OTEL_SDK_DISABLED", "JP_TAPE", "JP_TAPE_RUN"}
}

// environOf returns the environment of a sub-agent: that of this machine, and what the owner sends.
func (s *serving) environOf(sent []string) []string {
	env := proc.Environ(s.Environ, append(proc.AgentEnv(), append(s.environ, "JP_NONINTERACTIVE=1", subprocess.OneProcessor)...)...)
	return proc.Environ(env, append([]string{"*"}, proc.Environ(sent, forwarded()...)...)...)
}

// signalOf returns a signal that a node names.
func signalOf(n int) syscall.Signal {
	if n < 0 || n > 64 {
		return 0
	}
	return syscall.Signal(n)
}

package worker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"jp/cmd/jp/internal/delegate"
	"jp/cmd/jp/internal/trust"
	"jp/convstore"
	"jp/profiles"
	"jp/tools/proc"
)

// Options say how a Pool reaches its nodes. All fields are required.
type Options struct {
	Name      string // of the launcher
	Launcher  *profiles.Launcher
	Workspace trust.Sent
	Host      *proc.Host // of the launchers
	Dir       string     // their working directory
	Environ   []string   // environment that theirs is taken from
	Secrets   []string   // names of variables that they do not get
	Log       *slog.Logger
}

// Pool runs jobs on other machines. It starts launchers when jobs come, spreads the jobs among them,
// and keeps each launcher until Close. It is the delegate.Runner of a launcher. Safe for concurrent
// use.
type Pool struct {
	Options
	life     context.Context // of launches
	end      context.CancelFunc
	places   chan struct{} // has an element for each job that is on a connection
	starting chan struct{} // has an element for each launch that has not led to a node
	stopWait time.Duration // from the word to stop to the end of a process

	mu    sync.Mutex
	conns []*conn
	err   error // why no connection can be made; nil = none was tried, or all were made
}

var _ delegate.Runner = (*Pool)(nil)

// NewPool returns a Pool. It starts nothing.
func NewPool(o Options) *Pool {
	p := &Pool{
		Options: o, places: make(chan struct{}, o.Launcher.Workers*o.Launcher.Children), starting: make(chan struct{}, o.Launcher.Starting),
		stopWait: childGrace + drainWait,
	}
	p.life, p.end = context.WithCancel(context.Background())
	return p
}

// Lease returns how long a process may run on when this one has died.
func (p *Pool) Lease() time.Duration { return p.Launcher.Lease + slack }

// Run runs a job on a node. It returns when the process has ended with everything below it, as far
// as that can be known: as its node says, or when a node that says nothing must have ended it. The
// error is then a *delegate.EndError.
func (p *Pool) Run(ctx context.Context, job delegate.Job) (proc.Exit, error) {
	stopped := func() (proc.Exit, error) {
		return proc.Exit{Code: -1, Cause: context.Cause(ctx)}, context.Cause(ctx)
	}
	select {
	case p.places <- struct{}{}:
		defer func() { <-p.places }()
	case <-ctx.Done():
		return stopped()
	}
	for try := 1; ; try++ {
		c, err := p.take(ctx)
		if err != nil {
			if ctx.Err() != nil {
				return stopped()
			}
			return proc.Exit{Code: -1}, err
		}
		exit, err := c.run(ctx, job)
		p.leave(c)
		if err != errOver {
			return exit, err
		}
		if c.why.State == convstore.StateError || try >= p.Launcher.Attempts {
			return exit, c.why
		}
	}
}

// take returns the connection with the fewest jobs, or a new one while each has one and there may be
// more. It waits until the connection is made.
func (p *Pool) take(ctx context.Context) (*conn, error) {
	p.mu.Lock()
	if p.err != nil || p.life.Err() != nil {
		defer p.mu.Unlock()
		if p.err == nil {
			return nil, errClosed
		}
		return nil, p.err
	}
	var c *conn
	for _, at := range p.conns {
		if c == nil || at.load < c.load {
			c = at
		}
	}
	if c == nil || c.load > 0 && len(p.conns) < p.Launcher.Workers {
		c = newConn(p)
		p.conns = append(p.conns, c)
		go c.make()
	}
	c.load++
	p.mu.Unlock()
	select {
	case <-c.ready:
		if c.err == nil {
			return c, nil
		}
		p.leave(c)
		return nil, c.err
	case <-ctx.Done():
		p.leave(c)
		return nil, context.Cause(ctx)
	}
}

func (p *Pool) leave(c *conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	c.load--
}

// drop removes a connection that is over, or could not be made because of err.
func (p *Pool) drop(c *conn, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.conns = slices.DeleteFunc(p.conns, func(at *conn) bool { return at == c })
	if err != nil && p.life.Err() == nil {
		p.err = err
	}
}

// Close ends all launchers and returns when none is left. No job may be running.
func (p *Pool) Close() {
	p.end()
	p.mu.Lock()
	conns := slices.Clone(p.conns)
	p.mu.Unlock()
	for _, c := range conns {
		c.bye()
	}
	for _, c := range conns {
		<-c.ended
	}
}

var (
	errClosed = errors.New("the launcher is closed")
	errOver   = errors.New("the connection was over before the job began")
)

// failed is the end of jobs for which there is no connection.
func (p *Pool) failed(state convstore.State, format string, args ...any) error {
	return &delegate.EndError{State: state, Reason: fmt.Sprintf("launcher %s: ", p.Name) + fmt.Sprintf(format, args...)}
}

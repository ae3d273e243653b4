package worker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"jp/cmd/jp/internal/subprocess"
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
	Warn      func(format string, args ...any) // tells the person
}

// Pool runs jobs on other machines. It starts launchers when jobs come, spreads the jobs among
// them, and keeps each launcher until Close. It is the subprocess.Runner of a launcher. Safe for
// concurrent use.
type Pool struct {
	Options
	life     context.Context // of launches
	end      context.CancelFunc
	starting chan struct{} // one element for each launch that has not led to a node
	stopWait time.Duration // from the word to stop until a node must have said how a process has ended
	patience time.Duration // how long a job waits for a connection of its own where another has a place
	clock    func() time.Duration

	mu    sync.Mutex
	conns []*conn
	freed chan struct{} // closed when a place is free, or a connection made or gone; then there is another one
	err   error         // why the latest connection could not be made; no other is tried before again
	fails int           // connections in a row on which no job has begun
	again time.Duration // by clock

	waiting int            // jobs that wait for a place
	making  sync.WaitGroup // connections, until their launchers have ended
}

var _ subprocess.Runner = (*Pool)(nil)

// NewPool returns a Pool. It starts nothing.
func NewPool(o Options) *Pool {
	p := &Pool{
		Options: o, freed: make(chan struct{}), starting: make(chan struct{}, o.Launcher.Starting),
		stopWait: proc.StopLimit(subprocess.Grace) + subprocess.Drain + slack, patience: patience, clock: proc.SinceBoot,
	}
	p.life, p.end = context.WithCancel(context.Background())
	return p
}

// lease is how long a process may run on when this one has died.
func (p *Pool) lease() time.Duration { return p.Launcher.Lease + slack }

// Run runs a job on a node. It returns when the process has ended with everything below it, as far
// as that can be known: as its node says, or when a node that says nothing must have ended it. The
// error is then a *subprocess.EndError.
func (p *Pool) Run(ctx context.Context, job subprocess.Job) (proc.Exit, error) {
	w, err := newWireEnd(job.Wire)
	if err != nil {
		return proc.Exit{Code: -1}, err
	}
	defer w.Close()
	for ctx.Err() == nil {
		again := func(context.Context) error { return nil }
		c, err := p.take(ctx, job.Depth, job.Parallel, func() { again = job.Idle() })
		if err == nil {
			if err = again(ctx); err != nil {
				p.leave(c, job.Depth)
			}
		}
		if err == nil {
			exit, err := c.run(ctx, job, w)
			if p.leave(c, job.Depth); err != errOver {
				return exit, err
			}
		} else if ctx.Err() == nil {
			return proc.Exit{Code: -1}, err
		}
	}
	return proc.Exit{Code: -1, Cause: context.Cause(ctx)}, context.Cause(ctx)
}

// take returns the connection with the fewest jobs, or a new one while each has one and there may
// be more. It waits until there is a place. A connection that takes long to make, such as a job of
// a scheduler that is pending, keeps nobody from a place of another one. When one cannot be made,
// the others go on, and the error is for those who find no other. idle is called before it waits.
func (p *Pool) take(ctx context.Context, depth, parallel int, idle func()) (*conn, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.waiting++
	defer func() { p.waiting-- }()
	for idle := sync.OnceFunc(idle); ; {
		c, again, err := p.pick(depth, parallel)
		if c != nil || err != nil {
			return c, err
		}
		var late <-chan time.Time
		if again > 0 {
			late = time.After(again)
		}
		freed := p.freed
		p.mu.Unlock()
		idle()
		select {
		case <-freed:
		case <-late:
		case <-ctx.Done():
			err = context.Cause(ctx)
		}
		if p.mu.Lock(); err != nil {
			return nil, err
		}
	}
}

// pick returns the connection of a job; nil = it waits, and is to ask again when something is freed,
// or after a time; 0 = not before that. p.mu is held, and the job is one of those that wait.
//
// Each depth has places of its own: a sub-agent that waits for those below it keeps its place, and
// would else keep them waiting. More connections than jobs that work at once help nobody, though
// more may wait. One on which processes cannot be run would be free all the time, and have all jobs.
func (p *Pool) pick(depth, parallel int) (c *conn, again time.Duration, err error) {
	now := p.clock()
	pausing := p.again - now
	if p.err == nil {
		pausing = 0
	}
	switch {
	case p.life.Err() != nil:
		return nil, 0, errClosed
	case len(p.conns) == 0 && pausing > 0:
		return nil, 0, p.err
	}
	later := func(after time.Duration) {
		if again == 0 || after < again {
			again = after
		}
	}
	doubted := func(at *conn) bool { return at.doubtUntil > now }
	fit := slices.ContainsFunc(p.conns, func(at *conn) bool { return at.made && !at.leaving.Load() && !doubted(at) })
	making, soon := 0, false
	for _, at := range p.conns {
		switch {
		case at.leaving.Load():
		case fit && doubted(at):
			later(at.doubtUntil - now)
		case !at.made:
			making++
			soon = soon || now-at.begun < p.patience
		case at.depths[depth] < p.Launcher.Children && (c == nil || at.load < c.load):
			c = at
		}
	}
	alone := c != nil && c.load == 0 && !doubted(c)
	if !alone && making < p.waiting && len(p.conns) < min(p.Launcher.Workers, parallel) {
		if pausing > 0 {
			later(pausing)
		} else {
			p.again = now + maxPause // one is tried after an error, until made or drop
			at := newConn(p)
			at.begun, soon = now, true
			p.conns = append(p.conns, at)
			p.making.Go(at.make)
		}
	}
	if soon {
		later(p.patience)
	}
	if c == nil || !alone && soon {
		return nil, again, nil
	}
	if c.doubtUntil > 0 {
		c.doubtUntil = now + maxPause // one is tried, until it runs
	}
	c.load++
	c.depths[depth]++
	return c, 0, nil
}

func (p *Pool) leave(c *conn, depth int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	c.load--
	c.depths[depth]--
	if c.load == 0 && c.leaving.Load() {
		go c.bye() // it runs nothing more, whether it ends or not
	}
	p.free()
}

// free wakes those who wait for a place. p.mu is held.
func (p *Pool) free() {
	close(p.freed)
	p.freed = make(chan struct{})
}

// made notes that a connection could be made.
func (p *Pool) made(c *conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	c.made, p.err = true, nil
	p.free()
}

// begun notes that a job has begun on a connection.
func (p *Pool) begun(c *conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !c.used {
		c.used, p.fails = true, 0
	}
}

// doubt notes that a process could not be run on a connection, or ended without a word as where it has no memory.
func (p *Pool) doubt(c *conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	c.doubtUntil = p.clock() + maxPause
}

// fit notes that one says something, of a job that came at a time. One that came before another said
// nothing is no sign.
func (p *Pool) fit(c *conn, came time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if c.doubtUntil > 0 && came >= c.doubtUntil-maxPause {
		c.doubtUntil = 0
		p.free()
	}
}

// drop removes a connection that is over, or could not be made, because of err. Another may be made
// at once after one on which a job has begun, and after one that was lost before, but only attempts
// of these in a row; else in a while.
func (p *Pool) drop(c *conn, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.conns = slices.DeleteFunc(p.conns, func(at *conn) bool { return at == c })
	if !c.used {
		p.fails++
	}
	if end := (*subprocess.EndError)(nil); c.used || errors.As(err, &end) && end.State == convstore.StateLost && p.fails < p.Launcher.Attempts {
		err = nil
	}
	if p.life.Err() == nil {
		p.err = err
	}
	if err != nil {
		p.again = p.clock() + min(pause<<min(p.fails-1, 10), maxPause)
	}
	p.free()
}

// Close ends all launchers and returns when none is left. No job may be running.
func (p *Pool) Close() {
	p.end()
	p.mu.Lock()
	for _, c := range p.conns {
		go c.bye()
	}
	p.mu.Unlock()
	p.making.Wait()
}

var (
	errClosed = errors.New("the launcher is closed")
	errOver   = errors.New("the connection or its node was about to end before the job began")
)

// failed is the end of jobs for which there is no connection.
func (p *Pool) failed(state convstore.State, format string, args ...any) error {
	return &subprocess.EndError{State: state, Reason: fmt.Sprintf("launcher %s: ", p.Name) + fmt.Sprintf(format, args...)}
}

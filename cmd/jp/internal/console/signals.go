package console

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"jp/cmd/jp/internal/exit"
)

// SignalError is the cause of a context that a signal ended.
type SignalError struct{ signal syscall.Signal }

func (e *SignalError) Error() string { return "ended by " + signalName(e.signal) }

func (e *SignalError) status() exit.Status {
	switch e.signal {
	case syscall.SIGHUP:
		return exit.Hangup
	case syscall.SIGQUIT:
		return exit.Quit
	case syscall.SIGTERM:
		return exit.Terminated
	}
	return exit.Interrupted
}

func signalName(s syscall.Signal) string {
	switch s {
	case syscall.SIGHUP:
		return "SIGHUP"
	case syscall.SIGQUIT:
		return "SIGQUIT"
	case syscall.SIGTERM:
		return "SIGTERM"
	}
	return "SIGINT"
}

// WithSignals is for commands that start processes or have reserved something: the first SIGINT,
// SIGTERM, SIGHUP or SIGQUIT ends ctx with a *SignalError as its cause, the second calls again and
// ends the process soon (SIGQUIT: at once), the third kills; see presses for which count. Other
// commands leave signals to their default, which ends them at once with the same status for a
// shell. Once ctx has ended, a reader that does not read our output is not waited for long; a
// command with a deadline sets that in c.IO itself. stop must be called. Unless a signal has ended
// ctx, signals have their default again then; otherwise the process is about to end, and a twin of
// the signal (see presses) must not end it before it has said how. Below another WithSignals, the
// outer one alone receives signals, so that no press is counted twice: its first ends ctx, its second
// calls again too.
func (c *Console) WithSignals(ctx context.Context, again func()) (_ context.Context, stop func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	unbound := c.IO.Bound(ctx)
	kills, below := ctx.Value(killing{}).(*sync.Map)
	if !below {
		kills = new(sync.Map)
		ctx = context.WithValue(ctx, killing{}, kills)
	}
	if again != nil {
		kills.Store(&again, again)
	}
	if below {
		return ctx, func() {
			if !errors.As(context.Cause(ctx), new(*SignalError)) {
				kills.Delete(&again)
			}
			unbound()
			cancel(nil)
		}
	}
	kill := func() { kills.Range(func(_, again any) bool { again.(func())(); return true }) }
	signals := make(chan os.Signal, 4)
	for _, s := range []os.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT} {
		// A signal that nohup, or a shell without job control, has set to be ignored stays ignored;
		// Notify would undo that. Where another jp started this one, SIGINT comes only from that.
		if !signal.Ignored(s) || c.Called && s == syscall.SIGINT {
			signal.Notify(signals, s)
		}
	}
	back := c.leaveQuit()
	quit, gone := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(gone)
		var by presses
		for {
			select {
			case <-quit:
				return
			case s := <-signals:
				if !by.counts(s, time.Now()) {
					continue
				}
				if ctx.Err() == nil {
					cancel(&SignalError{s.(syscall.Signal)})
					continue
				}
				signal.Reset(syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP) // the next one kills
				within := killWithin
				if s == syscall.SIGQUIT {
					within = 0
				}
				c.forceEnd(nil, kill, context.Cause(ctx), within)
			}
		}
	}()
	return ctx, func() {
		back()
		if !errors.As(context.Cause(ctx), new(*SignalError)) {
			signal.Stop(signals)
			close(quit)
			<-gone
		}
		unbound()
		cancel(nil)
	}
}

// killing is the key of what the second signal calls: a sync.Map whose values are func().
type killing struct{}

// Within is for commands with a deadline: what the command still says after its work, such as an
// error, does not wait for its reader beyond that time either.
func (c *Console) Within(d time.Duration) {
	ctx, end := context.WithCancel(context.Background())
	time.AfterFunc(d, end)
	c.IO.Bound(ctx)
}

// presses tells signals apart. One can come twice at almost the same time: timeout(1) sends it to
// its child and then to the group, and a parent may pass on a Ctrl-C that the terminal has sent to
// all. Nobody presses a key twice that fast. SIGQUIT always counts.
type presses struct {
	latest os.Signal
	at     time.Time
}

const sameWithin = 150 * time.Millisecond

// counts reports whether a signal is another one than the latest that counted.
func (p *presses) counts(s os.Signal, now time.Time) bool {
	if s == p.latest && s != syscall.SIGQUIT && now.Sub(p.at) < sameWithin {
		return false
	}
	p.latest, p.at = s, now
	return true
}

// Times that a run which is to end may take.
const (
	endWithin  = 15 * time.Second       // for a run to stop what is below it, in the deepest tree
	killWithin = 3 * time.Second        // for a run to write down how it ended, once everything is killed
	wordsTake  = 200 * time.Millisecond // for a run to say its last words
)

// forceEnd lets kill end what is below this process, and ends the process within that time unless
// Main has returned before, or the run has ended. It waits for nothing that the run could wait for.
// The store is as after a kill: the next run settles what is open.
func (c *Console) forceEnd(ended <-chan struct{}, kill func(), why error, within time.Duration) {
	if c.Env.Exit == nil {
		if kill != nil {
			kill()
		}
		return
	}
	time.AfterFunc(within, func() {
		select {
		case <-ended: // by kill, or what it waited for came; the process may have another run
			return
		default:
		}
		said := make(chan struct{})
		go func() {
			defer close(said)
			if c.Last != nil {
				c.Last()
			}
			c.Fail(fmt.Errorf("%w, by force: something did not end", why))
		}()
		select {
		case <-said:
		case <-time.After(wordsTake):
		}
		c.Env.Exit(int(Explain(why).Status))
	})
	if kill != nil {
		go kill()
	}
}

// EndWith is forceEnd for a run that is to end with ctx and takes too long: its deadline passed, or
// its caller is gone. After a single signal it may take as long as it needs. Once stop is called, the
// run has ended.
func (c *Console) EndWith(ctx context.Context, kill func()) (stop func()) {
	ended := make(chan struct{})
	context.AfterFunc(ctx, func() {
		cause := context.Cause(ctx)
		if errors.As(cause, new(*SignalError)) {
			return
		}
		select {
		case <-ended:
		case <-time.After(cmp.Or(c.Env.EndWithin, endWithin)):
			c.forceEnd(ended, kill, cause, killWithin)
		}
	})
	return func() { close(ended) }
}

// EndAtQuit ends the process with its exit status at SIGQUIT, except while others take that signal.
// Go's default would print what all goroutines do; SIGABRT still does that.
func (c *Console) EndAtQuit() {
	if c.Env.Exit == nil || signal.Ignored(syscall.SIGQUIT) {
		return
	}
	c.quit = make(chan os.Signal, 1)
	signal.Notify(c.quit, syscall.SIGQUIT)
	go func() {
		<-c.quit
		c.Env.Exit(int(exit.Quit))
	}()
}

// leaveQuit leaves SIGQUIT to others until back is called.
func (c *Console) leaveQuit() (back func()) {
	if c.quit == nil {
		return func() {}
	}
	signal.Stop(c.quit)
	return func() { signal.Notify(c.quit, syscall.SIGQUIT) }
}

// DropKeys catches and drops the signals of the keyboard until the returned function is called:
// they are for a program that has the terminal. Ignored, they would be inherited by it.
func (c *Console) DropKeys() (stop func()) {
	dropped := make(chan os.Signal, 1)
	signal.Notify(dropped, syscall.SIGINT, syscall.SIGQUIT)
	back := c.leaveQuit()
	return func() {
		back()
		signal.Stop(dropped)
	}
}

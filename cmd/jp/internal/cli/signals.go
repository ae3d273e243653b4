package cli

import (
	"context"
	"os"
	"os/signal"
	"syscall"
)

// signalError is the cause of a context that a signal ended.
type signalError struct{ signal syscall.Signal }

func (e *signalError) Error() string { return "ended by " + signalName(e.signal) }

func (e *signalError) status() Status {
	switch e.signal {
	case syscall.SIGHUP:
		return exitHangup
	case syscall.SIGTERM:
		return exitTerminated
	}
	return exitInterrupted
}

func signalName(s syscall.Signal) string {
	switch s {
	case syscall.SIGHUP:
		return "SIGHUP"
	case syscall.SIGTERM:
		return "SIGTERM"
	}
	return "SIGINT"
}

// withSignals is for commands that start processes or hold something to settle: the first SIGINT, SIGTERM or SIGHUP ends ctx
// with a *signalError as its cause, the second calls again, the third kills. Other commands leave signals to their default, which ends
// them at once with the same status for a shell. Once ctx has ended nobody waits for long for who does not read our output; a
// command with a deadline tells a.io of that itself. stop must be called; it gives the signals back.
func (a *app) withSignals(ctx context.Context, again func()) (_ context.Context, stop func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	a.io.Bound(ctx)
	signals := make(chan os.Signal, 4)
	for _, s := range []os.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP} {
		// What nohup, or a shell without job control, set to be ignored stays ignored; Notify would undo that.
		if !signal.Ignored(s) {
			signal.Notify(signals, s)
		}
	}
	quit, gone := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(gone)
		for {
			select {
			case <-quit:
				return
			case s := <-signals:
				if ctx.Err() == nil {
					cancel(&signalError{s.(syscall.Signal)})
				} else {
					// Whatever keeps us from ending now, the next signal ends.
					signal.Reset(syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
					if again != nil {
						again()
					}
				}
			}
		}
	}()
	return ctx, func() {
		signal.Stop(signals)
		close(quit)
		<-gone
		a.io.Unbound()
		cancel(nil)
	}
}

// keepBrokenPipe makes writes to a stdout without a reader return an error instead of killing the process, so that what is
// under way is settled first. The signal is caught and dropped, not ignored: children would inherit that.
func keepBrokenPipe() (stop func()) {
	dropped := make(chan os.Signal, 1)
	signal.Notify(dropped, syscall.SIGPIPE)
	return func() { signal.Stop(dropped) }
}

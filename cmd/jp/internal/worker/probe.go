package worker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"jp/cmd/jp/internal/subprocess"
	"jp/convstore"
	"jp/tools/proc"
)

// Step is a step of a launch.
type Step string

// The steps, in their order.
const (
	StepStart     Step = "start"      // the launcher leads to a worker
	StepProtocol  Step = "protocol"   // the worker speaks the same protocols
	StepWorkspace Step = "workspace"  // it has the workspace
	StepSandbox   Step = "sandbox"    // its sandbox can do what the one here can
	StepProcess   Step = "process"    // a process of a sub-agent begins and ends there
	StepRoundTrip Step = "round trip" // a line and its answer
)

// StepError is a launch that has failed. It wraps a *subprocess.EndError.
type StepError struct {
	Step  Step
	Host  string // of the node; "" = none has answered
	Build string // likewise
	Cause error  // such as an *ExitError, a *LineError, or an *fs.PathError of a launcher that cannot be executed
	Err   error
}

func (e *StepError) Error() string { return e.Err.Error() }
func (e *StepError) Unwrap() error { return e.Err }

// ErrQueue is the cause of a launch that took too long.
var ErrQueue = errors.New("nothing was said in time")

// ExitError is a launcher that ended before it led to a worker.
type ExitError struct{ Exit proc.Exit }

func (e *ExitError) Error() string {
	if e.Exit.Signal != 0 {
		return fmt.Sprintf("it was ended by signal %d (%v)", int(e.Exit.Signal), e.Exit.Signal)
	}
	if e.Exit.Code < 0 {
		return "it ended, and nobody saw how"
	}
	return fmt.Sprintf("it ended (exit %d)", e.Exit.Code)
}

// Found is what a Probe has found. What comes after the step that failed is zero.
type Found struct {
	Host, Build string // of the node
	Start       time.Duration
	Process     time.Duration // of a process that prints its help
	RoundTrip   time.Duration
	Err         *StepError // nil = all is well
}

// Probe launches once and goes through all steps.
func (p *Pool) Probe(ctx context.Context) (f Found) {
	fail := func(step Step, err error) Found {
		if errors.As(err, &f.Err) {
			f.Host, f.Build = f.Err.Host, f.Err.Build
		} else {
			f.Err = &StepError{Step: step, Cause: err, Err: err}
		}
		return f
	}
	begun := proc.SinceBoot()
	c, err := p.take(ctx, 0, 1, func() {})
	if c != nil {
		defer p.leave(c, 0)
		f.Host, f.Build = c.host, plain(c.hello.Build, maxText)
	}
	if err != nil {
		return fail(StepStart, err)
	}
	f.Start = c.greeted - begun
	theirs, ours, err := proc.Pair()
	if err != nil {
		return fail(StepProcess, err)
	}
	defer ours.Close()
	w, err := newWireEnd(theirs)
	if err != nil {
		return fail(StepProcess, err)
	}
	defer w.Close()
	begun = proc.SinceBoot()
	limited, stop := context.WithTimeoutCause(ctx, p.Launcher.Lease, fmt.Errorf("a jp there did not end in %v", p.Launcher.Lease))
	defer stop()
	said := &subprocess.Messages{}
	exit, err := c.run(limited, subprocess.Job{Args: func() []string { return []string{"jp", "query", "--help"} }, Stdout: io.Discard, Stderr: said, Away: func(string, time.Duration) error { return nil }, Started: func(string, int) {}}, w)
	words := strings.TrimSuffix(": "+plain(said.String(), maxText), ": ")
	switch {
	case err != nil:
	case exit.Cause != nil:
		err = fmt.Errorf("%w%s", exit.Cause, words)
	case exit.Code != 0:
		err = fmt.Errorf("a jp there: %w%s", &ExitError{exit}, words)
	}
	if err != nil {
		return fail(StepProcess, err)
	}
	f.Process = proc.SinceBoot() - begun
	select {
	case f.RoundTrip = <-c.trip:
	case <-c.over:
		return fail(StepRoundTrip, c.why)
	case <-ctx.Done():
		return fail(StepRoundTrip, context.Cause(ctx))
	}
	return f
}

// failedStep returns the step at which a launch has failed.
func (h hello) failedStep(state convstore.State) Step {
	switch {
	case h.Nonce == "":
		return StepStart
	case state == convstore.StateError:
		return StepProtocol
	case h.Refused != "":
		return StepWorkspace
	}
	return StepSandbox
}

// Package subprocess runs the process of one sub-agent and says how it ended.
//
// A Job is this program with its arguments, its wire and its run lock. A Runner runs it: Here on
// this machine, a worker.Pool on another one. Verdict decides the one terminal state of a sub-agent
// from its wait status, from what the store has of its turn and from its last line. Messages keeps
// what it wrote on stderr.
//
// What the process says is not believed where the store or the wait status says worse. A Runner
// must not return before the process has ended with everything below it, or else say in an EndError
// for how long it may still run.
package subprocess

import (
	"bytes"
	"context"
	"io"
	"os"
	"time"

	"jp/convstore"
	"jp/tools/proc"
)

// Runner runs the processes of sub-agents: here, or on another machine.
type Runner interface {
	// Run runs a job and returns when its process has ended with everything below it. When ctx ends
	// it stops the process. The error is that of proc.Host.Run, or an *EndError.
	Run(ctx context.Context, job Job) (proc.Exit, error)
}

// Job is the process of a sub-agent: this program with these arguments, in the workspace.
type Job struct {
	Args           func() []string // called when it begins, since they say how much time is left; the first is "jp"
	Depth          int             // of the sub-agent; one waits only for those that are deeper
	Parallel       int             // most sub-agents of the tree that work at once
	Environ        []string
	Stdin          []byte
	Stdout, Stderr io.Writer
	Wire           *os.File // end of its wire; Run closes it when the process has it, at the latest when it returns
	// Lock returns a descriptor of the run lock for a process of this machine.
	Lock func() (*os.File, error)
	// Idle is called before Run waits for a place on another machine, also for another one after
	// Away. It stops the time of the sub-agent and gives back its slot: what has a place may need it
	// to end. Run takes a slot again by what it returns, when it has a place.
	Idle func() (again func(context.Context) error)
	// Away is called before the process starts on another machine, where it may run for so long
	// after this process. The time of the sub-agent begins anew. If Away fails, nothing is started
	// there and Run returns its error. If nothing could be started there, it may be called again
	// with another machine.
	Away func(host string, lease time.Duration) error
	// Started is called once the process runs, with the machine and its process id there, for
	// display; "" is this machine.
	Started func(host string, pid int)
}

// EndError is the end of a job that a Runner knows better than an exit status says it.
type EndError struct {
	State  convstore.State // StateError, StateRefused or StateLost
	Reason string
	Hold   time.Duration // time for which the process may still run somewhere; 0 = it has ended
}

func (e *EndError) Error() string { return e.Reason }

// NodeError is the cause of an end on another machine that neither the caller nor a deadline asked
// for.
type NodeError struct{ Reason string }

func (e *NodeError) Error() string { return e.Reason }

// Here is the Runner of this machine.
type Here struct {
	Host *proc.Host
	Dir  string // working directory
}

// Run implements Runner.
func (h Here) Run(ctx context.Context, job Job) (proc.Exit, error) {
	defer job.Wire.Close() // where it does not start
	return h.Host.Run(ctx, proc.Spec{
		Path: proc.Self(), Args: job.Args(), Dir: h.Dir, Env: job.Environ,
		Stdin: bytes.NewReader(job.Stdin), Stdout: job.Stdout, Stderr: job.Stderr,
		Lock: job.Lock, Wire: job.Wire, Kind: proc.Agent, Grace: Grace,
		Started: func(pid int) {
			job.Wire.Close() // or the end of the child's side would not show
			job.Started("", pid)
		},
	})
}

// Grace is how long a child may take to stop when it is asked to: as long as a tool, once for its
// own tools and once for itself. Its sub-agents are processes of this one, which are asked to stop
// at the same time.
const Grace = 4 * time.Second

// Drain is how long what a child has said may take to be read after its process has ended.
const Drain = 10 * time.Second

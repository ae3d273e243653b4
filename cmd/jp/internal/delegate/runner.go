package delegate

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
	Args           []string // the first is "jp"
	Depth          int      // of the sub-agent; one waits only for those that are deeper
	Environ        []string
	Stdin          []byte
	Stdout, Stderr io.Writer
	Wire           *os.File // end of its wire; Run closes it when the process has it, at the latest when it returns
	Lock           *os.File // run lock, which the process may keep too; it stays open here
	// Away is called before the process starts on another machine, where it may run for so long after
	// this process. If it fails, nothing is started there and Run returns its error. If nothing could
	// be started there, it may be called again with another machine.
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

// here is the Runner of this machine.
type here struct {
	host *proc.Host
	dir  string
}

func (h here) Run(ctx context.Context, job Job) (proc.Exit, error) {
	return h.host.Run(ctx, proc.Spec{
		Path: proc.Self(), Args: job.Args, Dir: h.dir, Env: job.Environ,
		Stdin: bytes.NewReader(job.Stdin), Stdout: job.Stdout, Stderr: job.Stderr,
		Lock: job.Lock, Wire: job.Wire, Kind: proc.Agent, Grace: grace,
		Started: func(pid int) {
			job.Wire.Close() // or the end of the child's side would not show
			job.Started("", pid)
		},
	})
}

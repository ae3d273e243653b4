package proc

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"
)

var (
	// ErrClosed is returned by Run after Kill or Close.
	ErrClosed = errors.New("process host: closed")
	// ErrKilled is the cause of an Exit after Kill or Close.
	ErrKilled = errors.New("killed")
)

// Kind says how a program is run.
type Kind uint8

const (
	// Tool is any program. It runs under a guard in a session of its own, without a terminal, and
	// has descriptors 0, 1 and 2, Spec.Socket as 3, and no others.
	Tool Kind = iota
	// Agent is a jp, which ends what is below itself (Inherit, Watch). It runs in a process group
	// of its own.
	Agent
	// Launcher is a program that starts another elsewhere, such as ssh or srun, and carries its
	// stdin and stdout. It runs like a tool that is not confined, and ends by the end of its stdin.
	Launcher
)

// Options configures a Host. The zero value works.
type Options struct {
	// Grace is for each Spec that has none. 0 is 2 s for a tool or launcher and 4 s for an agent.
	Grace time.Duration
	// Environ is added to the environment of guards, which is otherwise empty but for settings of
	// the Go runtime. GOCOVERDIR is the one variable that makes sense here.
	Environ []string
}

// Spec is one program to run.
type Spec struct {
	// Path is the program. Without a slash it is looked up in the PATH of Env, absolute folders
	// only. A relative one is relative to Dir. Of an Agent "" is Self.
	Path string
	// Args are all arguments, the program's name first. None is Path alone.
	Args []string
	// Env is the whole environment; nil is an empty one. Environ builds it.
	Env []string
	// Dir is the working directory, "" the caller's.
	Dir string
	// Stdin, Stdout and Stderr: nil is /dev/null. An *os.File is handed over as it is, and made
	// blocking; anything else is copied. Where Stdout equals Stderr both are one pipe. A Writer is
	// called from another goroutine than the caller's, two different ones at the same time; when it
	// returns an error the pipe of the program is broken. If the Read of a Stdin does not return
	// after the program has ended, it is abandoned with its goroutine.
	Stdin          io.Reader
	Stdout, Stderr io.Writer
	// Lock opens a file that an Agent inherits, and keeps open until it ends. No other program gets
	// a copy, not for a moment either. nil is none.
	Lock func() (*os.File, error)
	// Wire is a connected socket that an Agent inherits, as Inherited.Wire; see Pair. It stays open
	// here until Started was called, which may close it.
	Wire *os.File
	// Lease is that of an Agent; nil is that of this process, if it has one.
	Lease *Lease
	// Socket is given to a Tool as its descriptor 3; see Pair. nil is none. It stays open here.
	Socket *os.File
	Kind   Kind
	// Stop is a command, the program's name first, that runs if a Launcher had to be killed or was
	// ended by another signal, in the same folder and environment and for at most five times the
	// Grace. nil is none.
	Stop []string
	// End ends the stdin of a Launcher, if its Stdin is an *os.File: by closing the other end of
	// the pipe, of which nobody else may have a copy. It may be called more than once.
	End func()
	// Grace is the time between the interrupt and the kill, and of a launcher also the time between
	// the end of its stdin and the interrupt. 0 is that of Options. An agent needs more than the
	// programs below it.
	Grace time.Duration
	// Confine is what a Tool can touch; nil is all that the user can.
	Confine *Confine
	// Started is called by Run once the program runs, with its process id for display: another
	// process may have the number by the time it is used.
	Started func(pid int)
}

// Exit is how a program ended.
type Exit struct {
	Code   int            // exit status; -1 when a signal ended it, or it is not known
	Signal syscall.Signal // 0 unless a signal ended it
	// Cause is set when the status does not show the reason: the cause of the context that ended,
	// ErrKilled, or a *GuardError. It outranks the status.
	Cause    error
	Duration time.Duration // from the start to the end of the program itself
	// MaxRSS is the largest memory of the program, or of one of the children it waited for, in
	// bytes. The kernel includes the memory of the process that started it, a guard or this jp:
	// smaller values do not show.
	MaxRSS int64
	// Killed says that a signal has ended a Launcher, here or elsewhere, so that what it started
	// may run on; Stop is then what went wrong with Spec.Stop, nil if nothing did.
	Killed bool
	Stop   error
}

// setStatus sets Code and Signal.
func (e *Exit) setStatus(s syscall.WaitStatus) {
	e.Code, e.Signal = s.ExitStatus(), 0
	if s.Signaled() {
		e.Code, e.Signal = -1, s.Signal()
	}
}

// Host starts programs and ends them with everything below them. Its methods may be called at the
// same time.
type Host struct {
	options  Options
	self     string
	guardEnv []string
	life     context.Context // ended by Kill; every run has a context of its own besides
	end      context.CancelFunc
	work     sync.WaitGroup
	tidy     sync.Once // removes what killed processes have left of temporary folders

	mu     sync.Mutex
	closed bool
}

// NewHost returns a Host. It starts nothing and changes nothing about the process.
func NewHost(o Options) *Host {
	life, end := context.WithCancel(context.Background())
	return &Host{
		options: o,
		self:    Self(),
		// A guard is one loop that waits. It needs one thread, and memory only while it lists a
		// tree. With a race detector it would live on for a second after its end.
		guardEnv: append([]string{
			"GOMAXPROCS=1", "GOGC=off", "GOMEMLIMIT=64MiB", "GOTRACEBACK=single", "GORACE=atexit_sleep_ms=0",
		}, o.Environ...),
		life: life,
		end:  end,
	}
}

// A run is a program that was started and what is below it.
type run struct {
	pid       int // child at the top of the tree
	begun     time.Time
	interrupt func() // called at most once, as kill is, and neither blocks
	kill      func()
	started   chan int      // receives the process id of the program once it is known
	ended     chan struct{} // closed when the tree is empty and the fields below are set
	released  chan struct{} // closed when nothing of the run is in use any more

	exit   Exit
	err    error
	failed bool // the program could not be executed
}

func newRun() *run {
	return &run{
		begun:    time.Now(),
		started:  make(chan int, 1),
		ended:    make(chan struct{}),
		released: make(chan struct{}),
		exit:     Exit{Code: -1},
	}
}

// Run runs one program and returns when it and everything below it has ended. What the program
// leaves running when it ends is killed.
//
// When ctx ends the program is interrupted (SIGINT, to a tool's whole group), and after Grace
// everything below it is killed. Of a Launcher the stdin is ended first, and Grace later it is
// interrupted. Exit.Cause is the cause of ctx then.
//
// The error is nil whenever the program ran and nothing of it is left, whatever its status.
// Otherwise it wraps
//
//   - an *fs.PathError when the program could not be executed,
//   - the cause of ctx when that had ended before,
//   - ErrClosed,
//   - a *GuardError when the guard died before the program ran,
//   - a *LeftError when something of the tree is left,
//   - ErrOutputHeld, or what a Writer returned.
//
// Beside the last two kinds the Exit is valid.
func (h *Host) Run(ctx context.Context, spec Spec) (Exit, error) {
	if err := h.enter(); err != nil {
		return Exit{Code: -1}, err
	}
	defer h.work.Done()
	name := spec.Path
	exit, err := h.run(ctx, &spec)
	if err != nil && name != "" {
		if _, ok := errors.AsType[*os.PathError](err); !ok {
			err = fmt.Errorf("%s: %w", name, err)
		}
	}
	return exit, err
}

// enter counts a run, so that Close waits for it.
func (h *Host) enter() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return ErrClosed
	}
	h.work.Add(1)
	return nil
}

func (h *Host) run(ctx context.Context, spec *Spec) (Exit, error) {
	if ctx.Err() != nil {
		return Exit{Code: -1, Cause: context.Cause(ctx)}, context.Cause(ctx)
	}
	if err := h.complete(spec); err != nil {
		return Exit{Code: -1}, err
	}
	if err := family.arm(); err != nil {
		return Exit{Code: -1}, err
	}
	var streams stdio
	if err := streams.open(spec.Stdin, spec.Stdout, spec.Stderr); err != nil {
		return Exit{Code: -1}, err
	}
	start := h.runTool // or launcher
	if spec.Kind == Agent {
		start = h.runAgent
	}
	r, err := start(spec, &streams)
	if err != nil {
		streams.abort()
		return Exit{Code: -1}, err
	}
	return h.supervise(ctx, spec, r, &streams)
}

// complete fills fields of spec that are empty.
func (h *Host) complete(spec *Spec) error {
	if spec.Kind == Agent && spec.Path == "" {
		spec.Path = h.self
	}
	_, file := spec.Stdin.(*os.File)
	switch {
	case spec.Path == "":
		return errors.New("program: no path")
	case spec.Kind != Agent && (spec.Lock != nil || spec.Wire != nil || spec.Lease != nil):
		return errors.New("program: a lock, wire or lease is for an agent")
	case spec.Kind != Tool && spec.Confine != nil:
		return errors.New("program: only a tool can be confined")
	case spec.Kind != Tool && spec.Socket != nil:
		return errors.New("program: a socket is for a tool")
	case spec.Kind == Launcher && (spec.Stdin == nil || file && spec.End == nil):
		return errors.New("program: a launcher needs a stdin that jp can end")
	case spec.Kind != Launcher && len(spec.Stop) > 0:
		return errors.New("program: a stop command is for a launcher")
	}
	if len(spec.Args) == 0 {
		spec.Args = []string{spec.Path}
	}
	if spec.Grace <= 0 {
		spec.Grace = h.options.Grace
	}
	if spec.Grace <= 0 {
		spec.Grace = 2 * time.Second
		if spec.Kind == Agent {
			spec.Grace *= 2
		}
	}
	// A guard that was started earlier may have another working directory than the caller has now.
	if dir, err := filepath.Abs(spec.Dir); err == nil {
		spec.Dir = dir
	}
	path, err := LookPath(spec.Path, spec.Env)
	if err != nil {
		return err
	}
	spec.Path = path
	if len(spec.Stop) > 0 {
		stop, err := LookPath(spec.Stop[0], spec.Env)
		if err != nil {
			return fmt.Errorf("stop command: %w", err)
		}
		spec.Stop = append([]string{stop}, spec.Stop[1:]...)
	}
	return nil
}

// LookPath finds the program name in the PATH of env. Relative folders there are skipped: they
// would run a file of the folder in which jp happens to work.
func LookPath(name string, env []string) (string, error) {
	if strings.Contains(name, "/") {
		return name, nil
	}
	list := ""
	for _, e := range env {
		if v, ok := strings.CutPrefix(e, "PATH="); ok {
			list = v
		}
	}
	found := error(syscall.ENOENT)
	for _, dir := range filepath.SplitList(list) {
		if !filepath.IsAbs(dir) {
			continue
		}
		path := filepath.Join(dir, name)
		info, err := os.Stat(path)
		if err != nil || info.IsDir() {
			continue
		}
		if info.Mode()&0o111 != 0 {
			return path, nil
		}
		found = syscall.EACCES
	}
	return "", &os.PathError{Op: "exec", Path: name, Err: found}
}

// supervise waits for r, and stops it when that is asked for.
func (h *Host) supervise(ctx context.Context, spec *Spec, r *run, streams *stdio) (Exit, error) {
	var (
		cause  error
		done   = ctx.Done()
		killed = h.life.Done()
		late   <-chan time.Time // the grace is over
		giveUp <-chan time.Time
	)
	stopped, stopNow := context.WithCancel(context.Background())
	defer stopNow()
	stop := func(why error) {
		if cause == nil {
			cause = why
			stopNow()
		}
	}
	kill := func() {
		done, killed, late = nil, nil, nil
		r.kill()
		giveUp = time.After(spec.killLimit())
	}
	started := func(pid int) {
		if spec.Started != nil {
			spec.Started(pid)
		}
	}
	for running := true; running; {
		select {
		case pid := <-r.started:
			started(pid)
		case <-done:
			stop(context.Cause(ctx))
			done = nil
			grace := spec.Grace
			if spec.Kind == Launcher { // its guard counts the time, with jp or without
				if spec.End != nil {
					spec.End()
				} else {
					streams.in.Close()
				}
				grace = lastStep*grace + spec.killWait()
			}
			r.interrupt()
			late = time.After(grace)
		case <-late:
			kill()
		case <-killed:
			stop(ErrKilled)
			kill()
		case <-giveUp:
			// Even the process that was to end the tree does not die.
			err := errors.Join(streams.finish(stopped.Done()), leftError([]int{r.pid}))
			return Exit{Code: -1, Cause: cause, Duration: time.Since(r.begun)}, err
		case <-r.ended:
			running = false
		}
	}
	select {
	case pid := <-r.started:
		started(pid)
	default:
	}
	<-r.released
	exit, err := r.exit, r.err
	if r.failed {
		err = execError(spec, err)
		streams.abort()
		return exit, err
	}
	// A Ctrl-C may not reach a program that is just being started and has no group of its own yet.
	// The same Ctrl-C ends ctx, perhaps a moment later.
	if cause == nil && exit.Signal == syscall.SIGINT {
		select {
		case <-ctx.Done():
			cause = context.Cause(ctx)
		case <-time.After(spread):
		}
	}
	if cause != nil {
		exit.Cause = cause
	}
	if exit.Duration == 0 {
		exit.Duration = time.Since(r.begun)
	}
	// The rest of the output is still being written. The same two events stop that.
	defer context.AfterFunc(ctx, stopNow)()
	defer context.AfterFunc(h.life, stopNow)()
	return exit, errors.Join(err, streams.finish(stopped.Done()))
}

// spread is the time within which one Ctrl-C reaches all processes that it is for.
const spread = 200 * time.Millisecond

// execError says what could not be executed: a missing working directory gives the same number as a
// missing program.
func execError(spec *Spec, err error) error {
	if spec.Dir != "" {
		if info, derr := os.Stat(spec.Dir); derr != nil {
			return &os.PathError{Op: "chdir", Path: spec.Dir, Err: errors.Unwrap(derr)}
		} else if !info.IsDir() {
			return &os.PathError{Op: "chdir", Path: spec.Dir, Err: syscall.ENOTDIR}
		}
	}
	return &os.PathError{Op: "exec", Path: spec.Path, Err: err}
}

// Kill ends every program of the Host now, with everything below them, and makes later runs fail.
// It does not wait: Run returns when its tree is gone.
func (h *Host) Kill() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.closed {
		h.closed = true
		h.end()
	}
}

// Close kills what still runs and returns when nothing that this process started or adopted is
// left. Every Host is closed before its process exits.
func (h *Host) Close() error {
	h.Kill()
	h.work.Wait()
	return family.sweepAll()
}

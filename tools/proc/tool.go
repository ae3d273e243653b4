package proc

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"

	"jp/tools/vanishing"
)

// A GuardError says that a guard ended without a report: it was killed, by its tool perhaps, or the
// system had no room for it. How the tool ended is unknown; nothing of it is left.
type GuardError struct {
	Launched bool   // the tool may have run; if not it did not
	Said     string // the guard's last words, cut to a few lines
}

func (e *GuardError) Error() string {
	s := "guard: ended without a report"
	if !e.Launched {
		s += " before it started the tool"
	}
	if e.Said != "" {
		s += ": " + e.Said
	}
	return s
}

// killWait is how long a guard may take to end its tool before jp does it.
const killWait = 2 * time.Second

// killWait is the same with the time of a stop command.
func (s *Spec) killWait() time.Duration {
	if len(s.Stop) > 0 {
		return killWait + stopGraces*s.Grace
	}
	return killWait
}

// killLimit is how long a kill may take until what is left is given up: that of the guard and that of jp.
func (s *Spec) killLimit() time.Duration { return s.killWait() + 2*sweepLimit }

// StopLimit is how long after the end of its context Run returns at the latest, of an Agent with this
// grace.
func StopLimit(grace time.Duration) time.Duration {
	return grace + (&Spec{}).killLimit() + 2*stuckWait + readerWait
}

// A StopError says what went wrong with Spec.Stop.
type StopError struct {
	Code   int            // exit status; -1 when a signal ended it, or it did not run
	Signal syscall.Signal // SIGKILL where it took too long
	Err    error          // why it could not be executed; nil = it ran
}

func (e *StopError) Error() string {
	switch {
	case e.Err != nil:
		return "stop command: " + e.Err.Error()
	case e.Signal != 0:
		return "stop command: ended by signal: " + e.Signal.String()
	}
	return fmt.Sprint("stop command: exit status ", e.Code)
}

// A guarded is a guard with its socket.
type guarded struct {
	c   *child
	ctl *os.File
}

// newGuard starts a guard that waits for its order.
func (h *Host) newGuard() (*guarded, error) {
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	defer null.Close()
	ours, theirs, err := socketpair()
	if err != nil {
		return nil, err
	}
	defer closeFD(theirs)
	ctl, err := pollable(ours, "guard")
	if err != nil {
		return nil, err
	}
	args, files := []string{guardName, guardArg}, []uintptr{null.Fd(), null.Fd(), uintptr(theirs)}
	if lease := family.leased(); lease != unleased {
		args, files = append(args, guardLease), append(files, uintptr(lease))
	}
	c, err := family.start(false, func() (int, error) {
		return syscall.ForkExec(h.self, args, &syscall.ProcAttr{
			Env:   h.guardEnv,
			Files: files,
			// The guard gets a group of its own: signals of the terminal for the group of jp are
			// not for it. It gets no session of its own: when jp dies while the guard is stopped,
			// the group of the guard becomes an orphaned one, which the kernel continues.
			Sys: &syscall.SysProcAttr{Setpgid: true},
		})
	})
	if err != nil {
		ctl.Close()
		return nil, fmt.Errorf("guard: %w", &os.PathError{Op: "exec", Path: h.self, Err: err})
	}
	return &guarded{c, ctl}, nil
}

// runTool starts spec, a tool or launcher, under a guard. It does not wait.
func (h *Host) runTool(spec *Spec, io *stdio) (*run, error) {
	o := order{path: spec.Path, dir: spec.Dir, args: spec.Args, env: spec.Env, stop: spec.Stop}
	if spec.Kind == Launcher {
		o.grace = spec.Grace
	}
	var tmp *vanishing.Dir
	if spec.Confine != nil {
		c, err := spec.Confine.prepare(spec)
		if err != nil {
			return nil, err
		}
		o.env, o.confine, tmp = spec.Env, c.String(), c.tmp
		if tmp != nil {
			h.tidy.Do(func() { go vanishing.Sweep(filepath.Dir(tmp.Path), vanishing.OfTool) })
		}
	}
	message, err := o.encode()
	if err != nil {
		return nil, errors.Join(err, tmp.Remove())
	}
	g, err := h.newGuard()
	if err != nil {
		return nil, errors.Join(err, tmp.Remove())
	}
	rest, err := g.send(message, io, spec.Socket)
	if err != nil && err != syscall.EPIPE { // a guard that is gone has said why
		g.ctl.Close()
		_, _, _ = family.wait(g.c)
		return nil, errors.Join(fmt.Errorf("guard: %w", os.NewSyscallError("sendmsg", err)), tmp.Remove())
	}
	asks := make(chan byte, 2) // one of each kind at most
	swept := make(chan struct{})
	hurry := make(chan struct{}, 2)
	r := newRun()
	r.pid = g.c.pid
	r.interrupt = func() {
		hurry <- struct{}{}
		asks <- askInterrupt
	}
	r.kill = func() {
		hurry <- struct{}{}
		asks <- askKill
		stuck := time.AfterFunc(spec.killWait(), func() { family.kill(g.c) })
		go func() { <-swept; stuck.Stop() }()
	}
	written := make(chan struct{})
	go func() {
		defer close(written)
		_, err := g.ctl.Write(rest)
		io.handed()
		for err == nil {
			select {
			case ask := <-asks:
				_, err = g.ctl.Write([]byte{ask})
			case <-r.ended:
				return
			}
		}
	}()
	go func() {
		g.follow(r)
		close(swept)
		if err := g.removed(tmp, hurry); err != nil && !r.failed {
			r.err = errors.Join(r.err, err)
		}
		close(r.ended)
		<-written
		g.ctl.Close()
		close(r.released)
	}()
	return r, nil
}

// removed returns when the guard is gone, and so the folder tmp of its tool, or killWait after
// something was sent on hurry: a tool may leave more than can be removed in that time. The guard goes
// on with it then, also without this process.
func (g *guarded) removed(tmp *vanishing.Dir, hurry <-chan struct{}) error {
	done := make(chan error, 1)
	go func() {
		_, _, _ = family.wait(g.c) // it has reported what counts
		done <- tmp.Remove()
	}()
	var late <-chan time.Time
	for {
		select {
		case err := <-done:
			return err
		case <-hurry:
			late = time.After(killWait)
		case <-late:
			return nil
		}
	}
}

// send writes the first bytes of the order, with the program's descriptors and socket, which may be
// nil. It returns the rest.
func (g *guarded) send(message []byte, io *stdio, socket *os.File) (rest []byte, err error) {
	raw, err := g.ctl.SyscallConn()
	if err != nil {
		return nil, err
	}
	fds := []int{int(io.fds[0]), int(io.fds[1]), int(io.fds[2])}
	if socket != nil {
		fds = append(fds, int(socket.Fd()))
	}
	rights := syscall.UnixRights(fds...)
	n, sendErr := 0, error(nil)
	err = raw.Write(func(fd uintptr) bool {
		for {
			n, sendErr = syscall.SendmsgN(int(fd), message, rights, nil, sendFlags|syscall.MSG_DONTWAIT)
			if sendErr != syscall.EINTR {
				return sendErr != syscall.EAGAIN
			}
		}
	})
	runtime.KeepAlive(io.files)
	runtime.KeepAlive(socket)
	return message[n:], cmp.Or(err, sendErr)
}

// follow reads the reports of the guard until nothing is left below it or it is gone. Then it ends
// the processes that the guard could not end.
func (g *guarded) follow(r *run) {
	var failed syscall.Errno
	var launched, exited, clean bool
	var said strings.Builder
	lines := bufio.NewReaderSize(g.ctl, 4096)
	for !clean {
		line, err := lines.ReadSlice('\n')
		text := strings.TrimSuffix(string(line), "\n")
		switch rep, ok := parseReport(text); {
		case !ok:
			if said.Len()+len(text) < 1024 && strings.TrimSpace(text) != "" {
				said.WriteString(strings.TrimSpace(text) + "; ")
			}
		case rep.what == "launch":
			launched = true
		case rep.what == "started":
			r.started <- rep.pid
		case rep.what == "failed":
			failed, clean = rep.errno, true
		case rep.what == "exit":
			exited = true
			r.exit.setStatus(rep.status)
			r.exit.MaxRSS = rep.maxRSS
			r.exit.Duration = time.Since(r.begun)
		case rep.what == "killed":
			r.exit.Killed = true
		case rep.what == "stop" && rep.status != 0:
			var stop Exit
			stop.setStatus(rep.status)
			r.exit.Stop = &StopError{Code: stop.Code, Signal: stop.Signal}
		case rep.what == "unstopped":
			r.exit.Stop = &StopError{Code: -1, Err: rep.errno}
		case rep.what == "empty":
			clean = true
		}
		if err != nil && err != bufio.ErrBufferFull {
			break
		}
	}
	if !clean {
		_ = awaitEnd(g.c.pid)
		r.err = family.sweep()
	}
	switch {
	case failed != 0:
		r.err = failed
		r.failed = true
	case !exited:
		r.exit.Code = -1
		r.exit.Cause = &GuardError{Launched: launched, Said: strings.TrimSuffix(said.String(), "; ")}
		if !launched {
			r.err = errors.Join(r.err, r.exit.Cause)
		}
	}
}

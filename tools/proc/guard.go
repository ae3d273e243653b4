package proc

import (
	"errors"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"slices"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// guardArg is the argument that makes a jp a guard.
const guardArg = "__guard"

// guardLease is the argument after it of a guard whose descriptor 3 is a lease.
const guardLease = "lease"

// guardName is the name of a guard in lists of processes. It is not jp, so that "pkill -9 jp"
// spares it: a guard that lives ends its tool when jp is gone.
const guardName = "toolguard"

// Guard is the first line of main. In a process started as "toolguard __guard" it is the guard of
// one tool or launcher and does not return; in any other it does nothing.
func Guard(argv []string) {
	if len(argv) < 2 || argv[1] != guardArg {
		return
	}
	lease := unleased
	if slices.Contains(argv[2:], guardLease) {
		lease = 3
	}
	os.Exit(guard(2, lease))
}

// A keeper is the state of a guard: one loop over blocking system calls. It needs no new thread
// when a tool has used up what the user may have, which would end a Go program.
type keeper struct {
	ctl   int // the socket to jp
	tool  int
	ended int // polls readable when the tool has ended
	kids  *kidList
	lease leased

	orphaned bool // jp is gone, or the lease is over

	status   syscall.WaitStatus // of the tool, once collected
	usage    syscall.Rusage
	done     bool // collected
	reported bool // its exit

	// Of a launcher, which is called tool here too.
	grace  time.Duration // 0 = a tool
	steps  int           // steps of its end that were taken, see ending
	next   time.Time     // time of the next one; zero = it is not to end
	stderr int           // its descriptor 2, which its stop command gets

	killAll func() // kills all of a confined tool at once; nil = a sweep has to find them
}

// guard serves one order on the socket ctl and returns its exit status.
func guard(ctl int, lease leased) int {
	if _, err := unix.GetsockoptInt(ctl, unix.SOL_SOCKET, unix.SO_TYPE); err != nil {
		fmt.Fprintln(os.Stderr, "jp: __guard: started by jp itself, not for use by hand")
		return 2
	}
	runtime.LockOSThread() // the tool dies with the thread that started it
	takeName(guardName)
	openScore()
	syscall.CloseOnExec(ctl)
	// Signals are caught and dropped, so that only jp ends a guard. They are not ignored, which the
	// tool would inherit.
	signal.Notify(make(chan os.Signal, 1),
		syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGTERM, syscall.SIGPIPE)
	if err := arm(); err != nil {
		fmt.Fprintln(os.Stderr, err) // jp reads it on the socket
		return 1
	}
	o, files, err := receive(ctl)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	if len(files) == 0 {
		return 0 // jp is gone, or had no use for this guard
	}
	// What the guard needs for finding what is left is opened before the tool starts. The tool may
	// be able to take away its guard's right to open anything.
	kids, err := openKids()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	k := &keeper{ctl: ctl, kids: kids, lease: lease}
	if o.confine == "" {
		if !k.launch(o, files) {
			return 0
		}
		k.watch()
		k.finish(o)
		return 0
	}
	c, err := decodeConfinement(o.confine)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	var ok bool
	switch ok, k.killAll, err = c.inside(func() bool { return k.launch(o, files) }); {
	case err != nil:
		fmt.Fprintln(os.Stderr, err) // the tool was not started
		return 1
	case !ok:
		return 0
	}
	k.watch()
	k.finish(o)
	_ = c.tmp.Remove() // jp may be gone; if not, it reports errors
	return 0
}

// launch starts the tool.
func (k *keeper) launch(o order, files []int) bool {
	k.report(report{what: "launch"}) // a tool may kill its guard before it can say more
	var err error
	fds := make([]uintptr, len(files))
	for i, fd := range files {
		fds[i] = uintptr(fd)
	}
	k.tool, k.ended, err = o.spawn(o.path, o.args, fds)
	if o.grace > 0 {
		k.grace, k.stderr = o.grace, files[2]
		files = append(files[:2:2], files[3:]...)
	}
	for _, fd := range files {
		closeFD(fd)
	}
	if err != nil {
		k.report(report{what: "failed", errno: errnoOf(err)})
		return false
	}
	k.report(report{what: "started", pid: k.tool})
	return true
}

// spawn starts a program of o in a session of its own, and returns a descriptor that polls readable
// when it has ended.
func (o order) spawn(path string, args []string, files []uintptr) (pid, ended int, err error) {
	pid, ended, err = spawn(path, args, &syscall.ProcAttr{Dir: o.dir, Env: o.env, Files: files, Sys: &syscall.SysProcAttr{Setsid: true}})
	if err == nil && ended < 0 {
		ended = endPipe(pid)
	}
	return pid, ended, err
}

// endPipe returns a descriptor that polls readable when pid has ended, for kernels that have none
// of their own.
func endPipe(pid int) int {
	r, w, err := pipe()
	if err != nil {
		return -1 // poll ignores it; the tick of watch finds the end
	}
	go func() {
		_ = awaitEnd(pid)
		closeFD(w)
	}()
	return r
}

// tick is how often a guard collects orphans that have ended by themselves.
const tick = time.Second

// watch returns when the tool has ended, or is to be ended.
func (k *keeper) watch() {
	fds := []unix.PollFd{{Fd: int32(k.ctl), Events: unix.POLLIN}, {Fd: int32(k.ended), Events: unix.POLLIN}}
	for more := false; !k.done || k.lingers(); {
		if k.lease.left() <= -guardLag {
			k.orphaned = true
			return
		}
		wait := k.patience()
		if more {
			wait = 0
		}
		n, err := unix.Poll(fds, int(wait/time.Millisecond))
		if err != nil && err != unix.EINTR {
			return
		}
		if n > 0 && fds[0].Revents != 0 {
			var ask [1]byte
			switch n, err := unix.Read(k.ctl, ask[:]); {
			case err == unix.EINTR:
			case n == 1 && ask[0] == askInterrupt && k.grace == 0:
				k.interrupt()
			case n == 1 && ask[0] == askInterrupt:
				k.ending()
			case n <= 0 && k.grace > 0:
				k.orphaned, fds[0].Fd = true, -1
				k.ending()
			default:
				k.orphaned = n <= 0 // or it is askKill
				return
			}
		}
		if fds[1].Revents != 0 && (k.grace == 0 || !adopts) {
			// As long as the tool is not collected its group is its own. Processes that left the
			// group are for finish.
			_ = unix.Kill(-k.tool, unix.SIGKILL)
		}
		if adopts || fds[1].Revents != 0 || k.ended < 0 {
			more = k.collect(1000) // and then listens to jp again
		}
		if k.done {
			fds[1].Fd = -1
		}
		if !k.next.IsZero() && time.Until(k.next) <= 0 {
			if k.steps == lastStep || k.done {
				return
			}
			k.interrupt()
			k.step()
		}
	}
}

// interrupt sends SIGINT to the tool's group. A stopped tool sees no signal before it continues.
// The number of the group belongs to the tool and is not free before the tool is collected.
func (k *keeper) interrupt() {
	_ = unix.Kill(-k.tool, unix.SIGINT)
	_ = unix.Kill(-k.tool, unix.SIGCONT)
}

// ending begins the end of a launcher, whose stdin has ended: the grace, SIGINT, the grace, and
// then it is killed. srun, for one, leaves its task running when it is killed at once.
func (k *keeper) ending() {
	if k.steps == 0 && !k.done {
		_ = unix.Kill(-k.tool, unix.SIGCONT)
		k.step()
	}
}

// lastStep is the number of steps of the end of a launcher before it is killed.
const lastStep = 2

func (k *keeper) step() { k.steps, k.next = k.steps+1, time.Now().Add(k.grace) }

// lingers reports whether a launcher that a signal ended has left processes, which may have to tell
// its scheduler that it is gone. They have the grace for that.
func (k *keeper) lingers() bool {
	if k.grace == 0 || !k.status.Signaled() || !adopts || noChildren() {
		return false
	}
	if k.steps <= lastStep {
		k.step()
		k.steps = lastStep + 1
	}
	return true
}

// patience is how long watch waits for an event.
func (k *keeper) patience() time.Duration {
	switch {
	case k.done:
		return 5 * time.Millisecond
	case k.next.IsZero():
		return max(0, min(tick, k.lease.left()+guardLag+time.Millisecond))
	}
	return max(0, min(tick, time.Until(k.next)+time.Millisecond))
}

// collect collects so many children that have ended, and reports whether there may be more: a tool can
// leave some all the time. It asks for the tool first, since wait4 looks last at what another thread
// has started, and would never come to the tool.
func (k *keeper) collect(most int) (more bool) {
	which := k.tool
	if k.done {
		which = -1
	}
	for range most {
		var status syscall.WaitStatus
		var usage syscall.Rusage
		pid, err := syscall.Wait4(which, &status, syscall.WNOHANG, &usage)
		switch {
		case err == syscall.EINTR:
			continue
		case pid == k.tool:
			k.status, k.usage, k.done = status, usage, true
		case pid <= 0 && which < 0:
			return false
		}
		which = -1
	}
	return true
}

// orphanLimit bounds the last sweep of a guard without a jp. After that nobody would sweep.
const orphanLimit = time.Minute

// finish ends what is left, runs the stop command of a launcher that a signal has ended, and
// reports.
func (k *keeper) finish(o order) {
	killed := k.grace > 0 && (!k.done || k.status.Signaled())
	if k.done && !killed && noChildren() {
		k.report(append(k.exit(), report{what: "empty"})...)
		return
	}
	k.report(k.exit()...)
	if killed {
		k.report(report{what: "killed"})
	}
	left, err := k.sweep()
	if killed && len(o.stop) > 0 {
		k.report(k.runStop(o))
		again, more := k.sweep()
		left, err = append(left, again...), errors.Join(err, more)
	}
	switch {
	case len(left) > 0:
		k.report(report{what: "left", left: left})
	case err == nil:
		k.report(report{what: "empty"})
	default:
		fmt.Fprintln(os.Stderr, err)
	}
}

// sweep ends what is below the guard.
func (k *keeper) sweep() (left []int, err error) {
	limit := sweepLimit
	if k.orphaned {
		limit = orphanLimit
	}
	list := func() ([]int, error) {
		k.collect(100_000)
		k.report(k.exit()...)
		return k.below()
	}
	if k.killAll != nil { // some may fork faster than a sweep sees them
		k.killAll()
	}
	return sweep(list, func(int) bool { return false }, &sync.Mutex{}, limit)
}

// stopGraces bounds the stop command of a launcher, in times of its grace.
const stopGraces = 5

// runStop runs the stop command of a launcher and returns how it ended. What it leaves is for
// sweep.
func (k *keeper) runStop(o order) report {
	stderr := uintptr(k.stderr)
	if k.orphaned {
		stderr = 1 // of the guard, /dev/null: nobody reads what the launcher would write to
	}
	pid, ended, err := o.spawn(o.stop[0], o.stop, []uintptr{0, 1, stderr})
	if err != nil {
		return report{what: "unstopped", errno: errnoOf(err)}
	}
	fds := []unix.PollFd{{Fd: int32(ended), Events: unix.POLLIN}}
	for by := time.Now().Add(stopGraces * k.grace); ; {
		if n, err := unix.Poll(fds, int(max(0, time.Until(by))/time.Millisecond)); err != unix.EINTR || n > 0 || time.Until(by) <= 0 {
			break
		}
	}
	s := &keeper{ctl: k.ctl, tool: pid, kids: k.kids, orphaned: k.orphaned, reported: true}
	_, _ = s.sweep() // what is left is found again
	return report{what: "stop", status: s.status}
}

func errnoOf(err error) syscall.Errno {
	if errno, ok := err.(syscall.Errno); ok {
		return errno
	}
	return syscall.EINVAL
}

// below lists the children that are left. It is an error if there are more than /proc shows.
func (k *keeper) below() ([]int, error) {
	kids, err := k.kids.children()
	if !k.done && !slices.Contains(kids, k.tool) {
		kids = append(kids, k.tool)
	}
	if err == nil && len(kids) == 0 && !noChildren() {
		err = errors.New("process tree: children that /proc does not show")
	}
	return kids, err
}

// exit returns the report of how the tool has ended, once.
func (k *keeper) exit() []report {
	if !k.done || k.reported {
		return nil
	}
	k.reported = true
	return []report{{what: "exit", status: k.status, maxRSS: maxRSS(&k.usage)}}
}

// report sends reports, if jp still reads them. Each begins with an end of line, since the runtime
// may have written something before.
func (k *keeper) report(rs ...report) {
	var lines []byte
	for _, r := range rs {
		lines = fmt.Appendf(lines, "\n%v\n", r)
	}
	for len(lines) > 0 {
		n, err := unix.SendmsgN(k.ctl, lines, nil, nil, sendFlags)
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return
		}
		lines = lines[n:]
	}
}

// receive reads an order and the descriptors that come with it, three or four. It returns no
// descriptors when the stream ends first.
func receive(ctl int) (o order, files []int, err error) {
	var head [4]byte
	oob := make([]byte, unix.CmsgSpace(5*4)) // with room for one more, which is seen and refused
	if files, err = receiveFull(ctl, head[:], oob); err != nil || files == nil {
		return order{}, nil, err
	}
	n, err := orderSize(head)
	if err != nil {
		return order{}, nil, err
	}
	body := make([]byte, n)
	if more, err := receiveFull(ctl, body, nil); err != nil || more == nil {
		return order{}, nil, err
	}
	o, err = decodeOrder(body)
	return o, files, err
}

// receiveFull fills b, and returns the descriptors received on the way: not nil, and 3 or 4 of them
// where oob has room. It returns nil at the end of the stream.
func receiveFull(ctl int, b, oob []byte) (files []int, err error) {
	want := len(oob) > 0
	files = []int{}
	for len(b) > 0 {
		n, oobn, _, _, err := unix.Recvmsg(ctl, b, oob, recvFlags)
		switch {
		case err == unix.EINTR:
			continue
		case err != nil:
			return nil, os.NewSyscallError("recvmsg", err)
		case n == 0:
			return nil, nil
		}
		b = b[n:]
		messages, err := unix.ParseSocketControlMessage(oob[:oobn])
		if err != nil {
			return nil, err
		}
		for _, m := range messages {
			fds, err := unix.ParseUnixRights(&m)
			if err != nil {
				return nil, err
			}
			files = append(files, fds...)
		}
		oob = oob[:0]
	}
	if want && len(files) != 3 && len(files) != 4 {
		return nil, fmt.Errorf("order: %d descriptors, want 3 or 4", len(files))
	}
	for _, fd := range files {
		syscall.CloseOnExec(fd)
	}
	return files, nil
}

package proc

import (
	"os"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Self returns the path to execute for another jp. Args[0] must be "jp": a test binary looks at it
// to know what it shall be. The path works even after the file was replaced or removed.
func Self() string { return "/proc/self/exe" }

// SinceBoot is a clock that all processes of the machine share. It is not set, and goes on while
// the machine is suspended.
func SinceBoot() time.Duration {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts); err != nil {
		panic("clock: " + err.Error()) // of every Linux since 2.6.39
	}
	return time.Duration(ts.Nano())
}

// takeName makes lists of processes (ps, top, pgrep) show this process by name instead of exe, the
// last word of Self. Without /proc it does nothing.
func takeName(name string) {
	// A process that is not dumpable may write this file, and not /proc/self/comm.
	_ = os.WriteFile("/proc/self/task/"+strconv.Itoa(os.Getpid())+"/comm", []byte(name), 0)
}

// Conceal keeps programs of the same user from reading this process's memory, environment and
// descriptors. A jp calls it first: its environment may hold keys.
func Conceal() {
	_ = unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0) // arm does it again, and says what is wrong
}

// Timer slacks: how much later than asked the kernel may wake a thread, in nanoseconds. A process
// has that of the thread that starts it.
const (
	usualSlack = 50_000
	// An agent works for a few milliseconds at a time, and nothing that it waits for is that exact.
	// While it works, a thread of Go's runtime sleeps for 20 µs again and again, see docs/performance.md.
	agentSlack = 500_000
)

// slackened calls fork, which starts an agent or another process, with the timer slack for it.
// What an agent starts does not have that of the agent.
func slackened(agent bool, fork func() (pid int, err error)) (pid int, err error) {
	runtime.LockOSThread() // threads that Go starts meanwhile come from another one
	defer runtime.UnlockOSThread()
	was, err := unix.PrctlRetInt(unix.PR_GET_TIMERSLACK, 0, 0, 0, 0)
	if slack := agentSlack; err == nil && (agent || was == agentSlack) {
		if !agent {
			slack = usualSlack
		}
		_ = unix.Prctl(unix.PR_SET_TIMERSLACK, uintptr(slack), 0, 0, 0)
		defer func() { _ = unix.Prctl(unix.PR_SET_TIMERSLACK, uintptr(was), 0, 0, 0) }()
	}
	return fork()
}

// awaitEnd returns when the child pid has ended, without collecting it.
func awaitEnd(pid int) error {
	for {
		if err := unix.Waitid(unix.P_PID, pid, nil, unix.WEXITED|unix.WNOWAIT, nil); err != unix.EINTR {
			return os.NewSyscallError("waitid", err)
		}
	}
}

// score is the file by which the kernel chooses what to end where memory is short; -1 = not open.
var score = -1

// openScore is for a process that is dumpable. Any other may not open the file.
func openScore() { score, _ = openRetry("/proc/self/oom_score_adj", unix.O_RDWR|unix.O_CLOEXEC) }

// expendable makes the kernel end what fork starts before this process and jp, unless these have a
// fifth of the memory: a tool of many small processes could have both ended, and live on.
func expendable(fork func()) {
	b := make([]byte, 8)
	n, _ := unix.Pread(score, b, 0)
	if was, err := strconv.Atoi(strings.TrimSpace(string(b[:max(n, 0)]))); err == nil {
		set := func(v int) { _, _ = unix.Pwrite(score, []byte(strconv.Itoa(v)), 0) }
		set(min(was+200, 1000))
		defer set(was)
	}
	fork()
}

// spawn is syscall.ForkExec that also returns a descriptor which polls readable when the process
// has ended, or -1 where the kernel has none (before Linux 5.3). The process is killed when the
// calling thread ends.
func spawn(path string, argv []string, attr *syscall.ProcAttr) (pid, ended int, err error) {
	ended = -1
	attr.Sys.PidFD, attr.Sys.Pdeathsig = &ended, syscall.SIGKILL
	pid, err = syscall.ForkExec(path, argv, attr)
	return pid, ended, err
}

// socketpair returns two connected stream sockets. The descriptors of this package are
// close-on-exec from the start.
func socketpair() (a, b int, err error) {
	fds, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	return fds[0], fds[1], os.NewSyscallError("socketpair", err)
}

func pipe() (r, w int, err error) {
	var fds [2]int
	err = syscall.Pipe2(fds[:], syscall.O_CLOEXEC)
	return fds[0], fds[1], os.NewSyscallError("pipe2", err)
}

// recvFlags make received descriptors close-on-exec; with sendFlags a closed peer is an error and
// no signal.
const (
	recvFlags = syscall.MSG_CMSG_CLOEXEC
	sendFlags = syscall.MSG_NOSIGNAL
)

// maxRSS returns the largest memory of a finished process in bytes.
func maxRSS(u *syscall.Rusage) int64 { return int64(u.Maxrss) * 1024 }

// Adopts reports whether jp can become the parent of what its children leave behind. Without that,
// a process that leaves its group could outlive it.
func Adopts() bool {
	var is int32
	return unix.Prctl(unix.PR_GET_CHILD_SUBREAPER, uintptr(unsafe.Pointer(&is)), 0, 0, 0) == nil
}

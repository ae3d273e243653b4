//go:build darwin || dragonfly || freebsd || netbsd || openbsd

package proc

import (
	"os"
	"runtime"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Self returns the path to execute for another jp. Args[0] must be "jp": a test binary looks at it
// to know what it shall be. It is empty where the system does not say.
func Self() string {
	path, _ := os.Executable()
	return path
}

// SinceBoot is a clock that all processes of the machine share. It is not set. On macOS it goes on
// while the machine is suspended.
func SinceBoot() time.Duration {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts); err != nil {
		panic("clock: " + err.Error())
	}
	return time.Duration(ts.Nano())
}

// takeName does nothing: the name of a process is that of its file, which is jp.
func takeName(string) {}

// Conceal does nothing: other programs of the user can look into this one.
func Conceal() {}

// slackened calls fork.
func slackened(_ bool, fork func() (pid int, err error)) (pid int, err error) { return fork() }

// awaitEnd returns when the child pid has ended, without collecting it.
func awaitEnd(pid int) error {
	kq, err := unix.Kqueue()
	if err != nil {
		return os.NewSyscallError("kqueue", err)
	}
	defer unix.Close(kq)
	event := make([]unix.Kevent_t, 1)
	unix.SetKevent(&event[0], pid, unix.EVFILT_PROC, unix.EV_ADD|unix.EV_ONESHOT)
	event[0].Fflags = unix.NOTE_EXIT
	for change := event; ; change = nil {
		_, err := unix.Kevent(kq, change, make([]unix.Kevent_t, 1), nil)
		switch err {
		case unix.EINTR:
			if change != nil { // it was registered: only the wait was cut short
				continue
			}
		case unix.ESRCH: // ended already
			return nil
		default:
			return os.NewSyscallError("kevent", err)
		}
	}
}

func openScore() {}

func spawn(path string, argv []string, attr *syscall.ProcAttr) (pid, ended int, err error) {
	pid, err = syscall.ForkExec(path, argv, attr)
	return pid, -1, err
}

func socketpair() (a, b int, err error) {
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	fds, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM, 0)
	if err == nil {
		syscall.CloseOnExec(fds[0])
		syscall.CloseOnExec(fds[1])
	}
	return fds[0], fds[1], os.NewSyscallError("socketpair", err)
}

func pipe() (r, w int, err error) {
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	var fds [2]int
	if err = syscall.Pipe(fds[:]); err == nil {
		syscall.CloseOnExec(fds[0])
		syscall.CloseOnExec(fds[1])
	}
	return fds[0], fds[1], os.NewSyscallError("pipe", err)
}

const (
	recvFlags = 0
	sendFlags = 0
)

func maxRSS(u *syscall.Rusage) int64 {
	if runtime.GOOS == "darwin" {
		return int64(u.Maxrss)
	}
	return int64(u.Maxrss) * 1024
}

// Adopts reports whether jp can become the parent of what its children leave behind. Here it
// cannot.
func Adopts() bool { return false }

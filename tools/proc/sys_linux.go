package proc

import (
	"io/fs"
	"maps"
	"os"
	"slices"
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

// SinceBoot is a clock that all processes of the machine share. It is not set, and goes on while the
// machine is suspended.
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

// kernelTypes are the file systems in which the kernel describes processes and itself, with their
// magic numbers. They hold no files of the user, /proc/self/environ holds keys, and what is written
// to them changes processes or the machine.
var kernelTypes = map[string]int64{
	"proc": unix.PROC_SUPER_MAGIC, "sysfs": unix.SYSFS_MAGIC, "debugfs": unix.DEBUGFS_MAGIC, "tracefs": unix.TRACEFS_MAGIC,
	"securityfs": unix.SECURITYFS_MAGIC, "selinuxfs": unix.SELINUX_MAGIC, "smackfs": unix.SMACK_MAGIC, "bpf": unix.BPF_FS_MAGIC,
	"cgroup": unix.CGROUP_SUPER_MAGIC, "cgroup2": unix.CGROUP2_SUPER_MAGIC, "resctrl": unix.RDTGROUP_SUPER_MAGIC,
	"efivarfs": unix.EFIVARFS_MAGIC, "pstore": unix.PSTOREFS_MAGIC, "nsfs": unix.NSFS_MAGIC, "xenfs": unix.XENFS_SUPER_MAGIC,
	"devpts": unix.DEVPTS_SUPER_MAGIC, "binfmt_misc": unix.BINFMTFS_MAGIC,
	// These have no name in linux/magic.h.
	"mqueue": 0x19800202, "configfs": 0x62656570, "fusectl": 0x65735543, "rpc_pipefs": 0x67596969, "nfsd": 0x6e667364,
}

// KernelFolders returns where file systems like /proc and /sys are mounted.
func KernelFolders() ([]string, error) {
	data, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return nil, err
	}
	// proc_pid_mountinfo(5): the fifth field is the folder, and the type comes after a lone dash.
	unescape := strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\043`, "#", `\134`, `\`)
	var folders []string
	for line := range strings.Lines(string(data)) {
		mount, source, _ := strings.Cut(line, " - ")
		kind, _, _ := strings.Cut(source, " ")
		if fields := strings.Fields(mount); len(fields) >= 5 && kernelTypes[kind] != 0 {
			folders = append(folders, unescape.Replace(fields[4]))
		}
	}
	return folders, nil
}

// OfKernel reports whether the folder root is in a file system like /proc and /sys.
func OfKernel(root *os.Root) (bool, error) {
	f, err := root.Open(".")
	if err != nil {
		return false, err
	}
	defer f.Close()
	var st unix.Statfs_t
	for {
		if err = unix.Fstatfs(int(f.Fd()), &st); err != unix.EINTR {
			break
		}
	}
	return slices.Contains(slices.Collect(maps.Values(kernelTypes)), int64(st.Type)), os.NewSyscallError("fstatfs", err)
}

// awaitEnd returns when the child pid has ended, without collecting it.
func awaitEnd(pid int) error {
	for {
		if err := unix.Waitid(unix.P_PID, pid, nil, unix.WEXITED|unix.WNOWAIT, nil); err != unix.EINTR {
			return os.NewSyscallError("waitid", err)
		}
	}
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

// statNoLinks is os.Stat for a path that is to have no symbolic link, at any part of it.
func statNoLinks(path string) (fs.FileInfo, error) {
	how := unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC, Resolve: unix.RESOLVE_NO_SYMLINKS}
	for {
		fd, err := unix.Openat2(unix.AT_FDCWD, path, &how)
		switch err {
		case nil:
			f := os.NewFile(uintptr(fd), path)
			defer f.Close()
			return f.Stat()
		case unix.EINTR, unix.EAGAIN:
		case unix.ENOSYS: // before Linux 5.6
			return lstatAll(path)
		default:
			return nil, &os.PathError{Op: "open", Path: path, Err: err}
		}
	}
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

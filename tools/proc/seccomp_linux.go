package proc

import (
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Offsets in struct seccomp_data (linux/seccomp.h) on a little-endian machine.
const (
	dataNumber = 0
	dataArch   = 4
	dataArg0   = 16
	dataArg1   = 24
	dataArg2   = 32
)

// x32Bit marks a system call of the x32 ABI, which has numbers of its own.
const x32Bit = 0x40000000

// newNamespaces are the flags of clone and unshare that make a namespace.
const newNamespaces = unix.CLONE_NEWUSER | unix.CLONE_NEWNS | unix.CLONE_NEWNET | unix.CLONE_NEWPID |
	unix.CLONE_NEWUTS | unix.CLONE_NEWIPC | unix.CLONE_NEWCGROUP

// seccompWorks reports whether the kernel takes a filter and there is one for this processor.
func seccompWorks() bool {
	action := uint32(unix.SECCOMP_RET_ERRNO)
	_, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_GET_ACTION_AVAIL, 0, uintptr(unsafe.Pointer(&action)))
	return auditArch != 0 && errno == 0
}

// install sets a filter for the calling thread, which has given up new privileges.
func install(filter []unix.SockFilter) error {
	prog := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	_, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, 0, uintptr(unsafe.Pointer(&prog)))
	runtime.KeepAlive(filter)
	if errno != 0 {
		return errno
	}
	return nil
}

// newestCall is the last system call that refusedAlways was made for. Those behind it are absent,
// as they are for an older kernel: they may reach what nothing here knows of. So are the numbers
// from 512 on, some of which amd64 took for those of x32 before Linux 5.4.
const newestCall = unix.SYS_RSEQ_SLICE_YIELD

// filter returns a program that refuses, with EPERM, system calls that reach into other processes
// or into the kernel, and new namespaces. Without network it also refuses every way to a socket,
// except to a connected pair of Unix stream sockets, which cannot be connected to anything else,
// and takes no name that another program may want.
// SO_LINGER is taken and does nothing: whoever lets go of such a socket last would wait for its peer,
// and that may be jp, to which a tool can send the socket.
// System calls of another ABI, whose numbers mean something else, end the process. Without watch
// the tool cannot see what happens in folders: inotify does not ask which folders the tool may
// list.
//
// Nor does anything signal the thread of its guard, which is confined as the tool is, so that
// Landlock lets a tool end or stop its guard by it: a stopped guard ends nothing when jp is gone.
func filter(network, watch bool, guard int) []unix.SockFilter {
	const (
		refuse = unix.SECCOMP_RET_ERRNO | uint32(unix.EPERM)
		absent = unix.SECCOMP_RET_ERRNO | uint32(unix.ENOSYS)
	)
	load := func(offset uint32) unix.SockFilter {
		return unix.SockFilter{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: offset}
	}
	jump := func(op uint16, k uint32, yes, no uint8) unix.SockFilter {
		return unix.SockFilter{Code: unix.BPF_JMP | op | unix.BPF_K, Jt: yes, Jf: no, K: k}
	}
	ret := func(k uint32) unix.SockFilter { return unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: k} }

	f := []unix.SockFilter{
		load(dataArch),
		jump(unix.BPF_JEQ, auditArch, 1, 0),
		ret(unix.SECCOMP_RET_KILL_PROCESS),
		load(dataNumber),
	}
	if auditArch == unix.AUDIT_ARCH_X86_64 {
		f = append(f, jump(unix.BPF_JSET, x32Bit, 0, 1), ret(unix.SECCOMP_RET_KILL_PROCESS))
	}
	f = append(f, jump(unix.BPF_JGT, newestCall, 0, 1), ret(absent))
	refused := append(refusedAlways(), refusedHere...)
	if !watch {
		refused = append(refused, watches...)
	}
	if !network {
		refused = append(refused, unix.SYS_SOCKET, unix.SYS_CONNECT, unix.SYS_BIND)
	}
	for _, nr := range refused {
		f = append(f, jump(unix.BPF_JEQ, nr, 0, 1), ret(refuse))
	}
	for _, call := range ownOnly {
		n := uint8(len(call.args))
		f = append(f, jump(unix.BPF_JEQ, call.nr, 0, 2*n+2))
		for i, want := range call.args {
			f = append(f, load(dataArg0+uint32(i)*(dataArg1-dataArg0)), jump(unix.BPF_JEQ, want, 0, 2*(n-1-uint8(i))+1))
		}
		f = append(f, ret(unix.SECCOMP_RET_ALLOW), ret(refuse))
	}
	for _, call := range signals {
		f = append(f, jump(unix.BPF_JEQ, call.nr, 0, 4), load(call.target), jump(unix.BPF_JEQ, uint32(guard), 0, 1), ret(refuse), ret(unix.SECCOMP_RET_ALLOW))
	}
	f = append(f, commands(load, jump, ret)...)
	f = append(f,
		jump(unix.BPF_JEQ, unix.SYS_SETSOCKOPT, 0, 6),
		load(dataArg1),
		jump(unix.BPF_JEQ, unix.SOL_SOCKET, 0, 3),
		load(dataArg2),
		jump(unix.BPF_JEQ, unix.SO_LINGER, 0, 1),
		ret(unix.SECCOMP_RET_ERRNO), // of no error
		ret(unix.SECCOMP_RET_ALLOW))
	// The flags of clone3 are in memory, where a filter cannot look. A C library that sees no
	// clone3 uses clone.
	f = append(f, jump(unix.BPF_JEQ, unix.SYS_CLONE3, 0, 1), ret(absent))
	for _, call := range []struct{ nr, flags uint32 }{
		{unix.SYS_CLONE, newNamespaces},
		{unix.SYS_UNSHARE, newNamespaces | unix.CLONE_NEWTIME},
	} {
		f = append(f,
			jump(unix.BPF_JEQ, call.nr, 0, 4),
			load(dataArg0),
			jump(unix.BPF_JSET, call.flags, 0, 1),
			ret(refuse),
			ret(unix.SECCOMP_RET_ALLOW))
	}
	if !network {
		// A pair of datagram sockets could be connected again.
		f = append(f,
			jump(unix.BPF_JEQ, unix.SYS_SOCKETPAIR, 0, 8),
			load(dataArg0),
			jump(unix.BPF_JEQ, unix.AF_UNIX, 0, 4),
			load(dataArg1),
			unix.SockFilter{Code: unix.BPF_ALU | unix.BPF_AND | unix.BPF_K, K: 0xf}, // the rest are flags
			jump(unix.BPF_JEQ, unix.SOCK_STREAM, 2, 0),
			jump(unix.BPF_JEQ, unix.SOCK_SEQPACKET, 1, 0),
			ret(refuse),
			ret(unix.SECCOMP_RET_ALLOW))
	}
	return append(f, ret(unix.SECCOMP_RET_ALLOW))
}

// commands is the part of a filter about commands for an open file. A file or folder that may only
// be read takes some commands that make or change things, and Landlock does not know of them.
// Subvolumes of btrfs and bcachefs are folders, with contents where they are snapshots. ocfs2
// clones files by their names. verity makes a file unchangeable, as some flags do. A lease makes
// anyone who wants to write the file wait. Without its key an encrypted folder is closed to
// everyone. root can freeze a file system. The signal that says that a file is ready could be any,
// to any thread: the usual one harms no guard.
func commands(load func(uint32) unix.SockFilter, jump func(uint16, uint32, uint8, uint8) unix.SockFilter, ret func(uint32) unix.SockFilter) []unix.SockFilter {
	and := func(k uint32) unix.SockFilter {
		return unix.SockFilter{Code: unix.BPF_ALU | unix.BPF_AND | unix.BPF_K, K: k}
	}
	rule := func(f []unix.SockFilter, k, action uint32) []unix.SockFilter {
		return append(f, jump(unix.BPF_JEQ, k, 0, 1), ret(action))
	}
	const refuse = unix.SECCOMP_RET_ERRNO | uint32(unix.EPERM)

	fcntl := []unix.SockFilter{load(dataArg1)}
	for _, cmd := range []uint32{unix.F_SETLEASE, setDelegation, unix.F_SETSIG} {
		fcntl = rule(fcntl, cmd, refuse)
	}
	ioctl := []unix.SockFilter{load(dataArg1), and(0xffff)} // type and number; the rest is the size of the argument
	for _, cmd := range []uint32{unix.FICLONE, unix.FICLONERANGE, unix.FIDEDUPERANGE} {
		ioctl = rule(ioctl, cmd&0xffff, unix.SECCOMP_RET_ALLOW) // they are of btrfs's type, and of all file systems
	}
	for _, cmd := range []uint32{
		unix.FS_IOC_ENABLE_VERITY & 0xffff, unix.FS_IOC_SET_ENCRYPTION_POLICY & 0xffff, unix.FS_IOC_ADD_ENCRYPTION_KEY & 0xffff,
		unix.FS_IOC_REMOVE_ENCRYPTION_KEY & 0xffff, unix.FS_IOC_REMOVE_ENCRYPTION_KEY_ALL_USERS & 0xffff,
		unix.FS_IOC_SETFLAGS & 0xffff, setXattr, setVersion, freeze, thaw, shutdown, ocfs2Reflink,
	} {
		ioctl = rule(ioctl, cmd, refuse)
	}
	ioctl = append(ioctl, and(0xff00))
	for _, kind := range []uint32{btrfsType << 8, bcachefsType << 8} {
		ioctl = rule(ioctl, kind, refuse)
	}
	var f []unix.SockFilter
	for _, call := range []struct {
		nr   uint32
		then []unix.SockFilter
	}{{unix.SYS_FCNTL, fcntl}, {unix.SYS_IOCTL, ioctl}} {
		f = append(f, jump(unix.BPF_JEQ, call.nr, 0, uint8(len(call.then)+1)))
		f = append(append(f, call.then...), ret(unix.SECCOMP_RET_ALLOW))
	}
	return f
}

const (
	setDelegation = unix.F_SETLEASE + 16 // F_SETDELEG of linux/fcntl.h, a lease of a folder: Linux 6.19
	btrfsType     = 0x94                 // linux/btrfs.h
	bcachefsType  = 0xbc                 // fs/bcachefs/bcachefs_ioctl.h
	setXattr      = 0x5820               // linux/fs.h, type and number: FS_IOC_FSSETXATTR
	setVersion    = 0x7602               // FS_IOC_SETVERSION
	freeze        = 0x5877               // FIFREEZE
	thaw          = 0x5878               // FITHAW
	shutdown      = 0x587d               // FS_IOC_SHUTDOWN
	ocfs2Reflink  = 0x6f04               // fs/ocfs2/ocfs2_ioctl.h: type and number
)

// refusedAlways are system calls that no tool needs. They reach into other processes, into the
// machine, or around the names of files. What is done through a ring of io_uring, no filter sees.
func refusedAlways() []uint32 {
	return []uint32{
		unix.SYS_PTRACE, unix.SYS_PROCESS_VM_READV, unix.SYS_PROCESS_VM_WRITEV, unix.SYS_PIDFD_GETFD, unix.SYS_KCMP, unix.SYS_PERF_EVENT_OPEN,
		unix.SYS_OPEN_BY_HANDLE_AT, unix.SYS_LOOKUP_DCOOKIE, unix.SYS_FILE_SETATTR, unix.SYS_SETNS, unix.SYS_LISTNS, unix.SYS_MOUNT, unix.SYS_UMOUNT2, unix.SYS_PIVOT_ROOT, unix.SYS_CHROOT,
		unix.SYS_OPEN_TREE, unix.SYS_MOVE_MOUNT, unix.SYS_FSOPEN, unix.SYS_FSCONFIG, unix.SYS_FSMOUNT, unix.SYS_FSPICK, unix.SYS_MOUNT_SETATTR,
		unix.SYS_OPEN_TREE_ATTR, unix.SYS_FANOTIFY_INIT, unix.SYS_PROCESS_MADVISE, unix.SYS_PROCESS_MRELEASE, unix.SYS_QUOTACTL_FD,
		unix.SYS_KEXEC_LOAD, unix.SYS_KEXEC_FILE_LOAD, unix.SYS_INIT_MODULE, unix.SYS_FINIT_MODULE, unix.SYS_DELETE_MODULE, unix.SYS_BPF,
		unix.SYS_ADD_KEY, unix.SYS_REQUEST_KEY, unix.SYS_KEYCTL, unix.SYS_MQ_OPEN, unix.SYS_MQ_UNLINK, unix.SYS_USERFAULTFD,
		unix.SYS_IO_URING_SETUP, unix.SYS_IO_URING_ENTER, unix.SYS_IO_URING_REGISTER,
		unix.SYS_REBOOT, unix.SYS_SWAPON, unix.SYS_SWAPOFF, unix.SYS_ACCT, unix.SYS_SETTIMEOFDAY, unix.SYS_CLOCK_SETTIME, unix.SYS_CLOCK_ADJTIME,
		unix.SYS_ADJTIMEX, unix.SYS_QUOTACTL, unix.SYS_SETHOSTNAME, unix.SYS_SETDOMAINNAME, unix.SYS_VHANGUP, unix.SYS_SYSLOG,
	}
}

// ownOnly are system calls that a process may make only for itself. All of them call that 0: their
// first arguments must be these. The kernel lets them change every process of the user, and
// Landlock does not know of them.
var ownOnly = []struct {
	nr   uint32
	args []uint32
}{
	{unix.SYS_PRLIMIT64, []uint32{0}},
	{unix.SYS_SETPRIORITY, []uint32{unix.PRIO_PROCESS, 0}},
	{unix.SYS_IOPRIO_SET, []uint32{ioprioWhoProcess, 0}},
	{unix.SYS_SCHED_SETAFFINITY, []uint32{0}},
	{unix.SYS_SCHED_SETATTR, []uint32{0}},
	{unix.SYS_SCHED_SETPARAM, []uint32{0}},
	{unix.SYS_SCHED_SETSCHEDULER, []uint32{0}},
	{unix.SYS_MIGRATE_PAGES, []uint32{0}},
	{unix.SYS_MOVE_PAGES, []uint32{0}},
}

// signals are the system calls that signal a process or thread, or open it for that, by its number.
var signals = []struct{ nr, target uint32 }{
	{unix.SYS_KILL, dataArg0}, {unix.SYS_TKILL, dataArg0}, {unix.SYS_TGKILL, dataArg1},
	{unix.SYS_RT_SIGQUEUEINFO, dataArg0}, {unix.SYS_RT_TGSIGQUEUEINFO, dataArg1}, {unix.SYS_PIDFD_OPEN, dataArg0},
}

const ioprioWhoProcess = 1 // linux/ioprio.h

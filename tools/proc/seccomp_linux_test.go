package proc

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// verdicts says what the filter makes of each system call, a word and names on each line:
//
//	never    is refused
//	network  is refused without network
//	watch    is refused without Watch
//	argument is decided by its arguments
//	absent   is not there
//	always   is allowed
const verdicts = `
never    ptrace process_vm_readv process_vm_writev pidfd_getfd kcmp perf_event_open process_madvise process_mrelease
never    open_by_handle_at lookup_dcookie file_setattr
never    setns listns mount umount2 pivot_root chroot open_tree open_tree_attr move_mount fsopen fsconfig fsmount fspick mount_setattr
never    fanotify_init quotactl quotactl_fd acct swapon swapoff reboot kexec_load kexec_file_load
never    init_module finit_module delete_module bpf userfaultfd syslog vhangup iopl ioperm
never    add_key request_key keyctl mq_open mq_unlink
never    settimeofday clock_settime clock_adjtime adjtimex sethostname setdomainname
never    io_uring_setup io_uring_enter io_uring_register

network  socket connect bind
watch    inotify_init inotify_init1
absent   clone3

argument prlimit64 setpriority ioprio_set sched_setaffinity sched_setattr sched_setparam sched_setscheduler migrate_pages move_pages
argument clone unshare socketpair setsockopt fcntl ioctl kill pidfd_open rt_sigqueueinfo rt_tgsigqueueinfo tgkill tkill

# Landlock decides about the contents of files and folders, and about signals. Nothing does about what stat shows, and about
# modes, owners, times and extended attributes.
always   access chdir chmod chown creat execve execveat faccessat faccessat2 fchmodat fchmodat2 fchownat file_getattr futimesat getxattr
always   getxattrat lchown lgetxattr link linkat listxattr listxattrat llistxattr lremovexattr lsetxattr lstat mkdir mkdirat mknod
always   mknodat name_to_handle_at newfstatat open openat openat2 readlink readlinkat removexattr removexattrat rename renameat renameat2
always   rmdir setxattr setxattrat stat statfs statx symlink symlinkat truncate unlink unlinkat uselib utime utimensat utimes
always   pidfd_send_signal
# Open descriptors.
always   accept accept4 cachestat close close_range copy_file_range dup dup2 dup3 fadvise64 fallocate fanotify_mark fchdir fchmod
always   fchown fdatasync fgetxattr flistxattr flock fremovexattr fsetxattr fstat fstatfs fsync ftruncate getdents getdents64
always   getpeername getsockname getsockopt inotify_add_watch inotify_rm_watch listen lseek mq_getsetattr mq_notify mq_timedreceive
always   mq_timedsend pread64 preadv preadv2 pwrite64 pwritev pwritev2 read readahead readv recvfrom recvmmsg recvmsg sendfile sendmmsg
always   sendmsg sendto shutdown splice sync_file_range syncfs tee vmsplice write writev
# What belongs to the process, or to nobody else: memory, time, descriptors that are made, its children, its own rights.
always   alarm arch_prctl brk capget capset clock_getres clock_gettime clock_nanosleep epoll_create epoll_create1 epoll_ctl
always   epoll_ctl_old epoll_pwait epoll_pwait2 epoll_wait epoll_wait_old eventfd eventfd2 exit exit_group fork futex futex_requeue
always   futex_wait futex_waitv futex_wake get_mempolicy get_thread_area getcpu getcwd getegid geteuid getgid getgroups getitimer
always   getpid getppid getpgrp getrandom getresgid getresuid getrlimit getrusage gettid gettimeofday getuid io_cancel io_destroy
always   io_getevents io_pgetevents io_setup io_submit landlock_add_rule landlock_create_ruleset landlock_restrict_self
always   lsm_get_self_attr lsm_set_self_attr madvise map_shadow_stack mbind membarrier memfd_create memfd_secret mincore mlock mlock2
always   mlockall mmap modify_ldt mprotect mremap mseal msync munlock munlockall munmap nanosleep pause personality pipe
always   pipe2 pkey_alloc pkey_free pkey_mprotect poll ppoll prctl pselect6 remap_file_pages restart_syscall rseq rseq_slice_yield
always   rt_sigaction rt_sigpending rt_sigprocmask rt_sigreturn rt_sigsuspend rt_sigtimedwait sched_yield seccomp select set_mempolicy
always   set_mempolicy_home_node set_robust_list set_thread_area set_tid_address setfsgid setfsuid setgid setgroups setitimer setpgid
always   setregid setresgid setresuid setreuid setrlimit setsid setuid sigaltstack signalfd signalfd4 time timer_create timer_delete
always   timer_getoverrun timer_gettime timer_settime timerfd_create timerfd_gettime timerfd_settime times umask uprobe uretprobe vfork
always   wait4 waitid
# Facts about the machine and its processes.
always   get_robust_list getpgid getpriority getsid ioprio_get listmount lsm_list_modules sched_get_priority_max sched_get_priority_min
always   sched_getaffinity sched_getattr sched_getparam sched_getscheduler sched_rr_get_interval statmount sync sysfs sysinfo uname ustat
# System V: docs/sandbox.md says that it is not stopped.
always   msgctl msgget msgrcv msgsnd semctl semget semop semtimedop shmat shmctl shmdt shmget
# Linux has none of them any more, or never had.
always   _sysctl afs_syscall create_module get_kernel_syms getpmsg nfsservctl putpmsg query_module security tuxcall vserver
`

// TestFilterVerdicts: each system call that the kernel's headers name has the verdict above, and
// those that come after them are absent. If it fails after an update of golang.org/x/sys, decide
// about the new ones: does Landlock see what they name or make, and can they change what belongs to
// others?
func TestFilterVerdicts(t *testing.T) {
	if auditArch == 0 {
		t.Skip("no filter for this processor")
	}
	want := map[string]string{}
	for line := range strings.Lines(verdicts) {
		if fields := strings.Fields(line); len(fields) > 0 && fields[0] != "#" {
			for _, name := range fields[1:] {
				if want[name] != "" {
					t.Errorf("%s has two verdicts", name)
				}
				want[name] = fields[0]
			}
		}
	}
	calls := systemCalls(t)
	for name, nr := range calls {
		if got := verdict(t, nr); got != want[name] {
			t.Errorf("%s (%d): %q, want %q", name, nr, got, want[name])
		}
		if nr > newestCall {
			t.Errorf("newestCall = %d, and %s is %d", newestCall, name, nr)
		}
	}
	for _, nr := range []uint32{newestCall + 1, 512, 547, 1 << 20} { // amd64 had some of x32 from 512 on
		if got := verdict(t, nr); got != "absent" {
			t.Errorf("%d: %q, want absent", nr, got)
		}
	}
}

// systemCalls returns the numbers of the system calls that golang.org/x/sys knows, from the
// kernel's headers.
func systemCalls(t *testing.T) map[string]uint32 {
	t.Helper()
	dir, err := exec.Command("go", "list", "-f", "{{.Dir}}", "golang.org/x/sys/unix").Output()
	if err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(filepath.Join(strings.TrimSpace(string(dir)), "zsysnum_linux_"+runtime.GOARCH+".go"))
	if err != nil {
		t.Fatal(err)
	}
	calls := map[string]uint32{}
	for _, m := range regexp.MustCompile(`(?m)^\s+SYS_(\w+)\s+= (\d+)$`).FindAllStringSubmatch(string(data), -1) {
		nr, err := strconv.ParseUint(m[2], 10, 32)
		if err != nil {
			t.Fatal(err)
		}
		if m[1] != "ARCH_SPECIFIC_SYSCALL" { // where numbers of a processor begin
			calls[strings.ToLower(m[1])] = uint32(nr)
		}
	}
	if len(calls) < 300 {
		t.Fatalf("%d system calls in %s", len(calls), dir)
	}
	return calls
}

// verdict is what the filters make of a system call, in a word of verdicts.
func verdict(t *testing.T, nr uint32) string {
	var got []uint32
	for _, c := range []struct{ network, watch bool }{{}, {network: true}, {watch: true}, {true, true}} {
		action, looked := decide(t, filter(c.network, c.watch, 1), nr)
		if looked {
			return "argument"
		}
		got = append(got, action)
	}
	const (
		yes    = unix.SECCOMP_RET_ALLOW
		no     = unix.SECCOMP_RET_ERRNO | uint32(unix.EPERM)
		absent = unix.SECCOMP_RET_ERRNO | uint32(unix.ENOSYS)
	)
	for word, want := range map[string][]uint32{
		"never": {no, no, no, no}, "network": {no, yes, no, yes}, "watch": {no, no, yes, yes}, "always": {yes, yes, yes, yes}, "absent": {absent, absent, absent, absent},
	} {
		if slices.Equal(got, want) {
			return word
		}
	}
	t.Fatalf("%d: %#x", nr, got)
	return ""
}

// decide runs a filter on a system call whose arguments are 0. It also reports whether the filter
// looked at an argument.
func decide(t *testing.T, f []unix.SockFilter, nr uint32) (action uint32, looked bool) {
	var a uint32
	for at := 0; ; at++ {
		in, yes := f[at], false
		switch in.Code {
		case unix.BPF_LD | unix.BPF_W | unix.BPF_ABS:
			a = map[uint32]uint32{dataNumber: nr, dataArch: auditArch}[in.K]
			looked = looked || in.K >= dataArg0
			continue
		case unix.BPF_ALU | unix.BPF_AND | unix.BPF_K:
			a &= in.K
			continue
		case unix.BPF_RET | unix.BPF_K:
			return in.K, looked
		case unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K:
			yes = a == in.K
		case unix.BPF_JMP | unix.BPF_JGT | unix.BPF_K:
			yes = a > in.K
		case unix.BPF_JMP | unix.BPF_JSET | unix.BPF_K:
			yes = a&in.K != 0
		default:
			t.Fatalf("instruction %d: %+v", at, in)
		}
		if yes {
			at += int(in.Jt)
		} else {
			at += int(in.Jf)
		}
	}
}

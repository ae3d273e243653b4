package proc

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"jp/tools/vanishing"
)

// probe is a tool that tries one thing and says how it went: "probe deep 2 read FILE" does so in a
// grandchild, each generation in a session of its own.
func probe(args []string) int {
	if args[0] == "deep" {
		n, _ := strconv.Atoi(args[1])
		next := args[2:]
		if n > 1 {
			next = append([]string{"deep", strconv.Itoa(n - 1)}, next...)
		}
		c := exec.Command("/proc/self/exe", append([]string{"as-probe"}, next...)...)
		c.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
		c.Stdout, c.Stderr = os.Stdout, os.Stderr
		if err := c.Run(); err != nil {
			return complain(err)
		}
		return 0
	}
	at := func(i int) string { return args[min(i, len(args)-1)] }
	var err error
	switch at(0) {
	case "read":
		_, err = os.ReadFile(at(1))
	case "list":
		_, err = os.ReadDir(at(1))
	case "write":
		var f *os.File
		if f, err = os.OpenFile(at(1), os.O_WRONLY, 0); err == nil {
			_, err = f.WriteString("x")
			f.Close()
		}
	case "create":
		err = os.WriteFile(at(1), nil, 0o600)
	case "truncate":
		err = os.Truncate(at(1), 0)
	case "remove":
		err = os.Remove(at(1))
	case "mkdir":
		err = os.Mkdir(at(1), 0o700)
	case "rename":
		err = os.Rename(at(1), at(2))
	case "linked": // read through a new hard link
		if err = os.Link(at(1), at(2)); err == nil {
			_, err = os.ReadFile(at(2))
		}
	case "symlinked": // read through a new symbolic link
		if err = os.Symlink(at(1), at(2)); err == nil {
			_, err = os.ReadFile(at(2))
		}
	case "exec":
		err = exec.Command(at(1)).Run()
	case "signal":
		pid, _ := strconv.Atoi(at(1))
		err = syscall.Kill(pid, 0)
	case "signal its guard": // or a thread of it, in any way
		err = signalGuard(os.Getppid())
	case "ptrace":
		pid, _ := strconv.Atoi(at(1))
		err = unix.PtraceSeize(pid)
	case "dial":
		var c net.Conn
		if c, err = net.Dial(at(1), at(2)); err == nil {
			_, err = c.Write([]byte("x"))
			c.Close()
		}
	case "raw":
		_, err = unix.Socket(unix.AF_INET, unix.SOCK_RAW, unix.IPPROTO_ICMP)
	case "netlink":
		_, err = unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_ROUTE)
	case "pair":
		_, err = unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	case "linger":
		var fds [2]int
		if fds, err = unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0); err == nil {
			err = unix.SetsockoptLinger(fds[0], unix.SOL_SOCKET, unix.SO_LINGER, &unix.Linger{Onoff: 1, Linger: 60})
		}
		// Of the structure an int is the first part, Onoff.
		if on, e := unix.GetsockoptInt(fds[0], unix.SOL_SOCKET, unix.SO_LINGER); err == nil && on == 0 {
			err = fmt.Errorf("no effect: %v", e)
		}
	case "datagrams":
		var fds [2]int
		if fds, err = unix.Socketpair(unix.AF_UNIX, unix.SOCK_DGRAM, 0); err == nil {
			err = unix.Connect(fds[0], &unix.SockaddrUnix{Name: at(1)})
		}
	case "queue", "unqueue":
		if err = queue(at(0), at(1)); err == unix.EACCES {
			err = nil // Landlock: the queue was made, and not opened
		}
	case "namespace":
		err = unix.Unshare(unix.CLONE_NEWUTS)
	case "limit", "nice", "nice user", "ioprio", "affinity", "scheduler": // of a process
		pid, _ := strconv.Atoi(at(1))
		switch at(0) {
		case "limit":
			err = unix.Prlimit(pid, unix.RLIMIT_CORE, &unix.Rlimit{}, nil)
		case "nice":
			err = unix.Setpriority(unix.PRIO_PROCESS, pid, 1)
		case "nice user": // one that has no process
			if err = unix.Setpriority(unix.PRIO_USER, 4242, 1); err == unix.ESRCH {
				err = nil
			}
		case "ioprio":
			const idle = 3 << 13
			err = callError(unix.SYS_IOPRIO_SET, ioprioWhoProcess, uintptr(pid), idle)
		case "affinity":
			var cpus unix.CPUSet
			if err = unix.SchedGetaffinity(pid, &cpus); err == nil {
				err = unix.SchedSetaffinity(pid, &cpus)
			}
		case "scheduler":
			var priority int32
			err = callError(unix.SYS_SCHED_SETSCHEDULER, uintptr(pid), unix.SCHED_BATCH, uintptr(unsafe.Pointer(&priority)))
		}
	case "call": // with arguments that make no sense: anything but a refusal is success
		nr, _ := strconv.Atoi(at(1))
		const none = ^uintptr(0)
		if err = callError(uintptr(nr), none, none, none); err != unix.EPERM {
			err = nil
		}
	case "ioctl", "fcntl": // with a command and no argument, of a file that is only read: anything but a refusal is success
		var fd int
		if fd, err = unix.Open(at(1), unix.O_RDONLY|unix.O_CLOEXEC, 0); err != nil {
			break
		}
		nr := uintptr(unix.SYS_IOCTL)
		if at(0) == "fcntl" {
			nr = unix.SYS_FCNTL
		}
		cmd, _ := strconv.Atoi(at(2))
		if err = callError(nr, uintptr(fd), uintptr(cmd), 0); err != unix.EPERM {
			err = nil
		}
	case "watch":
		var fd int
		if fd, err = unix.InotifyInit1(unix.IN_CLOEXEC); err == nil {
			_, err = unix.InotifyAddWatch(fd, at(1), unix.IN_CREATE)
		}
	default:
		err = errors.New("unknown probe")
	}
	if err != nil {
		return complain(err)
	}
	return 0
}

// queue makes a POSIX message queue, or with "unqueue" removes it.
func queue(what, name string) error {
	at, err := unix.BytePtrFromString(name)
	if err != nil {
		return err
	}
	if what == "unqueue" {
		return callError(unix.SYS_MQ_UNLINK, uintptr(unsafe.Pointer(at)), 0, 0)
	}
	return callError(unix.SYS_MQ_OPEN, uintptr(unsafe.Pointer(at)), unix.O_RDWR|unix.O_CREAT|unix.O_CLOEXEC, 0o600)
}

// signalGuard tries to reach a guard, and all processes and threads that may be its threads, by each
// call that sends a signal. The error is nil if one of them could be reached.
func signalGuard(guard int) error {
	const near = 5000 // its threads are not much younger
	at, none := uintptr(guard), uintptr(0)
	info := unix.Siginfo{Code: -1} // as of rt_sigqueueinfo
	own, err := unix.Getsid(0)
	if err != nil {
		return err
	}
	for id := at; id < at+near; id++ {
		if session, err := unix.Getsid(int(id)); err != nil || session == own {
			continue // nothing, or the tool itself
		}
		for _, e := range []error{
			callError(unix.SYS_KILL, id, none, none), callError(unix.SYS_TKILL, id, none, none), callError(unix.SYS_TGKILL, at, id, none),
			callError(unix.SYS_RT_SIGQUEUEINFO, id, none, uintptr(unsafe.Pointer(&info))), tgsigqueue(at, id, &info), pidfdSignal(id),
		} {
			if e == nil {
				return nil
			}
		}
	}
	return unix.EPERM
}

func tgsigqueue(guard, id uintptr, info *unix.Siginfo) error {
	if _, _, errno := unix.RawSyscall6(unix.SYS_RT_TGSIGQUEUEINFO, guard, id, 0, uintptr(unsafe.Pointer(info)), 0, 0); errno != 0 {
		return errno
	}
	return nil
}

func pidfdSignal(id uintptr) error {
	fd, err := unix.PidfdOpen(int(id), unix.PIDFD_THREAD)
	if err != nil {
		return err
	}
	defer closeFD(fd)
	return unix.PidfdSendSignal(fd, 0, nil, 0)
}

// callError makes a system call and returns its error.
func callError(nr, a, b, c uintptr) error {
	if _, _, errno := unix.RawSyscall6(nr, a, b, c, 0, 0, 0); errno != 0 {
		return errno
	}
	return nil
}

// confined runs a probe and returns whether it succeeded, and what it said.
func confined(t *testing.T, h *Host, c *Confine, args ...string) (bool, string) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	exit, err := h.Run(t.Context(), Spec{Path: self, Args: append([]string{self, "as-probe"}, args...),
		Env: []string{"PATH=/usr/bin:/bin"}, Dir: "/", Confine: c, Stdout: &out, Stderr: &out})
	if err != nil || exit.Cause != nil {
		t.Fatalf("Run(%q) = %+v, %v", args, exit, err)
	}
	return exit.Code == 0, strings.TrimSpace(out.String())
}

// whole skips where the system cannot confine wholly, after a check that Require refuses.
func whole(t *testing.T) {
	t.Helper()
	missing := Enforceable().Missing
	if len(missing) == 0 {
		return
	}
	c := System()
	c.Require = true
	var want *ConfineError
	if _, err := host(t).Run(t.Context(), Spec{Path: "/bin/true", Confine: &c}); !errors.As(err, &want) {
		t.Errorf("Run with Require = %v, want a *ConfineError", err)
	}
	t.Skipf("this system cannot enforce %s", strings.Join(missing, ", "))
}

// TestConfine tries what must not be, without confinement, where it has to work for the test to
// mean anything, and with it.
func TestConfine(t *testing.T) {
	whole(t)
	h := host(t)
	base, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	in := func(elem ...string) string { return filepath.Join(append([]string{base}, elem...)...) }
	for _, dir := range []string{"ro", "rw", "other"} {
		if err := os.Mkdir(in(dir), 0o700); err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"file", "victim", "moved"} {
			if err := os.WriteFile(in(dir, name), []byte("text"), 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := os.Symlink("../other/file", in("ro", "link")); err != nil {
		t.Fatal(err)
	}
	program, err := os.ReadFile("/bin/true")
	if err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{"ro", "other"} {
		if err := os.WriteFile(in(dir, "program"), program, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	tcp, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer tcp.Close()
	udp, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer udp.Close()
	// In the readable folder: it is not the rule for files that stops them.
	stream, err := net.Listen("unix", in("ro", "s"))
	if err != nil {
		t.Fatal(err)
	}
	defer stream.Close()
	datagram, err := net.ListenPacket("unixgram", in("ro", "d"))
	if err != nil {
		t.Fatal(err)
	}
	defer datagram.Close()
	abstract, err := net.Listen("unix", "@"+base)
	if err != nil {
		t.Fatal(err)
	}
	defer abstract.Close()

	// Another program of the same user, outside, that anyone may look at.
	stop, end := context.WithCancel(t.Context())
	started, ended := make(chan int, 1), make(chan struct{})
	go func() {
		defer close(ended)
		_, _ = h.Run(stop, Spec{Path: "/bin/sleep", Args: []string{"sleep", "1000"}, Dir: in("other"), Started: func(pid int) { started <- pid }})
	}()
	t.Cleanup(func() { end(); <-ended })
	outside := strconv.Itoa(<-started)

	// A message queue of that program, and one that is made.
	queued, made := "jp-test-"+outside, "jp-test-made-"+outside
	t.Cleanup(func() { _, _ = queue("unqueue", queued), queue("unqueue", made) })
	if err := queue("queue", queued); err != nil {
		t.Fatal(err)
	}

	files := System()
	files.Read, files.Write = append(files.Read, in("ro")), append(files.Write, in("rw"))
	online := files
	online.Network = true

	for _, tt := range []struct {
		name   string
		args   []string
		allow  bool // inside, too
		online bool // may use the network
		reset  string
	}{
		{name: "read what is open", args: []string{"read", in("ro", "file")}, allow: true},
		{name: "list what is open", args: []string{"list", in("ro")}, allow: true},
		{name: "execute what is open", args: []string{"exec", in("ro", "program")}, allow: true},
		{name: "write what is open", args: []string{"write", in("rw", "file")}, allow: true},
		{name: "rename what is open", args: []string{"rename", in("rw", "moved"), in("rw", "moved2")}, allow: true, reset: in("rw", "moved")},
		{name: "read what others wrote", args: []string{"read", in("rw", "file")}, allow: true},
		{name: "a pair of sockets", args: []string{"pair"}, allow: true},
		{name: "connect by TCP where it may", args: []string{"dial", "tcp", tcp.Addr().String()}, online: true, allow: true},
		{name: "connect to a socket file where it may", args: []string{"dial", "unix", in("ro", "s")}, online: true, allow: true},
		{name: "null", args: []string{"write", "/dev/null"}, allow: true},

		{name: "read outside", args: []string{"read", in("other", "file")}},
		{name: "list outside", args: []string{"list", in("other")}},
		{name: "list above", args: []string{"list", base}},
		{name: "execute outside", args: []string{"exec", in("other", "program")}},
		{name: "write outside", args: []string{"write", in("other", "file")}},
		{name: "create outside", args: []string{"create", in("other", "new")}},
		{name: "truncate outside", args: []string{"truncate", in("other", "victim")}},
		{name: "remove outside", args: []string{"remove", in("other", "victim")}, reset: in("other", "victim")},
		{name: "write read-only", args: []string{"write", in("ro", "file")}},
		{name: "truncate read-only", args: []string{"truncate", in("ro", "victim")}},
		{name: "create read-only", args: []string{"create", in("ro", "new")}},
		{name: "make a folder read-only", args: []string{"mkdir", in("ro", "folder")}},
		{name: "remove read-only", args: []string{"remove", in("ro", "victim")}, reset: in("ro", "victim")},
		{name: "move in", args: []string{"rename", in("other", "moved"), in("rw", "moved3")}, reset: in("other", "moved")},
		{name: "move out", args: []string{"rename", in("rw", "victim"), in("other", "moved4")}, reset: in("rw", "victim")},
		{name: "hard link", args: []string{"linked", in("other", "file"), in("rw", "hard")}},
		{name: "symbolic link", args: []string{"symlinked", in("other", "file"), in("rw", "soft")}},
		{name: "symbolic link that is there", args: []string{"read", in("ro", "link")}},
		{name: "dots", args: []string{"read", in("ro") + "/../other/file"}},
		{name: "own session", args: []string{"deep", "1", "read", in("other", "file")}},
		{name: "sessions of sessions", args: []string{"deep", "3", "read", in("other", "file")}},
		{name: "root of another process", args: []string{"read", "/proc/" + outside + "/root" + in("other", "file")}},
		{name: "folder of another process", args: []string{"read", "/proc/" + outside + "/cwd/file"}},
		{name: "environment of another process", args: []string{"read", "/proc/" + outside + "/environ"}},
		{name: "arguments of another process", args: []string{"read", "/proc/" + outside + "/cmdline"}},
		{name: "signal jp", args: []string{"signal", strconv.Itoa(os.Getpid())}},
		{name: "signal another process", args: []string{"signal", outside}},
		{name: "signal from a session", args: []string{"deep", "2", "signal", outside}},
		{name: "signal its guard", args: []string{"signal its guard"}},
		{name: "trace another process", args: []string{"ptrace", outside}},
		{name: "own limits", args: []string{"limit", "0"}, allow: true},
		{name: "own priority", args: []string{"nice", "0"}, allow: true},
		{name: "own input and output priority", args: []string{"ioprio", "0"}, allow: true},
		{name: "own processors", args: []string{"affinity", "0"}, allow: true},
		{name: "own scheduler", args: []string{"scheduler", "0"}, allow: true},
		{name: "limits of another process", args: []string{"limit", outside}},
		{name: "priority of another process", args: []string{"nice", outside}},
		{name: "priority of a user", args: []string{"nice user"}},
		{name: "input and output priority of another process", args: []string{"ioprio", outside}},
		{name: "processors of another process", args: []string{"affinity", outside}},
		{name: "scheduler of another process", args: []string{"scheduler", outside}},
		{name: "make a message queue", args: []string{"queue", made}},
		{name: "remove the message queue of another program", args: []string{"unqueue", queued}},
		{name: "watch a folder", args: []string{"watch", in("other")}},
		{name: "TCP", args: []string{"dial", "tcp", tcp.Addr().String()}},
		{name: "UDP", args: []string{"dial", "udp", udp.LocalAddr().String()}},
		{name: "socket file", args: []string{"dial", "unix", in("ro", "s")}},
		{name: "datagram socket file", args: []string{"dial", "unixgram", in("ro", "d")}},
		{name: "abstract socket", args: []string{"dial", "unix", "@" + base}},
		{name: "abstract socket online", args: []string{"dial", "unix", "@" + base}, online: true},
		{name: "netlink", args: []string{"netlink"}},
		{name: "let a close wait", args: []string{"linger"}, online: true},
		{name: "socket of a pair", args: []string{"datagrams", in("ro", "d")}},
		{name: "network from a session", args: []string{"deep", "2", "dial", "udp", udp.LocalAddr().String()}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := files
			if tt.online {
				c = online
			}
			c.Require = true
			gotIn, saidIn := confined(t, h, &c, tt.args...)
			if gotIn != tt.allow {
				t.Errorf("confined: %q = %t %s, want %t", tt.args, gotIn, saidIn, tt.allow)
			}
			if tt.reset != "" {
				if err := os.WriteFile(tt.reset, []byte("text"), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			for _, left := range []string{in("rw", "soft"), in("rw", "hard"), in("ro", "folder")} {
				os.Remove(left)
			}
			if got, said := confined(t, h, nil, tt.args...); !got {
				if tt.args[0] == "ptrace" {
					t.Skipf("not allowed outside either: %s", said)
				}
				t.Errorf("not confined: %q = false, %s; want true", tt.args, said)
			}
		})
	}
	const (
		subvolumeCreate = 0x5000940e // linux/btrfs.h: BTRFS_IOC_SUBVOL_CREATE
		snapshotCreate  = 0x50009417 // BTRFS_IOC_SNAP_CREATE_V2
	)
	for _, tt := range []struct {
		name, call string
		cmd        uint
		allow      bool
	}{
		{"subvolume", "ioctl", subvolumeCreate, false},
		{"snapshot", "ioctl", snapshotCreate, false},
		{"bcachefs subvolume", "ioctl", 0x4020bc10, false}, // BCH_IOCTL_SUBVOLUME_CREATE
		{"ocfs2 clone", "ioctl", 0x40186f04, false},        // OCFS2_IOC_REFLINK
		{"verity", "ioctl", unix.FS_IOC_ENABLE_VERITY, false},
		{"encryption", "ioctl", unix.FS_IOC_SET_ENCRYPTION_POLICY, false},
		{"flags", "ioctl", unix.FS_IOC_SETFLAGS, false},
		{"more flags", "ioctl", 0x401c5820, false}, // FS_IOC_FSSETXATTR
		{"version", "ioctl", 0x40087602, false},    // FS_IOC_SETVERSION
		{"thaw", "ioctl", 0xc0045878, false},       // FITHAW
		{"encryption key", "ioctl", unix.FS_IOC_ADD_ENCRYPTION_KEY, false},
		{"no encryption key", "ioctl", unix.FS_IOC_REMOVE_ENCRYPTION_KEY, false},
		{"flags to read", "ioctl", unix.FS_IOC_GETFLAGS, true},
		{"lease", "fcntl", unix.F_SETLEASE, false},
		{"delegation", "fcntl", setDelegation, false},
		{"signal of a file", "fcntl", unix.F_SETSIG, false},
		{"clone", "ioctl", unix.FICLONE, true},
		{"clone of a part", "ioctl", unix.FICLONERANGE, true},
		{"same extents", "ioctl", unix.FIDEDUPERANGE, true},
		{"bytes to read", "ioctl", unix.TIOCINQ, true},
		{"status", "fcntl", unix.F_GETFL, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			path := in("ro")
			if tt.call == "fcntl" {
				path = in("ro", "file")
			}
			args := []string{tt.call, path, strconv.FormatUint(uint64(tt.cmd), 10)}
			if got, said := confined(t, h, &files, args...); got != tt.allow {
				t.Errorf("confined: %q = %t %s, want %t", args, got, said, tt.allow)
			}
			if tt.name == "thaw" && os.Getuid() != 0 {
				return // root alone may
			}
			if got, said := confined(t, h, nil, args...); !got {
				t.Errorf("not confined: %q = false, %s; want true", args, said)
			}
		})
	}
	watching := files
	watching.Watch = true
	if got, said := confined(t, h, &watching, "watch", in("rw")); !got {
		t.Errorf("Watch: watch = false, %s, want true", said)
	}
	if os.Getuid() == 0 {
		tries := [][]string{{"raw"}, {"namespace"}}
		for _, nr := range append(refusedHere, unix.SYS_FANOTIFY_INIT, unix.SYS_PROCESS_MADVISE, unix.SYS_PROCESS_MRELEASE, unix.SYS_QUOTACTL_FD,
			unix.SYS_KEXEC_FILE_LOAD, unix.SYS_OPEN_TREE_ATTR, unix.SYS_FILE_SETATTR) {
			tries = append(tries, []string{"call", strconv.Itoa(int(nr))})
		}
		for _, args := range tries {
			if got, said := confined(t, h, &files, args...); got {
				t.Errorf("confined: %q = true, %s, want false", args, said)
			}
			if got, said := confined(t, h, nil, args...); !got {
				t.Errorf("not confined: %q = false, %s, want true", args, said)
			}
		}
	}
}

// TestConfineNothing has the zero Confine let nothing be read, so no program run.
func TestConfineNothing(t *testing.T) {
	whole(t)
	_, err := host(t).Run(t.Context(), Spec{Path: "/bin/true", Confine: &Confine{}})
	if !errors.Is(err, syscall.EACCES) {
		t.Errorf("Run = %v, want %v", err, syscall.EACCES)
	}
}

// TestConfineFails has what cannot be enforced keep the tool from running.
func TestConfineFails(t *testing.T) {
	whole(t)
	dir := t.TempDir()
	if err := os.Symlink("/", filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"relative", filepath.Join(dir, "link"), filepath.Join(dir, "link", "etc"), dir + "\x00"} {
		for _, write := range []bool{false, true} {
			c := System()
			if write {
				c.Write = append(c.Write, path)
			} else {
				c.Read = append(c.Read, path)
			}
			ran := filepath.Join(dir, "ran")
			spec := sh(nil, ": >"+ran)
			spec.Confine = &c
			spec.Started = func(int) { t.Errorf("started with %q", path) }
			if exit, err := host(t).Run(t.Context(), spec); err == nil {
				t.Errorf("Run with %q = %+v, nil, want an error", path, exit)
			}
		}
	}
}

// TestConfineTmpDir looks at the folder of a run, during and after it.
func TestConfineTmpDir(t *testing.T) {
	whole(t)
	h := host(t)
	base, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	keep := filepath.Join(base, "keep")
	if err := os.WriteFile(keep, []byte("text"), 0o600); err != nil {
		t.Fatal(err)
	}
	c := System()
	c.TmpDir = true
	var seen []string
	t.Chdir(base)
	for _, named := range []string{base, "."} { // the tool works in another folder
		t.Setenv("TMPDIR", named)
		var out bytes.Buffer
		spec := sh([]string{"PATH=/usr/bin:/bin", "TMPDIR=" + named}, `
			set -e
			umask 077
			echo "$TMPDIR"
			cp /bin/true "$TMPDIR/program"
			"$TMPDIR/program"
			mkdir -p "$TMPDIR/a/b"
			echo x >"$TMPDIR/a/b/c"
			ln -s `+base+` "$TMPDIR/a/link"
			chmod 0 "$TMPDIR/a/b" "$TMPDIR/a"`)
		spec.Confine, spec.Stdout, spec.Stderr, spec.Dir = &c, &out, &out, "/"
		if exit, err := h.Run(t.Context(), spec); err != nil || exit.Code != 0 {
			t.Fatalf("Run = %+v, %v: %s", exit, err, &out)
		}
		seen = append(seen, strings.TrimSpace(out.String()))
	}
	if filepath.Dir(seen[0]) != base || seen[0] == seen[1] {
		t.Errorf("TMPDIR = %q, want two in %s", seen, base)
	}
	left, err := filepath.Glob(base + "/*")
	if err != nil || !slices.Equal(left, []string{keep}) {
		t.Errorf("left are %q, %v, want %q", left, err, keep)
	}
}

// TestConfineEnds has a confined tool leave processes behind, which its guard must be able to end.
func TestConfineEnds(t *testing.T) {
	whole(t)
	env, name := mark(t)
	c := System()
	spec := sh(append(env, "PATH=/usr/bin:/bin"), "sleep 1000 & setsid sleep 1000 & (sleep 1000 &) ; exit 3")
	spec.Confine = &c
	exit, err := host(t).Run(t.Context(), spec)
	if err != nil || exit.Code != 3 {
		t.Errorf("Run = %+v, %v, want code 3", exit, err)
	}
	if left := marked(t, name); len(left) != 0 {
		t.Errorf("left running: %v", left)
	}
}

// blind is a jp on a system without Landlock: a filter makes the kernel forget it.
func blind([]string) int {
	const flagTSync = 1
	filter := []unix.SockFilter{
		{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: dataNumber},
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, Jf: 1, K: unix.SYS_LANDLOCK_CREATE_RULESET},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ERRNO | uint32(unix.ENOSYS)},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW},
	}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return complain(err)
	}
	prog := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	if _, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, flagTSync, uintptr(unsafe.Pointer(&prog))); errno != 0 {
		return complain(errno)
	}
	fmt.Printf("%+v\n", Enforceable())
	h := NewHost(Options{})
	c := System()
	_, err := h.Run(context.Background(), Spec{Path: "/bin/echo", Args: []string{"echo", "ran"}, Confine: &c, Stdout: os.Stdout})
	fmt.Println(err)
	c.Require = true
	_, err = h.Run(context.Background(), Spec{Path: "/bin/echo", Args: []string{"echo", "ran"}, Confine: &c, Stdout: os.Stdout})
	fmt.Println(err)
	if err := h.Close(); err != nil {
		return complain(err)
	}
	return 0
}

func TestConfineWithoutLandlock(t *testing.T) {
	if !seccompWorks() {
		t.Skip("no system call filter here")
	}
	out, err := exec.Command("/proc/self/exe", "as-blind").CombinedOutput()
	const missing = "access to files (no Landlock here), signals to other processes (Landlock ABI 0, 6 is needed)"
	want := "{LandlockABI:0 Seccomp:true Missing:[" + strings.Replace(missing, "), ", ") ", 1) + "]}\n" +
		"ran\n<nil>\n" +
		"/bin/echo: sandbox: this system cannot enforce " + missing + "\n"
	if err != nil || string(out) != want {
		t.Errorf("said %s (%v), want %s", out, err, want)
	}
}

func TestConfinementRoundTrip(t *testing.T) {
	for _, c := range []confinement{
		{},
		{Confine: System()},
		{Confine: Confine{Programs: []string{"/bin/x"}}},
		{Confine: Confine{Read: []string{"/a b\n", "", "1:"}, Write: []string{"/\xff"}, Network: true, Watch: true, Require: true}},
		{Confine: Confine{TmpDir: true}, tmp: &vanishing.Dir{Path: "/tmp/x"}},
	} {
		if got, err := decodeConfinement(c.String()); err != nil || !reflect.DeepEqual(got, c) {
			t.Errorf("decodeConfinement(%q) = %+v, %v, want %+v", c, got, err, c)
		}
	}
}

func FuzzDecodeConfinement(f *testing.F) {
	for _, s := range []string{"", ".0:", "r4:/srvw8:/srv/tmp.0:", "r1:/", "r9:/.0:", "r-1:.0:", "r01:/.0:", "n0:q0:.0:", "n0:n0:.0:", ".0:.0:", "n0:i0:q0:.0:", "w1:/r1:/.0:", "p6:/bin/xr1:/.0:", "t1:/.0:", "t0:.0:", "z0:.0:", "r:.0:"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if c, err := decodeConfinement(s); err == nil && c.String() != s {
			t.Errorf("decodeConfinement(%q) = %+v, which is %q", s, c, c)
		}
	})
}

func TestReportMissing(t *testing.T) {
	files := func(abi int) string {
		if abi == 0 {
			return "access to files (no Landlock here)"
		}
		return fmt.Sprintf("access to files (Landlock ABI %d, 3 is needed)", abi)
	}
	signals := func(abi int) string {
		return fmt.Sprintf("signals to other processes (Landlock ABI %d, 6 is needed)", abi)
	}
	for _, tt := range []struct {
		abi     int
		seccomp bool
		want    []string
	}{
		{0, false, []string{files(0), signals(0), "no network (no system call filter here)"}},
		{0, true, []string{files(0), signals(0)}},
		{2, true, []string{files(2), signals(2)}},
		{3, true, []string{signals(3)}},
		{5, true, []string{signals(5)}},
		{6, true, nil},
		{9, false, []string{"no network (no system call filter here)"}},
	} {
		r := Report{LandlockABI: tt.abi, Seccomp: tt.seccomp}
		if got := r.missing(); !slices.Equal(got, tt.want) {
			t.Errorf("%+v.missing() = %q, want %q", r, got, tt.want)
		}
		if got, want := r.Files(), tt.abi >= 3; got != want {
			t.Errorf("%+v.Files() = %t, want %t", r, got, want)
		}
	}
}

func BenchmarkToolConfined(b *testing.B) {
	h := NewHost(Options{})
	defer h.Close()
	c := System()
	c.TmpDir = true
	for b.Loop() {
		if e, err := h.Run(context.Background(), Spec{Path: "/bin/true", Env: benchEnv, Confine: &c}); err != nil || e.Code != 0 {
			b.Fatal(e, err)
		}
	}
}

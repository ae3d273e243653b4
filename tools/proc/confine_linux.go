package proc

import (
	"fmt"
	"os"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Enforceable reports what this system can enforce.
func Enforceable() Report {
	r := Report{LandlockABI: landlockABI(), Seccomp: seccompWorks()}
	r.Missing = r.missing()
	return r
}

// landlockABI returns 0 where the kernel has no Landlock, or has it switched off.
func landlockABI() int {
	abi, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, unix.LANDLOCK_CREATE_RULESET_VERSION)
	if errno != 0 {
		return 0
	}
	return int(abi)
}

// inside calls start on a thread that is confined by c and does nothing else from then on. A
// process that start forks is confined, and this process is not. An error means that start was not
// called.
//
// killAll kills everything that is confined by the same rules, at once: no process can fork in
// between (kill(2) and fork(2) exclude each other in the kernel). It is nil where Landlock does not
// keep the signals of the thread inside, before Linux 6.12.
func (c confinement) inside(start func() bool) (ok bool, killAll func(), err error) {
	done := make(chan struct{})
	var kill, killed chan struct{}
	var work func()
	work = func() {
		// Never unlocked, so that nothing else runs on a thread that is confined.
		runtime.LockOSThread()
		if unix.Gettid() == unix.Getpid() {
			// The main thread would live on, confined. As long as this goroutine holds it, no other
			// one can get it.
			go work()
			<-done
			runtime.UnlockOSThread()
			return
		}
		var rules *ruleset
		if rules, err = c.rules(unix.Gettid()); err == nil {
			kept := keepsSignals(unix.Getppid())
			if err = rules.enforce(); err == nil {
				if kept() {
					kill, killed = make(chan struct{}), make(chan struct{})
				}
				expendable(func() { ok = start() })
			}
			rules.close()
		}
		close(done)
		if ok { // what it started dies with its thread: see spawn
			for range kill {
				_ = unix.Kill(-1, unix.SIGKILL)
				killed <- struct{}{}
			}
		}
	}
	go work()
	<-done
	if ok && kill != nil {
		killAll = func() {
			kill <- struct{}{}
			<-killed
		}
	}
	return ok, killAll, err
}

// keepsSignals is called before and returns what is called after the calling thread is confined. That
// reports whether signals of the thread reach nothing outside any more: a process that could be
// signalled cannot be now. Without that proof a signal to all would be one to all of the user.
func keepsSignals(outside int) (kept func() bool) {
	before := unix.Kill(outside, 0)
	return func() bool { return before == nil && unix.Kill(outside, 0) == unix.EPERM }
}

// A ruleset is what a thread is to be confined by.
type ruleset struct {
	landlock int // descriptor, or -1
	filter   []unix.SockFilter
}

func (r *ruleset) close() {
	if r.landlock >= 0 {
		closeFD(r.landlock)
	}
}

// rules makes the rulesets of the kernel for c and the thread that they are for.
func (c confinement) rules(thread int) (*ruleset, error) {
	can := Enforceable()
	if missing := c.Missing(can); c.Require && len(missing) > 0 {
		return nil, &ConfineError{missing}
	}
	r := &ruleset{landlock: -1}
	if can.Seccomp {
		r.filter = filter(c.Network, c.Watch, thread)
	}
	if can.LandlockABI > 0 {
		var err error
		if r.landlock, err = c.landlock(can.LandlockABI); err != nil {
			return nil, err
		}
	}
	return r, nil
}

// enforce confines the calling thread, for good.
func (r *ruleset) enforce() error {
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("sandbox: %w", os.NewSyscallError("prctl PR_SET_NO_NEW_PRIVS", err))
	}
	if r.landlock >= 0 {
		if _, _, errno := unix.Syscall(unix.SYS_LANDLOCK_RESTRICT_SELF, uintptr(r.landlock), 0, 0); errno != 0 {
			return fmt.Errorf("sandbox: %w", os.NewSyscallError("landlock_restrict_self", errno))
		}
	}
	if len(r.filter) > 0 {
		if err := install(r.filter); err != nil {
			return fmt.Errorf("sandbox: %w", os.NewSyscallError("seccomp", err))
		}
	}
	return nil
}

// Rights of Landlock on files and folders.
const (
	// fileRights are those that a file can have; more on one is an error.
	fileRights = unix.LANDLOCK_ACCESS_FS_EXECUTE | unix.LANDLOCK_ACCESS_FS_READ_FILE | unix.LANDLOCK_ACCESS_FS_WRITE_FILE |
		unix.LANDLOCK_ACCESS_FS_TRUNCATE | unix.LANDLOCK_ACCESS_FS_IOCTL_DEV

	programRights = unix.LANDLOCK_ACCESS_FS_EXECUTE | unix.LANDLOCK_ACCESS_FS_READ_FILE

	readRights = unix.LANDLOCK_ACCESS_FS_EXECUTE | unix.LANDLOCK_ACCESS_FS_READ_FILE | unix.LANDLOCK_ACCESS_FS_READ_DIR

	// writeRights allow no device files to be made, and no talk to those that are there.
	writeRights = readRights | unix.LANDLOCK_ACCESS_FS_WRITE_FILE | unix.LANDLOCK_ACCESS_FS_TRUNCATE |
		unix.LANDLOCK_ACCESS_FS_REMOVE_DIR | unix.LANDLOCK_ACCESS_FS_REMOVE_FILE |
		unix.LANDLOCK_ACCESS_FS_MAKE_DIR | unix.LANDLOCK_ACCESS_FS_MAKE_REG | unix.LANDLOCK_ACCESS_FS_MAKE_SYM |
		unix.LANDLOCK_ACCESS_FS_MAKE_FIFO | unix.LANDLOCK_ACCESS_FS_MAKE_SOCK | unix.LANDLOCK_ACCESS_FS_REFER
)

// handled are the rights that an ABI knows. All of them are denied except where a rule gives them.
func handled(abi int) uint64 {
	rights := uint64(unix.LANDLOCK_ACCESS_FS_MAKE_SYM)<<1 - 1
	if abi >= 2 {
		rights |= unix.LANDLOCK_ACCESS_FS_REFER
	}
	if abi >= 3 {
		rights |= unix.LANDLOCK_ACCESS_FS_TRUNCATE
	}
	if abi >= 5 {
		rights |= unix.LANDLOCK_ACCESS_FS_IOCTL_DEV
	}
	return rights
}

// landlock makes a ruleset of Landlock and returns its descriptor.
func (c confinement) landlock(abi int) (fd int, err error) {
	// The structure has the kernel's own size, or is larger with zeros, whatever the version.
	attr := struct{ fs, net, scoped uint64 }{fs: handled(abi)}
	size := unsafe.Sizeof(attr.fs)
	if abi >= 4 {
		size = unsafe.Sizeof(attr.fs) + unsafe.Sizeof(attr.net)
		if !c.Network {
			attr.net = unix.LANDLOCK_ACCESS_NET_BIND_TCP | unix.LANDLOCK_ACCESS_NET_CONNECT_TCP
		}
	}
	if abi >= scopeLandlock {
		size = unsafe.Sizeof(attr)
		attr.scoped = unix.LANDLOCK_SCOPE_SIGNAL | unix.LANDLOCK_SCOPE_ABSTRACT_UNIX_SOCKET
	}
	r, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, uintptr(unsafe.Pointer(&attr)), size, 0)
	if errno != 0 {
		return -1, fmt.Errorf("sandbox: %w", os.NewSyscallError("landlock_create_ruleset", errno))
	}
	fd = int(r)
	write := c.Write
	if c.tmp != nil {
		write = append(write[:len(write):len(write)], c.tmp.Path)
	}
	for _, list := range []struct {
		paths  []string
		rights uint64
		kind   ruleKind
	}{{c.Exec, readRights, systemRule}, {c.Programs, programRights, programRule}, {c.Read, readRights, plainRule}, {write, writeRights, plainRule}} {
		for _, path := range list.paths {
			if err := allow(fd, path, list.rights&attr.fs, list.kind); err != nil {
				closeFD(fd)
				return -1, fmt.Errorf("sandbox: %w", &os.PathError{Op: "allow", Path: path, Err: err})
			}
		}
	}
	return fd, nil
}

// A ruleKind says what to do with a path that is not what it should be.
type ruleKind int

const (
	plainRule   ruleKind = iota // a link on the way is an error
	systemRule                  // links are followed
	programRule                 // what is no regular file, or is behind a link, has no rule
)

// allow adds a rule for path, if there is such a file or folder. The rule is made for the
// descriptor that was checked, so it holds for nothing else, even if path is swapped meanwhile.
func allow(ruleset int, path string, rights uint64, kind ruleKind) error {
	how := unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC}
	if kind != systemRule {
		how.Resolve = unix.RESOLVE_NO_SYMLINKS
	}
	var fd int
	for {
		var err error
		if fd, err = unix.Openat2(unix.AT_FDCWD, path, &how); err == nil {
			break
		}
		switch {
		case err == unix.ENOENT || err == unix.ENOTDIR,
			kind != plainRule && err == unix.EACCES, kind == programRule && err == unix.ELOOP:
			return nil
		case err != unix.EINTR && err != unix.EAGAIN:
			return err
		}
	}
	defer closeFD(fd)
	var stat unix.Stat_t
	if err := unix.Fstat(fd, &stat); err != nil {
		return err
	}
	if kind == programRule && stat.Mode&unix.S_IFMT != unix.S_IFREG {
		return nil
	}
	if stat.Mode&unix.S_IFMT != unix.S_IFDIR {
		rights &= fileRights
	}
	rule := unix.LandlockPathBeneathAttr{Allowed_access: rights, Parent_fd: int32(fd)}
	_, _, errno := unix.Syscall6(unix.SYS_LANDLOCK_ADD_RULE, uintptr(ruleset), unix.LANDLOCK_RULE_PATH_BENEATH,
		uintptr(unsafe.Pointer(&rule)), 0, 0, 0)
	if errno == unix.EBADFD {
		return nil // an entry of a file system that only the kernel uses, of no consequence
	}
	if errno != 0 {
		return errno
	}
	return nil
}

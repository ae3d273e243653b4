package proc

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// What an agent is told. It may use large pages, see package early, if at most few others live.
const (
	inheritVar = "JP_PROC" // the descriptors that it was given
	largeVar   = "JP_LARGE_PAGES"
	few        = 64
)

// runAgent starts spec as a child jp. It does not wait.
func (h *Host) runAgent(spec *Spec, io *stdio) (*run, error) {
	death, alive, err := pipe()
	if err != nil {
		return nil, err
	}
	defer closeFD(death)
	files := []uintptr{io.fds[0], io.fds[1], io.fds[2], uintptr(death)}
	given := inheritVar + "=death=3"
	hand := func(name string, fd uintptr) {
		given += fmt.Sprintf(",%s=%d", name, len(files))
		files = append(files, fd)
	}
	if spec.Wire != nil {
		hand("wire", spec.Wire.Fd())
	}
	if spec.Lease != nil {
		hand("lease", spec.Lease.shared.Fd())
	} else if lease := family.leased(); lease != unleased {
		hand("lease", uintptr(lease))
	}
	r := newRun()
	// Lock is called when no other start can copy the file. To wait for syscall.ForkLock would not
	// do: an exec may still have to close its copies then.
	c, err := family.start(true, func() (int, error) {
		if spec.Lock != nil {
			lock, err := spec.Lock()
			if err != nil {
				return 0, err
			}
			defer lock.Close()
			hand("lock", lock.Fd())
		}
		told := []string{"*", given}
		if len(family.ours) <= few { // start holds its lock
			told = append(told, largeVar+"=1")
		}
		return syscall.ForkExec(spec.Path, spec.Args, &syscall.ProcAttr{
			Dir:   spec.Dir,
			Env:   Environ(spec.Env, told...),
			Files: files,
			Sys:   &syscall.SysProcAttr{Setpgid: true},
		})
	})
	io.handed()
	if err != nil {
		closeFD(alive)
		if errno, ok := err.(syscall.Errno); ok {
			err = execError(spec, errno)
		}
		return nil, err
	}
	r.pid = c.pid
	r.started <- c.pid
	// A stopped agent sees no signal before it continues.
	r.interrupt = func() { family.signal(c, syscall.SIGINT, syscall.SIGCONT) }
	r.kill = func() { family.kill(c) }
	go func() {
		status, usage, err := family.wait(c)
		r.exit.Duration = time.Since(r.begun)
		closeFD(alive)
		if err == nil {
			r.exit.setStatus(status)
			r.exit.MaxRSS = maxRSS(&usage)
		}
		// An agent leaves no process behind, unless it was killed.
		if r.err = family.sweep(); r.err == nil {
			r.err = err
		}
		close(r.ended)
		close(r.released)
	}()
	return r, nil
}

// Inherited is what a child jp was given by its parent jp, besides Spec.Lock, which the child keeps
// until it ends, and Spec.Lease, which all that it starts has too.
type Inherited struct {
	Death *os.File // end of file: the parent is gone
	Wire  *os.File // Spec.Wire, nil without one; the caller's to close
	lease leased   // Spec.Lease
}

// Inherit takes over what the parent jp handed down: it reads and unsets JP_PROC and keeps the
// descriptors from being inherited further. It is called once, early in main, before anything is
// started. Without a parent jp the fields are nil. It is an error when the variable is not as a
// parent writes it, or the descriptors are not there.
func Inherit() (*Inherited, error) {
	given, ok := os.LookupEnv(inheritVar)
	if !ok {
		return &Inherited{lease: unleased}, nil
	}
	if err := os.Unsetenv(inheritVar); err != nil {
		return nil, err
	}
	fds, err := parseInherit(given)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", inheritVar, err)
	}
	takeName("jp")
	in := &Inherited{lease: unleased}
	for name, fd := range fds {
		if err := checkInherited(name, fd); err != nil {
			return nil, fmt.Errorf("%s: %s: %w", inheritVar, name, err)
		}
	}
	for name, fd := range fds {
		syscall.CloseOnExec(fd)
		switch name {
		case "death":
			// Our own copy of the reading end: nobody else reads it.
			if err := syscall.SetNonblock(fd, true); err != nil {
				return nil, fmt.Errorf("%s: %s: %w", inheritVar, name, err)
			}
			in.Death = os.NewFile(uintptr(fd), name)
		case "lock": // no *os.File, which would be closed when nothing points to it
		case "wire":
			if err := syscall.SetNonblock(fd, true); err != nil { // so that closing it ends a read
				return nil, fmt.Errorf("%s: %s: %w", inheritVar, name, err)
			}
			in.Wire = os.NewFile(uintptr(fd), name)
		case "lease":
			in.lease = leased(fd)
		}
	}
	family.lend(in.lease)
	return in, nil
}

// parseInherit reads "death=3,lock=4,wire=5,lease=6". death must be there.
func parseInherit(given string) (map[string]int, error) {
	fds := map[string]int{}
	seen := map[int]bool{}
	for item := range strings.SplitSeq(given, ",") {
		name, number, _ := strings.Cut(item, "=")
		fd, err := strconv.Atoi(number)
		if !slices.Contains([]string{"death", "lock", "wire", "lease"}, name) || err != nil || fd < 3 || fd > 1<<20 || strconv.Itoa(fd) != number {
			return nil, fmt.Errorf("%q is not a descriptor", item)
		}
		if _, twice := fds[name]; twice || seen[fd] {
			return nil, fmt.Errorf("%q comes twice", item)
		}
		fds[name], seen[fd] = fd, true
	}
	if _, ok := fds["death"]; !ok {
		return nil, fmt.Errorf("no death pipe in %q", given)
	}
	return fds, nil
}

// checkInherited reports whether fd can be what the parent handed down as name.
func checkInherited(name string, fd int) error {
	var st syscall.Stat_t
	if err := syscall.Fstat(fd, &st); err != nil {
		return fmt.Errorf("descriptor %d: %w", fd, err)
	}
	kind := uint32(st.Mode) & syscall.S_IFMT
	flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFL, 0)
	if err != nil {
		return fmt.Errorf("descriptor %d: %w", fd, err)
	}
	ok := false
	switch name {
	case "death":
		ok = kind == syscall.S_IFIFO && flags&unix.O_ACCMODE == unix.O_RDONLY
	case "lock":
		ok = kind == syscall.S_IFREG
	case "wire":
		ok = kind == syscall.S_IFSOCK
	case "lease":
		ok = kind == syscall.S_IFREG && flags&unix.O_ACCMODE == unix.O_RDONLY
	}
	if !ok {
		return fmt.Errorf("descriptor %d is not what a parent jp hands down", fd)
	}
	return nil
}

// Bounds of an agent whose parent is gone or whose lease is over. It may stop by itself within
// stopWait, and may write down the result within exitWait after everything below it was killed.
// Together they stay well within a second.
const (
	stopWait = 300 * time.Millisecond
	exitWait = 150 * time.Millisecond
)

// Watch calls cancel, in a goroutine, when the parent is gone or the lease is over. The process
// then has a short time to stop what it runs and end. After that everything below it is killed, and
// soon after it exits with status 129. Without a parent Watch does nothing. Closing Death ends it
// where there is no lease.
func (in *Inherited) Watch(cancel func()) {
	if in.Death == nil {
		return
	}
	end := sync.OnceFunc(func() {
		cancel()
		time.Sleep(stopWait)
		family.killAll(exitWait)
		time.Sleep(exitWait)
		os.Exit(129)
	})
	go func() {
		// Nobody writes to the pipe: Read returns when no process is left that could.
		var b [1]byte
		if _, err := in.Death.Read(b[:]); errors.Is(err, os.ErrClosed) {
			return
		}
		end()
	}()
	if in.lease == unleased {
		return
	}
	go func() {
		for left := in.lease.left(); left > 0; left = in.lease.left() {
			time.Sleep(left)
		}
		end()
	}()
}

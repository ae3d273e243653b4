package proc

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// adopts reports whether orphans come to this process.
const adopts = true

// A view lists children of processes. The zero value reads the lists that the kernel keeps; where
// it keeps none (no CONFIG_PROC_CHILDREN) the parent of every process is read instead, once per
// view.
type view struct {
	scan     bool
	byParent map[int][]int
	buf      []byte
}

// children returns the children of pid. A process that is gone has none; an error means that they
// could not be read and may exist.
func (v *view) children(pid int) ([]int, error) {
	if v.scan {
		return v.scanned(pid)
	}
	dir := "/proc/" + strconv.Itoa(pid) + "/task"
	threads, err := readNumbers(dir)
	if err != nil {
		return nil, ignoreGone(err)
	}
	// The children of a thread that ends, and orphans, go to the first living thread. It is read
	// last, so that none is missed that moves meanwhile.
	if i := slices.Index(threads, pid); i >= 0 {
		threads = append(slices.Delete(threads, i, i+1), pid)
	}
	var kids []int
	for _, tid := range threads {
		name := dir + "/" + strconv.Itoa(tid)
		b, err := v.read(name + "/children")
		if err == unix.ENOENT && unix.Access("/proc/thread-self/children", unix.F_OK) == unix.ENOENT {
			// The thread is not gone: the kernel has no lists.
			v.scan = true
			return v.scanned(pid)
		}
		if err = ignoreGone(err); err != nil {
			return nil, err
		}
		kids = appendNumbers(kids, b)
	}
	return kids, nil
}

// scanned is children for a kernel that keeps no lists.
func (v *view) scanned(pid int) ([]int, error) {
	if v.byParent == nil {
		pids, err := readNumbers("/proc")
		if err != nil {
			return nil, err
		}
		v.byParent = map[int][]int{}
		for _, p := range pids {
			if parent := v.parent(p); parent > 0 {
				v.byParent[parent] = append(v.byParent[parent], p)
			}
		}
	}
	return v.byParent[pid], nil
}

// parent returns the parent of pid, 0 when there is none or pid is gone.
func (v *view) parent(pid int) int {
	b, err := v.read("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return 0
	}
	// pid (name) state parent ...; the name may hold spaces and parentheses.
	fields := bytes.Fields(b[bytes.LastIndexByte(b, ')')+1:])
	if len(fields) < 2 {
		return 0
	}
	n, _ := strconv.Atoi(string(fields[1]))
	return n
}

// read returns a file of /proc, valid until the next call. Package os would offer each descriptor
// to the poller first, in vain.
func (v *view) read(name string) ([]byte, error) {
	fd, err := openRetry(name, unix.O_RDONLY|unix.O_CLOEXEC)
	if err != nil {
		return nil, err
	}
	defer closeFD(fd)
	return v.readAll(func(b []byte, _ int) (int, error) { return unix.Read(fd, b) })
}

// readAll returns what read gives from its beginning on, valid until the next call.
func (v *view) readAll(read func(b []byte, at int) (int, error)) ([]byte, error) {
	if v.buf == nil {
		v.buf = make([]byte, 4096)
	}
	n := 0
	for {
		if n == len(v.buf) {
			v.buf = append(v.buf, make([]byte, len(v.buf))...)
		}
		m, err := read(v.buf[n:], n)
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return nil, err
		}
		if m == 0 {
			return v.buf[:n], nil
		}
		n += m
	}
}

// readNumbers returns the entries of a directory that are numbers.
func readNumbers(dir string) ([]int, error) {
	fd, err := openRetry(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC)
	if err != nil {
		return nil, err
	}
	defer closeFD(fd)
	var numbers []int
	var names []string
	buf := make([]byte, 4096)
	for {
		n, err := unix.ReadDirent(fd, buf)
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return nil, err
		}
		if n == 0 {
			return numbers, nil
		}
		_, _, names = unix.ParseDirent(buf[:n], -1, names[:0])
		for _, name := range names {
			if i, err := strconv.Atoi(name); err == nil {
				numbers = append(numbers, i)
			}
		}
	}
}

func openRetry(name string, flags int) (fd int, err error) {
	for {
		if fd, err = unix.Open(name, flags, 0); err != unix.EINTR {
			return fd, err
		}
	}
}

// ignoreGone drops the errors that mean that a process has ended.
func ignoreGone(err error) error {
	if err == unix.ENOENT || err == unix.ESRCH {
		return nil
	}
	return err
}

// A member is a process below this one.
type member struct{ pid, parent int }

// signal sends sig to m if it is still the child of its parent.
//
// A direct child cannot be mistaken: its number is not used again before this process has collected
// it. A deeper one may end at any time, and a stranger may get its number. So it is first held by a
// pidfd and its parent is read then: the process of the descriptor either has that parent or cannot
// be signalled any more.
func (v *view) signal(m member, sig unix.Signal) error {
	if m.parent == unix.Getpid() {
		return unix.Kill(m.pid, sig)
	}
	fd, err := unix.PidfdOpen(m.pid, 0)
	if err == nil {
		defer closeFD(fd)
	} else if err == unix.ESRCH {
		return err
	}
	if v.parent(m.pid) != m.parent {
		return unix.ESRCH
	}
	if err == nil {
		return unix.PidfdSendSignal(fd, sig, nil, 0)
	}
	// There is no pidfd before Linux 5.3, or no descriptor is left.
	return unix.Kill(m.pid, sig)
}

// stopPasses bounds how often end looks for processes it has not stopped yet. One pass stops all
// there is; more are needed where processes were forking meanwhile.
const stopPasses = 10

// end stops and then kills roots, which are children of this process, and everything below them. It
// collects none. It returns those that the kernel refuses to signal.
func end(roots []int) (denied []int) {
	self := os.Getpid()
	seen := map[int]bool{}
	var found []member
	var v view
	for range stopPasses {
		fresh := false
		v.byParent = nil
		walked := map[int]bool{} // numbers may be used again while this looks
		queue := make([]member, 0, len(roots))
		for _, pid := range roots {
			queue = append(queue, member{pid, self})
		}
		for len(queue) > 0 {
			m := queue[0]
			queue = queue[1:]
			if walked[m.pid] {
				continue
			}
			walked[m.pid] = true
			if !seen[m.pid] {
				if err := v.signal(m, unix.SIGSTOP); err == unix.EPERM {
					denied = append(denied, m.pid)
				} else if err != nil {
					continue
				}
				seen[m.pid], fresh = true, true
				found = append(found, m)
			}
			// An unreadable list makes this pass see less; what was missed becomes a direct child
			// when its parent is killed.
			kids, _ := v.children(m.pid)
			for _, kid := range kids {
				queue = append(queue, member{kid, m.pid})
			}
		}
		if !fresh {
			break
		}
	}
	// The deepest first, so that each still has the parent under which it was found.
	for _, m := range slices.Backward(found) {
		_ = v.signal(m, unix.SIGKILL) // the next round finds what it missed
	}
	return denied
}

// sweepLimit bounds a sweep: what is left by then is stuck in the kernel or forks faster than it
// can be stopped.
const sweepLimit = 10 * time.Second

// refusedRounds bounds how often a sweep looks again at processes that it may not signal.
const refusedRounds = 30

// sweep ends and collects children of this process, with everything below them, until list, which
// is called again for each round, returns none. It returns those that could not be ended.
//
// collect is called for each of list and reports whether it has ended and was collected. collect,
// list and the signalling happen under mu.
func sweep(list lister, collect func(pid int) bool, mu sync.Locker, limit time.Duration) (left []int, err error) {
	const shortest, longest = 50 * time.Microsecond, 5 * time.Millisecond
	begun := time.Now()
	wait := shortest
	seen := map[int]bool{}
	for refused := 0; ; {
		mu.Lock()
		roots, err := list()
		roots = slices.DeleteFunc(roots, collect)
		if len(roots) == 0 && err == nil {
			// When one ends that is collected here, its children come to this process. That may be
			// after the call of list.
			again, err := list()
			if len(again) == 0 && err == nil {
				mu.Unlock()
				return nil, nil
			}
			roots = again
		}
		denied := end(roots)
		mu.Unlock()

		late := time.Since(begun) > limit
		reachable := slices.ContainsFunc(roots, func(pid int) bool { return !slices.Contains(denied, pid) })
		if len(roots) > 0 && !reachable {
			refused++ // it may be about to end by itself
		}
		if late || refused > refusedRounds {
			return roots, err
		}
		for _, pid := range roots {
			if !seen[pid] {
				seen[pid] = true
				wait = shortest // still moving: stay close
			}
		}
		time.Sleep(wait)
		wait = min(2*wait, longest)
	}
}

// nameOf returns the program name of a process for messages, or "".
func nameOf(pid int) string {
	var v view
	b, err := v.read("/proc/" + strconv.Itoa(pid) + "/comm")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(b))
}

// arm prepares this process for ending its tree: orphans below come to it, its memory and
// descriptors cannot be read by other programs of the same user, and no inherited descriptor goes
// on to a child.
func arm() error {
	if self, err := os.Readlink("/proc/self"); err != nil {
		return fmt.Errorf("process trees need /proc: %w", err)
	} else if self != strconv.Itoa(os.Getpid()) {
		return fmt.Errorf("process trees need /proc: this one is of another PID namespace, where process %d is %s", os.Getpid(), self)
	}
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return os.NewSyscallError("prctl PR_SET_CHILD_SUBREAPER", err)
	}
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return os.NewSyscallError("prctl PR_SET_DUMPABLE", err)
	}
	err := unix.CloseRange(3, ^uint(0)>>1, unix.CLOSE_RANGE_CLOEXEC)
	if err == nil {
		return nil
	}
	// The flag is of Linux 5.11.
	fds, err := readNumbers("/proc/self/fd")
	if err != nil {
		return os.NewSyscallError("open /proc/self/fd", err)
	}
	for _, fd := range fds {
		if fd > 2 {
			unix.CloseOnExec(fd)
		}
	}
	return nil
}

// ownChildren returns the children of this process.
func ownChildren() ([]int, error) {
	if noChildren() { // one call in place of a hundred, some for each thread
		return nil, nil
	}
	var v view
	kids, err := v.children(os.Getpid())
	if err != nil {
		return nil, os.NewSyscallError("read /proc/self/task", err)
	}
	return kids, nil
}

// A kidList is the kernel's list of the children of this process's first thread, which stays open.
// It has the processes that this one adopts, and it can be read again when no descriptor is free.
// Children that other threads started are not on it.
type kidList struct {
	fd int // -1 = the kernel has no lists
}

// openKids opens the list. It stays open until the process ends.
func openKids() (*kidList, error) {
	self := strconv.Itoa(os.Getpid())
	name := "/proc/self/task/" + self + "/children"
	fd, err := openRetry(name, unix.O_RDONLY|unix.O_CLOEXEC)
	if err == unix.ENOENT {
		return &kidList{-1}, nil
	}
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: name, Err: err}
	}
	return &kidList{fd}, nil
}

// children returns the children that are on the list, and may return more.
func (k *kidList) children() ([]int, error) {
	if k.fd < 0 {
		return ownChildren()
	}
	var v view
	b, err := v.readAll(func(b []byte, at int) (int, error) { return unix.Pread(k.fd, b, int64(at)) })
	if err != nil {
		return nil, os.NewSyscallError("read /proc/self/task", err)
	}
	return appendNumbers(nil, b), nil
}

// appendNumbers appends the numbers of a list of children.
func appendNumbers(kids []int, list []byte) []int {
	for f := range bytes.FieldsSeq(list) {
		if kid, err := strconv.Atoi(string(f)); err == nil {
			kids = append(kids, kid)
		}
	}
	return kids
}

// noChildren reports whether the kernel says that this process has none at all.
func noChildren() bool {
	for {
		err := unix.Waitid(unix.P_ALL, 0, nil, unix.WEXITED|unix.WNOHANG|unix.WNOWAIT|unix.WALL, nil)
		if !errors.Is(err, unix.EINTR) {
			return errors.Is(err, unix.ECHILD)
		}
	}
}

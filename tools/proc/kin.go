package proc

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
)

// A child is a process that a Host started.
type child struct {
	pid  int
	done bool // collected: another process may have the number; guarded by kin.mu
}

// kin is the table of this process's children. The kernel has one list of them for the whole
// process, and that list does not show which were started and which are adopted orphans. So there
// is one table too, however many Hosts there are.
type kin struct {
	// mu is held while a child is started or collected and while orphans are listed and signalled,
	// so that no number gets another meaning in between.
	mu     sync.Mutex
	armed  bool
	kids   *kidList
	ours   map[int]bool // started by a Host, not collected yet
	spared map[int]bool // children from before the first run, and those that were given up and reported
	lent   leased       // what this process was started with, plus 1; 0 = nothing
}

var family kin

// lend notes the lease of this process, which everything that it starts has too.
func (k *kin) lend(l leased) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.lent = l + 1
}

func (k *kin) leased() leased {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.lent - 1
}

// A lister returns the children that a sweep is to end, again for each round. An error means that
// there may be more.
type lister func() ([]int, error)

// arm prepares the process for having children, before the first start.
func (k *kin) arm() error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.armed {
		return nil
	}
	// A program may be executed by a shell that has jobs in the background. They are children of
	// this process then, and must be left alone.
	before, err := ownChildren()
	if err != nil {
		return err
	}
	if err := arm(); err != nil {
		return err
	}
	if k.kids, err = openKids(); err != nil {
		return err
	}
	k.ours, k.spared = map[int]bool{}, map[int]bool{}
	for _, pid := range before {
		k.spared[pid] = true
	}
	k.armed = true
	return nil
}

// start runs fork, which returns the number of a new process, an agent or another, while no sweep
// can mistake it for an orphan.
func (k *kin) start(agent bool, fork func() (pid int, err error)) (*child, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	pid, err := slackened(agent, fork)
	if err != nil {
		return nil, err
	}
	k.ours[pid] = true
	delete(k.spared, pid) // the process that had this number was collected by someone else
	return &child{pid: pid}, nil
}

// wait returns when c has ended and was collected.
func (k *kin) wait(c *child) (status syscall.WaitStatus, usage syscall.Rusage, err error) {
	err = awaitEnd(c.pid)
	k.mu.Lock() // from here to the collection the number belongs to this child, and nobody signals it
	defer k.mu.Unlock()
	if err == nil {
		for {
			if _, err = syscall.Wait4(c.pid, &status, 0, &usage); err != syscall.EINTR {
				break
			}
		}
	}
	c.done = true
	delete(k.ours, c.pid)
	return status, usage, os.NewSyscallError("wait", err)
}

// signal sends signals to c unless it was collected.
func (k *kin) signal(c *child, signals ...syscall.Signal) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if c.done {
		return
	}
	for _, sig := range signals {
		_ = syscall.Kill(c.pid, sig) // it is this child and not collected: the only error is that it is dead
	}
}

// kill ends c and everything below it, and collects nothing.
func (k *kin) kill(c *child) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if !c.done {
		end([]int{c.pid})
	}
}

// sweepAll is sweep for the last time: it also ends what other threads started beside the Hosts.
func (k *kin) sweepAll() error { return k.sweepOf(k.orphans) }

// sweep ends and collects what this process adopted.
func (k *kin) sweep() error { return k.sweepOf(k.adopted) }

func (k *kin) sweepOf(list lister) error {
	k.mu.Lock()
	armed := k.armed
	k.mu.Unlock()
	if !armed {
		return nil
	}
	left, err := sweep(list, collect, &k.mu, sweepLimit)
	if len(left) > 0 {
		k.mu.Lock()
		for _, pid := range left {
			k.spared[pid] = true // reported once, here
		}
		k.mu.Unlock()
		return leftError(left)
	}
	return err
}

// orphans returns the children that no Host started. The caller holds mu.
func (k *kin) orphans() ([]int, error) {
	kids, err := k.all()
	return k.foreign(kids), err
}

// adopted returns those of the orphans that this process adopted. It needs neither a descriptor nor
// a look at each thread. The caller holds mu.
func (k *kin) adopted() ([]int, error) {
	kids, err := k.kids.children()
	return k.foreign(kids), err
}

// all returns the children of every thread. Where these cannot be listed it returns those that this
// process adopted.
func (k *kin) all() ([]int, error) {
	if kids, err := ownChildren(); err == nil {
		return kids, nil
	}
	return k.kids.children()
}

func (k *kin) foreign(kids []int) []int {
	return slices.DeleteFunc(kids, func(pid int) bool { return k.ours[pid] || k.spared[pid] })
}

// killAll ends everything below this process, with what Hosts started; the goroutines that wait for
// that collect it.
func (k *kin) killAll(limit time.Duration) {
	k.mu.Lock()
	armed := k.armed
	k.mu.Unlock()
	if !armed {
		return
	}
	below := func() ([]int, error) {
		kids, err := k.all()
		return slices.DeleteFunc(kids, func(pid int) bool { return k.spared[pid] }), err
	}
	adopted := func(pid int) bool { return !k.ours[pid] && collect(pid) }
	_, _ = sweep(below, adopted, &k.mu, limit) // nobody reads errors here
}

// collect takes the status of a child that has ended, and reports whether it had.
func collect(pid int) bool {
	for {
		got, err := syscall.Wait4(pid, nil, syscall.WNOHANG, nil)
		if err != syscall.EINTR {
			return got == pid || err == syscall.ECHILD
		}
	}
}

// LeftError says that a tree is not empty and what is left of it: processes that may not be
// signalled, or that do not end when killed. Run returns it once; they are not tried again.
type LeftError struct {
	PIDs  []int
	Names []string // of the programs, "" where unknown; same length
}

func leftError(pids []int) *LeftError {
	e := &LeftError{PIDs: pids}
	for _, pid := range pids {
		e.Names = append(e.Names, nameOf(pid))
	}
	return e
}

func (e *LeftError) Error() string {
	var b strings.Builder
	for i, pid := range e.PIDs {
		if i == 8 {
			fmt.Fprintf(&b, " and %d more", len(e.PIDs)-i)
			break
		}
		fmt.Fprintf(&b, " %d", pid)
		if e.Names[i] != "" {
			fmt.Fprintf(&b, " (%q)", e.Names[i])
		}
	}
	return "process tree: could not be ended:" + b.String()
}

//go:build darwin || dragonfly || freebsd || netbsd || openbsd

package proc

import (
	"slices"
	"sync"
	"syscall"
	"time"
)

// Without a subreaper there is nothing to adopt, and without a list of children nothing to walk: a
// tree is the process group of its first process.

// adopts reports whether orphans come to this process.
const adopts = false

// end kills the groups that roots lead, and roots.
func end(roots []int) (denied []int) {
	for _, pid := range roots {
		group := syscall.Kill(-pid, syscall.SIGKILL)
		if err := syscall.Kill(pid, syscall.SIGKILL); err == syscall.EPERM && group != nil {
			denied = append(denied, pid)
		}
	}
	return denied
}

const sweepLimit = 10 * time.Second

// sweep ends and collects what list returns until it returns none.
func sweep(list lister, collect func(pid int) bool, mu sync.Locker, limit time.Duration) (left []int, err error) {
	for start := time.Now(); ; time.Sleep(time.Millisecond) {
		mu.Lock()
		roots, err := list()
		roots = slices.DeleteFunc(roots, collect)
		end(roots)
		mu.Unlock()
		if len(roots) == 0 || time.Since(start) > limit {
			return roots, err
		}
	}
}

func nameOf(int) string           { return "" }
func arm() error                  { return nil }
func ownChildren() ([]int, error) { return nil, nil }
func noChildren() bool            { return true }

// A kidList is empty here.
type kidList struct{}

func openKids() (*kidList, error)         { return &kidList{}, nil }
func (*kidList) children() ([]int, error) { return nil, nil }

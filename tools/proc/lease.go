package proc

import (
	"encoding/binary"
	"os"
	"sync"
	"syscall"
	"time"
)

// Lease is a time until which agents run things. The process that made it extends it. When it is
// over, each agent that was started with it ends itself and everything below, as if its parent were
// gone, and soon after each guard of such an agent ends its tool. All of them look at the clock
// themselves, so no other process needs to run for that: neither the one that made the lease, nor
// for a tool the agent. Safe for concurrent use.
//
// The time is in a file without a name, which only this process can write.
type Lease struct {
	file   *os.File
	shared *os.File // the same, for reading

	mu    sync.Mutex
	until time.Duration
}

// NewLease returns a Lease that is over at a time of SinceBoot. Its file is made in the folder dir.
func NewLease(dir string, until time.Duration) (*Lease, error) {
	file, err := os.CreateTemp(dir, "lease")
	if err != nil {
		return nil, err
	}
	l := &Lease{file: file, until: until}
	if l.shared, err = os.Open(file.Name()); err == nil {
		err = os.Remove(file.Name())
	}
	if err == nil {
		err = l.write(until)
	}
	if err != nil {
		l.Close()
		return nil, err
	}
	return l, nil
}

// Extend makes the lease end at a time of SinceBoot, if it would end before that. One that is over
// stays over. After an error it ends when it would have ended.
func (l *Lease) Extend(until time.Duration) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if until <= l.until || SinceBoot() > l.until {
		return nil
	}
	if err := l.write(until); err != nil {
		return err
	}
	l.until = until
	return nil
}

func (l *Lease) write(until time.Duration) error {
	_, err := l.file.WriteAt(binary.NativeEndian.AppendUint64(nil, uint64(until)), 0)
	return err
}

// Over reports whether the lease is over.
func (l *Lease) Over() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return SinceBoot() > l.until
}

// Close frees what the lease has here. Those who have it keep it.
func (l *Lease) Close() {
	l.file.Close()
	if l.shared != nil {
		l.shared.Close()
	}
}

// leased is the lease under which a process was started, as a descriptor.
type leased int

// unleased is that of a process without one.
const unleased leased = -1

// left returns how long the lease goes on, at most a tick after which to look again: it may be
// extended, and sleep does not count the time for which the machine is suspended.
func (l leased) left() time.Duration {
	if l == unleased {
		return tick
	}
	return min(tick, l.until()-SinceBoot())
}

// until returns the end of the lease. One that cannot be read is over.
func (l leased) until() time.Duration {
	var last uint64
	for same := 0; same < 2; same++ { // a write may be under way
		var b [8]byte
		n, err := syscall.Pread(int(l), b[:], 0)
		if err == syscall.EINTR {
			same--
			continue
		}
		if err != nil || n < len(b) {
			return 0
		}
		if at := binary.NativeEndian.Uint64(b[:]); at != last {
			last, same = at, 0
		}
	}
	return time.Duration(last)
}

// guardLag is how long a guard waits after the end of the lease. An agent that runs has stopped its
// tools by then, and said so to them.
const guardLag = stopWait + 2*exitWait

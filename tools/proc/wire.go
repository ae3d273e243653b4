package proc

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// jp and a guard talk over one stream socket, the guard's descriptor 2.
//
// jp sends one order, with the tool's descriptors 0, 1 and 2 attached, and its 3 where it has one,
// then requests of one byte each. The end of the stream means that jp is gone. The order is not in
// the guard's argv, which anyone may read and which the kernel bounds.
//
// The guard sends reports, a line each. Anything else is what the Go runtime wrote to standard
// error while the guard was dying; it becomes part of the error message.

const (
	askInterrupt = 'i' // SIGINT to the tool's group; a launcher ends as keeper.ending says
	askKill      = 'k' // end everything below the guard now
)

// An order is what a guard is to start. Args and env travel as bytes: they need not be UTF-8.
type order struct {
	path, dir string
	confine   string // a confinement; "" = none
	grace     time.Duration
	args, env []string
	stop      []string // command of a launcher; the first is its path
}

// maxOrder bounds an order in bytes. Linux takes at most 6 MiB of arguments and environment, so a
// larger one could not be executed.
const maxOrder = 8 << 20

// encode returns the order with its length in front, or E2BIG, or EINVAL where a string holds a NUL
// byte. The body is a sequence of NUL-terminated strings: path, directory, number of arguments,
// confinement, grace of a launcher in milliseconds (0 is a tool), number of arguments of its stop
// command, arguments, those of the stop command, environment.
func (o order) encode() ([]byte, error) {
	b := make([]byte, 4, 4096)
	for s := range o.strings {
		if strings.IndexByte(s, 0) >= 0 {
			return nil, syscall.EINVAL
		}
		if len(b)+len(s)+1 > maxOrder {
			return nil, syscall.E2BIG
		}
		b = append(append(b, s...), 0)
	}
	binary.BigEndian.PutUint32(b, uint32(len(b)-4))
	return b, nil
}

// strings yields the body of an order.
func (o order) strings(yield func(string) bool) {
	head := []string{o.path, o.dir, strconv.Itoa(len(o.args)), o.confine, strconv.Itoa(int(o.grace / time.Millisecond)), strconv.Itoa(len(o.stop))}
	for _, ss := range [][]string{head, o.args, o.stop, o.env} {
		for _, s := range ss {
			if !yield(s) {
				return
			}
		}
	}
}

// orderSize reads the length in front of an order.
func orderSize(head [4]byte) (int, error) {
	n := binary.BigEndian.Uint32(head[:])
	if n > maxOrder {
		return 0, fmt.Errorf("order of %d bytes: above the limit of %d", n, maxOrder)
	}
	return int(n), nil
}

// decodeOrder reads the body of an order.
func decodeOrder(body []byte) (order, error) {
	if len(body) == 0 || body[len(body)-1] != 0 {
		return order{}, errors.New("order: cut off")
	}
	ss := strings.Split(string(body[:len(body)-1]), "\x00")
	const head = 6
	if len(ss) < head {
		return order{}, fmt.Errorf("order: %d strings, want at least %d", len(ss), head)
	}
	var n [3]int // arguments, grace, arguments of the stop command
	for i, at := range []int{2, 4, 5} {
		var err error
		if n[i], err = strconv.Atoi(ss[at]); err != nil || n[i] < 0 || n[i] > math.MaxInt32 || strconv.Itoa(n[i]) != ss[at] {
			return order{}, fmt.Errorf("order: %q is no count", ss[at])
		}
	}
	rest := ss[head:]
	if n[0]+n[2] > len(rest) {
		return order{}, fmt.Errorf("order: %d arguments with %d strings", n[0]+n[2], len(rest))
	}
	stop := n[0] + n[2]
	return order{path: ss[0], dir: ss[1], confine: ss[3], grace: time.Duration(n[1]) * time.Millisecond,
		args: rest[:n[0]:n[0]], stop: rest[n[0]:stop:stop], env: rest[stop:]}, nil
}

// A report is one line that a guard sends.
type report struct {
	what   string             // launch, then started or failed, exit, killed and stop or unstopped, left or empty
	pid    int                // started: the tool's
	errno  syscall.Errno      // failed, unstopped: why it could not be executed
	status syscall.WaitStatus // exit; stop: of the stop command
	maxRSS int64
	left   []int // processes that could not be ended
}

// String returns the line without its end.
func (r report) String() string {
	switch r.what {
	case "started":
		return fmt.Sprint("started ", r.pid)
	case "failed", "unstopped":
		return fmt.Sprint(r.what, " ", int(r.errno))
	case "stop":
		return fmt.Sprint("stop ", uint32(r.status))
	case "exit":
		return fmt.Sprint("exit ", uint32(r.status), " ", r.maxRSS)
	case "left":
		return "left " + strings.Trim(fmt.Sprint(r.left), "[]")
	default: // launch, killed, empty
		return r.what
	}
}

// parseReport reads one line; ok is false when it is not exactly a report.
func parseReport(line string) (r report, ok bool) {
	f := strings.Split(line, " ")
	ns := make([]int64, len(f)-1)
	for i := range ns {
		ns[i], _ = strconv.ParseInt(f[i+1], 10, 64)
	}
	r.what = f[0]
	switch {
	case (r.what == "launch" || r.what == "killed" || r.what == "empty") && len(ns) == 0:
	case r.what == "started" && len(ns) == 1:
		r.pid = int(ns[0])
	case (r.what == "failed" || r.what == "unstopped") && len(ns) == 1 && ns[0] != 0:
		r.errno = syscall.Errno(ns[0])
	case r.what == "stop" && len(ns) == 1:
		r.status = syscall.WaitStatus(ns[0])
	case r.what == "exit" && len(ns) == 2:
		r.status, r.maxRSS = syscall.WaitStatus(ns[0]), ns[1]
	case r.what == "left" && len(ns) > 0:
		for _, n := range ns {
			r.left = append(r.left, int(n))
		}
	default:
		return report{}, false
	}
	// A text that is no number, or too large, or spelled in another way differs here.
	if r.String() != line {
		return report{}, false
	}
	return r, true
}

package proc

import (
	"errors"
	"fmt"
	"io"
	"os"
	"reflect"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// ErrOutputHeld says that a process outside the tree still holds the program's standard output or
// error after the tree is empty. What was written until then was copied.
var ErrOutputHeld = errors.New("held open by a process outside the tree")

// errOutputStuck says that a Writer of the caller did not return in time.
var errOutputStuck = errors.New("gave up on a writer that does not take its output")

// Once the tree is empty all its output is in the pipes and their end follows, unless an end was
// handed to a process outside. heldWait is for processes that this process forks at that moment:
// they hold every descriptor until they execute their program. stuckWait is for a Writer that has
// yet to take what there is, once the caller wants an end. readerWait is for a Reader, whose
// goroutine may be abandoned.
const (
	heldWait   = time.Second
	stuckWait  = 2 * time.Second
	readerWait = 100 * time.Millisecond
)

// stdio is a program's standard input, output and error, and the copying between them and the
// caller's Reader and Writers.
type stdio struct {
	fds   [3]uintptr // for the program
	files []*os.File // files of fds: must stay open until the program has them
	own   []*os.File // elements of files that are ours to close then

	in        *os.File // our end of a pipe, nil
	inDone    chan struct{}
	out       []*copier
	closeOnce sync.Once
}

// open prepares the three descriptors. An *os.File is handed over as it is, nil is /dev/null,
// anything else is copied through a pipe.
func (s *stdio) open(in io.Reader, out, errOut io.Writer) (err error) {
	defer func() {
		if err != nil {
			s.abort()
		}
	}()
	if err = s.openIn(in); err != nil {
		return fmt.Errorf("stdin: %w", err)
	}
	if err = s.openOut(1, "stdout", out); err != nil {
		return fmt.Errorf("stdout: %w", err)
	}
	if errOut != nil && same(out, errOut) {
		// One pipe, so that the order is right and Write is not called twice at a time.
		s.fds[2] = s.fds[1]
		return nil
	}
	if err = s.openOut(2, "stderr", errOut); err != nil {
		return fmt.Errorf("stderr: %w", err)
	}
	return nil
}

func same(a, b io.Writer) bool {
	return a != nil && reflect.TypeOf(a) == reflect.TypeOf(b) && reflect.TypeOf(a).Comparable() && a == b
}

// hand gives f to the program as descriptor i.
func (s *stdio) hand(i int, f *os.File) error {
	fd := f.Fd() // also makes it blocking, as programs expect
	if fd == ^uintptr(0) {
		return os.ErrClosed
	}
	s.fds[i] = fd
	s.files = append(s.files, f)
	return nil
}

func (s *stdio) null(i, flag int) error {
	f, err := os.OpenFile(os.DevNull, flag, 0)
	if err != nil {
		return err
	}
	s.own = append(s.own, f)
	return s.hand(i, f)
}

func (s *stdio) openIn(in io.Reader) error {
	switch in := in.(type) {
	case nil:
		return s.null(0, os.O_RDONLY)
	case *os.File:
		return s.hand(0, in)
	}
	r, w, err := pipe()
	if err != nil {
		return err
	}
	theirs := os.NewFile(uintptr(r), "stdin")
	s.own = append(s.own, theirs)
	if s.in, err = pollable(w, "stdin"); err != nil {
		return err
	}
	s.inDone = make(chan struct{})
	go func() {
		defer close(s.inDone)
		_, _ = io.Copy(s.in, in) // a program need not read its input
		s.in.Close()
	}()
	return s.hand(0, theirs)
}

func (s *stdio) openOut(i int, name string, out io.Writer) error {
	switch out := out.(type) {
	case nil:
		return s.null(i, os.O_WRONLY)
	case *os.File:
		return s.hand(i, out)
	}
	r, w, err := pipe()
	if err != nil {
		return err
	}
	theirs := os.NewFile(uintptr(w), name)
	s.own = append(s.own, theirs)
	ours, err := pollable(r, name)
	if err != nil {
		return err
	}
	c := &copier{name: name, r: ours, done: make(chan struct{})}
	s.out = append(s.out, c)
	go c.run(out)
	return s.hand(i, theirs)
}

// pollable returns fd as a file on which reads and writes can be interrupted. It closes fd when it
// fails.
func pollable(fd int, name string) (*os.File, error) {
	if err := syscall.SetNonblock(fd, true); err != nil {
		closeFD(fd)
		return nil, os.NewSyscallError("fcntl", err)
	}
	return os.NewFile(uintptr(fd), name), nil
}

// closeFD closes a descriptor whose error would change nothing.
func closeFD(fd int) { _ = syscall.Close(fd) }

// handed closes what only the program needs. It may be called more than once.
func (s *stdio) handed() {
	s.closeOnce.Do(func() {
		for _, f := range s.own {
			f.Close()
		}
		runtime.KeepAlive(s.files)
	})
}

// abort closes all, for a program that was not started.
func (s *stdio) abort() {
	s.handed()
	if s.in != nil {
		s.in.Close()
	}
	for _, c := range s.out {
		c.r.Close()
	}
}

// finish returns when the output is copied, after the tree of the program is empty. It waits for a
// Writer, but no longer than stuckWait once stop is closed.
func (s *stdio) finish(stop <-chan struct{}) error {
	s.handed()
	var errs []error
	for _, c := range s.out {
		c.drain()
	}
	for _, c := range s.out {
		select {
		case <-c.done:
		case <-stop:
			select {
			case <-c.done:
			case <-time.After(stuckWait):
				errs = append(errs, fmt.Errorf("%s: %w", c.name, errOutputStuck))
				continue // the copier may still write c.err
			}
		}
		if c.err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", c.name, c.err))
		}
	}
	if s.in != nil {
		s.in.Close()
		select {
		case <-s.inDone:
		case <-time.After(readerWait):
		}
	}
	return errors.Join(errs...)
}

// A copier copies what the program writes.
type copier struct {
	name     string
	r        *os.File
	draining atomic.Bool // the tree is empty
	done     chan struct{}
	err      error // after done
}

func (c *copier) run(w io.Writer) {
	defer close(c.done)
	defer c.r.Close() // a program that goes on writing for nobody gets SIGPIPE
	waited := false   // for the end of a pipe that is empty
	// Most programs write little, and there may be a thousand of them.
	buf := make([]byte, 4<<10)
	for {
		n, err := c.r.Read(buf)
		if errors.Is(err, os.ErrDeadlineExceeded) {
			// Time alone proves nothing on a busy machine: look.
			if n, err = c.readNow(buf); err == syscall.EAGAIN {
				if waited {
					c.err = ErrOutputHeld
					return
				}
				waited, err = true, nil
			}
		}
		if n > 0 {
			m, werr := w.Write(buf[:n])
			if werr == nil && m != n {
				werr = io.ErrShortWrite
			}
			if werr != nil {
				c.err = werr
				return
			}
			waited = false
			if n == len(buf) && n < 32<<10 {
				buf = make([]byte, 32<<10)
			}
		}
		if err != nil {
			if err != io.EOF && !errors.Is(err, os.ErrClosed) {
				c.err = err
			}
			return
		}
		if c.draining.Load() {
			_ = c.r.SetReadDeadline(time.Now().Add(heldWait))
		}
	}
}

// readNow reads what is there: EAGAIN is nothing, io.EOF the end.
func (c *copier) readNow(buf []byte) (n int, err error) {
	if err := c.r.SetReadDeadline(time.Time{}); err != nil {
		return 0, err
	}
	raw, err := c.r.SyscallConn()
	if err != nil {
		return 0, err
	}
	if rerr := raw.Read(func(fd uintptr) bool {
		for {
			if n, err = syscall.Read(int(fd), buf); err != syscall.EINTR {
				return true
			}
		}
	}); rerr != nil {
		return 0, rerr
	}
	if n == 0 && err == nil {
		err = io.EOF
	}
	return max(n, 0), err
}

// drain makes the copier end once no more comes.
func (c *copier) drain() {
	c.draining.Store(true)
	_ = c.r.SetReadDeadline(time.Now())
}

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

// ErrOutputHeld says that a process outside the tree still holds the program's
// standard output or error after the tree is empty. What was written until then was copied.
var ErrOutputHeld = errors.New("held open by a process outside the tree")

// errOutputStuck says that a Writer of the caller did not return in time.
var errOutputStuck = errors.New("gave up on a writer that does not take its output")

// drainWait bounds the wait for one more piece of output once the tree is empty.
// What was written is in the pipe by then and its end is at once, unless the
// pipe was handed to somebody outside.
const drainWait = time.Second

// stdio is a program's standard input, output and error, and the copying
// between them and the caller's Reader and Writers.
type stdio struct {
	fds   [3]uintptr // for the program
	files []*os.File // behind fds: must stay open until the program has them
	own   []*os.File // those of files to close then

	in        *os.File // our end of a pipe, nil
	inDone    chan struct{}
	out       []*copier
	closeOnce sync.Once
}

// open prepares the three descriptors. What is an *os.File is handed over as it is; nil is
// /dev/null; anything else is copied through a pipe.
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
		return err
	}
	if errOut != nil && same(out, errOut) {
		// One pipe, so that the order is kept and Write is not called twice at a time.
		s.fds[2] = s.fds[1]
		return nil
	}
	return s.openOut(2, "stderr", errOut)
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
	if err := syscall.SetNonblock(w, true); err != nil {
		syscall.Close(w)
		return err
	}
	s.in = os.NewFile(uintptr(w), "stdin")
	s.inDone = make(chan struct{})
	go func() {
		defer close(s.inDone)
		io.Copy(s.in, in) // a program need not read its input
		s.in.Close()
	}()
	return s.hand(0, theirs)
}

func (s *stdio) openOut(i int, name string, out io.Writer) error {
	switch out := out.(type) {
	case nil:
		return s.null(i, os.O_WRONLY)
	case *os.File:
		if err := s.hand(i, out); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		return nil
	}
	r, w, err := pipe()
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	theirs := os.NewFile(uintptr(w), name)
	s.own = append(s.own, theirs)
	if err := syscall.SetNonblock(r, true); err != nil {
		syscall.Close(r)
		return fmt.Errorf("%s: %w", name, err)
	}
	c := &copier{name: name, r: os.NewFile(uintptr(r), name), done: make(chan struct{})}
	s.out = append(s.out, c)
	go c.run(out)
	return s.hand(i, theirs)
}

// handed closes what only the program needs. It may be called more than once.
func (s *stdio) handed() {
	s.closeOnce.Do(func() {
		for _, f := range s.own {
			f.Close()
		}
		runtime.KeepAlive(s.files)
	})
}

// abort is for a program that was not started.
func (s *stdio) abort() {
	s.handed()
	if s.in != nil {
		s.in.Close()
	}
	for _, c := range s.out {
		c.r.Close()
	}
}

// finish returns when the output is copied, after the program's tree is empty. A
// Writer is waited for until it returns, but no longer than drainWait once stop is closed; a
// Reader of the caller's no longer than drainWait.
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
			case <-time.After(2 * drainWait):
				errs = append(errs, fmt.Errorf("%s: %w", c.name, errOutputStuck))
				continue // c.err belongs to the copier still
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
		case <-time.After(drainWait):
		}
	}
	return errors.Join(errs...)
}

// A copier copies what the program writes.
type copier struct {
	name     string
	r        *os.File
	draining atomic.Bool
	done     chan struct{}
	err      error // after done
}

func (c *copier) run(w io.Writer) {
	defer close(c.done)
	defer c.r.Close() // a program that goes on writing for nobody gets SIGPIPE
	buf := make([]byte, 32<<10)
	for {
		n, err := c.r.Read(buf)
		if n > 0 {
			m, werr := w.Write(buf[:n])
			if werr == nil && m != n {
				werr = io.ErrShortWrite
			}
			if werr != nil {
				c.err = werr
				return
			}
			if c.draining.Load() {
				c.r.SetReadDeadline(time.Now().Add(drainWait))
			}
		}
		switch {
		case err == nil:
		case errors.Is(err, os.ErrDeadlineExceeded):
			c.err = ErrOutputHeld
			return
		default:
			if err != io.EOF && !errors.Is(err, os.ErrClosed) {
				c.err = err
			}
			return
		}
	}
}

// drain has the copier end once no more comes.
func (c *copier) drain() {
	c.draining.Store(true)
	c.r.SetReadDeadline(time.Now().Add(drainWait))
}

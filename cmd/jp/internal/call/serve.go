package call

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"jp/tools/proc"
)

// Request is one command line of a jp inside a tool.
type Request struct {
	Args []string // arguments without the program's name
	// stdin of the jp inside, sent from the first Read on; an error after MaxInput bytes
	Stdin          io.Reader
	Stdout, Stderr io.Writer // sent when the command has ended; Stdout fails after MaxOutput bytes
}

// Handler runs one command line and returns its exit status. ctx ends when the jp inside goes away,
// or the call ends. It is called from several goroutines.
type Handler func(ctx context.Context, r Request) (status int)

// errGone is the cause of a context whose jp inside went away.
var errGone = errors.New("the jp inside the tool is gone")

// Line serves one tool call.
type Line struct {
	ours, theirs *os.File
	end          context.CancelCauseFunc
	done         chan struct{}
}

// Open returns a Line that serves a call. The caller closes it. ctx is that of the call.
func Open(ctx context.Context, handle Handler) (*Line, error) {
	ours, theirs, err := proc.Pair()
	if err != nil {
		return nil, fmt.Errorf("line: %w", err)
	}
	ctx, end := context.WithCancelCause(ctx)
	l := &Line{ours: ours, theirs: theirs, end: end, done: make(chan struct{})}
	s := server{handle: handle, slots: make(chan struct{}, Lines)}
	go func() {
		defer close(l.done)
		s.accept(ctx, ours)
		ours.Close() // so that whoever waits for a connection gets an error
		s.work.Wait()
	}()
	return l, nil
}

// Socket returns the end for the tool. The Line owns it.
func (l *Line) Socket() *os.File { return l.theirs }

// Close ends the commands that still run, and returns when they have ended.
func (l *Line) Close() {
	l.end(ErrEnded)
	l.ours.Close()
	<-l.done
	l.theirs.Close()
}

type server struct {
	handle Handler
	slots  chan struct{}
	work   sync.WaitGroup
	kept   atomic.Int64 // bytes that the commands keep
}

// errSum is the error for what would be more than maxSum.
var errSum = fmt.Errorf("more than %d MiB in the commands of this call", maxSum>>20)

// A Share is what one command keeps of the sum. The nil Share is not counted.
type Share struct{ all, own *atomic.Int64 }

// NewShare returns a Share of the sum all.
func NewShare(all *atomic.Int64) *Share { return &Share{all, new(atomic.Int64)} }

// take reports whether there is room for n more bytes, and counts them.
func (s *Share) take(n int) bool {
	switch {
	case s == nil:
		return true
	case s.all.Add(int64(n)) > maxSum:
		s.all.Add(-int64(n))
		return false
	}
	s.own.Add(int64(n))
	return true
}

// Free counts nothing any more.
func (s *Share) Free() { s.all.Add(-s.own.Swap(0)) }

// accept gives a connection to everyone who asks for one, until the socket is closed or somebody
// sends anything else on it.
func (s *server) accept(ctx context.Context, ctl *os.File) {
	var b [1]byte
	for {
		if _, err := io.ReadFull(ctl, b[:]); err != nil || b[0] != wish {
			return
		}
		select {
		case s.slots <- struct{}{}:
		case <-ctx.Done():
			return
		}
		ours, theirs, err := proc.Pair()
		if err != nil {
			<-s.slots
			return
		}
		err = send(ctl, theirs)
		theirs.Close()
		if err != nil {
			ours.Close()
			<-s.slots
			return
		}
		s.work.Go(func() {
			defer func() { <-s.slots }()
			s.serve(ctx, ours)
		})
	}
}

// send sends f. Where nobody reads it waits, until ctl is closed.
func send(ctl, f *os.File) error {
	raw, err := ctl.SyscallConn()
	if err != nil {
		return err
	}
	rights := unix.UnixRights(int(f.Fd()))
	var sendErr error
	if err := raw.Write(func(fd uintptr) bool {
		for {
			_, sendErr = unix.SendmsgN(int(fd), []byte{wish}, rights, nil, unix.MSG_NOSIGNAL|unix.MSG_DONTWAIT)
			if sendErr != unix.EINTR {
				// Too many descriptors were sent that nobody received: waiting would not help.
				return sendErr != unix.EAGAIN
			}
		}
	}); err != nil {
		return err
	}
	return sendErr
}

// serve runs the one command line of a connection.
func (s *server) serve(ctx context.Context, conn *os.File) {
	ctx, cancel := context.WithCancelCause(ctx)
	var reading sync.WaitGroup
	defer reading.Wait()
	defer conn.Close()
	defer cancel(nil)
	// ends a Read or Write that waits for the peer
	defer context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })()

	mine := NewShare(&s.kept)
	defer mine.Free()
	_, body, err := readFrame(conn, string(frameArgs))
	if err != nil {
		return
	}
	const header = int(unsafe.Sizeof(""))
	if !mine.take(2*len(body) + header*bytes.Count(body, []byte{0})) {
		_ = writeFrame(conn, frameErrors, []byte("jp: "+errSum.Error()+"\n"))
		_ = writeFrame(conn, frameExit, []byte{1})
		return
	}
	args, err := decodeArgs(body)
	if err != nil {
		return
	}
	in := NewInlet(func() { _ = writeFrame(conn, frameWant, nil) })
	in.share = mine
	defer in.Close(os.ErrClosed)
	reading.Go(func() {
		for {
			_, body, err := readFrame(conn, string(frameInput))
			if err != nil {
				in.Close(errGone)
				cancel(errGone)
				return
			}
			in.Put(body)
		}
	})
	out, errOut := Outlets(mine)
	status := s.handle(ctx, Request{Args: args, Stdin: in, Stdout: out, Stderr: errOut})
	if ctx.Err() != nil {
		return // the peer has gone, or the call has ended and the command was stopped
	}
	in.silence()
	for _, err := range []error{
		writeChunks(conn, frameOutput, out.Bytes()),
		writeChunks(conn, frameErrors, errOut.Bytes()),
		writeFrame(conn, frameExit, []byte{byte(status)}),
	} {
		if err != nil {
			return
		}
	}
}

// Inlet is the stdin of a command as it comes from another process, after the first Read has asked
// for it. Safe for concurrent use.
type Inlet struct {
	want  func()
	share *Share

	mu    sync.Mutex
	cond  sync.Cond
	asked bool
	mute  bool // whether the command has ended: then nothing is asked for
	buf   []byte
	total int
	end   error // error that Read returns when buf is empty
}

// NewInlet returns an Inlet that calls want when the command reads for the first time.
func NewInlet(want func()) *Inlet {
	in := &Inlet{want: want}
	in.cond.L = &in.mu
	return in
}

// Read asks for stdin when it is called for the first time.
func (in *Inlet) Read(p []byte) (int, error) {
	in.mu.Lock()
	defer in.mu.Unlock()
	if !in.asked && !in.mute {
		in.asked = true
		in.want() // under the lock, so that it does not come between the frames of an answer
	}
	for len(in.buf) == 0 && in.end == nil {
		in.cond.Wait()
	}
	if len(in.buf) == 0 {
		return 0, in.end
	}
	n := copy(p, in.buf)
	in.buf = in.buf[n:]
	return n, nil
}

// Put takes a part of the input; an empty one is the end. Parts after the end, without a wish, or
// above the bound are dropped.
func (in *Inlet) Put(b []byte) {
	in.mu.Lock()
	defer in.mu.Unlock()
	defer in.cond.Broadcast()
	switch {
	case in.end != nil || !in.asked:
	case len(b) == 0:
		in.end = io.EOF
	case in.total+len(b) > MaxInput:
		in.end = fmt.Errorf("more than %d MiB", MaxInput>>20)
	case !in.share.take(len(b)):
		in.end = errSum
	default:
		in.total += len(b)
		in.buf = append(in.buf, b...)
	}
}

// Close ends the input with an error, unless it has ended.
func (in *Inlet) Close(err error) {
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.end == nil {
		in.end = err
	}
	in.cond.Broadcast()
}

func (in *Inlet) silence() {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.mute = true
}

// Outlet collects what a command writes, up to a bound. Safe for concurrent use.
type Outlet struct {
	most  int
	share *Share
	mu    sync.Mutex
	buf   bytes.Buffer
}

// Outlets returns what collects stdout and stderr of a command, with their bounds and its share.
func Outlets(s *Share) (stdout, stderr *Outlet) {
	return &Outlet{most: MaxOutput, share: s}, &Outlet{most: maxErrors, share: s}
}

func (o *Outlet) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.buf.Len()+len(p) > o.most {
		return 0, fmt.Errorf("output: more than %d MiB, which a jp inside a tool cannot return", o.most>>20)
	}
	if !o.share.take(len(p)) {
		return 0, fmt.Errorf("output: %w", errSum)
	}
	return o.buf.Write(p)
}

// Bytes returns what was written so far.
func (o *Outlet) Bytes() []byte {
	o.mu.Lock()
	defer o.mu.Unlock()
	return bytes.Clone(o.buf.Bytes())
}

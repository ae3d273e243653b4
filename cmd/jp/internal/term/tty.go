package term

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
	"golang.org/x/term"
)

// ErrNobody is returned where nobody can answer a question: there is no terminal, or our process
// group is in its background, where a read would stop the process.
var ErrNobody = errors.New("terminal: nobody can answer")

// TTY is the terminal of the session, whatever the standard streams are. It asks one question after
// the other. Safe for concurrent use.
type TTY struct {
	f     *os.File
	turns string // file of the locks that let one process at a time ask; "" = none

	mu sync.Mutex // held while a question is on the screen
}

// lineMax is the most bytes of an answer. A terminal in line mode takes no more than 4096 anyway.
const lineMax = 4096

// OpenTTY opens /dev/tty. The error is ErrNobody where our process group is not in its foreground.
// Processes that ask on one terminal at the same time, as those that a script has started, name the
// same file for turns: see [TTY.Alone].
func OpenTTY(turns string) (*TTY, error) {
	f, err := os.OpenFile("/dev/tty", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		return nil, ErrNobody
	}
	t := &TTY{f: f, turns: turns}
	if !t.Foreground() {
		f.Close()
		return nil, ErrNobody
	}
	return t, nil
}

// Close releases the terminal. A question that is being asked ends with an error.
func (t *TTY) Close() error { return t.f.Close() }

// Foreground reports whether our process group may read the terminal now.
func (t *TTY) Foreground() bool {
	group := 0
	err := t.control(func(fd int) (err error) {
		group, err = unix.IoctlGetInt(fd, unix.TIOCGPGRP)
		return err
	})
	return err == nil && group == unix.Getpgrp()
}

// size returns how many columns and rows the terminal has, 80 and 24 for unknown.
func (t *TTY) size() (width, height int) {
	width, height = 80, 24
	_ = t.control(func(fd int) error {
		if w, h, err := term.GetSize(fd); err == nil && w > 0 && h > 0 {
			width, height = w, h
		}
		return nil
	})
	return width, height
}

// Width returns how many columns the terminal has, 80 for unknown.
func (t *TTY) Width() int {
	width, _ := t.size()
	return width
}

// Height returns how many rows the terminal has, 24 for unknown.
func (t *TTY) Height() int {
	_, height := t.size()
	return height
}

// Ask shows text, which must be clean, and returns the line that is typed behind it, without its
// newline. It drops what was typed before the question was shown, and shows it again to who comes
// back to a process that was suspended. io.EOF means Ctrl-D on an empty line. When ctx ends the
// error is its cause.
func (p *Person) Ask(ctx context.Context, text string) (string, error) {
	t := p.tty
	if err := context.Cause(ctx); err != nil {
		return "", err
	}
	if !t.Foreground() {
		return "", ErrNobody
	}
	if err := t.control(flushInput); err != nil {
		return "", fmt.Errorf("terminal: %w", err)
	}
	polled, over := t.bound(ctx)
	defer over()
	if _, err := io.WriteString(t.f, text); err != nil {
		return "", cmp.Or(context.Cause(ctx), fmt.Errorf("terminal: %w", err))
	}
	line, err := t.readLine(ctx, polled, text)
	if err != nil {
		// What is written next shall not continue the line of the question.
		_, _ = io.WriteString(t.f, "\n")
	}
	return line, err
}

// bound lets reads end with ctx, and soon after it writes to a terminal that takes nothing
// (Ctrl-S), until over is called. It does nothing on systems that cannot poll /dev/tty.
func (t *TTY) bound(ctx context.Context) (polled bool, over func()) {
	polled = t.f.SetDeadline(time.Time{}) == nil
	ended := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(ended)
		_ = t.f.SetReadDeadline(time.Unix(1, 0))
		_ = t.f.SetWriteDeadline(time.Now().Add(unreadWait))
	})
	return polled, func() {
		if !stop() {
			<-ended
		}
		_ = t.f.SetDeadline(time.Time{})
	}
}

// readLine reads up to a newline behind text. Unless the terminal is polled, the read stays behind
// when ctx ends, and ends with the process.
func (t *TTY) readLine(ctx context.Context, polled bool, text string) (string, error) {
	back := make(chan os.Signal, 1)
	signal.Notify(back, syscall.SIGCONT)
	defer signal.Stop(back)
	type answer struct {
		line string
		err  error
	}
	done := make(chan answer, 1)
	go func() {
		line, err := t.read()
		done <- answer{line, err}
	}()
	wait := ctx.Done()
	if polled {
		wait = nil // the read returns by itself
	}
	for {
		select {
		case a := <-done:
			if errors.Is(a.err, os.ErrDeadlineExceeded) && ctx.Err() != nil {
				a.err = context.Cause(ctx)
			}
			return a.line, a.err
		case <-wait:
			return "", context.Cause(ctx)
		case <-back:
			if t.Foreground() {
				_, _ = io.WriteString(t.f, "\n"+text) // a terminal that is gone ends the read too
			}
		}
	}
}

func (t *TTY) read() (string, error) {
	var line []byte
	buf := make([]byte, 256)
	for {
		n, err := t.f.Read(buf)
		line = append(line, buf[:n]...)
		if i := bytes.IndexByte(line, '\n'); i >= 0 {
			return string(bytes.TrimSuffix(line[:i], []byte{'\r'})), nil
		}
		switch {
		case errors.Is(err, io.EOF) && len(line) > 0:
			return string(line), nil
		case errors.Is(err, io.EOF):
			return "", io.EOF
		case errors.Is(err, syscall.EIO): // the terminal has hung up
			return "", ErrNobody
		case err != nil:
			return "", err
		case len(line) > lineMax:
			return "", fmt.Errorf("terminal: answer longer than %d bytes", lineMax)
		}
	}
}

// control runs f on the descriptor. (*os.File).Fd would make it blocking, so that deadlines do
// nothing.
func (t *TTY) control(f func(fd int) error) error {
	c, err := t.f.SyscallConn()
	if err != nil {
		return err
	}
	var inner error
	if err := c.Control(func(fd uintptr) { inner = f(int(fd)) }); err != nil {
		return err
	}
	return inner
}

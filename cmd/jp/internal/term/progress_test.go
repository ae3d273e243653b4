package term

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"sync"
	"testing"
	"time"
)

// slate is a terminal that can be waited for.
type slate struct {
	mu    sync.Mutex
	b     bytes.Buffer
	wrote chan struct{}
}

func (s *slate) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.b.Write(p)
	s.wrote <- struct{}{}
	return len(p), nil
}

func TestProgress(t *testing.T) {
	out, err := &bytes.Buffer{}, &slate{wrote: make(chan struct{}, 100)}
	now := time.Unix(100, 0)
	tick := make(chan time.Time)
	s, p := (&IO{Out: out, Err: err, ErrTTY: true, Width: 20}).Progress("conversation grep", ProgressOptions{Now: func() time.Time { return now }, Tick: tick})
	now = now.Add(3 * time.Second)
	tick <- now
	<-err.wrote
	fmt.Fprint(s.Err, "a note\n")
	now = now.Add(time.Minute)
	tick <- now
	for range 3 { // the line taken away, the note, the line again
		<-err.wrote
	}
	fmt.Fprint(s.Out, "the answer\n")
	p.End()
	want := "\rjp: conversa...: 3s\x1b[K" + "\r\x1b[K" + "a note\n" + "\rjp: conve...: 1m03s\x1b[K" + "\r\x1b[K"
	if got := err.b.String(); got != want {
		t.Errorf("stderr %q, want %q", got, want)
	}
	if out.String() != "the answer\n" {
		t.Errorf("stdout %q", out)
	}
	if same, p := (&IO{Out: out, Err: err}).Progress("x", ProgressOptions{}); p != nil || same.Out != out {
		t.Error("Progress without a terminal is not nil")
	}
}

// TestCountdown: a line that says what is left, and no less than nothing.
func TestCountdown(t *testing.T) {
	err := &slate{wrote: make(chan struct{}, 100)}
	now := time.Unix(100, 0)
	tick := make(chan time.Time)
	_, p := (&IO{Out: &bytes.Buffer{}, Err: err, ErrTTY: true}).Countdown("waiting", 6*time.Hour, ProgressOptions{Now: func() time.Time { return now }, Tick: tick})
	for _, later := range []time.Duration{time.Minute, 5*time.Hour + 58*time.Minute, 55500 * time.Millisecond, time.Hour} {
		now = now.Add(later)
		tick <- now
		<-err.wrote
	}
	p.End()
	want := "\rjp: waiting: 5h59m left\x1b[K" + "\rjp: waiting: 1m00s left\x1b[K" + "\rjp: waiting: 5s left\x1b[K" + "\rjp: waiting: 0s left\x1b[K" + "\r\x1b[K"
	if got := err.b.String(); got != want {
		t.Errorf("stderr %q, want %q", got, want)
	}
}

// TestProgressBehindFile: an answer that goes into a file does not end the line, one that goes
// elsewhere does.
func TestProgressBehindFile(t *testing.T) {
	for _, file := range []bool{true, false} {
		err := &slate{wrote: make(chan struct{}, 100)}
		tick := make(chan time.Time)
		s, p := (&IO{Out: &bytes.Buffer{}, Err: err, ErrTTY: true, OutFile: file}).Progress("export", ProgressOptions{Now: func() time.Time { return time.Unix(100, 0) }, Tick: tick})
		fmt.Fprint(s.Out, "part of the answer\n")
		want := ""
		if file {
			tick <- time.Time{}
			<-err.wrote
			want = "\rjp: export: 0s\x1b[K" + "\r\x1b[K"
		}
		p.End()
		if got := err.b.String(); got != want {
			t.Errorf("file %v: stderr %q, want %q", file, got, want)
		}
	}
}

// TestBound: a bound that has ended stays behind all that begin before it, and one that has not
// gives way to the one of before.
func TestBound(t *testing.T) {
	_, unread := io.Pipe()
	for _, ended := range []bool{false, true} {
		s := New(Options{Out: unread, Err: unread})
		whole, signal := context.WithCancel(t.Context())
		deadline, late := context.WithCancel(whole)
		outer := s.Bound(whole)
		inner := s.Bound(deadline)
		if ended {
			late()
		}
		inner()
		if ended {
			outer()
		}
		signal()
		late()
		if _, err := s.Err.Write([]byte("said\n")); err != nil {
			t.Errorf("ended %v: stderr %v, want it muted", ended, err)
		}
		if _, err := s.Out.Write([]byte("said\n")); err != ErrUnread {
			t.Errorf("ended %v: stdout %v, want %v", ended, err, ErrUnread)
		}
	}
}

// TestProgressBound: what is behind a line of progress is given up at a deadline like everything
// else.
func TestProgressBound(t *testing.T) {
	s := New(Options{Out: &bytes.Buffer{}, Err: &bytes.Buffer{}})
	s.ErrTTY = true
	with, p := s.Progress("import", ProgressOptions{})
	defer p.End()
	if n := len(with.outputs()); n != 2 {
		t.Errorf("%d streams are bound, want both", n)
	}
}

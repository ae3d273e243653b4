package term

import (
	"bytes"
	"fmt"
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
	want := "\rjp: conversation...\x1b[K" + "\r\x1b[K" + "a note\n" + "\rjp: conversation...\x1b[K" + "\r\x1b[K"
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

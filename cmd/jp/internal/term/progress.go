package term

import (
	"fmt"
	"io"
	"sync"
	"time"
)

// Progress is a line on a terminal's stderr that says what takes so long. It appears after a
// second, and disappears when something else is written to stderr. It disappears for good on End,
// and when the answer begins, unless that goes into a file. Safe for concurrent use. A nil
// *Progress shows nothing.
type Progress struct {
	err   io.Writer
	io    *IO
	label string
	now   func() time.Time
	begun time.Time
	until time.Time // end of what takes so long; zero = not known
	stop  chan struct{}

	mu    sync.Mutex
	drawn bool
	ended bool
}

// ProgressOptions are for tests; the zero value is right elsewhere.
type ProgressOptions struct {
	Now  func() time.Time // nil = time.Now
	Tick <-chan time.Time // when to draw; nil = every second
}

// Progress begins a Progress, and returns s in the form to use until it ends. The Progress is nil
// where nothing can be drawn on stderr.
func (s *IO) Progress(label string, o ProgressOptions) (*IO, *Progress) {
	return s.progress(label, 0, o)
}

// Countdown is Progress for a wait whose length is known: the line says what is left of it.
func (s *IO) Countdown(label string, wait time.Duration, o ProgressOptions) (*IO, *Progress) {
	return s.progress(label, wait, o)
}

func (s *IO) progress(label string, wait time.Duration, o ProgressOptions) (*IO, *Progress) {
	if !s.draws() {
		return s, nil
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	p := &Progress{err: s.Err, io: s, label: Line(label), now: o.Now, begun: o.Now(), stop: make(chan struct{})}
	if wait > 0 {
		p.until = p.begun.Round(0).Add(wait) // by the clock on the wall: the machine may sleep
	}
	tick, done := o.Tick, func() {}
	if tick == nil {
		ticker := time.NewTicker(time.Second)
		tick, done = ticker.C, ticker.Stop
	}
	go func() {
		defer done()
		for {
			select {
			case <-p.stop:
				return
			case <-tick:
				p.draw()
			}
		}
	}()
	with := *s
	if !s.OutFile {
		with.Out = behind{s.Out, p.End}
	}
	with.Err = behind{s.Err, p.clear}
	return &with, p
}

// behind is a stream that calls a function before every write.
type behind struct {
	io.Writer
	first func()
}

func (b behind) Write(text []byte) (int, error) {
	b.first()
	return b.Writer.Write(text)
}

func (b behind) draw(text []byte) (int, error) {
	b.first()
	return len(text), draw(b.Writer, string(text))
}

func (p *Progress) draw() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ended {
		return
	}
	took := p.now().Sub(p.begun)
	if !p.until.IsZero() {
		took = max(p.until.Sub(p.now().Round(0))+time.Second-1, 0)
	}
	text, end := "jp: "+p.label, ": "+seconds(took)
	if !p.until.IsZero() {
		end += " left"
	}
	width, _ := p.io.size(p.io.errFile)
	if width > len(end)+1 { // the label is cut before the time
		text = Cut(text, width-1-len(end), false)
	}
	if text += end; width > 1 {
		text = Cut(text, width-1, false)
	}
	p.drawn = p.io.unasked(func() { _ = draw(p.err, "\r"+text+"\x1b[K") }) // stderr never fails
}

// seconds is Elapsed in whole seconds.
func seconds(d time.Duration) string {
	if d < 10*time.Second {
		return fmt.Sprintf("%ds", int(d.Seconds()))
	}
	return Elapsed(d)
}

func (p *Progress) clear() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.erase()
}

func (p *Progress) erase() {
	if p.drawn {
		p.io.unasked(func() { _ = draw(p.err, "\r\x1b[K") })
		p.drawn = false
	}
}

// End removes the line for good.
func (p *Progress) End() {
	if p == nil {
		return
	}
	p.mu.Lock()
	ended := p.ended
	p.ended = true
	p.erase()
	p.mu.Unlock()
	if !ended {
		close(p.stop)
	}
}

// Through returns s with w as its stdout. w leads to the same terminal: it is a pager.
func (s *IO) Through(w io.Writer) *IO {
	with := *s
	with.Out = &output{w: w, clean: forTerminal(true)}
	return &with
}

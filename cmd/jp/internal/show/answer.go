package show

import (
	"strings"
	"sync"
	"time"

	"jp/cmd/jp/internal/markdown"
	"jp/cmd/jp/internal/term"
)

// answer shows what a model says while it says it. With a draft the end of the text
// is laid out again and again until it is complete.
type answer struct {
	show  *Show
	text  text
	draft *term.Draft // nil = only what is complete is shown

	mu      sync.Mutex
	settled string    // complete and not shown yet
	drawn   time.Time // when the draft was drawn
	took    time.Duration
	later   *time.Timer // draws what has come since then; nil = nothing has
}

// text is laid out while it comes: a markdown.Stream, or a verbatim.
type text interface {
	Write(piece string) (settled string)
	Flush() (settled string)
	Open() string
}

// newAnswer returns the answer of a run. On a terminal it sets the console's streams to those to
// use from now on.
func newAnswer(s *Show) *answer {
	a := &answer{show: s, text: &verbatim{raw: !s.con.IO.OutTTY}}
	if s.con.Pretty() {
		a.text = markdown.NewStream(s.con.Style())
	}
	if s.con.Pretty() && s.con.IO.OutTTY {
		s.con.IO, a.draft = s.con.IO.Draft()
	}
	return a
}

// frame is the least time between two drawings of the draft. Drawing takes at most a tenth of the
// time.
const frame = 30 * time.Millisecond

// add shows more of the text: at once, or a frame after the last time.
func (a *answer) add(delta string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.settled += a.text.Write(delta)
	if a.draft == nil {
		a.put("")
		return
	}
	wait := max(frame, 10*a.took) - time.Since(a.drawn)
	switch {
	case wait <= 0:
		a.draw()
	case a.later == nil:
		a.later = time.AfterFunc(wait, func() {
			a.mu.Lock()
			defer a.mu.Unlock()
			if a.later != nil {
				a.draw()
			}
		})
	}
}

// end shows the rest of the text. The next add begins another one.
func (a *answer) end() {
	if a == nil {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.stop()
	a.settled += a.text.Flush()
	a.put("")
	a.drawn = time.Time{}
}

func (a *answer) stop() {
	if a.later != nil {
		a.later.Stop()
		a.later = nil
	}
}

func (a *answer) draw() {
	a.stop()
	begun := time.Now()
	a.put(a.text.Open())
	a.drawn = time.Now()
	a.took = a.drawn.Sub(begun)
}

// put shows what is settled, and open behind it.
func (a *answer) put(open string) {
	settled := a.settled
	a.settled = ""
	if a.draft == nil {
		if settled != "" {
			a.show.tree.Around(func() { a.show.put(settled) })
		}
		return
	}
	a.show.tree.Around(func() { a.show.failed(a.draft.Write(settled, open)) })
}

// verbatim is a text that is shown as it is written.
type verbatim struct {
	raw   bool // every byte of it; else it is cleaned for a terminal
	clean term.Cleaner
	inner bool // whether it is in the middle of a line
}

func (v *verbatim) Write(piece string) string {
	if v.raw {
		return v.said(piece)
	}
	return v.said(v.clean.Clean(piece))
}

func (v *verbatim) Open() string { return "" }

// Flush ends the last line.
func (v *verbatim) Flush() string {
	rest := v.said(v.clean.Flush())
	if v.inner {
		rest += "\n"
	}
	*v = verbatim{raw: v.raw}
	return rest
}

func (v *verbatim) said(text string) string {
	if text != "" {
		v.inner = !strings.HasSuffix(text, "\n")
	}
	return text
}

package term

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"sync"
	"syscall"
	"time"

	"jp/cmd/jp/internal/stream"
)

// Tree shows the sub-agents of a run on stderr. On a terminal it redraws its lines. Elsewhere, and
// where TERM is dumb, it writes one plain line for each change. Safe for concurrent use. A nil
// *Tree shows nothing.
type Tree struct {
	io     *IO
	now    func() time.Time
	status func() string
	stop   chan struct{} // closed by Close; nil while no goroutine redraws
	gone   chan struct{} // closed when that goroutine has ended
	tick   <-chan time.Time

	screen sync.Mutex // held while somebody writes to the terminal or asks there, which may take long
	region region     // its lines on the screen
	missed bool       // whether they are not there, or as they were, because it could not be drawn

	mu     sync.Mutex // of what follows; held by nobody who waits, and taken after screen
	nodes  map[string]*node
	order  []*node  // sub-agents in the order in which they came, those of one caller in that of the calls
	due    bool     // whether something has changed since the tree was drawn
	texts  []func() // write what belongs above the tree, see Above
	size   int      // of those that others write, in bytes
	news   int      // of those about sub-agents, in bytes
	left   *int     // changes that one of texts counts; nil = none is left out
	closed bool
}

const (
	// textsMax is how many bytes of text wait for the screen. Who has more waits too. Of news, as many
	// wait beside them, and how each sub-agent ended; the others are counted.
	textsMax = 1 << 20

	// drawWait is how long news of a sub-agent wait for a terminal that takes nothing (Ctrl-S).
	drawWait = time.Second
)

// node is one sub-agent in the tree.
type node struct {
	last stream.Delegation
	at   time.Time // time of last
	same int       // number of refusals of which this is the first, see merged; 0 = it is one by itself
	from string    // title of that first one
}

// TreeOptions are how a tree is drawn; the zero value is right for the sub-agents of a turn.
type TreeOptions struct {
	// Status returns a line to draw below the tree, which then shows only what has not ended; nil =
	// all is shown. It is called from any goroutine and calls no method of the tree.
	Status func() string

	Now  func() time.Time // for tests; nil = time.Now
	Tick <-chan time.Time // for tests: when to draw again without a change; nil = every 250 ms
}

// NewTree returns a tree on s.Err. Nothing is drawn and no goroutine runs before the first Update.
func NewTree(s *IO, o TreeOptions) *Tree {
	if o.Now == nil {
		o.Now = time.Now
	}
	return &Tree{io: s, now: o.Now, status: o.Status, tick: o.Tick, nodes: map[string]*node{}}
}

// Update shows a change in a sub-agent. It does not wait while somebody else has the screen, as for a
// question: who tells of sub-agents keeps them working.
func (t *Tree) Update(d *stream.Delegation) {
	if t == nil || d == nil {
		return
	}
	if t.note(d) {
		t.catchUp()
	}
}

// note takes a change in, and reports whether there is something to show.
func (t *Tree) note(d *stream.Delegation) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return false
	}
	key := d.ConversationID + "\x00" + d.CallID
	n := t.nodes[key]
	if n == nil {
		n = &node{}
		t.nodes[key] = n
		t.order = slices.Insert(t.order, t.place(d), n)
	}
	before := n.last
	n.last, n.at = *d, t.now()
	// One by one: a control sequence without an end would take along what stands behind it.
	for _, part := range []*string{
		&n.last.Phase, &n.last.ConversationID, &n.last.Profile, &n.last.Title, &n.last.Host, &n.last.Tool, &n.last.Status, &n.last.Reason,
	} {
		*part = Line(*part)
	}
	if (t.status != nil || !t.io.draws()) && d.Phase == stream.Ended { // it is not drawn any more
		delete(t.nodes, key)
		t.order = slices.DeleteFunc(t.order, func(x *node) bool { return x == n })
	}
	if t.io.draws() {
		if t.stop == nil {
			t.start()
		}
		t.due = true
		return true
	}
	if before.Phase == d.Phase && (before.Tool == n.last.Tool || n.last.Tool == "") {
		return false
	}
	t.tell(fmt.Sprintf("jp: %s\n", n.plain()), d.Phase == stream.Ended && !n.denied())
	return true
}

// tell keeps a line about a sub-agent until the screen is free, or counts it where there is no room
// and it is not the last one; t.mu is held.
func (t *Tree) tell(line string, last bool) {
	write := func() { _, _ = io.WriteString(t.io.Err, line) } // stderr never fails
	switch {
	case last || t.left == nil && t.news+len(line) <= textsMax:
		t.news += len(line)
	case t.left != nil:
		*t.left++
		return
	default:
		left := 1
		t.left = &left
		write = func() {
			fmt.Fprintf(t.io.Err, "jp: changes of sub-agents that are not shown here: %s\n", Count(int64(left)))
		}
	}
	t.texts = append(t.texts, write)
}

// catchUp shows what has changed. While somebody else has the screen, that one does it afterwards.
func (t *Tree) catchUp() {
	done := make(chan struct{})
	go func() {
		defer close(done)
		for t.behind() && t.screen.TryLock() {
			t.show()
			t.screen.Unlock()
		}
	}()
	select {
	case <-done:
	case <-time.After(drawWait):
	}
}

func (t *Tree) behind() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.due || len(t.texts) > 0
}

// show shows what has changed; t.screen is held.
func (t *Tree) show() {
	t.mu.Lock()
	texts := t.texts
	t.texts, t.size, t.news, t.left = nil, 0, 0, nil
	t.mu.Unlock()
	for _, write := range texts {
		t.aside(write)
	}
	t.mu.Lock()
	due := t.due
	t.due = false
	t.mu.Unlock()
	if due {
		t.draw(true)
		t.settle(true)
	}
}

// settle leaves the lines on the screen where all has ended and they say so. Text may follow them,
// and the next sub-agent begins a new tree. With wait it leaves them not while early. t.screen is
// held.
func (t *Tree) settle(wait bool) {
	t.mu.Lock()
	ended := t.status == nil && !t.due && t.idle() && !(wait && t.early())
	var lines []drawn
	if ended {
		lines = t.atLast()
		t.nodes, t.order = map[string]*node{}, nil
	}
	t.mu.Unlock()
	if ended {
		t.leave(lines)
	}
}

// atLast returns the lines that are not on the screen and no draw brings there; t.screen and t.mu
// are held.
func (t *Tree) atLast() []drawn {
	if !t.missed {
		return nil
	}
	return t.lines(t.io.size(t.io.errFile))
}

// leave leaves the tree on the screen, with what is missing of it; t.screen is held.
func (t *Tree) leave(missing []drawn) {
	t.region, t.missed = region{}, false
	if len(missing) > 0 {
		width, _ := t.io.size(t.io.errFile)
		_ = draw(t.io.Err, written(missing, width, true)) // stderr never fails
	}
}

// early reports whether there are only refusals so far. These come at once, also before calls of the
// same reply that stand above them.
func (t *Tree) early() bool {
	const most = 16
	return len(t.order) < most && !slices.ContainsFunc(t.order, func(n *node) bool { return !n.denied() })
}

// place returns the index of a new sub-agent in the order: before those of the same caller that
// were called later.
func (t *Tree) place(d *stream.Delegation) int {
	at := slices.IndexFunc(t.order, func(n *node) bool {
		return d.Place > 0 && n.last.ParentID == d.ParentID && n.last.Place > d.Place
	})
	if at < 0 {
		return len(t.order)
	}
	return at
}

// idle reports whether every sub-agent has ended.
func (t *Tree) idle() bool {
	return !slices.ContainsFunc(t.order, func(n *node) bool { return n.last.Phase != stream.Ended })
}

// Around removes the tree from the screen, runs f and draws the tree again. Everything else that
// writes to the terminal runs inside it.
func (t *Tree) Around(f func()) {
	if t == nil {
		f()
		return
	}
	defer t.catchUp()
	t.screen.Lock()
	defer t.screen.Unlock()
	t.show()
	t.aside(f)
}

// aside is Around where t.screen is held.
func (t *Tree) aside(f func()) {
	t.settle(false)
	if len(t.region.lines) > 0 {
		t.draw(false)
		defer func() { t.draw(true) }()
	}
	f()
}

// Above returns s in the form to use while the tree is drawn: what is written to stderr appears
// above it. While somebody else has the screen it waits, and who has written it goes on. A nil *Tree
// changes nothing.
func (t *Tree) Above(s *IO) *IO {
	with := *s
	with.Err = above{s.Err, t}
	return &with
}

// above is a stream that writes while its tree is not on the screen.
type above struct {
	io.Writer
	tree *Tree
}

func (a above) Write(text []byte) (int, error) {
	own := bytes.Clone(text) // text belongs to the caller again when we return
	a.put(len(own), func() { _, _ = a.Writer.Write(own) })
	return len(text), nil // stderr never fails
}

func (a above) draw(text []byte) (int, error) {
	own := string(text)
	a.put(len(own), func() { _ = draw(a.Writer, own) })
	return len(text), nil
}

func (a above) put(size int, write func()) {
	if !a.tree.later(size, write) {
		a.tree.Around(write)
		return
	}
	a.tree.catchUp()
}

// later keeps a text until the screen is free. It reports whether there is room for it, and a tree.
func (t *Tree) later(size int, write func()) bool {
	if t == nil {
		return false
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed || t.size+size > textsMax {
		return false
	}
	t.texts, t.size = append(t.texts, write), t.size+size
	return true
}

// Close leaves the last state of every sub-agent on the screen. Later updates show nothing.
func (t *Tree) Close() {
	if t == nil {
		return
	}
	t.mu.Lock()
	closed, stop := t.closed, t.stop
	t.closed = true
	t.mu.Unlock()
	if closed {
		return
	}
	t.screen.Lock()
	t.show()
	if t.io.draws() && (len(t.order) > 0 || t.status != nil && stop != nil) {
		t.draw(true)
		t.mu.Lock()
		lines := t.atLast()
		t.mu.Unlock()
		t.leave(lines) // what comes is written below them
	}
	t.screen.Unlock()
	if stop != nil {
		close(stop)
		<-t.gone
	}
}

// start runs the goroutine that draws the elapsed times; t.mu is held.
func (t *Tree) start() {
	t.stop, t.gone = make(chan struct{}), make(chan struct{})
	tick := t.tick
	done := func() {}
	if tick == nil {
		ticker := time.NewTicker(250 * time.Millisecond)
		tick, done = ticker.C, ticker.Stop
	}
	back := make(chan os.Signal, 1)
	signal.Notify(back, syscall.SIGCONT)
	go func() {
		defer close(t.gone)
		defer done()
		defer signal.Stop(back)
		for last := time.Now(); ; last = time.Now() {
			select {
			case <-t.stop:
				return
			case <-back:
				t.abandon()
			case <-tick:
				if time.Since(last) > time.Second { // perhaps we were stopped, and the signal is about to come
					select {
					case <-back:
						t.abandon()
					case <-time.After(20 * time.Millisecond):
					}
				}
				if !t.screen.TryLock() {
					continue
				}
				if len(t.region.lines) > 0 || t.missed {
					t.draw(true)
				}
				t.screen.Unlock()
				t.catchUp()
			}
		}
	}()
}

// abandon leaves the lines on the screen as they are, because others may have written below them
// while we were stopped. The next ones stand below that.
func (t *Tree) abandon() {
	if !t.screen.TryLock() {
		return // who has the screen has taken them away
	}
	defer t.screen.Unlock()
	t.missed = t.missed || len(t.region.lines) > 0
	t.region = region{}
}

// draw replaces what is on the screen by the tree as it is now, or by nothing, in one write. While
// another process asks, or we are in the background, the lines stay as they are, and the next ones
// stand below the question. t.screen is held.
func (t *Tree) draw(show bool) {
	if !t.io.unasked(func() { t.redraw(show) }) {
		t.region = region{}
		t.missed = t.missed || show
	} else if show {
		t.missed = false
	}
}

func (t *Tree) redraw(show bool) {
	width, height := t.io.size(t.io.errFile)
	var lines []drawn
	if show {
		t.mu.Lock()
		lines = t.lines(width, height)
		t.mu.Unlock()
	}
	if text := t.region.replace(nil, lines, width, height); text != "" {
		_ = draw(t.io.Err, text) // stderr never fails
	}
}

package term

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"jp/cmd/jp/internal/stream"
	"jp/cmd/jp/internal/wording"
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
	size   int      // of texts, in bytes
	closed bool
}

const (
	// textsMax is how many bytes of text wait for the screen. Who has more waits too.
	textsMax = 1 << 20

	// drawWait is how long news of a sub-agent wait for a terminal that takes nothing (Ctrl-S).
	drawWait = time.Second
)

// node is one sub-agent in the tree.
type node struct {
	last stream.Delegation
	at   time.Time // time of last
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
	text := fmt.Sprintf("jp: %s\n", n.plain())
	t.texts = append(t.texts, func() { _, _ = io.WriteString(t.io.Err, text) }) // stderr never fails
	return true
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
	t.texts, t.size = nil, 0
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
		_ = draw(t.io.Err, written(missing, width)) // stderr never fails
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
	go func() {
		defer close(t.gone)
		defer done()
		for {
			select {
			case <-t.stop:
				return
			case <-tick:
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

// lines draws the tree: at most the height of the screen, each line shorter than its width.
func (t *Tree) lines(width, height int) []drawn {
	nodes := t.order
	limit := max(height-2, 3)
	if t.status != nil {
		limit = max(limit-1, 2)
	}
	if height > 0 && len(nodes) > limit {
		nodes = t.busiest(limit - 1)
	}
	children := map[string][]*node{}
	shown := map[string]bool{}
	for _, n := range nodes {
		shown[n.last.ConversationID] = true
	}
	for _, n := range nodes {
		parent := n.last.ParentID
		if !shown[parent] || parent == n.last.ConversationID {
			parent = ""
		}
		children[parent] = append(children[parent], n)
	}
	var out []drawn
	seen := map[*node]bool{}
	var walk func(parent, indent string)
	walk = func(parent, indent string) {
		kids := children[parent]
		for i, n := range kids {
			if seen[n] {
				continue
			}
			seen[n] = true
			branch, deeper := Branch(i == len(kids)-1, t.io.UTF8)
			text := indent + branch
			if width > 0 {
				text = Cut(text+t.text(n, max(width-1-Width(text), 1)), width-1, t.io.UTF8)
			} else {
				text += t.text(n, 0)
			}
			out = append(out, drawn{t.paint(n, text), Width(text)})
			if id := n.last.ConversationID; id != "" {
				walk(id, indent+deeper)
			}
		}
	}
	walk("", "")
	if text := t.rest(nodes); text != "" {
		if width > 0 {
			text = Cut(text, width-1, t.io.UTF8)
		}
		out = append(out, drawn{text, Width(text)})
	}
	if t.status != nil {
		text := Line(t.status())
		if width > 0 {
			text = Cut(text, width-1, t.io.UTF8)
		}
		out = append(out, drawn{text, Width(text)})
	}
	return out
}

// rest returns a line that counts the sub-agents that are not shown, by what they do.
func (t *Tree) rest(shown []*node) string {
	counts := map[string]int{}
	var names []string
	for _, n := range t.order {
		if slices.Contains(shown, n) {
			continue
		}
		name := n.last.Phase
		switch name {
		case stream.Ended:
			name = orDash(n.last.Status)
		case stream.Started:
			name = stream.Running
		}
		if counts[name] == 0 {
			names = append(names, name)
		}
		counts[name]++
	}
	if len(names) == 0 {
		return ""
	}
	parts := make([]string, len(names))
	for i, name := range names {
		parts[i] = fmt.Sprintf("%d %s", counts[name], name)
	}
	return Line(fmt.Sprintf("(+%d more: %s)", len(t.order)-len(shown), strings.Join(parts, ", ")))
}

// busiest returns at most n nodes in their order. It prefers those that run, then those that
// failed, those that wait, and the latest of those that ended well. Each comes with the sub-agents
// above it, as far as there is room for all of them.
func (t *Tree) busiest(n int) []*node {
	ranked := slices.Clone(t.order)
	slices.Reverse(ranked)
	slices.SortStableFunc(ranked, func(a, b *node) int { return rank(a) - rank(b) })
	above := map[string]*node{}
	for _, x := range t.order {
		above[x.last.ConversationID] = x
	}
	keep := map[*node]bool{}
	for _, x := range ranked {
		way := map[*node]bool{}
		for at := x; at != nil && !keep[at] && !way[at]; at = above[at.last.ParentID] {
			way[at] = true
		}
		if len(keep)+len(way) <= n {
			maps.Copy(keep, way)
		}
	}
	var out []*node
	for _, x := range t.order {
		if keep[x] {
			out = append(out, x)
		}
	}
	return out
}

func rank(n *node) int {
	switch d := n.last; {
	case d.Phase == stream.Queued:
		return 2
	case d.Phase != stream.Ended:
		return 0
	case d.Status != "ok":
		return 1
	}
	return 3
}

// Branch returns the drawing in front of a child, and the indent of what is below it.
func Branch(last, utf8 bool) (branch, deeper string) {
	switch {
	case last && utf8:
		return "└─ ", "   "
	case utf8:
		return "├─ ", "│  "
	case last:
		return "`- ", "   "
	}
	return "|- ", "|  "
}

// text returns a node's line on a terminal: profile, state, current tool, tokens, elapsed, title.
// The title is what differs from row to row. So it gets a third of the columns (0 = unlimited), and
// the others are cut.
func (t *Tree) text(n *node, room int) string {
	d := n.last
	tokens := ""
	if d.Tokens > 0 {
		tokens = Count(d.Tokens) + " tokens"
	}
	head := func(profile, state, tokens, elapsed string) string {
		parts := []string{mark(d, t.io.UTF8) + " " + profile}
		for _, part := range []string{state, tokens, elapsed} {
			if part != "" {
				parts = append(parts, part)
			}
		}
		return strings.Join(parts, "  ")
	}
	profile, state, elapsed := cmp.Or(d.Profile, unnamed), n.state(), n.elapsed(t.now())
	short := profile[strings.LastIndex(profile, "/")+1:]
	word, _, _ := strings.Cut(state, ":")
	word, _, _ = strings.Cut(word, " ")
	where := profile + d.On()
	text := head(where, state, tokens, elapsed)
	if d.Title == "" {
		return text
	}
	least := min(Width(d.Title), room/3) + 2
	brief := head(short, word, "", "")
	reason := brief
	if strings.Contains(state, ":") { // the beginning of a reason says more than none
		reason = Cut(head(short, state, "", ""), max(room-least, Width(brief)+leastReason), t.io.UTF8)
	}
	for _, shorter := range []string{
		head(where, state, "", elapsed), head(where, state, "", ""), head(profile, state, "", ""), head(short, state, "", ""), reason, brief, head(short, "", "", ""),
	} {
		if room <= 0 || Width(text)+least <= room {
			break
		}
		text = shorter
	}
	if room > 0 {
		text = Cut(text, max(room-least, 1), t.io.UTF8)
	}
	return text + "  " + d.Title
}

// leastReason is how many columns of a reason are worth their place, with the colon before them.
const leastReason = 12

// unnamed stands for the profile of a call that names none.
const unnamed = "a delegation"

// plain returns a node's line for a log.
func (n *node) plain() string {
	d := n.last
	if n.denied() {
		return fmt.Sprintf("%s: %s", cmp.Or(d.Profile, unnamed), n.state())
	}
	text := fmt.Sprintf("%s %s%s: %s", cmp.Or(d.Profile, unnamed), orDash(d.ConversationID), d.On(), n.state())
	if d.Phase == stream.Ended {
		text += fmt.Sprintf(", %s tokens, %s", Count(d.Tokens), Elapsed(time.Duration(d.ElapsedMS)*time.Millisecond))
	}
	return text
}

// denied reports whether the sub-agent never began: it has no conversation, used nothing and took
// no time.
func (n *node) denied() bool { return n.last.ConversationID == "" && n.last.Phase == stream.Ended }

func (n *node) state() string {
	d := n.last
	switch {
	case d.Phase == stream.Ended && d.Reason != "":
		return d.Status + ": " + d.Reason
	case d.Phase == stream.Ended:
		return orDash(d.Status)
	case d.Phase == stream.Waiting:
		return stream.Waiting + ": " + orDash(d.Reason)
	case d.Tool != "":
		return stream.Running + " " + d.Tool
	}
	return orDash(d.Phase)
}

func (n *node) elapsed(now time.Time) string {
	if n.denied() {
		return ""
	}
	e := time.Duration(n.last.ElapsedMS) * time.Millisecond
	if p := n.last.Phase; p == stream.Running || p == stream.Started || p == stream.Waiting {
		e += max(0, now.Sub(n.at))
	}
	return Elapsed(e)
}

// mark returns the state as one character.
func mark(d stream.Delegation, utf8 bool) string {
	switch {
	case d.Phase == stream.Ended && d.Status == "ok":
		return wording.Either(utf8, "✓", "+")
	case d.Phase == stream.Ended:
		return wording.Either(utf8, "✗", "x")
	case d.Phase == stream.Queued:
		return wording.Either(utf8, "○", ".")
	}
	return wording.Either(utf8, "●", "*")
}

func (t *Tree) paint(n *node, text string) string {
	if !t.io.ErrColor {
		return text
	}
	color := "36"
	switch d := n.last; {
	case d.Phase == stream.Ended && d.Status == "ok":
		color = "32"
	case d.Phase == stream.Ended && d.Status == "partial":
		color = "33"
	case d.Phase == stream.Ended:
		color = "31"
	case d.Phase == stream.Queued:
		color = "2"
	}
	return "\x1b[" + color + "m" + text + "\x1b[0m"
}

// Count writes a number with a separator between thousands.
func Count(n int64) string {
	s := fmt.Sprint(n)
	for i := len(s) - 3; i > 0 && s[i-1] != '-'; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// Elapsed writes a duration as people read it: 0.4s, 12s, 3m05s, 2h07m.
func Elapsed(d time.Duration) string {
	switch {
	case d < 10*time.Second:
		return fmt.Sprintf("%.1fs", d.Truncate(100*time.Millisecond).Seconds())
	case d < time.Minute:
		return fmt.Sprintf("%ds", int(d.Seconds()))
	case d < time.Hour:
		return fmt.Sprintf("%dm%02ds", int(d.Minutes()), int(d.Seconds())%60)
	}
	return fmt.Sprintf("%dh%02dm", int(d.Hours()), int(d.Minutes())%60)
}

func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

package worker

import (
	"bytes"
	"io"
	"strconv"
	"strings"
	"sync"

	"jp/tools/brief"
	"jp/tools/unseen"
)

// outlet sends one stream of a channel, as the other side takes it. Write waits for that.
type outlet struct {
	lines   *lines
	stream  verb
	channel uint64

	mu     sync.Mutex
	ready  *sync.Cond
	credit int
	closed bool
}

func newOutlet(l *lines, stream verb, channel uint64) *outlet {
	o := &outlet{lines: l, stream: stream, channel: channel, credit: windows[stream]}
	o.ready = sync.NewCond(&o.mu)
	return o
}

// Write sends p in lines of at most maxChunk bytes.
func (o *outlet) Write(p []byte) (sent int, err error) {
	var list []message
	for sent < len(p) {
		n := o.take(min(len(p)-sent, maxChunk))
		if n == 0 {
			return sent, errCut
		}
		list = list[:0]
		for part := range bytes.Lines(p[sent : sent+n]) {
			text, whole := bytes.CutSuffix(part, []byte("\n"))
			list = append(list, message{verb: o.stream, channel: o.channel, more: !whole, text: text})
		}
		if err := o.lines.write(list...); err != nil {
			return sent, err
		}
		sent += n
	}
	return sent, nil
}

// take waits for credit and takes at most that much of it; 0 = the stream is over.
func (o *outlet) take(most int) int {
	o.mu.Lock()
	defer o.mu.Unlock()
	for o.credit == 0 && !o.closed {
		o.ready.Wait()
	}
	if o.closed {
		return 0
	}
	n := min(most, o.credit)
	o.credit -= n
	return n
}

// allow adds credit, and reports whether so much can have been taken.
func (o *outlet) allow(n int) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.credit += n
	o.ready.Broadcast()
	return o.credit <= windows[o.stream]
}

// close ends all writes.
func (o *outlet) close() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.closed = true
	o.ready.Broadcast()
}

// inlet is one stream of a channel that comes. What was not read yet is held, and is never more
// than the window.
type inlet struct {
	lines   *lines
	stream  verb
	channel uint64

	mu    sync.Mutex
	ready *sync.Cond
	held  []byte
	room  int // bytes that the other side may still send
	taken int // bytes that were read, and that it does not know of
	ended bool
	cut   bool
}

func newInlet(l *lines, stream verb, channel uint64) *inlet {
	i := &inlet{lines: l, stream: stream, channel: channel, room: windows[stream]}
	i.ready = sync.NewCond(&i.mu)
	return i
}

// put adds what has come. It never waits, and reports whether the other side could send so much.
func (i *inlet) put(p []byte) bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	if len(p) > i.room || i.ended {
		return false
	}
	i.room -= len(p)
	if !i.cut {
		i.held = append(i.held, p...)
	}
	i.ready.Broadcast()
	return true
}

// end ends the stream after what is held.
func (i *inlet) end() {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.ended = true
	i.ready.Broadcast()
}

// close ends all reads now.
func (i *inlet) close() {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.cut, i.held = true, nil
	i.ready.Broadcast()
}

// Read waits for a part of the stream.
func (i *inlet) Read(p []byte) (n int, err error) {
	i.mu.Lock()
	for len(i.held) == 0 && !i.ended && !i.cut {
		i.ready.Wait()
	}
	if len(i.held) == 0 {
		i.mu.Unlock()
		return 0, io.EOF
	}
	n = copy(p, i.held)
	if i.held = i.held[n:]; len(i.held) == 0 {
		i.held = nil
	}
	i.taken += n
	give := 0
	if i.taken >= windows[i.stream]/2 && !i.ended {
		give, i.taken = i.taken, 0
		i.room += give
	}
	i.mu.Unlock()
	if give > 0 {
		// Not under the lock: who reads the connection must never wait for who writes to it.
		_ = i.lines.write(message{verb: verbCredit, channel: i.channel, text: creditText(i.stream, give)})
	}
	return n, nil
}

func creditText(stream verb, n int) []byte {
	return strconv.AppendInt(append([]byte(stream), ' '), int64(n), 10)
}

// readCredit is the opposite of creditText.
func readCredit(text []byte) (stream verb, n int, ok bool) {
	name, size, _ := bytes.Cut(text, []byte(" "))
	bytes, ok := number(size)
	stream = verb(name)
	return stream, int(min(bytes, 1<<30)), ok && bytes > 0 && windows[stream] > 0
}

// quoted returns the beginning of text that nobody has checked, for a message.
func quoted(text []byte) string { return unseen.Quote(brief.Shorten(string(text), 80)) }

// plain returns text of the other side as one line in which every character shows.
func plain(text string, most int) string {
	return unseen.Spell(brief.Prefix(strings.Join(strings.Fields(brief.UTF8(text)), " "), most))
}

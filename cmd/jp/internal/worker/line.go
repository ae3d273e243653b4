package worker

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"jp/cmd/jp/internal/trust"
	"jp/cmd/jp/internal/wire"
	"jp/tools/proc"
)

// Protocol is the version of the lines. Both sides must have the same.
const Protocol = 2

// Bounds.
const (
	maxLine    = 256 << 10     // bytes of a line with a number
	maxStart   = wire.MaxFrame // bytes of the first line of the owner
	maxNoise   = 64 << 10      // bytes of other text before the first line of a node
	maxChunk   = 32 << 10      // bytes of a stream in one line
	maxOpening = maxLine - 64  // bytes of an opening: its line has two numbers and a verb besides
	maxArg     = 128 << 10     // bytes of an argument that no node can execute
	maxText    = 4 << 10       // bytes of a text for people
)

// LineError says that the other side broke the protocol.
type LineError struct{ Reason string }

func (e *LineError) Error() string { return e.Reason }

func broken(format string, args ...any) error { return &LineError{fmt.Sprintf(format, args...)} }

// start is the first line of the owner, after the word "start".
type start struct {
	Protocol  int           `json:"protocol"`
	Wire      int           `json:"wire"` // protocol of the sub-agents
	Nonce     string        `json:"nonce"`
	Lease     time.Duration `json:"lease"`
	Workspace trust.Sent    `json:"workspace"`
}

// hello is the first line of a node, after the word helloWord.
type hello struct {
	Protocol int      `json:"protocol"`
	Wire     int      `json:"wire"`
	Nonce    string   `json:"nonce"` // nonce of the start
	Build    string   `json:"build"`
	Host     string   `json:"host"`
	Refused  string   `json:"refused,omitempty"` // why nothing can run here; "" = it can
	Lacks    []string `json:"lacks,omitempty"`   // what the sandbox cannot enforce here
}

// The words of the first lines. A launcher may say much before the line of the node, so that one is
// a word which nothing else says.
const (
	startWord = "start "
	helloWord = "jp-worker "
)

// opening is what a channel begins with.
type opening struct {
	Args    []string `json:"args"`
	Environ []string `json:"environ,omitempty"`
}

// started says that the process of a channel runs.
type started struct {
	PID int `json:"pid"`
}

// exited is how the process of a channel ended.
type exited struct {
	Code     int           `json:"code"`
	Signal   int           `json:"signal,omitempty"`
	MaxRSS   int64         `json:"max_rss,omitempty"`
	Duration time.Duration `json:"duration"`
	Stopped  string        `json:"stopped,omitempty"` // why the node has stopped it; "" = it did not
	Error    string        `json:"error,omitempty"`   // why it could not be run, or what is left of it
}

// verb is what a numbered line says.
type verb string

const (
	verbGo      verb = "go"      // the node may run something
	verbOpen    verb = "open"    // begin the process of a new channel: opening
	verbStop    verb = "stop"    // interrupt it
	verbEnd     verb = "end"     // a stream to it has ended: its name
	verbHeard   verb = "heard"   // answer to an alive: its number
	verbStarted verb = "started" // it runs: started
	verbExit    verb = "exit"    // it has ended, and everything of it was said: exited
	verbAlive   verb = "alive"   // a number
	verbCredit  verb = "credit"  // so much of a stream was taken: its name, bytes
	verbBye     verb = "bye"     // of an owner: nothing follows; of a node: it begins no channel after this one: why
)

// The streams of a channel. The name of one is the verb of its lines.
const (
	streamIn   verb = "in"   // stdin
	streamWire verb = "wire" // wire, both ways
	streamOut  verb = "out"  // stdout
	streamErr  verb = "err"  // stderr
)

// windows are how many bytes of each stream may be on their way.
var windows = map[verb]int{streamIn: 64 << 10, streamWire: 256 << 10, streamOut: 64 << 10, streamErr: 64 << 10}

// message is a numbered line:
//
//	NUMBER VERB[+] CHANNEL [TEXT]
//
// The plus is that of a stream whose line goes on in the next message.
type message struct {
	verb    verb
	channel uint64 // 0 = that of the connection
	more    bool
	text    []byte
}

// says returns a message with v as JSON. v can always be encoded.
func says(verb verb, channel uint64, v any) message {
	text, err := json.Marshal(v)
	if err != nil {
		panic("worker: " + err.Error())
	}
	return message{verb: verb, channel: channel, text: text}
}

// bytes returns the part of a stream that the message is.
func (m message) bytes() []byte {
	if m.more {
		return m.text
	}
	return append(m.text, '\n') // its text has room for it; see parse
}

// lines are the lines of a connection. One goroutine reads, any may write.
type lines struct {
	in   *bufio.Reader
	read uint64 // number of the latest line that was read

	lease *proc.Lease // of a node: when it is over, only bye is written; nil = there is none

	mu   sync.Mutex // held while lines are written
	out  io.Writer
	sent uint64 // number of the latest line that was written
	buf  []byte
	err  error // why nothing can be written any more; nil = it can

	writes atomic.Int64 // when the write began that is under way, by proc.SinceBoot; 0 = none is
}

func newLines(in io.Reader, out io.Writer) *lines {
	return &lines{in: bufio.NewReaderSize(in, 64<<10), out: out}
}

// endWith has nothing but bye be written when a lease is over.
func (l *lines) endWith(lease *proc.Lease) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lease = lease
}

// write writes messages, all in one write.
func (l *lines) write(list ...message) error { return l.writeAnd(nil, list...) }

// writeAnd is write. It calls before, if it is not nil, when everything that was written earlier is
// out and before the messages are.
func (l *lines) writeAnd(before func(), list ...message) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err != nil {
		return l.err
	}
	if l.lease != nil && l.lease.Over() && list[0].verb != verbBye {
		return errCut
	}
	if before != nil {
		before()
	}
	b := l.buf[:0]
	for _, m := range list {
		l.sent++
		b = strconv.AppendUint(b, l.sent, 10)
		b = append(append(b, ' '), m.verb...)
		if m.more {
			b = append(b, '+')
		}
		b = append(strconv.AppendUint(append(b, ' '), m.channel, 10), ' ')
		b = append(append(b, m.text...), '\n')
	}
	l.buf = b
	l.writes.Store(int64(proc.SinceBoot()))
	_, l.err = l.out.Write(b)
	l.writes.Store(0)
	return l.err
}

// stuck returns for how long the other side has not read what is being written to it.
func (l *lines) stuck() time.Duration {
	if began := l.writes.Load(); began != 0 {
		return proc.SinceBoot() - time.Duration(began)
	}
	return 0
}

// writeFirst writes the first line of a side.
func (l *lines) writeFirst(word string, v any) error {
	text, err := json.Marshal(v)
	if err != nil {
		return err
	}
	if len(text) >= maxStart {
		return fmt.Errorf("a first line of %d MiB, more than %d MiB", len(text)>>20, maxStart>>20)
	}
	line := word + string(text) + "\n"
	if word == helloWord { // what was said before it may have no end of line
		line = "\n" + line
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.sent > 0 {
		return errCut // it has said bye already
	}
	_, err = io.WriteString(l.out, line)
	return err
}

// line reads a line of at most most bytes, without its end. At the end of the input, also in the
// middle of a line, the error is io.EOF.
func (l *lines) line(most int) ([]byte, error) {
	var line []byte
	for {
		part, err := l.in.ReadSlice('\n')
		if len(line)+len(part) > most {
			return append(line, part...), broken("a line of more than %d bytes", most)
		}
		line = append(line, part...)
		switch {
		case err == nil:
			return line[:len(line)-1], nil
		case err != bufio.ErrBufferFull:
			return line, io.EOF
		}
	}
}

// readStart reads the first line of the owner.
func (l *lines) readStart() (s start, err error) {
	line, err := l.line(maxStart)
	if err != nil {
		return s, err
	}
	text, ok := bytes.CutPrefix(line, []byte(startWord))
	if !ok || json.Unmarshal(text, &s) != nil {
		return s, broken("the first line is not that of a jp which starts sub-agents")
	}
	return s, nil
}

// readHello reads the first line of a node. said is called with other text before it.
func (l *lines) readHello(said func([]byte)) (h hello, err error) {
	for room := maxNoise; ; {
		line, err := l.line(maxNoise)
		if text, ok := bytes.CutPrefix(line, []byte(helloWord)); ok && err == nil {
			if json.Unmarshal(text, &h) != nil {
				return h, broken("a first line that cannot be read")
			}
			return h, nil
		}
		if bytes.HasPrefix(line, []byte(startWord+"{")) {
			return h, broken("what is said to it comes back, as from a terminal")
		}
		said(append(line, '\n'))
		if err != nil {
			return h, err
		}
		if room -= len(line) + 1; room <= 0 {
			return h, broken("more than %d KiB of other text and no worker", maxNoise>>10)
		}
	}
}

// next reads the next message. The error is a *LineError or, at the end, io.EOF. A message that
// came again is left out.
func (l *lines) next() (message, error) {
	for {
		line, err := l.line(maxLine)
		if err != nil {
			return message{}, err
		}
		if len(line) == 0 {
			continue // before the line of another worker, which breaks the protocol
		}
		if bytes.HasPrefix(line, []byte(helloWord)) {
			return message{}, broken("a second worker has answered")
		}
		n, m, err := parse(line)
		switch {
		case err != nil:
			return m, err
		case n <= l.read:
			continue
		case n != l.read+1:
			return m, broken("line %d after line %d", n, l.read)
		}
		l.read = n
		return m, nil
	}
}

// parse reads a numbered line, which it keeps.
func parse(line []byte) (n uint64, m message, err error) {
	fields := bytes.SplitN(line, []byte(" "), 4)
	if len(fields) < 3 {
		return 0, m, notALine(line)
	}
	n, ok := number(fields[0])
	m.channel, err = 0, nil
	word, more := strings.CutSuffix(string(fields[1]), "+")
	m.verb, m.more = verb(word), more
	channel, isChannel := number(fields[2])
	if !ok || n == 0 || !isChannel {
		return 0, m, notALine(line)
	}
	m.channel = channel
	if len(fields) == 4 {
		m.text = fields[3]
	}
	stream := windows[m.verb] > 0
	switch {
	case more && !stream, stream && channel == 0:
		return 0, m, notALine(line)
	case stream && len(m.text) > maxChunk:
		return 0, m, broken("%d bytes of a stream in one line", len(m.text))
	}
	return n, m, nil
}

// number reads a decimal number as this package writes it.
func number(text []byte) (uint64, bool) {
	n, err := strconv.ParseUint(string(text), 10, 63)
	return n, err == nil && strconv.FormatUint(n, 10) == string(text)
}

func notALine(line []byte) error {
	return broken("%s: not a line of a worker", quoted(line))
}

var errCut = errors.New("the connection is over")

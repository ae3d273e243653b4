// Package wire is how a sub-agent reaches what it has no access to: the store, its model, its MCP
// servers, skills, its sub-agents, and the conversations below it. The process that started it, its owner,
// has all that and keeps it, keys included.
//
//	owner (Serve)                                  sub-agent (Join)
//	   start: conversation, config, limits, served tools ─────────►
//	                                     ◄────────── append: the events of one step
//	   answer, when they are durable     ────────►
//	                                     ◄────────── begin: events, and the most that a call of the model may use
//	                                     ◄────────── ask: one attempt of that call
//	   parts: what the model has said    ────────►
//	   answer: how the reply has ended   ────────►
//	                                     ◄────────── admit, call, release: delegation and conversation tools
//	   step: what a delegation has come to ──────►
//	   answer: the result                ────────►
//	                                     ◄────────── serve: a call of a tool of an MCP server, or of skill
//	   answer: the result                ────────►
//	                                     ◄────────── command: that of a jp inside a tool
//	   want: its stdin is read           ────────►
//	                                     ◄────────── gate: may a request be sent, was one limited
//	   held: not yet                     ────────►
//	                                     ◄────────── input, cancel, taken
//
// A frame is one line of JSON, at most MaxFrame bytes long. Requests are numbered from 1, each one
// higher than the one before, and each is answered once. Steps, wants, parts, helds, inputs, takens
// and cancels name a request by its number and are not answered. What changes the log is carried
// out in the order in which it came; everything else runs at the same time. An event whose id is
// there already changes nothing.
//
// The owner trusts nothing that a sub-agent says: a frame cannot name another conversation, a call
// must be one that the model made, of a tool that the owner itself has found the conversation to
// hold, a served tool is called once for each call, with its stored arguments, the model is asked
// once for each begin, and what is stored must be a turn that a run could take; see turn. A frame
// that breaks these rules ends the connection, and the run is an error.
package wire

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"sync"
	"time"

	"jp/cmd/jp/internal/call"
	"jp/cmd/jp/internal/model"
	"jp/convstore"
	"jp/tools"
	"jp/tools/fs"
	"jp/tools/jsondoc"
)

// Protocol is the version of the frames. Both sides must have the same.
const Protocol = 7

// Bounds.
const (
	MaxFrame  = 64 << 20                      // bytes of one frame
	MaxReply  = 8 << 20                       // bytes of one reply of a model: a line of package stream has room for twice as many
	maxValues = model.MaxValues + 1<<16       // values in one frame, about: each takes a hundred times the memory of its bytes
	maxThread = 4 * maxValues                 // values in the reasoning of one thread, which its provider may decode
	maxOpen   = model.MaxCalls + 2*call.Lines // requests that are not answered yet: calls of one reply, commands, and some beside them
	maxCalls  = model.MaxCalls                // calls of one admit
	maxHeld   = 2 * MaxFrame                  // bytes of the requests that are not answered yet, and of calls until they are released
	maxAtOnce = 4*MaxReply + 4<<20            // bytes of one frame whose events are stored: the store takes ten times as much meanwhile
	maxSaid   = 256 << 20                     // bytes of the frames whose events are stored, in one run
	eventSize = 1 << 10                       // bytes that each event counts beside those of its frame: what is kept of it takes as much memory
	valueSize = 64                            // bytes that each value of an open request counts beside its own: a list takes as much memory for it
	maxPlace  = 16 << 10                      // bytes of the place of a call
	maxKept   = 2 * MaxReply                  // bytes of the arguments of calls that the owner has not carried out yet
	MaxReason = 4 << 10                       // bytes of the reason why a run ended
	batchSize = 1 << 20                       // bytes of events in one answer, about
	chunkSize = 64 << 10                      // bytes of stdin in one frame
)

// ErrGone says that the process on the other side has closed the connection.
var ErrGone = errors.New("the jp that started this one is gone")

// FrameError says that the other side broke the protocol.
type FrameError struct{ Reason string }

func (e *FrameError) Error() string { return "wire: " + e.Reason }

// Start is the first frame: all that a sub-agent needs to know of its conversation.
type Start struct {
	Protocol     int                    `json:"protocol"`
	Conversation convstore.Conversation `json:"-"`
	Config       convstore.Config       `json:"config"` // config when the run began
	Blank        bool                   `json:"blank"`  // whether it has no events
	Account      convstore.Account      `json:"account"`
	Models       []Known                `json:"models"`
	WaitLimit    time.Duration          `json:"wait_limit,omitempty"` // longest wait for a reset; 0 = the usual one
	Keys         []string               `json:"keys,omitempty"`       // names of variables that hold keys, by its owner's config
	Kept         fs.Kept                `json:"kept,omitzero"`        // files that its owner's own config reads, which it does not
	Pins         []Pin                  `json:"pins,omitempty"`       // tools that it holds and its owner calls
	Skills       []Skill                `json:"skills,omitempty"`     // what it can read with one of them
}

// conversation is a Conversation with all its fields. Its own JSON is that of listings.
type conversation convstore.Conversation

type startFrame struct {
	Start
	Conversation conversation `json:"conversation"`
}

// fromOwner is a frame of the owner. One field is set.
type fromOwner struct {
	Start  *startFrame `json:"start,omitempty"`
	Answer *answer     `json:"answer,omitempty"`
	Step   *step       `json:"step,omitempty"`
	Want   uint64      `json:"want,omitempty"`
	Parts  *parts      `json:"parts,omitempty"`
	Held   *held       `json:"held,omitempty"`
}

// answer ends the request N, or is a part of its answer where More is set.
type answer struct {
	N     uint64 `json:"n"`
	More  bool   `json:"more,omitempty"`
	Error *fault `json:"error,omitempty"`

	Events        []convstore.Event  `json:"events,omitempty"`
	Conversations []conversation     `json:"conversations,omitempty"`
	Account       *convstore.Account `json:"account,omitempty"` // of begin
	Changed       bool               `json:"changed,omitempty"` // of title
	Stale         bool               `json:"stale,omitempty"`   // of begin: the account was another one; no call was recorded
	Open          bool               `json:"open,omitempty"`    // of begin: the rate gate need not be asked for the next attempt

	Result   *tools.Result `json:"result,omitempty"` // of call and serve
	Recalled bool          `json:"recalled,omitempty"`
	Calls    int           `json:"calls,omitempty"` // of release: delegations that were reserved so far

	Said   *parts       `json:"said,omitempty"` // of ask: the rest of the reply
	Failed *model.Error `json:"failed,omitempty"`
	Shut   bool         `json:"shut,omitempty"` // of gate: it makes the next request wait

	Status int    `json:"status,omitempty"` // of command
	Stdout []byte `json:"stdout,omitempty"`
	Stderr []byte `json:"stderr,omitempty"`
}

// step is a point that a delegation of the call N has come to.
type step struct {
	N    uint64          `json:"n"`
	Step json.RawMessage `json:"step"`
}

// fromChild is a frame of the sub-agent. One of the pointers is set.
type fromChild struct {
	N uint64 `json:"n,omitempty"` // number of a request; 0 = not one

	Events   bool       `json:"events,omitempty"`
	Get      bool       `json:"get,omitempty"`
	Children int        `json:"children,omitempty"` // at most that many
	Append   *appended  `json:"append,omitempty"`
	Begin    *begun     `json:"begin,omitempty"`
	Title    bool       `json:"title,omitempty"`
	Admit    []Call     `json:"admit,omitempty"`
	Await    []string   `json:"await,omitempty"`
	Call     *Call      `json:"call,omitempty"`
	Serve    *served    `json:"serve,omitempty"`
	Release  bool       `json:"release,omitempty"`
	Command  *Command   `json:"command,omitempty"`
	Ended    string     `json:"ended,omitempty"` // id of a tool call whose commands are over
	Input    *inputPart `json:"input,omitempty"`
	Cancel   uint64     `json:"cancel,omitempty"`
	Ask      *question  `json:"ask,omitempty"`
	Taken    *taken     `json:"taken,omitempty"`
	Gate     *gateStep  `json:"gate,omitempty"`
	// a line of a recording that is made where the owner is
	Recorded json.RawMessage `json:"recorded,omitempty"`
}

// several reports whether a frame has more than one request: each is checked by itself.
func (f fromChild) several() bool {
	v, n := reflect.ValueOf(f), 0
	for i := range v.NumField() {
		if !v.Field(i).IsZero() {
			n++
		}
	}
	return n > 2 // N is one of them
}

type appended struct {
	Events   []convstore.Event `json:"events"`
	Personal bool              `json:"personal,omitempty"` // whether the end of the turn is: see convstore.TurnEnd
}

// begun is Log.Begin. Left is what the sub-agent believes to be left; it has computed Call from it.
type begun struct {
	Events []convstore.Event `json:"events,omitempty"`
	Left   *convstore.Budget `json:"left"` // nil = it does not know yet
	Call   *convstore.Call   `json:"call"` // nil = no call is made
}

// Call is a call of a tool that the owner carries out.
type Call struct {
	ID        string          `json:"id"`
	Name      string          `json:"name"`
	Arguments json.RawMessage `json:"arguments"`
	Place     string          `json:"place,omitempty"` // place of the call in a recording; see script.Trail
	Trace     []string        `json:"trace,omitempty"` // variables that put spans of other processes below the call
	Left      time.Duration   `json:"left,omitempty"`  // what is left of the caller's time; 0 = no deadline. Conn sets it
}

// Command is a command line of a jp inside a tool call.
type Command struct {
	Tool  string   `json:"tool"`
	Call  string   `json:"call"` // id of the tool call
	Args  []string `json:"args"`
	Place string   `json:"place,omitempty"` // as in Call
	Trace []string `json:"trace,omitempty"` // as in Call
}

// inputPart is a part of the stdin of the command N. An empty one is the end.
type inputPart struct {
	N    uint64 `json:"n"`
	Data []byte `json:"data,omitempty"`
}

// fault is an error on its way. Its kind is that of errors which callers tell apart.
type fault struct {
	Kind string       `json:"kind,omitempty"` // busy, not_found, scope, closed; "" = any other
	Text string       `json:"text"`
	ID   convstore.ID `json:"id,omitempty"`
	Root convstore.ID `json:"root,omitempty"`
}

// remoteError is an error of the owner with its text. It wraps one of the same type.
type remoteError struct {
	text string
	err  error // nil = of no type that is known
}

func (e *remoteError) Error() string { return e.text }
func (e *remoteError) Unwrap() error { return e.err }

func faultOf(err error) *fault {
	if err == nil {
		return nil
	}
	f := &fault{Text: err.Error()}
	var (
		busy  *convstore.BusyError
		none  *convstore.NotFoundError
		scope *convstore.ScopeError
	)
	switch {
	case errors.As(err, &busy):
		f.Kind, f.ID = "busy", busy.ID
	case errors.As(err, &scope):
		f.Kind, f.ID, f.Root = "scope", scope.ID, scope.Root
	case errors.As(err, &none):
		f.Kind, f.ID = "not_found", none.ID
	}
	return f
}

func (f *fault) err() error {
	if f == nil {
		return nil
	}
	e := &remoteError{text: f.Text}
	switch f.Kind {
	case "busy":
		e.err = &convstore.BusyError{ID: f.ID}
	case "scope":
		e.err = &convstore.ScopeError{ID: f.ID, Root: f.Root}
	case "not_found":
		e.err = &convstore.NotFoundError{ID: f.ID}
	}
	return e
}

// The points of a frame, at which tests end a process.
const (
	Sent     = "frame sent"
	Received = "frame received" // and nothing done yet
)

// line reads and writes frames. One goroutine reads; any may write.
type line struct {
	rw io.ReadWriteCloser
	in *bufio.Reader
	at func(point string)

	values int // values in the frame that was read last, about

	mu sync.Mutex // held while a frame is written
}

// newLine returns a line that calls at, if it is not nil, at each point of a frame.
func newLine(rw io.ReadWriteCloser, at func(point string)) *line {
	if at == nil {
		at = func(string) {}
	}
	return &line{rw: rw, in: bufio.NewReader(rw), at: at}
}

// read reads the next frame into v and returns its size. At the end, or when the other side has
// gone, it returns io.EOF.
func (l *line) read(v any) (size int, err error) {
	var frame []byte
	for {
		part, err := l.in.ReadSlice('\n')
		if len(frame)+len(part) > MaxFrame {
			return 0, &FrameError{fmt.Sprintf("a frame of more than %d MiB", MaxFrame>>20)}
		}
		if err == bufio.ErrBufferFull {
			frame = append(frame, part...)
			continue
		}
		if err != nil {
			return 0, io.EOF // also in the middle of a frame: it was not sent whole, and is nothing
		}
		if frame == nil {
			frame = part
		} else {
			frame = append(frame, part...)
		}
		break
	}
	if l.values = jsondoc.Values(frame); l.values > maxValues {
		return 0, &FrameError{fmt.Sprintf("a frame of more than %d values", maxValues)}
	}
	if err := json.Unmarshal(frame, v); err != nil {
		return 0, &FrameError{"a frame that cannot be read: " + err.Error()}
	}
	l.at(Received)
	return len(frame), nil
}

// write writes one frame.
func (l *line) write(v any) error {
	frame, err := jsondoc.Encode(v)
	if err != nil {
		return fmt.Errorf("wire: %w", err)
	}
	if len(frame) >= MaxFrame {
		return &FrameError{fmt.Sprintf("a frame of %d MiB, more than %d MiB", len(frame)>>20, MaxFrame>>20)}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, err := l.rw.Write(append(frame, '\n')); err != nil {
		return ErrGone
	}
	l.at(Sent)
	return nil
}

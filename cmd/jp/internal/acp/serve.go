// Package acp speaks the Agent Client Protocol, version 1 (agentclientprotocol.com), as an agent: an editor, the client, drives
// sessions over two streams.
//
//	Serve    one client, from its first message to the end of its stream
//	Agent    makes and finds sessions; the caller brings it
//	Session  one conversation, which the Agent made
//	Client   what a running prompt tells and asks the client
//
// The wire is JSON-RPC 2.0, one message a line, both ways. The client is not trusted: messages and ids are bounded, what makes no
// sense is answered with an error and nothing else happens, a request under an id that is still in use is refused, and so is a second
// prompt of a session while one runs. When the client goes, everything that it began is cancelled, and Serve returns once that ended.
//
// Of what the client offers (fs/*, terminal/*) nothing is used but its user's answers.
package acp

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"

	"jp/tools/brief"
	"jp/tools/jsondoc"
)

// Agent makes and finds sessions. Its methods are called from several goroutines. What they return as an error is told to the
// client: an *Error as it is, anything else as CodeInternal.
type Agent interface {
	// New begins a session.
	New(ctx context.Context, s Setup) (Session, error)
	// Load takes up a session that was begun before, maybe by another process.
	Load(ctx context.Context, id string, s Setup) (Session, error)
	// List lists the sessions of a folder, "" for the agent's own. cursor is the Next of the page before, "" for the first.
	List(ctx context.Context, dir, cursor string) (Page, error)
}

// Session is one conversation with the client.
type Session interface {
	// ID is the client's name for it.
	ID() string
	// Home is where it is kept. There no other session has its ID; elsewhere one may.
	Home() string
	// Replay tells all that was said. It is called at most once, of one that was loaded, before anything else.
	Replay(ctx context.Context, tell func(Update)) error
	// Options are what the client's user can choose. It is called at any time, as Set is.
	Options() []ConfigOption
	// Set chooses one of the values of an option, for the next prompt and those after it.
	Set(ctx context.Context, id, value string) error
	// Prompt carries out one prompt. It is not called while another is under way. When ctx ends it returns as soon as nothing
	// of it runs any more.
	Prompt(ctx context.Context, prompt []Block, c *Client) (StopReason, error)
}

// Options are who serves.
type Options struct {
	Info Implementation
	Log  func(format string, args ...any) // of what is passed over; never nil
}

// ErrGone is the cause of a context that ended because the client closed its stream.
var ErrGone = errors.New("the client has gone")

// errCancelled is the cause of a prompt's context that the client cancelled.
var errCancelled = errors.New("cancelled by the client")

const (
	maxRequests = 64             // requests of a client under way at the same time
	maxUnderWay = 2 * MaxMessage // bytes of these requests
	maxSessions = 1024           // open sessions of a client
)

// Serve serves the client that writes to in and reads from out, until in ends, out fails or ctx ends, and returns when nothing of it
// is under way any more. cancel ends ctx: it is called with ErrGone or what writing to out returned, so that whoever else waits for
// the client learns of it. The error is nil when the client has gone.
func Serve(ctx context.Context, cancel context.CancelCauseFunc, a Agent, o Options, in io.Reader, out io.Writer) error {
	c := &conn{
		agent: a, options: o, cancel: cancel, out: out,
		running: map[string]context.CancelCauseFunc{}, asked: map[int64]chan message{}, sessions: map[string]*session{},
	}
	read := make(chan struct{})
	go func() { // is left behind where ctx ends before in does
		cancel(c.read(ctx, in))
		close(read)
	}()
	select {
	case <-read:
	case <-ctx.Done():
	}
	c.end()
	if cause := context.Cause(ctx); !errors.Is(cause, ErrGone) {
		return cause
	}
	return nil
}

// conn is one client.
type conn struct {
	agent   Agent
	options Options
	cancel  context.CancelCauseFunc

	writing sync.Mutex
	out     io.Writer

	work sync.WaitGroup // requests under way

	mu       sync.Mutex
	ended    bool
	able     *capabilities                      // nil before initialize
	running  map[string]context.CancelCauseFunc // requests of the client under way, by id
	underWay int                                // bytes of what they ask
	last     int64                              // id of a request of ours
	asked    map[int64]chan message             // requests of ours that are not answered
	sessions map[string]*session
	opening  int // sessions that are being made
}

// read takes messages until the stream ends.
func (c *conn) read(ctx context.Context, in io.Reader) error {
	l := lines{r: bufio.NewReaderSize(in, 64<<10), most: MaxMessage}
	for {
		line, err := l.next()
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case errors.Is(err, io.EOF):
			return ErrGone
		case err == errLong:
			c.refuse(null, requestf("%v", err))
		case err != nil:
			return fmt.Errorf("stdin: %w", err)
		default:
			c.take(ctx, line)
		}
	}
}

// take deals with one message.
func (c *conn) take(ctx context.Context, line []byte) {
	m, id, bad := decode(line)
	switch {
	case bad != nil:
		c.refuse(id, bad)
	case m.Method == "":
		c.answered(m)
	case m.ID == nil:
		c.notified(m)
	default:
		c.begin(ctx, m)
	}
}

// begin carries out a request, beside others.
func (c *conn) begin(ctx context.Context, m message) {
	ctx, cancel := context.WithCancelCause(ctx)
	key := string(m.ID)
	c.mu.Lock()
	_, taken := c.running[key]
	full := len(c.running) >= maxRequests
	large := len(c.running) > 0 && c.underWay+len(m.Params) > maxUnderWay
	if !taken && !full && !large && !c.ended {
		c.running[key] = cancel
		c.underWay += len(m.Params)
		c.work.Add(1)
	}
	ended := c.ended
	c.mu.Unlock()
	switch {
	case ended:
		cancel(nil)
		return
	case taken:
		cancel(nil)
		c.refuse(null, requestf("id %s: a request with this id is under way", key)) // under the id it would be taken for that one's
		return
	case full:
		cancel(nil)
		c.refuse(m.ID, requestf("%d requests are under way; wait for one of them", maxRequests))
		return
	case large:
		cancel(nil)
		c.refuse(m.ID, requestf("requests of %d MiB are under way; wait for one of them", maxUnderWay>>20))
		return
	}
	// What decides about messages that come later is done before these are read.
	run, err := c.prepare(ctx, m)
	if err != nil {
		run = func() (any, error) { return nil, err }
	}
	go func() {
		defer c.work.Done()
		defer cancel(nil)
		result, err := c.carry(run)
		c.mu.Lock()
		delete(c.running, key)
		c.underWay -= len(m.Params)
		c.mu.Unlock()
		if err != nil {
			e := asError(err)
			if context.Cause(ctx) == errGivenUp {
				e = &Error{Code: codeGivenUp, Message: "cancelled by the client"}
			}
			c.refuse(m.ID, e)
			return
		}
		c.send(response{"2.0", m.ID, result})
	}()
}

// carry runs a request; a panic is that request's own.
func (c *conn) carry(run func() (any, error)) (result any, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("internal error: %v", p)
			c.options.Log("%v", err)
		}
	}()
	return run()
}

// errGivenUp is the cause of a request's context that the client cancelled by its id.
var errGivenUp = errors.New("the client gave the request up")

// prepare reads a request and returns what carries it out.
func (c *conn) prepare(ctx context.Context, m message) (func() (any, error), error) {
	c.mu.Lock()
	ready := c.able != nil
	c.mu.Unlock()
	if m.Method == "initialize" {
		if ready {
			return nil, requestf("initialize: was done")
		}
		result, err := c.initialize(m.Params)
		return func() (any, error) { return result, nil }, err
	}
	if !ready {
		return nil, requestf("%s: initialize comes first", m.Method)
	}
	switch m.Method {
	case "authenticate":
		return nil, Paramsf("authenticate: there is no method of authentication: jp has its keys from its environment and its own config")
	case "session/new":
		return c.newSession(ctx, m.Params)
	case "session/load":
		return c.loadSession(ctx, m.Params, true)
	case "session/resume":
		return c.loadSession(ctx, m.Params, false)
	case "session/list":
		return c.listSessions(ctx, m.Params)
	case "session/prompt":
		return c.prompt(ctx, m.Params)
	case "session/close":
		return c.closeSession(ctx, m.Params)
	case "session/set_config_option":
		return c.set(ctx, m.Params)
	case "session/cancel": // is a notification; some clients want to hear that it came
		return func() (any, error) { return struct{}{}, nil }, c.cancelPrompt(m.Params)
	}
	return nil, &Error{Code: codeMethod, Message: fmt.Sprintf("method %q: is not known", clip(m.Method))}
}

// notified takes what wants no answer.
func (c *conn) notified(m message) {
	switch m.Method {
	case "session/cancel":
		if err := c.cancelPrompt(m.Params); err != nil {
			c.options.Log("session/cancel: %v", err)
		}
	case "$/cancel_request":
		var p struct {
			ID json.RawMessage `json:"requestId"`
		}
		if err := json.Unmarshal(m.Params, &p); err != nil {
			c.options.Log("$/cancel_request: %v", err)
			return
		}
		c.mu.Lock()
		cancel := c.running[string(p.ID)]
		c.mu.Unlock()
		if cancel != nil {
			cancel(errGivenUp)
		}
	default:
		c.options.Log("notification %q: passed over", clip(m.Method))
	}
}

// clip bounds what a message quotes of a client.
func clip(s string) string {
	if len(s) > 100 {
		return brief.Prefix(s, 100) + "..."
	}
	return s
}

// params reads parameters; those that are not known are left alone, as the protocol grows by them.
func params(raw json.RawMessage, into any) error {
	if raw == nil {
		return Paramsf("params: are missing")
	}
	if err := json.Unmarshal(raw, into); err != nil {
		return Paramsf("params: %s", jsondoc.Explain(err))
	}
	return nil
}

func (c *conn) initialize(raw json.RawMessage) (any, error) {
	var p struct {
		Version      *int         `json:"protocolVersion"`
		Capabilities capabilities `json:"clientCapabilities"`
	}
	if err := params(raw, &p); err != nil {
		return nil, err
	}
	if p.Version == nil {
		return nil, Paramsf("protocolVersion: is missing")
	}
	c.mu.Lock()
	c.able = &p.Capabilities
	c.mu.Unlock()
	type none struct{}
	return map[string]any{
		"protocolVersion": Version, // whatever the client asked for: it decides whether it goes on
		"agentInfo":       c.options.Info,
		"authMethods":     []none{},
		"agentCapabilities": map[string]any{
			"loadSession":         true,
			"promptCapabilities":  map[string]bool{"image": true, "audio": false, "embeddedContext": true},
			"mcpCapabilities":     map[string]bool{"http": true, "sse": false},
			"sessionCapabilities": map[string]none{"list": {}, "resume": {}, "close": {}},
		},
	}, nil
}

// end stops everything and waits for it. ctx has ended, or the stream has.
func (c *conn) end() {
	c.mu.Lock()
	c.ended = true
	c.mu.Unlock()
	c.work.Wait()
}

// send writes a message. When that fails everything ends: what was not said cannot be made up for.
func (c *conn) send(m any) {
	b, err := encode(m)
	if err == nil {
		c.writing.Lock()
		_, err = c.out.Write(b)
		c.writing.Unlock()
	}
	if err != nil {
		c.cancel(err)
	}
}

func (c *conn) refuse(id json.RawMessage, e *Error) { c.send(failure{"2.0", id, e}) }

// tell sends an update, in a form that the client knows.
func (c *conn) tell(id string, u Update) {
	if done, ok := u.(Compaction); ok {
		c.mu.Lock()
		able := has(c.able.Session.Compaction)
		c.mu.Unlock()
		u = aside(done.Text)
		if able {
			w := compaction{Kind: "compaction_update", ID: done.ID, Status: "completed"}
			if done.Summary != "" {
				w.Summary = []Block{Text(done.Summary)}
			}
			u = w
		}
	}
	c.send(request{"2.0", nil, "session/update", map[string]any{"sessionId": id, "update": u}})
}

// Package acp speaks the Agent Client Protocol, version 1 (agentclientprotocol.com), as an agent:
// an editor, the client, drives sessions over two streams.
//
//	Serve    serves one client, from its first message to the end of its stream
//	Agent    makes and finds sessions; the caller implements it
//	Session  is one conversation, which the Agent made
//	Client   sends the client updates and questions of a running prompt
//
// The wire is JSON-RPC 2.0, one message a line, both ways. The client is not trusted. Messages and
// ids are bounded. The answer to a message that makes no sense is an error. A request with an id
// that is still in use is refused, and so is a second prompt of a session while one runs. When the
// client goes, Serve cancels everything that it began, waits for it and returns.
//
// The package uses the answers of the client's user. It uses nothing else that the client offers
// (fs/*, terminal/*).
package acp

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"jp/tools/brief"
	"jp/tools/jsondoc"
)

// Agent makes and finds sessions. Its methods are called from several goroutines. Their errors are
// sent to the client: an *Error as it is, any other error as CodeInternal.
type Agent interface {
	// New begins a session.
	New(ctx context.Context, s Setup) (Session, error)
	// Load opens a session that exists, maybe begun by another process. replay sends the messages so
	// far; it is called at most once, before any method of the session.
	Load(ctx context.Context, id string, s Setup) (loaded Session, replay Replay, err error)
	// List returns a page of the sessions of a folder; "" = the agent's own folder. cursor is the
	// Next of the previous page; "" = the first page.
	List(ctx context.Context, dir, cursor string) (Page, error)
}

// Replay sends the messages of a session. Nothing keeps it: it may hold what it took to load them.
type Replay func(ctx context.Context, tell func(Update)) error

// Session is one conversation with the client.
type Session interface {
	// ID returns the id under which the client knows the session.
	ID() string
	// Home returns where the session is stored. Its ID is unique there, and nowhere else.
	Home() string
	// Options returns what the client's user can choose. It is called at any time.
	Options() []ConfigOption
	// Set sets an option for the next prompt and those after it. It is not called while another Set
	// is, or Prompt, but for one whose context has ended.
	Set(ctx context.Context, id, value string) error
	// Prompt returns a prompt with the options that are set now.
	Prompt(prompt []Block) Run
}

// Run runs one prompt. It is not called while another one of the session runs. When ctx ends, it
// returns as soon as everything that it started has ended.
type Run func(ctx context.Context, c *Client) (StopReason, error)

// Options describe the agent.
type Options struct {
	Info Implementation
	Log  func(format string, args ...any) // logs what is ignored; never nil
}

// ErrGone is the cause of a context that ended because the client closed its stream.
var ErrGone = errors.New("the client has gone")

// errCancelled is the cause of a prompt's context that the client cancelled.
var errCancelled = errors.New("cancelled by the client")

const (
	maxRequests = 64             // requests of a client that run at the same time, and answers that it has not read
	maxUnderWay = 2 * MaxMessage // bytes of these requests
	maxSessions = 1024           // open sessions of a client
)

// Serve serves the client that writes to in and reads from out, until in ends, out fails or ctx
// ends. It returns when everything that the client began has ended. cancel must end ctx. Serve
// calls it with ErrGone or the error of out, so that others who wait for the client stop waiting.
// The error is nil if the client has gone.
func Serve(ctx context.Context, cancel context.CancelCauseFunc, a Agent, o Options, in io.Reader, out io.Writer) error {
	c := &conn{
		agent: a, options: o, cancel: cancel, out: out, writing: make(chan struct{}, 1),
		running: map[string]context.CancelCauseFunc{}, asked: map[int64]chan message{}, sessions: map[string]*session{},
	}
	read := make(chan struct{})
	go func() { // keeps running if ctx ends before in does
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

	writing chan struct{} // full while a message is written to out
	out     io.Writer

	work sync.WaitGroup // requests that run

	mu       sync.Mutex
	ended    bool
	able     *capabilities                      // nil before initialize
	running  map[string]context.CancelCauseFunc // cancels the requests of the client that run, by id
	underWay int                                // bytes of these requests
	unread   int                                // answers to requests that ran, from the end of the run until they are written
	last     int64                              // id of our latest request
	asked    map[int64]chan message             // our requests that have no answer yet, by id
	sessions map[string]*session
	opening  int // sessions that are being made
}

// read reads messages until the stream ends.
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

// take handles one message.
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

// begin starts a request in its own goroutine.
func (c *conn) begin(ctx context.Context, m message) {
	ctx, cancel := context.WithCancelCause(ctx)
	key := string(m.ID)
	c.mu.Lock()
	most, room := maxRequests, maxUnderWay
	if m.Method == "session/cancel" || m.Method == "session/close" { // what ends others has as much again for itself
		most, room = 2*most, 2*room
	}
	_, taken := c.running[key]
	full, unread := len(c.running) >= most, c.unread > most // it may have read one of them just now
	large := len(c.running) > 0 && c.underWay+len(m.Params) > room
	if !taken && !full && !unread && !large && !c.ended {
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
		c.refuse(null, requestf("id %s: a request with this id is under way", key)) // with its own id, the client would take this for the answer to the other request
		return
	case full:
		cancel(nil)
		c.refuse(m.ID, requestf("%d requests are under way; wait for one of them", maxRequests))
		return
	case unread:
		cancel(nil)
		c.refuse(m.ID, requestf("%d answers are not read yet; read one of them", maxRequests))
		return
	case large:
		cancel(nil)
		c.refuse(m.ID, requestf("requests of %d MiB are under way; wait for one of them", maxUnderWay>>20))
		return
	}
	// A request that affects later messages is handled before these are read.
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
		c.unread++
		c.mu.Unlock()
		var answer any = response{"2.0", m.ID, result}
		if err != nil {
			e := asError(err)
			if context.Cause(ctx) == errGivenUp {
				e = &Error{Code: codeGivenUp, Message: "cancelled by the client"}
			}
			answer = failure{"2.0", m.ID, e}
			defer c.hurry()()
		}
		c.write(answer, func() {
			c.mu.Lock()
			c.unread--
			c.mu.Unlock()
		})
	}()
}

// carry runs a request. A panic fails only that request.
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

// prepare parses a request and returns the function that runs it.
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
	case "session/cancel": // a notification; some clients send it as a request
		return func() (any, error) { return struct{}{}, nil }, c.cancelPrompt(m.Params)
	}
	return nil, &Error{Code: codeMethod, Message: fmt.Sprintf("method %q: is not known", clip(m.Method))}
}

// notified handles a notification.
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

// clip cuts a text of the client that a message quotes.
func clip(s string) string {
	if len(s) > 100 {
		return brief.Prefix(s, 100) + "..."
	}
	return s
}

// params parses parameters. It ignores unknown ones, because new versions of the protocol add some.
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
		"protocolVersion": Version, // whatever the client asked for; the client decides whether to continue
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

// send writes a message. If that fails, everything ends, because the message is lost.
func (c *conn) send(m any) { c.write(m, func() {}) }

// write does the same, and calls written before anything else is written.
func (c *conn) write(m any, written func()) {
	b, err := encode(m)
	if err == nil {
		c.writing <- struct{}{}
		_, err = c.out.Write(b)
		written()
		<-c.writing
	}
	if err != nil {
		c.cancel(err)
	}
}

// refuse answers with an error.
func (c *conn) refuse(id json.RawMessage, e *Error) {
	defer c.hurry()()
	c.send(failure{"2.0", id, e})
}

// hurry ends everything with ErrUnread, unless done is called in time. It is for errors: the reader
// writes some, and has to see what the client cancels, and its end.
func (c *conn) hurry() (done func()) {
	late := time.AfterFunc(unreadWait, func() { c.cancel(ErrUnread) })
	return func() { late.Stop() }
}

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

package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"jp/tools"
	"jp/tools/later"
	"jp/tools/patience"
	"jp/tools/proc"
)

// Options are what clients need from the program that they are part of.
type Options struct {
	Host    Runner
	Environ []string // environment of jp, "NAME=value"
	// Refuse says why a server never gets a variable of the environment; "" = it may. nil = it may
	// get all.
	Refuse func(name string) string
	// Confine makes a confinement from what a server may reach. nil = servers that need one are not
	// started.
	Confine func(context.Context, Reach) (*proc.Confine, error)
	// Tell gets what servers write to stderr, line by line, cleaned, and bounded for each start,
	// and why an answer cannot be read. nil = nobody reads it. It may be called from several
	// goroutines.
	Tell    func(line string)
	Version string // version of this program, for the handshake
	// Patience is how long a server may take for the handshake and for listing its tools; 0 = a
	// minute.
	Patience time.Duration
}

// starts is how many times one client starts a server, or connects to it: once, and again after it
// has died.
const starts = 2

// rejected is the code of an error of the SDK itself: a request was not accepted. What is wrong
// stands in the errors around it.
const rejected = -32005

// Client is one server in use. It is started by the first call that needs it. Its methods may be
// called at the same time.
type Client struct {
	server  Server
	options Options

	life context.Context // ends when the client is closed
	stop context.CancelCauseFunc

	mu   sync.Mutex // of the fields below
	live *session   // nil = none
	now  *readying  // nil = none is under way

	// Only the readying that is under way uses these.
	begun int
	last  string // how the session before live ended
}

// readying is a start of the server, or another look at its tools. It goes on when the call that
// began it is given up: other calls wait for it too.
type readying struct {
	done    chan struct{} // closed when it has ended; the fields below are set then
	session *session
	err     error
}

var errClosed = errors.New("closed")

// session is a connection to a server.
type session struct {
	*sdk.ClientSession
	process *process              // nil = the server has an address
	listed  atomic.Pointer[offer] // a new one when the list has changed, while others read the old one
	stale   atomic.Bool
	bounds  *bounds
	gone    chan struct{} // closed when the connection has ended
	ending  sync.Once
	failed  atomic.Pointer[error] // why it is not to be used any more; nil = it may be
}

// offer is what a server listed.
type offer struct {
	tools []Tool   // sorted
	unfit []string // why further tools cannot be used
}

// NewClient returns the client of s. It starts nothing.
func NewClient(s Server, o Options) *Client {
	if o.Patience == 0 {
		o.Patience = time.Minute
	}
	c := &Client{server: s, options: o}
	c.life, c.stop = context.WithCancelCause(context.Background())
	return c
}

// Ready starts the server, or looks at its tools again, if the next call would have to wait
// for it. It returns when ctx ends, or when the server takes longer than Patience.
func (c *Client) Ready(ctx context.Context) error {
	_, err := c.session(ctx)
	return err
}

// List returns the tools of the server, sorted by name, and why others cannot be used.
func (c *Client) List(ctx context.Context) ([]Tool, []string, error) {
	s, err := c.session(ctx)
	if err != nil {
		return nil, nil, err
	}
	l := s.listed.Load()
	return l.tools, l.unfit, nil
}

// Call calls a tool that was approved in the form of want. The Result is what the server answered;
// it also reports failures, and that the server has died. A call is repeated only if a server at an
// address did not take it because it has ended the session, and only once.
func (c *Client) Call(ctx context.Context, want Tool, args json.RawMessage) (tools.Result, error) {
	return c.call(ctx, want, args, false)
}

func (c *Client) call(ctx context.Context, want Tool, args json.RawMessage, again bool) (tools.Result, error) {
	s, err := c.session(ctx)
	if err != nil {
		return tools.Result{}, err
	}
	switch at, ok := find(s.listed.Load().tools, want.Name); {
	case !ok:
		return refused("MCP server %s: it has no tool %s any more; a person has to approve what it has now: jp mcp approve %s", c.server.Name, want.Name, c.server.Name), nil
	case at.Digest() != want.Digest():
		return refused("MCP server %s: its tool %s is not as it was approved; a person has to look at it: jp mcp approve %s", c.server.Name, want.Name, c.server.Name), nil
	}
	s.bounds.renew()
	type answer struct {
		result *sdk.CallToolResult
		err    error
	}
	done := make(chan answer, 1)
	untaken := new(atomic.Bool)
	calling, cancel := context.WithCancel(context.WithValue(ctx, untakenKey{}, untaken))
	defer cancel()
	go func() {
		r, err := s.CallTool(calling, &sdk.CallToolParams{Name: want.Name, Arguments: args})
		done <- answer{r, err}
	}()
	var a answer
	select {
	case a = <-done:
	case <-s.bounds.over:
		select {
		case a = <-done:
		default:
			cancel()
			a.err = s.bounds.err()
		}
	case <-ctx.Done():
		select {
		case a = <-done: // it got the message
		case <-time.After(closeGrace): // it does not read
			s.drop(context.Cause(ctx))
			return tools.Result{}, context.Cause(ctx)
		}
	}
	var said *jsonrpc.Error
	switch {
	case a.err == nil:
		return result(a.result), nil
	case ctx.Err() != nil:
		return tools.Result{}, context.Cause(ctx)
	case a.err != nil && untaken.Load() && !again:
		s.drop(a.err)
		return c.call(ctx, want, args, true)
	case errors.As(a.err, &said) && s.bounds.err() == nil:
		text := said.Message
		if said.Code == rejected {
			text = a.err.Error()
		}
		return tools.Result{Text: fmt.Sprintf("MCP server %s: %s", c.server.Name, cleanText(text)), IsError: true}, nil
	case s.process != nil && !s.lost(a.err):
		c.report("an answer cannot be read: " + a.err.Error())
		return tools.Result{Text: fmt.Sprintf("MCP server %s: its answer is no result of a tool", c.server.Name), IsError: true}, nil
	}
	why := s.drop(a.err)
	end := "died"
	if s.bounds.why() != "" {
		end = "was ended"
	}
	return tools.Result{Text: fmt.Sprintf("MCP server %s %s during the call, which may have had its effect: %s", c.server.Name, end, why), IsError: true}, nil
}

// untakenKey is the key of a context whose value, an *atomic.Bool, is set if a server at an address
// did not take a request because it has ended the session. A call that it has taken then fails too.
type untakenKey struct{}

func refused(format string, args ...any) tools.Result {
	return tools.Result{Text: fmt.Sprintf(format, args...), IsError: true, Refused: true}
}

func find(list []Tool, name string) (Tool, bool) { return Record{Tools: list}.Tool(name) }

// Close stops the server and returns when it has ended. No server is started after it.
func (c *Client) Close() {
	c.mu.Lock()
	c.stop(errClosed)
	now := c.now
	c.mu.Unlock()
	if now != nil {
		<-now.done
	}
	c.mu.Lock()
	s := c.live
	c.live = nil
	c.mu.Unlock()
	if s != nil {
		s.end()
	}
}

// drop ends a session that failed with err and returns how it ended. No other call gets it.
func (s *session) drop(err error) string {
	s.failed.CompareAndSwap(nil, &err)
	if s.process == nil {
		s.end()
	} else {
		s.process.kill()
	}
	return s.reason()
}

// over reports whether the session cannot be used any more.
func (s *session) over() bool {
	select {
	case <-s.gone:
		return true
	default:
		return s.failed.Load() != nil
	}
}

// reason returns why a session that is over has ended.
func (s *session) reason() string {
	why := s.left()
	if err := s.failed.Load(); why == "" && err != nil {
		why = cleanText((*err).Error())
	}
	return why
}

// report passes a line to Tell, as short as one of stderr.
func (c *Client) report(text string) {
	if c.options.Tell != nil {
		l := lines{emit: c.options.Tell}
		_, _ = l.Write([]byte(strings.ReplaceAll(text, "\n", " ") + "\n"))
	}
}

// lost reports whether a call failed because the connection to a program has ended, and not because
// of its answer.
func (s *session) lost(err error) bool {
	is := func(e error) bool { return errors.Is(err, e) }
	return s.bounds.err() != nil || slices.ContainsFunc([]error{io.EOF, io.ErrUnexpectedEOF, io.ErrClosedPipe, sdk.ErrConnectionClosed}, is)
}

// left returns why the session has ended, "" for unknown.
func (s *session) left() string {
	why := s.bounds.why()
	switch {
	case s.process == nil:
	case why == "":
		return s.process.left()
	default:
		why += s.process.lastWords()
	}
	return why
}

// session returns the live one, or starts the server.
func (c *Client) session(ctx context.Context) (*session, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	c.mu.Lock()
	now, s := c.now, c.live
	switch {
	case now != nil:
	case c.life.Err() != nil:
		c.mu.Unlock()
		return nil, c.failure(errClosed)
	case s != nil && !s.over() && !s.stale.Swap(false):
		c.mu.Unlock()
		return s, nil
	default:
		now = &readying{done: make(chan struct{})}
		c.now = now
		go func() {
			alive, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
			defer context.AfterFunc(c.life, func() { cancel(errClosed) })()
			now.session, now.err = c.ready(alive, s)
			cancel(nil)
			c.mu.Lock()
			c.now, c.live = nil, now.session
			c.mu.Unlock()
			close(now.done)
		}()
	}
	c.mu.Unlock()
	select {
	case <-now.done:
		return now.session, now.err
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// ready looks at the tools of s again, or starts the server if s is over or nil.
func (c *Client) ready(ctx context.Context, s *session) (*session, error) {
	if s != nil && !s.over() {
		err := c.within(ctx, s, func(ctx context.Context) error { return s.list(ctx) })
		if err == nil {
			return s, nil
		}
		s.failed.CompareAndSwap(nil, &err)
		return s, c.failure(err)
	}
	if s != nil {
		s.end()
		c.last = s.reason()
		if s.bounds.missing.Load() { // a server at an address has ended it in order: that is no death
			c.begun--
		}
	}
	if c.begun++; c.begun > starts {
		return nil, fmt.Errorf("MCP server %s has died %d times and is not started again in this run: %s", c.server.Name, starts, c.last)
	}
	s, err := c.connect(ctx)
	if err != nil {
		c.last = err.Error()
		return nil, c.failure(err)
	}
	return s, nil
}

func (c *Client) failure(err error) error { return fmt.Errorf("MCP server %s: %w", c.server.Name, err) }

// within runs f, which uses s, for at most Patience. It ends s if f fails. With a server at an
// address the goroutine of f does that, because f may still be connecting.
func (c *Client) within(ctx context.Context, s *session, f func(context.Context) error) error {
	timed, cancel := patience.With(ctx, c.options.Patience, fmt.Errorf("no answer within %s", c.options.Patience))
	defer cancel()
	done := make(chan error, 1)
	go func() {
		err := f(timed)
		if err != nil && s.process == nil && s.ClientSession != nil { // f may have set it just now
			s.end()
		}
		done <- err
	}()
	var err error
	select {
	case err = <-done:
	case <-timed.Done():
		err = context.Cause(timed)
		if s.process == nil {
			select {
			case err = <-done:
			case <-time.After(closeGrace):
			}
		}
	}
	if err == nil {
		return nil
	}
	if cause := context.Cause(timed); cause != nil {
		if s.process != nil {
			s.process.kill()
			if ctx.Err() == nil { // the server is at fault
				return fmt.Errorf("%w%s", cause, s.process.lastWords())
			}
		}
		return cause
	}
	if s.process != nil {
		s.process.end()
	}
	// If the server is ending, or has broken the protocol, that is the better reason.
	if s.bounds.why() != "" || s.process != nil && s.process.failed {
		return errors.New(s.left())
	}
	return errors.New(cleanText(err.Error()))
}

// connect starts the server, greets it and lists its tools.
func (c *Client) connect(ctx context.Context) (*session, error) {
	server, err := c.server.expanded(c.variable)
	if err != nil {
		return nil, err
	}
	s := &session{gone: make(chan struct{}), bounds: newBounds()}
	var transport sdk.Transport
	if server.URL != "" {
		transport = dial(server, s.bounds)
	} else {
		box, err := c.confinement(ctx)
		if err != nil {
			return nil, err
		}
		if ctx.Err() != nil { // Close came meanwhile
			return nil, context.Cause(ctx)
		}
		s.process = start(c.options.Host, server, box, c.options.Environ, c.options.Tell)
		transport = answering{s.process.transport(), s.bounds, &s.stale}
	}
	options := sdk.ClientOptions{
		Capabilities:   &sdk.ClientCapabilities{}, // no sampling, no elicitation, no roots
		MultiRoundTrip: &sdk.MultiRoundTripOptions{Disabled: true},
	}
	if s.process != nil { // with it the SDK asks to be told, and would listen to an address, see dial
		options.ToolListChangedHandler = func(context.Context, *sdk.ToolListChangedRequest) {}
	}
	later.Schema.Need() // the SDK uses it
	later.MCP.Need()
	client := sdk.NewClient(&sdk.Implementation{Name: "jp", Version: c.options.Version}, &options)
	client.AddReceivingMiddleware(refuseRequests(s.bounds))
	client.AddSendingMiddleware(c.oldServers, uncached)
	err = c.within(ctx, s, func(ctx context.Context) error {
		var err error
		if s.ClientSession, err = client.Connect(ctx, transport, nil); err != nil {
			return err
		}
		go func() {
			_ = s.Wait()
			close(s.gone)
		}()
		return s.list(ctx)
	})
	if err != nil {
		return nil, err
	}
	return s, nil
}

// oldServers gives up the first question of the handshake early: a server of before it may ignore
// what it does not know, and answers the older question that follows.
func (c *Client) oldServers(next sdk.MethodHandler) sdk.MethodHandler {
	return func(ctx context.Context, method string, req sdk.Request) (sdk.Result, error) {
		if method == "server/discover" {
			short, cancel := context.WithTimeout(ctx, c.options.Patience/4)
			defer cancel()
			ctx = short
		}
		return next(ctx, method, req)
	}
}

// uncached keeps the SDK from answering a later question for the tools from memory, for as long as
// the server has said: the server may have said since that they have changed.
func uncached(next sdk.MethodHandler) sdk.MethodHandler {
	return func(ctx context.Context, method string, req sdk.Request) (sdk.Result, error) {
		r, err := next(ctx, method, req)
		if l, ok := r.(*sdk.ListToolsResult); ok && l != nil {
			l.TTLMs = 0
		}
		return r, err
	}
}

// confinement returns the confinement of the program, nil where it has none.
func (c *Client) confinement(ctx context.Context) (*proc.Confine, error) {
	switch {
	case c.server.Reach == nil:
		return nil, nil
	case c.options.Confine == nil:
		return nil, errors.New("it is to be confined, and that is not possible here")
	}
	return c.options.Confine(ctx, *c.server.Reach)
}

// Startable returns what a start would meet first: a variable that is not set, or a program that is
// not there. It starts nothing.
func (c *Client) Startable() error {
	server, err := c.server.expanded(c.variable)
	if err != nil || server.Command == "" {
		return err
	}
	path, err := proc.LookPath(server.Command, c.options.Environ)
	if err == nil && !filepath.IsAbs(path) {
		path = filepath.Join(server.Dir, path)
	}
	if info, gone := os.Stat(path); err != nil || gone != nil || info.IsDir() {
		return fmt.Errorf("there is no program %s", server.Command)
	}
	return nil
}

// variable looks up a variable for an entry.
func (c *Client) variable(name string) (string, bool, error) {
	if c.options.Refuse != nil {
		if why := c.options.Refuse(name); why != "" {
			return "", false, fmt.Errorf("variable %s %s", name, why)
		}
	}
	for _, kv := range slices.Backward(c.options.Environ) {
		if k, v, ok := strings.Cut(kv, "="); ok && k == name {
			return v, true, nil
		}
	}
	return "", false, nil
}

// list reads the tools of the server.
func (s *session) list(ctx context.Context) error {
	s.bounds.renew()
	var list []Tool
	var unfit []string
	seen := map[string]bool{}
	size, cursor := 0, ""
	for page := 0; ; page++ {
		if page == maxPages {
			return fmt.Errorf("its list of tools has more than %d pages", maxPages)
		}
		r, err := s.ListTools(ctx, &sdk.ListToolsParams{Cursor: cursor})
		if err != nil {
			return err
		}
		for _, in := range r.Tools {
			t, err := accept(in)
			switch {
			case err != nil && t.Name == "":
				unfit = append(unfit, "a tool with "+err.Error())
			case err != nil:
				unfit = append(unfit, fmt.Sprintf("%s: %v", t.Name, err))
			case seen[t.Name]:
				return fmt.Errorf("it lists two tools %s", t.Name)
			default:
				list = append(list, t)
			}
			seen[t.Name] = true
			size += len(t.Name) + len(t.Description) + len(t.Schema)
			if len(list)+len(unfit) > maxTools || size > maxListBytes {
				return fmt.Errorf("its list of tools is too long: at most %d tools and %d MiB", maxTools, maxListBytes>>20)
			}
		}
		if cursor = r.NextCursor; cursor == "" {
			break
		}
	}
	slices.SortFunc(list, func(a, b Tool) int { return strings.Compare(a.Name, b.Name) })
	s.listed.Store(&offer{list, unfit})
	return nil
}

// end ends the connection, and the program of the server. It does not wait for a server that does
// not answer.
func (s *session) end() {
	s.ending.Do(func() {
		if s.process != nil {
			s.process.end()
		}
		closed := make(chan struct{})
		go func() {
			_ = s.Close()
			close(closed)
		}()
		select {
		case <-closed:
		case <-time.After(closeGrace):
		}
	})
}

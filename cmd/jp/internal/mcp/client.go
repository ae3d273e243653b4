package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"jp/tools"
)

// Options are what clients need of the program they work in.
type Options struct {
	Host    Runner
	Environ []string // jp's own, "NAME=value"
	// Refuse says why a variable of the environment is never handed to a server; "" lets it through. nil refuses none.
	Refuse  func(name string) string
	Version string // of this program, for the handshake
	// Patience is how long a server may take for the handshake and for listing its tools; 0 is a minute.
	Patience time.Duration
}

// starts is how often a server is started, or connected to, by one client: once, and once more when it has died.
const starts = 2

// Client is one server in use. It is started by the first call that needs it. Its methods may be called at the same time.
type Client struct {
	server  Server
	options Options

	turn  chan struct{} // holds a token that whoever changes what follows has taken
	live  *session      // nil = none
	begun int
	last  string // how the one before ended
}

// session is a server that has been spoken with.
type session struct {
	*sdk.ClientSession
	process *process // nil behind an address
	tools   []Tool   // as it listed them, sorted
	unfit   []string // of what else it listed
	stale   atomic.Bool
	gone    chan struct{} // closed when the connection has ended
}

// NewClient returns the client of s. It starts nothing.
func NewClient(s Server, o Options) *Client {
	if o.Patience == 0 {
		o.Patience = time.Minute
	}
	c := &Client{server: s, options: o, turn: make(chan struct{}, 1)}
	c.turn <- struct{}{}
	return c
}

// List returns the tools of the server, sorted by name, and says of others why they cannot be used.
func (c *Client) List(ctx context.Context) ([]Tool, []string, error) {
	s, err := c.session(ctx)
	if err != nil {
		return nil, nil, err
	}
	return s.tools, s.unfit, nil
}

// Call calls a tool that was approved as it is in want. What the server answers with, its failures and its death included, is
// a Result. A call is never repeated.
func (c *Client) Call(ctx context.Context, want Tool, args json.RawMessage) (tools.Result, error) {
	s, err := c.session(ctx)
	if err != nil {
		return tools.Result{}, err
	}
	switch at, ok := find(s.tools, want.Name); {
	case !ok:
		return refused("MCP server %s: it has no tool %s any more; a person has to approve what it has now: jp mcp approve %s", c.server.Name, want.Name, c.server.Name), nil
	case at.Digest() != want.Digest():
		return refused("MCP server %s: its tool %s is not as it was approved; a person has to look at it: jp mcp approve %s", c.server.Name, want.Name, c.server.Name), nil
	}
	type answer struct {
		result *sdk.CallToolResult
		err    error
	}
	done := make(chan answer, 1)
	go func() {
		r, err := s.CallTool(ctx, &sdk.CallToolParams{Name: want.Name, Arguments: args})
		done <- answer{r, err}
	}()
	var a answer
	select {
	case a = <-done:
	case <-ctx.Done():
		select {
		case a = <-done: // it was told
		case <-time.After(closeGrace): // it does not even read
			c.drop(s)
			return tools.Result{}, context.Cause(ctx)
		}
	}
	var said *jsonrpc.Error
	switch {
	case a.err == nil:
		return result(a.result), nil
	case ctx.Err() != nil:
		return tools.Result{}, context.Cause(ctx)
	case errors.As(a.err, &said):
		return tools.Result{Text: fmt.Sprintf("MCP server %s: %s", c.server.Name, cleanText(said.Message)), IsError: true}, nil
	}
	why := c.drop(s)
	if why == "" {
		why = cleanText(a.err.Error())
	}
	return tools.Result{Text: fmt.Sprintf("MCP server %s died during the call, which may have had its effect: %s", c.server.Name, why), IsError: true}, nil
}

func refused(format string, args ...any) tools.Result {
	return tools.Result{Text: fmt.Sprintf(format, args...), IsError: true, Refused: true}
}

func find(list []Tool, name string) (Tool, bool) { return Record{Tools: list}.Tool(name) }

// Close ends the server and returns when it has ended. Nothing is started after it.
func (c *Client) Close() {
	<-c.turn
	c.begun = starts
	if s := c.live; s != nil {
		c.live, c.last = nil, "closed"
		s.end()
	}
	c.turn <- struct{}{}
}

// take waits for the turn.
func (c *Client) take(ctx context.Context) error {
	select {
	case <-c.turn:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// drop gives up a session that failed and says how its server ended.
func (c *Client) drop(s *session) string {
	<-c.turn
	defer func() { c.turn <- struct{}{} }()
	if c.live == s {
		c.live = nil
	}
	if s.process == nil {
		s.end()
		return ""
	}
	s.process.kill()
	c.last = s.process.left()
	return c.last
}

// session returns the live one, or starts the server.
func (c *Client) session(ctx context.Context) (*session, error) {
	if err := c.take(ctx); err != nil {
		return nil, err
	}
	defer func() { c.turn <- struct{}{} }()
	if s := c.live; s != nil {
		select {
		case <-s.gone:
			s.end()
			c.live = nil
			if s.process != nil {
				c.last = s.process.left()
			}
		default:
			if !s.stale.Swap(false) {
				return s, nil
			}
			if err := c.within(ctx, s, func(ctx context.Context) error { return s.list(ctx) }); err != nil {
				return nil, err
			}
			return s, nil
		}
	}
	if c.begun++; c.begun > starts {
		return nil, fmt.Errorf("MCP server %s has died %d times and is not started again in this run: %s", c.server.Name, starts, c.last)
	}
	s, err := c.connect(ctx)
	if err != nil {
		c.last = err.Error()
		return nil, fmt.Errorf("MCP server %s: %w", c.server.Name, err)
	}
	c.live = s
	return s, nil
}

// within runs f, which speaks with s, no longer than Patience; s is ended when f fails.
func (c *Client) within(ctx context.Context, s *session, f func(context.Context) error) error {
	ctx, cancel := context.WithTimeoutCause(ctx, c.options.Patience, fmt.Errorf("no answer within %s", c.options.Patience))
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- f(ctx) }()
	var err error
	select {
	case err = <-done:
		if err == nil {
			return nil
		}
	case <-ctx.Done():
	}
	if s.process == nil && s.ClientSession != nil {
		s.end()
	}
	if cause := context.Cause(ctx); cause != nil {
		if s.process != nil {
			s.process.kill()
		}
		return cause
	}
	if s.process != nil { // where it is about to end, or has, that is the better reason
		s.process.end()
		if s.process.failed {
			return errors.New(s.process.left())
		}
	}
	return errors.New(cleanText(err.Error()))
}

// connect starts the server, greets it and lists its tools.
func (c *Client) connect(ctx context.Context) (*session, error) {
	server, err := c.server.expanded(c.variable)
	if err != nil {
		return nil, err
	}
	s := &session{gone: make(chan struct{})}
	var transport sdk.Transport
	if server.URL != "" {
		transport = dial(server)
	} else {
		s.process = start(c.options.Host, server, c.options.Environ)
		transport = s.process.transport()
	}
	client := sdk.NewClient(&sdk.Implementation{Name: "jp", Version: c.options.Version}, &sdk.ClientOptions{
		Capabilities:           &sdk.ClientCapabilities{}, // no sampling, no elicitation, no roots
		MultiRoundTrip:         &sdk.MultiRoundTripOptions{Disabled: true},
		ToolListChangedHandler: func(context.Context, *sdk.ToolListChangedRequest) { s.stale.Store(true) },
	})
	client.AddReceivingMiddleware(refuseRequests)
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

// refuseRequests refuses what a server may ask of a client. Notifications pass.
func refuseRequests(next sdk.MethodHandler) sdk.MethodHandler {
	return func(ctx context.Context, method string, req sdk.Request) (sdk.Result, error) {
		if slices.Contains([]string{"roots/list", "sampling/createMessage", "elicitation/create"}, method) {
			return nil, &jsonrpc.Error{Code: jsonrpc.CodeMethodNotFound, Message: method + " is refused"}
		}
		return next(ctx, method, req)
	}
}

// variable looks a variable up for an entry.
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
	s.tools, s.unfit = list, unfit
	return nil
}

// end ends the connection, and the program behind it. A server that does not answer keeps nobody.
func (s *session) end() {
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
}

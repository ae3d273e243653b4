package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"jp/tools"
	"jp/tools/later"
)

// Service is jp as an MCP server: tools to call, and texts to read. Its functions may be called at
// the same time.
type Service struct {
	Version      string
	Instructions string // for the client's model
	Tools        tools.Set
	// ReadOnly reports whether a tool changes nothing but what is in jp's own store. A client may
	// run such calls at the same time. nil = no tool is like that.
	ReadOnly func(tools.Tool) bool
	// Call carries out one call. It may call progress with its progress in a few words, from any
	// goroutine, until it returns. When the client cancels the call, ctx ends.
	Call func(ctx context.Context, name string, args json.RawMessage, progress func(string)) tools.Result
	// Texts lists the texts that there are now. Read returns one.
	Texts func(ctx context.Context) ([]Text, error)
	Read  func(ctx context.Context, uri string) (string, error)
	// Bound is called with a context that ends when the client sends nothing any more: from then on
	// writes to it need not wait. nil = they wait.
	Bound func(context.Context)
	// Template is the form of the addresses, see RFC 6570.
	Template string
}

// Text is a text that a client can read.
type Text struct {
	URI, Name, Title string
}

const plainText = "text/plain"

// maxPage is how many texts one page of their list has.
const maxPage = 200

// Run serves one client, which writes to in and reads from out, until in or ctx ends. Calls that
// still run then are cancelled. Run returns when every call has returned.
func (s Service) Run(ctx context.Context, in io.Reader, out io.Writer) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	left, end := context.WithCancelCause(ctx) // ends when the client has gone
	defer end(nil)
	if s.Bound != nil {
		s.Bound(left)
	}
	later.Schema.Need() // the SDK uses it
	later.MCP.Need()
	server := sdk.NewServer(&sdk.Implementation{Name: "jp", Version: s.Version}, &sdk.ServerOptions{
		Instructions: s.Instructions, PageSize: maxTools,
		Capabilities: &sdk.ServerCapabilities{Tools: &sdk.ToolCapabilities{}, Resources: &sdk.ResourceCapabilities{}},
		SetCacheable: func(_ context.Context, _ sdk.Request, c *sdk.Cacheable) { c.CacheScope = cacheScope },
	})
	for t := range s.Tools.All() {
		tool := &sdk.Tool{Name: t.Name, Description: t.Description, InputSchema: t.Schema}
		if s.ReadOnly != nil && s.ReadOnly(t) {
			tool.Annotations = &sdk.ToolAnnotations{ReadOnlyHint: true}
		}
		server.AddTool(tool, func(asked context.Context, r *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
			tell, told := progress(asked, r)
			result := s.Call(asked, r.Params.Name, r.Params.Arguments, tell)
			told()
			return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: result.Text}}, IsError: result.IsError}, nil
		})
	}
	server.AddResourceTemplate(&sdk.ResourceTemplate{Name: "conversation", Title: "Transcript of a sub-conversation", URITemplate: s.Template, MIMEType: plainText},
		func(ctx context.Context, r *sdk.ReadResourceRequest) (*sdk.ReadResourceResult, error) {
			text, err := s.Read(ctx, r.Params.URI)
			if err != nil {
				return nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: err.Error()}
			}
			return &sdk.ReadResourceResult{Contents: []*sdk.ResourceContents{{URI: r.Params.URI, MIMEType: plainText, Text: text}}}, nil
		})
	server.AddReceivingMiddleware(func(next sdk.MethodHandler) sdk.MethodHandler {
		return func(ctx context.Context, method string, req sdk.Request) (sdk.Result, error) {
			// The SDK waits for what it handles, and does not tell it that Run shall end.
			ctx, stop := context.WithCancelCause(ctx)
			defer stop(nil)
			defer context.AfterFunc(left, func() { stop(context.Cause(left)) })()
			if method != "resources/list" {
				return next(ctx, method, req)
			}
			p, _ := req.GetParams().(*sdk.ListResourcesParams)
			if p == nil {
				p = &sdk.ListResourcesParams{}
			}
			return s.list(ctx, p.Cursor)
		}
	})
	// When its input ends the SDK waits for what runs, but no client is left to wait for it.
	client := input{in, func() { end(errors.New("the MCP client has gone")) }}
	return server.Run(ctx, bounding{client, out, end})
}

// Bounds of what a client asks for at the same time. The SDK has none.
const (
	maxRequests = 64
	maxUnderWay = 2 * maxMessage // bytes of all calls that run
	maxRefused  = 4096           // refusals that the client has not read yet
)

// bounding refuses lines that are no messages and requests of a client that has too many, and drops
// notifications that the server does not know. It drops the answers to calls that the client has
// cancelled, because the client does not expect them.
type bounding struct {
	in  io.Reader
	out io.Writer
	end context.CancelCauseFunc // ends the service as if the client had gone
}

func (d bounding) Connect(context.Context) (sdk.Connection, error) {
	return &boundedClient{Connection: newLineConn(d.in, d.out), end: d.end, calls: map[jsonrpc.ID]asking{}}, nil
}

type boundedClient struct {
	sdk.Connection
	end      context.CancelCauseFunc
	mu       sync.Mutex
	calls    map[jsonrpc.ID]asking // calls that have no answer yet
	underWay int                   // bytes of calls
	unread   int                   // answers to calls that are not written yet
	begun    bool                  // whether the client has said that it is initialized
	refusals []*jsonrpc.Response   // refusals that are not written yet
	writing  bool                  // whether refusals are being written
	closed   bool
	written  sync.WaitGroup
	answer   sync.Mutex // one answer to a call is written at a time, and counted before the next
}

// asking is a call that has no answer yet.
type asking struct {
	size      int
	cancelled bool
}

func (c *boundedClient) Read(ctx context.Context) (jsonrpc.Message, error) {
	for {
		msg, err := c.Connection.Read(ctx)
		if bad := (*jsonrpc.Error)(nil); errors.As(err, &bad) {
			if err := c.refuse(context.WithoutCancel(ctx), &jsonrpc.Response{Error: bad}); err != nil {
				return nil, err
			}
			continue
		}
		r, ok := msg.(*jsonrpc.Request)
		if err != nil || !ok {
			return msg, err
		}
		if !r.IsCall() {
			if c.notified(r) {
				return r, nil
			}
			continue
		}
		answer := c.begin(r)
		if answer == nil {
			return r, nil
		}
		if err := c.refuse(context.WithoutCancel(ctx), answer); err != nil {
			return nil, err
		}
	}
}

// refuse has a refusal written, or the answer to a ping. It does not wait, because only reading further shows that the
// client has gone.
func (c *boundedClient) refuse(ctx context.Context, r *jsonrpc.Response) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.closed:
		return nil
	case len(c.refusals) >= maxRefused:
		err := fmt.Errorf("the MCP client asks and reads no answers: %d requests were refused", maxRefused)
		c.end(err)
		return err
	}
	c.refusals = append(c.refusals, r)
	if !c.writing {
		c.writing = true
		c.written.Go(func() { c.writeRefusals(ctx) })
	}
	return nil
}

func (c *boundedClient) writeRefusals(ctx context.Context) {
	for {
		c.mu.Lock()
		list := c.refusals
		c.refusals, c.writing = nil, len(list) > 0
		c.mu.Unlock()
		if len(list) == 0 {
			return
		}
		for _, r := range list {
			if c.Connection.Write(ctx, r) != nil {
				break // the reader gets the error too
			}
		}
	}
}

func (c *boundedClient) Close() error {
	c.mu.Lock()
	c.closed = true
	c.mu.Unlock()
	c.written.Wait()
	return c.Connection.Close()
}

// begin notes a call, or returns the answer that it gets at once: why it is refused, or that jp is
// there, however much is under way.
func (c *boundedClient) begin(r *jsonrpc.Request) *jsonrpc.Response {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, twice := c.calls[r.ID]; twice {
		// With its own id, the client would take this for the answer to the other request.
		return &jsonrpc.Response{Error: invalidf("id %v: a request with this id is under way", r.ID.Raw())}
	}
	switch {
	case r.Method == methodPing:
		return &jsonrpc.Response{ID: r.ID, Result: json.RawMessage("{}")}
	case len(c.calls) >= maxRequests:
		return busy(r, "%d requests are under way; wait for one of them", maxRequests)
	case c.unread > maxRequests: // the client may have read one of them already
		return busy(r, "%d answers are not read yet; read one of them", maxRequests)
	case len(c.calls) > 0 && c.underWay+len(r.Params) > maxUnderWay:
		return busy(r, "requests of %d MB are under way; wait for one of them", maxUnderWay>>20)
	}
	c.calls[r.ID] = asking{size: len(r.Params)}
	c.underWay += len(r.Params)
	return nil
}

// busy refuses a request that may be sent again later.
func busy(r *jsonrpc.Request, format string, args ...any) *jsonrpc.Response {
	return &jsonrpc.Response{ID: r.ID, Error: &jsonrpc.Error{Code: codeBusy, Message: fmt.Sprintf(format, args...)}}
}

const codeBusy = -32000

// notified notes a notification, and reports whether the server knows it.
func (c *boundedClient) notified(r *jsonrpc.Request) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch r.Method {
	case "notifications/initialized":
		first := !c.begun
		c.begun = true
		return first
	case "notifications/cancelled":
		var p struct {
			RequestID any `json:"requestId"`
		}
		if json.Unmarshal(r.Params, &p) != nil {
			return false
		}
		id, err := jsonrpc.MakeID(p.RequestID)
		if err != nil {
			return false
		}
		call, open := c.calls[id]
		if !open || call.cancelled {
			return false
		}
		call.cancelled = true
		c.calls[id] = call
		return true
	}
	return false
}

func (c *boundedClient) Write(ctx context.Context, msg jsonrpc.Message) error {
	r, ok := msg.(*jsonrpc.Response)
	if !ok {
		return c.Connection.Write(ctx, msg)
	}
	c.mu.Lock()
	call := c.calls[r.ID]
	delete(c.calls, r.ID)
	c.underWay -= call.size
	if call.cancelled {
		c.mu.Unlock()
		return nil
	}
	c.unread++
	c.mu.Unlock()
	c.answer.Lock()
	defer c.answer.Unlock()
	err := c.Connection.Write(ctx, msg)
	c.mu.Lock()
	c.unread--
	c.mu.Unlock()
	return err
}

// input reports its end.
type input struct {
	io.Reader
	ended func()
}

func (i input) Read(p []byte) (int, error) {
	n, err := i.Reader.Read(p)
	if err != nil {
		i.ended()
	}
	return n, err
}

// cacheScope says that what a person's agents said must not be cached for others.
const cacheScope = "private"

// list returns the page of texts after cursor, which is the address of the last text of the page
// before.
func (s Service) list(ctx context.Context, cursor string) (sdk.Result, error) {
	texts, err := s.Texts(ctx)
	if err != nil {
		return nil, fmt.Errorf("resources: %w", err)
	}
	if cursor != "" {
		at := slices.IndexFunc(texts, func(t Text) bool { return t.URI == cursor })
		if at < 0 {
			return nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "cursor: it leads to nothing, or not any more; list from the beginning"}
		}
		texts = texts[at+1:]
	}
	r := &sdk.ListResourcesResult{Resources: []*sdk.Resource{}, Cacheable: sdk.Cacheable{CacheScope: cacheScope}}
	if len(texts) > maxPage {
		texts = texts[:maxPage]
		r.NextCursor = texts[maxPage-1].URI
	}
	for _, t := range texts {
		r.Resources = append(r.Resources, &sdk.Resource{URI: t.URI, Name: t.Name, Title: t.Title, MIMEType: plainText})
	}
	return r, nil
}

// maxTold is how many reports of progress of a call wait for a client that does not read. What comes
// beyond that is left out.
const maxTold = 1000

// progress returns two functions for the progress of a call: tell sends some to the client, if the
// client asked for it, and told returns when everything was sent. tell never waits: who tells holds
// a slot, and other calls need that.
func progress(ctx context.Context, r *sdk.CallToolRequest) (tell func(string), told func()) {
	token := r.Params.GetProgressToken()
	if token == nil {
		return func(string) {}, func() {}
	}
	texts, over, sent := make(chan string, maxTold), make(chan struct{}), make(chan struct{})
	go func() {
		defer close(sent)
		for n := 1.0; ; n++ {
			var text string
			select {
			case text = <-texts:
			case <-over:
				select {
				case text = <-texts: // told before the end
				default:
					return
				}
			}
			_ = r.Session.NotifyProgress(ctx, &sdk.ProgressNotificationParams{ProgressToken: token, Progress: n, Message: text})
		}
	}()
	tell = func(text string) {
		select {
		case texts <- text:
		default:
		}
	}
	return tell, func() {
		close(over)
		<-sent
	}
}
